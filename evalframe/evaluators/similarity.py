"""Does the output mean what the reference means? The cosine of their vectors."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from evalframe.core.records import Cell
from evalframe.evaluators.embedded import Embedded, Pair, cosines
from evalframe.evaluators.normalize import skipped
from evalframe.llm.embedder import Embeds
from evalframe.llm.embeddings import Embeddings, Found

# Pairs at a time: in double precision they take some ten megabytes.
_BLOCK = 1024


class SemanticSimilarity(Embedded):
    """How alike `output` and `dataset_output` are in meaning: the cosine of their vectors.

    The score is a.b / (|a| |b|), clipped to [0, 1]; the extra `cosine` is the same, not clipped;
    there is no label.
    Vectors need not have length 1. Of a list of references the best one counts, nulls and blank
    ones left out. A null reference is skipped, and so is a blank text on either side (it is never
    embedded) and a vector of zeros; a null output against a reference scores 0.0. Texts whose
    embedding failed fail with its kind (`auth`, `rate_limit`, ...). What a model cost is in
    `evals.usage()`, by request: no cell has a share of its own.

    Args:
        embedder: "<provider>/<model>" or an `ef.Model` behind /v1/embeddings; a function from a
            list of texts to vectors; an `ef.Embedder` with options; None: the small local model
            (extra `local`). It is English and reads the first 254 word pieces of a text. Pieces
            that it does not know are only equal or different to it (one warning counts the
            texts); a text of which it knows no piece is skipped.

    Raises:
        TypeError: `embedder` is none of these.

    Examples:
        >>> import evalframe as ef
        >>> def letters(texts):
        ...     return [[text.count("a"), text.count("b")] for text in texts]
        >>> rows = [{"output": "aab", "dataset_output": "aaaabb"}]
        >>> ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity(letters)]).evals.scores
           semantic_similarity
        0                  1.0
    """

    source: ClassVar[str] = "[Reimers and Gurevych 2019](https://arxiv.org/abs/1908.10084)"
    extras: ClassVar[Mapping[str, Any]] = {"cosine": float}

    def __init__(
        self,
        embedder: Embeds = None,
        *,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        self._set_up(embedder, name, threshold)

    def _pieces(self, text: str) -> int:
        del text
        return 1

    async def _compared(self, embeddings: Embeddings, pairs: Sequence[Pair]) -> list[Cell]:
        found = await embeddings.vectors(self.name, [pair.texts for pair in pairs])
        return await asyncio.to_thread(_cells, pairs, found, embeddings.zero)


def _cells(pairs: Sequence[Pair], found: Found, zero: str) -> list[Cell]:
    cells: list[Cell] = []
    for start in range(0, len(pairs), _BLOCK):
        some = [(pair, found.error(pair.texts)) for pair in pairs[start : start + _BLOCK]]
        sides = [
            (pair.output, reference)
            for pair, error in some
            for reference in pair.references
            if error is None
        ]
        alike = iter(_cosines(sides, found))
        cells += [
            _cell([next(alike) for _ in pair.references], zero)
            if error is None
            else Cell(error=error)
            for pair, error in some
        ]
    return cells


def _cosines(sides: Sequence[tuple[str, str]], found: Found) -> list[float]:
    if not sides:
        return []
    a, b = (found.of(texts).astype(np.float64) for texts in zip(*sides, strict=True))
    products = np.einsum("nd,nd->n", a, b)
    squares = np.einsum("nd,nd->n", a, a) * np.einsum("nd,nd->n", b, b)
    return list(cosines(products, squares).tolist())


def _cell(alike: Sequence[float], zero: str) -> Cell:
    """The cell of a row by its cosines, one for each reference.

    Args:
        alike: NaN for a vector of zeros.
        zero: What to say where all are.
    """
    known = [cosine for cosine in alike if not math.isnan(cosine)]
    if not known:
        return skipped(zero)
    best = max(known)
    return Cell(score=max(best, 0.0), extras=(best,))
