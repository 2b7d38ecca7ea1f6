"""Which rows a condition keeps, and which a sample takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core.binding import bind
from evalframe.core.columns import Column, chunked
from evalframe.core.errors import DatasetError
from evalframe.core.mapping import RoleMapping
from evalframe.core.names import ROW
from evalframe.core.namespace import BindingError, Namespace, OutputSource
from evalframe.core.nested import is_null
from evalframe.core.positions import is_counting
from evalframe.core.reading import source_values

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def positions(length: int, n: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """`n` positions below `length`, ascending; with one seed, fewer are part of more."""
    order = np.random.default_rng(seed).permutation(length)
    return np.sort(order[:n]).astype(np.int64)


def kept(
    predicate: Any,
    labels: Sequence[Hashable],
    mapping: RoleMapping,
    column: Callable[[Hashable], Column],
    index: pd.Index,
) -> Mask:
    """One bool per row: whether the condition holds.

    Raises:
        DatasetError: The condition is none, or does not fit these rows.
    """
    if callable(predicate):
        return _computed(predicate, labels, mapping, column, len(index))
    return _given(predicate, index)


def _given(mask: Any, index: pd.Index) -> Mask:
    if isinstance(mask, (pa.Array, pa.ChunkedArray)):
        mask = mask.to_pylist()
    if isinstance(mask, (str, Mapping)) or not hasattr(mask, "__len__"):
        message = (
            f"filter() needs a function or one bool per row, not {type(mask).__name__}. "
            "Write .filter(lambda row: ...)."
        )
        raise DatasetError(message)
    if len(mask) != len(index):
        message = f"filter() got {len(mask)} values for {len(index)} rows."
        raise DatasetError(message)
    if isinstance(mask, pd.Series) and not _fits(mask.index, index):
        message = (
            f"filter() takes values by position; this Series has another index ({mask.index!r}) "
            f"than the data ({index!r}). If it is in the order of the rows, pass mask.to_numpy()."
        )
        raise DatasetError(message)
    cells = list(mask)
    return np.fromiter((_truth(cell, row) for row, cell in enumerate(cells)), bool, len(cells))


def _fits(own: pd.Index, index: pd.Index) -> bool:
    return own.equals(index) or is_counting(own)


def _truth(cell: Any, row: int) -> bool:
    if isinstance(cell, (bool, np.bool_)):
        return bool(cell)
    if is_null(cell):
        return False
    shown = repr(cell)[:80]
    message = f"filter() needs True or False for each row; row {row} is {shown}."
    raise DatasetError(message)


def _computed(
    function: Callable[..., Any],
    labels: Sequence[Hashable],
    mapping: RoleMapping,
    column: Callable[[Hashable], Column],
    length: int,
) -> Mask:
    namespace = Namespace(tuple(labels), mapping)
    name = getattr(function, "__name__", type(function).__name__)
    try:
        binding = bind(function, namespace, what=f"filter function {name!r}", fallback=ROW)
    except BindingError as exc:
        raise DatasetError(str(exc)) from None
    call = binding.caller(function)
    mask = np.zeros(length, dtype=bool)
    for rows in chunked(length):
        count = rows.stop - rows.start
        columns = [
            source_values(source, rows, count, namespace.row_columns, column)
            for source in binding.reads
            if not isinstance(source, OutputSource)
        ]
        for row, values in enumerate(zip(*columns, strict=True), start=rows.start):
            mask[row] = _truth(call(*values), row)
    return mask
