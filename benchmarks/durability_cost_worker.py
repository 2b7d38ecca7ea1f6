"""A kind of run with or without a run_dir, in a process of its own.

    python durability_cost_worker.py time KIND with|without URL ROWS CONCURRENCY    see serving.py
    python durability_cost_worker.py verify URL ROWS CONCURRENCY

`verify` compares the frames of every kind with, without, and once more with the same run_dir:
whole frames, but for the fingerprints, which only a run with a run_dir has.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import pandas as pd
from durability_kinds import CODE, JUDGE, TASK_AND_JUDGE
from durability_rows import frame
from durability_workload import judge, task
from serving import serve
from workload import columns, exact, mentioned_year, token_f1

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[str | None], pd.DataFrame]

_CHEAP = [ef.evaluator(function) for function in (exact, token_f1, mentioned_year)]


def run_of(kind: str, url: str, rows: int, concurrency: int) -> Run:
    """Give a kind of run; it takes its run_dir."""
    given = frame(rows)
    what: dict[str, Any]
    if kind == CODE.name:
        texts = pd.DataFrame(columns(rows))
        roles = {"output": "answer", "dataset_output": "truth"}
        what = {"dataset": texts, "evaluators": _CHEAP, **roles}
    elif kind == JUDGE.name:
        made = given.assign(output=[f"It is number {row}." for row in range(rows)])
        what = {"dataset": made, "evaluators": [judge(url)]}
    else:
        assert kind == TASK_AND_JUDGE.name
        client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        what = {"dataset": given, "task": task(client), "evaluators": [judge(url)]}
    run = partial(ef.run_experiment, concurrency=concurrency, progress=False, **what)
    return lambda run_dir: run(run_dir=run_dir)


def time(kind: str, journal: str, url: str, rows: int, concurrency: int) -> None:
    """Answer the parent; every run has a run_dir of its own, below the current folder."""
    run = run_of(kind, url, rows, concurrency)
    folders = (f"run-{number}" for number in itertools.count())
    serve(
        lambda: run(next(folders) if journal == "with" else None),
        lambda result: {"rows": float(len(result))},
    )


def verify(url: str, rows: int, concurrency: int) -> None:
    """Compare the frames of every kind.

    Raises:
        AssertionError: They differ; pandas says where.
    """
    for number, kind in enumerate((JUDGE, TASK_AND_JUDGE, CODE)):
        run = run_of(kind.name, url, rows, concurrency)
        bare = run(None)
        for again in (run(f"verify-{number}"), run(f"verify-{number}")):
            results = again.drop(columns=again.filter(regex=r"^eval\..*\.fingerprint$").columns)
            pd.testing.assert_frame_equal(results, bare, check_exact=True)


if __name__ == "__main__":
    job, *arguments, rows_given, most = sys.argv[1:]
    if job == "time":
        kind_given, with_or_without, address = arguments
        time(kind_given, with_or_without, address, int(rows_given), int(most))
    else:
        verify(arguments[0], int(rows_given), int(most))
