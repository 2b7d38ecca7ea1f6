"""When a run begins nothing more, and how long it then waits for what is in flight."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

# For calls in flight when a run is to end: what is paid for should come into the frame.
GRACE_S = 5.0


class DeadlineError(Exception):
    """A call was in flight at the deadline, and had not ended when the grace was over."""


class Deadline:
    """The moment after which no cell and no task call begins; or none."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Count from now.

        Args:
            seconds: Until the deadline; None for no limit.
            clock: Seconds, never going back.
        """
        self._clock = clock
        self._ends_at = None if seconds is None else clock() + seconds

    def left(self) -> float | None:
        """Seconds until then, at least 0; None without a limit."""
        return None if self._ends_at is None else max(self._ends_at - self._clock(), 0.0)

    def over(self) -> bool:
        """Whether it has passed."""
        return self._ends_at is not None and self._clock() >= self._ends_at

    def until(self, items: Iterable[Any]) -> Iterable[Any]:
        """The items that are taken before it; at no cost for each where there is no limit."""
        return items if self._ends_at is None else itertools.takewhile(self._open, items)

    def _open(self, _: Any) -> bool:
        return not self.over()
