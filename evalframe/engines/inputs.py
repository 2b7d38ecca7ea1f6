"""The values that tasks and evaluators are called with.

Every reader gets values of its own: lists and dicts are decoded again for each, so what one
call does to a value reaches nobody else. Immutable values are decoded once per batch.

Inputs   values by source and row
Batch    the values of some rows, shared between readers where that is safe
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evalframe.core.binding import Argument, Binding, arranged
from evalframe.core.columns import Column, Rows, chunked, series_of
from evalframe.core.namespace import ColumnSource, OutputSource, RowSource, Source
from evalframe.core.nested import ATOMS, plain
from evalframe.core.reading import source_values


class VectorArguments(NamedTuple):
    """What a vectorized evaluator is called with.

    Attributes:
        rows: The rows it sees.
        positional: Arguments by position.
        named: Arguments by keyword.
        failed: Rows that were left out, and why.
    """

    rows: np.ndarray[Any, Any]
    positional: list[Any]
    named: dict[str, Any]
    failed: dict[int, Exception]


class Inputs:
    """Values by source and row; rows count repetitions.

    Attributes:
        outputs: What the task gave, by row; owned by the run, given out as copies.
    """

    def __init__(
        self,
        column: Callable[[Hashable], Column],
        row_columns: Sequence[Hashable],
        index: pd.Index,
        repetitions: int,
        outputs: Sequence[Any] = (),
    ) -> None:
        """Read from the columns of a dataset.

        Args:
            column: Label -> column of the dataset.
            row_columns: The columns of the dataset row.
            index: Index of the result's rows.
            repetitions: How often each dataset row is run.
            outputs: By row, where a task makes them: those that are there already, else None.
        """
        self._column = column
        self._row_columns = row_columns
        self.index = index
        self.repetitions = repetitions
        self.outputs = list(outputs)

    def output(self, row: int) -> Any:
        """A copy of the task's output of one row."""
        value = self.outputs[row]
        return value if type(value) in ATOMS else plain(value)

    def values(self, source: Source, rows: Rows) -> list[Any]:
        """Fresh values of one source for these rows."""
        if isinstance(source, OutputSource):
            return [self.output(row) for row in _numbers(rows)]
        count = len(_numbers(rows))
        return source_values(source, self._places(rows), count, self._row_columns, self._column)

    def shareable(self, source: Source) -> bool:
        """Whether the values are immutable, so that one list serves every reader."""
        return isinstance(source, ColumnSource) and not self._column(source.label).mutable

    def vector(self, source: Source, rows: np.ndarray[Any, Any], *, shared: bool = False) -> Any:
        """One source as a vectorized evaluator sees it, for these rows.

        Args:
            source: What to read.
            rows: The rows it is to see.
            shared: Whether it changes nothing in a column.

        Returns:
            A Series; a DataFrame for the dataset row and for several metadata columns.
        """
        if isinstance(source, OutputSource):
            values = [self.output(row) for row in rows]
            return series_of(values, self.index[rows], "output")
        if isinstance(source, ColumnSource):
            return self._vector(source.label, rows, shared=shared)
        labels = self._row_columns if isinstance(source, RowSource) else source.labels
        return pd.DataFrame(
            {label: self._vector(label, rows) for label in labels}, index=self.index[rows]
        )

    def vector_arguments(
        self, binding: Binding, rows: np.ndarray[Any, Any], *, shared: bool
    ) -> VectorArguments:
        """The arguments of a vectorized call; bound paths and functions are followed by row.

        Args:
            binding: What the evaluator reads.
            rows: The rows it is to see; those on which a path or function fails are left out.
            shared: Whether it changes nothing in a column.
        """
        failed: dict[int, Exception] = {}
        followed = {
            place: self._followed(argument, binding, rows, failed)
            for place, argument in enumerate(binding.arguments)
            if not argument.plain
        }
        kept = np.setdiff1d(rows, list(failed)) if failed else rows
        made: list[Any] = []
        for place, argument in enumerate(binding.arguments):
            if place in followed:
                made.append(series_of([followed[place][row] for row in kept], self.index[kept]))
                continue
            value = self.vector(binding.reads[argument.start], kept, shared=shared)
            made.append(
                {name: value[name] for name in value} if argument.keyword == "**" else value
            )
        positional, named = arranged(binding.arguments, made)
        return VectorArguments(kept, positional, named, failed)

    def _followed(
        self,
        argument: Argument,
        binding: Binding,
        rows: np.ndarray[Any, Any],
        failed: dict[int, Exception],
    ) -> dict[int, Any]:
        """Row -> value of a bound path or function; rows where it fails go into `failed`."""
        reads = binding.reads[argument.start : argument.start + argument.count]
        blank = [None] * argument.start
        found: dict[int, Any] = {}
        for chunk in chunked(len(self.index)):
            here = rows[np.searchsorted(rows, chunk.start) : np.searchsorted(rows, chunk.stop)]
            columns = [self.values(source, chunk) for source in reads] if len(here) else []
            for row in map(int, here):
                values = [column[row - chunk.start] for column in columns]
                try:
                    found[row] = argument.value([*blank, *values])
                except Exception as exc:  # noqa: BLE001 - a user's function may raise anything
                    failed.setdefault(row, exc)
        return found

    def _places(self, rows: Rows) -> Rows:
        return rows if self.repetitions == 1 else np.asarray(_numbers(rows)) // self.repetitions

    def _vector(
        self, label: Hashable, rows: np.ndarray[Any, Any], *, shared: bool = False
    ) -> pd.Series:
        series = self._column(label).vector(shared=shared)
        if self.repetitions == 1 and len(rows) == len(series):
            return series
        return series.iloc[rows // self.repetitions].set_axis(self.index[rows])


def _numbers(rows: Rows) -> range | np.ndarray[Any, Any]:
    return range(rows.start, rows.stop) if isinstance(rows, slice) else rows


class Batch:
    """The values of some rows for several readers."""

    def __init__(self, inputs: Inputs, rows: Rows) -> None:
        """Remember the rows; nothing is decoded yet."""
        self._inputs = inputs
        self._rows = rows
        self._shared: dict[Source, list[Any]] = {}

    def columns(self, binding: Binding) -> list[list[Any]]:
        """The values of a binding's reads: one list per source, as long as the batch."""
        return [self._read(source) for source in binding.reads]

    def _read(self, source: Source) -> list[Any]:
        if not self._inputs.shareable(source):
            return self._inputs.values(source, self._rows)
        if source not in self._shared:
            self._shared[source] = self._inputs.values(source, self._rows)
        return self._shared[source]
