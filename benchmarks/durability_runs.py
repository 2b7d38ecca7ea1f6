"""Runs of durability_worker.py seen from outside: started, waited for, cut off, read.

Moment   when a run is cut off, from a seed
Started  a worker that runs
Cut      what was in flight when it was cut off
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Self

from durability_ledger import open_calls
from durability_settings import Ending, Settings
from durability_wires import Counts, InFlight
from processes import HERE, WorkerError, environment

LONGEST_SECONDS = 300.0
_LOOK_SECONDS = 0.002


@dataclass(frozen=True)
class Moment:
    """When a run is cut off.

    Attributes:
        seed: What it follows from.
        share: The share of the calls that has been made.
        pause: Seconds after that, so that every phase of a call is met.
    """

    seed: int
    share: float
    pause: float

    @classmethod
    def of(cls, seed: int, latency: float, low: float, high: float) -> Self:
        """Draw one between two shares of the work."""
        rng = random.Random(seed)
        return cls(seed, rng.uniform(low, high), rng.uniform(0.0, latency))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The moment at which a run was cut off.

    Attributes:
        in_flight: What the server and the kernel knew of.
        open: The client's own count of the calls that had given it no result.
        done: The share of the work that was done.
    """

    in_flight: InFlight
    open: int
    done: float

    @classmethod
    def of(cls, in_flight: InFlight, still_open: int, calls: int) -> Self:
        """Give the cut in a work of so many calls."""
        done = (in_flight.asked - in_flight.total) / calls
        return cls(in_flight=in_flight, open=still_open, done=done)


class Started:
    """A worker in a process of its own; killed when it is left."""

    def __init__(self, settings: Settings, counts: Counts) -> None:
        self._settings = settings
        self._counts = counts

    def __enter__(self) -> Self:
        self._log = Path(self._settings.frame).with_suffix(".log").open("w+")
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "durability_worker.py"),
                json.dumps(asdict(self._settings)),
            ],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def ending(self) -> Ending:
        """Wait until it has ended, and give how.

        Raises:
            WorkerError: It took too long, or died.
        """
        try:
            said, _ = self._process.communicate(timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired as exc:
            message = f"the run did not end within {LONGEST_SECONDS:.0f} s"
            raise WorkerError(message) from exc
        if not said:
            self._log.seek(0)
            raise WorkerError(self._log.read().strip()[-2000:] or "the run ended without a word")
        return Ending(**json.loads(said))

    def kill(self, moment: Moment, calls: int) -> Cut | None:
        """Kill it (kill -9) at a moment of a work of so many calls; None if it had ended.

        It stands still (SIGSTOP) before that, while what is in flight is counted.

        Raises:
            WorkerError: The moment does not come.
        """
        if not self._comes(moment, calls) or not self._stands_still():
            return None
        still_open = open_calls(self._settings.ledger)
        in_flight = self._counts.in_flight()
        self._process.kill()
        self._process.wait()
        return Cut.of(in_flight, still_open, calls)

    def interrupt(self, moment: Moment, calls: int) -> Cut | None:
        """Press Ctrl-C (SIGINT) at a moment of a work of so many calls; None if it had ended.

        Raises:
            WorkerError: The moment does not come.
        """
        if not self._comes(moment, calls):
            return None
        found = self._counts.read()
        self._process.send_signal(signal.SIGINT)
        waiting = found["in_flight"]
        in_flight = InFlight(unanswered=waiting, total=waiting, asked=found["unique_prompts"])
        return Cut.of(in_flight, waiting, calls)

    def _comes(self, moment: Moment, calls: int) -> bool:
        """Wait for a moment; not if the run ends before."""
        until = time.monotonic() + LONGEST_SECONDS
        while self._counts.read()["requests"] < moment.share * calls:
            if self._process.poll() is not None:
                return False
            if time.monotonic() > until:
                message = f"{moment.share:.0%} of the calls were not made in time"
                raise WorkerError(message)
            Event().wait(_LOOK_SECONDS)
        Event().wait(moment.pause)
        return self._process.poll() is None

    def _stands_still(self) -> bool:
        self._process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(self._process.pid, os.WUNTRACED)
            return os.WIFSTOPPED(status)
        return False
