"""Daemon threads for calls that block.

Unlike concurrent.futures, a call that never returns can be left behind: it neither holds up
the run nor the end of the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from evalframe.engines.faults import stand_in

_Work = tuple[asyncio.Future[Any], Callable[[], Any]]


class DaemonThreads:
    """Runs blocking calls for one event loop; as many threads as calls are in flight."""

    def __init__(self, name: str) -> None:
        """Start with no threads; `name` shows in debuggers."""
        self._name = name
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._alive = 0

    def submit(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Start a call; the future is of the running loop."""
        future = asyncio.get_running_loop().create_future()
        self._work.put((future, call))
        if not self._idle.acquire(blocking=False):
            self._alive += 1
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle threads end; a thread that is left behind ends with its call."""
        for _ in range(self._alive):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            future, call = work
            try:
                outcome, failed = call(), None
            except BaseException as exc:  # noqa: BLE001 - handed to whoever awaits the future
                outcome, failed = None, exc
            self._idle.release()
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, outcome, failed)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more
            del work, future, call, outcome, failed


def _settle(future: asyncio.Future[Any], outcome: Any, failed: BaseException | None) -> None:
    if future.done():
        return
    if failed is None:
        future.set_result(outcome)
    elif isinstance(failed, (StopIteration, asyncio.CancelledError)):
        # A future cannot carry the first, and the second would look like its own cancellation.
        future.set_exception(stand_in(failed))
    else:
        future.set_exception(failed)
