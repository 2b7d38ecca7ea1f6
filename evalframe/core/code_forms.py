"""The forms of functions, classes and their objects: one level of each.

Owns   what counts of code, and which names of it lead on.
Leaves following the parts, and the digest, to fingerprint.py; other values to value_forms.py.

Nothing of the user's is ever called: attributes are read where they are stored, past
properties, and no object is printed, compared or hashed.

form_of          any object -> Form
is_users_class   whether a class is of the user's own
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evalframe.core import source
from evalframe.core.form import CHANGES, Described, Form, Part, Unknown, stored, unread
from evalframe.core.value_forms import FORMS, by_name

_EMPTY = "nothing yet"
# How slots and the fields of named tuples are stored in their classes.
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(Form)["texts"]))
_MOST_WRAPPERS = 100
_NO_DEFAULT = FieldInfo().default
_BARE = (object, abc.ABC, Generic, Protocol)
# What tells one form of a type hint from another.
_HINT = ("_name", "__name__", "__origin__", "__args__", "__metadata__", "__forward_arg__")


def form_of(value: Any) -> Form:
    """What stands for an object; whatever it is, there is something."""
    kind = type(value)
    try:
        if issubclass(kind, enum.Enum):
            return _member(value)
        for base in kind.__mro__:
            make = _FORMS.get(base)
            if make is not None:
                form = make(value)
                own = base is not kind and is_users_class(kind)
                return form._replace(parts=[*form.parts, ("", kind)]) if own else form
        return _instance(value)
    except Exception:  # noqa: BLE001 - an object that cannot be read has its type
        return unread(value)


def _member(value: enum.Enum) -> Form:
    held = stored(value)
    return Form(["member", str(held["_name_"])], [("", held["_value_"]), ("", type(value))])


def _function(value: types.FunctionType) -> Form:
    code, module = value.__code__, value.__globals__
    wrapped = _wrapped(value)
    if not source.is_users(module) or _is_made(code):
        return by_name(value)._replace(parts=wrapped, once=True)
    written = source.source_of(code, module)
    changed = written.changed if written is not None else frozenset()
    parts: list[Part] = [("", value.__defaults__), ("", value.__kwdefaults__), *wrapped]
    closed = zip(code.co_freevars, value.__closure__ or (), strict=True)
    parts += [(name, _in_cell(name, cell, changed)) for name, cell in sorted(closed)]
    if written is None:
        paths = [(name,) for name in sorted(_names(code))]
        parts += _reached(paths, code, module, changed)
        compiled = list(_compiled(code))
        parts += [("", constant) for _, constants in compiled for constant in constants]
        return Form(
            ["byte code", *(text for texts, _ in compiled for text in texts)], parts, once=True
        )
    parts += _reached(written.paths(), code, module, changed)
    parts += [(name, Unknown("module")) for name in written.imported() if _is_users_package(name)]
    return Form(["function", *source.tokens(written.node)], parts, once=True)


def _compiled(code: types.CodeType) -> Iterator[tuple[list[str], list[Any]]]:
    """What a function without source is known by: instructions and names, and its constants.

    All of it is equal in every process, but instructions are those of one version of Python.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    instructions = (code.co_code, code.co_exceptiontable)
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    texts = [code.co_name, *map(str, counts), *(part.hex() for part in instructions)]
    texts += [" ".join(group) for group in names]
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    yield texts, [part for part in code.co_consts if not isinstance(part, types.CodeType)]
    for part in inner:
        yield from _compiled(part)


def _wrapped(function: types.FunctionType) -> list[Part]:
    """What a function was made around: by its mark, or as a decorator keeps what it was given."""
    found = [v for name, v in function.__dict__.items() if name == "__wrapped__"]
    if not source.is_users(function.__globals__):
        held = [_in_cell("", cell, frozenset()) for cell in function.__closure__ or ()]
        # functools.singledispatch keeps its functions in a dict.
        held += [v for table in held if type(table) is dict for v in table.values()]
        found += [v for v in held if type(v) in (types.FunctionType, types.MethodType)]
    return [("", v) for v in found]


def _in_cell(name: str, cell: types.CellType, changed: frozenset[str]) -> Any:
    try:
        return _unless_changed(name, cell.cell_contents, changed)
    except ValueError:
        return _EMPTY


def _unless_changed(name: str, value: Any, changed: frozenset[str]) -> Any:
    code = (types.FunctionType, types.ModuleType, type)
    if name not in changed or issubclass(type(value), code):
        return value
    return Unknown(f"{type(value).__qualname__} {CHANGES}")


def _names(code: types.CodeType) -> set[str]:
    """The names that code and functions inside it look up outside of them; attributes, too."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _reached(
    paths: Sequence[tuple[str, ...]],
    code: types.CodeType,
    module: Mapping[str, Any],
    changed: frozenset[str],
) -> Iterator[Part]:
    """What dotted names stand for; through modules of the user's to what is read of them."""
    known = _names(code)
    for root, *rest in paths:
        if root not in known or root not in module or _is_dunder(root):
            continue
        label, value = root, module[root]
        for name in rest:
            inside = _names_in(value)
            if name not in inside:
                break
            if type(value) is types.FunctionType:
                yield label, value
            label, value = f"{label}.{name}", inside[name]
        yield label, _unless_changed(root, value, changed)


def _names_in(value: Any) -> Mapping[str, Any]:
    """Where a dotted name goes on: in a module of the user's, or to what a function was given."""
    if type(value) is types.FunctionType:
        return value.__dict__
    names = stored(value) if issubclass(type(value), types.ModuleType) else {}
    return names if names and source.is_users(names) else {}


def _is_users_package(name: str) -> bool:
    return name == "." or source.is_users_package(name)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_made(code: types.CodeType) -> bool:
    """Whether a function was generated, as those of a dataclass are."""
    return code.co_filename == "<string>" and _is_dunder(code.co_name)


def _innermost(function: types.FunctionType) -> types.FunctionType:
    """What a function wraps, if that is a function, and what this wraps."""
    for _ in range(_MOST_WRAPPERS):
        inner = function.__dict__.get("__wrapped__")
        if type(inner) is not types.FunctionType:
            break
        function = inner
    return function


def _class(value: type) -> Form:
    names = type.__dict__["__dict__"].__get__(value)
    if not is_users_class(value):
        return by_name(value)._replace(once=True)
    parts: list[Part] = [("", base) for base in value.__bases__]
    beside = value._beside if issubclass(value, Described) else frozenset()  # noqa: SLF001 - for this
    if issubclass(value, BaseModel):
        # Both are in the schema that a model is asked for.
        parts += [("", names.get("__doc__")), *names.get("__pydantic_fields__", {}).items()]
    parts += names.get("__annotations__", {}).items()
    if issubclass(value, enum.Enum):
        parts += [(name, stored(one)["_value_"]) for name, one in names["_member_map_"].items()]
    counted = {n: v for n, v in names.items() if n not in beside and _is_counted(n, v, value)}
    parts += [(f".{name}", counted[name]) for name in sorted(counted)]
    return Form(["class", value.__name__], parts, once=True)


def is_users_class(value: type) -> bool:
    """Whether a class is written in a module of the user's, or in none."""
    module = sys.modules.get(str(type.__dict__["__module__"].__get__(value)))
    return module is None or source.is_users(stored(module))


def _is_counted(name: str, value: Any, owner: type) -> bool:
    """Whether an attribute of a class says what the class does, and not how it was made."""
    kind = type(value)
    if kind in _FIELDS:
        return False
    if _is_dunder(name):
        return kind is types.FunctionType and not _is_made(_innermost(value).__code__)
    if issubclass(owner, enum.Enum):
        return kind in (types.FunctionType, classmethod, staticmethod)
    return name != "_abc_impl"


def _instance(value: Any) -> Form:
    kind = type(value)
    if issubclass(kind, Described):
        given: dict[str, Any] = dict(value._described())  # noqa: SLF001 - it is for this
        return Form(["object"], list(given.items()), once=True)
    held = stored(value)
    if kind is FieldInfo:
        return Form(["field"], sorted((n, v) for n, v in held.items() if _is_said(n, v)))
    if kind.__module__ == "typing":
        return Form(["hint", kind.__name__], [(n, held[n]) for n in _HINT if n in held])
    if _is_data(kind):
        changed = _changed_by_methods(kind)
        attributes = [
            (f".{name}", _unless_changed(name, item, changed))
            for name, item in sorted(held.items())
            if not _is_dunder(name)
        ]
        return Form(["instance"], [("", kind), *attributes], once=True)
    form = unread(value)._replace(once=True)
    if "__wrapped__" in held:
        return form._replace(parts=[("", held["__wrapped__"])], unread=None)
    return form._replace(parts=[("", kind)] if is_users_class(kind) else [])


def _is_data(kind: type) -> bool:
    """Whether an object's attributes are values: a client of some package has its own affairs."""
    if not is_users_class(kind):
        return bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
    if dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel):
        return True
    return all(map(is_users_class, _own_bases(kind)))


def _is_said(name: str, value: Any) -> bool:
    unsaid = value is None or value is _NO_DEFAULT
    return not unsaid and not name.startswith("_") and name != "evaluated"


def _own_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base not in _BARE]


def _changed_by_methods(kind: type) -> frozenset[str]:
    found: set[str] = set()
    for base in filter(is_users_class, _own_bases(kind)):
        for member in type.__dict__["__dict__"].__get__(base).values():
            if type(member) is types.FunctionType:
                written = source.source_of(member.__code__, member.__globals__)
                found |= set() if written is None else written.changed_attributes()
    return frozenset(found)


_FORMS: dict[Any, Callable[[Any], Form]] = {
    **FORMS,
    types.FunctionType: _function,
    type: _class,
}
