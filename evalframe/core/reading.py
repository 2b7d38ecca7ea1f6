"""The values of a source of the dataset, for some rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from evalframe.core.columns import Column, Rows
from evalframe.core.namespace import ColumnSource, RecordSource, RowSource


def source_values(
    source: ColumnSource | RecordSource | RowSource,
    rows: Rows,
    count: int,
    row_columns: Sequence[Hashable],
    column: Callable[[Hashable], Column],
) -> list[Any]:
    """Fresh plain Python values: a column's, or a dict of several columns' for each row.

    Args:
        source: What to read.
        rows: Positions of the dataset's rows.
        count: How many these are.
        row_columns: The columns of the dataset row.
        column: Label -> column.
    """
    if isinstance(source, ColumnSource):
        return column(source.label).values(rows)
    labels = source.labels if isinstance(source, RecordSource) else row_columns
    if not labels:
        return [{} for _ in range(count)]
    columns = [column(label).values(rows) for label in labels]
    return [dict(zip(labels, record, strict=True)) for record in zip(*columns, strict=True)]
