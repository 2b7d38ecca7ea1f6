"""`types=`: a column as the type that the user names, or an error that names the value."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core.columns import Column, backed
from evalframe.core.errors import DatasetError

_PYTHON: dict[type, pa.DataType] = {
    str: pa.large_string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.large_binary(),
    datetime: pa.timestamp("us"),
    date: pa.date32(),
}
# "float" is 32 bits wide in Arrow, which no user of the word means.
_BY_NAME: dict[str, Any] = {kind.__name__: kind for kind in _PYTHON} | {"string": str}
_ZONED_TEXT = re.compile(r"(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")
_SHOWN = 80


def arrow_type_of(wanted: Any, label: Hashable) -> pa.DataType:
    """The Arrow type that a user's word for a type means.

    Raises:
        DatasetError: It means none.
    """
    if isinstance(wanted, str):
        zoned = _ZONED.fullmatch(wanted)
        if zoned is not None:
            unit: Any = zoned[1]
            return pa.timestamp(unit, tz=zoned[2])
        wanted = _BY_NAME.get(wanted, wanted)
    if isinstance(wanted, type) and wanted in _PYTHON:
        return _PYTHON[wanted]
    found = wanted if isinstance(wanted, pa.DataType) else _from_name_or_dtype(wanted)
    if found is None or pa.types.is_null(found):
        message = (
            f"types[{label!r}] is {wanted!r}, which is no type that a column can have. Use str, "
            "int, float, bool, datetime or date, an Arrow type, or the name of one ('int32')."
        )
        raise DatasetError(message)
    return pa.large_string() if pa.types.is_string(found) else found


def _from_name_or_dtype(wanted: Any) -> Any:
    if isinstance(wanted, str):
        name: Any = wanted
        with contextlib.suppress(ValueError):
            return pa.type_for_alias(name)
    try:
        dtype = pd.api.types.pandas_dtype(wanted)
    except (TypeError, ValueError):
        return None
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype
    if isinstance(dtype, pd.StringDtype):
        return pa.large_string()
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pa.timestamp(dtype.unit, tz=str(dtype.tz))
    numpy = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(numpy, np.dtype) or numpy.kind not in "biufMm":
        return None
    return pa.from_numpy_dtype(numpy)


def cast(column: Column, wanted: Any) -> pd.Series:
    """The column with the type that the user asked for, Arrow-backed, on its own index.

    Raises:
        DatasetError: A value cannot be cast without loss; names the column, row and value.
        UnsupportedValueError: A value is of no kind that is kept.
    """
    kind = arrow_type_of(wanted, column.name)
    if column.arrow_type is None:
        array = _from_objects(column, kind)
    else:
        source: Any = column.stored().array
        if wanted in (datetime, "datetime") and pa.types.is_large_string(source.type):
            kind = _time_type(source)
        array = _from_array(column.name, source, kind)
    return pd.Series(backed(array), index=column.series.index, name=column.name)


def _time_type(texts: Any) -> pa.DataType:
    """Text with zones becomes instants in UTC, text without them stays without."""
    zoned = pc.match_substring_regex(texts, pattern=_ZONED_TEXT.pattern, ignore_case=True)
    return pa.timestamp("us", tz="UTC" if pc.any(zoned).as_py() else None)


def _from_array(label: Hashable, array: Any, kind: pa.DataType) -> Any:
    try:
        return array.cast(kind)
    except (pa.ArrowException, ValueError):
        row = _first_refused(array, kind)
        raise DatasetError(_refusal(label, row, array[row].as_py(), kind)) from None


def _first_refused(array: Any, kind: pa.DataType) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(kind)
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low


def _from_objects(column: Column, kind: pa.DataType) -> Any:
    values = column.values(slice(None))
    cells = []
    for row, value in enumerate(values):
        try:
            cells.append(None if value is None else pa.scalar(value).cast(kind).as_py())
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise DatasetError(_refusal(column.name, row, value, kind)) from None
    return pa.array(cells, type=kind)


def _refusal(label: Hashable, row: int, value: Any, kind: pa.DataType) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    return f"Column {label!r}, row {row}: {shown} cannot become {kind} without loss (types=)."
