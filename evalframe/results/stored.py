"""How one pandas array lies in a file, and how it comes back with its own dtype.

Owns   the Arrow type of every pandas dtype in a file, and a JSON note from which the dtype is
       made again.
Leaves values to core.columns, and what a file is to parquet.py.

StoredColumn   a column on its way out: Arrow type, JSON mark, note, and its cells by the slice
stored         a Series -> its StoredColumn
restored       the Arrow array and the note -> the pandas array
pack, unpack   a small index (column labels, categories) as text inside the note
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import json_text
from evalframe.core.columns import Column, as_objects, backed, chunked, type_of_dtype
from evalframe.core.errors import UnsupportedValueError
from evalframe.core.nested import is_null
from evalframe.results.readable import Cells, check_writable, converted, joined, readable

Note = dict[str, Any]

_NULLS: dict[str, Any] = {"None": None, "nan": float("nan"), "NA": pd.NA, "NaT": pd.NaT}


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column on its way into a file.

    Attributes:
        type: Arrow type in the file.
        json: Whether its text stands for Python values.
        note: How to make the pandas dtype again; JSON-safe.
        cells: Rows -> the Arrow array of these rows, made when asked for.
    """

    type: pa.DataType
    json: bool
    note: Note
    cells: Callable[[slice], Cells]


def stored(name: Any, series: pd.Series) -> StoredColumn:
    """The column as a file keeps it; its cells are not converted yet.

    Raises:
        UnsupportedValueError: Some value, or the dtype itself, has no place in a file.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(name, series)
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        # Python text may hold lone surrogates, which only a walk over objects deals with.
        column = Column(name, series.astype(object))
        _ = column.arrow_type
        return _walked(column, pa.large_string(), json=False, note=_note(name, series))
    column = Column(name, series)
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        note: Note = {"object": _null_flavours(series)}
        kind = column.arrow_type
        return _walked(column, kind or pa.large_string(), json=kind is None, note=note)
    found = type_of_dtype(series)
    if isinstance(found, pa.BaseExtensionType):
        return _extension(name, series, found.storage_type)
    kind = column.arrow_type
    if kind is None or column.native_type is None:
        note = _note(name, series)
        return _walked(column, kind or pa.large_string(), json=kind is None, note=note)
    return _native(name, series, kind)


def _native(name: Any, series: pd.Series, kind: pa.DataType) -> StoredColumn:
    kind = readable(kind)
    check_writable(name, kind)

    def cells(rows: slice) -> Cells:
        return converted(pa.array(series.array[rows], from_pandas=True), kind)

    return StoredColumn(kind, json=False, note=_note(name, series), cells=cells)


def _walked(column: Column, kind: pa.DataType, *, json: bool, note: Note) -> StoredColumn:
    """A column that is read as Python values, a few thousand at a time."""

    def cells(rows: slice) -> Cells:
        chunks: list[Any] = []
        for part in chunked(rows.stop - rows.start):
            stop = min(rows.start + part.stop, rows.stop)
            values = column.values(slice(rows.start + part.start, stop))
            if json:
                values = [None if value is None else json_text.encode(value) for value in values]
            chunks.append(pa.array(values, type=kind))
        return joined(chunks, kind)

    return StoredColumn(kind, json=json, note=note, cells=cells)


def _extension(name: Any, series: pd.Series, kind: pa.DataType) -> StoredColumn:
    """Periods, intervals and Arrow's own extension types, as what lies beneath them."""
    check_writable(name, kind)

    def cells(rows: slice) -> Cells:
        array: Cells = pa.array(series.array[rows])
        chunks: list[Any] = getattr(array, "chunks", [array])
        return joined([chunk.storage for chunk in chunks], kind)

    return StoredColumn(kind, json=False, note=_note(name, series), cells=cells)


def _categorical(name: Any, series: pd.Series) -> StoredColumn:
    """The categories' values, row by row, so that every reader sees them."""
    categories = series.cat.categories
    column = stored(name, pd.Series(categories.array, dtype=categories.dtype))
    keys = _category_keys(categories, column)
    codes = series.cat.codes

    def cells(rows: slice) -> Cells:
        part = codes.array[rows].to_numpy().astype(np.int64)
        places: Cells = pa.array(part, mask=part < 0)
        return keys.take(places)

    note = {
        "categories": pack(name, categories),
        "keys": _packed(keys),
        "ordered": bool(series.cat.ordered),
    }
    return StoredColumn(keys.type, json=column.json, note=note, cells=cells)


def _category_keys(categories: pd.Index, column: StoredColumn) -> Cells:
    """What stands for each category in a cell: its value, or its text (intervals, periods)."""
    if isinstance(type_of_dtype(categories.to_series()), pa.BaseExtensionType):
        return pa.array([str(category) for category in categories], type=pa.large_string())
    keys = column.cells(slice(0, len(categories)))
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys


def _note(name: Any, series: pd.Series) -> Note:
    """What makes a dtype other than object and category again."""
    dtype = series.dtype
    if isinstance(dtype, pd.StringDtype):
        return {"string": [dtype.storage, "NA" if dtype.na_value is pd.NA else "nan"]}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": _text(pa.schema([pa.field("", dtype.pyarrow_dtype)]).serialize())}
    if _by_name(str(dtype)) == dtype:
        return {"dtype": str(dtype)}
    if isinstance(dtype, pd.DatetimeTZDtype):
        return {"dtype": None}
    message = (
        f"Column {name!r}: the dtype {dtype} cannot be made again from its name. "
        "Convert the column to one of pandas' own dtypes, such as .astype(object)."
    )
    raise UnsupportedValueError(message)


def _by_name(text: str) -> Any:
    try:
        return pd.api.types.pandas_dtype(text)
    except (TypeError, ValueError, NotImplementedError):
        return None


def plain_dtype(series: pd.Series, column: StoredColumn) -> str:
    """The dtype's name for readers that know pandas but not evalframe; `object` if in doubt."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return str(dtype) if column.type == type_of_dtype(series) else "object"
    nested = pa.types.is_nested(column.type) and not isinstance(dtype, pd.IntervalDtype)
    own = type(dtype).__module__.partition(".")[0] == "pandas"
    known = own and hasattr(dtype, "__from_arrow__") and _by_name(str(dtype)) == dtype
    changed = isinstance(dtype, pd.ArrowDtype) and dtype.pyarrow_dtype != column.type
    if column.json or nested or changed or not known:
        return "object"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return f"datetime64[{dtype.unit}]"
    return str(dtype)


def _null_flavours(series: pd.Series) -> Note:
    """Which kind of null an object column holds: the common one, and where it is another."""
    found = {}
    for position in np.flatnonzero(pd.isna(series.array)).tolist():
        value = series.array[position]
        if is_null(value):
            found[position] = _flavour(value)
    counts = Counter(found.values())
    common = counts.most_common(1)[0][0] if counts else "None"
    others = {
        name: [position for position, flavour in found.items() if flavour == name]
        for name in counts
        if name != common
    }
    return {"null": common, "others": others}


def _flavour(value: Any) -> str:
    if value is None or value is pd.NA:
        return "None" if value is None else "NA"
    return "nan" if isinstance(value, (float, np.floating)) else "NaT"


def restored(array: Cells, note: Note, *, json: bool) -> Any:
    """The pandas array (extension or NumPy) that was stored.

    Args:
        array: The column of the file.
        note: What `stored` noted of its dtype.
        json: Whether the column is marked as JSON text.

    Raises:
        ValueError: Array and note do not fit each other (pyarrow's errors are ValueErrors).
    """
    if "object" in note:
        return _objects(array, note["object"], json=json)
    if "categories" in note:
        return _restored_categorical(array, note)
    if json:
        values = [None if text is None else json_text.decode(text) for text in array.to_pylist()]
        if "arrow" in note:
            kind = _arrow_type(note)
            return pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(values, type=kind)]))
        return pd.array(values, dtype=note["dtype"])
    if "string" in note:
        storage, null = note["string"]
        dtype: Any = pd.StringDtype(storage, na_value=pd.NA if null == "NA" else np.nan)
        return dtype.__from_arrow__(array)
    if "arrow" in note:
        return _restored_arrow(array, _arrow_type(note))
    if note["dtype"] is None:
        return array.to_pandas().array
    return _restored_by_name(array, pd.api.types.pandas_dtype(note["dtype"]))


def _restored_by_name(array: Cells, dtype: Any) -> Any:
    if isinstance(dtype, np.dtype):
        kind = pa.from_numpy_dtype(dtype)
        values = converted(array, kind).to_numpy(zero_copy_only=False)
        values = values.astype(dtype, copy=False)
        # Arrow's memory is read-only, and a frame must stay changeable.
        return values if values.flags.writeable else values.copy()
    if hasattr(dtype, "__from_arrow__"):
        return dtype.__from_arrow__(array)
    return pd.array(array.to_pandas().array, dtype=dtype)


def _restored_arrow(array: Cells, kind: pa.DataType) -> Any:
    whole = pa.chunked_array([array]) if isinstance(array, pa.Array) else array
    if isinstance(kind, pa.BaseExtensionType):
        chunks = [
            pa.ExtensionArray.from_storage(kind, chunk.cast(kind.storage_type))
            for chunk in whole.chunks
        ]
        return pd.arrays.ArrowExtensionArray(joined(chunks, kind))
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(whole.type):
        whole = whole.cast(kind.value_type).dictionary_encode()
    return pd.arrays.ArrowExtensionArray(converted(whole, kind))


def _objects(array: Cells, nulls: Note, *, json: bool) -> Any:
    cells = np.empty(len(array), dtype=object)
    column = None if json else Column(None, pd.Series(backed(array)))
    for rows in chunked(len(array)):
        if column is None:
            texts = array[rows].to_pylist()
            values = [None if text is None else json_text.decode(text) for text in texts]
        else:
            values = column.values(rows)
        cells[rows] = as_objects(values)
    if nulls["null"] != "None":
        cells[np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))] = _NULLS[
            nulls["null"]
        ]
    for flavour, positions in nulls["others"].items():
        cells[positions] = _NULLS[flavour]
    return cells


def _restored_categorical(array: Cells, note: Note) -> Any:
    keys = _unpacked(note["keys"])
    codes = pc.index_in(array.cast(keys.type), value_set=keys).fill_null(-1)
    # A null category does not exist, so null is always -1.
    codes = pc.if_else(array.is_null(), -1, codes).to_numpy(zero_copy_only=False)
    categories = unpack(note["categories"])
    return pd.Categorical.from_codes(codes, categories=categories, ordered=note["ordered"])


def pack(name: Any, index: pd.Index) -> Note:
    """A short index with its dtype, as text.

    Raises:
        UnsupportedValueError: As `stored`.
    """
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step]}
    column = stored(name, pd.Series(index.array, dtype=index.dtype))
    array = column.cells(slice(0, len(index)))
    return {"cells": _packed(array), "json": column.json, "note": column.note}


def unpack(packed: Note) -> pd.Index:
    """The index that `pack` was given, without its name."""
    if "range" in packed:
        return pd.RangeIndex(*packed["range"])
    array = pa.chunked_array([_unpacked(packed["cells"])])
    return as_index(restored(array, packed["note"], json=packed["json"]))


def as_index(array: Any) -> pd.Index:
    """The array as an index of exactly its dtype; tuples stay labels."""
    index: pd.Index = pd.Index(array, dtype=array.dtype, tupleize_cols=False)
    return index


def _packed(array: Cells) -> str:
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    batch = pa.record_batch([whole], names=["cells"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return _text(sink.getvalue())


def _unpacked(text: str) -> Cells:
    table = pa.ipc.open_stream(base64.b64decode(text)).read_all()
    return table.column(0).combine_chunks()


def _arrow_type(note: Note) -> pa.DataType:
    schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(note["arrow"])))
    kind: pa.DataType = schema.field(0).type
    return kind


def _text(buffer: pa.Buffer) -> str:
    return base64.b64encode(buffer.to_pybytes()).decode("ascii")
