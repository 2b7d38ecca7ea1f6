"""Ctrl-C and SIGTERM during a run.

Owns   which handler is in place while a run lasts, and that the old one is back after it.
Leaves what a signal means to the run: nothing new begins, what is in flight has a few seconds.

Only the main thread may set handlers; elsewhere signals do what they did before.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]


def end_by(number: int) -> SystemExit:
    """What ends a process that was told to end; its status is the usual one."""
    return SystemExit(128 + number)


class SignalsRaise:
    """While it lasts SIGTERM raises SystemExit, and Ctrl-C KeyboardInterrupt, wherever it is."""

    def __init__(self) -> None:
        """Set nothing yet."""
        self._handlers = _Handlers()

    def __enter__(self) -> None:
        if not _is_main():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handlers.set(signal.SIGTERM, _raise)
        # The handlers of asyncio.run and of a notebook's async cell have the loop cancel a task;
        # the loop has no turn while a plain call runs on it, which nothing would end then.
        if _loop_is_running() and callable(signal.getsignal(signal.SIGINT)):
            self._handlers.set(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        self._handlers.restore()


class SignalsTold:
    """While it lasts one is told of Ctrl-C, which goes on to do what it did, and of SIGTERM."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        """Set nothing yet.

        Args:
            tell: Called with the signal's number, in the main thread, between any two steps.
        """
        self._tell = tell

    def __enter__(self) -> None:
        if not _is_main():
            return
        # Of several runs on one loop the first sets the handlers, and the last restores them.
        if not _told:
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                _shared.set(signal.SIGINT, _telling(before))
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                _shared.set(signal.SIGTERM, _telling(None))
        _told.append(self._tell)

    def __exit__(self, *_: object) -> None:
        if self._tell in _told:
            _told.remove(self._tell)
            if not _told:
                _shared.restore()


class _Handlers:
    """Handlers in place of others."""

    def __init__(self) -> None:
        self._set: list[tuple[signal.Signals, _Handler, Any]] = []

    def set(self, number: signal.Signals, handler: _Handler) -> None:
        self._set.append((number, handler, signal.signal(number, handler)))

    def restore(self) -> None:
        """Put back those before, but where somebody else has put another meanwhile."""
        while self._set:
            number, handler, before = self._set.pop()
            if signal.getsignal(number) is handler:
                signal.signal(number, before)


_told: list[Callable[[int], None]] = []
_shared = _Handlers()


def _raise(number: int, _: FrameType | None) -> None:
    raise end_by(number)


def _telling(then: Callable[..., Any] | None) -> _Handler:
    def handler(number: int, frame: FrameType | None) -> None:
        for tell in tuple(_told):  # a run may end meanwhile
            tell(number)
        if then is None:
            return
        try:
            then(number, frame)
        except BaseException:
            # It ends the loop, and asyncio.run looks then whether the handler is still its own.
            signal.signal(number, then)
            raise

    return handler


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
