"""What the evaluators of similarity have in common: texts in pairs, in blocks of bounded size.

Owns   which rows have something to compare, and the cells of those that have not.
Leaves vectors to llm/embeddings.py, the comparison to each evaluator.

Pair       the texts of one row
Embedded   the base class
cosines    of vectors, exactly 1 for equal ones
snapped    what makes them so
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    NO_REFERENCE,
    needs_texts,
    not_text,
    values,
)
from evalframe.evaluators.normalize import skipped, text_of
from evalframe.llm.connect import Session
from evalframe.llm.embedder import Embedder, Embeds, as_embedder
from evalframe.llm.embeddings import Embeddings

EMPTY_TEXT = "empty text"

Numbers = np.ndarray[Any, np.dtype[np.float64]]

# Of vectors with 3,072 numbers these take 100 MB.
_MOST_PIECES = 8192
_MOST_ROWS = 4096
# Less than what is lost where vectors are kept as float32.
_ROUNDING = 1e-9


class Pair(NamedTuple):
    """What is compared on one row; no text of it is blank.

    Attributes:
        output: The text that is judged.
        references: The texts it is held against; at least one.
        places: Where each of them stands in the row's list, from 1; empty without a list.
    """

    output: str
    references: tuple[str, ...]
    places: tuple[int, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them."""
        return (self.output, *self.references)


class Embedded(Evaluator):
    """An evaluator that compares `output` with `dataset_output` by vectors."""

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.SCORE,)
    extra_needed: ClassVar[str] = "local"

    embedder: Embedder

    def _set_up(self, embedder: Embeds, name: str | None, threshold: float | None) -> None:
        self.embedder = as_embedder(embedder)
        self.name = name or ""
        self.threshold = threshold

    def _described(self) -> Mapping[str, Any]:
        found = super()._described()
        return found if self.version is not None else {**found, "embedder": self.embedder}

    def requirements(self) -> str | None:
        """What is missing before it can embed: the local model, an address or a key."""
        return self.embedder.requirements()

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Output and reference must be text; a list of texts will do as reference."""
        return needs_texts(types)

    async def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> CellColumns:
        """What a run calls is made by `opened`.

        Raises:
            TypeError: It was called outside a run.
        """
        del output, dataset_output
        message = f"{self.name!r} runs inside run_experiment; it cannot be called alone."
        raise TypeError(message)

    def opened(self, session: Session, *, details: bool) -> Callable[..., Any]:
        """The call for one run: columns in, cells out."""
        del details
        embeddings = session.embeddings(self.embedder)
        return functools.partial(self._judged, embeddings, session)

    async def _judged(
        self,
        embeddings: Embeddings,
        session: Session,
        output: pd.Series,
        dataset_output: pd.Series,
    ) -> CellColumns:
        """The cells of all rows; of the blocks after the end of the run, none is begun."""
        further = self.result_fields(details=False)
        made = [CellColumns.of([], further)]
        left = len(output)
        for rows in self._blocks(output, dataset_output):
            pairs = [row for row in rows if isinstance(row, Pair)]
            compared = iter(await self._compared(embeddings, pairs) if pairs else ())
            cells = [next(compared) if isinstance(row, Pair) else row for row in rows]
            made.append(CellColumns.of(cells, further))
            left -= len(rows)
            failed = any(cell.error and schema.is_failure(cell.error) for cell in cells)
            ended = schema.NOT_RUN if failed and session.ends_at_failure else session.budget.closed
            if ended is not None:
                made.append(CellColumns.all_alike(left, ended, further))
                break
        names = made[0].arrays
        return CellColumns(
            {name: pa.concat_arrays([part.arrays[name] for part in made]) for name in names}
        )

    def _blocks(self, output: pd.Series, dataset_output: pd.Series) -> Iterator[list[Pair | Cell]]:
        """Consecutive rows: as many as need no more than so many vectors, and at least one."""
        block: list[Pair | Cell] = []
        seen: set[str] = set()
        room = _MOST_PIECES
        for start in range(0, len(output), _MOST_ROWS):
            rows = slice(start, start + _MOST_ROWS)
            columns = (values(output.iloc[rows]), values(dataset_output.iloc[rows]))
            for row in map(pair_of, *columns):
                texts = set(row.texts) if isinstance(row, Pair) else set()
                needed = sum(map(self._pieces, texts - seen))
                if block and (needed > room or len(block) == _MOST_ROWS):
                    yield block
                    block, seen, room = [], set(), _MOST_PIECES
                    needed = sum(map(self._pieces, texts))
                seen |= texts
                room -= needed
                block.append(row)
        if block:
            yield block

    @abstractmethod
    def _pieces(self, text: str) -> int:
        """How many vectors a text takes."""

    @abstractmethod
    async def _compared(self, embeddings: Embeddings, pairs: Sequence[Pair]) -> list[Cell]:
        """The cells of some pairs."""


def pair_of(output: Any, reference: Any) -> Pair | Cell:
    """What there is to compare on a row, or the cell of a row without.

    Of a list of references those that are null or blank are left out.
    """
    many = isinstance(reference, (list, tuple))
    several = enumerate(reference if many else [reference], 1)
    given = [(place, text) for place, text in several if text is not None]
    if not given:
        return skipped(NO_REFERENCE)
    for _, text in given:
        if not isinstance(text, str):
            return not_text("dataset_output", text)
    kept = [(place, text_of(text)) for place, text in given if text.strip()]
    if not kept:
        return skipped(EMPTY_TEXT)
    if output is None:
        return Cell(score=0.0)
    if not isinstance(output, str):
        return not_text("output", output)
    if not output.strip():
        return skipped(EMPTY_TEXT)
    places, texts = zip(*kept, strict=True)
    return Pair(text_of(output), texts, places if many else ())


def cosines(products: Numbers, squares: Numbers) -> Numbers:
    """Cosines in [-1, 1]; NaN where one of two vectors is all zeros.

    Args:
        products: Dot products.
        squares: For each, the product of the two squared lengths.
    """
    found = np.full(products.shape, np.nan)
    np.divide(products, np.sqrt(squares), out=found, where=squares > 0)
    return snapped(found)


def snapped(found: Numbers) -> Numbers:
    """Cosines, changed in place: within a rounding of 1 or -1 they are that, and never beyond.

    Equal vectors are equal, whatever the order in which their products are summed up.
    """
    found[found > 1 - _ROUNDING] = 1.0
    found[found < _ROUNDING - 1] = -1.0
    return found
