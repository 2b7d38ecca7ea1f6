"""What each built-in code evaluator costs, side by side with a loop over what it stands on.

    python benchmarks/evaluators.py [--only NAME ...] [--rows N] [--markdown]
    python benchmarks/evaluators.py --smoke

A kernel takes no longer for 100,000 rows than a run for its plan and its notes: it is measured at
ten times as many rows too, and judged by these.

Progress goes to standard error, the table to standard output. The exit code is non-zero only
where a column differs from the yardstick's; a requirement that is missed is printed as FAIL.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from evaluators_workload import PAIRS
from processes import Figures, Worker, WorkerError, interleave, run_script
from report import grid, machine

HERE = Path(__file__).parent
LIMIT = 1.3
VERIFIED_ROWS = 2_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run: rows, how often, and which evaluators."""

    rows: int
    rounds: int
    names: tuple[str, ...]

    def sizes(self, name: str) -> tuple[int, ...]:
        """The rows at which one is measured; the last are those by which it is judged."""
        return (self.rows, 10 * self.rows) if PAIRS[name].kernel else (self.rows,)


def main() -> int:
    """Measure and print; give 1 if a column is wrong."""
    options = _parser().parse_args()
    names = tuple(options.only or PAIRS)
    plan = Plan(rows=options.rows, rounds=options.rounds, names=names)
    if options.smoke:
        plan = Plan(rows=300, rounds=1, names=names)
    lines = []
    for name in plan.names:
        try:
            _say(f"verifying {name}")
            run_script("evaluators_worker.py", "verify", name, str(min(plan.rows, VERIFIED_ROWS)))
            lines += _lines(name, plan, judged=not options.smoke)
        except WorkerError as error:
            _say(f"\n{name} went wrong, so there are no figures:\n{error}")
            return 1
    if options.smoke:
        print("Smoke run: the results are right; the figures mean nothing at this size.\n")
    if options.markdown:
        today = dt.datetime.now(tz=dt.UTC).date()
        versions = machine("rapidfuzz", "sacrebleu", "rouge-score")
        print(f"{today}, {versions}; medians of {plan.rounds} rounds.\n")
    head = ["evaluator", "against", "rows", "rows/s", "its rows/s", "CPU x it", "at most", ""]
    print(grid(head, lines, left=(0, 1, 7)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="few rows, in seconds")
    parser.add_argument("--markdown", action="store_true", help="with date and machine on top")
    parser.add_argument(
        "--rows",
        type=int,
        default=100_000,
        help="default: %(default)s; for kernels ten times as many, too",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=list(PAIRS), metavar="NAME", help="just these")
    return parser


def _lines(name: str, plan: Plan, *, judged: bool) -> list[list[str]]:
    """Time an evaluator beside its yardstick: a line of the table for each size.

    Raises:
        WorkerError: One of them failed.
    """
    sizes, lines = plan.sizes(name), []
    for rows in sizes:
        _say(f"timing {name} at {rows:,} rows")
        loop, ours = _timed(name, rows, plan.rounds)
        ratio = ours.ratio(loop)
        verdict = [f"{LIMIT:g}", ("pass" if ratio <= LIMIT else "FAIL") if judged else "-"]
        speeds = [f"{rows / who.cpu_seconds:,.0f}" for who in (ours, loop)]
        against = "pyarrow.compute" if PAIRS[name].kernel else "a loop"
        last = verdict if rows == sizes[-1] else ["", ""]
        lines.append([name, against, f"{rows:,}", *speeds, f"{ratio:.2f}", *last])
    return lines


def _timed(name: str, rows: int, rounds: int) -> tuple[Figures, Figures]:
    with ExitStack() as stack:
        workers = [_worker(stack, name, rows, who) for who in ("loop", "ours")]
        outcomes = interleave(workers, rows, rounds)
    loop, ours = outcomes["loop"], outcomes["ours"]
    if not isinstance(loop, Figures) or not isinstance(ours, Figures):
        raise WorkerError(next(o for o in (loop, ours) if isinstance(o, str)))
    return loop, ours


def _worker(stack: ExitStack, name: str, rows: int, who: str) -> Worker:
    script = str(HERE / "evaluators_worker.py")
    command = [sys.executable, script, "time", name, str(rows), who]
    worker = stack.enter_context(Worker(who, command))
    worker.start()
    return worker


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
