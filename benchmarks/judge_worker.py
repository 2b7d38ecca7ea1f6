"""Judges of our own in a process of their own.

    python judge_worker.py serve CONTENDER URL ROWS    timed when asked, see serving.py
    python judge_worker.py once URL ROWS               evalframe, timed once; how many are valid
    python judge_worker.py memory URL ROWS             evalframe, peak memory of one run

A first run over a few rows is behind each measurement: importing the openai client takes the
better part of a second, once per process.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from functools import partial
from typing import Any

import pandas as pd
from judge_limits import LOOPS
from judge_workload import CHOICES, CONCURRENCY, TEMPLATE, labels, prompts, table
from memory import Peak
from serving import Timer, serve

import evalframe as ef

_WARM_ROWS = CONCURRENCY


def judged(frame: pd.DataFrame, url: str) -> pd.DataFrame:
    """Judge a frame with evalframe."""
    judge = ef.LLMJudge(
        "same",
        model=ef.Model("local/judge", base_url=url),
        prompt=TEMPLATE,
        choices=CHOICES,
    )
    return ef.run_experiment(frame, evaluators=[judge], concurrency=CONCURRENCY, progress=False)


def verdicts_of(result: pd.DataFrame) -> list[dict[str, str]]:
    """Give the verdicts as the limits do; {} for a cell that is not valid as a whole."""
    cells = zip(
        result["eval.same.label"],
        result["eval.same.score"],
        result["eval.same.explanation"],
        result["eval.same.error"].isna(),
        strict=True,
    )
    return [
        {"explanation": explanation, "label": label} if valid and score == CHOICES[label] else {}
        for label, score, explanation, valid in cells
    ]


def right(verdicts: list[dict[str, str]], wanted: list[str]) -> dict[str, float]:
    """Count the rows that have the verdict the server gave."""
    assert len(verdicts) == len(wanted)
    pairs = zip(verdicts, wanted, strict=True)
    found = [bool(v.get("explanation")) and v["label"] == label for v, label in pairs]
    return {"verdicts": float(sum(found))}


def serve_contender(name: str, url: str, rows: int) -> None:
    """Answer the parent."""
    given = table(rows)
    wanted = labels(prompts(given))
    if name in LOOPS:
        serve(partial(LOOPS[name], given, url), partial(right, wanted=wanted))
        return
    frame = pd.DataFrame(given)
    serve(partial(judged, frame, url), lambda result: right(verdicts_of(result), wanted))


def once(url: str, rows: int) -> dict[str, Any]:
    """Time one run, with the server's counts of it."""
    given = table(rows)
    frame = pd.DataFrame(given)
    judged(frame.head(1), url)
    _post_stats(url)
    kept: list[pd.DataFrame] = []
    seconds = Timer(lambda: kept.append(judged(frame, url))).once()
    found = right(verdicts_of(kept[0]), labels(prompts(given)))
    errors = kept[0]["eval.same.error"].dropna().unique().tolist()
    return {**seconds, **found, "errors": errors[:3], "server": _post_stats(url)}


def memory(url: str, rows: int) -> dict[str, Any]:
    """Give the peak of one run above the moment before it, and the bytes of its frame."""
    frame = pd.DataFrame(table(rows))
    judged(frame.head(_WARM_ROWS), url)
    peak = Peak()
    started = time.perf_counter()
    result = judged(frame, url)
    grown, wall = peak.bytes(), time.perf_counter() - started
    sizes = result.memory_usage(index=True, deep=True)
    added = int(sum(size for name, size in sizes.items() if str(name).startswith("eval.")))
    assert result["eval.same.error"].isna().all()
    return {"peak": grown, "held": int(sizes.sum()), "added": added, "wall": wall}


def _post_stats(url: str) -> dict[str, Any]:
    """Read the server's counts, and reset them."""
    request = urllib.request.Request(  # noqa: S310 - the benchmark's own server
        url.removesuffix("/v1") + "/stats", method="POST"
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310
        counts: dict[str, Any] = json.load(response)
    return counts


if __name__ == "__main__":
    mode, *arguments, count = sys.argv[1:]
    if mode == "serve":
        serve_contender(*arguments, rows=int(count))
    else:
        job = {"once": once, "memory": memory}[mode]
        print(json.dumps(job(*arguments, int(count))))
