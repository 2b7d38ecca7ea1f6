"""The one background event loop of the process.

Started at first use and kept, so that a client or lock made in one run works in the next.
Nothing that user code raises ends it. One that a call blocks for ever is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable
from typing import Any

from evalframe.core.errors import ExperimentError

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop; it runs in a daemon thread of its own."""
    with _lock:
        # By process: after a fork the thread is gone, and the child needs a loop of its own.
        loop = _loops.get(os.getpid())
        if loop is None or loop.is_closed():
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(
                target=_serve, args=(loop,), name="evalframe-loop", daemon=True
            ).start()
        return loop


def loop_for_waiting(instead: str) -> asyncio.AbstractEventLoop:
    """The background loop, for one who will wait for what runs on it.

    Args:
        instead: What an async function is to write.

    Raises:
        ExperimentError: It is what runs this very call, so that it would wait for itself.
    """
    loop = background_loop()
    if asyncio._get_running_loop() is loop:  # noqa: SLF001 - None, not an error, elsewhere
        message = (
            "This was called by an async function that an experiment runs, so it would wait for "
            f"itself. Write: {instead}."
        )
        raise ExperimentError([message])
    return loop


def leave_behind(loop: asyncio.AbstractEventLoop) -> None:
    """Have the next run start a loop of its own: nothing will run on this one any more."""
    with _lock:
        if _loops.get(os.getpid()) is loop:
            del _loops[os.getpid()]


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    # asyncio lets these two out of the loop, also from a task that user code started.
    while not loop.is_closed():
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()


class FatalError(Exception):
    """Carries SystemExit or KeyboardInterrupt out of a coroutine without ending the loop."""


async def guarded(awaitable: Awaitable[Any]) -> Any:
    """Await user code.

    Raises:
        FatalError: It raised SystemExit or KeyboardInterrupt, which is the cause.
    """
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as exc:
        raise FatalError from exc
