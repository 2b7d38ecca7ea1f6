"""What lies where in a file: fields, schema entries, and the way back to a frame.

Owns   names of fields, the entry "evalframe", index, column labels and attrs.
Leaves dtypes to stored.py, pandas' own entry to pandas_note.py, and disks to parquet.py.

lay_out   a frame -> the schema and the columns that fill it
rebuild   a table and its entry -> the frame that was laid out
adopt     a table of another origin -> an Arrow-backed frame
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from evalframe.core import json_text
from evalframe.core.columns import from_arrow
from evalframe.core.errors import DatasetError, UnsupportedValueError
from evalframe.core.nested import NotPlainError, Shape, plain, without_surrogates
from evalframe.core.warn import warn
from evalframe.results import pandas_note
from evalframe.results.stored import (
    Note,
    StoredColumn,
    as_index,
    pack,
    plain_dtype,
    restored,
    stored,
    unpack,
)

KEY = b"evalframe"
FORMAT = 1

_JSON_MARK = {KEY: b"json"}


class Layout(NamedTuple):
    """A frame on its way out; the columns fill the schema's fields in order."""

    schema: pa.Schema
    columns: list[StoredColumn]


class _Field(NamedTuple):
    """A column or an index level on its way out."""

    name: str
    label: Hashable
    column: StoredColumn
    dtype: str

    def arrow(self) -> Any:
        return pa.field(
            self.name, self.column.type, metadata=_JSON_MARK if self.column.json else None
        )

    def described(self, name: str | None) -> pandas_note.Described:
        return pandas_note.Described(self.name, name, self.column.type, self.dtype)

    def noted(self) -> Note:
        return {"field": self.name, "dtype": self.column.note}


def lay_out(frame: pd.DataFrame) -> Layout:
    """The file's schema and columns; no cell is converted yet.

    Raises:
        UnsupportedValueError: Columns, index or names cannot be kept; all columns are named.
    """
    columns, levels = _fields(frame)
    return Layout(_schema(frame, columns, levels), [field.column for field in (*columns, *levels)])


def _fields(frame: pd.DataFrame) -> tuple[list[_Field], list[_Field]]:
    """The columns and the index levels, each with its name in the file."""
    taken: set[str] = set()
    refused: dict[Hashable, str] = {}
    names = _field_names(frame.columns, taken)
    columns = []
    for position, (label, name) in enumerate(zip(frame.columns, names, strict=True)):
        series = frame.iloc[:, position]
        try:
            columns.append(_field(name, label, series))
        except UnsupportedValueError as exc:
            refused[label] = str(exc)
    if refused:
        lines = "\n".join(f"  {text}" for text in refused.values())
        message = (
            f"{len(refused)} of {len(frame.columns)} columns cannot be kept in a file:\n{lines}\n"
            f"Change them, or leave them out: drop={list(refused)!r}."
        )
        raise UnsupportedValueError(message)
    return columns, _level_fields(frame.index, taken)


def _level_fields(index: pd.Index, taken: set[str]) -> list[_Field]:
    if isinstance(index, pd.RangeIndex):
        return []
    fields = []
    for number in range(index.nlevels):
        level = index.get_level_values(number)
        free = isinstance(level.name, str) and level.name not in taken
        wanted = level.name if free else f"__index_level_{number}__"
        (name,) = _field_names([wanted], taken)
        series = pd.Series(level.array, dtype=level.dtype)
        try:
            fields.append(_field(name, level.name, series))
        except UnsupportedValueError as exc:
            message = (
                "The index cannot be kept in a file; frame.reset_index(drop=True) does without. "
                f"{exc}"
            )
            raise UnsupportedValueError(message) from None
    return fields


def _field(name: str, label: Hashable, series: pd.Series) -> _Field:
    column = stored(label if label is not None else name, series)
    return _Field(name, label, column, plain_dtype(series, column))


def _field_names(labels: Sequence[Hashable] | pd.Index, taken: set[str]) -> list[str]:
    """Distinct text for every label; text labels keep their own."""
    texts = [without_surrogates(str(label)) for label in labels]
    order = sorted(range(len(texts)), key=lambda i: (labels[i] != texts[i], i))
    names = [""] * len(texts)
    for i in order:
        name, number = texts[i], 2
        while name in taken:
            name, number = f"{texts[i]}_{number}", number + 1
        taken.add(name)
        names[i] = name
    return names


def _schema(frame: pd.DataFrame, columns: list[_Field], levels: list[_Field]) -> pa.Schema:
    attrs = _attrs(frame)
    index: Note = {"names": _encoded_names(frame.index.names), "freq": _freq(frame.index)}
    if isinstance(frame.index, pd.RangeIndex):
        index["range"] = [frame.index.start, frame.index.stop, frame.index.step]
    else:
        index["levels"] = [level.noted() for level in levels]
        index["multi"] = isinstance(frame.index, pd.MultiIndex)
    note = {
        "format": FORMAT,
        "columns": [column.noted() for column in columns],
        "labels": pack("(column labels)", frame.columns),
        "labels_name": _encoded_names(frame.columns.names),
        "index": index,
        "attrs": [[json_text.encode(key), json_text.encode(value)] for key, value in attrs],
    }
    readable = {key: value for key, value in attrs if type(key) is str and _is_json(value)}
    described = [column.described(column.name) for column in columns]
    described_levels = [level.described(pandas_note.text_or_none(level.label)) for level in levels]
    entries: dict[bytes | str, bytes | str] = {
        **pandas_note.pandas_notes(frame, described, described_levels, readable),
        KEY: json.dumps(note).encode("ascii"),
    }
    return pa.schema([field.arrow() for field in (*columns, *levels)], metadata=entries)


def _attrs(frame: pd.DataFrame) -> list[tuple[Any, Any]]:
    """The attrs that JSON text keeps; one warning names the others."""
    kept, left_out = [], []
    for key, value in frame.attrs.items():
        try:
            Shape().add(key)
            Shape().add(value)
            kept.append((plain(key), plain(value)))
        except NotPlainError as exc:
            left_out.append(f"{key!r} ({exc.what})")
    if left_out:
        warn(f"Not written: frame.attrs {', '.join(left_out)}. A file keeps what JSON text can.")
    return kept


def _is_json(value: Any) -> bool:
    """Whether JSON gives the value back without tags."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _encoded_names(names: Sequence[Hashable]) -> str:
    try:
        return json_text.encode([plain(name) for name in names])
    except NotPlainError as exc:
        message = f"The index name {list(names)!r} cannot be kept in a file: {exc.what}. Use text."
        raise UnsupportedValueError(message) from None


def _freq(index: pd.Index) -> str | None:
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return None if index.freq is None else str(index.freqstr)
    return None


def rebuild(table: pa.Table, entry: bytes) -> pd.DataFrame:
    """The frame that was laid out.

    A table whose columns or rows were changed since gives what is there: columns that are gone
    stay away, new ones come last, and rows that the index does not fit are numbered.

    Raises:
        DatasetError: A newer evalframe wrote the file.
        ValueError: Table and entry do not fit each other (KeyError and TypeError as well).
    """
    note = json.loads(entry)
    if note["format"] > FORMAT:
        message = "A newer evalframe wrote it. Run: pip install --upgrade evalframe"
        raise DatasetError(message)
    length = len(table) if table.num_columns else None
    columns = _Columns(table)
    del table
    index = _index(note["index"], columns, length)
    present = [
        position for position, item in enumerate(note["columns"]) if item["field"] in columns.names
    ]
    arrays = [columns.restored(note["columns"][position]) for position in present]
    labels = unpack(note["labels"])
    if len(present) < len(labels):
        labels = labels.take(present)
    if columns.names:
        labels = labels.append(pd.Index(columns.names, dtype=object))
        arrays += [columns.adopted(name).array for name in columns.names]
    frame = _frame(arrays, index)
    frame.columns = labels.set_names(json_text.decode(note["labels_name"]))
    for key, value in note["attrs"]:
        frame.attrs[json_text.decode(key)] = json_text.decode(value)
    return frame


def adopt(table: pa.Table) -> pd.DataFrame:
    """The Arrow-backed frame of a table that evalframe did not write.

    Index and attrs are those that pandas noted, if it wrote the table.
    """
    known = pandas_note.remembered(table.schema)
    length = len(table)
    columns = _Columns(table)
    del table
    levels = [as_index(columns.adopted(field).array).rename(name) for field, name in known.levels]
    index: pd.Index = pd.RangeIndex(length)
    if len(levels) > 1:
        index = pd.MultiIndex.from_arrays(levels)
    elif levels:
        (index,) = levels
    elif known.range is not None and len(range(*known.range[:3])) == length:
        index = pd.RangeIndex(*known.range[:3], name=known.range[3])
    names = columns.names
    frame = _frame([columns.adopted(name).array for name in names], index)
    frame.columns = pd.Index(names, dtype="str")
    frame.attrs.update(known.attrs)
    return frame


class _Columns:
    """The columns of a table; each is given away once, so that its memory can go."""

    def __init__(self, table: pa.Table) -> None:
        self._arrays = dict(zip(table.column_names, table.columns, strict=True))
        self._marked = {
            field.name for field in table.schema if (field.metadata or {}).get(KEY) == b"json"
        }

    @property
    def names(self) -> list[str]:
        return list(self._arrays)

    def restored(self, item: Note) -> Any:
        name = item["field"]
        return restored(self._arrays.pop(name), item["dtype"], json=name in self._marked)

    def adopted(self, name: str) -> pd.Series:
        return from_arrow(name, self._arrays.pop(name), json=name in self._marked)


def _index(note: Note, columns: _Columns, length: int | None) -> pd.Index:
    names = json_text.decode(note["names"])
    if "range" in note:
        index: pd.Index = pd.RangeIndex(*note["range"])
        fits = length is None or len(index) == length
        return (index if fits else pd.RangeIndex(length)).set_names(names)
    if any(item["field"] not in columns.names for item in note["levels"]):
        return pd.RangeIndex(length or 0)
    levels = [as_index(columns.restored(item)) for item in note["levels"]]
    if note["multi"]:
        return pd.MultiIndex.from_arrays(levels, names=names)
    (index,) = levels
    if note["freq"] is not None:
        index = _with_freq(index, note["freq"])
    return index.set_names(names)


def _with_freq(index: Any, freq: str) -> Any:
    """The index with its frequency, or without one that is a calendar of the user's own."""
    try:
        index.freq = freq
    except ValueError:
        index.freq = None
    return index


def _frame(arrays: list[Any], index: pd.Index) -> pd.DataFrame:
    # Series with a dtype: pandas would take an object array of text for `str`.
    made = {
        position: pd.Series(array, index=index, dtype=array.dtype, copy=False)
        for position, array in enumerate(arrays)
    }
    return pd.DataFrame(made, index=index, copy=False)
