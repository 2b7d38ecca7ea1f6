"""What the driver posts to the pump, and the way it takes."""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from typing import NamedTuple

from evalframe.core.records import Cell

_LONGEST_WAIT_S = 0.5


class OutputDone(NamedTuple):
    """A task call ended; `error` is None if the row has its output."""

    row: int
    error: str | None
    failure: BaseException | None


class CellDone(NamedTuple):
    """A cell that ran apart from the caller's thread ended."""

    place: int
    row: int
    cell: Cell
    failure: BaseException | None
    seconds: float


class DriverDone(NamedTuple):
    """Nothing more will be posted; `failure` is what ended the run early."""

    failure: BaseException | None


Message = OutputDone | CellDone | DriverDone


class Inbox:
    """A queue from one thread to another.

    A message stays in it until it is dealt with. Where taking it out came first, as with the
    queues of the standard library, Ctrl-C could come in between and the message would be lost.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._messages: deque[Message] = deque()
        self._waiting = False
        # In C, and so not to be broken by Ctrl-C as threading.Event is.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """Add a message; from any thread."""
        self._messages.append(message)
        if self._waiting:
            self._calls.put(None)

    def first(self, *, wait: bool) -> Message | None:
        """The oldest message; None if there is none and `wait` is False."""
        while not self._messages:
            if not wait:
                return None
            self._waiting = True
            # Again: a message may have come before anybody could know of the waiting.
            if not self._messages:
                with contextlib.suppress(queue.Empty):
                    # Not for ever: Ctrl-C just before this call is seen when it returns.
                    self._calls.get(timeout=_LONGEST_WAIT_S)
        self._waiting = False
        return self._messages[0]

    def drop_first(self) -> None:
        """Take out the oldest message: it has been dealt with."""
        self._messages.popleft()
