"""A run in this process: a pump, and a driver where something has to be waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from evalframe.core import schema
from evalframe.core.columns import TEXT
from evalframe.core.errors import JournalError
from evalframe.engines.deadline import GRACE_S, Deadline, DeadlineError
from evalframe.engines.driver import Driver
from evalframe.engines.faults import Tracebacks, own_failure, stand_in
from evalframe.engines.inputs import Inputs
from evalframe.engines.loop import FatalError, guarded, leave_behind, loop_for_waiting
from evalframe.engines.messages import DriverDone
from evalframe.engines.plan import Plan
from evalframe.engines.progress import Progress
from evalframe.engines.pump import Pump, StoppedError
from evalframe.engines.recorder import Recorder
from evalframe.engines.signals import SignalsTold, end_by
from evalframe.engines.threads import DaemonThreads
from evalframe.llm.connect import Session
from evalframe.results.builder import Builder
from evalframe.tasks.output import output_column

_STOP_SECONDS = 5.0
_AWAITED = "await ef.arun_experiment(...)"
_BLOCKED = (
    "An async function has blocked the event loop that it runs on: it waits without `await`, as "
    "time.sleep or a plain HTTP client does. It was left behind, and so were all other calls. "
    "Write it without `async`, or give what it calls a timeout."
)
_INTERRUPTS = (KeyboardInterrupt, SystemExit)
# After these, calls in flight have a few seconds: they are paid for, and not what went wrong.
_PATIENT = (*_INTERRUPTS, JournalError)


class LocalRun:
    """One run; what is finished can be read from it at any moment, also after a stop.

    Attributes:
        builder: The cells.
        tracebacks: The first traceback of each distinct error.
        session: Asks models; closed when the run ends.
        stayed: Why so many outputs that were to be made anew are still those of before.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Inputs,
        builder: Builder,
        progress: Progress,
        recorder: Recorder | None = None,
    ) -> None:
        """Make the parts; nothing runs yet.

        Args:
            plan: What to run.
            inputs: What calls read.
            builder: Takes the cells.
            progress: Is told of them.
            recorder: Keeps what is finished on disk.
        """
        self.plan = plan
        self.inputs = inputs
        self.builder = builder
        self.tracebacks = Tracebacks()
        self.stayed: Counter[str] = Counter()
        # A call that blocks for ever must not keep the process from its end.
        self._threads = DaemonThreads("evalframe-embedder")
        self.session = Session(
            concurrency=plan.concurrency,
            cache=plan.cache,
            failure=self._failure_of_user,
            in_thread=self._in_thread,
            ends_at_failure=plan.stop_at_failure,
            max_requests=plan.max_requests,
            max_cost=plan.max_cost,
        )
        self.deadline = Deadline(plan.deadline)
        self.pump = Pump(
            plan,
            inputs,
            builder,
            self.tracebacks,
            self.session,
            progress=progress,
            deadline=self.deadline,
            recorder=recorder,
        )
        self._recorder = recorder
        self._has_driver = len(plan.driven_rows()) > 0
        self._used: asyncio.AbstractEventLoop | None = None
        self._future: concurrent.futures.Future[Any] | None = None

    def _driver(self) -> Driver:
        return Driver(
            self.plan,
            self.inputs,
            self.tracebacks,
            self.session,
            self.pump.inbox.put,
            deadline=self.deadline,
            recorder=self._recorder,
        )

    def _failure_of_user(self, exc: BaseException) -> str:
        """The error cell of what code of the user's raised inside a built-in evaluator."""
        failure = own_failure(exc)
        error = self.tracebacks.record(failure)
        if self.plan.stop_at_failure:
            self.pump.raised.setdefault(error, failure)
        return error

    def _in_thread(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """A call of the user's code beside the running loop; it sees the context of who asks."""
        context = contextvars.copy_context()
        return self._threads.submit(lambda: context.run(call))

    def columns(self, *, partial: bool) -> dict[str, Any]:
        """All columns that the run makes: name -> pandas array or Series, in order.

        Args:
            partial: Whether the run was stopped before its end.
        """
        # A run that was not stopped leaves cells out for one reason only.
        left_out = schema.NOT_RUN if partial else schema.DEADLINE
        if self.plan.task is None:
            return self.builder.columns(left_out)
        outputs, errors = self._outputs(left_out)
        before = self.plan.task.before
        stay = [row for row in before if errors[row] in schema.PENDING]
        renewed = np.zeros(self.plan.rows, bool)
        renewed[list(before.keys() - set(stay))] = True
        self.stayed = Counter(str(errors[row]) for row in stay)
        for row in stay:
            outputs[row], errors[row] = before[row]
        return {
            schema.OUTPUT: output_column(outputs, self.inputs.index, self.plan.task.task.output),
            schema.TASK_ERROR: pd.array(errors, dtype=TEXT),
            **self.builder.columns(left_out, renewed),
        }

    def _outputs(self, left_out: str) -> tuple[list[Any], list[str | None]]:
        """The outputs that there are, and for each row why there is none."""
        pump, outputs, rows = self.pump, self.inputs.outputs, range(self.plan.rows)
        done = [row in pump.finished_tasks or not self.plan.task_runs(row) for row in rows]
        # A call may have ended after the stop: it counts with its message, or not at all.
        made = [value if done[row] else None for row, value in enumerate(outputs)]
        known = {**self.plan.no_output, **pump.task_errors}
        errors = [known.get(row, None if done[row] else left_out) for row in rows]
        return made, errors

    def run(self) -> None:
        """Run in the caller's thread, with the background loop beside it.

        Raises:
            BaseException: As `Pump.run`.
        """

        def await_on_loop(awaitable: Any) -> Any:
            self._used = loop_for_waiting(_AWAITED)
            return self._awaited(awaitable, self._used)

        try:
            if self._has_driver:
                self._run_with_driver(await_on_loop)
            else:
                self.pump.run(await_on_loop, has_driver=False)
        finally:
            if self._used is not None:
                self._close(self._used)
                self._threads.close()

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = threading.Event()
        loop.call_soon_threadsafe(turn.set)
        closing = asyncio.run_coroutine_threadsafe(self.session.close(), loop)
        with contextlib.suppress(TimeoutError):
            closing.result(_STOP_SECONDS)
        if not turn.is_set():
            leave_behind(loop)
            self.session.note(_BLOCKED)

    def _run_with_driver(self, await_on_loop: Callable[[Any], Any]) -> None:
        loop = self._used = loop_for_waiting(_AWAITED)
        driver = self._driver()
        watch = self._watch()
        try:
            loop.call_soon_threadsafe(driver.start)
            self.pump.run(await_on_loop, has_driver=True)
        except BaseException as exc:
            try:
                if isinstance(exc, _PATIENT):
                    loop.call_soon_threadsafe(driver.wind_down, schema.NOT_RUN)
                    # A second Ctrl-C ends the waiting.
                    with contextlib.suppress(*_INTERRUPTS):
                        driver.ended.wait(GRACE_S + _STOP_SECONDS)
            finally:
                # Also where that Ctrl-C comes just before or after the waiting: calls that go on
                # would be paid for, and their results written nowhere.
                loop.call_soon_threadsafe(driver.stop)
                driver.ended.wait(_STOP_SECONDS)
                self.pump.take_rest()
            raise
        finally:
            if watch is not None:
                watch.cancel()

    def _watch(self) -> threading.Timer | None:
        """What ends the run after its deadline where a call blocks the loop that should."""
        left = self.deadline.left()
        if left is None:
            return None
        ends_in = left + GRACE_S + _STOP_SECONDS
        watch = threading.Timer(ends_in, self.pump.inbox.put, [DriverDone(None)])
        watch.daemon = True
        watch.start()
        return watch

    async def arun(self) -> None:
        """Run on the running loop; plain evaluators run in one worker thread.

        Raises:
            BaseException: As `Pump.run`; CancelledError when cancelled; SystemExit after SIGTERM.
        """
        loop = asyncio.get_running_loop()
        over, worked = asyncio.Event(), asyncio.Event()
        failure: BaseException | None = None
        signals: list[int] = []

        def work() -> None:
            nonlocal failure
            try:
                self.pump.run(lambda it: self._awaited(it, loop), has_driver=self._has_driver)
            except BaseException as exc:  # noqa: BLE001 - raised again where it is awaited
                failure = exc
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(worked.set)
                loop.call_soon_threadsafe(over.set)

        driver = self._driver() if self._has_driver else None

        def tell(number: int) -> None:
            signals.append(number)
            if len(signals) > 1:
                loop.call_soon_threadsafe(self._stop, driver)
            elif number == signal.SIGTERM:
                # Ctrl-C cancels whoever awaits this run; this signal cancels nobody.
                loop.call_soon_threadsafe(over.set)
            else:
                # A notebook's handler has the loop cancel this run, but does not wake the loop.
                loop.call_soon_threadsafe(lambda: None)

        with SignalsTold(tell):
            waiting: set[asyncio.Task[Any]] = set() if driver is None else {driver.start()}
            threading.Thread(target=work, name="evalframe-evaluators", daemon=True).start()
            try:
                await over.wait()
            finally:
                waiting.add(loop.create_task(worked.wait()))
                patient = bool(signals) or isinstance(failure, JournalError)
                await self._end(driver, waiting, patient=patient)
                if worked.is_set():
                    # Else a call of the user's still holds the pump, which takes its own messages.
                    self.pump.take_rest()
        if signal.SIGTERM in signals:
            raise end_by(signal.SIGTERM)
        if isinstance(failure, StopIteration):
            raise stand_in(failure) from failure  # no coroutine can raise it
        if failure is not None:
            raise failure

    def _stop(self, driver: Driver | None) -> None:
        """End at once what runs on the loop."""
        if driver is not None:
            driver.stop()
        if self._future is not None:
            self._future.cancel()

    async def _end(
        self, driver: Driver | None, waiting: set[asyncio.Task[Any]], *, patient: bool
    ) -> None:
        """End the awaited run; what is in flight has a few seconds after a signal."""
        self.pump.stop_asked = True
        if patient:
            self.session.budget.close(schema.NOT_RUN)
            if driver is not None:
                driver.wind_down(schema.NOT_RUN)
            # Cancelled once more: by a second Ctrl-C, which ends the waiting.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(waiting, timeout=GRACE_S)
        self._stop(driver)
        try:
            await asyncio.wait(waiting, timeout=_STOP_SECONDS)
        finally:
            # A task of its own, which ends also where this one is cancelled once more.
            closing = asyncio.get_running_loop().create_task(self.session.close())
            await asyncio.wait({closing}, timeout=_STOP_SECONDS)
            self._threads.close()

    def _awaited(self, awaitable: Any, loop: asyncio.AbstractEventLoop) -> Any:
        """What an awaitable gives; it is awaited on a loop of another thread.

        Raises:
            BaseException: What it raised; StoppedError if the run is to stop.
            DeadlineError: It was cut off.
        """
        self._future = asyncio.run_coroutine_threadsafe(guarded(awaitable), loop)
        ended = threading.Event()
        self._future.add_done_callback(lambda _: ended.set())
        try:
            self._wait_for(ended, loop)
            return self._future.result()
        except FatalError as exc:
            raise exc.__cause__ or exc from None
        except concurrent.futures.CancelledError:
            if self.pump.stop_asked:
                raise StoppedError from None
            raise
        except (*_INTERRUPTS, DeadlineError):
            self._future.cancel()
            raise

    def _wait_for(self, ended: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for a call; after the deadline, and after Ctrl-C, for a few seconds only.

        Raises:
            DeadlineError: It has not ended in them.
            KeyboardInterrupt: It has not ended in them; else the pump raises it, once the
                results are in place.
        """
        cell = schema.DEADLINE
        try:
            ended.wait(self.deadline.left())
        except _INTERRUPTS as exc:
            self.pump.interrupted, cell = exc, schema.NOT_RUN
        if ended.is_set():
            return
        loop.call_soon_threadsafe(self.session.budget.close, cell)
        if not ended.wait(GRACE_S):
            raise self.pump.interrupted or DeadlineError
