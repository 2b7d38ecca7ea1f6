"""What the judge benchmark says: its table and its requirements.

Faulty, Memory   what one run against a faulty server, or one run of memory, gave
table            everyone against the bare loop and against what the latency alone takes
requirements     the figures against their limits
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Protocol

import report
from judge_workload import CONCURRENCY
from processes import Figures
from report import Outcome, Requirement

YARDSTICK = "bare AsyncOpenAI"
OURS = "evalframe"
MOST_CPU = 0.7
MOST_CALLS = 1.1
MOST_PER_EPISODE = 1.1
MOST_MEMORY = 1.5


class Sizes(Protocol):
    """What the requirements need to know of the plan."""

    @property
    def rows(self) -> int:
        """Rows of a timed run."""

    @property
    def latency(self) -> float:
        """Seconds of a reply."""

    @property
    def memory_rows(self) -> int:
        """Rows of a run whose memory is measured."""


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """One run against a server that refuses, breaks and garbles, and one against none such."""

    rows: int
    retry_after: float
    valid: int
    calls: int
    episodes: int
    wall: float
    clean_wall: float
    errors: list[str]

    @property
    def of_allowed(self) -> float:
        """Wall against the clean wall and the episodes' waiting."""
        waiting = MOST_PER_EPISODE * self.retry_after * self.episodes
        return self.wall / (self.clean_wall + waiting)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one run: the peak, its frame, the result columns alone; and how long it took."""

    peak: int
    held: int
    added: int
    wall: float


def table(outcomes: dict[str, Outcome], rows: int, latency: float) -> str:
    """Give one line for each contender."""
    head = ["contender", "CPU ms/call", f"x {YARDSTICK}", "wall s", "x latency alone"]
    yardstick = outcomes[YARDSTICK]
    shortest = rows * latency / CONCURRENCY
    lines = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, str) or isinstance(yardstick, str):
            lines.append([f"{name}: {outcome}", "", "", "", ""])
            continue
        wall = outcome.wall_seconds
        lines.append(
            [
                name,
                f"{outcome.cpu_seconds / rows * 1e3:.3f}",
                f"{outcome.ratio(yardstick):.2f}",
                f"{wall:.2f}",
                f"{wall / shortest:.2f}",
            ]
        )
    title = f"### A judge over {rows:,} rows, {latency * 1e3:g} ms a call, {CONCURRENCY} at once"
    return f"{title}\n\n{report.grid(head, lines, left=(0,))}"


def requirements(
    outcomes: dict[str, Outcome],
    faulty: list[Faulty],
    memory: list[Memory],
    sizes: Sizes,
    *,
    judged: bool,
) -> str:
    """Give the table of requirements."""
    ours, yardstick = outcomes[OURS], outcomes[YARDSTICK]
    assert isinstance(ours, Figures)
    assert isinstance(yardstick, Figures)
    checks = [
        *_clean(ours, yardstick, sizes),
        *_with_faults(faulty),
        _memory(memory, sizes.memory_rows),
    ]
    return report.requirements(checks, judged=judged)


def _clean(ours: Figures, yardstick: Figures, sizes: Sizes) -> list[Requirement]:
    shortest = sizes.rows * sizes.latency / CONCURRENCY
    against = f"{ours.wall_seconds / shortest:.2f}x of {shortest:.2f} s (aim: 1.2x)"
    return [
        Requirement(
            f"CPU per call x {YARDSTICK}", ours.ratio(yardstick), MOST_CPU, note="aim: 0.5x"
        ),
        Requirement(f"wall x {YARDSTICK}", ours.wall_ratio(yardstick), 1.0, note=against),
    ]


def _with_faults(faulty: list[Faulty]) -> list[Requirement]:
    worst = max(faulty, key=lambda run: run.of_allowed)
    return [
        Requirement(
            "with faults: rows without a valid verdict",
            max(run.rows - run.valid for run in faulty),
            0,
            unit="",
            note=f"the worst of {len(faulty)} runs",
        ),
        Requirement(
            "with faults: calls x rows",
            max(run.calls / run.rows for run in faulty),
            MOST_CALLS,
            note=f"the worst of {len(faulty)} runs",
        ),
        Requirement(
            "with faults: wall x (clean wall + 1.1 x Retry-After x episodes)",
            median(run.of_allowed for run in faulty),
            1.0,
            note=f"at worst {worst.of_allowed:.2f}x: {worst.wall:.1f} s for {worst.episodes} "
            f"episodes, clean {worst.clean_wall:.1f} s",
        ),
    ]


def _memory(runs: list[Memory], rows: int) -> Requirement:
    run = sorted(runs, key=lambda run: run.peak)[len(runs) // 2]
    return Requirement(
        f"{rows:,} rows: peak memory x results",
        run.peak / run.held,
        MOST_MEMORY,
        note=f"{run.peak / 1e6:.1f} MB for {run.held / 1e6:.1f} MB, of which "
        f"{run.added / 1e6:.1f} MB are new columns; {run.wall:.1f} s",
    )
