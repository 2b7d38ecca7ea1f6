"""What is wrong with what an evaluator declares of itself."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from evalframe.core import schema

if TYPE_CHECKING:
    from evalframe.evaluators.base import Evaluator

KINDS = ("CODE", "LLM", "HUMAN")
DIRECTIONS = ("maximize", "minimize")


def check_declaration(evaluator: Evaluator, function: Any) -> None:
    """See that what an evaluator declares makes sense.

    Args:
        evaluator: As it was made.
        function: What it calls, None if it has none.

    Raises:
        TypeError: `evaluate` is missing or is a generator function.
        ValueError: A declared attribute is out of its domain.
    """
    who = f"{type(evaluator).__name__} {evaluator.name!r}"
    if not callable(function):
        message = f"{who} has no method evaluate(self, ...). Write one; its parameters are bound."
        raise TypeError(message)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"{who} is a generator function: it must return its verdict, not yield it."
        raise TypeError(message)
    problem = schema.check_name(evaluator.name) or schema.check_extras(evaluator.extras)
    low, high = evaluator.score_range if _is_range(evaluator.score_range) else (math.nan, math.nan)
    threshold = evaluator.threshold
    if problem is None and not low < high:
        problem = f"score_range must be (lowest, highest), not {evaluator.score_range!r}."
    if problem is None and evaluator.kind not in KINDS:
        problem = f"kind must be one of {KINDS}, not {evaluator.kind!r}."
    if problem is None and evaluator.direction not in DIRECTIONS:
        problem = f"direction must be one of {DIRECTIONS}, not {evaluator.direction!r}."
    legal = threshold is None or (_is_number(threshold) and low <= threshold <= high)
    if problem is None and not legal:
        problem = f"threshold must be a number in [{low}, {high}], not {threshold!r}."
    if problem is None:
        problem = _check_threads(evaluator)
    if problem:
        message = f"{who}: {problem}"
        raise ValueError(message)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_range(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_number, value))  # noqa: PLR2004 - lowest and highest


def _check_threads(evaluator: Evaluator) -> str | None:
    threads = evaluator.threads
    if threads is None:
        return None
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        return f"threads must be a whole number of at least 1, not {threads!r}."
    if evaluator.vectorized or evaluator.is_async:
        return "threads is for plain functions called row by row, not vectorized or async ones."
    return None
