"""How well the retrieved passages cover the relevant ones, without a model.

PrecisionAtK, RecallAtK   how much of the first k is relevant, how much of what is relevant is there
HitRate                   whether anything relevant is there
MRR                       how early the first relevant one comes
NDCG                      how early they all come, the most relevant first

All read `retrieval_context`, what was retrieved, and `context`, what is relevant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.records import Cell
from evalframe.evaluators.alike import Alike
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.chunks import ChunkError, Passage, passages_of
from evalframe.evaluators.compared import failed, is_text, item_type, values
from evalframe.evaluators.normalize import skipped

NO_RELEVANT = "no relevant contexts"

_RETRIEVED, _RELEVANT = "retrieval_context", "context"

_SHOWN_RANKS = 10

# The gains of the first k retrieved, by rank, and those of all that are relevant, highest first;
# or how many these are, if each is 1.
_Ranked = tuple[tuple[float, ...], tuple[float, ...] | int]

_RANKS_SOURCE = (
    "[Manning et al. 2008, chapter 8](https://nlp.stanford.edu/IR-book/html/htmledition/"
    "evaluation-of-ranked-retrieval-results-1.html)"
)


class _Ranking(Evaluator):
    """A score of retrieved passages by which of them are relevant, and where they stand."""

    vectorized: ClassVar[bool] = True
    reads_only: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.SCORE, schema.EXPLANATION)

    # Ranks that count; None: all.
    k: int | None

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Both must hold texts or whole numbers, and both the same."""
        kinds: dict[str, str] = {}
        for name, column in types.items():
            kind = _passage_type(column)
            if kind is None:
                continue
            if not is_text(kind) and not pa.types.is_integer(kind):
                return (
                    f"it needs texts or whole numbers, but {name} is {column}. Give lists of "
                    "them, or of {'document', 'relevance'} dicts, with .bind()."
                )
            kinds[name] = "texts" if is_text(kind) else "numbers"
        if len(set(kinds.values())) > 1:
            said = " and ".join(f"{name} holds {kind}" for name, kind in kinds.items())
            return f"it compares texts with numbers: {said}. Make the ids of both alike."
        return None

    def evaluate(self, retrieval_context: pd.Series, context: pd.Series) -> CellColumns:
        """The scores of whole columns."""
        found, wanted = values(retrieval_context), values(context)
        cells = Alike(self._cell)
        try:
            numbers = [cells[row] for row in _ranked_texts(found, wanted, self.k)]
        except TypeError:  # not all of them are texts
            numbers = [cells[row] for row in self._ranked(found, wanted)]
        return cells.columns(numbers, {})

    def _ranked(self, retrieved: list[Any], relevant: list[Any]) -> Iterator[_Ranked | Cell]:
        for found, wanted in zip(retrieved, relevant, strict=True):
            try:
                passages = passages_of(wanted, _RELEVANT)
                yield self._compared(passages_of(found, _RETRIEVED), passages)
            except ChunkError as exc:
                yield failed(str(exc))

    def _compared(self, found: list[Passage], wanted: list[Passage]) -> _Ranked | Cell:
        grades = _grades(wanted)
        if found and grades and {type(one.key) for one in found}.isdisjoint(map(type, grades)):
            return failed(
                f"texts are not compared with numbers: {_RETRIEVED} holds "
                f"{_kind(found[0].key)}, {_RELEVANT} {_kind(next(iter(grades)))}"
            )
        return tuple(_gains(found, grades)[: self.k]), tuple(sorted(grades.values(), reverse=True))

    def _cell(self, ranked: _Ranked | Cell) -> Cell:
        if isinstance(ranked, Cell):
            return ranked
        gains, ideal = ranked
        if not ideal:
            return skipped(NO_RELEVANT)
        if isinstance(ideal, int):
            ideal = (1.0,) * ideal
        score = self._score(gains, ideal)
        return Cell(self._label(score), score, _explanation(gains, len(ideal)))

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        """The score in [0, 1].

        Args:
            gains: Of the first k retrieved, in the order of their ranks; 0.0 for what is not
                relevant.
            ideal: Of all that are relevant, at least one, the highest first.
        """
        raise NotImplementedError  # each measures in its own way

    def _label(self, score: float) -> str | None:
        """None, unless the score is a verdict."""
        del score
        return None


def _ranked_texts(retrieved: list[Any], relevant: list[Any], k: int | None) -> Iterator[_Ranked]:
    """What `_Ranking._compared` gives for rows that are lists of texts or null.

    Raises:
        TypeError: Some row is none.
    """
    if not {*map(type, retrieved), *map(type, relevant)} <= {list, type(None)}:
        message = "not all rows are lists"
        raise TypeError(message)
    nothing, strip = repeat(0), str.strip  # which refuses what is no text
    for found, wanted in zip(retrieved, relevant, strict=True):
        left = dict.fromkeys(map(strip, wanted or ()), 1)
        if "" in left:
            del left[""]
        ideal = len(left)
        yield tuple(map(left.pop, map(strip, found or ()), nothing))[:k], ideal


def _passage_type(column: pa.DataType | None) -> pa.DataType | None:
    """The type of a column's texts or ids, None where it is not known."""
    column = item_type(column)
    if column is not None and pa.types.is_struct(column):
        place = column.get_field_index("document")
        return column.field(place).type if place >= 0 else column
    return column


def _kind(key: str | int) -> str:
    return "texts" if isinstance(key, str) else "numbers"


def _grades(relevant: list[Passage]) -> dict[str | int, float]:
    """The relevant passages with their gains, which are above 0."""
    grades: dict[str | int, float] = {}
    for passage in relevant:
        grade = 1.0 if passage.relevance is None else passage.relevance
        if passage.key != "" and grade > 0:
            grades[passage.key] = max(grade, grades.get(passage.key, 0.0))
    return grades


def _gains(found: list[Passage], grades: Mapping[str | int, float]) -> list[float]:
    """The gain at each rank; a passage that comes again gains nothing."""
    if all(passage.relevance is not None for passage in found):
        found = sorted(found, key=lambda passage: passage.relevance or 0.0, reverse=True)
    left = dict(grades)
    return [left.pop(passage.key, 0.0) for passage in found]


def _explanation(gains: Sequence[float], relevant: int) -> str:
    if not gains:
        return "nothing retrieved"
    ranks = [rank for rank, gain in enumerate(gains, 1) if gain]
    if not ranks:
        return f"none of {relevant} relevant among the first {len(gains)}"
    shown = [str(rank) for rank in ranks[:_SHOWN_RANKS]]
    if len(ranks) > _SHOWN_RANKS:
        shown.append("...")
    ranked = "rank" if len(ranks) == 1 else "ranks"
    return f"{len(ranks)} of {relevant} relevant at {ranked} {', '.join(shown)}"


def _check_k(k: Any, *, optional: bool) -> None:
    whole = isinstance(k, int) and not isinstance(k, bool) and k >= 1
    if not whole and not (optional and k is None):
        every = ", or None for all that were retrieved" if optional else ""
        message = f"k must be a whole number of at least 1{every}, not {k!r}."
        raise ValueError(message)


def _hits(gains: Sequence[float]) -> int:
    return sum(1 for gain in gains if gain)


class PrecisionAtK(_Ranking):
    """How much of the first k ranks is relevant: hits / k, in [0, 1].

    Where fewer than k were retrieved, the missing ones are no hits.

    What was retrieved is `retrieval_context`, ranked as it stands, or by relevance, highest
    first, where all of a row have one. What is relevant is `context`, but for blank texts and
    chunks with a relevance of 0 or less. Both are lists of texts, of whole numbers (ids) or of
    {"document", "relevance"} dicts; white space around a text makes no difference, and a repeated
    passage takes a rank but is no second hit. Nothing relevant: skipped. Nothing retrieved: 0.0.
    A malformed item fails the row.

    Args:
        k: Ranks that count.

    Raises:
        ValueError: `k` is no whole number of at least 1.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"retrieval_context": ["a", "x", "b"], "context": ["b", "c", "a"]}]
        >>> ef.run_experiment(rows, evaluators=[ef.PrecisionAtK(2)]).evals.scores.iloc[0, 0]
        0.5
    """

    source: ClassVar[str] = _RANKS_SOURCE

    def __init__(self, k: int, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        _check_k(k, optional=False)
        # Twice: of `k` a type checker knows only that it may be None in other classes.
        self.k = self._ranks = k
        self.name = name or ""
        self.threshold = threshold

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        del ideal
        return _hits(gains) / self._ranks


class RecallAtK(_Ranking):
    """How much of what is relevant is in the first k ranks: hits / relevant, in [0, 1].

    What was retrieved is `retrieval_context`, ranked as it stands, or by relevance, highest
    first, where all of a row have one. What is relevant is `context`, but for blank texts and
    chunks with a relevance of 0 or less. Both are lists of texts, of whole numbers (ids) or of
    {"document", "relevance"} dicts; white space around a text makes no difference, and a repeated
    passage takes a rank but is no second hit. Nothing relevant: skipped. Nothing retrieved: 0.0.
    A malformed item fails the row.

    Args:
        k: Ranks that count.

    Raises:
        ValueError: `k` is no whole number of at least 1.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"retrieval_context": ["a", "x", "b"], "context": ["b", "c", "a"]}]
        >>> ef.run_experiment(rows, evaluators=[ef.RecallAtK(3)]).evals.scores.round(4).iloc[0, 0]
        0.6667
    """

    source: ClassVar[str] = _RANKS_SOURCE

    def __init__(self, k: int, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        _check_k(k, optional=False)
        self.k = k
        self.name = name or ""
        self.threshold = threshold

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        return _hits(gains) / len(ideal)


class HitRate(_Ranking):
    """Whether anything relevant was retrieved: label "True" / "False", score 1.0 / 0.0.

    The mean over rows is the hit rate.

    What was retrieved is `retrieval_context`, ranked as it stands, or by relevance, highest
    first, where all of a row have one. What is relevant is `context`, but for blank texts and
    chunks with a relevance of 0 or less. Both are lists of texts, of whole numbers (ids) or of
    {"document", "relevance"} dicts; white space around a text makes no difference, and a repeated
    passage takes a rank but is no second hit. Nothing relevant: skipped. Nothing retrieved: 0.0.
    A malformed item fails the row.

    Args:
        k: Ranks that count; None: all.

    Raises:
        ValueError: `k` is no whole number of at least 1.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"retrieval_context": ["a", "x", "b"], "context": ["b", "c", "a"]}]
        >>> ef.run_experiment(rows, evaluators=[ef.HitRate(1)]).evals.scores.iloc[0, 0]
        1.0
    """

    gives: ClassVar[tuple[str, ...]] = (schema.LABEL, schema.SCORE, schema.EXPLANATION)
    source: ClassVar[str] = _RANKS_SOURCE

    def __init__(
        self, k: int | None = None, *, name: str | None = None, threshold: float | None = None
    ) -> None:
        """See the class."""
        _check_k(k, optional=True)
        self.k = k
        self.name = name or ""
        self.threshold = threshold

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        del ideal
        return 1.0 if _hits(gains) else 0.0

    def _label(self, score: float) -> str:
        return str(score > 0)


class MRR(_Ranking):
    """How early the first relevant passage comes: 1 / its rank, 0.0 without one.

    The mean over rows is the mean reciprocal rank.

    What was retrieved is `retrieval_context`, ranked as it stands, or by relevance, highest
    first, where all of a row have one. What is relevant is `context`, but for blank texts and
    chunks with a relevance of 0 or less. Both are lists of texts, of whole numbers (ids) or of
    {"document", "relevance"} dicts; white space around a text makes no difference, and a repeated
    passage takes a rank but is no second hit. Nothing relevant: skipped. Nothing retrieved: 0.0.
    A malformed item fails the row.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"retrieval_context": ["x", "a", "b"], "context": ["b", "c", "a"]}]
        >>> ef.run_experiment(rows, evaluators=[ef.MRR()]).evals.scores.iloc[0, 0]
        0.5
    """

    source: ClassVar[str] = "[Voorhees 1999](https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf)"

    def __init__(self, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        self.k = None
        self.name = name or ""
        self.threshold = threshold

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        del ideal
        return next((1 / rank for rank, gain in enumerate(gains, 1) if gain), 0.0)


class NDCG(_Ranking):
    """How well the ranks are filled, the most relevant passages first, in [0, 1].

    DCG / ideal DCG, with DCG the sum of gain / log2(rank + 1). The gain is the relevance that a
    chunk has in `context`, 1 where it has none. The ideal is the list of all relevant passages,
    highest gain first, cut at k as well.

    What was retrieved is `retrieval_context`, ranked as it stands, or by relevance, highest
    first, where all of a row have one. What is relevant is `context`, but for blank texts and
    chunks with a relevance of 0 or less. Both are lists of texts, of whole numbers (ids) or of
    {"document", "relevance"} dicts; white space around a text makes no difference, and a repeated
    passage takes a rank but is no second hit. Nothing relevant: skipped. Nothing retrieved: 0.0.
    A malformed item fails the row.

    Args:
        k: Ranks that count; None: all.

    Raises:
        ValueError: `k` is no whole number of at least 1.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"retrieval_context": ["a", "x", "b"], "context": ["b", "c", "a"]}]
        >>> ef.run_experiment(rows, evaluators=[ef.NDCG()]).evals.scores.round(4).iloc[0, 0]
        0.7039
    """

    source: ClassVar[str] = "[Järvelin & Kekäläinen 2002](https://doi.org/10.1145/582415.582418)"

    def __init__(
        self, k: int | None = None, *, name: str | None = None, threshold: float | None = None
    ) -> None:
        """See the class."""
        _check_k(k, optional=True)
        self.k = k
        self.name = name or ""
        self.threshold = threshold

    def _score(self, gains: Sequence[float], ideal: Sequence[float]) -> float:
        # Rounding alone could carry it above 1.
        return min(1.0, _discounted(gains) / _discounted(ideal[: self.k]))


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
