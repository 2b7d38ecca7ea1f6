"""One column of a frame, as evaluators and files see it.

Owns   reading a pandas column of any dtype: fresh Python values by the chunk, a Series for
       vectorized evaluators, an Arrow array for files.
Leaves what a single value is to nested.py, the walk over Python objects to walk.py.

Nothing is converted when a Column is made; an object column is walked once, when something
asks for it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import json_text
from evalframe.core.nested import NotPlainError, Shape, plain
from evalframe.core.walk import Walk, refusal
from evalframe.core.warn import warn

TEXT = pd.StringDtype("pyarrow")
_from_arrow: Any = getattr(TEXT, "__from_arrow__")  # noqa: B009 - pandas-stubs leave it out

# Rows decoded at a time where a whole column is converted.
CHUNK_ROWS = 4096
_NS_PER_US = 1_000

# Days from 1970 that every zone has: 0001-01-02 and 9999-12-30.
_FIRST_DAY, _LAST_DAY = -719_161, 2_932_895

Rows = slice | np.ndarray[Any, np.dtype[np.int64]]


class Stored(NamedTuple):
    """A column as Arrow keeps it; `json` says that its text stands for Python values."""

    array: pa.Array | pa.ChunkedArray
    json: bool


class Column:
    """A named column of a frame.

    Attributes:
        name: The column's label.
        series: The column itself; never changed.
    """

    def __init__(self, name: Hashable, series: pd.Series) -> None:
        """Remember the column; nothing is read yet."""
        self.name = name
        self.series = series

    @cached_property
    def native_type(self) -> pa.DataType | None:
        """The Arrow type of a column that Arrow reads as it is, None for Python objects."""
        if self._holds_objects:
            return None
        found = type_of_dtype(self.series)
        if found is not None and pa.types.is_dictionary(found):
            found = found.value_type
        return None if isinstance(found, pa.BaseExtensionType) else found

    @property
    def _holds_objects(self) -> bool:
        """Whether the values are Python objects; text of that kind may hold lone surrogates."""
        dtype = self.series.dtype
        python_text = isinstance(dtype, pd.StringDtype) and dtype.storage == "python"
        return python_text or (isinstance(dtype, np.dtype) and dtype.kind == "O")

    @cached_property
    def _walk(self) -> Walk:
        """What one walk over an object column finds; surrogates are warned of once."""
        walk = Walk(self.name, self.series)
        if walk.surrogates:
            warn(
                f"Column {self.name!r} holds lone surrogates in {walk.surrogates} of "
                f"{len(self.series)} rows; they are read and written as U+FFFD."
            )
        return walk

    def check(self) -> None:
        """Find out whether evaluators can be given every value.

        Raises:
            UnsupportedValueError: Some value has no plain Python form; names the row.
        """
        if self.native_type is None:
            _ = self._walk
        elif pa.types.is_temporal(self.native_type):
            self._check_times(pa.array(self.series.array, from_pandas=True))
        elif _holds_maps(self.native_type):
            self._check_maps()

    def _check_maps(self) -> None:
        """Maps are read as dicts: no key may be there twice, and all must be text."""
        for rows in chunked(len(self.series)):
            for row in range(rows.start, rows.stop):
                try:
                    (value,) = self.values(slice(row, row + 1))
                    Shape().add(value)
                except KeyError:
                    what = "a map that has a key twice"
                    raise refusal(self.name, row, NotPlainError(what)) from None
                except NotPlainError as exc:
                    raise refusal(self.name, row, exc) from None

    def _check_times(self, times: pa.Array | pa.ChunkedArray) -> None:
        """Python's times end with the year 9999, and count whole microseconds."""
        row = _first_beyond_python(times)
        if row is not None:
            what = "a time beyond Python's, such as one after the year 9999,"
            raise refusal(self.name, row, NotPlainError(what))
        if _finer_than_python(times):
            warn(
                f"Column {self.name!r} holds times finer than a microsecond: evaluators are given "
                "whole microseconds. Vectorized ones, and files, have them in full."
            )

    @property
    def arrow_type(self) -> pa.DataType | None:
        """The Arrow type that keeps every value, None where only JSON text does.

        Raises:
            UnsupportedValueError: As `check`.
        """
        if self.native_type is not None:
            return self.native_type if _is_whole(self.native_type) else None
        return self._walk.arrow_type

    @property
    def mutable(self) -> bool:
        """Whether values are lists or dicts, which each reader must get anew.

        Raises:
            UnsupportedValueError: As `check`.
        """
        if self.native_type is not None:
            return bool(pa.types.is_nested(self.native_type))
        return not self._walk.atoms

    def values(self, rows: Rows) -> list[Any]:
        """Fresh plain Python values of these rows; None for every kind of null.

        Args:
            rows: Positions: a slice or an integer array.

        Raises:
            UnsupportedValueError: As `check`.
        """
        if self.native_type is None:
            return self._walk.values(self.series.array[rows])
        return _decoded(pa.array(self.series.array[rows], from_pandas=True))

    def vector(self, *, shared: bool = False) -> pd.Series:
        """The column for a vectorized evaluator, on the frame's own index.

        Text is `string`, numbers, bools and times are ArrowDtype, all with NA; nested and
        mixed columns are object Series of fresh Python values.

        Args:
            shared: Whether lists may be the frame's own, for a reader that changes nothing.

        Raises:
            UnsupportedValueError: As `check`.
        """
        kind = self.arrow_type
        if kind is None or pa.types.is_nested(kind):
            return self._objects(shared=shared)
        array = self.stored().array
        if pa.types.is_floating(array.type):
            array = nan_to_null(array)
        return pd.Series(backed(array), index=self.series.index.view(), name=self.name)

    def arrow_backed(self) -> pd.Series:
        """The column with an Arrow dtype; as Python objects where only JSON text keeps it.

        Raises:
            UnsupportedValueError: As `check`.
        """
        if self.native_type is None and not self._holds_objects:
            return self.series
        if isinstance(self.series.dtype, (pd.ArrowDtype, pd.CategoricalDtype)):
            return self.series
        stored = self.stored() if self.arrow_type is not None else None
        if stored is None:
            return self._objects()
        return pd.Series(backed(stored.array), index=self.series.index.view(), name=self.name)

    def stored(self) -> Stored:
        """The column for a file: a native Arrow array, or JSON text.

        Raises:
            UnsupportedValueError: As `check`.
        """
        kind = self.arrow_type
        if kind is not None and self.native_type is not None:
            array = pa.array(self.series.array, from_pandas=True)
            return Stored(array if array.type == kind else array.cast(kind), json=False)
        chunks = []
        for rows in chunked(len(self.series)):
            values = self.values(rows)
            if kind is None:
                values = [None if value is None else json_text.encode(value) for value in values]
            chunks.append(pa.array(values, type=kind or pa.large_string()))
        return Stored(pa.chunked_array(chunks, type=kind or pa.large_string()), json=kind is None)

    def _objects(self, *, shared: bool = False) -> pd.Series:
        if shared and self.native_type is None and self._walk.plain:
            cells = np.array(self.series.array, dtype=object)
        else:
            cells = np.empty(len(self.series), dtype=object)
            for rows in chunked(len(self.series)):
                cells[rows] = as_objects(self.values(rows))
        return pd.Series(cells, index=self.series.index.view(), name=self.name, dtype=object)


def chunked(length: int) -> list[slice]:
    """Slices that cover `length` rows; one empty slice when there are none."""
    return [
        slice(start, min(start + CHUNK_ROWS, length))
        for start in range(0, max(length, 1), CHUNK_ROWS)
    ]


def as_objects(values: list[Any]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """A one-dimensional object array; lists in it stay lists."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


def backed(array: pa.Array | pa.ChunkedArray) -> Any:
    """The Arrow array as a pandas array, without a copy: text as `string`, else ArrowDtype."""
    if pa.types.is_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if pa.types.is_large_string(array.type):
        return _from_arrow(array)
    return pd.arrays.ArrowExtensionArray(array)


def from_arrow(
    name: Hashable, array: pa.Array | pa.ChunkedArray, *, json: bool = False
) -> pd.Series:
    """The column of an Arrow table as an Arrow-backed one; JSON text becomes its values.

    Columns that Arrow cannot give back or plain pandas not hold (null and empty struct types)
    become Python objects.
    """
    if json:
        values = [None if text is None else json_text.decode(text) for text in array.to_pylist()]
        return pd.Series(as_objects(values), name=name, dtype=object)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.cast(array.type.storage_type)
    if not _is_whole(array.type):
        return pd.Series(as_objects(_decoded(array)), name=name, dtype=object)
    return pd.Series(backed(array), name=name)


def series_of(values: list[Any], index: pd.Index, name: Hashable = None) -> pd.Series:
    """Python values as a column of the kind that `Column.vector` gives.

    Raises:
        UnsupportedValueError: Some value has no plain Python form.
    """
    return Column(name, pd.Series(as_objects(values), index=index, dtype=object)).vector()


def _finer_than_python(times: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some time of a nanosecond column is no whole microsecond."""
    kind = times.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) or kind.unit != "ns":
        return False
    ticks = times.cast(pa.int64()).drop_null().to_numpy()
    return bool((ticks % _NS_PER_US).any())


def _holds_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_holds_maps(kind.field(i).type) for i in range(kind.num_fields))


def _is_whole(kind: pa.DataType) -> bool:
    """Whether the type, down to its leaves, is neither null nor an empty struct."""
    if pa.types.is_null(kind):
        return False
    if pa.types.is_struct(kind) and kind.num_fields == 0:
        return False
    return all(_is_whole(kind.field(i).type) for i in range(kind.num_fields))


def _first_beyond_python(times: pa.Array | pa.ChunkedArray) -> int | None:
    """The first row whose time Python cannot hold, such as one after the year 9999."""
    kind = times.type
    if pa.types.is_date32(kind):
        low, high = _FIRST_DAY, _LAST_DAY
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        a_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        low, high = _FIRST_DAY * a_day, _LAST_DAY * a_day
    else:
        return None
    numbers = times.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    far = pc.or_(pc.less(numbers, max(low, -(2**63))), pc.greater(numbers, min(high, 2**63 - 1)))
    for row in np.flatnonzero(pc.fill_null(far, fill_value=False).to_numpy(zero_copy_only=False)):
        try:
            _decoded(times.slice(row, 1), safe=True)
        except (ValueError, OverflowError):
            return int(row)
    return None


def type_of_dtype(series: pd.Series) -> Any:
    """The Arrow type that the column's dtype is read as; None if Arrow has none for it."""
    try:
        return pa.array(series.array[:0], from_pandas=True).type
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError):
        return None


def nan_to_null(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A floating array in which what pandas takes for missing is null."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())  # Arrow has few kernels for the small one
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _decoded(array: pa.Array | pa.ChunkedArray, *, safe: bool = False) -> list[Any]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=safe)
    elif pa.types.is_duration(kind):
        array = array.cast(pa.duration("us"), safe=safe)
    elif pa.types.is_floating(kind):
        array = nan_to_null(array)
    if not pa.types.is_nested(kind):
        return list(array.to_pylist())
    return [plain(value) for value in array.to_pylist(maps_as_pydicts="strict")]
