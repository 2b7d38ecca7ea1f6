"""A script that answers as a well-behaved model would: with what the request asks for.

obedient   the script
instance   a value that fits a JSON Schema; the same for the same seed
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.testing.replies import Reply, reply, tool_call
from evalframe.testing.request import Request

_DEEP = 6
_TEXT = "Because of what the prompt says."


def obedient(request: Request) -> Reply:
    """A valid reply to any constraint but a grammar; the same for the same prompt.

    A schema in the system message counts where the request holds none elsewhere. A request
    without any constraint gets a sentence.

    Args:
        request: What was asked.

    Examples:
        >>> from evalframe import testing
        >>> schema = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}}
        >>> body = {"response_format": {"json_schema": {"schema": schema}}}
        >>> asked = testing.Request(path="/", headers={}, body=body, time=0.0)
        >>> testing.obedient(asked).body["choices"][0]["message"]["content"]
        '{"label": "yes"}'
    """
    seed = request.prompt
    if request.choices:
        return reply(_one(request.choices, seed))
    schema = request.schema
    if schema is None:
        schema = _schema_in(request.system)
    if schema is None:
        return reply(_TEXT)
    value = instance(schema, seed)
    return tool_call(request.tool["name"], value) if request.tool else reply(value)


def instance(schema: Mapping[str, Any], seed: str) -> Any:
    """A value that fits the schema, patterns and formats aside; the same for the same seed."""
    return _fill(schema, schema, seed, 0)


def _fill(schema: Any, root: Mapping[str, Any], seed: str, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return _TEXT
    if "$ref" in schema:
        return _fill(_resolved(schema["$ref"], root), root, seed, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _one(schema["enum"], seed)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _fill(_option(options, seed, depth), root, seed, depth)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = "null" if depth > _DEEP and "null" in kind else _one(kind, seed)
    if kind == "object":
        named = schema.get("properties", {}).items()
        return {key: _fill(sub, root, seed + key, depth + 1) for key, sub in named}
    if kind == "array":
        length = schema.get("minItems", 0 if depth > _DEEP else 1)
        items = schema.get("items", {})
        return [_fill(items, root, f"{seed}{n}", depth + 1) for n in range(length)]
    return _scalar(kind, schema, seed)


def _scalar(kind: str, schema: Mapping[str, Any], seed: str) -> Any:
    match kind:
        case "null":
            return None
        case "boolean":
            return bool(_number(seed) % 2)
        case "integer":
            low = math.ceil(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
            high = math.floor(schema.get("maximum", schema.get("exclusiveMaximum", low + 11) - 1))
            return low + _number(seed) % (high - low + 1)
        case "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + 1))
            # Never a bound, which may be excluded.
            return low + (high - low) * (1 + _number(seed) % 99) / 100
        case _:
            text = _TEXT.ljust(schema.get("minLength", 0), ".")
            return text[: schema.get("maxLength")]


def _number(seed: str) -> int:
    return zlib.crc32(seed.encode("utf-8", "surrogatepass"))


def _one(options: Sequence[Any], seed: str) -> Any:
    return options[_number(seed) % len(options)]


def _option(options: Sequence[Any], seed: str, depth: int) -> Any:
    nulls = [option for option in options if option == {"type": "null"}]
    # A schema that refers to itself ends somewhere.
    return nulls[0] if nulls and depth > _DEEP else _one(options, seed)


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _schema_in(text: str) -> Mapping[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
