"""Cells of one evaluator over consecutive rows, as Arrow arrays.

This is the form in which results travel: from the normaliser to the builder, and later from
an engine's worker to its driver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evalframe.core import schema
from evalframe.core.columns import CHUNK_ROWS
from evalframe.core.records import Cell


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """An array of nulls; most result columns are nothing else, so small ones are shared."""
    return _shared_nulls(count, kind) if count <= CHUNK_ROWS else pa.nulls(count, kind)


@functools.lru_cache(maxsize=8)
def _shared_nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


@dataclass(frozen=True, slots=True)
class CellColumns:
    """Result columns of `len(self)` rows: field -> Arrow array, types as in schema.py."""

    arrays: Mapping[str, pa.Array]

    @classmethod
    def of(cls, cells: Sequence[Cell], further: Mapping[str, pa.DataType]) -> CellColumns:
        """The columns of cells in their strict form.

        Args:
            cells: One per row.
            further: The evaluator's columns beyond the five; `Cell.extras` are in their order.
        """
        fields = [*schema.FIELDS.items()]
        columns = list(zip(*cells, strict=True)) if cells else [()] * (len(fields) + 1)
        arrays = {
            name: pa.array(column, type=kind)
            for (name, kind), column in zip(fields, columns, strict=False)
        }
        if further:
            none = (None,) * len(further)
            rows = [cell.extras or none for cell in cells]
            values = list(zip(*rows, strict=True)) if rows else [()] * len(further)
            for (name, kind), column in zip(further.items(), values, strict=True):
                arrays[name] = pa.array(column, type=kind)
        return cls(arrays)

    @classmethod
    def all_alike(cls, count: int, error: str, further: Mapping[str, pa.DataType]) -> CellColumns:
        """`count` rows that all ended in the same error or skip."""
        arrays = {name: nulls(count, kind) for name, kind in schema.FIELDS.items()}
        arrays[schema.ERROR] = pa.repeat(pa.scalar(error, schema.TEXT), count)
        arrays |= {name: nulls(count, kind) for name, kind in further.items()}
        return cls(arrays)

    def slice(self, start: int, length: int) -> CellColumns:
        """Some consecutive rows; nothing is copied."""
        return CellColumns({k: array.slice(start, length) for k, array in self.arrays.items()})

    def take(self, rows: pa.Array) -> CellColumns:
        """The cells at these positions, any of them any number of times."""
        return CellColumns(
            {
                name: nulls(len(rows), array.type)
                if array.null_count == len(array)
                else array.take(rows)
                for name, array in self.arrays.items()
            }
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.arrays[schema.ERROR])

    @property
    def errors(self) -> pa.Array:
        """The error column."""
        return self.arrays[schema.ERROR]

    def with_latency(self, seconds: Sequence[float | None]) -> CellColumns:
        """The same cells with how long each call took."""
        return CellColumns({**self.arrays, schema.LATENCY: pa.array(seconds, schema.NUMBER)})
