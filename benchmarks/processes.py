"""The parent's end: workers in processes of their own, and rounds that interleave them.

run_script   one script to its end
Worker       one contender at one size, see serving.py; killed when it is left
interleave   rounds in which every worker runs once, each round starting with another one
Figures      what the rounds gave: medians, and ratios taken within a round
"""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
LONGEST_SECONDS = 900.0


class WorkerError(Exception):
    """A contender could not be measured; the text says why."""


def environment() -> dict[str, str]:
    """Give the variables of a worker: evalframe as installed, else the checkout around us."""
    variables = dict(os.environ)
    if importlib.util.find_spec("evalframe") is None:
        paths = [str(HERE.parent), variables.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return variables


def run_script(script: str, *arguments: str) -> str:
    """Run one of our scripts under this Python and give its standard output.

    Raises:
        WorkerError: It failed; the text is the end of its standard error.
    """
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    if done.returncode != 0:
        raise WorkerError(done.stderr.strip()[-2000:])
    return done.stdout


@dataclass
class Worker:
    """A contender that waits in its own process, in an empty folder of its own."""

    name: str
    command: Sequence[str]
    totals: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="evalframe-benchmark-")
        self._log = (Path(self._folder.name) / "log").open("w+")
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=self._folder.name,
            env=environment(),
        )
        self._stdin = cast("TextIO", self._process.stdin)
        self._stdout = cast("TextIO", self._process.stdout)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout, self._log):
            pipe.close()
        self._folder.cleanup()

    def start(self, seconds: float = LONGEST_SECONDS) -> None:
        """Wait at most `seconds` until it has warmed up.

        Raises:
            WorkerError: It failed or took too long.
        """
        self.totals = self._answer(seconds)["ready"]

    def run(self) -> dict[str, float]:
        """Run once; give CPU and wall seconds.

        Raises:
            WorkerError: It failed or took too long.
        """
        self._stdin.write("run\n")
        self._stdin.flush()
        return self._answer(LONGEST_SECONDS)

    def _answer(self, seconds: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                message = f"gave no answer in {seconds:.0f} s"
                raise WorkerError(message)
        line = self._stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._end_of_log()}
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _end_of_log(self) -> str:
        self._log.flush()
        self._log.seek(0)
        return self._log.read().strip()[-500:] or "it ended without a word"


@dataclass
class Figures:
    """The rounds of one contender at one size."""

    rows: int
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def cpu_seconds(self) -> float:
        """The median over the rounds."""
        return median(self.cpu)

    @property
    def wall_seconds(self) -> float:
        """The median over the rounds."""
        return median(self.wall)

    def ratio(self, yardstick: Figures) -> float:
        """CPU against the yardstick's in the same round: the median of these ratios."""
        return median(mine / its for mine, its in zip(self.cpu, yardstick.cpu, strict=True))

    def wall_ratio(self, yardstick: Figures) -> float:
        """The same for wall time."""
        return median(mine / its for mine, its in zip(self.wall, yardstick.wall, strict=True))


def interleave(workers: Sequence[Worker], rows: int, rounds: int) -> dict[str, Figures | str]:
    """Let every worker run once per round, nothing else of ours running meanwhile.

    A worker that fails leaves the rounds; its text says why.
    """
    figures = {worker.name: Figures(rows) for worker in workers}
    failed: dict[str, str] = {}
    for number in range(rounds):
        first = number % len(workers)
        for worker in [*workers[first:], *workers[:first]]:
            if worker.name in failed:
                continue
            try:
                seconds = worker.run()
            except WorkerError as error:
                failed[worker.name] = f"failed: {error}"
                continue
            figures[worker.name].cpu.append(seconds["cpu"])
            figures[worker.name].wall.append(seconds["wall"])
    return {**figures, **failed}
