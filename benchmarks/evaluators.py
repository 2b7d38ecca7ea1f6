"""What each built-in code evaluator costs, side by side with a loop over what it stands on.

    python benchmarks/evaluators.py [--only NAME ...] [--rows N] [--markdown]
    python benchmarks/evaluators.py --smoke

Progress goes to standard error, the table to standard output. The exit code is non-zero only
where a score differs from the loop's; a requirement that is missed is printed as FAIL.
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


def main() -> int:
    """Measure and print; give 1 if a score is wrong."""
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
            lines.append(_line(name, plan, judged=not options.smoke))
        except WorkerError as error:
            _say(f"\n{name} went wrong, so there are no figures:\n{error}")
            return 1
    if options.smoke:
        print("Smoke run: the results are right; the figures mean nothing at this size.\n")
    if options.markdown:
        today = dt.datetime.now(tz=dt.UTC).date()
        versions = machine("rapidfuzz", "sacrebleu", "rouge-score")
        print(f"{today}, {versions}; {plan.rows:,} rows, medians of {plan.rounds} rounds.\n")
    head = ["evaluator", "against", "rows/s", "its rows/s", "CPU x it", "at most", ""]
    print(grid(head, lines, left=(0, 1, 6)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="few rows, in seconds")
    parser.add_argument("--markdown", action="store_true", help="with date and machine on top")
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=list(PAIRS), metavar="NAME", help="just these")
    return parser


def _line(name: str, plan: Plan, *, judged: bool) -> list[str]:
    """Time an evaluator beside its yardstick.

    Raises:
        WorkerError: One of them failed, or they add up to different scores.
    """
    _say(f"timing {name} at {plan.rows:,} rows")
    with ExitStack() as stack:
        workers = [_worker(stack, name, plan.rows, who) for who in ("loop", "ours")]
        outcomes = interleave(workers, plan.rows, plan.rounds)
    loop, ours = outcomes["loop"], outcomes["ours"]
    if not isinstance(loop, Figures) or not isinstance(ours, Figures):
        raise WorkerError(next(o for o in (loop, ours) if isinstance(o, str)))
    ratio = ours.ratio(loop)
    verdict = ("pass" if ratio <= LIMIT else "FAIL") if judged else "-"
    speeds = [f"{plan.rows / who.cpu_seconds:,.0f}" for who in (ours, loop)]
    against = "pyarrow.compute" if PAIRS[name].kernel else "a loop"
    return [name, against, *speeds, f"{ratio:.2f}", f"{LIMIT:g}", verdict]


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
