"""JSON text that keeps plain Python values exactly.

None, bool, int of any size, float (NaN and infinities as Python's json writes them), str,
list and dict stand as JSON. Other types stand as a dict with one key that begins with "$":

    {"$tuple": [1, 2]}   {"$datetime": "2024-05-01T13:00:00+02:00", ...}   {"$decimal": "1.50"}

A user's own dict with a single key of that form gets one more "$", taken off on reading.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from evalframe.core.nested import zone_key, zone_name

# Python refuses to convert longer integers from decimal text.
_LONGEST_DECIMAL_BITS = 13_000

# Kept: json.dumps makes one for each call that asks for Unicode as it is.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def encode(value: Any) -> str:
    """The JSON text of a plain value.

    Raises:
        TypeError: The value is not plain (see `nested.plain`).
    """
    return _ENCODER.encode(_tagged(value))


def decode(text: str) -> Any:
    """The value that `encode` was given.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return json.loads(text, object_hook=_untagged if '"$' in text else None)
    except (TypeError, LookupError, ArithmeticError) as exc:
        # A torn tag: no such zone, no such number, not the parts that it should have.
        message = f"not a value that evalframe wrote: {exc}"
        raise ValueError(message) from None


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None or kind is float:
        return value
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is dict:
        inner = {key: _tagged(item) for key, item in value.items()}
        if len(inner) == 1:
            (key,) = inner
            if key.lstrip("$") in _DECODERS and key.startswith("$"):
                return {"$" + key: inner[key]}
        return inner
    if kind is int:
        if value.bit_length() > _LONGEST_DECIMAL_BITS:
            return {"$int": hex(value)}
        return value
    return _tagged_other(value, kind)


def _tagged_other(value: Any, kind: type) -> Any:
    if kind is tuple:
        return {"$tuple": [_tagged(item) for item in value]}
    if kind is datetime:
        zone = zone_name(value)
        named = zone if zone is not None and zone[0] not in "+-" else None
        return {"$datetime": [value.isoformat(), named]}
    if kind is time:
        return {"$time": [value.isoformat(), zone_key(value.tzinfo)]}
    if kind is date:
        return {"$date": value.isoformat()}
    if kind is timedelta:
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}
    if kind is Decimal:
        return {"$decimal": str(value)}
    if kind is bytes:
        return {"$bytes": value.hex()}
    if kind is uuid.UUID:
        return {"$uuid": str(value)}
    message = f"{kind.__qualname__} has no JSON form"
    raise TypeError(message)


def _untagged(item: dict[str, Any]) -> Any:
    if len(item) != 1:
        return item
    ((key, value),) = item.items()
    if not key.startswith("$"):
        return item
    name = key.lstrip("$")
    if name not in _DECODERS:
        return item
    if key.startswith("$$"):
        return {key[1:]: value}
    return _DECODERS[name](value)


def _decode_datetime(parts: list[Any]) -> datetime:
    text, zone = parts
    value = datetime.fromisoformat(text)
    if zone is None:
        return value
    if zone == "UTC":
        return value.astimezone(UTC)
    for fold in (0, 1):
        found = value.replace(tzinfo=ZoneInfo(zone), fold=fold)
        if found.utcoffset() == value.utcoffset():
            return found
    # The zone's rules have changed since: the instant counts.
    return value.astimezone(ZoneInfo(zone))


def _decode_time(parts: list[Any]) -> time:
    text, zone = parts
    value = time.fromisoformat(text)
    return value if zone is None else value.replace(tzinfo=ZoneInfo(zone))


_DECODERS: dict[str, Any] = {
    "tuple": tuple,
    "datetime": _decode_datetime,
    "date": date.fromisoformat,
    "time": _decode_time,
    "timedelta": lambda parts: timedelta(*parts),
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "uuid": uuid.UUID,
    "int": lambda text: int(text, 16),
}
