"""From the names of a function's parameters to what they are given.

Owns   how a call is put together of what the names stand for.
Leaves what a name stands for to namespace.py, reading values to whoever runs the call.

Argument   how one argument is made of the values that were read
Binding    the sources that a function needs, and its arguments
bind       function + Namespace -> Binding, or BindingError with every mistake
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalframe.core.errors import listed, nearest
from evalframe.core.names import ALIASES, OTHERS, ROLES, ROW, canonical, misspelt
from evalframe.core.namespace import (
    BindingError,
    ColumnSource,
    Namespace,
    OutputSource,
    RecordSource,
    RowSource,
    Source,
)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class PathNotFoundError(LookupError):
    """A path into a value leads nowhere on this row."""


@dataclass(frozen=True, slots=True)
class Argument:
    """How one argument is made of the values that were read.

    Attributes:
        keyword: The name to pass it by, None for the next position; `**` spreads a dict.
        start: Position of its first value among the binding's reads.
        keys: Path into the value.
        function: Called with `count` values from `start` on, instead of taking one as it is.
        count: How many values the function takes.
        path: The path as the user wrote it.
        inner: What `function` reads, and is given.
    """

    keyword: str | None
    start: int
    keys: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    count: int = 1
    path: str = ""
    inner: Binding | None = None

    @property
    def plain(self) -> bool:
        """Whether the argument is a value that was read, as it is."""
        return not self.keys and self.function is None

    def value(self, values: Sequence[Any]) -> Any:
        """The argument for one row.

        Raises:
            PathNotFoundError: The path leads nowhere on this row.
        """
        if self.function is not None:
            return self.function(*values[self.start : self.start + self.count])
        found = values[self.start]
        for key in self.keys:
            found = _step(found, key, self.path)
        return found


@dataclass(frozen=True, slots=True)
class Binding:
    """What a function reads, and how its arguments are made of that."""

    reads: tuple[Source, ...]
    arguments: tuple[Argument, ...]

    def caller(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A callable that takes the values of `reads` by position and calls `function`."""
        if all(
            argument.plain and argument.keyword is None and argument.start == place
            for place, argument in enumerate(self.arguments)
        ):
            return function
        arguments = self.arguments

        def call(*values: Any) -> Any:
            positional, named = arranged(arguments, [item.value(values) for item in arguments])
            return function(*positional, **named)

        return call

    def labels(self, row_columns: Sequence[Hashable]) -> set[Hashable]:
        """The columns that are read."""
        found: set[Hashable] = set()
        for source in self.reads:
            if isinstance(source, ColumnSource):
                found.add(source.label)
            elif isinstance(source, RecordSource):
                found.update(source.labels)
            elif isinstance(source, RowSource):
                found.update(row_columns)
        return found


def arranged(
    arguments: Sequence[Argument], values: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The values as positional and keyword arguments."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(arguments, values, strict=True):
        if argument.keyword is None:
            positional.append(value)
        elif argument.keyword == "**":
            named.update(value)
        else:
            named[argument.keyword] = value
    return positional, named


def _always() -> bool:
    return True


def _nothing() -> None:
    return None


def _step(value: Any, key: str, path: str) -> Any:
    if isinstance(value, dict):
        if key in value:
            return value[key]
        found = f"it has the keys {listed(value)}"
    elif isinstance(value, (list, tuple)) and key.lstrip("-").isdecimal():
        if -len(value) <= int(key) < len(value):
            return value[int(key)]
        found = f"it has {len(value)} items"
    else:
        found = f"it is {'null' if value is None else type(value).__name__}"
    message = f"the path {path!r} ends before {key!r}: {found}"
    raise PathNotFoundError(message)


def bind(
    function: Callable[..., Any],
    namespace: Namespace,
    *,
    what: str,
    fallback: str,
    overrides: Mapping[str, Any] | None = None,
) -> Binding:
    """Give every parameter of a function its source.

    Args:
        function: Anything with a signature.
        namespace: The names on offer.
        what: How to call the function in messages: "evaluator 'exact'".
        fallback: The name that a sole parameter with an unknown name stands for.
        overrides: Parameter -> column, path or function of the row, from `.bind`.

    Raises:
        BindingError: With every parameter that binds to nothing, and the way out.
    """
    return _Binder(namespace, what, fallback, dict(overrides or {})).bind(function)


def bind_fields(
    names: Sequence[str],
    namespace: Namespace,
    *,
    what: str,
    whole_row: bool,
    condition: Callable[..., Any] | None,
    overrides: Mapping[str, Any],
) -> Binding:
    """Give every field of a template its source.

    The call takes two arguments by position, the condition's result (True without one) and the
    row (None if it is not read), and each field by keyword.

    Args:
        names: The fields.
        namespace: The names on offer.
        what: How to call the judge in messages.
        whole_row: Whether the row is read as a whole.
        condition: A function bound like an evaluator's.
        overrides: Field -> column, path or function of the row, from `.bind`.

    Raises:
        BindingError: With every field that binds to nothing.
    """
    return _Binder(namespace, what, "output", dict(overrides)).bind_fields(
        names, whole_row=whole_row, condition=condition
    )


class _Binder:
    def __init__(
        self, namespace: Namespace, what: str, fallback: str, overrides: dict[str, Any]
    ) -> None:
        self.namespace = namespace
        self.what = what
        self.fallback = fallback
        self.overrides = overrides
        self.reads: list[Source] = []
        self.arguments: list[Argument] = []
        self.problems: list[str] = []
        self.gap = False
        self.noun = "parameter"

    def bind(self, function: Callable[..., Any]) -> Binding:
        parameters = self._parameters(function)
        sole = self._sole(parameters)
        for name in self.overrides:
            accepts_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
            if name not in {p.name for p in parameters} and not accepts_any:
                names = listed(p.name for p in parameters)
                self.problems.append(
                    f"{self.what} has no parameter {name!r} to bind; it has {names}."
                )
        for parameter in parameters:
            try:
                self._add(parameter, is_sole=parameter is sole)
            except BindingError as exc:
                self.problems += [f"{self.what}: {text}" for text in exc.problems]
        if not self.problems:
            try:
                self._add_rest(parameters)
            except BindingError as exc:
                self.problems += [f"{self.what}: {text}" for text in exc.problems]
        if self.problems:
            raise BindingError(self.problems)
        return Binding(tuple(self.reads), tuple(self.arguments))

    def bind_fields(
        self, names: Sequence[str], *, whole_row: bool, condition: Callable[..., Any] | None
    ) -> Binding:
        self.noun = "field"
        self._add_condition(condition)
        if whole_row:
            self._place(RowSource(), None)
        else:
            self.arguments.append(Argument(None, len(self.reads), function=_nothing, count=0))
        unused = [name for name in self.overrides if name not in names]
        if unused:
            self.problems.append(
                f"{self.what} reads no {listed(unused)}; it reads {listed(names)}."
            )
        for name in names:
            try:
                if name in self.overrides:
                    self._add_override(name, name)
                else:
                    source = self.namespace.resolve(name)
                    if source is None:
                        source = self._fallback(name, is_sole=False, starred=False)
                    self._place(source, name)
            except BindingError as exc:
                self.problems += [f"{self.what}: {text}" for text in exc.problems]
        if self.problems:
            raise BindingError(self.problems)
        return Binding(tuple(self.reads), tuple(self.arguments))

    def _add_condition(self, condition: Callable[..., Any] | None) -> None:
        if condition is None:
            self.arguments.append(Argument(None, 0, function=_always, count=0))
            return
        try:
            what = f"run_if of {self.what}"
            inner = bind(condition, self.namespace, what=what, fallback="output")
        except BindingError as exc:
            self.problems += exc.problems
            return
        self._add_call(condition, inner, None, "")

    def _add_call(
        self, call: Callable[..., Any], inner: Binding, keyword: str | None, path: str
    ) -> None:
        start, count = len(self.reads), len(inner.reads)
        self.reads += inner.reads
        self.arguments.append(Argument(keyword, start, (), inner.caller(call), count, path, inner))

    def _parameters(self, function: Callable[..., Any]) -> list[inspect.Parameter]:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            text = f"{self.what} has no readable signature. Wrap it: lambda output: f(output)."
            raise BindingError([text]) from None
        fixed = function.keywords if isinstance(function, functools.partial) else {}
        parameters = [p for p in signature.parameters.values() if p.name not in fixed]
        if not parameters:
            text = f"{self.what} takes no parameters, so it cannot see the row. Give it one of "
            raise BindingError([f"{text}{listed(self.namespace.offered())}."])
        return parameters

    @staticmethod
    def _sole(parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if len(named) == 1:
            return named[0]
        only_star = len(parameters) == 1 and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
        return parameters[0] if only_star else None

    def _add(self, parameter: inspect.Parameter, *, is_sole: bool) -> None:
        starred = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if starred and not is_sole:
            return
        if parameter.name in self.overrides:
            self._add_override(parameter.name, self._keyword(parameter))
            return
        source = None if starred else self.namespace.resolve(parameter.name)
        if source is None and parameter.default is parameter.empty:
            source = self._fallback(parameter.name, is_sole=is_sole, starred=starred)
        if source is None:
            # Not bound, so its default holds; later arguments can only be passed by name.
            self.gap = True
            return
        self._place(source, self._keyword(parameter))

    def _keyword(self, parameter: inspect.Parameter) -> str | None:
        positional = parameter.kind in (*_POSITIONAL, parameter.VAR_POSITIONAL) and not self.gap
        if not positional and parameter.kind is parameter.POSITIONAL_ONLY:
            text = f"{parameter.name!r} is positional-only after one that is left at its default."
            raise BindingError([text])
        return None if positional else parameter.name

    def _fallback(self, name: str, *, is_sole: bool, starred: bool) -> Source:
        known = self.namespace.known()
        # A role or alias that the data lacks is missing, not unknown.
        is_sole = is_sole and (starred or canonical(name) not in ALIASES)
        near = None if starred else misspelt(name, [*known, *ROLES, ROW])
        source = self.namespace.resolve(self.fallback) if is_sole and near is None else None
        if source is not None:
            return source
        wanted = self.fallback if is_sole and near is None else name
        role = canonical(wanted)
        text = f"{self.noun} {name!r} binds to nothing"
        if wanted != name:
            text += f" (a sole parameter with an unknown name gets the {wanted})"
        if role in ROLES:
            have = listed(self.namespace.row_columns)
            text += f": no column is the {role}. The data has {have}. Name it: {role}='...'."
            raise BindingError([text])
        guess = None if name in OTHERS else near or nearest(name, known)
        hint = f" Did you mean {guess!r}?" if guess is not None else ""
        raise BindingError([f"{text}.{hint} It can be {listed(self.namespace.offered())}."])

    def _add_override(self, name: str, keyword: str | None) -> None:
        wanted = self.overrides[name]
        if callable(wanted):
            what = f"{self.what}, the function bound to {name!r}"
            inner = bind(wanted, self.namespace, what=what, fallback=ROW)
            self._add_call(wanted, inner, keyword, name)
            return
        found = self.namespace.located(wanted)
        if found is None:
            guess = nearest(wanted, self.namespace.columns)
            hint = f" Did you mean {guess!r}?" if guess is not None else ""
            have = listed(self.namespace.columns)
            text = f".bind({name}={wanted!r}) names no column.{hint} The data has {have}."
            if str(wanted).startswith("eval."):
                text += " Results can be bound on the frame of an earlier run, not in the same one."
            raise BindingError([text])
        source, keys = found
        self._place(source, keyword, keys=keys, path=str(wanted))

    def _place(
        self, source: Source, keyword: str | None, *, keys: tuple[str, ...] = (), path: str = ""
    ) -> None:
        self.arguments.append(Argument(keyword, len(self.reads), keys=keys, path=path))
        self.reads.append(source)

    def _add_rest(self, parameters: list[inspect.Parameter]) -> None:
        """`**kwargs` gets the overrides that are no parameter, and every other column."""
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        for name in self.overrides:
            if name not in named:
                self._add_override(name, name)
        columns = self.namespace.row_columns
        used = Binding(tuple(s for s in self.reads if not isinstance(s, RowSource)), ())
        taken = used.labels(columns) | named | set(self.overrides)
        rest = tuple(label for label in columns if isinstance(label, str) and label not in taken)
        if self.namespace.has_task:
            # A column that the task's output replaces is not the output.
            rest = tuple(label for label in rest if label != "output")
            if OutputSource() not in self.reads and "output" not in taken:
                self._place(OutputSource(), "output")
        self._place(RecordSource(rest), "**")
