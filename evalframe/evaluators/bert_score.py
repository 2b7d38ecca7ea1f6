"""BertScore: how much of each text is found in the other, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.embedded import Embedded, Numbers, Pair, snapped
from evalframe.evaluators.normalize import json_of, skipped
from evalframe.evaluators.pieces import Spans, sentences, words
from evalframe.llm.embedder import Embeds
from evalframe.llm.embeddings import Embeddings
from evalframe.llm.vectors import Vectors

_SPLITTERS = {"word": words, "sentence": sentences}
_MOST_SHOWN = 5
_LONGEST_SHOWN = 60
# Cosines at a time, so that two long texts fit into memory.
_MOST_COSINES = 1 << 20


class _Match(NamedTuple):
    """How an output compares with one reference.

    Attributes:
        missing: Spans of the reference that nothing in the output is close to.
    """

    precision: float
    recall: float
    f1: float
    missing: list[list[int]]


class _Side(NamedTuple):
    """One of two texts.

    Attributes:
        pieces: Its words or sentences.
        vectors: One for each of them.
    """

    pieces: list[str]
    vectors: Vectors


class BertScore(Embedded):
    """How much of `output` and `dataset_output` is found in the other, by greedy matching.

    Both are cut into words, or sentences. Precision is the mean, over the pieces of the output,
    of the cosine (clipped to [0, 1]) with the closest piece of the reference; recall the same the
    other way; the score is f1 = 2 P R / (P + R), 0.0 where both are 0. With several references
    the best f1 counts. Without inverse document frequencies and without rescaling by a baseline.

    With the local model, which is English, a word's vector is the mean of its pieces in the whole
    text (in parts of 254 pieces), so that a word is itself only in the same context; other
    embedders are given each distinct word as a text. A piece whose vector is all zeros, as are
    those of words that the local model does not know, matches equal pieces with 1.0, and no
    others. A text without any other piece is skipped: with the local model always, else where
    the two texts have no piece in common. Nulls, blank texts and failed embeddings are as in
    `SemanticSimilarity`.

    Extras: `precision`, `recall`, `f1` (the score again), and `missing`: [start, end) character
    positions of the reference's pieces whose best cosine is below `presence_threshold`. The
    explanation names them, and which reference of a list it is.

    Args:
        embedder: As for `SemanticSimilarity`.
        level: "word" or "sentence". A word is a run of letters and digits with the marks
            on them, or an emoji; a sentence ends with a line break, with an ideographic full stop,
            or with ".", "!", "?" before white space.
        presence_threshold: Cosine from which a piece of the reference is present, in [0, 1].

    Raises:
        ValueError: `level` or `presence_threshold` is out of its domain.
        TypeError: `embedder` is none.

    Examples:
        >>> import evalframe as ef
        >>> def first_letter(texts):
        ...     return [[text[0] == letter for letter in "abc"] for text in texts]
        >>> rows = [{"output": "an apple", "dataset_output": "apple cake"}]
        >>> scored = ef.run_experiment(rows, evaluators=[ef.BertScore(first_letter)])
        >>> scored["eval.bert_score.precision"][0], scored["eval.bert_score.recall"][0]
        (1.0, 0.5)
        >>> scored["eval.bert_score.missing"][0]
        '[[6, 10]]'
    """

    source: ClassVar[str] = "[Zhang et al. 2020](https://arxiv.org/abs/1904.09675)"
    gives: ClassVar[tuple[str, ...]] = (schema.SCORE, schema.EXPLANATION)
    extras: ClassVar[Mapping[str, Any]] = {
        "precision": float,
        "recall": float,
        "f1": float,
        "missing": "json",
    }

    def __init__(
        self,
        embedder: Embeds = None,
        *,
        level: str = "word",
        presence_threshold: float = 0.65,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if level not in ("word", "sentence"):
            message = f"level must be 'word' or 'sentence', not {level!r}."
            raise ValueError(message)
        number = isinstance(presence_threshold, (int, float))
        if not number or isinstance(presence_threshold, bool) or not 0 <= presence_threshold <= 1:
            message = f"presence_threshold must be a number in [0, 1], not {presence_threshold!r}."
            raise ValueError(message)
        self.level = level
        self.presence_threshold = presence_threshold
        self._set_up(embedder, name, threshold)

    def _pieces(self, text: str) -> int:
        return len(_SPLITTERS[self.level](text))

    async def _compared(self, embeddings: Embeddings, pairs: Sequence[Pair]) -> list[Cell]:
        spans = {text: _SPLITTERS[self.level](text) for pair in pairs for text in pair.texts}
        failed: dict[str, str] = {}
        if self.level == "word" and embeddings.contextual:
            texts = sorted(spans, key=len)
            made = await embeddings.words(texts, [spans[text] for text in texts])
            vectors = dict(zip(texts, made, strict=True))
        else:
            vectors, failed = await self._apart(embeddings, pairs, spans)
        return await asyncio.to_thread(
            lambda: [self._cell(pair, spans, vectors, failed, embeddings) for pair in pairs]
        )

    async def _apart(
        self, embeddings: Embeddings, pairs: Sequence[Pair], spans: Mapping[str, Spans]
    ) -> tuple[dict[str, Vectors], dict[str, str]]:
        """Each piece embedded as a text: text -> vectors of its pieces, or why there are none."""
        pieces = {text: [text[a:b] for a, b in found] for text, found in spans.items()}
        cells = [[piece for text in pair.texts for piece in pieces[text]] for pair in pairs]
        found = await embeddings.vectors(self.name, cells)
        errors = {text: found.error(some) for text, some in pieces.items()}
        failed = {text: error for text, error in errors.items() if error is not None}
        vectors = {text: found.of(some) for text, some in pieces.items() if text not in failed}
        return vectors, failed

    def _cell(
        self,
        pair: Pair,
        spans: Mapping[str, Spans],
        vectors: Mapping[str, Vectors],
        failed: Mapping[str, str],
        embeddings: Embeddings,
    ) -> Cell:
        for text in pair.texts:
            if text in failed:
                return Cell(error=failed[text])
        matches: dict[int, _Match] = {}
        for place, reference in enumerate(pair.references):
            sides = [
                _Side([text[a:b] for a, b in spans[text]], vectors[text])
                for text in (pair.output, reference)
            ]
            blank = not all(side.vectors.any() for side in sides)
            # That two texts which the local model cannot read are equal is not for it to say.
            if blank and (embeddings.contextual or not set(sides[0].pieces) & set(sides[1].pieces)):
                continue
            matches[place] = self._match(sides[0], sides[1], spans[reference])
        if not matches:
            return skipped(embeddings.zero)
        place = max(matches, key=lambda number: (matches[number].f1, -number))
        best = matches[place]
        return Cell(
            score=best.f1,
            explanation=_explained(best, pair, place),
            extras=(best.precision, best.recall, best.f1, json_of("extra 'missing'", best.missing)),
        )

    def _match(self, output: _Side, reference: _Side, spans: Spans) -> _Match:
        found, present = _closest(output, reference)
        precision, recall = float(found.mean()), float(present.mean())
        both = precision + recall
        missing = [
            [start, end]
            for (start, end), best in zip(spans, present.tolist(), strict=True)
            if best < self.presence_threshold
        ]
        return _Match(precision, recall, 2 * precision * recall / both if both else 0.0, missing)


def _closest(output: _Side, reference: _Side) -> tuple[Numbers, Numbers]:
    """For each piece of one side the cosine with the closest of the other, in [0, 1]."""
    left, right = _directions(output.vectors), _directions(reference.vectors)
    nowhere = [np.einsum("nd,nd->n", side, side) == 0 for side in (left, right)]
    found, present = np.zeros(len(left)), np.zeros(len(right))
    numbers = _numbered(output.pieces, reference.pieces)
    step = max(_MOST_COSINES // len(right), 1)
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        alike = left[rows] @ right.T
        unknown = nowhere[0][rows, None] | nowhere[1]
        if unknown.any():
            # Without a direction, a piece is at least what it is.
            alike[unknown & (numbers[0][rows, None] == numbers[1])] = 1.0
        np.maximum(found[rows], alike.max(axis=1), out=found[rows])
        np.maximum(present, alike.max(axis=0), out=present)
    # Of the closest only: to look at every cosine takes longer than to compute them.
    return snapped(found), snapped(present)


def _directions(vectors: Vectors) -> Numbers:
    """The vectors with length 1, as exactly as doubles are; one of zeros stays so."""
    made = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", made, made))[:, None]
    np.divide(made, lengths, out=made, where=lengths > 0)
    return made


def _numbered(*sides: Sequence[str]) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """For each piece a number that only equal ones share."""
    numbers: dict[str, int] = {}
    return [
        np.array([numbers.setdefault(piece, len(numbers)) for piece in side], dtype=np.int64)
        for side in sides
    ]


def _explained(match: _Match, pair: Pair, place: int) -> str | None:
    """What of the reference is missing; None if nothing is, and there was only one."""
    reference = pair.references[place]
    shown = [
        repr(reference[start:end][:_LONGEST_SHOWN]) for start, end in match.missing[:_MOST_SHOWN]
    ]
    more = len(match.missing) - len(shown)
    said = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    parts = [f"reference {pair.places[place]}"] if pair.places else []
    parts += [f"missing: {said}"] if shown else []
    return "; ".join(parts) or None
