"""Functions as evaluators.

evaluator           the decorator
FunctionEvaluator   what it makes: an evaluator that is still callable as the function
as_evaluator        whatever a user puts into `evaluators=` -> Evaluator
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from evalframe.evaluators.base import Evaluator

P = ParamSpec("P")
R = TypeVar("R")


class FunctionEvaluator(Evaluator, Generic[P, R]):
    """A function that is an evaluator; calling it calls the function. Made by `evaluator`."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        vectorized: bool = False,
        kind: str = "CODE",
        extras: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        """Wrap a function; see `evaluator` for the arguments."""
        self._function = function
        self.name = _name_of(function)
        # Class attributes for every other evaluator, but each function has its own.
        self.__dict__.update(
            vectorized=vectorized, kind=kind, extras=dict(extras or {}), threads=threads
        )
        functools.update_wrapper(self, function, updated=())

    @property
    def function(self) -> Callable[P, R]:
        """The function itself."""
        return self._function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; its own return value, not normalised."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind like a function when used inside a class."""
        return self if instance is None else self._function.__get__(instance, owner)

    def __repr__(self) -> str:
        """Name, and what it was declared with."""
        given = {key: value for key, value in self._given().items() if key != "function"}
        text = "".join(f", {key}={value!r}" for key, value in given.items() if key != "name")
        bound = ", ".join(f"{key}={value!r}" for key, value in self._bindings.items())
        return f"<evaluator {self.name!r}{text}>" + (f".bind({bound})" if bound else "")

    def __reduce__(self) -> Any:
        """Pickle by module and name; the function a decorator replaced cannot be pickled."""
        function = self._function
        module = getattr(function, "__module__", None)
        path = getattr(function, "__qualname__", None)
        found = _found(module, path)
        if isinstance(found, FunctionEvaluator) and found.function is function:
            _, kwargs, common = self._arguments
            options = {
                key: value for key, value in {**kwargs, **common}.items() if key != "function"
            }
            changes = {"name": self.name, "_bindings": self._bindings}
            return _restored, (module, path, options, changes)
        return super().__reduce__()


def _found(module: Any, path: Any) -> Any:
    if not isinstance(module, str) or not isinstance(path, str) or "<" in path:
        return None
    try:
        return functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None


def _restored(
    module: str, path: str, options: dict[str, Any], changes: dict[str, Any]
) -> FunctionEvaluator[..., Any]:
    made: Any = FunctionEvaluator(_found(module, path).function, **options)
    copied: FunctionEvaluator[..., Any] = made._copy(**changes)  # noqa: SLF001 - one too
    return copied


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    # No usable name: an empty one is refused with a message that says how to give one.
    return "" if name == "<lambda>" else str(name)


@overload
def evaluator(function: Callable[P, R], /) -> FunctionEvaluator[P, R]: ...
@overload
def evaluator(
    function: Callable[P, R],
    /,
    *,
    name: str | None = ...,
    vectorized: bool = ...,
    kind: str = ...,
    direction: str = ...,
    score_range: tuple[float, float] = ...,
    threshold: float | None = ...,
    extras: Mapping[str, Any] | None = ...,
    version: str | None = ...,
    threads: int | None = ...,
) -> FunctionEvaluator[P, R]: ...
@overload
def evaluator(
    function: None = ...,
    /,
    *,
    name: str | None = ...,
    vectorized: bool = ...,
    kind: str = ...,
    direction: str = ...,
    score_range: tuple[float, float] = ...,
    threshold: float | None = ...,
    extras: Mapping[str, Any] | None = ...,
    version: str | None = ...,
    threads: int | None = ...,
) -> Callable[[Callable[P, R]], FunctionEvaluator[P, R]]: ...
def evaluator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    vectorized: bool = False,
    kind: str = "CODE",
    direction: str = "maximize",
    score_range: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = None,
    extras: Mapping[str, Any] | None = None,
    version: str | None = None,
    threads: int | None = None,
) -> Any:
    """Make a function an evaluator: as `@ef.evaluator`, or with options.

    A plain function may also be given to `run_experiment` as it is; the decorator is for its
    options. The result is still callable, with the function's own return value.

    Args:
        function: What to call; parameters are bound by name.
        name: Name of the result columns; the function's name if not given.
        vectorized: The function sees columns (pandas Series) and returns columns.
        kind: "CODE", "LLM" or "HUMAN".
        direction: "maximize" or "minimize".
        score_range: Lowest and highest legal score.
        threshold: Score from which a cell passes (at most which, when minimizing).
        extras: Further columns it gives: name -> str, float, int, bool or "json".
        version: Your own mark of what it does.
        threads: Run up to so many cells at once in threads.

    Returns:
        The evaluator, or a decorator that makes it.

    Raises:
        TypeError: It is not callable, or is a generator function.
        ValueError: An option is out of its domain, or a lambda has no `name`.

    Examples:
        >>> import evalframe as ef
        >>> @ef.evaluator(threshold=0.5, extras={"words": int})
        ... def brief(output):
        ...     words = len(output.split())
        ...     return {"score": 1.0 if words < 5 else 0.0, "words": words}
        >>> scored = ef.run_experiment([{"output": "short and sweet"}], evaluators=[brief])
        >>> int(scored["eval.brief.words"][0]), bool(scored.evals.passed["brief"][0])
        (3, True)
    """
    options: dict[str, Any] = {"direction": direction, "score_range": score_range}
    options |= {"name": name, "threshold": threshold, "version": version}
    options |= {"vectorized": vectorized, "kind": kind, "extras": extras, "threads": threads}

    def make(function: Callable[..., Any]) -> FunctionEvaluator[..., Any]:
        if not callable(function) or isinstance(function, type):
            message = f"An evaluator must be a function, not {function!r}."
            raise TypeError(message)
        if isinstance(function, Evaluator):
            message = f"{function!r} is an evaluator already; use .named() or .bind() on it."
            raise TypeError(message)
        if not name and not _name_of(function):
            message = (
                "A lambda has no name for its columns: ef.evaluator(lambda ..., name='short')."
            )
            raise ValueError(message)
        return FunctionEvaluator(function, **options)

    return make if function is None else make(function)


def as_evaluator(given: Any, *, name: str | None = None) -> Evaluator:
    """What a user gave as an evaluator, as an `Evaluator`.

    Args:
        given: An evaluator, a function, or the dict of a guided-decoding or metric task.
        name: The key it had in a mapping.

    Raises:
        TypeError: It is neither.
        ValueError: It has no usable name.
    """
    if isinstance(given, type):
        message = f"{given.__name__} is a class: give an instance of it, {given.__name__}(...)."
        raise TypeError(message)
    if isinstance(given, Mapping) and "task_type" in given:
        from evalframe.evaluators.config import from_config
        from evalframe.evaluators.config_keys import TASK_KEYS

        if any(key in given for key in TASK_KEYS):
            given = from_config(given)
    if isinstance(given, Evaluator):
        return given if name is None else given.named(name)
    if not callable(given):
        message = (
            f"{given!r} is no evaluator: it must be a function, an ef.Evaluator or a mapping of "
            "names to them."
        )
        raise TypeError(message)
    if inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        message = f"{_name_of(given)!r} is a generator function: return the verdict, do not yield."
        raise TypeError(message)
    if name is None and not _name_of(given):
        message = (
            "A lambda has no name for its columns: give a mapping, evaluators={'short': lambda "
            "...}, or ef.evaluator(lambda ..., name='short')."
        )
        raise ValueError(message)
    made: Evaluator = evaluator(given, name=name)
    return made
