"""One request for equal questions: whoever asks while it runs, or after, gets what it ended in.

Failures are shared too: a question that failed is not asked once per row.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from evalframe.core.call_info import CallInfo, current_call, enter_call


class Sharing:
    """Questions of one run, by key."""

    def __init__(self, kept: Callable[[Any], Any] = lambda result: result) -> None:
        """Start with none asked.

        Args:
            kept: Makes the little that is kept of a result, for those who ask after its end.
        """
        self._asked: dict[str, _Question] = {}
        self._kept = kept
        self._ended: dict[str, Any] = {}
        self._failed: dict[str, BaseException] = {}

    async def ask(self, key: str, ask: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
        """What the question ended in, and whether this call was the one that asked it.

        Args:
            key: Equal for equal questions.
            ask: Asks it; run at most once per key, in a task that ends early only when nobody
                waits for it any more.

        Raises:
            Exception: What `ask` raised, for everyone who asked.
        """
        if key in self._ended:
            return self._ended[key], False
        if key in self._failed:
            raise self._failed[key]
        question = self._asked.get(key)
        first = question is None
        if question is None:
            question = self._asked[key] = _Question(ask)
            question.task.add_done_callback(functools.partial(self._end, key))
        else:
            # Time out with the one who asked first: its waits for a rate limit count for none.
            current_call().clock = question.info.clock
        try:
            return await question.result(), first
        finally:
            if question.abandoned:
                self._asked.pop(key, None)

    def _end(self, key: str, task: asyncio.Task[Any]) -> None:
        """Let go of the question itself: a run may ask a million."""
        if task.cancelled():
            return
        failure = task.exception()  # taken: asyncio need not warn when nobody waits any more
        if failure is None:
            self._ended[key] = self._kept(task.result())
        else:
            self._failed[key] = failure
        self._asked.pop(key, None)

    async def close(self) -> None:
        """End what is still being asked."""
        tasks = [q.task for q in self._asked.values() if not q.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Question:
    def __init__(self, ask: Callable[[], Awaitable[Any]]) -> None:
        self.info: CallInfo = current_call()
        self.waiting = 0
        self.abandoned = False
        self.task = asyncio.ensure_future(_asked_with(self.info, ask))

    async def result(self) -> Any:
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if self.waiting == 0 and not self.task.done():
                self.abandoned = True
                self.task.cancel()


async def _asked_with(info: CallInfo, ask: Callable[[], Awaitable[Any]]) -> Any:
    enter_call(info)
    return await ask()
