"""Replies of the judged evaluators of retrieval and answers: objects that hold lists.

verdicts     one verdict for each of a number of contexts, in their order
statements   statements, each with a verdict
texts        several lists of statements
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from evalframe.core import schema
from evalframe.llm.connect import InvalidReplyError
from evalframe.llm.structured import ReplyCheck, read_object, strict_schema

VERDICTS = "verdicts"
STATEMENTS = "statements"
STATEMENT = "statement"
REASON = "reason"
VERDICT = "verdict"

_TEXT = {"type": "string"}


class ListReading:
    """Reads a reply that is an object of lists; a blank statement makes it invalid."""

    labels: list[str] | None = None

    def __init__(self, lists: Mapping[str, Mapping[str, Any]], count: int | None = None) -> None:
        """Make the schema.

        Args:
            lists: Name -> schema of the items.
            count: Exactly how many items each has; None for any number.
        """
        bounds = {} if count is None else {"minItems": count, "maxItems": count}
        properties = {
            name: {"type": "array", "items": dict(items), **bounds} for name, items in lists.items()
        }
        wanted = {"type": "object", "properties": properties, "required": [*properties]}
        self.schema = strict_schema(wanted)
        self._count = count
        self._check = ReplyCheck(self.schema)

    def read(self, text: str) -> dict[str, Any]:
        """Name -> list, as the schema has it.

        Raises:
            InvalidReplyError: A list is of another length, a statement is blank, or something
                else breaks the schema.
        """
        found = read_object(text)
        problem = self._count_problem(found)
        if problem is None:
            found = self._check.checked(found, text)
            blank = any(not statement.strip() for statement in _statements(found))
            problem = "a statement of the reply is blank" if blank else None
        if problem is not None:
            raise InvalidReplyError(schema.PARSE, problem, text, ask_again=True)
        return found

    def _count_problem(self, found: Mapping[str, Any]) -> str | None:
        for name, items in found.items():
            if self._count is not None and isinstance(items, list) and len(items) != self._count:
                return f"the reply has {len(items)} {name}, not {self._count}"
        return None


def _statements(found: Mapping[str, list[Any]]) -> Iterator[str]:
    for items in found.values():
        for item in items:
            if isinstance(item, str):
                yield item
            elif STATEMENT in item:
                yield item[STATEMENT]


def _items(options: tuple[str, ...], *before: str) -> dict[str, Any]:
    # The reason first, so that the verdict follows from it.
    properties: dict[str, Any] = dict.fromkeys((*before, REASON), _TEXT)
    properties[VERDICT] = {"type": "string", "enum": list(options)}
    return {"type": "object", "properties": properties, "required": [*properties]}


# One reading for a number: it is the key of what a run keeps for it.
@functools.lru_cache(maxsize=1024)
def verdicts(count: int) -> ListReading:
    """{"verdicts": [{"reason", "verdict": "yes" | "no"}]} with so many items."""
    return ListReading({VERDICTS: _items(("yes", "no"))}, count)


@functools.cache
def statements(*options: str) -> ListReading:
    """{"statements": [{"statement", "reason", "verdict": one of the options}]}."""
    return ListReading({STATEMENTS: _items(options, STATEMENT)})


@functools.cache
def texts(*names: str) -> ListReading:
    """{name: [statement]} for each of the names."""
    return ListReading(dict.fromkeys(names, _TEXT))
