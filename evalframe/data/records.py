"""Rows as dicts or Examples, turned into columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from evalframe.core.columns import Column, as_objects
from evalframe.core.errors import DatasetError, UnsupportedValueError
from evalframe.data.example import Example
from evalframe.data.example_rows import fields_used, row_of
from evalframe.data.tables import assembled


class Records:
    """Columns that grow row by row; a row need not have every column."""

    def __init__(self, columns: Sequence[Hashable] = ()) -> None:
        """Start without rows, and with these columns first."""
        self._columns: dict[Hashable, list[Any]] = {label: [] for label in columns}
        self._length = 0

    def add(self, row: Mapping[Any, Any]) -> None:
        """Take one row; a column that is new here is null in the rows before."""
        for label, value in row.items():
            values = self._columns.get(label)
            if values is None:
                values = self._columns[label] = []
            if len(values) < self._length:
                values.extend([None] * (self._length - len(values)))
            values.append(value)
        self._length += 1

    def frame(self) -> pd.DataFrame:
        """The rows as a frame: Arrow-backed where Arrow keeps every value, else Python objects.

        Columns are taken out of here one by one, so that no second copy of all is made.
        """
        columns: list[tuple[Hashable, pd.Series]] = []
        while self._columns:
            label = next(iter(self._columns))
            values = self._columns.pop(label)
            values.extend([None] * (self._length - len(values)))
            columns.append((label, _series(label, values)))
        return assembled(columns, pd.RangeIndex(self._length))


def _series(label: Hashable, values: list[Any]) -> pd.Series:
    series = pd.Series(as_objects(values), name=label, dtype=object)
    try:
        return Column(label, series).arrow_backed()
    except UnsupportedValueError:
        # Refused only when something reads it.
        return series


def frame_of_rows(rows: Sequence[Any]) -> pd.DataFrame:
    """The frame of a list of dicts or of Examples.

    Raises:
        DatasetError: A row is neither, or the list holds both.
    """
    if rows and all(isinstance(row, Example) for row in rows):
        return _frame_of_examples(rows)
    records = Records()
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DatasetError(_not_a_row(position, row))
        records.add(row)
    return records.frame()


def _frame_of_examples(examples: Sequence[Example]) -> pd.DataFrame:
    fields = fields_used(examples)
    records = Records(fields)
    unused = set(Example.model_fields) - set(fields)
    for example in examples:
        row = row_of(example)
        records.add({name: value for name, value in row.items() if name not in unused})
    return records.frame()


def _not_a_row(position: int, row: Any) -> str:
    kind = type(row).__name__
    if isinstance(row, Example):
        return f"Row {position} is an Example, and other rows are dicts. Make all rows one kind."
    advice = "Each row has to be a dict (column -> value) or an evalframe.Example."
    if hasattr(row, "model_dump"):
        advice = "Pass [row.model_dump() for row in rows]."
    elif isinstance(row, (list, tuple)):
        advice = "Name the columns: pd.DataFrame(rows, columns=[...])."
    elif isinstance(row, str):
        advice = (
            "Name the column: [{'input': text} for text in rows]. For several files, pass a glob."
        )
    return f"Row {position} is {'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}. {advice}"
