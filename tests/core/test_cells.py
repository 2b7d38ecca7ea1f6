"""Cells as Arrow columns."""

import pyarrow as pa
import pytest

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.records import Cell

EXTRAS = {
    "precision": pa.float64(),
    "spans": pa.large_string(),
    "hits": pa.int64(),
    "fine": pa.bool_(),
    "note": pa.large_string(),
}
CELLS = [
    Cell("good", 1.0, "why", '{"a": 1}', None, (0.5, "[1]", 3, True, "x")),
    Cell(error="skipped: returned None"),
    Cell(None, 0.25, None, None, None, (None, None, None, None, None)),
]


def listed(columns, extras=()):
    """The cells of columns, one by one."""
    fields = [columns.arrays[name].to_pylist() for name in (*schema.FIELDS, *extras)]
    return [Cell(*row[:5], extras=tuple(row[5:])) for row in zip(*fields, strict=True)]


def test_cells_come_back_from_their_columns():
    """A cell without extras comes back with a null for each; nothing else changes."""
    columns = CellColumns.of(CELLS, EXTRAS)

    assert listed(columns, EXTRAS) == [
        CELLS[0],
        CELLS[1]._replace(extras=(None,) * 5),
        CELLS[2],
    ]


@pytest.mark.parametrize("cells", [CELLS, []], ids=["cells", "none"])
def test_columns_have_the_declared_types_even_without_a_cell(cells):
    """No column is ever of Arrow's null type."""
    columns = CellColumns.of(cells, EXTRAS)

    assert {name: array.type for name, array in columns.arrays.items()} == {
        **schema.FIELDS,
        **EXTRAS,
    }
    assert len(columns) == len(cells)


@pytest.mark.parametrize("count", [0, 2, 10_000])
def test_rows_that_ended_alike_have_nothing_but_their_error(count):
    """A gap is a column of nulls and one reason, never a score."""
    columns = CellColumns.all_alike(count, "task_failed: no", {"hits": pa.int64()})

    assert listed(columns, ["hits"]) == [Cell(error="task_failed: no", extras=(None,))] * count


def test_a_slice_is_the_same_rows_of_every_column():
    """Start and length, as in Arrow."""
    columns = CellColumns.of(CELLS, EXTRAS)

    assert listed(columns.slice(1, 2), EXTRAS) == listed(columns, EXTRAS)[1:]


def test_latencies_stand_beside_the_cells():
    """The cells stay as they are; a call that never ran has no latency."""
    columns = CellColumns.of(CELLS, {}).with_latency([0.5, None, 0.0])

    assert columns.arrays["latency_s"] == pa.array([0.5, None, 0.0], pa.float64())
    assert columns.arrays["score"] == pa.array([1.0, None, 0.25])


@pytest.mark.parametrize("rows", [[2, 0, 0, 1], [], [1, 1]], ids=["mixed", "none", "one"])
def test_cells_can_be_taken_any_number_of_times(rows):
    """In the order asked for, with every field and its type."""
    columns = CellColumns.of(CELLS, EXTRAS)

    taken = columns.take(pa.array(rows, pa.int64()))

    everything = listed(columns, EXTRAS)
    assert listed(taken, EXTRAS) == [everything[row] for row in rows]
    assert all(taken.arrays[name].type == array.type for name, array in columns.arrays.items())
