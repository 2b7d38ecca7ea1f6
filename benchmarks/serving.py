"""The worker's end of a measurement: build once, then run each time the parent asks.

Standard library only: it runs in the peers' environments too. One JSON line per message goes to
the parent over the standard output the process was started with; whatever the measured code
prints goes to standard error instead.

Timer  CPU and wall seconds of one call
serve  the loop: `{"ready": ...}`, then `{"cpu": ..., "wall": ...}` for every line read
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ENOUGH_SECONDS = 0.2
MOST_REPEATS = 40


@dataclass(frozen=True)
class Timer:
    """Times a call: its CPU counts every thread of this process and the children it waited for."""

    call: Callable[[], object]

    def once(self, repeats: int = 1) -> dict[str, float]:
        """Give the seconds of one call, from the mean of `repeats` calls."""
        gc.collect()
        cpu, wall = _cpu_seconds(), time.perf_counter()
        for _ in range(repeats):
            self.call()
        return {
            "cpu": (_cpu_seconds() - cpu) / repeats,
            "wall": (time.perf_counter() - wall) / repeats,
        }


def serve(call: Callable[[], Any], totals: Callable[[Any], dict[str, float]]) -> None:
    """Answer the parent until it closes standard input.

    The first call warms up: it is checked through `totals` and decides how many calls one
    measurement needs to last 0.2 s, so that a clock tick does not matter.

    Args:
        call: What is measured; its result is dropped.
        totals: What the first result adds up to, sent to the parent to be compared.
    """
    parent = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(message: dict[str, object]) -> None:
        parent.write(json.dumps(message) + "\n")
        parent.flush()

    try:
        checked = totals(call())
        first = Timer(call).once()
        repeats = min(MOST_REPEATS, max(1, round(ENOUGH_SECONDS / max(first["wall"], 1e-9))))
        send({"ready": checked, "wall": first["wall"]})
        for _ in sys.stdin:
            send(dict(Timer(call).once(repeats)))
    except Exception as error:  # noqa: BLE001 - the parent lists a contender that fails
        send({"error": f"{type(error).__name__}: {error}"[:500]})
    # A peer's background threads must not keep the process alive.
    parent.close()
    os._exit(0)


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
