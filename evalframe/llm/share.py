"""One request for equal questions: whoever asks while it runs, or after, gets what it ended in.

Failures are shared too: a question that failed is not asked once per row.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from evalframe.core.call_info import CallInfo, current_call, enter_call


class Ends(Protocol):
    """Results by the key of their question."""

    def get(self, key: str, /) -> Any:
        """The result; None if there is none."""

    def __setitem__(self, key: str, result: Any, /) -> None:
        """Keep it."""


class Sharing:
    """Questions of one run, by key."""

    def __init__(self, ended: Ends | None = None) -> None:
        """Start with none asked.

        Args:
            ended: Takes the results, for those who ask after the end; a dict if not given.
        """
        self._asked: dict[str, _Question] = {}
        self._ended: Ends = {} if ended is None else ended
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
        ended = self._ended.get(key)
        if ended is not None:
            return ended, False
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
            self._ended[key] = task.result()
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
