"""What code evaluators cost in evalframe, side by side with plain code and with the peers.

    python benchmarks/code_evaluators.py [--no-peers] [--markdown] [--envs DIR]
    python benchmarks/code_evaluators.py --smoke

Progress goes to standard error, tables to standard output. The exit code is non-zero only where
a result is wrong; a requirement that is missed is printed as FAIL.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import import_time
from options import parser as common_parser
from peers import PEERS, Peer
from processes import Figures, Worker, WorkerError, interleave, run_script
from report import Outcome, Requirement, Table, machine, requirements
from workload import expected_totals

ROW_CONTENDERS = ("plain loop", "evalframe row by row")
VECTOR_CONTENDERS = ("hand-written pyarrow", "evalframe vectorized")
HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run: sizes in rows, and how often."""

    row_sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    vector_sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    rounds: int = 5
    memory_runs: int = 3
    import_rounds: int = import_time.ROUNDS
    peers: tuple[Peer, ...] = PEERS
    envs: Path
    peer_limit: float
    """Wall seconds that one run of a peer may take."""


def main() -> int:
    """Measure and print; give 1 if a result is wrong."""
    options = _parser().parse_args()
    plan = Plan(envs=options.envs, peer_limit=options.peer_limit)
    if options.smoke:
        plan = Plan(
            row_sizes=(300,), vector_sizes=(300,), rounds=2, memory_runs=1, import_rounds=1,
            peers=(), envs=options.envs, peer_limit=options.peer_limit,
        )  # fmt: skip
    elif options.no_peers:
        plan = Plan(peers=(), envs=options.envs, peer_limit=options.peer_limit)
    with tempfile.TemporaryDirectory(prefix="evalframe-benchmark-") as folder:
        try:
            inputs = _verified_inputs(plan, Path(folder))
        except WorkerError as error:
            _say(f"\nThe last step went wrong, so there are no figures:\n{error}")
            return 1
        rows, vectors = _row_by_row(plan, inputs), _vectorized(plan, inputs)
        checks = _requirements(plan, inputs, rows, vectors)
    if options.smoke:
        print("Smoke run: the results are right; the figures mean nothing at this size.\n")
    if options.markdown:
        today = dt.datetime.now(tz=dt.UTC).date()
        print(f"{today}, {machine()}; medians of {plan.rounds} rounds.\n")
    print(rows, vectors, requirements(checks, judged=not options.smoke), sep="\n\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = common_parser(__doc__, without_peers="evalframe and plain code only")
    parser.add_argument(
        "--peer-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="longest single run of a peer (default: %(default)s)",
    )
    return parser


def _verified_inputs(plan: Plan, folder: Path) -> dict[int, Path]:
    """Write the input of every size and compare every contender with the plain loop on it."""
    inputs = {}
    for rows in sorted({*plan.row_sizes, *plan.vector_sizes}):
        inputs[rows] = folder / f"{rows}.arrow"
        run_script("own_worker.py", "write", str(rows), str(inputs[rows]))
        for name in (
            *(ROW_CONTENDERS if rows in plan.row_sizes else ()),
            *(VECTOR_CONTENDERS if rows in plan.vector_sizes else ()),
        ):
            _say(f"verifying {name} at {rows:,} rows")
            run_script("own_worker.py", "verify", name, str(inputs[rows]))
    return inputs


def _row_by_row(plan: Plan, inputs: dict[int, Path]) -> Table:
    table = Table("Row by row: exact match, token F1, regular expression", ROW_CONTENDERS[0])
    failed = {peer.package: _install(peer, plan.envs) for peer in plan.peers}
    for rows in plan.row_sizes:
        outcomes: dict[str, Outcome] = dict.fromkeys(ROW_CONTENDERS, "")
        with ExitStack() as stack:
            workers = [_own(stack, name, inputs[rows]) for name in ROW_CONTENDERS]
            for peer in plan.peers:
                reason = failed[peer.package] or _too_long(table, peer.package, rows, plan)
                started = reason or _start_peer(stack, peer, rows, plan)
                if isinstance(started, str):
                    outcomes[peer.package] = started
                else:
                    outcomes[peer.package] = ""
                    workers.append(started)
            _say(f"timing {', '.join(worker.name for worker in workers)} at {rows:,} rows")
            outcomes.update(interleave(workers, rows, plan.rounds))
        table.outcomes[rows] = outcomes
    return table


def _vectorized(plan: Plan, inputs: dict[int, Path]) -> Table:
    table = Table("Vectorized: exact match, regular expression, length", VECTOR_CONTENDERS[0])
    for rows in plan.vector_sizes:
        with ExitStack() as stack:
            workers = [_own(stack, name, inputs[rows]) for name in VECTOR_CONTENDERS]
            _say(f"timing {', '.join(worker.name for worker in workers)} at {rows:,} rows")
            table.outcomes[rows] = dict(interleave(workers, rows, plan.rounds))
    return table


def _own(stack: ExitStack, name: str, path: Path) -> Worker:
    command = [sys.executable, str(HERE / "own_worker.py"), "time", name, str(path)]
    worker = stack.enter_context(Worker(name, command))
    worker.start()
    return worker


def _install(peer: Peer, envs: Path) -> str | None:
    _say(f"environment of {peer.requirement}")
    error = peer.install(envs)
    return error and f"not installed: {error}"


def _too_long(table: Table, package: str, rows: int, plan: Plan) -> str | None:
    """Say so where the size before this one lets us expect more than the limit."""
    if not table.outcomes:
        return None
    for before, outcomes in reversed(table.outcomes.items()):
        measured = outcomes[package]
        if isinstance(measured, Figures):
            expected = measured.wall_seconds / before * rows
            too_long = expected > plan.peer_limit
            return f"skipped (would take ~{expected:.0f} s)" if too_long else None
    return "skipped (no figure at a smaller size)"


def _start_peer(stack: ExitStack, peer: Peer, rows: int, plan: Plan) -> Worker | str:
    _say(f"starting {peer.requirement} at {rows:,} rows")
    worker = stack.enter_context(Worker(peer.package, peer.command(plan.envs, rows)))
    try:
        # Importing, building the input and two runs.
        worker.start(60 + 3 * plan.peer_limit)
    except WorkerError as error:
        return f"failed: {error}"
    for name, total in expected_totals(rows).items():
        if not math.isclose(worker.totals[name], total, rel_tol=1e-9):
            return f"failed: its {name} adds up to {worker.totals[name]}, not {total}"
    return worker


def _requirements(
    plan: Plan, inputs: dict[int, Path], rows: Table, vectors: Table
) -> list[Requirement]:
    row_size, vector_size = plan.row_sizes[-1], plan.vector_sizes[-1]
    _say("import time")
    imported = import_time.measure(plan.import_rounds)
    return [
        Requirement(
            f"row by row at {row_size:,} rows: CPU x plain loop",
            rows.ratio(row_size, ROW_CONTENDERS[1]),
            limit=1.5,
            note="aim: 1.2x",
        ),
        _memory_requirement(plan, inputs),
        Requirement(
            f"vectorized at {vector_size:,} rows: CPU x hand-written pyarrow",
            vectors.ratio(vector_size, VECTOR_CONTENDERS[1]),
            limit=1.3,
        ),
        Requirement(
            "import evalframe: CPU above pandas, pyarrow and pydantic",
            imported.above,
            limit=import_time.LIMIT_SECONDS,
            unit=" s",
            note=f"above {imported.base:.2f} s",
        ),
    ]


def _memory_requirement(plan: Plan, inputs: dict[int, Path]) -> Requirement:
    fewest, most = plan.row_sizes[0], plan.row_sizes[-1]
    loop, ours = (_memory(plan, name, inputs[most]) for name in ROW_CONTENDERS)
    start = _memory(plan, ROW_CONTENDERS[1], inputs[fewest])
    return Requirement(
        f"row by row at {most:,} rows: peak memory x (input + results)",
        ours["ratio"],
        limit=1.5,
        note=f"{ours['peak']:.1f} MB for {ours['held']:.1f} MB; {start['peak']:.1f} MB at "
        f"{fewest:,} rows; plain loop {loop['ratio']:.2f}x",
    )


def _memory(plan: Plan, name: str, path: Path) -> dict[str, float]:
    """Give the median over fresh processes: the ratio, and its parts in MB."""
    _say(f"peak memory of {name}")
    runs = [
        json.loads(run_script("own_worker.py", "memory", name, str(path)))
        for _ in range(plan.memory_runs)
    ]
    peak, held = median(run["peak"] for run in runs), runs[0]["held"]
    return {"ratio": peak / held, "peak": peak / 1e6, "held": held / 1e6}


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
