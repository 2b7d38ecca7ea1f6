"""From a model's reply to the parts of a cell.

ChoiceVerdict      one of fixed labels, with its score
ResponseVerdict    a reply of the caller's own schema: each property a column
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ValidationError

from evalframe.core import schema
from evalframe.core.errors import listed
from evalframe.core.json_text import encode
from evalframe.evaluators.confidence import Confidence
from evalframe.evaluators.normalize import text_of
from evalframe.llm.chat import ChatReply
from evalframe.llm.connect import InvalidReplyError, check_whole
from evalframe.llm.structured import (
    ReplyCheck,
    choice_schema,
    read_object,
    resolved,
    strict_schema,
)

PARTS = (schema.LABEL, schema.SCORE, schema.EXPLANATION)
_ELSE = {schema.LABEL: ("category",), schema.SCORE: (), schema.EXPLANATION: ("reason", "reasoning")}
_BEYOND = 1 << 63
_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


class Verdict(NamedTuple):
    """The parts of a valid reply."""

    label: str | None = None
    score: float | None = None
    explanation: str | None = None
    raw_score: float | None = None
    extras: tuple[Any, ...] = ()
    sure: Confidence | None = None


def as_read(verdict: Verdict) -> Verdict:
    """The verdict of a judge that has nothing to add of the row."""
    return verdict


class Reading(Protocol):
    """How a judge reads replies.

    Attributes:
        schema: The strict schema that is sent.
        labels: The choices, None where a reply is an object of the schema.
    """

    schema: dict[str, Any]
    labels: list[str] | None

    def read(self, text: str) -> Any:
        """What a reply says: all that its verdict is made of.

        Raises:
            InvalidReplyError: It is not valid as a whole.
        """
        ...


def answered(reply: ChatReply) -> str:
    """The text of a reply that is an answer at all.

    Raises:
        InvalidReplyError: It was refused, filtered, cut off, or is empty.
    """
    check_whole(reply)
    if not reply.text or not reply.text.strip():
        raise InvalidReplyError(schema.PARSE, "the reply is empty", reply.text, ask_again=True)
    return reply.text


class ChoiceVerdict:
    """One of fixed labels."""

    has_raw_score = False

    def __init__(self, choices: Any, *, explanation: bool) -> None:
        """Check the choices.

        Raises:
            ValueError: They are not distinct texts, or a score is no number.
        """
        problem = _choice_problem(choices)
        if problem:
            message = f"choices: {problem}"
            raise ValueError(message)
        labels = list(choices)
        scores = dict(choices) if isinstance(choices, Mapping) else dict.fromkeys(labels)
        self.labels: list[str] | None = labels
        self.scores: dict[str, float | None] = scores
        self.extras: dict[str, Any] = {}
        self.schema = choice_schema(labels, explanation=explanation)
        self._check = ReplyCheck(self.schema)

    def read(self, text: str) -> Verdict:
        """The verdict of a reply: the whole of it must be it, as JSON or as one label."""
        labels = self.labels or []
        plain = text.strip().casefold()
        for label in labels:
            if plain == label.strip().casefold():
                return Verdict(label, self.scores[label])
        try:
            found = read_object(text)
            if not self._is_plain(found):
                found = self._check.checked(found, text)
        except InvalidReplyError as exc:
            message = f"the reply is not one of the choices ({listed(labels)}): {exc}"
            raise InvalidReplyError(schema.PARSE, message, text, ask_again=True) from None
        label = found["label"]
        return Verdict(label, self.scores[label], found.get("explanation"))

    def _is_plain(self, found: dict[str, Any]) -> bool:
        """Whether it fits the schema, by hand: the usual case, at a tenth of the time."""
        return (
            found.keys() == self.schema["properties"].keys()
            and isinstance(found["label"], str)
            and found["label"] in self.scores
            and isinstance(found.get("explanation", ""), str)
        )


def _choice_problem(given: Any) -> str | None:
    if not isinstance(given, (list, tuple, Mapping)) or not given:
        return f"give a list of labels, or label -> score, not {given!r}."
    for label in given:
        if not isinstance(label, str) or not label.strip():
            return f"a label must be text, not {label!r} (in YAML, quote 'yes' and 'no')."
    if len({label.strip().casefold() for label in given}) < len(given):
        return f"labels must differ by more than case: {listed(given)}."
    if isinstance(given, Mapping):
        for label, score in given.items():
            number = isinstance(score, (int, float)) and not isinstance(score, bool)
            if not number or not math.isfinite(score):
                return f"the score of {label!r} must be a number, not {score!r}."
    return None


class ResponseVerdict:
    """A reply of the caller's own schema."""

    labels: list[str] | None = None

    def __init__(
        self,
        response_format: Any,
        *,
        fields: Mapping[str, str] | None,
        score_range: tuple[float, float] | None,
    ) -> None:
        """Check the schema, and decide which property is what.

        Args:
            response_format: A JSON Schema object, or a pydantic model class.
            fields: Part (label, score, explanation) -> property.
            score_range: Range of the score, as the user gave it.

        Raises:
            ValueError: The schema cannot be asked for, or a part not be filled.
            TypeError: It is neither a schema nor a model.
        """
        self._model: type[BaseModel] | None = None
        if isinstance(response_format, type) and issubclass(response_format, BaseModel):
            self._model = response_format
            response_format = response_format.model_json_schema()
        if not isinstance(response_format, Mapping):
            message = (
                f"response_format must be a JSON Schema or a model class, not {response_format!r}."
            )
            raise TypeError(message)
        # A copy: what its owner goes on to change must not change what replies are read by.
        response_format = copy.deepcopy(dict(response_format))
        self.source: dict[str, Any] = response_format
        self.schema = strict_schema(response_format)
        self._check = ReplyCheck(response_format)
        properties = response_format["properties"]
        taken = [n for n in properties if n in schema.RESERVED and n not in PARTS]
        if taken:
            message = f"response_format: {listed(taken)} are names of columns every judge has."
            raise ValueError(message)
        self.fields = _filled(properties, fields or {}, self._kinds(properties))
        self.extras = {
            name: _type_of(inner, response_format)
            for name, inner in properties.items()
            if name not in PARTS
        }
        self._bounds = self._score_bounds(score_range)
        self._range = score_range
        self.has_raw_score = self._bounds is not None

    def _kinds(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _type_of(inner, self.source) for name, inner in properties.items()}

    def _score_bounds(self, score_range: tuple[float, float] | None) -> tuple[float, float] | None:
        """The bounds to rescale from, None where the score stays as it is."""
        for part in (schema.LABEL, schema.EXPLANATION):
            self._must_be(part, str)
        name = self.fields.get(schema.SCORE)
        if name is None:
            return None
        inner = _not_null(self.source["properties"][name], self.source)
        kind = _type_of(inner, self.source)
        if kind is bool:
            if score_range is not None and (score_range[0] > 0 or score_range[1] < 1):
                message = f"the score {name!r} is a boolean, 0 or 1: score_range must hold both."
                raise ValueError(message)
            return None
        self._must_be(schema.SCORE, int, float)
        low = inner.get("minimum", inner.get("exclusiveMinimum"))
        high = inner.get("maximum", inner.get("exclusiveMaximum"))
        if score_range is not None:
            return None
        if low is None or high is None or not low < high:
            message = (
                f"the score {name!r} has no minimum and maximum, so it cannot be rescaled to "
                "[0, 1]. Give both in the schema, or score_range=(lowest, highest)."
            )
            raise ValueError(message)
        return float(low), float(high)

    def _must_be(self, part: str, *kinds: type) -> None:
        name = self.fields.get(part)
        if name is None:
            return
        kind = _type_of(self.source["properties"][name], self.source)
        if kind not in kinds:
            wanted = " or ".join(k.__name__ for k in kinds)
            message = f"the property {name!r} cannot fill the {part}: it must be {wanted}."
            raise ValueError(message)

    def read(self, text: str) -> Verdict:
        """The verdict of a reply that fits the schema in full."""
        found = self._check.checked(read_object(text), text)
        if self._model is not None:
            try:
                self._model.model_validate(found)
            except ValidationError as exc:
                first = exc.errors()[0]
                message = f"the reply fails the model: {first['msg']} at {first['loc']}"
                raise InvalidReplyError(schema.PARSE, message, text, ask_again=True) from None
        label = self._part(found, schema.LABEL)
        score = self._part(found, schema.SCORE)
        raw = None
        if isinstance(score, bool):
            label = str(score) if label is None else label
            score = float(score)
        elif score is not None:
            score = _number(score, self.fields[schema.SCORE], text)
            if self._bounds is not None:
                low, high = self._bounds
                raw, score = score, (score - low) / (high - low)
            self._check_range(score, text)
        extras = tuple(
            _value(found.get(name), kind, name, text) for name, kind in self.extras.items()
        )
        return Verdict(label, score, self._part(found, schema.EXPLANATION), raw, extras)

    def _part(self, found: Mapping[str, Any], part: str) -> Any:
        name = self.fields.get(part)
        return None if name is None else found.get(name)

    def _check_range(self, score: float, text: str) -> None:
        low, high = (0.0, 1.0) if self._range is None else self._range
        if not low <= score <= high:
            message = f"the score {score:g} is outside [{low:g}, {high:g}]"
            raise InvalidReplyError(schema.RANGE, message, text, ask_again=True)


def _filled(
    properties: Mapping[str, Any], fields: Mapping[str, str], kinds: Mapping[str, Any]
) -> dict[str, str]:
    """Part -> the property that fills it."""
    if not isinstance(fields, Mapping):
        message = f"fields must map {listed(PARTS)} to properties, not {fields!r}."
        raise TypeError(message)
    unknown = [part for part in fields if part not in PARTS]
    absent = [name for name in fields.values() if name not in properties]
    if unknown or absent:
        wrong = f"{listed(unknown)} is no part" if unknown else f"no property {listed(absent)}"
        message = f"fields: {wrong}; it maps {listed(PARTS)} to properties ({listed(properties)})."
        raise ValueError(message)
    lost = [p for p, name in fields.items() if p in properties and name != p]
    if lost:
        message = (
            f"fields: the property {lost[0]!r} would be in no column, since {fields[lost[0]]!r} "
            f"fills the {lost[0]}. Rename the property."
        )
        raise ValueError(message)
    filled = {}
    for part in PARTS:
        # A name that only suggests the part must be of its type; else it is an ordinary extra.
        suggested = [name for name in _ELSE[part] if kinds.get(name) is str]
        names = (fields.get(part), part, *suggested)
        found = next((name for name in names if name in properties), None)
        if found is not None:
            filled[part] = found
    return filled


def _not_null(inner: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without references, and of an optional value what it is where it is there."""
    inner = resolved(inner, root)
    options = [resolved(option, root) for option in inner.get("anyOf", ())]
    options = [option for option in options if option.get("type") != "null"]
    return _not_null(options[0], root) if len(options) == 1 else inner


def _type_of(inner: Any, root: Mapping[str, Any]) -> Any:
    """The type of a property's column."""
    inner = _not_null(inner, root)
    kinds = inner.get("type")
    kinds = [k for k in (kinds if isinstance(kinds, list) else [kinds]) if k != "null"]
    values = inner.get("enum", [inner["const"]] if "const" in inner else [])
    if kinds == [None] and values and all(isinstance(v, str) for v in values):
        return str
    return _TYPES.get(kinds[0], "json") if len(kinds) == 1 else "json"


def _value(value: Any, kind: Any, name: str, text: str) -> Any:
    """A property as its column holds it."""
    if value is None:
        return None
    if kind == "json":
        return text_of(encode(value))
    if kind is float:
        return _number(value, name, text)
    if kind is int:
        if not -_BEYOND <= value < _BEYOND:
            message = f"{name!r} does not fit into 64 bits: {str(value)[:40]}"
            raise InvalidReplyError(schema.RANGE, message, text, ask_again=True)
        return int(value)
    return text_of(value) if kind is str else value


def _number(value: float, name: str, text: str) -> float:
    """The number, where a column can hold it."""
    if abs(value) > sys.float_info.max:
        message = f"{name!r} is beyond any double: {str(value)[:40]}"
        raise InvalidReplyError(schema.RANGE, message, text, ask_again=True)
    return float(value)
