"""What is left of a run that is cut off, and what being able to resume costs.

    python benchmarks/durability.py [--seed N] [--only cases|cost] [--markdown]
    python benchmarks/durability.py --smoke

A task and a judge pay a scripted server on loopback. Runs are killed (kill -9), interrupted
(Ctrl-C), stopped by an exception and by a full disk, and resumed; each final frame is compared
with that of an undisturbed run, and the server's own counts with what was in flight. Progress
goes to standard error, tables to standard output. The exit code is non-zero where a promise is
broken or the journal costs more than it may. Linux only.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import durability_cost as cost
import report
from durability_cases import Cases, say
from judge_server import Server
from processes import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from durability_case import Case


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run."""

    rows: int = 2_000
    latency: float = 0.04
    concurrency: int = 16
    kills: int = 10
    raising_kills: int = 2
    chain: int = 4
    interrupts: int = 2
    rounds: int = 3


SMOKE = Plan(
    rows=100, latency=0.02, concurrency=8, kills=0, raising_kills=0, chain=2, interrupts=1, rounds=0
)


def main() -> int:
    """Run everything and print; give 1 if a promise is broken."""
    options = _options()
    plan = SMOKE if options.smoke else Plan()
    if options.markdown:
        today = dt.datetime.now(tz=dt.UTC).date()
        print(f"{today}, {report.machine('openai')}; medians of {plan.rounds} rounds.\n")
    try:
        with Server(plan.latency) as server, tempfile.TemporaryDirectory() as folder:
            cases, costs = [], []
            if options.only != "cost":
                cases = list(_cases(plan, Path(folder), server.url, options.seed))
                print(f"Seeds from {options.seed}.\n", _table(cases, plan), sep="\n", flush=True)
            if options.only != "cases":
                costs = _costs(plan, server.url)
    except (WorkerError, TimeoutError) as error:
        say(f"\nThe last step went wrong:\n{error}")
        return 1
    bounds = cost.bounds(costs)
    if costs:
        print("", cost.table(costs), "", report.requirements(bounds, judged=True), sep="\n")
    broken = [text for case in cases for text in case.wrong()]
    for text in broken:
        say(f"BROKEN {text}")
    return 1 if broken or any(bound.figure > bound.limit for bound in bounds) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="few rows and cases, no timing")
    parser.add_argument("--only", choices=("cases", "cost"), help="one of the two halves")
    parser.add_argument("--markdown", action="store_true", help="with date and machine on top")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    return parser.parse_args()


def _cases(plan: Plan, folder: Path, url: str, seed: int) -> Iterator[Case]:
    cases = Cases(folder, url, rows=plan.rows, concurrency=plan.concurrency, latency=plan.latency)
    # Seeds are apart by more than the kills of a chain.
    seeds = iter(range(seed, sys.maxsize, 10))
    for _ in range(plan.kills):
        yield _told(cases.killed(next(seeds)))
    for _ in range(plan.raising_kills):
        yield _told(cases.killed(next(seeds), raising=True))
    yield _told(cases.killed(next(seeds), times=plan.chain, raising=True))
    for _ in range(plan.interrupts):
        yield _told(cases.interrupted(next(seeds)))
    yield _told(cases.raised())
    yield _told(cases.filled())


def _told(case: Case) -> Case:
    say(f"{case.stopped.name}: {case.extra} calls twice, {case.stopped.allowed} may be")
    return case


def _costs(plan: Plan, url: str) -> list[cost.Cost]:
    cost.verified(url, SMOKE.rows, plan.concurrency)
    return cost.measured(url, plan.rows, plan.concurrency, plan.rounds) if plan.rounds else []


def _table(cases: list[Case], plan: Plan) -> str:
    head = [
        "what happened", "seed", "at", "unanswered", "on the wire", "open", "calls twice",
        "at most", "when resumed", "at most", "",
    ]  # fmt: skip
    title = (
        f"### {plan.rows:,} rows, a call each for task and judge, {plan.latency * 1e3:g} ms a "
        f"call, {plan.concurrency} at once"
    )
    return f"{title}\n\n{report.grid(head, [case.cells() for case in cases], left=(0, 2, 10))}"


if __name__ == "__main__":
    sys.exit(main())
