"""Arrow tables <-> the frame of a Dataset.

Owns   the index and the labels (kept as pandas keeps them in Arrow metadata), the mark of
       columns stored as JSON text, and Arrow types that pandas cannot hold.
Leaves single columns to core/columns.py.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from evalframe.core.columns import Column, from_arrow
from evalframe.core.errors import DatasetError, listed

MARK = {b"evalframe": b"json"}
_MARK_KEY = b"evalframe"
_PANDAS = b"pandas"
_PANDAS_ATTRS = b"PANDAS_ATTRS"


def is_json(field: Any) -> bool:
    """Whether the text of a column stands for Python values."""
    return (field.metadata or {}).get(_MARK_KEY) == MARK[_MARK_KEY]


def assembled(
    columns: Sequence[tuple[Hashable, pd.Series]],
    index: pd.Index,
    attrs: Mapping[Hashable, Any] | None = None,
) -> pd.DataFrame:
    """A frame of these columns, side by side and without a copy."""
    index = index.view()  # of its own: renaming it renames nothing here
    aligned = {place: series.set_axis(index) for place, (_, series) in enumerate(columns)}
    frame = pd.DataFrame(aligned, index=index, copy=False)
    labels = [label for label, _ in columns]
    frame.columns = pd.Index(labels, dtype=None if labels else "str", tupleize_cols=False)
    if attrs:
        frame.attrs = dict(attrs)
    return frame


def frame_from(table: pa.Table) -> pd.DataFrame:
    """The table as an Arrow-backed frame, with the index and attrs that pandas noted in it.

    Raises:
        DatasetError: A column marked as JSON holds other text.
    """
    noted = pandas_notes(table)
    index, taken = _index(table, noted)
    columns: list[tuple[Hashable, pd.Series]] = []
    for place, label in enumerate(_labels(table, noted)):
        if place not in taken:
            field = table.schema.field(place)
            columns.append((label, _series(label, table.column(place), json_text=is_json(field))))
    attributes = noted.get("attributes")
    return assembled(columns, index, attributes if isinstance(attributes, dict) else None)


def pandas_notes(table: pa.Table) -> dict[str, Any]:
    """What pandas wrote into a table about its index, labels and attrs."""
    metadata = table.schema.metadata or {}
    noted = _json_object(metadata.get(_PANDAS))
    # Before pyarrow kept attrs among its own notes, pandas wrote them beside these.
    attributes = noted.get("attributes") or _json_object(metadata.get(_PANDAS_ATTRS))
    return noted | {"attributes": attributes} if attributes else noted


def _json_object(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _series(label: Hashable, array: Any, *, json_text: bool) -> pd.Series:
    try:
        return from_arrow(label, settled(array), json=json_text)
    except ValueError as exc:
        if not json_text:
            raise
        message = f"Column {label!r} is marked as JSON text by evalframe, and is not: {exc}."
        raise DatasetError(message) from exc


def _labels(table: pa.Table, noted: dict[str, Any]) -> list[Hashable]:
    """The column names; numbers again where pandas had numbers."""
    names = list(table.column_names)
    notes = noted.get("column_indexes") or [{}]
    if len(notes) == 1 and isinstance(notes[0], dict) and notes[0].get("pandas_type") == "int64":
        return [int(name) if name.lstrip("-").isdecimal() else name for name in names]
    return list(names)


def _index(table: pa.Table, noted: dict[str, Any]) -> tuple[pd.Index, set[int]]:
    """The index, and the positions of the columns that it was made of."""
    default = pd.RangeIndex(table.num_rows)
    levels = noted.get("index_columns") or []
    if len(levels) == 1 and isinstance(levels[0], dict):
        found = _range(levels[0])
        return (
            (found, set()) if found is not None and len(found) == len(default) else (default, set())
        )
    names = table.column_names
    if not levels or any(names.count(level) != 1 for level in levels):
        return default, set()
    notes = [note for note in noted.get("columns", []) if note.get("field_name") in levels]
    meta = json.dumps({**noted, "columns": notes, "column_indexes": []})
    try:
        bare = table.select(levels).replace_schema_metadata({_PANDAS: meta.encode()})
        return bare.to_pandas().index, {names.index(level) for level in levels}
    except (pa.ArrowException, TypeError, KeyError):
        # Notes that do not fit the table: its columns stay columns.
        return default, set()


def _range(note: dict[str, Any]) -> pd.RangeIndex | None:
    try:
        return pd.RangeIndex(note["start"], note["stop"], note["step"], name=note.get("name"))
    except (KeyError, TypeError, ValueError):
        return None


def table_from(
    columns: Sequence[Column], index: pd.Index, attrs: Mapping[Hashable, Any]
) -> pa.Table:
    """The frame as an Arrow table that pandas, polars and DuckDB can read.

    Raises:
        DatasetError: Two labels are the same text, or the index has no Arrow form.
        UnsupportedValueError: A column cannot be stored.
    """
    names = [
        column.name if isinstance(column.name, str) else str(column.name) for column in columns
    ]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        message = f"Columns have the same name as text: {listed(twice)}. Rename them."
        raise DatasetError(message)
    arrays, fields = [], []
    for name, column in zip(names, columns, strict=True):
        array, json_text = column.stored()
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata=MARK if json_text else None))
    levels, notes = _index_columns(index, names)
    arrays += levels.columns
    fields += list(levels.schema)
    notes |= _label_notes(columns) | _attrs_notes(attrs)
    metadata: Any = {_PANDAS: json.dumps(_completed(notes)).encode()} if notes else None
    schema = pa.schema(fields, metadata=metadata)
    if not fields:
        bare: Any = pa.array([{}] * len(index), pa.struct([]))
        return pa.Table.from_struct_array(bare)
    return pa.Table.from_arrays(arrays, schema=schema)


def _index_columns(index: pd.Index, names: list[str]) -> tuple[pa.Table, dict[str, Any]]:
    """The levels of an index that is not the default one, and pandas' notes about them."""
    if index.equals(pd.RangeIndex(len(index))) and index.names == [None]:
        return pa.table({}), {}
    bare = pd.DataFrame(index=index.set_names([None] * index.nlevels))
    try:
        table = pa.Table.from_pandas(bare, preserve_index=True)
    except (pa.ArrowException, TypeError, OverflowError) as exc:
        message = f"The index has no Arrow form ({exc}). Use reset_index(drop=True), or text."
        raise DatasetError(message) from exc
    fields = []
    for place, name in enumerate(index.names):
        free = isinstance(name, str) and name not in names and list(index.names).count(name) == 1
        fields.append(str(name) if free else f"__index_level_{place}__")
    noted = pandas_notes(table)
    for note, field, name in zip(noted["columns"], fields, index.names, strict=True):
        note |= {"name": name if isinstance(name, (str, int)) else None, "field_name": field}
    return (
        table.rename_columns(fields).replace_schema_metadata(None),
        {"index_columns": fields, "columns": noted["columns"]},
    )


def _label_notes(columns: Sequence[Column]) -> dict[str, Any]:
    if not columns or not all(type(column.name) is int for column in columns):
        return {}
    note = {"name": None, "field_name": None, "metadata": None}
    return {"column_indexes": [{**note, "pandas_type": "int64", "numpy_type": "int64"}]}


def _attrs_notes(attrs: Mapping[Hashable, Any]) -> dict[str, Any]:
    """The attrs that JSON can keep."""
    kept = {}
    for key, value in attrs.items():
        try:
            same = isinstance(key, str) and json.loads(json.dumps(value)) == value
        except (TypeError, ValueError, RecursionError):
            continue
        if same:
            kept[key] = value
    return {"attributes": kept} if kept else {}


def _completed(notes: dict[str, Any]) -> dict[str, Any]:
    text = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    base = {
        "index_columns": [],
        "column_indexes": [{**text, "metadata": {"encoding": "UTF-8"}}],
        "columns": [],
        "attributes": {},
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": pd.__version__,
    }
    return {**base, **notes}


def settled(array: Any) -> Any:
    """The array without the Arrow types that pandas or other readers stumble over.

    Views become plain text, bytes and lists; dictionaries and extensions, also inside other
    values, what they stand for.
    """
    kind = settled_type(array.type)
    if kind == array.type:
        return array
    if pa.types.is_dictionary(array.type):
        # Arrow cannot decode a dictionary of views, but can cast the views first.
        chunks: list[Any] = [
            pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(kind)) for c in array.chunks
        ]
        encoded: Any = pa.dictionary(array.type.index_type, kind)
        return pa.chunked_array(chunks, encoded).cast(kind)
    if isinstance(array.type, pa.BaseExtensionType):
        inner: Any = array.type.storage_type
        return settled(pa.chunked_array([c.storage for c in array.chunks], inner))
    try:
        if not _holds_list_view(array.type):
            return array.cast(kind)
    except pa.ArrowNotImplementedError:
        # Dictionaries of views inside lists: Arrow cannot cast these, but read and build them.
        pass
    # Casting a list view loses the items of its last list (pyarrow 26).
    return pa.chunked_array([pa.array(c.to_pylist(), kind) for c in array.chunks], kind)


def _holds_list_view(kind: Any) -> bool:
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return True
    return any(_holds_list_view(kind.field(i).type) for i in range(kind.num_fields))


def settled_type(kind: Any) -> Any:
    """The type that `settled` gives."""
    if isinstance(kind, pa.BaseExtensionType):
        return settled_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return settled_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if not pa.types.is_nested(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([_settled_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_settled_field(kind.key_field), _settled_field(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_settled_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_settled_field(kind.value_field))
    return pa.list_(_settled_field(kind.value_field)) if hasattr(kind, "value_field") else kind


def _settled_field(field: Any) -> Any:
    return field.with_type(settled_type(field.type))
