"""A task: what makes the `output` of a row.

Task      a function with its options
task      the decorator
as_task   whatever a user gives as `task=` -> Task
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from evalframe.core.binding import Binding, bind
from evalframe.core.fingerprint import Fingerprint, of_function
from evalframe.core.form import Described
from evalframe.core.namespace import Namespace
from evalframe.core.schema import EXTRA_TYPES

P = ParamSpec("P")
R = TypeVar("R")


class Task(Described, Generic[P, R]):
    """A function that makes outputs; still callable as that function. Made by `task`."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        output: Any = None,
        threads: int | None = None,
        version: str | None = None,
    ) -> None:
        """Wrap a function; see `task` for the arguments and errors."""
        if not callable(function) or isinstance(function, type):
            message = f"A task must be a function of the row, not {function!r}."
            raise TypeError(message)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            message = "A task must return the output, not yield it: it is a generator function."
            raise TypeError(message)
        if output is not None and output not in EXTRA_TYPES:
            message = f"output must be str, float, int, bool or 'json', not {output!r}."
            raise ValueError(message)
        if threads is not None and (type(threads) is not int or threads < 1):
            message = f"threads must be a whole number of at least 1, not {threads!r}."
            raise ValueError(message)
        self.function = function
        inner: Any = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        self.name = name or getattr(inner, "__name__", type(inner).__name__)
        self.output = output
        self.threads = threads
        self.version = version
        functools.update_wrapper(self, function, updated=())

    @property
    def is_async(self) -> bool:
        """Whether a call gives an awaitable."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - an async __call__
        )

    def binding(self, namespace: Namespace, *, what: str) -> Binding:
        """What its calls read of a row.

        Raises:
            BindingError: A parameter binds to nothing.
        """
        return bind(self.function, namespace, what=what, fallback="input")

    def fingerprint(self) -> Fingerprint:
        """What stands for all of it that changes its outputs; see `Evaluator.fingerprint`.

        Examples:
            >>> import evalframe as ef
            >>> fixed = ef.task(str.upper, version="1"), ef.task(str.lower, version="1")
            >>> fixed[0].fingerprint() == fixed[1].fingerprint()
            True
        """
        return of_function(self)

    def _described(self) -> Mapping[str, Any]:
        if self.version is not None:
            return {"version": self.version}
        return {"class": type(self), **self._counted()}

    def _counted(self) -> dict[str, Any]:
        """What changes its outputs: name -> value."""
        return {"function": self.function, "type": self.output}

    def requirements(self) -> str | None:
        """What is missing in the environment before it can run, or None."""
        return None

    def opened(self, session: Any) -> Callable[..., Any] | None:
        """The function to call in one run, if it needs something made for that run.

        Args:
            session: Asks models for the run.
        """
        del session
        return None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """Its name."""
        return f"<task {self.name!r}>"


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    function: None = ...,
    /,
    *,
    name: str | None = ...,
    output: Any = ...,
    threads: int | None = ...,
    version: str | None = ...,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    output: Any = None,
    threads: int | None = None,
    version: str | None = None,
) -> Any:
    """Make a function a task: as `@ef.task`, or with options.

    A plain function may also be given to `run_experiment` as it is.

    Args:
        function: Called once per row; parameters are bound by name, a sole parameter with an
            unknown name gets the input. May be `async`.
        name: Recorded with the run.
        output: Type of what it returns: str, float, int, bool or "json"; another type is then
            a failed task. Not given: the column's type is decided at the end.
        threads: At most so many calls at once, for a function that is not thread-safe.
        version: Your own mark of what it does.

    Returns:
        The task, or a decorator that makes it.

    Raises:
        TypeError: It is not a function, or is a generator function.
        ValueError: An option is out of its domain.

    Examples:
        >>> import evalframe as ef
        >>> @ef.task(output=str)
        ... def shout(input):
        ...     return input.upper()
        >>> ef.run_experiment([{"input": "hi"}], shout)["output"][0]
        'HI'
    """

    def make(function: Callable[..., Any]) -> Task[..., Any]:
        return Task(function, name=name, output=output, threads=threads, version=version)

    return make if function is None else make(function)


def as_task(given: Any) -> Task[..., Any]:
    """What a user gave as the task.

    Raises:
        TypeError: It is not callable.
        ValueError: As `Task`.
    """
    if isinstance(given, Task):
        return given
    return Task(given)
