"""What a run makes, on its way into the journal.

Owns   what is worth writing, and what each cell belongs to there.
Leaves the files to results/journal.py, when calls are written to call_records.py, and finding
cells again to resume.py.

Numbering   the occurrence numbers of one table's cells
Recorder    takes cells and outputs, from any thread
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.errors import RunDirError
from evalframe.core.fingerprint import of_cell
from evalframe.core.json_text import encode
from evalframe.core.records import Cell
from evalframe.engines.asked import gives_samples
from evalframe.engines.cell_fingerprints import (
    in_chunks,
    of_call,
    of_one_call,
    of_sample,
    reads_all_rows,
)
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Plan, PlannedEvaluator, Rows
from evalframe.results.journal import Journal
from evalframe.results.journal_cells import Mark

_SAVE_S = 2.0


class Numbering(NamedTuple):
    """The occurrence numbers of the cells that a run adds to a table.

    They tell cells of equal rows apart, and go up with the rows.

    Attributes:
        start: Above the numbers of all cells that are there.
        replaced: Row -> the number of the cell that it has there, and that its new one replaces.
    """

    start: int = 0
    replaced: Mapping[int, int] = {}

    def of(self, row: int) -> int:
        """The number of a row's cell."""
        return self.replaced.get(row, self.start + row)


class Recorder:
    """Puts finished cells and outputs into a journal; any thread may call it."""

    def __init__(
        self,
        journal: Journal,
        plan: Plan,
        inputs: Inputs,
        codes: Mapping[str | None, str],
        numbers: Mapping[str | None, Numbering],
        *,
        save: Callable[[], None],
    ) -> None:
        """Record a run.

        Args:
            journal: Has a table for each of its evaluators, and for its task.
            plan: The run.
            inputs: What its calls read.
            codes: Evaluator, None for the task -> the digest of its code.
            numbers: Evaluator, None for the task -> the numbers of its cells.
            save: Writes what the run has cost so far; called on the loop that asks models, or
                by the pump while no driver asks any.
        """
        self._journal = journal
        self._plan = plan
        self._evaluators = plan.evaluators
        self._inputs = inputs
        self._codes = codes
        self._called = [of_call(codes[e.name], e.call.binding) for e in plan.evaluators]
        task = plan.task
        self._task = None if task is None else of_call(codes[None], task.call.binding)
        self._numbers = numbers
        self._save = save
        self._saved = time.monotonic()

    def key(self, place: int, row: int, values: Sequence[Any]) -> str:
        """What a cell belongs to; to be asked before a call may change what it was given.

        Args:
            place: The evaluator's.
            row: The cell's.
            values: Those of its reads.
        """
        mark = of_cell(self._called[place], values)
        samples = gives_samples(self._evaluators[place].evaluator)
        return of_sample(mark, self._plan.repetition(row)) if samples else mark

    def task_key(self, row: int, values: Sequence[Any], number: int | None) -> str:
        """The same of a task's output.

        Args:
            row: The output's.
            values: What the task reads.
            number: The row's among equal ones; None where the task asks no model.
        """
        assert self._task is not None  # noqa: S101 - who has an output has a task
        mark = of_cell(self._task, values)
        return mark if number is None else of_sample(mark, self._plan.repetition(row), number)

    def put(
        self, place: int, row: int, key: str, cell: Cell, seconds: float | None, *, paid: bool
    ) -> None:
        """One finished cell.

        Args:
            place: The evaluator's.
            row: Its row.
            key: From `key`.
            cell: What it is.
            seconds: Its latency, where the run keeps it.
            paid: Whether it is to be written at the next turn.
        """
        if cell.error in schema.PENDING:
            return
        name = self._evaluators[place].name
        mark = Mark(key, self._numbers[name].of(row), row)
        self._journal.put(name, mark, cell, seconds, paid=paid)

    def put_output(self, row: int, key: str, output: Any, error: str | None) -> None:
        """One finished output of the task, or its failure.

        Args:
            row: Its row.
            key: From `task_key`.
            output: A plain value; of no meaning if there is an error.
            error: Why there is none.
        """
        if error in schema.PENDING:
            return
        mark = Mark(key, self._numbers[None].of(row), row)
        self._journal.put_output(mark, encode(output) if error is None else None, error)

    def add(self, place: int, rows: Rows, cells: CellColumns, together: Rows | None = None) -> None:
        """Finished cells of several rows, of an evaluator that runs in the caller's thread.

        Args:
            place: The evaluator's.
            rows: Their rows.
            cells: One for each of them.
            together: All rows that a vectorized evaluator was due on, these among them.

        Raises:
            JournalError: The disk fails.
        """
        planned, numbers = self._evaluators[place], np.asarray(rows)
        is_one_call = together is not None and reads_all_rows(planned.evaluator)
        read = np.asarray(together) if is_one_call else numbers
        at = done = 0
        for keys in self._keys(planned, read):
            if at:
                self.tick()  # so that no more waits than a chunk
            here = read[at : at + len(keys)]
            mine = numbers[slice(*np.searchsorted(numbers, [*here[:1], *here[-1:] + 1]))]
            taken = [keys[place] for place in np.searchsorted(here, mine)]
            self._add(planned, taken, mine, cells.slice(done, len(mine)))
            at, done = at + len(keys), done + len(mine)

    def _add(
        self,
        planned: PlannedEvaluator,
        keys: list[str],
        rows: np.ndarray[Any, Any],
        cells: CellColumns,
    ) -> None:
        if cells.errors.null_count < len(cells):
            errors = cells.errors.to_pylist()
            made = [at for at, error in enumerate(errors) if error not in schema.PENDING]
            if len(made) < len(errors):
                keys, rows = [keys[at] for at in made], rows[made]
                cells = cells.take(pa.array(made, pa.int64()))
        numbering, numbers = self._numbers[planned.name], rows.tolist()
        occurrences = [numbering.of(row) for row in numbers]
        paid = planned.evaluator.vectorized
        self._journal.add(planned.name, keys, occurrences, numbers, cells, paid=paid)

    def _keys(self, planned: PlannedEvaluator, rows: Rows) -> Iterator[list[str]]:
        binding, code = planned.call.binding, self._codes[planned.name]
        chunks = partial(in_chunks, binding, code, self._inputs, rows)
        return of_one_call(chunks) if reads_all_rows(planned.evaluator) else chunks()

    def tick(self, *, everything: bool = False) -> None:
        """Write what is due, or all that waits.

        Raises:
            JournalError: The disk fails.
        """
        if everything:
            self._journal.flush()
        else:
            self._journal.tick(time.monotonic())

    def save(self) -> None:
        """Have what the run has cost, and its tracebacks, written, if it is time for that."""
        now = time.monotonic()
        if now - self._saved < _SAVE_S:
            return
        self._saved = now
        # Results are worth more than what is told of them: the journal says when the disk fails.
        with contextlib.suppress(RunDirError):
            self._save()
