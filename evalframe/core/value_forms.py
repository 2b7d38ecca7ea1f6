"""The forms of values: texts, numbers, containers, and whatever has a name.

Owns   what counts of each type.
Leaves functions, classes and their objects to code_forms.py.

A type that is met often as a constant is read. What is the same for all that a run computes (a
logger, a lock) is left out in silence.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import functools
import hashlib
import logging
import re
import threading
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np

from evalframe.core import source
from evalframe.core.form import Form, Unknown, stored, unread
from evalframe.core.json_text import encode
from evalframe.core.nested import ATOMS, lowered

_MOST_ITEMS = 1_000_000
_MOST_BYTES = 1 << 26
_SILENT = (
    *(logging.Logger, contextvars.ContextVar, type(threading.Lock()), type(threading.RLock())),
    *(threading.Semaphore, threading.Event, asyncio.Lock, asyncio.Semaphore, asyncio.Event),
)
# Methods of types that are written in C, such as str.upper.
_METHODS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)


def _atom(value: Any) -> Form:
    kind = type(value)
    if kind in ATOMS:
        return Form([kind.__name__, encode(value)])
    return Form([kind.__qualname__, encode(lowered(value))])


def _sequence(value: Any) -> Form:
    base: Any = list if isinstance(value, list) else tuple
    return _container(value, list(base.__iter__(value)))


def _deque(value: Any) -> Form:
    return _container(value, list(collections.deque.__iter__(value)))


def _dict(value: Any) -> Form:
    pairs = dict.items(value)
    return _container(value, [part for pair in pairs for part in pair])


def _container(value: Any, items: list[Any]) -> Form:
    name = type(value).__qualname__
    if len(items) > _MOST_ITEMS:
        return unread(value, f" of {len(items):,} items")
    # Long lists of words and numbers are common, and are written at once.
    if all(type(item) in ATOMS for item in items):
        return Form([name, encode(items)])
    return Form([name], [("", item) for item in items])


def _set(value: Any) -> Form:
    base: Any = set if isinstance(value, set) else frozenset
    items = list(base.__iter__(value))
    name = type(value).__qualname__
    if len(items) > _MOST_ITEMS:
        return unread(value, f" of {len(items):,} items")
    # Sets of words are common, and may be long.
    if all(type(item) is str for item in items):
        return Form([name, encode(sorted(items))])
    return Form([name], [("", item) for item in items], unordered=True)


def _error(value: BaseException) -> Form:
    return Form([type(value).__qualname__], [("", value.args)])


def _span(value: Any) -> Form:
    return Form([type(value).__name__], [("", value.start), ("", value.stop), ("", value.step)])


def _pattern(value: re.Pattern[Any]) -> Form:
    return Form(["pattern", str(value.flags)], [("", value.pattern)])


def _path(value: PurePath) -> Form:
    # An absolute one is another on each machine.
    return unread(value) if value.is_absolute() else Form(["path", value.as_posix()])


def _array(value: np.ndarray[Any, Any]) -> Form:
    if type(value) is not np.ndarray or value.nbytes > _MOST_BYTES or value.dtype.kind == "V":
        return unread(value)
    texts = ["array", value.dtype.str, str(value.shape)]
    if value.dtype.kind == "O":
        return Form(texts, [("", item) for item in value.flat])
    return Form([*texts, hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()])


def _number(value: np.generic) -> Form:
    if value.dtype.kind in "OV":
        return unread(value)
    return Form(["scalar", value.dtype.str, value.tobytes().hex()])


def by_name(value: Any) -> Form:
    """What stands for a function or class of an installed package."""
    # Where inside of a package is the package's own affair.
    package = str(getattr(value, "__module__", None)).partition(".")[0]
    return Form(["name", package, value.__qualname__])


def _printed(value: Any) -> Form:
    return Form([type(value).__name__, repr(value)])


def _ufunc(value: np.ufunc) -> Form:
    return Form(["ufunc", value.__name__])


def _silent(value: Any) -> Form:
    return Form(["type", type(value).__qualname__])


def _module(value: types.ModuleType) -> Form:
    names = stored(value)
    return unread(value) if source.is_users(names) else Form(["module", str(names["__name__"])])


def _method(value: types.MethodType) -> Form:
    return Form(["method"], [("", value.__func__), ("self", value.__self__)])


def _builtin(value: types.BuiltinFunctionType) -> Form:
    owner = value.__self__
    form = by_name(value)
    bound = owner is not None and not isinstance(owner, (types.ModuleType, type))
    return form._replace(parts=[("self", owner)]) if bound else form


def _partial(value: functools.partial[Any]) -> Form:
    given = sorted(value.keywords.items())
    return Form(["partial"], [("", value.func), ("", value.args), *given])


def _descriptor(*names: str) -> Callable[[Any], Form]:
    def form(value: Any) -> Form:
        return Form([type(value).__name__], [("", getattr(value, name)) for name in names])

    return form


def _alias(value: Any) -> Form:
    return Form(["alias"], [("", value.__origin__), ("", value.__args__)])


def _union(value: types.UnionType) -> Form:
    return Form(["union"], [("", value.__args__)])


def _unknown(value: Unknown) -> Form:
    return Form(["unread", value.partition(" ")[0]], unread=str(value))


FORMS: dict[Any, Callable[[Any], Form]] = {
    **dict.fromkeys(ATOMS, _atom),
    **dict.fromkeys((list, tuple), _sequence),
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys((range, slice), _span),
    **dict.fromkeys((complex, type(Ellipsis), type(NotImplemented)), _printed),
    **dict.fromkeys((types.BuiltinFunctionType, types.MethodWrapperType), _builtin),
    **dict.fromkeys(_METHODS, by_name),
    **dict.fromkeys((classmethod, staticmethod), _descriptor("__func__")),
    **dict.fromkeys(_SILENT, _silent),
    collections.deque: _deque,
    BaseException: _error,
    dict: _dict,
    re.Pattern: _pattern,
    PurePath: _path,
    np.ndarray: _array,
    np.generic: _number,
    np.ufunc: _ufunc,
    types.ModuleType: _module,
    types.MethodType: _method,
    types.GenericAlias: _alias,
    types.UnionType: _union,
    functools.partial: _partial,
    functools.partialmethod: _descriptor("func", "args", "keywords"),
    functools.cached_property: _descriptor("func"),
    property: _descriptor("fget", "fset", "fdel"),
    Unknown: _unknown,
}
