"""The one border between what users return and what a cell is.

Owns   the table of accepted returns, their checks, and the messages when they fail.
Leaves whole columns, given or made, to bulk.py.

normalize       one returned value -> Cell; a mistake is a failed cell, never an exception
"""

from __future__ import annotations

import inspect
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import json_text, schema
from evalframe.core.nested import NotPlainError, Shape, plain, without_surrogates
from evalframe.core.records import Cell, EvaluationResult, Skip

# A score this close to a bound is the bound: it is rounding, not a mistake.
BOUND_TOLERANCE = 1e-9

NOTHING = "returned None"

_NUMBERS = (int, float, Decimal, np.integer, np.floating)
_BOOLS = (bool, np.bool_)
# Returned values that nobody can change any more; a tuple holds such values, or is a mistake.
UNCHANGEABLE = frozenset({bool, int, float, str, tuple, type(None), np.float64, np.bool_})

_RESULT_KEYS = (schema.LABEL, schema.SCORE, schema.EXPLANATION, schema.METADATA)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 120
_repr.maxdict = _repr.maxlist = _repr.maxtuple = 6


@dataclass(frozen=True, slots=True)
class Rules:
    """What an evaluator declares about its results."""

    low: float = 0.0
    high: float = 1.0
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The extras' columns: name -> Arrow type."""
        return {name: schema.EXTRA_TYPES[kind] for name, kind in self.extras.items()}


class InvalidResultError(ValueError):
    """A returned value that is no verdict; becomes a failed cell."""

    def __init__(self, message: str, kind: str = schema.INVALID_RESULT) -> None:
        """Keep the kind of failure."""
        super().__init__(message)
        self.kind = kind


def normalize(value: Any, rules: Rules) -> Cell:
    """The cell that a returned value stands for.

    Args:
        value: What the evaluator returned.
        rules: Its score range and extras.

    Returns:
        A valid cell, a skipped one, or one that failed with `invalid_result` or `range`.
    """
    try:
        return _cell(value, rules)
    except InvalidResultError as exc:
        return Cell(error=schema.error_text(exc.kind, str(exc)))


def skipped(reason: str) -> Cell:
    """A cell without a verdict."""
    return Cell(error=schema.error_text(schema.SKIPPED, text_of(reason)))


def describe(value: Any) -> str:
    """The value and its type for a message; never fails, holds no memory address."""
    try:
        shown = _ADDRESS.sub("", _repr.repr(value))
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise anything
        shown = "a value whose repr fails"
    return f"{shown} ({type(value).__name__})"


def _is_number(value: Any) -> bool:
    # NumPy counts a timedelta64 among its integers.
    return isinstance(value, _NUMBERS) and not isinstance(value, np.timedelta64)


def _keys(names: list[Any]) -> str:
    return ", ".join(repr(name) if isinstance(name, str) else describe(name) for name in names)


def _cell(value: Any, rules: Rules) -> Cell:
    if type(value) is Cell:
        return _settled(value, rules)
    # bool first: isinstance(True, int) holds, and a pass would become a bare score.
    if isinstance(value, _BOOLS):
        return _parts(rules, score=value)
    if _is_number(value):
        return _parts(rules, score=value)
    if isinstance(value, str):
        return _parts(rules, label=value)
    if value is None or value is pd.NA:
        return skipped(NOTHING)
    if isinstance(value, Skip):
        return skipped(value.reason)
    if isinstance(value, tuple):
        return _from_tuple(value, rules)
    if isinstance(value, EvaluationResult):
        return _from_result(value, rules)
    if isinstance(value, Mapping):
        return _from_dict(value, rules)
    raise InvalidResultError(_refusal(value))


def _settled(cell: Cell, rules: Rules) -> Cell:
    """A cell that a built-in evaluator made, or a call that raised: only its range is open."""
    if cell.score is not None and not rules.low <= cell.score <= rules.high:
        raise InvalidResultError(range_message(cell.score, rules), schema.RANGE)
    return cell


def _refusal(value: Any) -> str:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        return "returned an awaitable from a plain function; define it with 'async def'"
    if inspect.isgenerator(value):
        return "returned a generator; return the verdict itself"
    hint = " (a tuple, not a list, holds label, score and explanation)"
    return (
        f"returned {describe(value)}; return a bool, a number, text, a tuple, a dict, an "
        f"EvaluationResult, None or ef.skip('why'){hint if isinstance(value, list) else ''}"
    )


def _from_tuple(value: tuple[Any, ...], rules: Rules) -> Cell:
    parts = tuple(None if part is pd.NA else part for part in value)
    # Trailing text without a verdict is the reason for having none.
    if (
        len(parts) in (2, 3)
        and isinstance(parts[-1], str)
        and not any(part is not None for part in parts[:-1])
    ):
        return skipped(parts[-1])
    names = _TUPLES.get("".join(map(_letter, parts)))
    if names is None:
        msg = (
            f"returned the tuple {describe(value)}; accepted are (score, explanation), "
            "(label, explanation), (label, score), (label, score, explanation) and "
            "(score, label, explanation)"
        )
        raise InvalidResultError(msg)
    return _parts(rules, **dict(zip(names, parts, strict=True)))


def _letter(part: Any) -> str:
    if part is None:
        return "-"
    if isinstance(part, str):
        return "t"
    return "n" if isinstance(part, _BOOLS) or _is_number(part) else "?"


_TUPLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("nt", "n-"), ("score", "explanation")),
    **dict.fromkeys(("tt", "t-"), ("label", "explanation")),
    **dict.fromkeys(("tn", "-n"), ("label", "score")),
    **dict.fromkeys(("tnt", "tn-", "-nt", "-n-"), ("label", "score", "explanation")),
    **dict.fromkeys(("ntt", "nt-", "n-t", "n--"), ("score", "label", "explanation")),
    **dict.fromkeys(("t-t", "t--"), ("label", "score", "explanation")),
}


def _from_result(value: EvaluationResult, rules: Rules) -> Cell:
    named = {"label": value.label, "score": value.score, "explanation": value.explanation}
    return _parts(rules, **named, metadata=value.metadata, extras=value.extras)


def _from_dict(value: Mapping[Any, Any], rules: Rules) -> Cell:
    unknown = [key for key in value if key not in _RESULT_KEYS and key not in rules.extras]
    if unknown:
        msg = (
            f"returned a dict with {_keys(unknown)}; its keys may be "
            f"{', '.join(_RESULT_KEYS)} and declared extras "
            f"({', '.join(rules.extras) or 'none'}): @ef.evaluator(extras={{...}})"
        )
        raise InvalidResultError(msg)
    named = {key: value.get(key) for key in _RESULT_KEYS}
    extras = {key: value[key] for key in rules.extras if key in value}
    return _parts(rules, **named, extras=extras)


def _parts(
    rules: Rules,
    *,
    label: Any = None,
    score: Any = None,
    explanation: Any = None,
    metadata: Any = None,
    extras: Mapping[str, Any] | None = None,
) -> Cell:
    label = None if label is pd.NA else label
    score = None if score is pd.NA else score
    if label is None and score is None:
        message = "returned neither a label nor a score; one of them must be there"
        raise InvalidResultError(message)
    if isinstance(score, _BOOLS) and label is None:
        label = str(bool(score))
    return Cell(
        label=_text("label", label),
        score=None if score is None else _score(score, rules),
        explanation=_text("explanation", explanation),
        metadata=_metadata(metadata),
        extras=_extras(extras, rules),
    )


def _text(part: str, value: Any) -> str | None:
    if value is None or value is pd.NA:
        return None
    if not isinstance(value, str):
        message = f"returned the {part} {describe(value)}; it must be text"
        raise InvalidResultError(message)
    return text_of(value)


def text_of(value: str) -> str:
    """The text as plain `str` that Arrow can hold."""
    text = str.__str__(value)
    return text if text.isascii() else str(without_surrogates(text))


def _score(value: Any, rules: Rules) -> float:
    if not (isinstance(value, _BOOLS) or _is_number(value)):
        message = f"returned the score {describe(value)}; it must be a number or a bool"
        raise InvalidResultError(message)
    number = _float(value)
    if number is None or not math.isfinite(number):
        message = f"returned the score {describe(value)}; it must be a finite number"
        raise InvalidResultError(message)
    if rules.low <= number <= rules.high:
        return number
    return near_bound(number, rules)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (OverflowError, ValueError):  # beyond doubles, or a Decimal that signals
        return None


def near_bound(number: float, rules: Rules) -> float:
    """The bound that a number outside the range is rounding-close to.

    Raises:
        InvalidResultError: It is really outside.
    """
    for bound in (rules.low, rules.high):
        if abs(number - bound) <= BOUND_TOLERANCE:
            return float(bound)
    raise InvalidResultError(range_message(number, rules), schema.RANGE)


def range_message(number: float, rules: Rules) -> str:
    """What to say of a score outside the declared range."""
    return (
        f"returned the score {number!r}, outside [{rules.low:g}, {rules.high:g}]; rescale it or "
        "declare score_range="
    )


def _metadata(value: Any) -> str | None:
    if value is None or value is pd.NA:
        return None
    if not isinstance(value, Mapping):
        message = f"returned the metadata {describe(value)}; it must be a dict"
        raise InvalidResultError(message)
    return json_of("metadata", dict(value))


def json_of(part: str, value: Any) -> str:
    """The value as JSON text.

    Raises:
        InvalidResultError: It has no JSON form.
    """
    try:
        Shape().add(value)
        return text_of(json_text.encode(plain(value)))
    except (NotPlainError, TypeError, ValueError, RecursionError):
        message = f"returned the {part} {describe(value)}, which has no JSON form"
        raise InvalidResultError(message) from None


def _extras(given: Mapping[str, Any] | None, rules: Rules) -> tuple[Any, ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        message = f"returned the extras {describe(given)}; they must be a dict"
        raise InvalidResultError(message)
    if not given:
        return ()
    unknown = [name for name in given if name not in rules.extras]
    if unknown:
        message = (
            f"returned the extras {_keys(unknown)}, which are not declared: "
            "@ef.evaluator(extras={...})"
        )
        raise InvalidResultError(message)
    return tuple(_extra(name, given.get(name), kind) for name, kind in rules.extras.items())


def _extra(name: str, value: Any, kind: Any) -> Any:
    if value is None or value is pd.NA:
        return None
    if kind == "json":
        return json_of(f"extra {name!r}", value)
    is_bool = isinstance(value, _BOOLS)
    fits = {
        str: isinstance(value, str),
        bool: is_bool,
        int: isinstance(value, (int, np.integer)) and _is_number(value) and not is_bool,
        float: _is_number(value) and not is_bool,
    }[kind]
    if not fits:
        message = f"returned the extra {name!r} as {describe(value)}; declared is {kind.__name__}"
        raise InvalidResultError(message)
    if kind is int and not -(2**63) <= value < 2**63:
        message = f"returned the extra {name!r} as {describe(value)}; int goes up to 64 bits"
        raise InvalidResultError(message)
    if kind is float:
        number = _float(value)
        if number is None or not math.isfinite(number):
            message = (
                f"returned the extra {name!r} as {describe(value)}; it must be a finite number"
            )
            raise InvalidResultError(message)
        return number
    return text_of(value) if isinstance(value, str) else kind(value)
