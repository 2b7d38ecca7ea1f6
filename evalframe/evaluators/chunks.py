"""Lists of context chunks: what was retrieved, and what is true.

chunks_of     a row's value -> chunks in their order, for those who read their texts
passages_of   the same for those who only compare them, so that they may be ids as well
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from evalframe.evaluators.normalize import describe

NO_CONTEXTS = "no contexts"

_KEYS = {"document", "relevance"}


class Chunk(NamedTuple):
    """A piece of context.

    Attributes:
        document: Its text, or its id.
        relevance: How closely it matches the query, in [-1, 1]; None where it is not known.
    """

    document: str
    relevance: float | None = None

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it."""
        return not self.document.strip()


class Passage(NamedTuple):
    """A piece of context that is compared with others.

    Attributes:
        key: Its text without white space around it, or its id.
        relevance: As in `Chunk`.
    """

    key: str | int
    relevance: float | None = None


class ChunkError(ValueError):
    """A value that is no list of chunks; becomes a failed cell."""


def chunks_of(value: Any, what: str) -> list[Chunk]:
    """The chunks of one row; none for null.

    Args:
        value: A list of texts or {"document", "relevance"} dicts, JSON text of such a list (as
            CSV files have it), or a single one of these (other text is one chunk, and never
            walked letter by letter).
        what: The parameter, for messages.

    Raises:
        ChunkError: An item is neither, or its relevance is no number in [-1, 1].
    """
    return [Chunk(*parts) for parts in _items(value, what, ids=False)]


def passages_of(value: Any, what: str) -> list[Passage]:
    """The passages of one row; none for null.

    Args:
        value: A list of texts, whole numbers or {"document", "relevance"} dicts, or a single
            one of these.
        what: The parameter, for messages.

    Raises:
        ChunkError: An item is none of these, or its relevance is no number in [-1, 1].
    """
    kinds = set(map(type, value)) if isinstance(value, (list, tuple)) else None
    # Most lists are all texts or all ids, of which nothing has to be checked one by one.
    if kinds == {str}:
        return [Passage(text.strip()) for text in value]
    if kinds == {int}:
        return [Passage(number) for number in value]
    parts = _items(value, what, ids=True)
    return [
        Passage(key.strip() if isinstance(key, str) else key, relevance) for key, relevance in parts
    ]


def _items(value: Any, what: str, *, ids: bool) -> list[tuple[Any, float | None]]:
    if value is None:
        return []
    items = value if isinstance(value, (list, tuple)) else _written(value, ids=ids)
    return [_item(item, f"item {place} of {what}", ids=ids) for place, item in enumerate(items, 1)]


def _written(value: Any, *, ids: bool) -> list[Any]:
    """The list that a text is the JSON of, else the value alone: "[1] says so" is a text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
        if all(isinstance(item, dict) or _names(item, ids=ids) for item in found):
            return list(found)
    return [value]


def _item(item: Any, what: str, *, ids: bool) -> tuple[Any, float | None]:
    if _names(item, ids=ids):
        return item, None
    known = "a text, a whole number" if ids else "a text"
    if not isinstance(item, dict) or not item.keys() <= _KEYS:
        message = f"{what} is {describe(item)}; give {known}, or a dict of document and relevance"
        raise ChunkError(message)
    document, relevance = item.get("document"), item.get("relevance")
    if not _names(document, ids=ids):
        wanted = "neither text nor a whole number" if ids else "not text"
        message = f"the document of {what} is {describe(document)}, {wanted}"
        raise ChunkError(message)
    if relevance is None:
        return document, None
    number = isinstance(relevance, (int, float)) and not isinstance(relevance, bool)
    # The bounds first: a whole number may be too large for a float.
    if not number or not -1 <= relevance <= 1:
        message = f"the relevance of {what} is {describe(relevance)}; it must be in [-1, 1]"
        raise ChunkError(message)
    return document, float(relevance)


def _names(value: Any, *, ids: bool) -> bool:
    """Whether it stands for a piece of context: a text, or an id where these are taken."""
    return isinstance(value, str) or (
        ids and isinstance(value, int) and not isinstance(value, bool)
    )
