"""A kind of run that keeps nothing, the replies of models, or all results, in its own process.

    python durability_cost_worker.py time KIND HOW URL ROWS CONCURRENCY    see serving.py
    python durability_cost_worker.py verify URL ROWS CONCURRENCY

HOW is one of WAYS in durability_kinds.py. `verify` compares the frames of every kind that keeps
nothing with those of a new run_dir and of the same once more: whole frames, but for the
fingerprints, which only a run with a run_dir has.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import pandas as pd
from durability_kinds import CODE, JUDGE, NOTHING, REPLIES, RESULTS, TASK_AND_JUDGE
from durability_rows import frame
from durability_workload import judge, task
from serving import serve
from workload import columns, exact, mentioned_year, token_f1

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pd.DataFrame]

_CHEAP = [ef.evaluator(function) for function in (exact, token_f1, mentioned_year)]


def run_of(kind: str, url: str, rows: int, concurrency: int) -> Run:
    """Give a kind of run; it takes what it is to keep, and where."""
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
    return partial(ef.run_experiment, concurrency=concurrency, progress=False, **what)


def time(kind: str, way: str, url: str, rows: int, concurrency: int) -> None:
    """Answer the parent; every run keeps what it keeps in a new place, below this folder."""
    run = run_of(kind, url, rows, concurrency)
    option = {NOTHING: None, REPLIES: "cache", RESULTS: "run_dir"}[way]
    places = (f"run-{number}" for number in itertools.count())
    serve(
        lambda: run(**({option: next(places)} if option else {})),
        lambda result: {"rows": float(len(result))},
    )


def verify(url: str, rows: int, concurrency: int) -> None:
    """Compare the frames of every kind.

    Raises:
        AssertionError: They differ; pandas says where.
    """
    for number, kind in enumerate((JUDGE, TASK_AND_JUDGE, CODE)):
        run = run_of(kind.name, url, rows, concurrency)
        bare = run()
        for _ in ("made", "taken over"):
            again = run(run_dir=f"verify-{number}")
            results = again.drop(columns=again.filter(regex=r"^eval\..*\.fingerprint$").columns)
            pd.testing.assert_frame_equal(results, bare, check_exact=True)


if __name__ == "__main__":
    job, *arguments, rows_given, most = sys.argv[1:]
    if job == "time":
        kind_given, way_given, address = arguments
        time(kind_given, way_given, address, int(rows_given), int(most))
    else:
        verify(arguments[0], int(rows_given), int(most))
