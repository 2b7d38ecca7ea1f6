"""The synchronous side of a run: it runs plain evaluators and owns all results.

Owns   cells in row order in one thread, vectorized calls, and putting every cell in place.
Leaves calls that wait to the driver, whose messages it takes in.

The thread is the caller's own, or a single worker thread under `arun_experiment`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.errors import CellError
from evalframe.core.records import Cell
from evalframe.engines.deadline import Deadline, DeadlineError
from evalframe.engines.faults import Tracebacks, own_failure
from evalframe.engines.inputs import Batch, Inputs, VectorArguments
from evalframe.engines.messages import CellDone, DriverDone, Inbox, OutputDone
from evalframe.engines.plan import Plan, PlannedEvaluator, Rows
from evalframe.engines.progress import Progress
from evalframe.engines.recorder import Recorder
from evalframe.engines.rows import RowReader
from evalframe.evaluators.bulk import normalize_all
from evalframe.evaluators.normalize import UNCHANGEABLE, InvalidResultError, normalize
from evalframe.evaluators.vectorized import place
from evalframe.llm.connect import Session
from evalframe.results.builder import Builder

TASK_FAILED = f"{schema.TASK_FAILED}: not run, the task failed"

# A batch of cells grows while it takes less than this: progress, Ctrl-C and errors="raise"
# stay prompt with slow evaluators, and quick ones pay next to nothing.
_BATCH_SECONDS = 0.05
_LARGEST_BATCH = 4096


class StoppedError(BaseException):
    """The run was asked to stop from outside; no failure of what is being called."""


@dataclass(slots=True)
class _Called:
    """What calls of one evaluator gave, up to what ended them early."""

    results: list[Any] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)
    ended: BaseException | None = None


class Pump:
    """Runs a plan's cells in one thread and collects those of the driver."""

    def __init__(
        self,
        plan: Plan,
        inputs: Inputs,
        builder: Builder,
        tracebacks: Tracebacks,
        session: Session,
        *,
        progress: Progress,
        deadline: Deadline,
        recorder: Recorder | None,
    ) -> None:
        """Remember what to run; the caller's context is taken now."""
        self.plan = plan
        self.inputs = inputs
        self.builder = builder
        self.tracebacks = tracebacks
        self.session = session
        self.progress = progress
        self.deadline = deadline
        self.recorder = recorder
        self.interrupted: BaseException | None = None
        self.inbox = Inbox()
        self.task_errors: dict[int, str] = {}
        self.finished_tasks: set[int] = set()
        self._left_out: list[int] = []
        self.stop_asked = False
        # Behind cells that a built-in evaluator made of what the user's code raised inside it.
        self.raised: dict[str, Exception] = {}
        self.context = contextvars.copy_context()
        self._by_row = plan.by_row()
        self._size = 1

    def run(self, await_on_loop: Callable[[Any], Any], *, has_driver: bool) -> None:
        """Run everything.

        Args:
            await_on_loop: Awaits an awaitable on the run's loop and gives its result.
            has_driver: Whether a driver posts messages.

        Raises:
            StoppedError: `stop_asked` was set.
            BaseException: What a user's function raised, with `stop_at_failure`; what ended
                the driver; KeyboardInterrupt.
            JournalError: The disk of the journal fails.
        """
        at_once = self.plan.ready_rows(self._by_row)
        ready = deque[Rows]([at_once] if len(at_once) else ())
        for row, error in self.plan.no_output.items():
            self._leave_out(row, error)
        driving = has_driver
        reader = RowReader(self.inputs)
        while ready or driving:
            if self.stop_asked:
                raise StoppedError
            driving = self._take_messages(ready, driving=driving)
            if self.deadline.over():
                ready.clear()
            if not ready:
                continue
            rows = self._next_batch(ready)
            started = time.perf_counter()
            if self.plan.task is None:
                self._run_batch(rows)
            else:
                self._run_ready(rows, reader)
            quick = time.perf_counter() - started < _BATCH_SECONDS
            self._size = min(self._size * 2, _LARGEST_BATCH) if quick else max(self._size // 2, 1)
            self._write(saves=not driving, slow=not quick)
        for place_ in self.plan.vectorized():
            self._run_vectorized(place_, await_on_loop)
            self._write(saves=True, slow=True)

    def _write(self, *, saves: bool, slow: bool) -> None:
        """Have written what is due; the driver, while there is one, has the costs saved.

        After slow calls that is everything: the next one may take as long, and what is waiting
        would wait for it.
        """
        if self.recorder is not None:
            self.recorder.tick(everything=slow)
            if saves:
                self.recorder.save()

    def _next_batch(self, ready: deque[Rows]) -> Rows:
        rows = ready.popleft()
        if len(rows) > self._size:
            ready.appendleft(rows[self._size :])
        return rows[: self._size]

    def _take_messages(self, ready: deque[Rows], *, driving: bool) -> bool:
        """Take in what the driver posted; wait for it when there is nothing else to do."""
        while driving and (message := self.inbox.first(wait=not ready)) is not None:
            if isinstance(message, DriverDone):
                if message.failure is not None:
                    raise message.failure
                return False
            if isinstance(message, CellDone):
                self._take_cell(message)
            elif self._take_output(message, may_stop=True) and self._by_row:
                last = ready[-1] if ready else None
                if isinstance(last, range) and last.stop == message.row:
                    ready[-1] = range(last.start, message.row + 1)
                else:
                    ready.append(range(message.row, message.row + 1))
            self.inbox.drop_first()
        return driving

    def take_rest(self) -> None:
        """Put in place what the driver posted before it was stopped, some of it once more."""
        while (message := self.inbox.first(wait=False)) is not None:
            if isinstance(message, CellDone):
                self._put(message.place, message.row, message.cell, seconds=message.seconds)
            elif isinstance(message, OutputDone):
                self._take_output(message, may_stop=False)
            self.inbox.drop_first()

    def _take_output(self, message: OutputDone, *, may_stop: bool) -> bool:
        self.finished_tasks.add(message.row)
        self.progress.add(1)
        if message.error is None:
            return True
        self.task_errors[message.row] = message.error
        self._leave_out(message.row, message.error)
        if schema.is_failure(message.error) and self.plan.stop_at_failure and may_stop:
            what = f"The task, row {message.row}: {message.error}"
            raise message.failure or CellError(what)
        return False

    def _leave_out(self, row: int, task_error: str) -> None:
        """The cells of a row that has no output; those that are there already say why."""
        self._left_out.append(row)
        # Where the task was not run nothing has failed, and its cells are skipped as well.
        error = task_error if task_error in schema.PENDING else TASK_FAILED
        for place_ in self.plan.running(range(len(self.plan.evaluators)), row):
            self._put(place_, row, Cell(error=error))

    def _take_cell(self, message: CellDone) -> None:
        self._put(message.place, message.row, message.cell, seconds=message.seconds)
        if self.plan.stop_at_failure:
            self._stop_if_failed(message.place, message.row, message.cell.error, message.failure)

    def _put(self, place_: int, row: int, cell: Cell, *, seconds: float | None = None) -> None:
        self.builder.put(place_, row, cell, seconds)
        self.progress.add(1)

    def _run_batch(self, rows: Rows) -> None:
        """Rows without a task: by the column, evaluator after evaluator."""
        batch = Batch(self.inputs, _as_slice(rows))
        for place_ in self._by_row:
            planned = self.plan.evaluators[place_]
            mine = planned.among(rows)
            if mine is not None and not len(mine):
                continue
            values = batch.columns(planned.call.binding)
            here = rows
            if mine is not None:
                values = [[column[i] for i in mine] for column in values]
                here = np.asarray(rows)[mine]
            arguments = zip(*values, strict=True) if values else ((),) * len(here)
            called = self._call_all(planned, self.deadline.until(arguments))
            cells = normalize_all(called.results, planned.rules)
            if self.plan.details:
                cells = cells.with_latency(called.seconds)
            self._add(place_, here[: len(cells)], cells)
            if called.ended is not None:
                raise called.ended
            self._stop_if_any_failed(place_, here[: len(cells)], cells)

    def _call_all(self, planned: PlannedEvaluator, arguments: Iterable[Any]) -> _Called:
        """What the evaluator returned for each row; a Cell where it raised."""
        function, copied = planned.call.function, self.context.copy
        called = _Called()
        results, seconds, details = called.results, called.seconds, self.plan.details
        try:
            for values in arguments:
                if self.stop_asked:
                    called.ended = StoppedError()
                    break
                started = time.perf_counter() if details else 0.0
                try:
                    result = copied().run(function, *values)
                    # What the user could still change is settled now, the rest by the column.
                    settled = type(result) in UNCHANGEABLE
                    results.append(result if settled else normalize(result, planned.rules))
                except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - any user code
                    failure = own_failure(exc)
                    results.append(self._failed(failure))
                    if self.plan.stop_at_failure:
                        called.ended = failure
                        break
                finally:
                    if details:
                        seconds.append(time.perf_counter() - started)
        except BaseException as exc:  # noqa: BLE001 - raised again when the results are safe
            called.ended = exc
            # An interrupted call has no result, but may have its seconds.
            del seconds[len(results) :]
        return called

    def _failed(self, exc: Exception) -> Cell:
        return Cell(error=self.tracebacks.record(exc))

    def _run_ready(self, rows: Rows, reader: RowReader) -> None:
        """Rows whose output has come: row after row, in whatever order they came."""
        for row in map(int, rows):
            for place_ in self.plan.running(self._by_row, row):
                planned = self.plan.evaluators[place_]
                if self.deadline.over():
                    return
                values = reader.values(planned.call, row)
                key = "" if self.recorder is None else self.recorder.key(place_, row, values)
                called = self._call_all(planned, [values])
                for result in called.results:
                    cell = normalize(result, planned.rules)
                    seconds = called.seconds[0] if self.plan.details else None
                    self._put(place_, row, cell, seconds=seconds)
                    if self.recorder is not None:
                        self.recorder.put(place_, row, key, cell, seconds, paid=False)
                    if called.ended is None:
                        self._stop_if_failed(place_, row, cell.error, None)
                if called.ended is not None:
                    raise called.ended

    def _add(
        self, place_: int, rows: Rows, cells: CellColumns, together: Rows | None = None
    ) -> None:
        """Cells of rows in ascending order, which need not be consecutive."""
        if len(cells):
            self.builder.add(place_, _as_range(rows), cells)
            if self.recorder is not None:
                self.recorder.add(place_, rows, cells, together)
            self.progress.add(len(cells))

    def _stop_if_any_failed(self, place_: int, rows: Iterable[int], cells: CellColumns) -> None:
        if self.plan.stop_at_failure and cells.errors.null_count < len(cells):
            for row, error in zip(rows, cells.errors.to_pylist(), strict=True):
                self._stop_if_failed(place_, row, error, None)

    def _stop_if_failed(
        self, place_: int, row: int, error: str | None, exc: BaseException | None
    ) -> None:
        if not self.plan.stop_at_failure or error is None or not schema.is_failure(error):
            return
        name = self.plan.evaluators[place_].name
        what = f"Evaluator {name!r}, row {row}: {error}"
        raise exc or self.raised.get(error) or CellError(what)

    def _run_vectorized(self, place_: int, await_on_loop: Callable[[Any], Any]) -> None:
        """One call over all rows whose task did not fail."""
        if self.stop_asked:
            raise StoppedError
        if self.deadline.over():
            return
        planned = self.plan.evaluators[place_]
        rows = np.arange(self.plan.rows) if planned.todo is None else np.flatnonzero(planned.todo)
        rows = np.setdiff1d(rows, self._left_out) if self._left_out else rows
        if not len(rows):
            return
        started = time.perf_counter()
        given = self._vector_arguments(planned, rows)
        self._add_failed(place_, given.failed, rows)
        due, rows = rows, given.rows
        if not len(rows):
            return
        cells, failure = self._vector_cells(planned, given, await_on_loop)
        if self.plan.details:
            each = (time.perf_counter() - started) / len(rows)
            cells = cells.with_latency([each] * len(rows))
        self._add(place_, rows, cells, due)
        if self.interrupted is not None:
            raise self.interrupted
        if failure is not None and self.plan.stop_at_failure:
            raise failure
        self._stop_if_any_failed(place_, rows, cells)

    def _add_failed(self, place_: int, failed: Mapping[int, Exception], due: Rows) -> None:
        """The rows of a vectorized call that have no arguments for it."""
        rows = np.array(sorted(failed), np.int64)
        cells = [self._failed(failed[row]) for row in rows.tolist()]
        further = self.plan.evaluators[place_].further
        self._add(place_, rows, CellColumns.of(cells, further), due)
        if failed and self.plan.stop_at_failure:
            raise failed[int(rows[0])]

    def _vector_arguments(
        self, planned: PlannedEvaluator, rows: np.ndarray[Any, Any]
    ) -> VectorArguments:
        try:
            shared = planned.evaluator.reads_only
            return self.inputs.vector_arguments(planned.call.binding, rows, shared=shared)
        except Exception as exc:  # noqa: BLE001 - a user's bound function may give anything
            return VectorArguments(rows[:0], [], {}, dict.fromkeys(map(int, rows), exc))

    def _vector_cells(
        self, planned: PlannedEvaluator, given: VectorArguments, await_on_loop: Callable[[Any], Any]
    ) -> tuple[CellColumns, Exception | None]:
        """The cells of a call, and what it raised."""
        count, further = len(given.rows), planned.further
        context = self.context.copy()
        try:
            opened = planned.evaluator.opened(self.session, details=self.plan.details)
            function = planned.evaluator.function if opened is None else opened
            result = context.run(function, *given.positional, **given.named)
            if inspect.isawaitable(result):
                result = context.run(await_on_loop, result)
            index = self.inputs.index
            seen = index if count == len(index) else index[given.rows]
            return place(result, seen, planned.rules), None
        except DeadlineError:
            return CellColumns.all_alike(count, schema.DEADLINE, further), None
        except InvalidResultError as mistake:
            error = schema.error_text(schema.INVALID_RESULT, f"{planned.name!r} {mistake}")
            return CellColumns.all_alike(count, error, further), None
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - any user code
            failure = own_failure(exc)
            return CellColumns.all_alike(count, self.tracebacks.record(failure), further), failure


def _as_range(rows: Rows) -> Rows:
    """Consecutive rows as a range."""
    if isinstance(rows, range) or not len(rows) or rows[-1] - rows[0] + 1 != len(rows):
        return rows
    return range(int(rows[0]), int(rows[-1]) + 1)


def _as_slice(rows: Rows) -> slice | np.ndarray[Any, Any]:
    found = _as_range(rows)
    return slice(found.start, found.stop) if isinstance(found, range) else found
