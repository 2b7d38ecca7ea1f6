"""One run in a process of its own, to be cut off from outside.

    python durability_worker.py '<settings as one JSON object>'

How it ended is written as one JSON line to standard output. The frame, or what there is of it,
is pickled: the parent compares it as it is, and needs no evalframe for that.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import openai
from durability_ledger import Ledger, counted
from durability_rows import frame
from durability_settings import Ending, Settings
from durability_workload import careful, judge, task

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


def run(settings: Settings) -> Ending:
    """Run to the end, or to what ends it."""
    counted(Ledger(settings.ledger))
    client = openai.AsyncOpenAI(api_key="none", base_url=settings.url, max_retries=0)
    evaluators = [judge(settings.url), *([careful] if settings.raising else [])]
    given = frame(settings.rows)

    def work() -> pd.DataFrame:
        return ef.run_experiment(
            given,
            task(client),
            evaluators,
            concurrency=settings.concurrency,
            errors=settings.errors,
            run_dir=settings.run_dir,
            progress=False,
        )

    try:
        found = _limited(work, settings.file_limit)
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 - the parent judges it
        partial = getattr(exc, "partial", None)
        if partial is not None:
            partial.to_pickle(settings.frame)
        safe = {name or "": count for name, count in getattr(exc, "safe", {}).items()}
        return Ending(
            raised=type(exc).__name__, message=str(exc), partial=partial is not None, safe=safe
        )
    found.to_pickle(settings.frame)
    return Ending(safe={})


def _limited(work: Callable[[], pd.DataFrame], most: int | None) -> pd.DataFrame:
    """Work while no file may grow beyond a limit: what a full disk is where none can be made."""
    if most is None:
        return work()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        return work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


if __name__ == "__main__":
    # A shell that starts the benchmark in the background has all that it starts ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asdict(run(Settings(**asked)))), flush=True)
