"""Going on from the journal of an earlier run.

Owns   which of the cells and outputs in a journal a run takes over, by their content.
Leaves what a run does about results that its frame has already to earlier.py and prior.py.

A failure that is a fact of the row is as finished as a score, and stays. One where no answer came
(a timeout, a server out of reach) is not: its cell is made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.json_text import decode
from evalframe.engines.asked import gives_samples
from evalframe.engines.cell_fingerprints import (
    in_chunks,
    of_one_call,
    of_samples,
    reads_all_rows,
)
from evalframe.engines.earlier import ALL, FAILED
from evalframe.engines.inputs import Inputs
from evalframe.engines.occurrences import Occurrences
from evalframe.engines.plan import Call, Mask, Plan, PlannedEvaluator, PlannedTask
from evalframe.engines.recorder import Numbering
from evalframe.results.journal import Journal
from evalframe.results.journal_cells import JournalCells, Numbers, packed
from evalframe.results.journal_reader import JournalReader
from evalframe.tasks.output import InvalidOutputError, checked_output


class Restored(NamedTuple):
    """Cells of one evaluator that are taken over.

    Attributes:
        rows: Their rows, ascending.
        cells: One for each of them.
    """

    rows: np.ndarray[Any, Any]
    cells: CellColumns


class Resume:
    """What a run takes over from a journal, and what is left to do.

    Attributes:
        plan: The run with what is left to do.
        cells: Evaluator -> what of it is taken over.
        outputs: How many outputs of the task are taken over, failed ones included.
        failed: Evaluator, None for the task -> how many failures are among them.
        numbers: Evaluator, None for the task -> the numbers of the cells that the run adds.
        matched: Cells and outputs of the run's rows that are there, whether it takes them or not.
        there: Cells and outputs that the journal has of its evaluators and task.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Inputs,
        journal: Journal | JournalReader,
        codes: Mapping[str | None, str],
        only: str | None,
    ) -> None:
        """Look into a journal.

        Args:
            plan: The run as it would be without.
            inputs: What its calls read; outputs of the task that are taken over go in there.
            journal: Has a table for each of its evaluators, and for its task.
            codes: Evaluator, None for the task -> the digest of its code.
            only: The run's `only=`.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        self._inputs = inputs
        self._journal = journal
        self._codes = codes
        self._only = only
        self.cells: dict[str, Restored] = {}
        self.outputs = self.matched = self.there = 0
        self.failed: Counter[str | None] = Counter()
        self.numbers: dict[str | None, Numbering] = {}
        self.plan = plan
        if plan.task is not None:
            self.plan = self._with_outputs(plan, plan.task)
        evaluators = tuple(map(self._with_cells, plan.evaluators))
        self.plan = replace(self.plan, evaluators=evaluators)

    def _with_outputs(self, plan: Plan, planned: PlannedTask) -> Plan:
        todo, no_output = _whole(planned.todo, plan.rows), dict(plan.no_output)
        rows = np.arange(plan.rows)
        stored = self._journal.outputs()
        at = self._found(stored, rows, self._output_keys(planned, rows))
        rows, at = _there(rows, at, todo)
        columns = stored.take(at)
        usable, texts = _usable(columns.errors, self._only), columns.arrays[schema.OUTPUT]
        for place in np.flatnonzero(usable):
            row, error = int(rows[place]), columns.errors[place].as_py()
            if error is not None:
                no_output[row] = error
                self.failed[None] += 1
            elif not self._take(row, texts[place].as_py(), planned.task.output):
                usable[place] = False
        todo[rows[usable]] = False
        self._number(None, stored, rows[~usable], at[~usable])
        self.outputs = int(usable.sum())
        return replace(plan, task=replace(planned, todo=todo), no_output=no_output)

    def _output_keys(self, planned: PlannedTask, rows: Numbers) -> Iterator[list[str]]:
        chunks = self._chunks(planned.call, None, rows)
        if gives_samples(planned.task):
            binding, repetition_of = planned.call.binding, self.plan.repetition_of
            occurrences = Occurrences(binding, self._inputs, repetition_of)
            chunks = of_samples(chunks, rows, self.plan, occurrences)
        yield from chunks

    def _take(self, row: int, text: str, declared: Any) -> bool:
        try:
            self._inputs.outputs[row] = checked_output(decode(text), declared)
        except InvalidOutputError:  # its `version` is the same, and its declared type is not
            return False
        return True

    def _with_cells(self, planned: PlannedEvaluator) -> PlannedEvaluator:
        name = planned.name
        todo, together = _whole(planned.todo, self.plan.rows), reads_all_rows(planned.evaluator)
        rows = self._together(todo) if together else np.flatnonzero(self._readable())
        stored, chunks = self._journal.cells(name), partial(self._chunks, planned.call, name, rows)
        keys = of_one_call(chunks) if together else chunks()
        if gives_samples(planned.evaluator):
            keys = of_samples(keys, rows, self.plan, None)
        at = self._found(stored, rows, keys)
        is_whole = bool((at >= 0).all())
        rows, at = _there(rows, at, todo)
        cells = stored.take(at)
        usable = _usable(cells.errors, self._only)
        if together and not (is_whole and usable.all()):
            usable[:] = False
        self._number(name, stored, rows[~usable], at[~usable])
        if not usable.any():
            return planned
        kept = cells if usable.all() else cells.take(pa.array(np.flatnonzero(usable)))
        self.cells[name] = Restored(rows[usable], kept)
        self.failed[name] = sum(map(schema.is_failure, kept.errors.drop_null().to_pylist()))
        todo[rows[usable]] = False
        return replace(planned, todo=todo)

    def _readable(self) -> Mask:
        """The rows whose output is there.

        All of them are numbered among their equals, also those that are not to be made: what a
        frame has of a row is not to be had by its twin.
        """
        readable = np.ones(self.plan.rows, bool)
        if self.plan.task is not None:
            readable = ~_whole(self.plan.task.todo, self.plan.rows)
        readable[list(self.plan.no_output)] = False
        return readable

    def _together(self, todo: Mask) -> np.ndarray[Any, Any]:
        """The rows of one call, if nobody has yet to make the output of one of them."""
        due = todo.copy()
        due[list(self.plan.no_output)] = False
        rows = np.flatnonzero(due)
        return rows if self._readable()[rows].all() else rows[:0]

    def _chunks(
        self, call: Call, name: str | None, rows: np.ndarray[Any, Any]
    ) -> Iterator[list[str]]:
        return in_chunks(call.binding, self._codes[name], self._inputs, rows)

    def _found(self, stored: JournalCells, rows: Numbers, chunks: Iterator[list[str]]) -> Numbers:
        self.there += len(stored) + stored.unfit
        if not len(stored):
            return np.full(len(rows), -1)  # as in each first run, which reads no row for it
        at = stored.find(np.concatenate([packed(chunk) for chunk in chunks]))
        self.matched += int((at >= 0).sum())
        return at

    def _number(self, name: str | None, stored: JournalCells, rows: Numbers, at: Numbers) -> None:
        """Let new cells of these rows replace those that they have."""
        replaced = dict(zip(rows.tolist(), stored.occurrences(at).tolist(), strict=True))
        self.numbers[name] = Numbering(stored.next_occurrence(), replaced)


def _there(rows: Numbers, at: Numbers, todo: Mask) -> tuple[Numbers, Numbers]:
    """The rows that are to be made and have a cell, and where that is."""
    taken = (at >= 0) & todo[rows]
    return rows[taken], at[taken]


def _whole(todo: Mask | None, rows: int) -> Mask:
    return np.ones(rows, bool) if todo is None else todo.copy()


def _usable(errors: pa.Array, only: str | None) -> Mask:
    """Which cells a run takes over, by their errors."""
    if only == ALL:
        return np.zeros(len(errors), bool)
    if errors.null_count == len(errors):
        return np.ones(len(errors), bool)
    again = schema.is_failure if only == FAILED else _unanswered
    texts = errors.to_pylist()
    return np.fromiter((text is None or not again(text) for text in texts), bool, len(texts))


def _unanswered(text: str) -> bool:
    return schema.error_kind(text) in schema.UNANSWERED
