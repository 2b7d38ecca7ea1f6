"""A run in this process: a pump, and a driver where something has to be waited for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from evalframe.engines.driver import Driver
from evalframe.engines.faults import Tracebacks
from evalframe.engines.inputs import Inputs
from evalframe.engines.loop import background_loop
from evalframe.engines.plan import Plan
from evalframe.engines.progress import Progress
from evalframe.engines.pump import Pump, StoppedError
from evalframe.results.builder import Builder

_STOP_SECONDS = 5.0


class LocalRun:
    """One run; what is finished can be read from it at any moment, also after a stop.

    Attributes:
        builder: The cells.
        tracebacks: The first traceback of each distinct error.
    """

    def __init__(self, plan: Plan, inputs: Inputs, builder: Builder, progress: Progress) -> None:
        """Make the parts; nothing runs yet."""
        self.plan = plan
        self.inputs = inputs
        self.builder = builder
        self.tracebacks = Tracebacks()
        self.pump = Pump(plan, inputs, builder, self.tracebacks, progress)
        self._has_driver = plan.task is not None or bool(plan.apart())
        if plan.task is not None:
            inputs.outputs = [None] * plan.rows

    def _driver(self) -> Driver:
        return Driver(self.plan, self.inputs, self.tracebacks, self.pump.inbox.put)

    def run(self) -> None:
        """Run in the caller's thread, with the background loop beside it.

        Raises:
            BaseException: As `Pump.run`.
        """

        def await_on_loop(awaitable: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(_awaited(awaitable), background_loop()).result()

        if not self._has_driver:
            self.pump.run(await_on_loop, has_driver=False)
            return
        driver = self._driver()
        asyncio.run_coroutine_threadsafe(driver.run(), background_loop())
        try:
            self.pump.run(await_on_loop, has_driver=True)
        except BaseException:
            background_loop().call_soon_threadsafe(driver.stop)
            raise
        finally:
            driver.ended.wait(_STOP_SECONDS)

    async def arun(self) -> None:
        """Run on the running loop; plain evaluators run in one worker thread.

        Raises:
            BaseException: As `Pump.run`; CancelledError when cancelled.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def await_on_loop(awaitable: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(_awaited(awaitable), loop).result()

        def work() -> None:
            failure: BaseException | None = None
            try:
                self.pump.run(await_on_loop, has_driver=self._has_driver)
            except BaseException as exc:  # noqa: BLE001 - raised again where it is awaited
                failure = exc
            loop.call_soon_threadsafe(_settle, done, failure)

        driver = self._driver() if self._has_driver else None
        driving = loop.create_task(driver.run()) if driver is not None else None
        threading.Thread(target=work, name="evalframe-evaluators", daemon=True).start()
        try:
            await asyncio.shield(done)
        finally:
            self.pump.stop_asked = True
            if driver is not None and driving is not None:
                driver.stop()
                await asyncio.wait({driving}, timeout=_STOP_SECONDS)
            if not done.done():
                await asyncio.wait({done}, timeout=_STOP_SECONDS)
            if done.done():
                done.exception()  # taken, so that asyncio does not warn of it


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _settle(done: asyncio.Future[None], failure: BaseException | None) -> None:
    if isinstance(failure, StoppedError):
        done.cancel()
    elif failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
