"""The scripted server as a process of its own, for benchmarks: `python -m evalframe.testing`.

It writes its address, one line, as soon as it listens, and runs until SIGTERM or SIGINT. Its
counts are under the address /stats: GET reads them, POST reads and resets them.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Sequence

from evalframe.testing.faults import Faults
from evalframe.testing.server import ChatServer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server until the process is told to end."""
    given = _parser().parse_args(arguments)
    script = Faults(
        rate_429=given.rate_429,
        retry_after=given.retry_after,
        rate_500=given.rate_500,
        rate_malformed=given.rate_malformed,
        seed=given.seed,
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with ChatServer(script, port=given.port, latency=given.latency, record=False) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        ended.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evalframe.testing",
        description="A chat completions server on 127.0.0.1 that answers every request with an "
        "object that fits its schema. GET /stats gives its counts, POST /stats resets them.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 for any free one (default)")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before every reply")
    parser.add_argument("--rate-429", type=float, default=0.0, help="share of refused requests")
    parser.add_argument("--retry-after", type=float, default=1.0, help="seconds in a refusal")
    parser.add_argument("--rate-500", type=float, default=0.0, help="share of server errors")
    parser.add_argument("--rate-malformed", type=float, default=0.0, help="share of non-JSON")
    parser.add_argument("--seed", type=int, default=0, help="which requests fail")
    return parser


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
