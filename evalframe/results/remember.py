"""What a run leaves in the attrs of its frame."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.run_info import KEY, EvaluatorInfo, RunInfo, remembered
from evalframe.core.unmade import unmade_cells

_PACKAGES = ("evalframe", "pandas", "pyarrow")
_RULES = ("threshold", "direction", "score_range")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what makes the numbers; empty where a package is not installed as one."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def counts(frame: pd.DataFrame, evaluator: str) -> dict[str, int]:
    """Cells by what became of them: valid, failed, task_failed, skipped."""
    errors = frame[schema.column(evaluator, schema.ERROR)]
    array = pa.array(errors.array, from_pandas=True)
    # Most runs have no error, and to leave the nulls out of a long column takes its time.
    texts = array.drop_null().to_pylist() if array.null_count < len(array) else []
    kinds = Counter(map(schema.error_kind, texts))
    left_out = {kind: kinds.pop(kind, 0) for kind in (schema.TASK_FAILED, schema.SKIPPED)}
    failed = sum(kinds.values())
    left_out[schema.SKIPPED] += int(unmade_cells(frame, evaluator).sum())
    valid = len(errors) - failed - sum(left_out.values())
    return {"valid": valid, "failed": failed, **left_out}


def _still_there(frame: pd.DataFrame, traces: dict[str, str]) -> dict[str, str]:
    """The tracebacks of errors that stand in the frame; those of replaced results go."""
    if not traces:
        return {}
    names = [schema.column(name, schema.ERROR) for name in schema.evaluators_in(frame.columns)]
    names += [schema.TASK_ERROR] if schema.TASK_ERROR in frame.columns else []
    texts = set().union(*(frame[name].dropna().unique() for name in names))
    return {error: trace for error, trace in traces.items() if error in texts}


def total_usage(
    before: Mapping[str, Mapping[str, Any]],
    now: Mapping[str, Mapping[str, Any]],
    continued: Collection[str],
) -> dict[str, dict[str, Any]]:
    """What results have cost: evaluator that asks a model, or "<task>" -> facts.

    Args:
        before: In earlier runs.
        now: In this one.
        continued: Whose of the earlier runs count on.
    """
    spent = {who: dict(facts) for who, facts in before.items()}
    for who, facts in now.items():
        adds = who in continued and who in spent
        spent[who] = _sum(spent[who], facts) if adds else dict(facts)
    return spent


def _sum(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What both runs have cost; a cost that is not known of one is not known of both."""
    total: dict[str, Any] = {}
    for name, value in now.items():
        there = before.get(name)
        if isinstance(value, list):
            total[name] = sorted({*(there or ()), *value})
        else:
            total[name] = None if value is None or there is None else there + value
    return total


def remember(
    frame: pd.DataFrame,
    run: RunInfo,
    evaluators: Mapping[str, EvaluatorInfo],
    before: Mapping[Any, Any],
    *,
    continued: Collection[str] = (),
    untouched: Collection[str] = (),
) -> None:
    """Write the newest run into the attrs of its own frame, next to what earlier ones left.

    Args:
        frame: The run's frame; its attrs are set.
        run: The facts of the newest run.
        evaluators: Its evaluators, without counts.
        before: The attrs of the frame that went in.
        continued: Who added to results of earlier runs, whose usage counts on.
        untouched: Evaluators whose results all stayed as they were.
    """
    old = remembered(before)
    there = schema.evaluators_in(frame.columns)
    known = {name: info for name, info in old.evaluators.items() if name in there}
    for name, info in evaluators.items():
        made = counts(frame, name)
        if name in untouched and name in known:
            # What its results were made by stays; how they are to be read is what it says now.
            rules = {key: getattr(info, key) for key in _RULES}
            known[name] = replace(known[name], counts=made, **rules)
        else:
            known[name] = replace(info, counts=made, started=run.started, finished=run.finished)
    traces = _still_there(frame, {**old.tracebacks, **run.tracebacks})
    # What is no evaluator's is the task's: it stays for as long as its outputs do.
    of_task = old.usage.keys() - old.evaluators.keys() if run.task is None else ()
    kept = {*known, *of_task, *continued}
    earlier = {who: facts for who, facts in old.usage.items() if who in kept}
    total = total_usage(earlier, run.usage, continued)
    # The task first, then evaluators as they stand in the frame.
    order = [who for who in total if who not in there]
    spent = {who: total[who] for who in (*order, *(name for name in there if name in total))}
    whole = replace(run, evaluators=known, tracebacks=traces, usage=spent)
    if run.task is None:
        whole = replace(whole, task=old.task, task_version=old.task_version)
    frame.attrs = {**before, KEY: whole.to_json()}
