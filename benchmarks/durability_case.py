"""A run that was cut off, and what came of it.

Stopped   what happened to the run, and what being resumed may cost it
Case      that, and what the server counted in the end
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durability_runs import Cut
    from durability_settings import Settings


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A run that was cut off.

    Attributes:
        name: What happened to it.
        settings: Of the run; it is resumed with these.
        seed: Of the moments; None where nothing was drawn.
        cuts: What was in flight at each moment; none where nobody looked.
        allowed: Calls that may be made twice.
        paid: Calls whose results are there, by what the run itself said; None if it said nothing.
        wrong: Promises broken so far.
    """

    name: str
    settings: Settings
    seed: int | None = None
    cuts: Sequence[Cut] = ()
    allowed: int
    paid: int | None = None
    wrong: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run that was cut off and resumed.

    Attributes:
        stopped: What happened before.
        done: The share of the work that was done at each cut.
        calls: Calls of an undisturbed run.
        unique: Unique requests, by the server's count.
        extra: Calls beyond one for each of them.
        again: Calls that the last run made.
        differences: What is wrong with its frame.
    """

    stopped: Stopped
    done: tuple[float, ...]
    calls: int
    unique: int
    extra: int
    again: int
    differences: list[str] = field(default_factory=list)

    @property
    def allowed_again(self) -> int | None:
        """How many calls the last run may make; None if nothing said what is paid for."""
        return None if self.stopped.paid is None else self.calls - self.stopped.paid

    def wrong(self) -> list[str]:
        """Say which promises were broken."""
        found = [*self.stopped.wrong, *self.differences]
        if self.unique != self.calls:
            found.append(f"{self.unique} of {self.calls} unique requests were made")
        if self.extra > self.stopped.allowed:
            found.append(f"{self.extra} calls were made twice, {self.stopped.allowed} may be")
        if self.allowed_again is not None and self.again > self.allowed_again:
            found.append(f"{self.again} calls when resumed, {self.allowed_again} were missing")
        return [f"{self.stopped.name}, seed {self.stopped.seed}: {text}" for text in found]

    def cells(self) -> list[str]:
        """Give one line of the table of cases."""
        stopped, flights = self.stopped, [cut.in_flight for cut in self.stopped.cuts]
        sums = [
            sum(flight.unanswered for flight in flights),
            sum(flight.total for flight in flights),
            sum(cut.open for cut in stopped.cuts),
        ]
        counts = [
            stopped.seed,
            *(sums if flights else [None] * len(sums)),
            self.extra,
            stopped.allowed,
            self.again,
            self.allowed_again,
        ]
        seed, *shown = ["" if count is None else f"{count:,}" for count in counts]
        moments = ", ".join(f"{done:.0%}" for done in self.done)
        return [stopped.name, seed, moments, *shown, "BROKEN" if self.wrong() else "kept"]
