"""What a vectorized evaluator returns, placed on the rows it was given.

Owns   which row a returned value belongs to, and which returned column is what.
Leaves the check of values to bulk.py and normalize.py.

A Series or DataFrame goes by position if its index is 0..n of type RangeIndex or equals the
rows' index; by label if it holds the rows' labels in another order; anything else has no
row it belongs to, and fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.columns import Column, nan_to_null
from evalframe.core.errors import listed
from evalframe.core.nested import is_null
from evalframe.core.positions import is_counting
from evalframe.core.records import Skip
from evalframe.evaluators.bulk import cells_of, in_range, normalize_all
from evalframe.evaluators.normalize import InvalidResultError, Rules, describe

_PARTS = (schema.LABEL, schema.SCORE, schema.EXPLANATION, schema.METADATA)
_SHOWN_LABELS = 5


def place(returned: Any, index: pd.Index, rules: Rules) -> CellColumns:
    """The cells of a vectorized evaluator.

    Args:
        returned: What it returned.
        index: The index of the rows it was given.
        rules: Its score range and extras.

    Raises:
        InvalidResultError: The whole result has no rows to go to: wrong length, shape or index.
    """
    if isinstance(returned, CellColumns):
        return in_range(returned, rules)  # of a built-in, which has made its cells itself
    if isinstance(returned, tuple):
        return _from_tuple(returned, index, rules)
    if _is_table(returned):
        table = pa.table(returned)
        returned = dict(zip(table.column_names, table.columns, strict=True))
        if len(returned) < table.num_columns:
            raise InvalidResultError(_twice(table.column_names))
    if isinstance(returned, pd.DataFrame):
        _check_length(len(returned), index)
        rows = _by_index(returned, index)
        if not rows.columns.is_unique:
            raise InvalidResultError(_twice(rows.columns))
        named = {name: rows.iloc[:, i] for i, name in enumerate(rows.columns)}
        return _from_named(named, index, rules, positional=True)
    if isinstance(returned, Mapping):
        return _from_named(dict(returned), index, rules, positional=False)
    return _from_one(_values(returned, index), rules)


def _is_table(part: Any) -> bool:
    """Whether it is a table of another kind than pandas': Arrow's, Polars', DuckDB's."""
    return not isinstance(part, pd.DataFrame) and _speaks_arrow(part) and hasattr(part, "columns")


def _twice(names: Iterable[Hashable]) -> str:
    return f"returned a table with the columns {listed(names)}: one of them is there twice"


def _from_one(values: pa.Array | list[Any], rules: Rules) -> CellColumns:
    if isinstance(values, list):
        return normalize_all(values, rules)
    if pa.types.is_large_string(values.type):
        return cells_of(rules, label=values)
    return cells_of(rules, score=values)


def _from_tuple(returned: tuple[Any, ...], index: pd.Index, rules: Rules) -> CellColumns:
    if len(returned) not in (2, 3):
        message = f"returned a tuple of {len(returned)}; up to three columns are accepted"
        raise InvalidResultError(message)
    columns = [_values(part, index) for part in returned]
    kinds = tuple("list" if isinstance(column, list) else _kind(column) for column in columns)
    names = _TUPLES.get(kinds)
    if names is None:
        # Mixed or empty columns: row by row, by the same table as a single verdict.
        rows = zip(*map(_listed, columns), strict=True)
        return normalize_all(list(rows), rules)
    parts: dict[str, Any] = dict(zip(names, columns, strict=True))
    return cells_of(rules, **parts)


_TUPLES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("number", "text"): ("score", "explanation"),
    ("text", "text"): ("label", "explanation"),
    ("text", "number"): ("label", "score"),
    ("text", "number", "text"): ("label", "score", "explanation"),
    ("number", "text", "text"): ("score", "label", "explanation"),
}


def _from_named(
    named: dict[Any, Any], index: pd.Index, rules: Rules, *, positional: bool
) -> CellColumns:
    unknown = [name for name in named if name not in _PARTS and name not in rules.extras]
    if unknown:
        accepted = f"{listed(_PARTS)} and declared extras ({listed(rules.extras)})"
        message = f"returned columns named {listed(unknown)}; they may be {accepted}"
        raise InvalidResultError(message)
    if schema.LABEL not in named and schema.SCORE not in named:
        message = "returned neither a label nor a score column; one of them must be there"
        raise InvalidResultError(message)
    where = pd.RangeIndex(len(index)) if positional else index
    parts = {
        name: part.reset_index(drop=True) if positional else part for name, part in named.items()
    }
    columns: dict[str, Any] = {name: _values(part, where) for name, part in parts.items()}
    if all(_fits(name, column, rules) for name, column in columns.items()):
        extras = {name: columns.pop(name) for name in rules.extras if name in columns}
        extras = {
            name: column.cast(schema.EXTRA_TYPES[rules.extras[name]], safe=False)
            for name, column in extras.items()
        }
        label, score, explanation = (columns.get(name) for name in _PARTS[:3])
        return cells_of(rules, label=label, score=score, explanation=explanation, extras=extras)
    lists = {name: _listed(column) for name, column in columns.items()}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    return normalize_all([_dropped(row) for row in rows], rules)


def _dropped(row: dict[str, Any]) -> Any:
    """A row of named parts; without any verdict it is skipped, as a missing value is."""
    if row.get(schema.LABEL) is not None or row.get(schema.SCORE) is not None:
        return row
    reason = row.get(schema.EXPLANATION)
    return Skip(reason) if isinstance(reason, str) else None


def _fits(name: str, column: pa.Array | list[Any], rules: Rules) -> bool:
    if isinstance(column, list) or name == schema.METADATA:
        return False
    if name == schema.SCORE:
        return _kind(column) == "number"
    if name in (schema.LABEL, schema.EXPLANATION):
        return _kind(column) == "text"
    wanted = rules.extras[name]
    if wanted is float:
        number = _kind(column) == "number" and not pa.types.is_boolean(column.type)
        return number and bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    return bool(wanted != "json" and column.type == schema.EXTRA_TYPES[wanted])


def _kind(column: pa.Array) -> str:
    return "text" if pa.types.is_large_string(column.type) else "number"


def _listed(column: pa.Array | list[Any]) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def _values(part: Any, index: pd.Index) -> pa.Array | list[Any]:
    """One returned column in the rows' order: text, bool or number as Arrow, else a list."""
    if isinstance(part, pd.DataFrame) or _is_table(part):
        message = f"returned a table ({type(part).__name__}) where one column is expected"
        raise InvalidResultError(message)
    if isinstance(part, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        _check_length(len(part), index)
        series = _by_index(part, index) if isinstance(part, pd.Series) else pd.Series(part)
        return _from_series(series)
    if isinstance(part, np.ndarray):
        return _from_numpy(part, index)
    if isinstance(part, (pa.Array, pa.ChunkedArray)) or _speaks_arrow(part):
        return _from_arrow(part, index)
    if isinstance(part, Iterator):
        part = list(part)
    if not isinstance(part, list):
        if inspect.iscoroutine(part):
            part.close()
        message = (
            f"returned {describe(part)} for {len(index)} rows; a vectorized evaluator returns a "
            "Series, an array, a list, a tuple of columns, a DataFrame or a dict of columns"
        )
        raise InvalidResultError(message)
    _check_length(len(part), index)
    return part


def _check_length(length: int, index: pd.Index) -> None:
    if length != len(index):
        message = f"returned {length} results for {len(index)} rows"
        raise InvalidResultError(message)


def _by_index(returned: Any, index: pd.Index) -> Any:
    found = returned.index
    counts = is_counting(found)
    if counts and _counts_down(index) and not found.equals(index):
        message = (
            f"returned the index 0..{len(found) - 1}, which could be positions or the labels of "
            f"rows that count down ({_shown(index)}); keep the index of the given Series, or "
            "return .to_numpy()"
        )
        raise InvalidResultError(message)
    if counts or found.equals(index):
        return returned
    if index.is_unique and found.is_unique:
        places = found.get_indexer(index)
        if (places >= 0).all():
            return returned.iloc[places]
    message = (
        f"returned an index that is not the rows': it has {_shown(found)}, the rows have "
        f"{_shown(index)}; keep the index of the given Series, or return .to_numpy()"
    )
    raise InvalidResultError(message)


def _counts_down(index: pd.Index) -> bool:
    """Whether 0..n could be the rows' labels as well as positions: their index counts down."""
    return isinstance(index, pd.RangeIndex) and index.step < 0 and 0 in index


def _shown(index: pd.Index) -> str:
    more = ", ..." if len(index) > _SHOWN_LABELS else ""
    return f"[{', '.join(map(repr, index[:_SHOWN_LABELS].tolist()))}{more}]"


def _from_series(series: pd.Series) -> pa.Array | list[Any]:
    """Missing in a pandas result means skipped, NaN included."""
    if isinstance(series.dtype, np.dtype):
        series = series.copy()  # the user could change a NumPy buffer later
    column = Column(series.name, series)
    kind = column.native_type
    if kind is None or not (_is_number(kind) or _is_text(kind)):
        return [None if is_null(value) else value for value in series.astype(object).tolist()]
    array = _one(column.stored().array)
    if pa.types.is_floating(array.type):
        array = nan_to_null(array)
    return array.cast(schema.TEXT) if _is_text(kind) else array


def _from_numpy(array: np.ndarray[Any, Any], index: pd.Index) -> pa.Array | list[Any]:
    if array.ndim != 1:
        message = f"returned an array of shape {array.shape} for {len(index)} rows; it must be flat"
        raise InvalidResultError(message)
    _check_length(len(array), index)
    if array.dtype.kind in "bui" or array.dtype in (np.float64, np.float32):
        # A copy, which the user cannot change later; not from_pandas: NaN here is a mistake.
        return pa.array(array.copy())
    # Times stay NumPy's, which are no scores: tolist() would make them integers.
    return list(array if array.dtype.kind in "OmM" else array.tolist())


def _speaks_arrow(part: Any) -> bool:
    return any(hasattr(part, name) for name in ("__arrow_c_array__", "__arrow_c_stream__"))


def _from_arrow(part: Any, index: pd.Index) -> pa.Array | list[Any]:
    if not isinstance(part, (pa.Array, pa.ChunkedArray)):
        part = pa.chunked_array(part)
    array = _one(part)
    _check_length(len(array), index)
    if _is_text(array.type):
        return array.cast(schema.TEXT)
    return array if _is_number(array.type) else list(array.to_pylist())


def _one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_boolean, types.is_integer, types.is_float32, types.is_float64)
    return any(test(kind) for test in tests)
