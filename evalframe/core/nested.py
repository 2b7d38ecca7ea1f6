"""Values of any shape, kept without loss.

Owns   what counts as a value, its plain Python form, and the decision how a column is stored.
Leaves the JSON text itself to json_text.py and whole columns to columns.py.

plain        any accepted value -> fresh plain Python value
Shape        what one walk over a column's values finds out
arrow_type   Shape -> the Arrow type that keeps every value, or None for JSON text
"""

from __future__ import annotations

import dataclasses
import enum
import re
import uuid
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

ATOMS = frozenset(
    {type(None), bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, uuid.UUID}
)

_INT64 = range(-(2**63), 2**63)
# Deeper values would need more of Python's stack than a caller may have left.
_DEEPEST = 100
_INT64_MICROSECOND_DAYS = 106_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "�"

_NATIVE_ATOMS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.large_string(),
    "bytes": pa.large_binary(),
    "date": pa.date32(),
}
_NATIVE_AT_TOP: dict[str, pa.DataType] = {
    "datetime": pa.timestamp("us"),
    "time": pa.time64("us"),
    "timedelta": pa.duration("us"),
}


_ADVICE = (
    "Use None, bool, int, float, str, bytes, dates and times, Decimal, UUID, and lists, tuples "
    "and dicts of them (a set: its sorted list; an object: a dict or text)."
)


class NotPlainError(TypeError):
    """A value that has no plain Python form; `where` is the path to it inside its cell."""

    def __init__(self, what: str, where: str = "", advice: str = _ADVICE) -> None:
        """Keep what was found, where, and what to do about it."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice


def plain(value: Any) -> Any:
    """A fresh plain Python value equal to `value`: no part of it is shared but immutable ones.

    Raises:
        NotPlainError: The value, or a part of it, has no plain form.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is dict:
        return {key: plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if kind is tuple:
        return tuple([plain(item) for item in value])
    return plain(lowered(value))


def lowered(value: Any) -> Any:
    """One level of `value` as plain Python; its parts may still need it.

    Raises:
        NotPlainError: There is no plain form of this type.
    """
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, enum.Enum) and not isinstance(value, (str, int, float)):
        what = f"an enum member ({value!r})"
        raise NotPlainError(what)
    for base in (str, int, float, dict, list, tuple, bytes):
        if isinstance(value, base):
            return _as_base(value, base)
    if isinstance(value, datetime):
        return _plain_datetime(value)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_numpy(value)
    return _from_object(value)


def _from_object(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    article = "an" if type(value).__name__[0].lower() in "aeiou" else "a"
    what = f"{article} {type(value).__qualname__}"
    raise NotPlainError(what)


def _as_base(value: Any, base: type) -> Any:
    # The base's own method: a subclass may print or convert itself differently.
    if base is str:
        return str.__str__(value)
    if base is int:
        return int.__int__(value)
    if base is float:
        return float.__float__(value)
    if base is dict:
        return dict(dict.items(value))
    if base is list:
        return list(list.__iter__(value))
    if base is tuple:
        return tuple(tuple.__iter__(value))
    return bytes.__getitem__(value, slice(None))


def _plain_datetime(value: datetime) -> datetime:
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    clock = (value.hour, value.minute, value.second, value.microsecond)
    day = (value.year, value.month, value.day)
    return datetime(*day, *clock, tzinfo=value.tzinfo, fold=value.fold)


def _from_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return value[()]
        # Times, objects and rows are lowered one by one: tolist() would make them integers.
        return list(value) if value.dtype.kind in "OmMV" or value.ndim > 1 else value.tolist()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _from_numpy_time(value)
    item = value.item()
    if isinstance(item, np.generic):  # longdouble has no Python twin: item() is itself
        return _from_object(value) if isinstance(item, np.complexfloating) else float(item)
    return item


def _from_numpy_time(value: np.datetime64 | np.timedelta64) -> datetime | timedelta | None:
    if np.isnat(value):
        return None
    try:
        if isinstance(value, np.datetime64):
            return pd.Timestamp(value).to_pydatetime(warn=False)
        return pd.Timedelta(value).to_pytimedelta()
    except (ValueError, OverflowError):
        what = f"{value!r}, which is beyond Python's dates and times,"
        raise NotPlainError(what) from None


def is_null(value: Any) -> bool:
    """Whether a whole cell is missing: None, NaN, pd.NA or NaT."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)  # noqa: PLR0124 - only NaN differs from itself
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


class Shape:
    """What a walk over values finds out; feed it with `add`, one value at a time.

    Attributes:
        kinds: Names of the Python types seen here.
        wide: Whether some number or time does not fit the Arrow type of its kind.
        tz: Zones of the datetimes seen here, None for naive ones.
        surrogates: Whether some text holds a lone surrogate.
    """

    __slots__ = ("fields", "item", "keys", "kinds", "ragged", "surrogates", "tz", "wide")

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.kinds: set[str] = set()
        self.item: Shape | None = None
        self.keys: tuple[str, ...] | None = None
        self.fields: dict[str, Shape] = {}
        self.ragged = False
        self.wide = False
        self.surrogates = False
        self.tz: set[str | None] = set()

    def add(self, value: Any) -> None:
        """Take one value (None for null) into account.

        Raises:
            NotPlainError: The value, or a part of it, cannot be kept; or one field holds
                datetimes with and without a zone.
        """
        self._walk(value, "", self, 0)

    def _walk(self, value: Any, where: str, root: Shape, depth: int) -> None:
        if depth > _DEEPEST:
            what = f"a value nested deeper than {_DEEPEST} levels, or inside itself,"
            raise NotPlainError(what)
        kind = type(value)
        if kind is str:
            self.kinds.add("str")
            if has_surrogate(value):
                root.surrogates = True
        elif kind is dict:
            self._walk_dict(value, where, root, depth)
        elif kind is list or kind is tuple:
            self.kinds.add(kind.__name__)
            if self.item is None:
                self.item = Shape()
            for item in value:
                self.item._walk(item, where + "[]", root, depth + 1)  # noqa: SLF001 - same class
        elif kind in ATOMS:
            self._walk_atom(value, kind, where)
        else:
            _refuse_nanoseconds(value, where)
            try:
                value = lowered(value)
            except NotPlainError as exc:
                raise NotPlainError(exc.what, where, exc.advice) from None
            self._walk(value, where, root, depth)

    def _walk_dict(self, value: dict[Any, Any], where: str, root: Shape, depth: int) -> None:
        self.kinds.add("dict")
        keys = tuple(value)
        if self.keys is None:
            self.keys = keys
        elif self.keys != keys:
            self.ragged = True
        for key, item in value.items():
            if not isinstance(key, str):
                what = f"a dict with the key {key!r}, which is no text,"
                raise NotPlainError(what, where)
            if has_surrogate(key):
                root.surrogates = True
            field = self.fields.get(key)
            if field is None:
                field = self.fields[key] = Shape()
            field._walk(item, f"{where}.{key}", root, depth + 1)

    def _walk_atom(self, value: Any, kind: type, where: str) -> None:
        self.kinds.add(kind.__name__)
        if kind is int and value not in _INT64:
            self.wide = True
        elif kind is time:
            self.wide |= value.tzinfo is not None
        elif kind is timedelta:
            self.wide |= abs(value.days) > _INT64_MICROSECOND_DAYS
        elif kind is datetime:
            self.tz.add(zone_name(value))
            self.wide |= value.year in (MINYEAR, MAXYEAR) and not _has_instant(value)
            if None in self.tz and len(self.tz) > 1:
                what = "a datetime without a zone in a field that also holds ones with a zone"
                raise NotPlainError(what, where, "Give all of them a zone, or none.")


def _refuse_nanoseconds(value: Any, where: str) -> None:
    """Python's times count microseconds: what is finer would be lost in silence."""
    if isinstance(value, (np.datetime64, np.timedelta64)) and not np.isnat(value):
        value = pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    if isinstance(value, pd.Timestamp):
        finer = value.nanosecond
    else:
        finer = value.nanoseconds if isinstance(value, pd.Timedelta) else 0
    if value is not pd.NaT and finer:
        what = f"a time finer than a microsecond ({value})"
        advice = "Round it, or keep a column of such times as datetime64[ns] or timedelta64[ns]."
        raise NotPlainError(what, where, advice)


def _has_instant(value: datetime) -> bool:
    """Whether a datetime with a zone can be told in UTC, in which Arrow keeps it."""
    if value.tzinfo is not None:
        try:
            value.astimezone(UTC)
        except OverflowError:
            return False
    return True


def zone_key(zone: tzinfo | None) -> str | None:
    """The zone's name in the tz database; None where it has none."""
    named = getattr(zone, "key", None) or getattr(zone, "zone", None)
    return named if isinstance(named, str) else None


def zone_name(value: datetime) -> str | None:
    """The zone as an Arrow type spells it (`Europe/Berlin`, `+02:00`), None for a naive one."""
    if value.tzinfo is None:
        return None
    named = zone_key(value.tzinfo)
    if named is not None:
        return named
    offset = value.utcoffset()
    if not offset:
        return "UTC"
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def arrow_type(shape: Shape, *, top: bool = True) -> pa.DataType | None:
    """The Arrow type that gives every value back equal and of its own type.

    Returns:
        None where JSON text is needed: mixed types, keys that differ, empty dicts, tuples,
        integers beyond 64 bits, decimals, times inside other values, and nothing but nulls.
    """
    kinds = shape.kinds - {"NoneType"}
    if len(kinds) != 1 or shape.wide:
        return None
    (kind,) = kinds
    if kind == "list":
        item = None if shape.item is None else arrow_type(shape.item, top=False)
        return None if item is None else pa.list_(item)
    if kind == "dict":
        return _struct_type(shape)
    if top and kind == "datetime":
        return pa.timestamp("us", tz=next(iter(shape.tz))) if len(shape.tz) == 1 else None
    if top and kind in _NATIVE_AT_TOP:
        return _NATIVE_AT_TOP[kind]
    return _NATIVE_ATOMS.get(kind)


def _struct_type(shape: Shape) -> pa.DataType | None:
    if shape.ragged or not shape.keys:
        return None
    fields = {key: arrow_type(shape.fields[key], top=False) for key in shape.keys}
    if any(kind is None for kind in fields.values()):
        return None
    return pa.struct([pa.field(key, kind) for key, kind in fields.items() if kind is not None])


def has_surrogate(text: str) -> bool:
    """Whether a text holds a lone surrogate, which Arrow and UTF-8 cannot."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def without_surrogates(value: Any) -> Any:
    """The plain value with each lone surrogate replaced by U+FFFD."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, dict):
        return {without_surrogates(k): without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, tuple):
        return tuple(without_surrogates(item) for item in value)
    return value
