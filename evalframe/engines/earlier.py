"""Which of the results that a frame has already `only=` runs again.

    missing  cells without a result: null, `skipped: not run`, `skipped: budget`, ...
    failed   cells that failed, and those whose task failed
    all      every cell

With a task, each row that has no output gets one, and all its cells are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.columns import Column
from evalframe.core.errors import UnsupportedValueError, listed
from evalframe.engines.plan import Mask, PlannedEvaluator, PlannedTask
from evalframe.engines.prior import KeptCells, KeptOutputs, Prior
from evalframe.tasks.output import InvalidOutputError, checked_output

MISSING, FAILED, ALL = "missing", "failed", "all"
ONLY = (MISSING, FAILED, ALL)

_OF_DETAILS = frozenset({*schema.DETAILS, *schema.JUDGE_DETAILS})


def has_details(columns: Iterable[Hashable]) -> bool:
    """Whether results among these columns have details: who adds to them keeps details too."""
    return any((schema.parse(label) or ("", ""))[1] == schema.LATENCY for label in columns)


class Earlier:
    """The results in a frame, and what is wrong with adding to them.

    Attributes:
        problems: Why a run cannot go on from here.
    """

    def __init__(
        self,
        columns: Sequence[Hashable],
        column: Callable[[Hashable], Column],
        rows: int,
        failed_rows: Sequence[int],
        only: str,
    ) -> None:
        """Look at a frame; nothing is read yet.

        Args:
            columns: Its columns.
            column: Label -> column.
            rows: How many rows it has.
            failed_rows: Rows whose task failed, in a run without a task.
            only: One of `ONLY`.
        """
        self.problems: list[str] = []
        self._columns = columns
        self._column = column
        self._rows = rows
        self._only = only
        self._without_output = np.zeros(rows, bool)
        self._without_output[list(failed_rows)] = True
        self._new_outputs = np.zeros(rows, bool)
        self._cells: dict[str, KeptCells] = {}
        self._outputs: KeptOutputs | None = None

    def prior(self) -> Prior:
        """What is there, of the task and the evaluators that were added."""
        return Prior(self._cells, self._outputs)

    def add_task(self, planned: PlannedTask) -> None:
        """See which outputs are there; before the evaluators, whose cells go by that."""
        self._new_outputs = np.ones(self._rows, bool)
        if schema.OUTPUT not in self._columns or self._only == ALL:
            return
        try:
            values = self._column(schema.OUTPUT).values(slice(None))
            todo = self._without_outputs(values)
            kept = [
                None if todo[row] else _checked(value, planned.task.output, row)
                for row, value in enumerate(values)
            ]
        except (UnsupportedValueError, _UnusableError) as exc:
            self.problems.append(f"{exc} To make all outputs anew: only='all'.")
            return
        self._new_outputs, self._outputs = todo, KeptOutputs(kept, todo)

    def _without_outputs(self, values: list[Any]) -> Mask:
        """Rows whose output is to be made."""
        # A null may be what the task gave: then some evaluator has seen it.
        null = np.fromiter((value is None for value in values), bool, self._rows)
        todo = null & ~self._judged() if null.any() else null
        if schema.TASK_ERROR in self._columns:
            todo = todo | ~_null(self._array(schema.TASK_ERROR, schema.TEXT))
        return todo

    def add_others(self, given: Sequence[str]) -> None:
        """Results of evaluators that do not run must not be of outputs that go."""
        if schema.OUTPUT not in self._columns or not self._new_outputs.any():
            return
        names = [name for name in schema.evaluators_in(self._columns) if name not in given]
        try:
            old = [name for name in names if (self._verdicts(name) & self._new_outputs).any()]
        except _UnusableError as exc:
            self.problems.append(f"{exc} Drop the columns of its evaluator.")
            return
        if old:
            self.problems.append(
                f"The frame has results of {listed(old)} for another output than the task will "
                "make. Run these evaluators again too, or drop their columns (eval.<name>.*)."
            )

    def add_evaluator(self, planned: PlannedEvaluator, fields: dict[str, pa.DataType]) -> None:
        """See which cells of an evaluator are there.

        Args:
            planned: The evaluator.
            fields: Its columns: field -> type.
        """
        name = planned.name
        there = [pair[1] for pair in map(schema.parse, self._columns) if pair and pair[0] == name]
        if not there or self._only == ALL:
            return
        problem = self._unlike(name, there, fields)
        if problem is not None:
            self.problems.append(problem)
            return
        kinds = {field: kind for field, kind in fields.items() if field in there}
        try:
            arrays = {f: self._array(schema.column(name, f), kind) for f, kind in kinds.items()}
        except _UnusableError as exc:
            advice = f"Drop the columns of {name!r} (eval.{name}.*), or pass only='all'."
            self.problems.append(f"{exc} {advice}")
            return
        self._cells[name] = self._kept(planned, CellColumns(arrays))

    def _unlike(self, name: str, there: list[str], fields: dict[str, pa.DataType]) -> str | None:
        """What to say of columns that are not those the evaluator makes."""
        lacking = [f for f in fields if f not in there and f not in _OF_DETAILS]
        unknown = [f for f in there if f not in fields]
        parts = [f"there is no {listed(lacking)}"] if lacking else []
        parts += [f"{listed(unknown)} is none of its fields"] if unknown else []
        if not parts:
            return None
        return (
            f"The results of {name!r} in the frame are not of the form it gives now: "
            f"{', and '.join(parts)}. Make all its cells anew (only='all'), or give it another "
            f"name: .named('{name}_2')."
        )

    def _kept(self, planned: PlannedEvaluator, cells: CellColumns) -> KeptCells:
        blank = np.ones(self._rows, bool)
        for array in cells.arrays.values():
            blank &= _null(array)
        orphaned = _where(cells.errors, _is_task_failed)
        if self._only == FAILED:
            todo = _where(cells.errors, schema.is_failure) | orphaned
            self._check_outputs(planned.name, orphaned & self._without_output)
        else:
            todo = blank | _where(cells.errors, schema.PENDING.__contains__)
        todo = (todo & ~self._without_output) | self._new_outputs
        # Cells of an output that goes have nothing to say of the one that comes.
        rows = np.flatnonzero(~(self._new_outputs | (blank & todo)))
        whole = len(rows) == self._rows
        arrays = {
            field: array if whole else array.take(pa.array(rows))
            for field, array in cells.arrays.items()
        }
        return KeptCells(rows, CellColumns(arrays), todo)

    def _check_outputs(self, name: str, lost: Mask) -> None:
        if lost.any():
            self.problems.append(
                f"{int(lost.sum())} cells of {name!r} failed with the task that was to make their "
                "output, and no task is given to make it now. Give the task as well, or use "
                "only='missing', which leaves these cells as they are."
            )

    def _judged(self) -> Mask:
        """Rows on which some evaluator has a result."""
        judged = np.zeros(self._rows, bool)
        for name in schema.evaluators_in(self._columns):
            judged |= self._verdicts(name)
        return judged

    def _verdicts(self, name: str) -> Mask:
        """Rows on which an evaluator has been run, whatever came of it."""
        errors = self._array(schema.column(name, schema.ERROR), schema.TEXT)
        not_run = _where(errors, lambda text: text in schema.PENDING or _is_task_failed(text))
        something = np.zeros(self._rows, bool)
        for label in self._columns:
            if (schema.parse(label) or ("",))[0] == name:
                something |= self._column(label).series.notna().to_numpy(dtype=bool)
        return something & ~not_run

    def _array(self, label: Hashable, kind: pa.DataType) -> pa.Array:
        """A result column as it was made, whatever dtype it has by now.

        Raises:
            _UnusableError: It holds something else.
        """
        column = self._column(label)
        if column.series.isna().all():
            return pa.nulls(self._rows, kind)
        try:
            stored = column.stored()
            array = stored.array if stored.array.type == kind else stored.array.cast(kind)
        except (UnsupportedValueError, pa.ArrowException) as exc:
            raise _UnusableError(_unusable(label, kind)) from exc
        if stored.json:
            raise _UnusableError(_unusable(label, kind))
        if isinstance(array, pa.Array):
            return array
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


class _UnusableError(Exception):
    """A column of results does not hold results."""


def _checked(value: Any, declared: Any, row: int) -> Any:
    try:
        return checked_output(value, declared)
    except InvalidOutputError as exc:
        message = f"Column 'output', row {row}: {exc}, and this row's is to be kept."
        raise _UnusableError(message) from exc


def _unusable(label: Hashable, kind: pa.DataType) -> str:
    return f"Column {label!r} should hold results of an earlier run ({kind}), and holds others."


def _is_task_failed(text: str) -> bool:
    return schema.error_kind(text) == schema.TASK_FAILED


def _null(array: pa.Array) -> Mask:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _where(errors: pa.Array, test: Callable[[str], bool]) -> Mask:
    """Where the text of an error passes the test; each text is looked at once."""
    encoded = errors.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    hits = np.array([*map(test, texts), False])
    found: Mask = hits[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    return found
