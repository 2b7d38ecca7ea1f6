"""What can happen to a run, each case made to happen and carried to its end.

    killed        kill -9, once or several times, each time resumed
    interrupted   Ctrl-C, then resumed
    raised        errors="raise" meets a row that raises; resumed with errors="record"
    filled        the disk of the run_dir fills up; resumed when there is room again

But for the plain kills, an evaluator raises on 1 % of the rows. Each compares the final frame
with that of a run that nothing happened to, and the server's own counts with what the case may
cost.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import pandas as pd
from durability_case import Case, Stopped
from durability_checks import Partial, differences
from durability_disk import small_disk
from durability_rows import CALLS_PER_ROW, strays
from durability_runs import Cut, Moment, Started
from durability_settings import Ending, Settings
from durability_wires import Counts
from processes import WorkerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_TRIES = 8
_OTHER_SEED = 1_000
_MIDDLE = (0.1, 0.9)
# What calls are made for: the task, and the judge.
_PAID_FOR = ("", "verdict")
_BYTES_A_CALL = 6_000
_NOT_WRITTEN = re.compile(r"not written: ([0-9,]+)")


class NeverMetError(WorkerError):
    """What was to happen did not happen in the middle of the work."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no {name} met the middle of the work in {_TRIES} tries")


class Cases:
    """The cases of one size, on one server."""

    def __init__(
        self, folder: Path, url: str, *, rows: int, concurrency: int, latency: float
    ) -> None:
        self._folder = folder
        self._counts = Counts(url)
        self._latency = latency
        self._concurrency = concurrency
        self.calls = CALLS_PER_ROW * rows
        self._settings = Settings(
            rows=rows, url=url, concurrency=concurrency, run_dir=None, frame="", ledger=""
        )
        self._undisturbed: dict[bool, pd.DataFrame] = {}

    def undisturbed(self, *, raising: bool) -> pd.DataFrame:
        """Give the frame of a run that nothing happens to; it pays once for everything.

        Raises:
            WorkerError: It pays for more, or a row holds what belongs to another one.
        """
        if raising in self._undisturbed:
            return self._undisturbed[raising]
        settings = self._fresh(f"undisturbed-{raising}", raising=raising)
        self._carry_on(settings)
        counts = self._counts.settled()
        result = _left(settings)
        astray = len(strays(result))
        if not counts["requests"] == counts["unique_prompts"] == self.calls or astray:
            message = (
                f"undisturbed: {counts['requests']} calls for {self.calls} unique requests, "
                f"{astray} rows do not hold what the server said"
            )
            raise WorkerError(message)
        self._undisturbed[raising] = result
        return result

    def killed(self, seed: int, *, times: int = 1, raising: bool = False) -> Case:
        """Kill a run at so many moments, each in a part of the work of its own, and resume it."""
        self.undisturbed(raising=raising)
        name = "kill -9" if times == 1 else f"kill -9, {times} times"
        for tried in _seeds(seed):
            settings = self._fresh(f"killed-{tried}", raising=raising)
            moments = self._moments(tried, times)
            cuts = self._killed_at(settings, moments)
            if len(cuts) == times:
                break
        else:
            raise NeverMetError(name)
        stopped = Stopped(
            name=f"{name}, 1 % of the rows raise" if raising else name,
            settings=settings,
            seed=tried,
            cuts=cuts,
            allowed=times * self._concurrency,
        )
        return self._resumed(stopped)

    def _killed_at(self, settings: Settings, moments: Sequence[Moment]) -> list[Cut]:
        """Give the cuts before the first that did not meet its moment."""
        cuts = []
        for moment in moments:
            with Started(settings, self._counts) as started:
                cut = started.kill(moment, self.calls)
            if not _met(cut, moment):
                break
            cuts.append(cut)
        return cuts

    def interrupted(self, seed: int) -> Case:
        """Press Ctrl-C once, look at `.partial`, and resume."""
        whole = self.undisturbed(raising=True)
        name = "Ctrl-C"
        for tried in _seeds(seed):
            settings = self._fresh(f"interrupted-{tried}", raising=True)
            (moment,) = self._moments(tried, 1)
            with Started(settings, self._counts) as started:
                cut = started.interrupt(moment, self.calls)
                ending = started.ending()
            if _met(cut, moment):
                break
        else:
            raise NeverMetError(name)
        wrong, paid = self._stopped(settings, ending, "KeyboardInterrupt", whole)
        stopped = Stopped(
            name=name,
            settings=settings,
            seed=tried,
            cuts=[cut],
            allowed=cut.in_flight.total,
            paid=paid,
            wrong=wrong,
        )
        return self._resumed(stopped)

    def raised(self) -> Case:
        """Let errors="raise" meet the row that raises, then record such rows."""
        whole = self.undisturbed(raising=True)
        settings = self._fresh("raised", raising=True)
        with Started(replace(settings, errors="raise"), self._counts) as started:
            ending = started.ending()
        wrong, paid = self._stopped(settings, ending, "ValueError", whole)
        allowed = self._counts.settled()["most_in_flight"]
        name = 'errors="raise"'
        return self._resumed(
            Stopped(name=name, settings=settings, allowed=allowed, paid=paid, wrong=wrong)
        )

    def filled(self) -> Case:
        """Fill the disk of the run_dir, make room, and resume."""
        self.undisturbed(raising=True)
        name = "full disk"
        too_little, too_much = 0, self.calls * _BYTES_A_CALL
        for attempt in range(_TRIES):
            room = (too_little + too_much) // 2
            with small_disk(self._folder / f"disk-{attempt}", room) as disk:
                settings = self._fresh(f"filled-{attempt}", raising=True)
                settings = replace(settings, run_dir=str(disk.path / "run"))
                limited = replace(settings, file_limit=disk.file_limit)
                with Started(limited, self._counts) as started:
                    ending = started.ending()
                done = self._counts.settled()["unique_prompts"] / self.calls
                if _in_the_middle(done):
                    disk.make_room()
                    return self._after_full(f"{name}: {disk}", settings, ending)
            say(f"a disk of {room:,} bytes was full at {done:.0%} of the calls: does not count")
            if done < _MIDDLE[0]:
                too_little = room
            else:
                too_much = room
        raise NeverMetError(name)

    def _after_full(self, name: str, settings: Settings, ending: Ending) -> Case:
        safe = sum(count for name, count in ending.safe.items() if name in _PAID_FOR)
        wrong = []
        if ending.raised != "JournalError":
            wrong.append(f"a full disk ended in {ending.raised}: {ending.message[:300]}")
        if not safe or not all(f"{count:,}" in ending.message for count in ending.safe.values()):
            wrong.append(f"the error names nothing that is safe: {ending.message[:300]}")
        waited = _NOT_WRITTEN.search(ending.message)
        unwritten = int(waited[1].replace(",", "")) if waited else 0
        allowed = self._counts.settled()["most_in_flight"] + unwritten
        return self._resumed(
            Stopped(name=name, settings=settings, allowed=allowed, paid=safe, wrong=wrong)
        )

    def _stopped(
        self, settings: Settings, ending: Ending, kind: str, whole: pd.DataFrame
    ) -> tuple[list[str], int]:
        """Give what is wrong with the end of a run that was stopped, and the calls it kept."""
        if ending.raised != kind or not ending.partial:
            said = f"{ending.raised}, partial {ending.partial}: {ending.message[:300]}"
            return [f"it ended in {said}; not in {kind} with .partial"], 0
        partial = Partial(_left(settings), whole)
        return partial.wrong(), partial.paid

    def _resumed(self, stopped: Stopped) -> Case:
        """Run to the end what was cut off."""
        settings = stopped.settings
        before = self._counts.settled()
        self._carry_on(settings)
        after = self._counts.settled()
        done = tuple(cut.done for cut in stopped.cuts) or (before["unique_prompts"] / self.calls,)
        return Case(
            stopped=stopped,
            done=done,
            calls=self.calls,
            unique=after["unique_prompts"],
            extra=after["requests"] - after["unique_prompts"],
            again=after["requests"] - before["requests"],
            differences=differences(_left(settings), self._undisturbed[settings.raising]),
        )

    def _fresh(self, name: str, *, raising: bool) -> Settings:
        """Start the counts anew, for a run in a folder of its own."""
        self._counts.settled()
        self._counts.read(reset=True)
        return replace(
            self._settings,
            run_dir=str(self._folder / name),
            frame=str(self._folder / f"{name}.pickle"),
            ledger=str(self._folder / f"{name}.ledger"),
            raising=raising,
        )

    def _carry_on(self, settings: Settings) -> None:
        with Started(settings, self._counts) as started:
            ending = started.ending()
        if ending.raised:
            message = f"a run ended in {ending.raised}: {ending.message[:1000]}"
            raise WorkerError(message)

    def _moments(self, seed: int, times: int) -> list[Moment]:
        low, high = _MIDDLE
        width = (high - low) / times
        return [
            Moment.of(seed + part, self._latency, low + part * width, low + (part + 1) * width)
            for part in range(times)
        ]


def say(what: str) -> None:
    """Tell how it goes."""
    print(what, file=sys.stderr, flush=True)


def _left(settings: Settings) -> pd.DataFrame:
    """Give the frame that a run has left."""
    found = pd.read_pickle(settings.frame)  # noqa: S301 - our own worker wrote it
    assert isinstance(found, pd.DataFrame)
    return found


def _seeds(first: int) -> range:
    return range(first, first + _TRIES * _OTHER_SEED, _OTHER_SEED)


def _in_the_middle(done: float) -> bool:
    return _MIDDLE[0] <= done <= _MIDDLE[1]


def _met(cut: Cut | None, moment: Moment) -> TypeGuard[Cut]:
    if cut is None:
        say(f"seed {moment.seed}: the run had ended before: does not count")
        return False
    if not _in_the_middle(cut.done) or not cut.in_flight.unanswered:
        unanswered = cut.in_flight.unanswered
        say(f"seed {moment.seed}: {cut.done:.0%}, {unanswered} in flight: does not count")
        return False
    return True
