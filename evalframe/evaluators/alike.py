"""Rows that differ in nothing that matters share one cell.

Alike   cells by what they are made of
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pyarrow as pa

from evalframe.core.cells import CellColumns
from evalframe.core.records import Cell


class Alike(dict[Any, int]):
    """The numbers of cells, by what these are made of; a cell is made when it is first met.

    Texts and tuples of them or of floats are good keys. 1, 1.0 and True are one key.
    """

    def __init__(self, make: Callable[[Any], Cell]) -> None:
        """Start without a cell.

        Args:
            make: A key -> its cell.
        """
        super().__init__()
        self._make = make
        self._cells: list[Cell] = []

    def __missing__(self, key: Hashable) -> int:
        """Make the cell."""
        self._cells.append(self._make(key))
        number = self[key] = len(self._cells) - 1
        return number

    def columns(self, numbers: list[int], further: Mapping[str, pa.DataType]) -> CellColumns:
        """The cells of rows.

        Args:
            numbers: Of the cell of each row.
            further: The evaluator's columns beyond the five.
        """
        return CellColumns.of(self._cells, further).take(pa.array(numbers, pa.int64()))
