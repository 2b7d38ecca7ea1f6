"""Texts against their references: what the evaluators that measure text share.

pairs_of    columns of outputs and references -> the pairs of texts in them
Pairs       these pairs, and what stands in the rows that have none
PairScore   the base class of the evaluators
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.cells import CellColumns, nulls
from evalframe.core.errors import MissingExtraError
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    NO_REFERENCE,
    arrow,
    is_text,
    needs_texts,
    not_text,
    references,
    values,
)

Floats = np.ndarray[Any, np.dtype[np.float64]]
_Rows = np.ndarray[Any, np.dtype[np.int64]]

_NO_REFERENCE = f"{schema.SKIPPED}: {NO_REFERENCE}"


class Pairs(NamedTuple):
    """Every output with each of its references.

    Attributes:
        outputs: The first of each pair.
        references: The second of each pair.
        rows: The row of each pair, ascending; several references make several pairs.
        errors: large_string per row, null where the row has a score. A row with neither pairs
            nor an error had no output.
    """

    outputs: list[str]
    references: list[str]
    rows: _Rows
    errors: pa.Array

    def cells(self, measured: Floats, extras: Iterable[str]) -> CellColumns:
        """The cells of the rows.

        Of several references the one with the highest score counts, the first among equals; a
        row without an output has 0.0 of everything.

        Args:
            measured: Per pair the score, then the extras.
            extras: Their names.
        """
        count, rows = len(self.errors), self.rows
        if (rows[1:] == rows[:-1]).any():
            order = np.lexsort((-measured[:, 0], rows))
            rows, first = np.unique(rows[order], return_index=True)
            measured = measured[order[first]]
        numbers = np.zeros((count, measured.shape[1]))
        numbers[rows] = measured
        without = self.errors.is_valid().to_numpy(zero_copy_only=False)
        columns = {name: nulls(count, kind) for name, kind in schema.FIELDS.items()}
        for place, name in enumerate([schema.SCORE, *extras]):
            columns[name] = pa.array(numbers[:, place], schema.NUMBER, mask=without)
        columns[schema.ERROR] = self.errors
        return CellColumns(columns)


def pairs_of(output: pd.Series, dataset_output: pd.Series) -> Pairs:
    """The pairs of texts in two columns.

    A null reference, or a list of nothing but nulls, is skipped as "no reference"; in other
    lists nulls are left out. Other values that are no text are failed rows.
    """
    found, wanted = arrow(output), arrow(dataset_output)
    if found is None or wanted is None or not is_text(found.type) or not is_text(wanted.type):
        return _one_by_one(values(output), values(dataset_output))
    there = wanted.is_valid()
    both = pc.and_(there, found.is_valid())
    errors = pc.if_else(there, pa.scalar(None, schema.TEXT), pa.scalar(_NO_REFERENCE, schema.TEXT))
    if isinstance(errors, pa.ChunkedArray):
        errors = errors.combine_chunks()
    rows = np.flatnonzero(both.to_numpy(zero_copy_only=False))
    if len(rows) < len(both):
        found, wanted = (column.cast(schema.TEXT).filter(both) for column in (found, wanted))
    return Pairs(_texts(found), _texts(wanted), rows, errors)


def _texts(column: pa.Array | pa.ChunkedArray) -> list[str]:
    # By way of NumPy: Arrow's own to_pylist makes an object of its own for every value first.
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _one_by_one(found: list[Any], wanted: list[Any]) -> Pairs:
    pairs: list[tuple[str, str, int]] = []
    errors: list[str | None] = []
    for row, (text, reference) in enumerate(zip(found, wanted, strict=True)):
        several = references(reference)
        error = _problem(text, several)
        errors.append(error)
        if error is None and text is not None:
            pairs += [(text, part, row) for part in several]
    outputs, parts, rows = map(list, zip(*pairs, strict=True)) if pairs else ([], [], [])
    return Pairs(outputs, parts, np.array(rows, dtype=np.int64), pa.array(errors, schema.TEXT))


def _problem(text: Any, several: list[Any]) -> str | None:
    if not several:
        return _NO_REFERENCE
    for part in several:
        if not isinstance(part, str):
            return not_text("dataset_output", part).error
    if text is not None and not isinstance(text, str):
        return not_text("output", text).error
    return None


class PairScore(Evaluator):
    """An evaluator of text outputs by their likeness to reference texts."""

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.SCORE,)

    def requirements(self) -> str | None:
        """Which optional package is not installed, if it needs one."""
        try:
            self._library()
        except MissingExtraError as exc:
            return str(exc)
        return None

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Output and reference must be text; a list of texts will do as reference."""
        return needs_texts(types)

    def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> CellColumns:
        """The scores of whole columns."""
        asked = pairs_of(output, dataset_output)
        return asked.cells(self._measure(asked), self.extras)

    def _library(self) -> Any:
        """The module that it stands on, if there is one.

        Raises:
            MissingExtraError: It is not installed.
        """
        return None

    def _measure(self, asked: Pairs) -> Floats:
        """Per pair the score in [0, 1], then the extras in their order."""
        raise NotImplementedError  # each measures in its own way
