"""Finding cells again: the newest of a mark, and never that of another one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.results.journal_cells import JournalCells, columns_of, marks_of, packed

FIELDS = {"label": pa.large_string(), "error": pa.large_string()}
SPREAD = 0x9E3779B97F4A7C15


def cells_of(*batches):
    """Cells of batches of (key, occurrence); the label of each counts them all."""
    cells = JournalCells(FIELDS)
    columns = columns_of("judge", FIELDS)
    number = 0
    for batch in batches:
        keys, occurrences = zip(*batch, strict=True)
        labels = [str(number + at) for at in range(len(batch))]
        arrays = [
            *marks_of(keys, occurrences, range(len(batch))),
            pa.array(labels, pa.large_string()),
            pa.nulls(len(batch), pa.large_string()),
        ]
        cells.add(columns, [pa.RecordBatch.from_arrays(arrays, schema=columns)])
        number += len(batch)
    return cells


def key_of(low, high):
    """The key of two halves."""
    return (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex()


# Few of them, so that marks are written again, and near each other.
MARKS = st.tuples(
    st.builds(key_of, st.integers(0, 2), st.integers(0, 2)), st.integers(0, 2) | st.just(2**62)
)


KEYS = st.builds(key_of, st.integers(0, 2), st.integers(0, 2))


@given(st.lists(st.lists(MARKS, min_size=1, max_size=6), max_size=6), st.lists(KEYS, max_size=9))
def test_the_newest_cells_of_a_key_are_found_in_the_order_of_their_numbers(batches, wanted):
    """As in a dictionary that is filled in the order of writing, and emptied by the rows."""
    cells = cells_of(*batches)
    order = [mark for batch in batches for mark in batch]
    newest = {mark: at for at, mark in enumerate(order)}
    left = {mark: newest[mark] for mark in sorted(newest)}
    expected = []
    for key in wanted:
        mark = next((mark for mark in left if mark[0] == key), None)
        expected.append(-1 if mark is None else left.pop(mark))

    assert cells.find(packed(wanted)).tolist() == expected
    assert cells.newest().tolist() == sorted(newest.values())


def test_keys_whose_hashes_are_equal_are_told_apart():
    """A hash only says where to look."""
    first, second, third = (key_of((5 - high * SPREAD) % 2**64, high) for high in (1, 2, 3))
    cells = cells_of([(first, 0), (second, 0)])

    assert cells.find(packed([second, third, first])).tolist() == [1, -1, 0]


def test_cells_are_given_in_the_order_asked_for_with_repeats():
    """Rows of a frame may stand anywhere, and share a cell."""
    cells = cells_of([("0" * 32, 0), ("1" * 32, 0)], [("2" * 32, 0)])

    assert cells.take([2, 0, 2]).arrays["label"].to_pylist() == ["2", "0", "2"]


@pytest.mark.parametrize("cells", [JournalCells(FIELDS), cells_of([("0" * 32, 0)])])
def test_no_cells_are_columns_without_rows(cells):
    """Types are there all the same."""
    taken = cells.take(np.empty(0, "int64")).arrays

    assert {name: column.type for name, column in taken.items()} == FIELDS
    assert all(len(column) == 0 for column in taken.values())
    assert cells.find(packed([])).tolist() == []


def test_a_column_in_another_place_is_found_by_its_name():
    """Extras that were only declared in another order lose nobody's cells."""
    turned = columns_of("judge", dict(reversed(FIELDS.items())))
    arrays = [*marks_of(["0" * 32], [0], [0]), pa.array([None], pa.large_string())]
    arrays.append(pa.array(["yes"], pa.large_string()))
    cells = JournalCells(FIELDS)
    cells.add(turned, [pa.RecordBatch.from_arrays(arrays, schema=turned)])

    assert cells.take([0]).arrays["label"].to_pylist() == ["yes"]
