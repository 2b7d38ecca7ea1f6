"""What a measurement says: the tables, the requirements and the machine.

Table         one row per size and contender, ratios to the first contender of the size
Requirement   a figure against its limit
machine       what it ran on, in words
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from processes import Figures

Outcome: TypeAlias = "Figures | str"
"""What came of a contender at one size; text says why there are no figures."""


@dataclass
class Table:
    """Outcomes by rows and contender; the first contender is the yardstick."""

    title: str
    yardstick: str
    outcomes: dict[int, dict[str, Outcome]] = field(default_factory=dict)

    def ratio(self, rows: int, contender: str) -> float:
        """CPU against the yardstick at one size.

        Raises:
            LookupError: One of them has no figures there.
        """
        ours, its = self.outcomes[rows][contender], self.outcomes[rows][self.yardstick]
        if isinstance(ours, str) or isinstance(its, str):
            message = f"{contender} was not measured at {rows:,} rows"
            raise LookupError(message)  # noqa: TRY004 - nothing is of a wrong type
        return ours.ratio(its)

    def __str__(self) -> str:
        head = ["rows", "contender", "CPU s", "CPU µs/row", f"x {self.yardstick}", "wall s"]
        lines = [
            self._line(rows, name, outcome)
            for rows, contenders in self.outcomes.items()
            for name, outcome in contenders.items()
        ]
        return f"### {self.title}\n\n{grid(head, lines, left=(1,))}"

    def _line(self, rows: int, name: str, outcome: Outcome) -> list[str]:
        if isinstance(outcome, str):
            return [f"{rows:,}", f"{name}: {outcome}", "", "", "", ""]
        cpu, wall, ratio = outcome.cpu_seconds, outcome.wall_seconds, self.ratio(rows, name)
        return [
            f"{rows:,}",
            name,
            _three_digits(cpu),
            _three_digits(cpu / rows * 1e6),
            f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}",
            _three_digits(wall),
        ]


@dataclass(frozen=True)
class Requirement:
    """A measured figure and the most it may be."""

    text: str
    figure: float
    limit: float
    unit: str = "x"
    note: str = ""

    def cells(self, *, judged: bool) -> list[str]:
        """Give one line of the table of requirements."""
        verdict = ("pass" if self.figure <= self.limit else "FAIL") if judged else "-"
        figure, limit = f"{self.figure:.3f}{self.unit}", f"{self.limit:g}{self.unit}"
        return [self.text, figure, limit, verdict, self.note]


def requirements(checks: list[Requirement], *, judged: bool) -> str:
    """Give the table of requirements, with verdicts if the sizes are those they speak of."""
    lines = [check.cells(judged=judged) for check in checks]
    return "### Requirements\n\n" + grid(
        ["requirement", "measured", "at most", "", "of it"], lines, left=(0, 3, 4)
    )


def grid(head: list[str], lines: list[list[str]], left: tuple[int, ...]) -> str:
    """Lay out a Markdown table that also reads well as it stands."""
    widths = [max(3, *(len(line[place]) for line in [head, *lines])) for place in range(len(head))]

    def row(cells: list[str]) -> str:
        padded = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if place in left else "-" * (width - 1) + ":"
        for place, width in enumerate(widths)
    ]
    return "\n".join([row(head), row(rule), *(row(line) for line in lines)])


def machine(*further: str) -> str:
    """Describe the machine and the versions, of further packages too; no hosts or folders."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("pandas", "pyarrow", "pydantic", *further)
    )
    return (
        f"{os.cpu_count()} cores, {round(pages / 2**30)} GiB, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def _three_digits(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
