"""What the journal costs: the same run with and without a run_dir, side by side.

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
from durability_kinds import KINDS, Kind
from processes import HERE, Figures, Worker, WorkerError, environment, interleave
from report import Requirement

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_CPU_MS = 0.1
MOST_WALL = 1.1

_SCRIPT = str(HERE / "durability_cost_worker.py")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A kind of run with a run_dir and without."""

    kind: Kind
    given: Figures
    bare: Figures

    @property
    def results(self) -> int:
        """Cells and outputs of one run."""
        return self.given.rows * self.kind.results

    @property
    def cpu_ms(self) -> float:
        """CPU that the run_dir adds to a cell or output: the median over the rounds."""
        pairs = zip(self.given.cpu, self.bare.cpu, strict=True)
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
    """Time every kind of run with and without, each in a process of its own, in turns.

    Raises:
        WorkerError: One of them failed.
    """
    costs = []
    for kind in KINDS:
        count = rows * kind.share
        with ExitStack() as stack:
            workers = []
            for journal in ("with", "without"):
                arguments = [kind.name, journal, url, str(count), str(concurrency)]
                command = [sys.executable, _SCRIPT, "time", *arguments]
                worker = stack.enter_context(Worker(journal, command))
                worker.start()
                workers.append(worker)
            figures = interleave(workers, count, rounds)
        given, bare = figures["with"], figures["without"]
        if isinstance(given, str) or isinstance(bare, str):
            raise WorkerError(given if isinstance(given, str) else str(bare))
        costs.append(Cost(kind=kind, given=given, bare=bare))
    return costs


def table(costs: Sequence[Cost]) -> str:
    """Give a line for each kind, with a run_dir and without."""
    head = ["run", "rows", "run_dir", "CPU ms/result", "x without", "wall s", "x without"]
    lines = []
    for cost in costs:
        for name, figures in (("without", cost.bare), ("with", cost.given)):
            cpu = figures.cpu_seconds / cost.results * 1e3
            ratios = [f"{figures.ratio(cost.bare):.2f}", f"{figures.wall_ratio(cost.bare):.2f}"]
            wall = f"{figures.wall_seconds:.3f}"
            row = [f"{figures.rows:,}", name, f"{cpu:.4f}", ratios[0], wall, ratios[1]]
            lines.append([cost.kind.name, *row])
    return "### What the journal costs\n\n" + report.grid(head, lines, left=(0, 2))


def bounds(costs: Sequence[Cost]) -> list[Requirement]:
    """Give the figures that have a bound.

    A wall time is judged where a model is called; code alone takes microseconds a cell, of which
    a tenth is nothing that could be written to a disk.
    """
    found = []
    for cost in costs:
        name = cost.kind.name
        found.append(
            Requirement(f"{name}: CPU of the journal per result", cost.cpu_ms, MOST_CPU_MS, " ms")
        )
        if cost.kind.calls:
            ratio = cost.given.wall_ratio(cost.bare)
            found.append(Requirement(f"{name}: wall x without run_dir", ratio, MOST_WALL))
    return found
