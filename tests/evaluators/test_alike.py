"""Rows that share a cell."""

import pyarrow as pa

from evalframe.core.records import Cell
from evalframe.evaluators.alike import Alike


def test_a_cell_is_made_once_for_all_rows_that_have_its_key():
    """Rows keep their order."""
    made = []

    def cell(key):
        made.append(key)
        return Cell(label=key, extras=(len(key),))

    cells = Alike(cell)
    columns = cells.columns([cells[key] for key in ("b", "aa", "b")], {"size": pa.int64()})

    assert made == ["b", "aa"]
    assert columns.arrays["label"].to_pylist() == ["b", "aa", "b"]
    assert columns.arrays["size"].to_pylist() == [1, 2, 1]
    assert columns.arrays["error"].null_count == len(columns) == 3


def test_no_rows_have_no_cells():
    """The columns are there all the same."""
    columns = Alike(lambda _: Cell(score=1.0)).columns([], {})

    assert len(columns) == 0
    assert columns.arrays["score"].type == pa.float64()
