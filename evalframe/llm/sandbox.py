"""What a template may do: Jinja's sandbox, in which data has keys and no attributes.

Owns   the environment, its filters, and the check that no null becomes text.
Leaves reading templates, and which field of the row a name is, to prompts.py.

The sandbox is Jinja's own (ImmutableSandboxedEnvironment), with attribute access, imports and
all globals but `range` and `namespace` taken out. It keeps a template from Python's internals,
and from the cheapest ways to fill the memory; it is no bound on what loops can do.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined, nodes, pass_environment
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.filters import make_attrgetter
from jinja2.runtime import LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

GLOBALS = ("range", "namespace")

_WITHOUT = ("attr", "random", "pprint")
_TAKES_NULL = ("default", "d")
_SIZED = ("center", "indent", "batch", "slice", "tojson", "wordwrap")
_OF_TEXT = (
    *("upper", "lower", "capitalize", "title", "trim", "replace", "truncate", "center", "indent"),
    *("wordwrap", "wordcount", "escape", "e", "forceescape", "safe", "striptags", "urlize"),
)
_HAS_ATTRIBUTES = (LoopContext, Macro, Namespace)
_LONGEST = 1_000_000
_LARGEST = 1_000
_MOST_BITS = 10_000
_WIDE = re.compile(r"%(?:\([^)]*\))?[^a-zA-Z%]*(?:\d{5}|\*)")


class NullPrintedError(TemplateRuntimeError):
    """A null was about to become text."""


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        """Start from Jinja's own, and take out what prompts do not need."""
        super().__init__(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
        self.finalize = printed
        self.globals = {name: self.globals[name] for name in GLOBALS}
        self.policies["json.dumps_function"] = _dumps
        own = {"tojson": _dumps, "join": _joined, "string": _string}
        self.filters = {
            name: _guarded(name, own.get(name, function))
            for name, function in self.filters.items()
            if name not in _WITHOUT
        }
        self.filters["_present"] = _present
        self.filters["_shown"] = printed

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """What is not made for a prompt is refused by its size; a null counts as printed."""
        if left is None or (right is None and operator != "%"):
            raise NullPrintedError
        if operator == "%" and isinstance(left, str):
            return super().call_binop(context, operator, _format(left), _printable(left, right))
        _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key of data; an attribute only of Jinja's own loop, macro and namespace."""
        if isinstance(obj, _HAS_ATTRIBUTES):
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A key of a dict, or a place in a list or text."""
        if isinstance(obj, Undefined):
            return obj[argument]
        if isinstance(obj, Mapping):
            if argument in obj:
                return obj[argument]
            return self.undefined(f"{argument!r} is not there; there is {_keys(obj)}")
        if isinstance(argument, (int, slice)) and isinstance(obj, (str, list, tuple)):
            try:
                return obj[argument]
            except IndexError:
                return self.undefined(f"there is no item {argument} of {len(obj)}")
        if obj is None:
            # Not there, for a template that tests for it; a null, for one that prints it.
            return self.undefined("a null has no keys", exc=NullPrintedError)
        return self.undefined(f"a {type(obj).__name__} has no key {argument!r}")


def _keys(obj: Mapping[Any, Any]) -> str:
    return ", ".join(map(repr, list(obj)[:12])) or "nothing"


def _check_size(operator: str, left: Any, right: Any) -> None:
    pair = (left, right) if isinstance(left, (str, list, tuple)) else (right, left)
    sized = isinstance(pair[0], (str, list, tuple)) and isinstance(pair[1], int)
    if sized and len(pair[0]) * pair[1] > _LONGEST:
        message = f"a product of more than {_LONGEST:,} characters"
        raise SecurityError(message)
    whole = isinstance(left, int) and isinstance(right, int)
    if whole and left.bit_length() + right.bit_length() > _MOST_BITS:
        message = f"a product of more than {_MOST_BITS:,} bits"
        raise SecurityError(message)
    numbers = [side for side in (left, right) if isinstance(side, (int, float))]
    if operator == "**" and any(abs(number) > _LARGEST for number in numbers):
        message = f"a power of numbers beyond {_LARGEST}"
        raise SecurityError(message)


def _format(given: Any) -> str:
    text = str(given)
    if _WIDE.search(text):
        message = f"a format of more than 9,999 characters: {text[:40]!r}"
        raise SecurityError(message)
    return text


class _Printable(dict[Any, Any]):
    """A dict for "%(key)s", whose values are looked at when they are used."""

    def __getitem__(self, key: Any) -> Any:
        return printed(super().__getitem__(key))


def _printable(text: str, operand: Any) -> Any:
    """What a format is filled with."""
    if isinstance(operand, tuple):
        return tuple(map(printed, operand))
    named = isinstance(operand, dict) and "%(" in text
    return _Printable(operand) if named else printed(operand)


def _present(value: Any) -> Any:
    if value is None:
        raise NullPrintedError
    return value


def printed(value: Any) -> Any:
    """The value as templates print it: lists and dicts as JSON, and no null.

    Raises:
        NullPrintedError: It is one.
        TypeError: It is a part of the template itself, such as a macro.
    """
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - only NaN differs from itself
        raise NullPrintedError
    if isinstance(value, (str, int, float, Undefined)):
        return value
    _present(value)
    if isinstance(value, (dict, list, tuple, range, Iterator)) and not isinstance(
        value, LoopContext
    ):
        return _dumps(value)
    if callable(value) or isinstance(value, (*_HAS_ATTRIBUTES, TemplateReference)):
        message = f"a {type(value).__name__} of the template cannot be printed"
        raise TypeError(message)
    return value


def _dumps(value: Any, indent: int | None = None) -> str:
    # Jinja's own tojson escapes <, > and letters beyond ASCII, for HTML.
    if isinstance(value, (range, Iterator)):
        value = list(value)
    return json.dumps(value, ensure_ascii=False, default=_json_of, indent=indent)


def _json_of(value: Any) -> Any:
    return list(value) if isinstance(value, (range, Iterator)) else str(value)


@pass_environment
def _joined(
    environment: Environment,
    value: Iterable[Any],
    d: Any = "",
    attribute: int | str | None = None,
) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return str(d).join(str(printed(part)) for part in value)


def _string(value: Any) -> str:
    return str(printed(value))


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which refuses a null instead of printing "None" of it."""
    place = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        value = args[place] if len(args) > place else None
        if name not in _TAKES_NULL:
            _present(value)
        given = [*args[place + 1 :], *kwargs.values()]
        if name == "format":
            named = {key: printed(part) for key, part in kwargs.items()}
            return function(_format(value), *map(printed, args[1:]), **named)
        if name in _SIZED and any(isinstance(n, int) and n > _LONGEST for n in given):
            message = f"{name} of more than {_LONGEST:,} characters"
            raise SecurityError(message)
        if name in _OF_TEXT:
            args = (*args[:place], printed(value), *args[place + 1 :])
        return function(*args, **kwargs)

    return filtered


class NullGuard(NodeTransformer):
    """Puts the check for nulls where a value would become text unseen, or be walked through."""

    def visit_Concat(self, node: nodes.Concat, *_: Any) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Every part of a concatenation is printed."""
        self.generic_visit(node)
        node.nodes = [_filtered(part, "_shown") for part in node.nodes]
        return node

    def visit_For(self, node: nodes.For, *_: Any) -> nodes.Node:  # noqa: N802 - Jinja's name
        """A loop is not over a null."""
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_present")
        return node

    def visit_Filter(self, node: nodes.Filter, *_: Any) -> nodes.Node:  # noqa: N802 - Jinja's name
        """No argument of a filter is a null, unless it is written there."""
        self.generic_visit(node)
        if node.name not in _TAKES_NULL:
            node.args = [_filtered(argument, "_present") for argument in node.args]
            for pair in node.kwargs:
                pair.value = _filtered(pair.value, "_present")
        return node


def _filtered(node: Any, name: str) -> nodes.Expr:
    if isinstance(node, nodes.Const) and (name == "_present" or node.value is not None):
        return node
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
