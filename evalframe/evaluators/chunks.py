"""Lists of context chunks: what was retrieved, and what is true.

chunks_of   a row's value -> chunks in their order
"""

from __future__ import annotations

import math
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


class ChunkError(ValueError):
    """A value that is no list of chunks; becomes a failed cell."""


def chunks_of(value: Any, what: str) -> list[Chunk]:
    """The chunks of one row; none for null.

    Args:
        value: A list of texts or {"document", "relevance"} dicts, or a single one of these
            (a text is one chunk, and never walked letter by letter).
        what: The parameter, for messages.

    Raises:
        ChunkError: An item is neither, or its relevance is no number in [-1, 1].
    """
    if value is None:
        return []
    items = value if isinstance(value, (list, tuple)) else [value]
    return [_chunk(item, f"item {place} of {what}") for place, item in enumerate(items, 1)]


def _chunk(item: Any, what: str) -> Chunk:
    if isinstance(item, str):
        return Chunk(item)
    if not isinstance(item, dict) or not item.keys() <= _KEYS:
        message = f"{what} is {describe(item)}; give a text, or a dict of document and relevance"
        raise ChunkError(message)
    document, relevance = item.get("document"), item.get("relevance")
    if not isinstance(document, str):
        message = f"the document of {what} is {describe(document)}, not text"
        raise ChunkError(message)
    if relevance is None:
        return Chunk(document)
    number = isinstance(relevance, (int, float)) and not isinstance(relevance, bool)
    if not number or not math.isfinite(relevance) or not -1 <= relevance <= 1:
        message = f"the relevance of {what} is {describe(relevance)}; it must be in [-1, 1]"
        raise ChunkError(message)
    return Chunk(document, float(relevance))
