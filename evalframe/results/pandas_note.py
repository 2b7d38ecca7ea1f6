"""What a file tells readers that know pandas but not evalframe.

The schema entry "pandas" is pandas' own convention: the index, the column labels, attrs, and a
dtype per column. Only dtypes that plain pandas can open are named in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

KEY = b"pandas"

# Where pandas looks for attrs itself; a later pyarrow takes them from the entry above.
ATTRS_KEY = b"PANDAS_ATTRS"

_UNNAMED_LEVEL = re.compile(r"__index_level_\d+__")


class Described(NamedTuple):
    """A field of the file as pandas knows it; `name` is the label as text, or None."""

    field: str
    name: str | None
    type: pa.DataType
    dtype: str


def pandas_notes(
    frame: pd.DataFrame,
    columns: Sequence[Described],
    levels: Sequence[Described],
    attrs: dict[str, Any],
) -> dict[bytes | str, bytes | str]:
    """The schema entries; `levels` are the index's columns, none for a RangeIndex."""
    index: list[Any] = [level.field for level in levels]
    if isinstance(frame.index, pd.RangeIndex):
        index = [
            {
                "kind": "range",
                "name": text_or_none(frame.index.name),
                "start": frame.index.start,
                "stop": frame.index.stop,
                "step": frame.index.step,
            }
        ]
    note = {
        "index_columns": index,
        "column_indexes": [_labels(frame.columns, columns)],
        "columns": [_described(column) for column in (*columns, *levels)],
        "attributes": attrs,
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": pd.__version__,
    }
    entries: dict[bytes | str, bytes | str] = {KEY: json.dumps(note).encode("ascii")}
    return {**entries, ATTRS_KEY: json.dumps(attrs).encode("ascii")} if attrs else entries


def text_or_none(name: Hashable) -> str | None:
    """A label as text; None stays None."""
    return None if name is None else str(name)


def _described(column: Described) -> dict[str, Any]:
    from pyarrow.pandas_compat import get_logical_type

    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    return {
        "name": column.name,
        "field_name": column.field,
        "pandas_type": get_logical_type(column.type),
        "numpy_type": column.dtype,
        "metadata": {"timezone": zone} if zone else None,
    }


def _labels(labels: pd.Index, columns: Sequence[Described]) -> dict[str, Any]:
    name = text_or_none(labels.name)
    numbers = labels.dtype == "int64"
    if numbers and [str(label) for label in labels] == [column.name for column in columns]:
        return {
            "name": name,
            "field_name": name,
            "pandas_type": "int64",
            "numpy_type": "int64",
            "metadata": None,
        }
    return {
        "name": name,
        "field_name": name,
        "pandas_type": "unicode",
        "numpy_type": "object",
        "metadata": {"encoding": "UTF-8"},
    }


class Remembered(NamedTuple):
    """What the pandas entry of a file says of its index.

    Attributes:
        levels: (column, name) of each stored level.
        range: Start, stop, step and name of a RangeIndex.
        attrs: The frame's attrs.
    """

    levels: list[tuple[str, Hashable]]
    range: tuple[int, int, int, Hashable] | None
    attrs: dict[str, Any]


def remembered(schema: pa.Schema) -> Remembered:
    """The pandas entry of any file; nothing remembered where there is none, or it is torn."""
    try:
        note = json.loads((schema.metadata or {})[KEY])
        names = {column["field_name"]: column["name"] for column in note["columns"]}
        given = note["index_columns"]
        fields = [name for name in given if isinstance(name, str) and name in schema.names]
        levels: list[tuple[str, Hashable]] = [
            (field, None if _UNNAMED_LEVEL.fullmatch(field) else names.get(field, field))
            for field in fields
        ]
        ranges = [
            (item["start"], item["stop"], item["step"], item["name"])
            for item in given
            if isinstance(item, dict)
        ]
        attrs = json.loads(schema.metadata.get(ATTRS_KEY, b"{}")) or note.get("attributes") or {}
        return Remembered(levels, ranges[0] if ranges else None, attrs)
    except (KeyError, TypeError, ValueError, AttributeError):
        return Remembered([], None, {})
