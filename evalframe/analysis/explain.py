"""Where the results of an evaluator come from: what made them, when, and at what cost."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalframe.analysis.scores import check_name
from evalframe.analysis.summary import summary
from evalframe.analysis.usage import usage
from evalframe.core import schema
from evalframe.core.run_info import EvaluatorInfo, remembered

_COUNTED = ("n", "n_valid", "n_scored", "n_failed", "n_task_failed", "n_skipped")


def explain(frame: pd.DataFrame, evaluator: str) -> pd.Series:
    """Where the results of one evaluator come from.

    Facts of every evaluator: `kind`, `class`, `version`, `fingerprint` (32 hexadecimal digits),
    `unread` (a list of what the fingerprint could not see into), `parameters` (the call that
    makes it), `direction`, `threshold`, `score_range`, `started` and `finished` (its newest run,
    ISO 8601), and the counts of cells as in `evalframe.summary`. Of one that asks a model also
    `prompt`, `model` (the one that is asked), `models` (those that answered, by their servers'
    word), and what its results have cost as in `evalframe.usage`: `calls`, `cached`, `shared`,
    `reasked`, tokens, and `cost` in dollars.

    Texts of more than 20,000 characters (prompts) or 2,000 (parameters) are kept shortened. A
    frame that has lost its attrs, as by a merge, has the counts only. `n` counts the rows of the
    frame as it is now.

    Args:
        frame: A frame that `run_experiment` gave, also one read back from parquet.
        evaluator: Its name.

    Returns:
        A Series of facts by name, None for what is not known.

    Raises:
        UnknownEvaluatorError: The frame has no results of that name (a KeyError).
        DatasetError: Several columns have the name of one result.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "a cat"}], evaluators=[ef.Contains("cat")])
        >>> scored.evals.explain("contains")[["class", "parameters", "n_valid"]]
        class                     Contains
        parameters    Contains(text='cat')
        n_valid                          1
        Name: contains, dtype: object
    """
    check_name(frame, evaluator)
    run = remembered(frame.attrs)
    facts: dict[str, Any] = {}
    if evaluator in run.evaluators:
        facts |= _known(run.evaluators[evaluator])
    spent = usage(frame)
    facts |= _first(spent[spent["evaluator"] == evaluator].drop(columns="evaluator"))
    own = [name for name in frame if (schema.parse(name) or ("",))[0] == evaluator]
    cells = summary(frame[own])
    facts |= _first(cells[list(_COUNTED)])
    return pd.Series(facts, dtype=object, name=evaluator)


def _known(info: EvaluatorInfo) -> dict[str, Any]:
    facts = {
        "kind": info.kind,
        "class": info.class_name,
        "version": info.version,
        "fingerprint": info.fingerprint,
        "unread": list(info.unread),
        "prompt": info.prompt,
        "model": info.model,
        "parameters": info.parameters,
        "direction": info.direction,
        "threshold": info.threshold,
        "score_range": info.score_range,
        "started": info.started,
        "finished": info.finished,
    }
    asks = info.model is not None or info.prompt is not None
    return {name: fact for name, fact in facts.items() if asks or name not in ("prompt", "model")}


def _first(rows: pd.DataFrame) -> dict[str, Any]:
    """The plain Python values of the only row, if there is one; NA is None."""
    found = {str(name): value for row in rows.to_dict("records") for name, value in row.items()}
    return {name: None if pd.isna(value) else value for name, value in found.items()}
