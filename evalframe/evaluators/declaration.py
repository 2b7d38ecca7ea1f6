"""What an evaluator class is made with, and what it declares: whether these make sense.

signature_of        the arguments of a class, with those that every evaluator takes
check_options       an argument that is none, with the one it may have been
check_declaration   an evaluator as it was made
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evalframe.core import schema
from evalframe.core.errors import nearest

if TYPE_CHECKING:
    from evalframe.evaluators.base import Evaluator

KINDS = ("CODE", "LLM", "HUMAN")
DIRECTIONS = ("maximize", "minimize")

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def signature_of(init: Callable[..., Any], common: Iterable[str]) -> inspect.Signature:
    """The arguments of an `__init__` without self, and the common ones that it leaves out."""
    own = list(inspect.signature(init).parameters.values())[1:]
    names = {parameter.name for parameter in own}
    last = [parameter for parameter in own if parameter.kind is parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in common
        if name not in names
    ]
    return inspect.Signature([*(p for p in own if p not in last), *added, *last])


def check_options(
    what: str, given: Mapping[str, Any], own: Mapping[str, inspect.Parameter], common: Iterable[str]
) -> None:
    """See that every keyword is an argument of the class.

    Args:
        what: Name of the class.
        given: The keywords.
        own: The parameters of its `__init__`.
        common: The keywords of every evaluator.

    Raises:
        TypeError: One is not; says which it may have been.
    """
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values()):
        return
    known = [name for name, p in own.items() if p.kind not in _VARIADIC and name != "self"]
    known += [name for name in common if name not in known]
    unknown = [name for name in given if name not in known]
    if unknown:
        near = nearest(unknown[0], known)
        hint = f" Did you mean {near}=?" if near is not None else ""
        message = f"{what} takes no {unknown[0]}=.{hint} It takes {', '.join(known)}."
        raise TypeError(message)


def check_declaration(evaluator: Evaluator) -> None:
    """See that what an evaluator declares makes sense.

    Raises:
        TypeError: `evaluate` is missing or is a generator function.
        ValueError: A declared attribute is out of its domain.
    """
    who = f"{type(evaluator).__name__} {evaluator.name!r}"
    function = getattr(evaluator, "function", None)
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
    if problem is None and not isinstance(evaluator.version, str | None):
        problem = f"version must be text, not {evaluator.version!r}."
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
