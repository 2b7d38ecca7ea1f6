"""The asynchronous side of a run: task calls, async evaluators, and calls in threads.

Owns   how many calls are in flight, their timeouts, and their end when the run stops.
Leaves what becomes of an outcome to the pump, to which each is posted.

It works on whatever loop it is started on. At most `concurrency` rows are open; each call
runs in a copy of the caller's context.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from evalframe.core import schema
from evalframe.core.call_info import CallInfo, enter_call
from evalframe.core.errors import JournalError, StuckCallsError
from evalframe.core.records import CallError, Cell
from evalframe.engines.call_records import CallRecord, CallRecords
from evalframe.engines.deadline import GRACE_S, Deadline
from evalframe.engines.faults import Tracebacks, stand_in
from evalframe.engines.inputs import Inputs
from evalframe.engines.loop import FatalError
from evalframe.engines.messages import CellDone, DriverDone, Message, OutputDone
from evalframe.engines.occurrences import Occurrences
from evalframe.engines.plan import Plan
from evalframe.engines.recorder import Recorder
from evalframe.engines.rows import RowReader
from evalframe.engines.settled import Settled
from evalframe.engines.threads import DaemonThreads
from evalframe.evaluators.normalize import normalize, text_of
from evalframe.llm.connect import Session
from evalframe.tasks.output import InvalidOutputError, checked_output

MOST_LEFT_BEHIND = 8
CANCEL_GRACE_S = 1.0


class CallTimeoutError(Exception):
    """A call took longer than the timeout."""


class NotBegunError(Exception):
    """The run was to begin nothing more when a call's turn came."""


class Driver:
    """Runs the calls of a plan that do not belong into the caller's thread."""

    def __init__(
        self,
        plan: Plan,
        inputs: Inputs,
        tracebacks: Tracebacks,
        session: Session,
        post: Callable[[Message], None],
        *,
        deadline: Deadline,
        recorder: Recorder | None,
    ) -> None:
        """Remember what to run; the caller's context is taken now."""
        self.plan = plan
        self.deadline = deadline
        self._records = CallRecords(recorder, self._disk_failed)
        self._timers: list[asyncio.TimerHandle] = []
        self._closing = self._cut = False
        self.inputs = inputs
        self.tracebacks = tracebacks
        self.post = post
        self.context = contextvars.copy_context()
        self.ended = threading.Event()
        self._running: asyncio.Task[None] | None = None
        self._ending = False
        self._left_behind: dict[asyncio.Future[Any], str] = {}
        self._apart = plan.apart()
        self._calls: set[asyncio.Future[Any]] = set()
        self._reader = RowReader(inputs)
        self.session = session
        self._occurrences: Occurrences | None = None
        self._task_call = self._opened_task()
        self._cell_calls = {place: self._opened_evaluator(place) for place in self._apart}
        self._pools: list[DaemonThreads] = []

    def _opened_task(self) -> Settled | None:
        planned = self.plan.task
        if planned is None:
            return None
        opened = planned.task.opened(self.session)
        function = planned.call.function
        if opened is not None:
            function, binding = planned.call.caller(opened), planned.call.binding
            self._occurrences = Occurrences(binding, self.inputs, self.plan.repetition_of)
        settle = partial(checked_output, declared=planned.task.output)
        return Settled("the task", function, settle)

    def _opened_evaluator(self, place: int) -> Settled:
        planned = self.plan.evaluators[place]
        opened = planned.evaluator.opened(self.session, details=self.plan.details)
        function = planned.call.function if opened is None else planned.call.caller(opened)
        settle = partial(normalize, rules=planned.rules)
        return Settled(f"evaluator {planned.name!r}", function, settle)

    def start(self) -> asyncio.Task[None]:
        """Run on the running loop; the end is posted as `DriverDone`, however it comes."""
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._finish)
        return self._running

    def stop(self) -> None:
        """End the run; to be called on its loop."""
        if self._running is None:
            self.ended.set()
        elif not self._ending:
            self._running.cancel()

    def wind_down(self, cell: str) -> None:
        """Begin no further call, and send nothing more; what is in flight has a few seconds.

        To be called on its loop.

        Args:
            cell: The error of cells for which nothing could be sent any more.
        """
        if self._closing:
            return
        self._closing = True
        self.session.budget.close(cell)
        if self._running is None:
            self.ended.set()
        else:
            self._timers.append(self._running.get_loop().call_later(GRACE_S, self._cut_off))

    def _cut_off(self) -> None:
        self._cut = True
        self.stop()

    async def _run(self) -> None:
        self._records.start()
        left = self.deadline.left()
        if left is not None:
            later = asyncio.get_running_loop().call_later
            self._timers.append(later(left, self.wind_down, schema.DEADLINE))
        try:
            await self._run_rows()
        finally:
            # From here on a stop has nothing to stop, and must not cut the ending short.
            self._ending = True
            await self._end_calls()

    def _finish(self, running: asyncio.Task[None]) -> None:
        failure: BaseException | None
        failure = asyncio.CancelledError() if running.cancelled() else running.exception()
        if self._cut and running.cancelled():
            failure = None
        for timer in self._timers:
            timer.cancel()
        for pool in self._pools:
            pool.close()
        self._records.stop()
        self.post(DriverDone(failure.__cause__ if isinstance(failure, FatalError) else failure))
        self.ended.set()

    async def _run_rows(self) -> None:
        plan = self.plan
        self.slots = asyncio.Semaphore(plan.concurrency)
        task = plan.task.task if plan.task else None
        self._task_threads = self._threads(task.threads if task else None)
        evaluators = plan.evaluators
        self._threaded = {
            i: self._threads(evaluators[i].evaluator.threads or 1)
            for i in self._apart
            if not evaluators[i].evaluator.is_async
        }
        threads = [evaluators[i].evaluator.threads or 1 for i in self._threaded]
        rows = plan.driven_rows()
        width = min(len(rows), max([plan.concurrency, *threads]))
        left = iter(rows if isinstance(rows, range) else rows.tolist())
        workers = [asyncio.ensure_future(self._work(left)) for _ in range(width)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            if workers:
                # Not for ever: a worker waits for its call, which may ignore that it is cancelled.
                await asyncio.wait(workers, timeout=CANCEL_GRACE_S)

    def _threads(self, limit: int | None) -> tuple[asyncio.Semaphore, DaemonThreads]:
        pool = DaemonThreads("evalframe-call")
        self._pools.append(pool)
        return asyncio.Semaphore(limit or self.plan.concurrency), pool

    async def _work(self, rows: Iterator[int]) -> None:
        for row in rows:
            if self._closing:
                return
            if self.plan.task_runs(row) and not await self._make_output(row):
                continue
            places = self.plan.running(self._apart, row)
            if len(places) == 1:
                await self._make_cell(places[0], row)
            elif places:
                cells = [asyncio.ensure_future(self._make_cell(i, row)) for i in places]
                try:
                    await asyncio.gather(*cells)
                finally:
                    for cell in cells:
                        cell.cancel()

    async def _make_output(self, row: int) -> bool:
        planned, call = self.plan.task, self._task_call
        assert planned is not None  # noqa: S101 - only called with a task
        assert call is not None  # noqa: S101 - it goes with the task
        values = self._reader.values(planned.call, row)
        number = None if self._occurrences is None else self._occurrences[row].number
        record = self._records.of_output(row, values, number)
        is_async = planned.task.is_async
        limit = self.slots
        failure: BaseException | None = None
        try:
            if is_async:
                async with limit:
                    value = await self._async_call(call, values, row, record)
            else:
                own, pool = self._task_threads
                async with own, limit:
                    value = await self._thread_call(pool, call, values, record)
            self.inputs.outputs[row] = value
            error = None
        except (asyncio.CancelledError, FatalError, StuckCallsError):
            raise
        except NotBegunError:
            return False
        except CallTimeoutError as exc:
            error, failure = schema.error_text(schema.TIMEOUT, str(exc)), TimeoutError(str(exc))
        except InvalidOutputError as exc:
            error = schema.error_text(schema.INVALID_RESULT, str(exc))
        except CallError as exc:
            error, failure = schema.error_text(exc.kind, text_of(str(exc))), exc
        except Exception as exc:  # noqa: BLE001 - a user's task may raise anything
            error, failure = self.tracebacks.record(exc), exc
        record.keep(None, error)
        self.post(OutputDone(row, error, failure))
        self._stop_if_failed(error)
        return error is None

    async def _make_cell(self, place: int, row: int) -> None:
        planned, call = self.plan.evaluators[place], self._cell_calls[place]
        values = self._reader.values(planned.call, row)
        record = self._records.of_cell(place, row, values)
        failure: BaseException | None = None
        try:
            if place in self._threaded:
                limit, pool = self._threaded[place]
                async with limit:
                    record.begin()
                    cell = await self._thread_call(pool, call, values, record)
            else:
                async with self.slots:
                    record.begin()
                    cell = await self._async_call(call, values, row, record)
        except StuckCallsError as exc:
            cell = Cell(error=schema.error_text(schema.TIMEOUT, _in_time(self.plan.timeout)))
            self.post(CellDone(place, row, cell, exc, self.plan.timeout or 0.0))
            raise
        except (asyncio.CancelledError, FatalError):
            raise
        except NotBegunError:
            return
        except CallTimeoutError as exc:
            cell = Cell(error=schema.error_text(schema.TIMEOUT, str(exc)))
            failure = TimeoutError(str(exc))
        except Exception as exc:  # noqa: BLE001 - a user's evaluator may raise anything
            cell, failure = Cell(error=self.tracebacks.record(exc)), exc
        record.keep(cell)
        self.post(CellDone(place, row, cell, failure, record.seconds()))
        self._stop_if_failed(cell.error)

    def _disk_failed(self, exc: JournalError) -> None:
        """Have the pump raise it, which then ends this run."""
        self.post(DriverDone(exc))

    def _stop_if_failed(self, error: str | None) -> None:
        """Make no further call while the pump has yet to learn that it should raise."""
        if self.plan.stop_at_failure and error is not None and schema.is_failure(error):
            raise FatalError

    async def _async_call(
        self, call: Settled, values: list[Any], row: int, record: CallRecord
    ) -> Any:
        """Await a coroutine function in a task, and a context, of its own."""
        self._check_open()
        loop = asyncio.get_running_loop()
        known = self._occurrences if call is self._task_call else None
        occurrence = None if known is None else known[row]
        info = CallInfo(self.plan.repetition(row), occurrence=occurrence)
        context = self.context.copy()
        context.run(enter_call, info)
        task = loop.create_task(call.awaited(values, record.keep), context=context)
        self._calls.add(task)
        task.add_done_callback(self._end_call)
        if self.plan.timeout is None:
            return await self._result(task)
        if not await self._ends_in_time(task, info):
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
            self._give_up(task, call.who)
        return await self._result(task)

    async def _ends_in_time(self, task: asyncio.Task[Any], info: CallInfo) -> bool:
        """Wait as long as the call's own clock allows: it stands while a rate limit holds."""
        timeout = self.plan.timeout or 0.0
        while not task.done() and (left := timeout - info.clock.seconds()) > 0:
            await asyncio.wait({task}, timeout=left)
        return task.done()

    def _end_call(self, call: asyncio.Future[Any]) -> None:
        self._calls.discard(call)
        self._left_behind.pop(call, None)
        if not call.cancelled():
            call.exception()  # taken: one that nobody waits for any more is no news

    async def _result(self, task: asyncio.Task[Any]) -> Any:
        try:
            return await task
        except asyncio.CancelledError as exc:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            # The user's code cancelled itself: that is its failure, not the end of the run.
            raise stand_in(exc) from exc

    def _check_open(self) -> None:
        if self._closing or self.deadline.over():
            raise NotBegunError

    async def _thread_call(
        self, pool: DaemonThreads, call: Settled, values: list[Any], record: CallRecord
    ) -> Any:
        self._check_open()
        context = self.context.copy()
        future = pool.submit(lambda: context.run(call.called, values, record.keep))
        future.add_done_callback(self._end_call)
        if self.plan.timeout is not None:
            done, _ = await asyncio.wait({future}, timeout=self.plan.timeout)
            if not done:
                self._give_up(future, call.who)
        try:
            return await future
        except (KeyboardInterrupt, SystemExit) as exc:
            raise FatalError from exc

    def _give_up(self, call: asyncio.Future[Any], who: str) -> NoReturn:
        """End a call that took too long.

        Raises:
            CallTimeoutError: It is a failed cell.
            StuckCallsError: Too many such calls are still running.
        """
        if not call.done():
            self._left_behind[call] = who
        message = _in_time(self.plan.timeout)
        count = len(self._left_behind)
        if count >= MOST_LEFT_BEHIND:
            of = ", ".join(
                f"{n} of {who}" for who, n in Counter(self._left_behind.values()).items()
            )
            message = (
                f"{count} timed-out calls are still running and cannot be stopped, so "
                f"the run was: {of}. Make the function give up by itself, or raise timeout=."
            )
            raise StuckCallsError(message)
        raise CallTimeoutError(message)

    async def _end_calls(self) -> None:
        calls = self._calls - self._left_behind.keys()
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=CANCEL_GRACE_S)


def _in_time(timeout: float | None) -> str:
    return f"no result within {timeout:g} s"
