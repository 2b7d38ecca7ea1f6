"""The source of a function that is running, in a form that formatting does not change.

Owns   which source is a code object's own, its normal form, and the names it reads or changes.
Leaves what the names stand for to fingerprint.py.

Source       a function's syntax tree, seen to be the one it runs
source_of    code object -> Source, or None where it cannot be had or is another by now
tokens       syntax tree -> its normal form
is_users     whether a module is the user's own, and not an installed one

The normal form is made here and not by `ast.dump` or `ast.unparse`: both change with Python's
versions. Comments, blank lines, line breaks, quotes and docstrings are not in it.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import os
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NOT_COUNTED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_CHANGERS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop"}
    | {"popitem", "remove", "reverse", "setdefault", "sort", "update"}
)
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})
# Where there is another loader, what runs may be compiled from another text than the file's. A
# notebook's namespace has the loader of the program that runs it, or none.
_PLAIN_LOADERS = (SourceFileLoader, type, type(None))
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")
)
_OWN = str(Path(__file__).parent.parent) + os.sep


class Source(NamedTuple):
    """Where a function is written.

    Attributes:
        node: The function's own part of the tree.
        changed: Names outside of the function that some function of the same file changes.
    """

    node: Function
    changed: frozenset[str]

    def changed_attributes(self) -> set[str]:
        """Attributes of its first argument that a method changes after that has been made."""
        arguments = _arguments(self.node)
        if not arguments or getattr(self.node, "name", "") in _MAKERS:
            return set()
        paths = (path for path in _touched(self.node) if path[0] == arguments[0])
        return {path[1] for path in paths if len(path) > 1}

    def imported(self) -> list[str]:
        """First names of what it imports when called; "." of its own package."""
        found: dict[str, None] = {}
        for node in ast.walk(self.node):
            if isinstance(node, ast.Import):
                found |= dict.fromkeys(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.setdefault("." if node.level else (node.module or "").partition(".")[0])
        return list(found)

    def paths(self) -> list[tuple[str, ...]]:
        """The dotted names that it reads, in their order; local ones are among them."""
        found: dict[tuple[str, ...], None] = {}
        inner: set[int] = set()
        for node in ast.walk(self.node):
            path: list[str] = []
            at: ast.AST = node
            while isinstance(at, ast.Attribute):
                path.insert(0, at.attr)
                inner.add(id(at.value))
                at = at.value
            if isinstance(at, ast.Name) and id(node) not in inner:
                found.setdefault((at.id, *path))
        return list(found)


class _File(NamedTuple):
    """One source text, parsed; `codes` are the code objects that it compiles to."""

    functions: list[Function]
    changed: frozenset[str]
    codes: frozenset[CodeType]


def source_of(code: CodeType, module: dict[str, Any]) -> Source | None:
    """The source that a code object was made of.

    A file may have been edited since it was imported: its text is compiled again, and counts
    only where that gives the very same code. Where an import hook rewrote what it compiled (as
    pytest's does), the place in the file has to do.

    Args:
        code: Of a function.
        module: The globals of that function.

    Returns:
        None where there is no source, or where it is not that of the code.
    """
    # What was read before comes first: it may be older than the file, as the code may be.
    for again in (False, True):
        if again:
            linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename, module))
        read = _read(text, code.co_flags & _FUTURE) if text else None
        if read is None:
            continue
        node = _found(code, read.functions)
        if node is not None and (_bare(code) in read.codes or _is_rewritten(module)):
            return Source(node, read.changed)
    return None


@functools.lru_cache(maxsize=128)
def _read(text: str, flags: int) -> _File | None:
    try:
        with warnings.catch_warnings():
            # What a user's source is warned for was said when it was imported.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compiled = compile(text, "<source>", "exec", flags, dont_inherit=True)
        functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
        changed = frozenset().union(*map(_changed, functions))
        codes = frozenset(map(_bare, _inside(compiled)))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None
    return _File(functions, changed, codes)


def _inside(code: CodeType) -> Iterator[CodeType]:
    waiting = [code]
    while waiting:
        found = [part for part in waiting.pop().co_consts if isinstance(part, CodeType)]
        yield from found
        waiting += found


def _bare(code: CodeType) -> CodeType:
    """The code without positions in lines, which an interpreter's options leave out."""
    constants = tuple(
        _bare(part) if isinstance(part, CodeType) else part for part in code.co_consts
    )
    return code.replace(co_consts=constants, co_linetable=b"", co_filename="")


def _is_rewritten(module: Mapping[str, Any]) -> bool:
    return type(module.get("__loader__")) not in _PLAIN_LOADERS


def _found(code: CodeType, functions: list[Function]) -> Function | None:
    """The function at the place that the code was compiled from."""
    found = [
        node
        for node in functions
        if _first_line(node) == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
        and _has_arguments(node, code)
    ]
    if len(found) < 2:  # noqa: PLR2004 - several lambdas on a line
        return found[0] if found else None
    found = [node for node in found if _holds(node, code)]
    # Of lambdas inside each other the outer one holds all that the inner one does.
    inner = max(found, key=lambda node: (node.lineno, node.col_offset), default=None)
    is_inside = all(any(part is inner for part in ast.walk(node)) for node in found)
    return inner if is_inside or len({tuple(tokens(node)) for node in found}) == 1 else None


def _has_arguments(node: Function, code: CodeType) -> bool:
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    written = _arguments(node)
    # In a class, `__x` is kept as `_Class__x`.
    return len(given) == len(written) and all(map(str.endswith, given, written))


def _first_line(node: Function) -> int:
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def _arguments(node: Function) -> list[str]:
    given = node.args
    return [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _holds(node: Function, code: CodeType) -> bool:
    """Whether the body holds every instruction; without columns, any may."""
    body = node.body if isinstance(node, ast.Lambda) else node
    start = (body.lineno, body.col_offset)
    end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
    for line, last, column, last_column in code.co_positions():
        # Bookkeeping of the interpreter has no columns, or none of its own.
        if None in (line, last, column, last_column) or not last_column:
            continue
        if not start <= (line, column) or not (last, last_column) <= end:
            return False
    return True


def _changed(function: Function) -> set[str]:
    """Names from outside that a function assigns anew, or whose values it changes in place."""
    own = {*_arguments(function)}
    outer: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    return ({path[0] for path in _touched(function)} - own) | outer


def _touched(function: Function) -> Iterator[list[str]]:
    """Dotted names into which something is stored, or whose values are changed in place."""
    for node in ast.walk(function):
        if not isinstance(node, (ast.Subscript, ast.Attribute)):
            continue
        if isinstance(node.ctx, ast.Load) and getattr(node, "attr", "") not in _CHANGERS:
            continue
        path: list[str] = []
        at: ast.AST = node
        while isinstance(at, (ast.Subscript, ast.Attribute)):
            path = [at.attr, *path] if isinstance(at, ast.Attribute) else []
            at = at.value
        if isinstance(at, ast.Name):
            yield [at.id, *path]


def tokens(root: ast.AST) -> Iterator[str]:
    """The normal form of a tree: texts which, in their order, stand for it and no other.

    Decorators of `root` itself are left out: what they made of it is what is called.
    """
    waiting: list[Any] = [root]
    while waiting:
        at = waiting.pop()
        if isinstance(at, ast.AST):
            parts = _parts(at, decorated=at is not root)
            yield f"{type(at).__name__} {len(parts)}"
            waiting += [part for pair in reversed(parts) for part in reversed(pair)]
        elif isinstance(at, list):
            yield f"list {len(at)}"
            waiting += reversed(at)
        elif isinstance(at, _Name):
            yield at
        else:
            # Constants; ascii() for a text is the same in every version of Unicode.
            yield f"{type(at).__name__} {hex(at) if type(at) is int else ascii(at)}"


class _Name(str):
    """The name of a field, to be told from a text that the source holds."""

    __slots__ = ()


def _parts(node: ast.AST, *, decorated: bool) -> list[tuple[_Name, Any]]:
    found = []
    for name in node._fields:
        value = getattr(node, name, None)
        if name in _NOT_COUNTED or (value is None and not isinstance(node, ast.Constant)):
            continue
        if name == "decorator_list" and not decorated:
            continue
        if name == "body" and isinstance(node, _DOCUMENTED):
            value = _without_docstring(node)
        if value != []:
            found.append((_Name(name), value))
    return found


def _without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[Any]:
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1:] if documented and ast.get_docstring(node) is not None else node.body


def is_users(module: Mapping[str, Any]) -> bool:
    """Whether the globals are those of a module that the user wrote.

    Neither the standard library nor installed packages are, but scripts, notebooks and
    packages that are worked on where they are.
    """
    name = module.get("__name__")
    if name == "__main__":
        return True
    file = module.get("__file__")
    if isinstance(file, str):
        return is_users_file(file)
    spec = module.get("__spec__")
    # Without a file: made while running, unless it is compiled into the interpreter.
    return getattr(spec, "origin", None) not in ("built-in", "frozen")


@functools.lru_cache(maxsize=4096)
def is_users_file(file: str) -> bool:
    """Whether a source file is the user's own."""
    path = os.path.realpath(file)
    if not _INSTALLED.isdisjoint(Path(path).parts) or path.startswith(os.path.realpath(_OWN)):
        return False
    return not path.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=1024)
def is_users_package(name: str) -> bool:
    """Whether a top-level name that a function imports is the user's; nothing is imported."""
    try:
        spec = PathFinder.find_spec(name)
    except Exception:  # noqa: BLE001 - a path hook may raise anything
        return False
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(map(is_users_file, places))
