"""Constraints on replies: strict JSON Schema, how it is sent, and the check of what comes back.

strict_schema     a caller's schema -> the closed and complete one that is sent
request_fields    a schema or choices -> the fields of a request body, by the form of the server
read_object       a reply's text -> the JSON object that it is, or InvalidReplyError
ReplyCheck        every rule of the caller's own schema, on a reply
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalframe.core.schema import PARSE, RANGE
from evalframe.llm.connect import InvalidReplyError

_FENCE = re.compile(r"\A```[a-zA-Z]*\s*\n(.*)\n\s*```\Z", re.DOTALL)

# What no strict mode can express: a reply could be of a form that nobody asked for.
_IMPOSSIBLE = (
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "not",
    "prefixItems",
    "contains",
    "dependencies",
    "unevaluatedItems",
    "$dynamicRef",
)
# Left out of what is sent, since servers refuse them; replies are checked against them here.
_NOT_SENT = (
    "default",
    "examples",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "readOnly",
    "writeOnly",
    "deprecated",
    "$comment",
    "minLength",
    "maxLength",
    "$schema",
    "$id",
    "discriminator",
)
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
NAME = "verdict"


class SchemaError(ValueError):
    """A schema that strict mode cannot express; the message names the path."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema to send: objects closed and complete all the way down, `$defs` included.

    A property that the caller leaves optional is required and may be null; null is read as
    absent. The caller's schema is not changed.

    Raises:
        SchemaError: Strict mode cannot express it; names the path.
    """
    if schema.get("type") != "object":
        message = "response_format must be a JSON Schema of an object: {'type': 'object', ...}."
        raise SchemaError(message)
    sent = _strict(copy.deepcopy(dict(schema)), "")
    for key in ("$defs", "definitions"):
        if key in schema:
            named = schema[key].items()
            sent[key] = {n: _strict(copy.deepcopy(s), f"{key}.{n}") for n, s in named}
    for reference in _references(schema):
        if not resolved({"$ref": reference}, schema):
            message = f"the schema: the reference {reference!r} leads nowhere."
            raise SchemaError(message)
    return sent


def _references(schema: Any) -> Iterator[str]:
    """Every local reference; those to elsewhere have been refused."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _references(inner)
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            elif key not in ("enum", "const", "default", "examples"):
                yield from _references(inner)


def _strict(schema: Any, path: str) -> dict[str, Any]:
    where = path or "the schema"
    if not isinstance(schema, dict):
        message = f"{where}: {schema!r} is no schema; strict mode needs a type."
        raise SchemaError(message)
    for key in _IMPOSSIBLE:
        if key in schema:
            message = f"{where}: strict mode cannot express {key!r}."
            raise SchemaError(message)
    sent = {key: value for key, value in schema.items() if key not in _NOT_SENT}
    sent.pop("$defs", None)
    sent.pop("definitions", None)
    if "$ref" in sent:
        if not str(sent["$ref"]).startswith("#"):
            message = f"{where}: only references inside the schema are followed, not {sent['$ref']}"
            raise SchemaError(message)
        return {"$ref": sent["$ref"]}
    if len(sent.get("allOf", ())) == 1:
        (only,) = sent.pop("allOf")
        return _strict({**only, **sent}, path)
    if "allOf" in sent or ("oneOf" in sent and "discriminator" not in schema):
        message = f"{where}: strict mode cannot express allOf and oneOf; use anyOf."
        raise SchemaError(message)
    options = sent.pop("oneOf", None) or sent.get("anyOf")
    if options:
        sent["anyOf"] = [_strict(option, f"{path}|{i}") for i, option in enumerate(options)]
        return sent
    return _strict_by_type(sent, path, where)


def _strict_by_type(sent: dict[str, Any], path: str, where: str) -> dict[str, Any]:
    kinds = sent.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "object" in kinds:
        return _strict_object(sent, path, where)
    if "array" in kinds:
        if "items" not in sent:
            message = f"{where}: an array needs 'items' in strict mode."
            raise SchemaError(message)
        sent["items"] = _strict(sent["items"], f"{path}[]")
    if kinds == [None] and "enum" not in sent and "const" not in sent:
        message = f"{where}: strict mode needs a type; any value at all cannot be asked for."
        raise SchemaError(message)
    return sent


def _strict_object(sent: dict[str, Any], path: str, where: str) -> dict[str, Any]:
    properties = sent.get("properties") or {}
    if sent.get("additionalProperties", False) is not False or not properties:
        message = (
            f"{where}: an object with free keys cannot be asked for in strict mode (the model "
            "could only answer {}). Name its properties, or use a list of {key, value} objects."
        )
        raise SchemaError(message)
    required = sent.get("required", [])
    unknown = [name for name in required if name not in properties]
    if unknown:
        message = f"{where}: required names {unknown[0]!r}, which is no property."
        raise SchemaError(message)
    made = {}
    for name, inner in properties.items():
        strict = _strict(inner, f"{path}.{name}" if path else name)
        nullable = {"anyOf": [strict, {"type": "null"}]}
        made[name] = strict if name in required or _takes_null(inner) else nullable
    return {**sent, "properties": made, "required": list(made), "additionalProperties": False}


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(_takes_null(option) for option in schema.get("anyOf", ()))


def choice_schema(labels: Sequence[str], *, explanation: bool) -> dict[str, Any]:
    """The schema of a choice: the explanation first, so that the label follows from it."""
    properties: dict[str, Any] = {"explanation": {"type": "string"}} if explanation else {}
    properties["label"] = {"type": "string", "enum": list(labels)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def request_fields(
    form: str, schema: dict[str, Any], labels: Sequence[str] | None
) -> tuple[dict[str, Any], str | None]:
    """The constraint as fields of the request body, and a system message if it needs one.

    Args:
        form: One of `model.STRUCTURED`.
        schema: A strict schema.
        labels: The choices, if it is a choice.
    """
    if form == "json_schema":
        strict = {"name": NAME, "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": strict}}, None
    if form == "json_object":
        text = json.dumps(schema, ensure_ascii=False)
        said = f"Answer with one JSON object that fits this JSON Schema, and nothing else: {text}"
        return {"response_format": {"type": "json_object"}}, said
    if form == "tool":
        function = {"name": NAME, "strict": True, "parameters": schema}
        chosen = {"type": "function", "function": {"name": NAME}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": chosen}, None
    if form == "guided_choice":
        if labels is not None and "explanation" not in schema["properties"]:
            # The first is vLLM's name up to 0.11, the second from 0.12 on.
            return {"guided_choice": [*labels], "structured_outputs": {"choice": [*labels]}}, None
        return {"guided_json": schema, "structured_outputs": {"json": schema}}, None
    if labels is None:
        return {"json_schema": schema}, None
    return {"grammar": _grammar(labels, explanation="explanation" in schema["properties"])}, None


def _grammar(labels: Sequence[str], *, explanation: bool) -> str:
    """GBNF of llama.cpp for a choice, without white space that would cost tokens."""
    texts = [json.dumps(label, ensure_ascii=False) for label in labels]
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    chosen = " | ".join(quoted)
    first = r'"{\"explanation\": " string ", " ' if explanation else '"{" '
    string = r'string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" ["\\/bfnrt])* "\""'
    root = rf'root ::= {first}"\"label\": " ({chosen}) "}}"'
    return f"{root}\n{string}\n" if explanation else f"{root}\n"


def read_object(text: str) -> dict[str, Any]:
    """The JSON object that a reply is, as a whole; one code fence is taken off.

    Raises:
        InvalidReplyError: It is anything else (`parse`).
    """
    stripped = text.strip()
    fenced = _FENCE.match(stripped)
    try:
        found = json.loads(
            fenced[1] if fenced else stripped,
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError) as exc:
        message = f"the reply is not a JSON object: {exc}"
        raise InvalidReplyError(PARSE, message, text, ask_again=True) from None
    if not isinstance(found, dict):
        message = f"the reply is a JSON {type(found).__name__}, not an object"
        raise InvalidReplyError(PARSE, message, text, ask_again=True)
    return found


def _refuse(constant: str) -> Any:
    message = f"{constant} is not JSON"
    raise ValueError(message)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "a key is there twice: which of its values is meant cannot be told"
        raise ValueError(message)
    return found


class ReplyCheck:
    """Checks replies against the caller's own schema, in full (JSON Schema 2020-12)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Prepare the check.

        Raises:
            SchemaError: It is no valid JSON Schema.
        """
        import jsonschema
        import referencing

        self._schema = schema
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as exc:
            message = f"response_format is no valid JSON Schema: {exc.message} at {exc.json_path}"
            raise SchemaError(message) from None
        # A registry of its own: no reference is ever fetched.
        self._validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())

    def checked(self, found: dict[str, Any], text: str) -> dict[str, Any]:
        """The object without nulls that stand for absent properties.

        Raises:
            InvalidReplyError: It breaks a rule: `range` for bounds of numbers, else `parse`.
        """
        cleaned = _without_absent(found, self._schema, self._schema)
        errors = sorted(self._validator.iter_errors(cleaned), key=lambda e: e.json_path)
        if not errors:
            return dict(cleaned)
        kind = RANGE if all(map(_is_of_range, errors)) else PARSE
        message = "; ".join(f"{e.json_path}: {e.message}" for e in errors[:3])
        raise InvalidReplyError(
            kind, f"the reply breaks the schema: {message}", text, ask_again=True
        )


def _is_of_range(error: Any) -> bool:
    """Whether a number is outside its bounds, and nothing else is wrong."""
    if error.validator not in ("anyOf", "oneOf"):
        return error.validator in _BOUNDS
    options: dict[int, list[Any]] = {}
    for inner in error.context:
        options.setdefault(inner.schema_path[0], []).append(inner)
    return any(all(map(_is_of_range, inner)) for inner in options.values())


def _without_absent(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = resolved(schema, root)
    if isinstance(value, list):
        return [_without_absent(item, schema.get("items", {}), root) for item in value]
    if not isinstance(value, dict):
        return value
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if "properties" in (option := resolved(option, root)) and value.keys() <= set(
            option["properties"]
        ):
            schema = option
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _without_absent(item, properties.get(name, {}), root)
        for name, item in value.items()
        if not (
            item is None
            and name in properties
            and name not in required
            and not _takes_null(resolved(properties[name], root))
        )
    }


def resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a local reference names, or the schema itself."""
    for _ in range(100):
        if not isinstance(schema, dict):
            return {}
        if "$ref" in schema:
            schema = _named(schema["$ref"], root)
        elif len(schema.get("allOf", ())) == 1:
            # How pydantic wrote a reference beside a default until 2.8.
            schema = {**schema["allOf"][0], **{k: v for k, v in schema.items() if k != "allOf"}}
        else:
            return schema
    return {}


def _named(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in _parts(reference):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return found


def _parts(reference: str) -> Iterator[str]:
    for part in reference.removeprefix("#").split("/"):
        if part:
            yield part.replace("~1", "/").replace("~0", "~")
