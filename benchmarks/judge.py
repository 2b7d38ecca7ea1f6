"""What an LLM judge costs in evalframe, side by side with bare loops and with the peers.

    python benchmarks/judge.py [--no-peers] [--markdown] [--envs DIR]
    python benchmarks/judge.py --smoke

The model is a scripted server on loopback that answers after 100 ms. Progress goes to standard
error, tables to standard output. The exit code is non-zero only where a result is wrong; a
requirement that is missed is printed as FAIL.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_report import OURS, Faulty, Memory, requirements, table
from judge_server import Server
from judge_workload import LIMITS
from options import parser
from peers import JUDGE_PEERS, Peer
from processes import Worker, WorkerError, interleave, run_script
from report import Outcome, machine

HERE = Path(__file__).parent
START_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run."""

    rows: int = 1_000
    latency: float = 0.1
    rounds: int = 5
    retry_after: float = 1.0
    fault_rounds: int = 3
    memory_rows: int = 10_000
    memory_runs: int = 3
    peers: tuple[Peer, ...] = JUDGE_PEERS


SMOKE = Plan(
    rows=150, latency=0.02, rounds=2, retry_after=0.1, fault_rounds=1, memory_rows=500,
    memory_runs=1, peers=(),
)  # fmt: skip
MEMORY_LATENCY = 0.01


def main() -> int:
    """Measure and print; give 1 if a result is wrong."""
    options = parser(__doc__, without_peers="evalframe and bare loops only").parse_args()
    plan = SMOKE if options.smoke else Plan(peers=() if options.no_peers else JUDGE_PEERS)
    try:
        outcomes = _clean(plan, options.envs)
        faulty = _faulty(plan)
        memory = _memory(plan)
    except WorkerError as error:
        _say(f"\nThe last step went wrong, so there are no figures:\n{error}")
        return 1
    wrong = _wrong(plan, outcomes, faulty)
    for text in wrong:
        _say(text)
    if options.smoke:
        print("Smoke run: the figures mean nothing at this size.\n")
    if options.markdown:
        today = dt.datetime.now(tz=dt.UTC).date()
        print(f"{today}, {machine('openai', 'aiohttp')}; medians of {plan.rounds} rounds.\n")
    print(table(outcomes, plan.rows, plan.latency), "", sep="\n")
    if not wrong:
        print(requirements(outcomes, faulty, memory, plan, judged=not options.smoke))
    return 1 if wrong else 0


def _clean(plan: Plan, envs: Path) -> dict[str, Outcome]:
    """Time everyone against a server that answers every request."""
    outcomes: dict[str, Outcome] = dict.fromkeys([*LIMITS, OURS], "")
    failed = {peer.package: _install(peer, envs) for peer in plan.peers}
    with ExitStack() as stack:
        server = stack.enter_context(Server(plan.latency))
        workers = []
        for name in outcomes:
            command = ["judge_worker.py", "serve", name, server.url, str(plan.rows)]
            worker = _start(stack, name, [sys.executable, str(HERE / command[0]), *command[1:]])
            if worker.totals["verdicts"] != plan.rows:
                message = f"{name} gave {worker.totals['verdicts']:.0f} of {plan.rows} verdicts"
                raise WorkerError(message)
            workers.append(worker)
        for peer in plan.peers:
            command = peer.command(envs, server.url, plan.rows)
            started = failed[peer.package] or _started_peer(stack, peer, command, plan.rows)
            outcomes[peer.package] = started if isinstance(started, str) else ""
            if isinstance(started, Worker):
                workers.append(started)
        _say(f"timing {', '.join(worker.name for worker in workers)}")
        outcomes.update(interleave(workers, plan.rows, plan.rounds))
    return outcomes


def _start(stack: ExitStack, name: str, command: list[str]) -> Worker:
    _say(f"starting {name}")
    worker = stack.enter_context(Worker(name, command))
    worker.start(START_SECONDS)
    return worker


def _started_peer(stack: ExitStack, peer: Peer, command: list[str], rows: int) -> Worker | str:
    """Give the peer's worker, or why there is none."""
    try:
        worker = _start(stack, peer.package, command)
    except WorkerError as error:
        return f"failed: {error}"
    if worker.totals["verdicts"] != rows:
        return f"failed: {worker.totals['verdicts']:.0f} of {rows} verdicts"
    return worker


def _install(peer: Peer, envs: Path) -> str | None:
    _say(f"environment of {peer.requirement}")
    error = peer.install(envs)
    return error and f"not installed: {error}"


def _faulty(plan: Plan) -> list[Faulty]:
    """Time evalframe against a server with faults, each time beside one without."""
    rates = {"rate-429": 0.05, "rate-500": 0.02, "rate-malformed": 0.01}
    faults = {**rates, "retry-after": plan.retry_after}
    rounds = []
    with Server(plan.latency) as clean, Server(plan.latency, faults) as broken:
        for number in range(plan.fault_rounds):
            _say(f"with faults, round {number + 1}")
            without, run = (_once(server, plan.rows) for server in (clean, broken))
            rounds.append(
                Faulty(
                    rows=plan.rows,
                    retry_after=plan.retry_after,
                    valid=int(run["verdicts"]),
                    calls=run["server"]["requests"],
                    episodes=run["server"]["refusal_episodes"],
                    wall=run["wall"],
                    clean_wall=without["wall"],
                    errors=run["errors"],
                )
            )
    return rounds


def _once(server: Server, rows: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_script("judge_worker.py", "once", server.url, str(rows)))
    return found


def _memory(plan: Plan) -> list[Memory]:
    """Measure the peak of evalframe in fresh processes."""
    with Server(MEMORY_LATENCY) as server:
        runs = []
        for number in range(plan.memory_runs):
            _say(f"peak memory at {plan.memory_rows:,} rows, run {number + 1}")
            found = run_script("judge_worker.py", "memory", server.url, str(plan.memory_rows))
            runs.append(Memory(**json.loads(found)))
    return runs


def _wrong(plan: Plan, outcomes: dict[str, Outcome], faulty: list[Faulty]) -> list[str]:
    """Say what is wrong with our own results; a slow one is not wrong."""
    ours = {name: outcomes[name] for name in (*LIMITS, OURS)}
    wrong = [f"{name} {outcome}" for name, outcome in ours.items() if isinstance(outcome, str)]
    return wrong + [
        f"with faults: {run.valid} of {plan.rows} rows are valid; {run.errors}"
        for run in faulty
        if run.valid != plan.rows
    ]


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
