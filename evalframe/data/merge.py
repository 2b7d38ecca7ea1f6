"""Several Arrow tables as one: the union of their columns, types only where nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from evalframe.core import json_text
from evalframe.core.columns import Column, from_arrow
from evalframe.core.errors import DatasetError
from evalframe.data.tables import MARK, is_json, pandas_notes, settled

_PANDAS = b"pandas"
_UNITS = ("s", "ms", "us", "ns")


def merged(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """The tables one below the other; a column that one of them lacks is null there.

    Args:
        tables: In order.
        names: What to call each in messages.

    Raises:
        DatasetError: A column has types that no type can keep; names the column and the files.
    """
    if len(tables) == 1:
        return tables[0]
    for table, name in zip(tables, names, strict=True):
        if len(set(table.column_names)) < table.num_columns:
            message = f"Cannot read {name!r}: several of its columns have the same name."
            raise DatasetError(message)
    labels = dict.fromkeys(label for table in tables for label in table.column_names)
    columns, fields = [], []
    for label in labels:
        array, json_marked = _column(label, tables, names)
        columns.append(array)
        fields.append(pa.field(label, array.type, metadata=MARK if json_marked else None))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=_notes(tables)))


def _notes(tables: Sequence[pa.Table]) -> Any:
    """The notes of pandas about the index, where all tables have the same index columns."""
    notes = [pandas_notes(table) for table in tables]
    levels = [
        [level for level in noted.get("index_columns") or [] if isinstance(level, str)]
        for noted in notes
    ]
    if not levels[0] or any(other != levels[0] for other in levels):
        return None
    # The attrs of one file say nothing about the others.
    return {_PANDAS: json.dumps({**notes[0], "attributes": {}}).encode()}


def _column(label: str, tables: Sequence[pa.Table], names: Sequence[str]) -> tuple[Any, bool]:
    pieces = [
        settled(table.column(label)) if label in table.column_names else None for table in tables
    ]
    marks = [label in table.column_names and is_json(table.schema.field(label)) for table in tables]
    if any(marks):
        return _as_json(label, pieces, marks, tables), True
    kind: Any = pa.null()
    origin = names[0]
    for piece, name in zip(pieces, names, strict=True):
        if piece is None:
            continue
        wider = common_type(kind, piece.type)
        if wider is None:
            message = (
                f"Column {label!r} is {kind} in {origin!r} and {piece.type} in {name!r}, and no "
                "type keeps both exactly. Read the files one by one and pass types={...}."
            )
            raise DatasetError(message)
        if wider != kind:
            kind, origin = wider, name
    chunks: list[Any] = []
    for piece, table in zip(pieces, tables, strict=True):
        if piece is None:
            chunks.append(pa.nulls(table.num_rows, kind))
        else:
            chunks += (piece if piece.type == kind else piece.cast(kind)).chunks
    return pa.chunked_array(chunks, type=kind), False


def _as_json(
    label: str,
    pieces: Sequence[Any | None],
    marks: Sequence[bool],
    tables: Sequence[pa.Table],
) -> Any:
    """A column that some table keeps as JSON text, as JSON text throughout."""
    chunks: list[Any] = []
    for piece, mark, table in zip(pieces, marks, tables, strict=True):
        if piece is None:
            chunks.append(pa.nulls(table.num_rows, pa.large_string()))
        elif mark:
            chunks += piece.cast(pa.large_string()).chunks
        else:
            values = Column(label, from_arrow(label, piece)).values(slice(None))
            texts = [None if value is None else json_text.encode(value) for value in values]
            chunks.append(pa.array(texts, pa.large_string()))
    return pa.chunked_array(chunks, type=pa.large_string())


def common_type(a: Any, b: Any) -> Any:
    """The type that keeps every value of both, None where there is none.

    Whole numbers and floats have none in common: 1 is not 1.0.
    """
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    for text, large in (
        ({pa.string(), pa.large_string()}, pa.large_string()),
        ({pa.binary(), pa.large_binary()}, pa.large_binary()),
    ):
        if {a, b} <= text:
            return large
    for same in (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating):
        if same(a) and same(b):
            return a if a.bit_width >= b.bit_width else b
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b) and a.tz == b.tz:
        return a if _UNITS.index(a.unit) >= _UNITS.index(b.unit) else b
    return _common_nested(a, b)


def _common_nested(a: Any, b: Any) -> Any:
    lists = (pa.types.is_list, pa.types.is_large_list)
    if any(same(a) for same in lists) and any(same(b) for same in lists):
        item = common_type(a.value_type, b.value_type)
        large = any(pa.types.is_large_list(kind) for kind in (a, b))
        return None if item is None else (pa.large_list if large else pa.list_)(item)
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        keys = [field.name for field in a]
        if keys != [field.name for field in b]:
            return None
        found = [common_type(one.type, two.type) for one, two in zip(a, b, strict=True)]
        kinds = [kind for kind in found if kind is not None]
        return pa.struct(list(zip(keys, kinds, strict=True))) if len(kinds) == len(keys) else None
    return None
