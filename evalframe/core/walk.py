"""What a column of Python objects holds, from one pass over it.

Owns   the quick ways for the usual columns, of texts and of lists of texts.
Leaves what a single value is to nested.py.

Walk      the facts about a column, and fresh values of its rows
refusal   the error of a value that evaluators cannot be given
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core.errors import UnsupportedValueError
from evalframe.core.nested import (
    ATOMS,
    NotPlainError,
    Shape,
    arrow_type,
    has_surrogate,
    is_null,
    plain,
    without_surrogates,
)

_TEXTS = ({str}, {str, type(None)})
_LISTS = ({list}, {list, type(None)})

# Rows whose texts are looked at as one text.
_JOINED_ROWS = 256


class Walk:
    """The facts about a column of Python objects.

    Attributes:
        atoms: Whether every value is of an immutable type.
        surrogates: Rows with a lone surrogate.
        arrow_type: As `Column.arrow_type`.
        plain: Whether the values are such as evaluators are given already: lists of immutable
            values, and None.
    """

    def __init__(self, name: Hashable, series: pd.Series) -> None:
        """Walk over the column.

        Raises:
            UnsupportedValueError: Some value has no plain Python form.
        """
        objects = np.asarray(series.array, dtype=object).tolist()
        kinds = set(map(type, objects))
        items = _kinds_in(objects) if kinds in _LISTS else None
        self.atoms = kinds - ATOMS <= {type(pd.NA), type(pd.NaT)}
        self.surrogates = 0
        # The usual columns, at a tenth of the cost of a walk.
        if kinds in _TEXTS:
            self.surrogates = sum(has_surrogate(text) for text in objects if text is not None)
            self.arrow_type: pa.DataType | None = pa.large_string()
        elif items == {str}:
            self.surrogates = _rows_with_surrogates(objects)
            self.arrow_type = pa.list_(pa.large_string())
        else:
            self.arrow_type = arrow_type(self._shape(name, objects))
        self._clean = kinds <= ATOMS - {float} and not self.surrogates
        self.plain = items is not None and items <= ATOMS and not self.surrogates

    def _shape(self, name: Hashable, objects: list[Any]) -> Shape:
        shape = Shape()
        for row, value in enumerate(objects):
            if is_null(value):
                continue
            shape.surrogates = False
            try:
                shape.add(value)
            except NotPlainError as exc:
                raise refusal(name, row, exc) from None
            self.surrogates += shape.surrogates
        return shape

    def values(self, cells: Any) -> list[Any]:
        """Fresh plain values of some of the rows."""
        cells = cells.astype(object) if cells.dtype != object else cells
        values: list[Any] = cells.tolist()
        if self._clean:
            return values
        if self.plain:
            return [None if value is None else value[:] for value in values]
        values = [None if is_null(value) else plain(value) for value in values]
        return [without_surrogates(value) for value in values] if self.surrogates else values


def _kinds_in(lists: list[list[Any] | None]) -> set[type]:
    """The types of all items."""
    return set(map(type, itertools.chain.from_iterable(filter(None, lists))))


def _rows_with_surrogates(lists: list[list[str] | None]) -> int:
    """How many lists of texts hold a lone surrogate."""
    count = 0
    for start in range(0, len(lists), _JOINED_ROWS):
        some = lists[start : start + _JOINED_ROWS]
        if has_surrogate("".join(itertools.chain.from_iterable(filter(None, some)))):
            count += sum(any(map(has_surrogate, texts)) for texts in some if texts)
    return count


def refusal(name: Hashable, row: int, exc: NotPlainError) -> UnsupportedValueError:
    """The error that says which value of a column has no plain Python form."""
    where = f", at {exc.where}" if exc.where else ""
    return UnsupportedValueError(
        f"Column {name!r}, row {row}{where}: {exc.what} cannot be given to evaluators or kept in "
        f"a file. {exc.advice}"
    )
