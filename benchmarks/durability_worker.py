"""One run in a process of its own, to be cut off from outside.

    python durability_worker.py '<settings as one JSON object>'

How it ended is written as one JSON line to standard output. The frame, or what there is of it,
goes to a parquet file.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import openai
from durability_workload import EVALUATORS, careful, frame, judge, task

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        rows: How many.
        url: The server's.
        concurrency: Most calls at once.
        run_dir: Folder of the run; None for none.
        frame: The parquet file that the frame goes to.
        errors: As `run_experiment` takes it.
        raising: Whether the evaluator that raises on 1 % of the rows takes part.
        file_limit: No file may grow beyond so many bytes; None for no limit.
    """

    rows: int
    url: str
    concurrency: int
    run_dir: str | None
    frame: str
    errors: str = "record"
    raising: bool = False
    file_limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended.

    Attributes:
        raised: Name of the exception's type; None if it came to its end.
        message: What the exception said.
        partial: Whether there is a frame of what was done.
        safe: Of a JournalError: cells that are on disk, by evaluator; the task is "".
    """

    raised: str | None = None
    message: str = ""
    partial: bool = False
    safe: dict[str, int]


def run(settings: Settings) -> Ending:
    """Run to the end, or to what ends it."""
    client = openai.AsyncOpenAI(api_key="none", base_url=settings.url, max_retries=0)
    evaluators = dict(zip(EVALUATORS, (judge(settings.url), careful), strict=True))
    if not settings.raising:
        del evaluators["careful"]
    given = frame(settings.rows)

    def work() -> pd.DataFrame:
        return ef.run_experiment(
            given,
            task(client),
            [*evaluators.values()],
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
            partial.evals.to_parquet(settings.frame)
        safe = {name or "": count for name, count in getattr(exc, "safe", {}).items()}
        return Ending(
            raised=type(exc).__name__, message=str(exc), partial=partial is not None, safe=safe
        )
    found.evals.to_parquet(settings.frame)
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
    asked: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asdict(run(Settings(**asked)))), flush=True)
