"""Prompts: Jinja2 templates that see one row, in a sandbox, and print no null.

Owns   which fields a template reads, and rendering it.
Leaves what a template may do to sandbox.py, which column a field is to the binding of the run.

Data is never a template: one pass, nothing in a value is evaluated. `item.x` is a key of the
row and `item.x.y` a key of its value, never an attribute. Text is not escaped for HTML; lists
and dicts print as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError, TemplateError, UndefinedError

from evalframe.core.errors import nearest
from evalframe.llm.sandbox import GLOBALS, Environment, NullGuard, NullPrintedError

ITEM = "item"
ROLES = ("system", "developer", "user", "assistant")

_FORBIDDEN = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class PromptError(ValueError):
    """A template that cannot be used; raised when it is built."""


class FieldError(Exception):
    """A template that failed on a row: a key is not there, or an operation does not fit."""


class NullFieldError(Exception):
    """A template would have printed a null on this row; `field` names it."""

    def __init__(self, field: str) -> None:
        """Keep the field."""
        super().__init__(f"{field} is null")
        self.field = field


class Prompt:
    """One template, or a list of messages of templates.

    Attributes:
        names: Fields that are read as `item.<name>`, in order.
        whole_row: Whether `item` is also used as a whole.
    """

    def __init__(self, prompt: Any, *, system_prompt: str | None = None) -> None:
        """Parse the templates.

        Args:
            prompt: Text for the user message, or a list of {"role", "content"} dicts.
            system_prompt: Text for a first message.

        Raises:
            PromptError: A template is not Jinja2's, does what the sandbox forbids, or reads
                names that are not there.
        """
        messages = _messages(prompt)
        if system_prompt is not None:
            messages = _messages([{"role": "system", "content": system_prompt}]) + messages
        environment = Environment()
        self._messages = [(role, _compiled(environment, text)) for role, text in messages]
        paths: dict[tuple[str, ...], None] = {}
        self.whole_row = False
        for _, text in messages:
            found, whole = _reads(environment.parse(text))
            paths |= dict.fromkeys(found)
            self.whole_row |= whole
        self._paths = tuple(paths)
        self.names = tuple(dict.fromkeys(path[0] for path in paths))

    def render(self, item: Mapping[str, Any]) -> list[dict[str, str]]:
        """The messages for one row.

        Args:
            item: Field -> plain Python value.

        Raises:
            NullFieldError: A null would be printed.
            FieldError: A key is not there, or an operation does not fit its value.
        """
        try:
            return [
                {"role": role, "content": template.render(item=item)}
                for role, template in self._messages
            ]
        except NullPrintedError:
            raise NullFieldError(_null_of(self._paths, item)) from None
        except UndefinedError as exc:
            raise FieldError(self._undefined(item, exc)) from None
        except Exception as exc:  # noqa: BLE001 - an operation of the template on a value
            message = f"the prompt failed: {type(exc).__name__}: {exc}"
            raise FieldError(message) from None

    def _undefined(self, item: Mapping[str, Any], exc: UndefinedError) -> str:
        for path in self._paths:
            if _follow(item, path) is _MISSING:
                return f"item.{'.'.join(path)}: {exc}"
        return str(exc)


class Condition:
    """A Jinja expression over one row, for `run_if`.

    Attributes:
        text: The expression.
        names: Fields that it reads.
        whole_row: Whether `item` is used as a whole.
    """

    def __init__(self, text: str) -> None:
        """Parse the expression.

        Raises:
            PromptError: It is none, or does what the sandbox forbids.
        """
        self.text = text
        environment = Environment()
        try:
            tree = environment.parse(f"{{{{ {text} }}}}")
            _check(tree)
            self._expression = environment.compile_expression(text, undefined_to_none=False)
        except (TemplateError, SecurityError) as exc:
            message = f"run_if={text!r} is no expression: {exc.message}"
            raise PromptError(message) from None
        self._paths, self.whole_row = _reads(tree)
        self.names = tuple(dict.fromkeys(path[0] for path in self._paths))

    def holds(self, item: Mapping[str, Any]) -> bool:
        """Whether it is true of a row.

        Raises:
            NullFieldError: It would work on a null.
            FieldError: A key is not there, or an operation does not fit its value.
        """
        try:
            return bool(self._expression(item=item))
        except NullPrintedError:
            raise NullFieldError(_null_of(self._paths, item)) from None
        except Exception as exc:  # noqa: BLE001 - an operation of the expression on a value
            message = f"run_if failed: {type(exc).__name__}: {exc}"
            raise FieldError(message) from None

    def __repr__(self) -> str:
        """The expression."""
        return f"Condition({self.text!r})"


def _null_of(paths: Sequence[tuple[str, ...]], item: Mapping[str, Any]) -> str:
    for path in paths:
        for size in range(1, len(path) + 1):
            if _follow(item, path[:size]) is None:
                return ".".join(path[:size])
    return "a value in the prompt"


_MISSING = object()


def _follow(item: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(item, Mapping) or key not in item:
            return _MISSING
        item = item[key]
    return item


def _messages(prompt: Any) -> list[tuple[str, str]]:
    if isinstance(prompt, str):
        return [("user", prompt)]
    found = []
    for message in prompt if isinstance(prompt, (list, tuple)) else [None]:
        parts = dict(message) if isinstance(message, dict) else {}
        role, content = parts.get("role"), parts.get("content")
        if parts.keys() != {"role", "content"} or role not in ROLES or not isinstance(content, str):
            text = (
                "A prompt is text, or a list of messages such as "
                f"{{'role': 'user', 'content': '...'}} with a role of {ROLES}, not {message!r}."
            )
            raise PromptError(text)
        found.append((role, content))
    if not found:
        text = "A prompt needs at least one message."
        raise PromptError(text)
    return found


def _compiled(environment: Environment, text: str) -> Any:
    try:
        tree = environment.parse(text)
        _check(tree)
        guarded = NullGuard().visit(tree)
        code = environment.compile(guarded, "prompt", "<prompt>")
        return environment.template_class.from_code(environment, code, environment.globals, None)
    except (TemplateError, SecurityError) as exc:
        line = getattr(exc, "lineno", None)
        where = f" (line {line})" if line else ""
        message = f"The prompt is no valid template{where}: {exc.message}"
        raise PromptError(message) from None


def _check(tree: nodes.Template) -> None:
    for node in tree.find_all(_FORBIDDEN):
        message = f"the prompt cannot use {type(node).__name__.lower()} (line {node.lineno})"
        raise SecurityError(message)
    found: Any = tree.find_all((nodes.Getattr, nodes.Name))
    for node in found:
        name = node.attr if isinstance(node, nodes.Getattr) else node.name
        if isinstance(node, nodes.Name) and node.ctx != "load" and name == ITEM:
            message = "'item' is the row, and cannot be set: name the variable otherwise"
            raise TemplateError(message)
        if name.startswith("__"):
            message = f"{name!r} is no field: prompts see keys of the row, never attributes"
            raise SecurityError(message)
    unknown = sorted(meta.find_undeclared_variables(tree) - {ITEM, *GLOBALS})
    if unknown:
        near = nearest(unknown[0], [ITEM])
        hint = (
            " Did you mean 'item'?" if near is not None else f" Write {{{{ item.{unknown[0]} }}}}."
        )
        names = ", ".join(map(repr, unknown))
        message = f"{names} is not known: fields of the row are read as item.<name>.{hint}"
        raise TemplateError(message)


def _reads(tree: nodes.Template) -> tuple[list[tuple[str, ...]], bool]:
    """The paths below `item`, and whether `item` is used as a whole."""
    paths: list[tuple[str, ...]] = []
    inner: set[int] = set()
    whole = False
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if id(node) in inner:
            continue
        path: list[str] = []
        at: Any = node
        while isinstance(at, (nodes.Getattr, nodes.Getitem)):
            inner.add(id(at))
            key = at.attr if isinstance(at, nodes.Getattr) else getattr(at.arg, "value", None)
            path = [key, *path] if isinstance(key, str) else []
            at = at.node
        if isinstance(at, nodes.Name) and at.name == ITEM:
            inner.add(id(at))
            whole |= not path
            paths += [tuple(path)] if path else []
    names = tree.find_all(nodes.Name)
    whole |= any(node.name == ITEM and id(node) not in inner for node in names)
    return paths, whole
