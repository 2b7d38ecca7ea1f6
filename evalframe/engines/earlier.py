"""Which of the results that a frame has already `only=` runs again.

Owns   reading result columns, and what each word makes of their cells and of a task's outputs.
Leaves what a run does about it to prior.py and plan.py.

    missing  cells without a result: null, `skipped: not run`, `skipped: budget`, ...
    failed   cells that failed, and those whose task failed
    stale    missing ones, and those whose fingerprint is not what it would be today
    all      every cell; what a run does not come to stays

With a task, each row that has no output gets one, and all its cells are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.errors import UnsupportedValueError, counted, listed
from evalframe.data.dataset import Dataset
from evalframe.engines.cell_fingerprints import cell_fingerprints
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Mask, PlannedEvaluator, PlannedTask
from evalframe.engines.prior import KeptCells, KeptOutputs, Prior
from evalframe.tasks.output import InvalidOutputError, checked_output

MISSING, FAILED, STALE, ALL = "missing", "failed", "stale", "all"
ONLY = (MISSING, FAILED, STALE, ALL)

# Columns that results may lack: they are made by some runs, and null in cells of the others.
_OPTIONAL = frozenset({*schema.DETAILS, *schema.JUDGE_DETAILS, *schema.MARKS})


def is_only(value: Any) -> bool:
    """Whether a value is one of the words for `only=`."""
    return isinstance(value, str) and value in ONLY


def kept_details(columns: Iterable[Hashable], options: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a run keeps latencies and such, and whether it keeps fingerprints.

    It does if it is asked to, or if it adds to results that have them.
    """
    fields = {pair[1] for pair in map(schema.parse, columns) if pair is not None}
    adds = options["only"] is not None
    details = options["details"] is True or (adds and schema.LATENCY in fields)
    marks = details or options["run_dir"] is not None
    return details, marks or (adds and schema.FINGERPRINT in fields)


class _Found(NamedTuple):
    """The cells of an evaluator; `blank` ones are null in all columns, or still to come."""

    planned: PlannedEvaluator
    cells: CellColumns
    blank: Mask
    todo: Mask


class Earlier:
    """The results in a frame, and what is wrong with adding to them.

    Attributes:
        problems: Why a run cannot go on from here.
    """

    def __init__(
        self,
        dataset: Dataset,
        row_columns: Sequence[Hashable],
        no_output: Collection[int],
        only: str,
        keeps: tuple[bool, bool],
    ) -> None:
        """Look at a frame; nothing is read yet.

        Args:
            dataset: The frame.
            row_columns: The columns of its dataset row.
            no_output: Rows that have none, in a run without a task.
            only: One of `ONLY`.
            keeps: Whether the run keeps latencies, and whether fingerprints.
        """
        self.problems: list[str] = []
        self._columns = dataset.columns
        self._column = dataset.column
        self._rows = len(dataset)
        self._only = only
        self._inputs = Inputs(dataset.column, row_columns, dataset.index, 1)
        kinds = zip((schema.DETAILS, schema.MARKS), keeps, strict=True)
        self._own_fields = {
            name: kind for fields, kept in kinds if kept for name, kind in fields.items()
        }
        self._without_output = np.zeros(self._rows, bool)
        self._without_output[list(no_output)] = True
        self._new_outputs = np.zeros(self._rows, bool)
        self._found: list[_Found] = []
        self._outputs: KeptOutputs | None = None
        self._outputs_stay = np.zeros(self._rows, bool)

    def prior(self, codes: Mapping[str, str]) -> Prior:
        """What is there, of the task and the evaluators that were added.

        Args:
            codes: Evaluator -> its own digest today.
        """
        if self._outputs is not None:
            self._inputs.outputs = list(self._outputs.values)
        cells = {}
        for found in self._found:
            todo = found.todo
            if self._only == STALE:
                todo = todo | self._stale(found, codes[found.planned.name])
            cells[found.planned.name] = self._kept(found, todo)
        return Prior(cells, self._outputs, anew=self._only == ALL)

    def _stale(self, found: _Found, code: str) -> Mask:
        """Cells whose fingerprint is not today's; none where there is no output to read."""
        rows = np.flatnonzero(~found.todo & ~self._without_output)
        binding = found.planned.call.binding
        recorded = found.cells.arrays[schema.FINGERPRINT].take(pa.array(rows)).to_pylist()
        today = cell_fingerprints(binding, code, self._inputs, rows)
        stale = np.zeros(self._rows, bool)
        stale[rows] = [a != b for a, b in zip(recorded, today, strict=True)]
        return stale

    def add_task(self, planned: PlannedTask) -> None:
        """See which outputs are there; before the evaluators, whose cells go by that."""
        self._new_outputs = np.ones(self._rows, bool)
        if schema.OUTPUT not in self._columns:
            return
        if self._only == ALL:
            self._keep_for_a_stop(planned)
            return
        try:
            values = self._column(schema.OUTPUT).values(slice(None))
            # Also where null is what the task gave, which nothing tells from one that never ran.
            todo = np.fromiter((value is None for value in values), bool, self._rows)
            todo |= ~_null(self._task_errors())
            kept = [
                None if todo[row] else _checked(value, planned.task.output, row)
                for row, value in enumerate(values)
            ]
        except (UnsupportedValueError, _UnusableError) as exc:
            self.problems.append(f"{exc} To make all outputs anew: only='all'.")
            return
        self._new_outputs, self._outputs = todo, KeptOutputs(kept, todo)

    def _keep_for_a_stop(self, planned: PlannedTask) -> None:
        """The outputs and errors that stay where a run that makes all anew does not come.

        Outputs that are none of this task's, as of a type that it declares no more, all go.
        """
        try:
            column = self._column(schema.OUTPUT).values(slice(None))
            values = [_checked(value, planned.task.output, row) for row, value in enumerate(column)]
            errors = self._task_errors().to_pylist()
        except (UnsupportedValueError, _UnusableError):
            return
        before = {
            row: (value, error)
            for row, (value, error) in enumerate(zip(values, errors, strict=True))
            if value is not None or (error is not None and error not in schema.PENDING)
        }
        self._outputs_stay[list(before)] = True
        self._outputs = KeptOutputs([None] * self._rows, self._new_outputs, before)

    def _task_errors(self) -> pa.Array:
        if schema.TASK_ERROR not in self._columns:
            return pa.nulls(self._rows, schema.TEXT)
        return self._array(schema.TASK_ERROR, schema.TEXT)

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

    def add_evaluator(self, planned: PlannedEvaluator) -> None:
        """See which cells of an evaluator are there."""
        name = planned.name
        there = [pair[1] for pair in map(schema.parse, self._columns) if pair and pair[0] == name]
        if not there:
            return
        fields = {**schema.FIELDS, **planned.further, **self._own_fields}
        problem = self._unlike(name, there, fields)
        if problem is not None:
            self._refuse(problem)
            return
        kinds = {field: kind for field, kind in fields.items() if field in there}
        try:
            arrays = {f: self._array(schema.column(name, f), kind) for f, kind in kinds.items()}
        except _UnusableError as exc:
            advice = f"Drop the columns of {name!r} (eval.{name}.*), or pass only='all'."
            self._refuse(f"{exc} {advice}")
            return
        self._found.append(self._seen(planned, CellColumns(arrays)))

    def _refuse(self, problem: str) -> None:
        # Where all cells are made anew, those that cannot stay are in nobody's way.
        if self._only != ALL:
            self.problems.append(problem)

    def _unlike(self, name: str, there: list[str], fields: dict[str, pa.DataType]) -> str | None:
        """What to say of columns that are not those the evaluator makes."""
        lacking = [f for f in fields if f not in there and f not in _OPTIONAL]
        unknown = [f for f in there if f not in fields]
        parts = [f"there is no {listed(lacking)}"] if lacking else []
        parts += [f"{listed(unknown)} is none of its fields"] if unknown else []
        if parts:
            return (
                f"The results of {name!r} in the frame are not of the form it gives now: "
                f"{', and '.join(parts)}. Make all its cells anew (only='all'), or give it "
                f"another name: .named('{name}_2')."
            )
        if self._only == STALE and schema.FINGERPRINT not in there:
            return (
                f"What the results of {name!r} were made of is not recorded: only='stale' needs "
                f"the column {schema.column(name, schema.FINGERPRINT)!r}, which a run with "
                "details=True makes. Make all its cells anew: only='all', details=True."
            )
        return None

    def _seen(self, planned: PlannedEvaluator, cells: CellColumns) -> _Found:
        blank = np.ones(self._rows, bool)
        for array in cells.arrays.values():
            blank &= _null(array)
        blank |= _where(cells.errors, schema.PENDING.__contains__)
        if self._only == FAILED:
            orphaned = _where(cells.errors, _is_task_failed)
            todo = _where(cells.errors, schema.is_failure) | orphaned
            self._check_outputs(planned.name, orphaned & self._without_output)
        else:
            todo = blank if self._only != ALL else np.ones(self._rows, bool)
        todo = (todo & ~self._without_output) | self._new_outputs
        return _Found(planned, cells, blank, todo)

    def _kept(self, found: _Found, todo: Mask) -> KeptCells:
        # Cells of an output that goes have nothing to say of the one that comes.
        gone = self._new_outputs & ~self._outputs_stay
        rows = np.flatnonzero(~(gone | (found.blank & todo)))
        cells = found.cells
        if len(rows) < self._rows:
            taken = pa.array(rows)
            cells = CellColumns({f: array.take(taken) for f, array in cells.arrays.items()})
        return KeptCells(rows, cells, todo, ~(todo | found.blank))

    def _check_outputs(self, name: str, lost: Mask) -> None:
        if lost.any():
            self.problems.append(
                f"{counted(int(lost.sum()), 'cell')} of {name!r} failed with the task that was to "
                "make the output, and no task is given to make it now. Give the task as well, or "
                "use only='missing', which leaves what failed as it is."
            )

    def _verdicts(self, name: str) -> Mask:
        """Rows on which an evaluator has been run, whatever came of it."""
        errors = self._array(schema.column(name, schema.ERROR), schema.TEXT)
        not_run = _where(errors, schema.is_unmade)
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
