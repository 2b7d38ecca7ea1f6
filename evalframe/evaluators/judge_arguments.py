"""What is wrong with the arguments of judges."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalframe.evaluators.asking import Judge
    from evalframe.evaluators.judge import LLMJudge

_OWN = ("model", "messages", "response_format", "tools", "tool_choice", "stream", "n")
_CONSTRAINTS = ("guided_choice", "guided_json", "structured_outputs", "grammar", "json_schema")


def flattened(inference_args: Mapping[str, Any] | None) -> dict[str, Any]:
    """Fields of the request body; `extra_body`, as the openai client has it, is opened up."""
    given = copy.deepcopy(dict(inference_args or {}))
    extra = given.pop("extra_body", None)
    if extra is None:
        return given
    if not isinstance(extra, Mapping):
        message = f"inference_args: extra_body must be a dict, not {extra!r}."
        raise TypeError(message)
    return {**given, **extra}


def asking_problem(judge: Judge) -> str | None:
    """What is wrong with the arguments that every judge has, or None."""
    return inference_args_problem(judge.inference_args) or _plain_problem(judge)


def argument_problem(judge: LLMJudge) -> str | None:
    """What is wrong with an LLMJudge's own arguments beyond prompt and schema, or None."""
    if not isinstance(judge.confidence, bool):
        return f"confidence must be True or False, not {judge.confidence!r}."
    if judge.confidence and judge.reading.labels is None:
        return "confidence=True is for choices: a response_format has no fixed labels to compare."
    return _scores_problem(judge)


def inference_args_problem(given: Mapping[str, Any]) -> str | None:
    """What is wrong with further fields of the request, or None."""
    if not all(isinstance(key, str) for key in given):
        return f"inference_args: its keys must be text, not {list(given)!r}."
    own = [key for key in given if key in (*_OWN, *_CONSTRAINTS)]
    if own:
        return f"inference_args: the judge itself sets {', '.join(map(repr, own))}."
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as exc:
        return f"inference_args must be JSON: {exc}."
    return None


def _plain_problem(judge: Judge) -> str | None:
    if inspect.iscoroutinefunction(judge.run_if):
        return "run_if must be a plain function: an async one would always be true."
    if not isinstance(judge.name, str):
        return f"the name must be text, not {judge.name!r}."
    if type(judge.invalid_retries) is not int or judge.invalid_retries < 0:
        return f"invalid_retries must be 0 or more, not {judge.invalid_retries!r}."
    if not (judge.run_if is None or isinstance(judge.run_if, str) or callable(judge.run_if)):
        return f"run_if must be a function or a Jinja expression, not {judge.run_if!r}."
    return None


def _scores_problem(judge: LLMJudge) -> str | None:
    """Scores of choices must be in the range; whether that is one, `Evaluator` checks."""
    try:
        low, high = map(float, judge.score_range)
    except (TypeError, ValueError):
        return f"score_range must be (lowest, highest), not {judge.score_range!r}."
    scores = getattr(judge.reading, "scores", {})
    for label, score in scores.items():
        if score is not None and not low <= score <= high:
            return (
                f"choices: the score {score!r} of {label!r} is outside [{low:g}, {high:g}]; "
                "score_range=(lowest, highest) sets another range."
            )
    return None
