"""What an evaluator is.

Evaluator   the base class: its declaration, its arguments, `.bind` and `.named`

Instances are frozen; repr, equality and pickle go by the arguments they were made with. The
keywords `name`, `threshold`, `direction`, `score_range` and `version` are taken by every
evaluator class, whatever its own `__init__` looks like.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import pyarrow as pa

from evalframe.core import schema
from evalframe.core.binding import Binding, bind
from evalframe.core.fingerprint import Fingerprint, of_function
from evalframe.core.form import Described
from evalframe.core.namespace import Namespace
from evalframe.evaluators.declaration import check_declaration, check_options, signature_of
from evalframe.evaluators.identity import BESIDE, counted

DECLARED = ("name", "threshold", "direction", "score_range", "version")


# For checkers a class without an `__init__` of its own has one made of its fields, also where it
# inherits another: so each built-in class writes its own, though some only pass on.
@dataclass_transform(field_specifiers=(dataclasses.field,))
class EvaluatorType(ABCMeta):
    """Makes instances: takes the common keywords, remembers the arguments, then freezes."""

    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an evaluator.

        Raises:
            TypeError: Arguments do not fit, or there is no usable `evaluate`.
            ValueError: A declaration is out of its domain.
        """
        # mypy: __init__ of a class may be that of an incompatible subclass; only names are read.
        own = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        check_options(cls.__name__, kwargs, own, DECLARED)
        common = {key: kwargs.pop(key) for key in DECLARED if key in kwargs and key not in own}
        common = {key: value for key, value in common.items() if value is not None}
        # Copies: a list that its owner goes on to change must not change a frozen evaluator.
        args, kwargs = tuple(map(_kept, args)), {k: _kept(value) for k, value in kwargs.items()}
        self: Any = super().__call__(*args, **kwargs)
        object.__setattr__(self, "_arguments", (args, kwargs, common))
        object.__setattr__(self, "_bindings", {})
        for key, value in common.items():
            object.__setattr__(self, key, value)
        if not self.name:
            object.__setattr__(self, "name", _snake_case(cls.__name__))
        check_declaration(self)
        object.__setattr__(self, "_frozen", True)
        return self

    if not TYPE_CHECKING:
        # Hidden from type checkers, which then know what a class makes, and of what arguments.
        __call__ = _make

        @property
        def __signature__(cls) -> inspect.Signature:
            """What help() shows, and editors: the arguments, and those of every evaluator."""
            return signature_of(cls.__init__, DECLARED)


class Evaluator(Described, metaclass=EvaluatorType):
    """Base of evaluator classes: subclass it and write `evaluate`.

    The parameters of `evaluate` are bound by name: `input`, `output`, `dataset_output`,
    `metadata`, any column, `dataset_row`. It may be `async`. Annotated fields become
    arguments, as in a dataclass; or write your own `__init__`.

    Attributes:
        name: Name of the result columns; the class name in snake_case if not given.
        kind: "CODE", "LLM" or "HUMAN".
        direction: "maximize" or "minimize": which way is better.
        score_range: Lowest and highest legal score.
        threshold: Score from which a cell passes (at most which, when minimizing).
        extras: Further columns it gives: name -> str, float, int, bool or "json".
        version: Your own mark of what it does, kept with the results.
        vectorized: Whether `evaluate` sees whole columns (pandas Series) and returns columns.
        threads: Run up to so many cells at once in threads; None: in the caller's thread.
        reads_only: Whether a vectorized `evaluate` changes nothing in what it is given: lists
            may then be the frame's own, not copies. Whoever writes another says so again.
        gives: Which of label, score and explanation it can fill.
        source: Where its formula is from, in Markdown.
        extra_needed: The extra of this package that it needs.

    Raises:
        TypeError: Arguments do not fit, or there is no usable `evaluate`.
        ValueError: A declaration is out of its domain.

    Examples:
        >>> import evalframe as ef
        >>> class Mentions(ef.Evaluator):
        ...     word: str
        ...     def evaluate(self, output):
        ...         return self.word in output
        >>> mentions = Mentions("cat", name="mentions_cat")
        >>> mentions
        Mentions(word='cat', name='mentions_cat')
        >>> ef.run_experiment([{"output": "a cat"}], evaluators=[mentions]).evals.scores
           mentions_cat
        0           1.0
    """

    if TYPE_CHECKING:
        name: str = dataclasses.field(default="", kw_only=True)
        threshold: float | None = dataclasses.field(default=None, kw_only=True)
        direction: str = dataclasses.field(default="maximize", kw_only=True)
        score_range: tuple[float, float] = dataclasses.field(default=(0.0, 1.0), kw_only=True)
        version: str | None = dataclasses.field(default=None, kw_only=True)
        evaluate: ClassVar[Callable[..., Any]]
    else:
        name = ""
        threshold = None
        direction = "maximize"
        score_range = (0.0, 1.0)
        version = None

    _arguments: ClassVar[Any]
    _bindings: ClassVar[dict[str, Any]]

    kind: ClassVar[str] = "CODE"
    extras: ClassVar[Mapping[str, Any]] = {}
    vectorized: ClassVar[bool] = False
    threads: ClassVar[int | None] = None
    reads_only: ClassVar[bool] = False
    gives: ClassVar[tuple[str, ...]] = (schema.LABEL, schema.SCORE, schema.EXPLANATION)
    source: ClassVar[str] = ""
    extra_needed: ClassVar[str] = ""
    _beside: ClassVar[frozenset[str]] = BESIDE

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Turn annotated fields into arguments, unless the class has its own `__init__`."""
        super().__init_subclass__(**kwargs)
        if {"evaluate", "function"} & vars(cls).keys() and "reads_only" not in vars(cls):
            cls.reads_only = False
        written = any(
            "__init__" in vars(base) and "__dataclass_fields__" not in vars(base)
            for base in cls.__mro__
            if base not in (Evaluator, Described, object)
        )
        if "__init__" not in vars(cls) and not written:
            dataclasses.dataclass(repr=False, eq=False)(cls)

    @property
    def function(self) -> Callable[..., Any]:
        """What is called with the bound values."""
        return self.evaluate

    @property
    def bindings(self) -> Mapping[str, Any]:
        """Parameter -> column, path or function, as given to `.bind`."""
        return dict(self._bindings)

    @property
    def is_async(self) -> bool:
        """Whether a call gives an awaitable."""
        function = self.function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        )

    def bind(self, **sources: Any) -> Self:
        """A copy that reads other columns.

        Args:
            **sources: Parameter -> a column (`"docs"`), a path into one (`"output.final.text"`,
                list positions by number), or a function of the row.

        Returns:
            The copy; this evaluator stays as it is.

        Raises:
            TypeError: A source is neither a column's name nor a function.

        Examples:
            >>> import evalframe as ef
            >>> exact = ef.ExactMatch().bind(output="output.final.text", dataset_output="truth")
            >>> rows = [{"output": {"final": {"text": "4"}}, "truth": "4"}]
            >>> ef.run_experiment(rows, evaluators=[exact]).evals.scores.iloc[0, 0]
            1.0
        """
        for parameter, source in sources.items():
            if not callable(source) and (source is None or isinstance(source, (list, dict))):
                message = (
                    f".bind({parameter}={source!r}): give a column's name, a path such as "
                    "'output.final.text', or a function of the row."
                )
                raise TypeError(message)
        return self._copy(_bindings={**self._bindings, **sources})

    def named(self, name: str) -> Self:
        """A copy whose result columns have another name.

        Raises:
            ValueError: The name holds a dot, a backtick or a line break, or is empty.

        Examples:
            >>> import evalframe as ef
            >>> ef.Contains("cat").named("cat").name
            'cat'
        """
        problem = schema.check_name(name)
        if problem:
            raise ValueError(problem)
        return self._copy(name=name)

    def binding(self, namespace: Namespace, *, what: str) -> Binding:
        """What its calls read of a row.

        Raises:
            BindingError: A parameter binds to nothing.
        """
        return bind(
            self.function, namespace, what=what, fallback=schema.OUTPUT, overrides=self.bindings
        )

    def result_fields(self, *, details: bool) -> dict[str, pa.DataType]:
        """Its columns beyond the five that every evaluator has: field -> type, in order.

        Args:
            details: Whether the run keeps details.
        """
        del details
        return {name: schema.EXTRA_TYPES[kind] for name, kind in self.extras.items()}

    def requirements(self) -> str | None:
        """What is missing in the environment before it can run, or None."""
        return None

    def opened(self, session: Any, *, details: bool) -> Callable[..., Any] | None:
        """The function to call in one run, if it needs something made for that run.

        Args:
            session: Asks models for the run.
            details: Whether the run keeps details.
        """
        del session, details
        return None

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """What is wrong with the types of the columns it would read, or None.

        Called before anything runs.

        Args:
            types: Parameter -> Arrow type of its column, None where only JSON text keeps it;
                parameters whose type is not known yet are left out.
        """
        del types
        return None

    def fingerprint(self) -> Fingerprint:
        """What stands for all of it that changes its cells; equal in every process.

        Of a class: its arguments and bindings, and of your own its code. Of a function: its
        code, and the functions, classes and constants of your own that it reaches. Of a judge:
        prompt, schema, model and `inference_args`. `version` takes the place of all this.

        Returns:
            A tuple of `digest` (32 hexadecimal digits) and `unread`: what could not be read and
            entered by its type ("client: OpenAI"), so that a change of it is not noticed.

        Examples:
            >>> import evalframe as ef
            >>> ef.Contains("cat").fingerprint() == ef.Contains("cat", name="b").fingerprint()
            True
            >>> ef.Contains("cat").fingerprint() == ef.Contains("dog").fingerprint()
            False
        """
        return of_function(self)

    def _described(self) -> Mapping[str, Any]:
        return counted(self, self._identity()[0])

    def _copy(self, **changes: Any) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(changes)
        return twin

    def _given(self) -> dict[str, Any]:
        args, kwargs, common = self._arguments
        bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        given = dict(list(bound.arguments.items())[1:])
        given.update(common)
        if "name" in given or self.name not in (type(self).name, _snake_case(type(self).__name__)):
            given["name"] = self.name
        return given

    def _identity(self) -> tuple[Any, ...]:
        args, kwargs, _ = self._arguments
        bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        # The name it goes by is declared below; .named() changes it behind the argument's back.
        arguments.pop("name", None)
        declared = {key: getattr(self, key) for key in DECLARED}
        return (arguments, declared, self._bindings)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes once made.

        Raises:
            AttributeError: The evaluator is frozen.
        """
        if getattr(self, "_frozen", False):
            message = (
                f"{type(self).__name__} is frozen, so {name!r} cannot be set: make another one, "
                "or use .named() or .bind(), which return a copy."
            )
            raise AttributeError(message)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Refuse removals, as changes.

        Raises:
            AttributeError: The evaluator is frozen.
        """
        self.__setattr__(name, None)
        object.__delattr__(self, name)

    def __repr__(self) -> str:
        """The call that makes it."""
        text = ", ".join(f"{key}={value!r}" for key, value in self._given().items())
        bound = ", ".join(f"{key}={value!r}" for key, value in self._bindings.items())
        return f"{type(self).__name__}({text})" + (f".bind({bound})" if bound else "")

    def __eq__(self, other: object) -> bool:
        """Same class, same arguments, same bindings."""
        if type(other) is not type(self) or not isinstance(other, Evaluator):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        """By class and name: arguments may be unhashable."""
        return hash((type(self), self.name))

    def __reduce__(self) -> Any:
        """Pickle by class and arguments."""
        args, kwargs, common = self._arguments
        changes = {"name": self.name, "_bindings": self._bindings}
        return _rebuild, (type(self), args, {**kwargs, **common}, changes)


def _rebuild(
    cls: type[Evaluator], args: tuple[Any, ...], kwargs: dict[str, Any], changes: dict[str, Any]
) -> Evaluator:
    return cls(*args, **kwargs)._copy(**changes)  # noqa: SLF001 - the same class


def _kept(argument: Any) -> Any:
    if type(argument) is list:
        return [_kept(item) for item in argument]
    if type(argument) is dict:
        return {key: _kept(item) for key, item in argument.items()}
    return copy.copy(argument) if type(argument) is set else argument


def _snake_case(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower().strip("_")
