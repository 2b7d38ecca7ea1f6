"""What a call can know of the run it belongs to.

The engine sets it in the context of each call; the model layers below read it.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple


class CallClock:
    """How long a call has run, without the time it was kept waiting by a rate limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start counting.

        Args:
            clock: Seconds, never going back.
        """
        self._clock = clock
        self._started = clock()
        self._waited = 0.0
        self._waiting_since: float | None = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The time inside does not count."""
        if self._waiting_since is not None:
            yield
            return
        self._waiting_since = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None

    def seconds(self) -> float:
        """Seconds that count so far."""
        now = self._clock()
        waiting = 0.0 if self._waiting_since is None else now - self._waiting_since
        return now - self._started - self._waited - waiting


class Occurrence(NamedTuple):
    """A row among those of a run that are equal in what a task reads.

    Attributes:
        read: The digest of what it reads of the row.
        number: Which of the equal rows of one repetition it is, in their order, from 1.
    """

    read: str
    number: int


class CallInfo:
    """One call of a run.

    Attributes:
        repetition: Which repetition of its row, from 1.
        clock: The call's own clock.
        occurrence: Its row's, for a task that asks models; else None.
    """

    __slots__ = ("clock", "occurrence", "repetition")

    def __init__(
        self,
        repetition: int = 1,
        clock: CallClock | None = None,
        occurrence: Occurrence | None = None,
    ) -> None:
        """A call outside any run is the first repetition."""
        self.repetition = repetition
        self.clock = clock or CallClock()
        self.occurrence = occurrence


_current: contextvars.ContextVar[CallInfo | None] = contextvars.ContextVar(
    "evalframe_call", default=None
)


def current_call() -> CallInfo:
    """The call that this code runs in."""
    return _current.get() or CallInfo()


def enter_call(info: CallInfo) -> None:
    """Set the call of this context; to be run inside the context of that call."""
    _current.set(info)
