"""What one run embeds: each text once, in batches, and kept on disk.

Owns   which texts are sent, in which batches, and what becomes of a batch that fails.
Leaves sending to the sources in embedder.py, files to vectors.py.

It is asked for one block of rows after the other, so that no text is ever asked for twice at the
same time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from evalframe.core import schema
from evalframe.core.nested import without_surrogates
from evalframe.core.records import CallError
from evalframe.llm.chat import ChatError
from evalframe.llm.embedder import LocalVectors, VectorSource
from evalframe.llm.onnx_model import Spans
from evalframe.llm.vectors import Vectors, VectorStore, unit

# About 16,000 tokens of English, and four times as many of Chinese: servers take more at once.
_MOST_CHARACTERS = 64_000
# A server that refuses everything will refuse the rest: to send it text by text shows nothing new.
_MOST_REFUSED = 8
# What may be due to a single text, or to their number; 500 only where it says so. None: the
# request could not be sent.
_DUE_TO_TEXTS = (None, 400, 413, 422, 500)


class Found(NamedTuple):
    """Vectors of texts.

    Attributes:
        places: Text -> its row in `vectors`.
        vectors: Of length 1, or all zeros; shape (texts, dimensions).
        failed: Text -> the error cell, of those that have no vector.
    """

    places: dict[str, int]
    vectors: Vectors
    failed: dict[str, str]

    def of(self, texts: Iterable[str]) -> Vectors:
        """The vectors of these texts, in their order."""
        return self.vectors[[self.places[text] for text in texts]]

    def error(self, texts: Iterable[str]) -> str | None:
        """The error of the first of these texts that has no vector, None if all have one."""
        return next((self.failed[text] for text in texts if text in self.failed), None)


class Counts(Protocol):
    """What the cells of an evaluator have cost, as far as it is counted here."""

    cells: int
    cached: int
    shared: int


class Embeddings:
    """The vectors of one embedder in one run.

    Attributes:
        unread: Keys of the texts of which the local model does not know everything.
    """

    def __init__(
        self,
        source: VectorSource,
        store: VectorStore,
        *,
        counts: Callable[[str], Counts | None],
        failure: Callable[[BaseException], str],
        ends_at_failure: bool,
    ) -> None:
        """Start with nothing embedded.

        Args:
            source: Embeds a batch.
            store: Keeps vectors.
            counts: Name of an evaluator -> where its cells are counted, if they are.
            failure: The error cell of what a user's function raised.
            ends_at_failure: Whether nothing is embedded any more once a text has failed.
        """
        self._source = source
        self._store = store
        self._counts = counts
        self._failure = failure
        self._ends_at_failure = ends_at_failure
        self._failed: dict[bytes, str] = {}
        self._size = source.size
        self._slots = asyncio.Semaphore(source.at_once)
        self._first = asyncio.Lock()
        self._refusing = True  # until it has done anything else
        self._refused = 0  # that were not sent in halves, since the last answer
        self._refusal = ""
        self.unread: set[bytes] = set()

    @property
    def contextual(self) -> bool:
        """Whether it gives words as they stand in their text."""
        return isinstance(self._source, LocalVectors)

    @property
    def zero(self) -> str:
        """Why there is nothing to compare where a vector is all zeros."""
        return self._source.zero

    async def words(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[Vectors]:
        """For each text one vector for each word; only where it is contextual.

        They are made anew each time: there are too many of them to be kept.
        """
        source = self._source
        assert isinstance(source, LocalVectors)  # noqa: S101 - what contextual says
        await self._remember_unread(texts)
        made: list[Vectors] = []
        for start in range(0, len(texts), source.batch_size):
            some = slice(start, start + source.batch_size)
            made += map(unit, await source.words(texts[some], spans[some]))
        return made

    async def vectors(self, who: str, cells: Sequence[Sequence[str]]) -> Found:
        """The vectors of all texts of some cells.

        Args:
            who: The evaluator, for what was spent.
            cells: For each cell the texts that it needs; none of them blank.

        Raises:
            Exception: What `failure` raised.
        """
        keys = {text: self._key(text) for texts in cells for text in texts}
        await self._remember_unread(list(keys))
        kept = self._store.find(list(keys.values()), lasting=self._source.lasting)
        known = {text: kept[key] for text, key in keys.items() if key in kept}
        if self._size is None and known:
            self._size = len(next(iter(known.values())).vector)
        # Vectors of another length are of a model that has changed: they are made anew.
        known = {text: found for text, found in known.items() if len(found.vector) == self._size}
        missing = [text for text in keys if text not in known and keys[text] not in self._failed]
        self._count(who, cells, set(missing), {t for t, found in known.items() if found.earlier})
        made: dict[str, Vectors] = {}
        await self._embed_all(who, missing, keys, made)
        made |= {text: found.vector for text, found in known.items()}
        failed = {
            text: self._failed.get(key, schema.NOT_RUN)
            for text, key in keys.items()
            if text not in made
        }
        size = (0, self._size or 0)
        stacked = np.stack(list(made.values())) if made else np.zeros(size, np.float32)
        return Found({text: place for place, text in enumerate(made)}, stacked, failed)

    async def _remember_unread(self, texts: Sequence[str]) -> None:
        if isinstance(self._source, LocalVectors):
            self.unread.update(map(self._key, await self._source.unread(texts)))

    def _key(self, text: str) -> bytes:
        given = f"{self._source.identity}\0{text}"
        return hashlib.blake2b(given.encode("utf-8", "surrogatepass"), digest_size=20).digest()

    def _count(
        self, who: str, cells: Sequence[Sequence[str]], fresh: set[str], earlier: set[str]
    ) -> None:
        counts = self._counts(who)
        if counts is None:
            return
        for texts in cells:
            counts.cells += 1
            first = fresh.intersection(texts)
            fresh -= first
            counts.cached += earlier.issuperset(texts)
            counts.shared += not first and not earlier.issuperset(texts)

    async def _embed_all(
        self, who: str, texts: list[str], keys: Mapping[str, bytes], made: dict[str, Vectors]
    ) -> None:
        # By length: a batch of like lengths needs the least padding.
        texts = sorted(texts, key=len)

        async def embed(batch: list[str]) -> None:
            async with self._slots:
                if self._ends_at_failure and self._failed:
                    return
                found = await self._in_turn(who, batch, keys)
            self._store.keep(
                {keys[text]: vector for text, vector in found.items()},
                lasting=self._source.lasting,
            )
            made.update(found)

        tasks = [asyncio.ensure_future(embed(batch)) for batch in self._batches(texts)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _batches(self, texts: Iterable[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        room = _MOST_CHARACTERS
        for text in texts:
            room -= len(text)
            if batch and (room < 0 or len(batch) == self._source.batch_size):
                yield batch
                batch, room = [], _MOST_CHARACTERS - len(text)
            batch.append(text)
        if batch:
            yield batch

    async def _in_turn(
        self, who: str, batch: list[str], keys: Mapping[str, bytes]
    ) -> dict[str, Vectors]:
        """The vectors of a batch: one after the other while all that came is refusals."""
        async with self._first:
            if self._refusing:
                return await self._embedded(who, batch, keys)
        return await self._embedded(who, batch, keys)

    async def _embedded(
        self, who: str, batch: list[str], keys: Mapping[str, bytes]
    ) -> dict[str, Vectors]:
        """The vectors of a batch; of a batch that is refused, those of its halves."""
        if self._refusing and self._refused >= _MOST_REFUSED:
            return self._lost(batch, keys, self._refusal)
        try:
            vectors = unit(await self._source.embed(who, batch))
        except CallError as exc:
            if self._may_split(batch, exc):
                middle = len(batch) // 2
                # One after the other: where all are refused, few are sent before that is known.
                first = await self._embedded(who, batch[:middle], keys)
                return first | await self._embedded(who, batch[middle:], keys)
            return self._lost(batch, keys, _error(exc.kind, str(exc)))
        except (Exception, asyncio.CancelledError) as exc:
            if _is_cancelled():
                raise
            self._refusing = False
            return self._lost(batch, keys, self._failure(exc))
        self._refusing, self._refused = False, 0
        self._size = self._size or vectors.shape[1]
        if vectors.shape[1] != self._size:
            message = (
                f"vectors of {vectors.shape[1]} numbers came, and of {self._size} before; what an "
                "embedder gives must not change its length. After a change of model use another "
                "cache= file"
            )
            return self._lost(batch, keys, _error(self._source.failure, message))
        good = [bool(np.isfinite(vector).all()) for vector in vectors]
        bad = [text for text, fine in zip(batch, good, strict=True) if not fine]
        self._lost(bad, keys, _error(self._source.failure, "its vector is not finite"))
        return {text: vectors[place] for place, text in enumerate(batch) if good[place]}

    def _may_split(self, batch: list[str], exc: CallError) -> bool:
        if exc.kind != schema.BAD_REQUEST:
            self._refusing = False
            return False
        due_to_texts = not isinstance(exc, ChatError) or exc.status in _DUE_TO_TEXTS
        if due_to_texts and len(batch) > 1 and self._refused < _MOST_REFUSED:
            return True
        self._refused += 1
        self._refusal = _error(exc.kind, str(exc))
        return False

    def _lost(
        self, texts: Iterable[str], keys: Mapping[str, bytes], error: str
    ) -> dict[str, Vectors]:
        """Remember what texts failed with: they are not asked for again in this run."""
        self._failed |= {keys[text]: error for text in texts}
        return {}


def _is_cancelled() -> bool:
    """Whether this very task is to end, and not something that was awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _error(kind: str, message: str) -> str:
    return schema.error_text(kind, str(without_surrogates(message)))
