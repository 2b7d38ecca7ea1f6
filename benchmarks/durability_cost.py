"""What the journal costs: the same run with a run_dir and without, side by side.

A run_dir keeps the replies of models too, as `cache=` does without one. What the journal alone
costs is therefore told beside a run with `cache=`, where there is a model.

verified   the frames are the same with and without
measured   CPU and wall of each kind, interleaved
table      the figures
bounds     the figures against what the journal may cost
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import report
from durability_kinds import KINDS, NOTHING, REPLIES, RESULTS, WAYS, Kind
from processes import HERE, Figures, Worker, WorkerError, environment, interleave
from report import Requirement

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_CPU_MS = 0.1
MOST_WALL = 1.1

_SCRIPT = str(HERE / "durability_cost_worker.py")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A kind of run in all its ways."""

    kind: Kind
    ways: dict[str, Figures]

    @property
    def results(self) -> int:
        """Cells and outputs of one run."""
        return self.ways[NOTHING].rows * self.kind.results

    def cpu_ms(self, way: str, beside: str) -> float:
        """CPU for each result that one way has above another: the median over the rounds."""
        pairs = zip(self.ways[way].cpu, self.ways[beside].cpu, strict=True)
        return median(ours - its for ours, its in pairs) / self.results * 1e3


def verified(url: str, rows: int, concurrency: int) -> None:
    """Compare the frames of every kind, with a run_dir and without.

    Raises:
        WorkerError: They differ.
    """
    with tempfile.TemporaryDirectory(prefix="evalframe-benchmark-") as folder:
        done = subprocess.run(
            [sys.executable, _SCRIPT, "verify", url, str(rows), str(concurrency)],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise WorkerError(done.stderr.strip()[-2000:])


def measured(url: str, rows: int, concurrency: int, rounds: int) -> list[Cost]:
    """Time every kind of run in its ways, each in a process of its own, in turns.

    Raises:
        WorkerError: One of them failed.
    """
    return [_cost(kind, url, rows * kind.share, concurrency, rounds) for kind in KINDS]


def _cost(kind: Kind, url: str, rows: int, concurrency: int, rounds: int) -> Cost:
    with ExitStack() as stack:
        workers = []
        for way in WAYS if kind.calls else (NOTHING, RESULTS):
            arguments = ["time", kind.name, way, url, str(rows), str(concurrency)]
            worker = stack.enter_context(Worker(way, [sys.executable, _SCRIPT, *arguments]))
            worker.start()
            workers.append(worker)
        outcomes = interleave(workers, rows, rounds)
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
    if failed:
        raise WorkerError(failed[0])
    return Cost(kind=kind, ways={w: o for w, o in outcomes.items() if not isinstance(o, str)})


def table(costs: Sequence[Cost]) -> str:
    """Give a line for each kind and way."""
    head = ["run", "rows", "keeps", "CPU ms/result", "x nothing", "wall s", "x nothing"]
    lines = []
    for cost in costs:
        bare = cost.ways[NOTHING]
        for way, figures in cost.ways.items():
            cpu, wall = figures.cpu_seconds / cost.results * 1e3, figures.wall_seconds
            ratios = [f"{figures.ratio(bare):.2f}", f"{figures.wall_ratio(bare):.2f}"]
            row = [f"{figures.rows:,}", way, f"{cpu:.4f}", ratios[0], f"{wall:.3f}", ratios[1]]
            lines.append([cost.kind.name, *row])
    return "### What the journal costs\n\n" + report.grid(head, lines, left=(0, 2))


def bounds(costs: Sequence[Cost]) -> list[Requirement]:
    """Give the figures that have a bound.

    A wall time is judged where a model is called; code alone takes microseconds a cell, of which
    a tenth is nothing that could be written to a disk.
    """
    found = []
    for cost in costs:
        beside = REPLIES if cost.kind.calls else NOTHING
        whole = f"{cost.cpu_ms(RESULTS, NOTHING):.3f} ms with the replies" * cost.kind.calls
        text = f"{cost.kind.name}: CPU of the journal per result"
        cpu = cost.cpu_ms(RESULTS, beside)
        found.append(Requirement(text, cpu, MOST_CPU_MS, unit=" ms", note=whole))
        if cost.kind.calls:
            ratio = cost.ways[RESULTS].wall_ratio(cost.ways[NOTHING])
            found.append(Requirement(f"{cost.kind.name}: wall x without", ratio, MOST_WALL))
    return found
