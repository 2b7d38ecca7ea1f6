"""From cells to result columns."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.cells import CellColumns
from evalframe.core.columns import CHUNK_ROWS, TEXT
from evalframe.core.records import Cell
from evalframe.results.builder import Builder
from evalframe.results.frame import assembled, updated

NOT_RUN = Cell(error="skipped: not run")
FIELDS = ("label", "score", "explanation", "metadata", "error")


def cell(row):
    """A cell that can be told from every other."""
    return Cell(f"label {row}", row / 10_000, f"why {row}", f'{{"row": {row}}}')


def cells_in(columns, name="a"):
    """The cells that result columns hold."""
    arrays = [columns[f"eval.{name}.{field}"] for field in FIELDS]
    rows = zip(*(pa.array(array).to_pylist() for array in arrays), strict=True)
    return [Cell(*row) for row in rows]


def test_every_evaluator_has_its_five_columns_and_then_its_extras_in_order():
    """Names and types are there before any cell is."""
    further = {"hits": pa.int64(), "spans": pa.large_string()}
    builder = Builder([("a", {}), ("b", further)], 2, details=False)

    columns = builder.columns()

    assert {name: array.dtype for name, array in columns.items()} == {
        "eval.a.label": TEXT,
        "eval.a.score": pd.ArrowDtype(pa.float64()),
        "eval.a.explanation": TEXT,
        "eval.a.metadata": TEXT,
        "eval.a.error": TEXT,
        "eval.b.label": TEXT,
        "eval.b.score": pd.ArrowDtype(pa.float64()),
        "eval.b.explanation": TEXT,
        "eval.b.metadata": TEXT,
        "eval.b.error": TEXT,
        "eval.b.hits": pd.ArrowDtype(pa.int64()),
        "eval.b.spans": TEXT,
    }
    assert list(columns)[-3:] == ["eval.b.error", "eval.b.hits", "eval.b.spans"]


def test_cells_that_never_ran_say_so():
    """They are skipped: neither a score of 0 nor a failure, nor valid."""
    columns = Builder([("a", {})], 3, details=False).columns()

    assert cells_in(columns) == [NOT_RUN] * 3


@pytest.mark.parametrize(
    "ran",
    [
        pytest.param([], id="none"),
        pytest.param([0, 1, 2, 3, 4], id="all"),
        pytest.param([0, 1], id="the-first"),
        pytest.param([3, 4], id="the-last"),
        pytest.param([1, 3], id="with-gaps"),
        pytest.param([4, 0, 2], id="in-any-order"),
    ],
)
@pytest.mark.parametrize("way", ["put", "add"])
def test_each_cell_stands_in_its_own_row_and_gaps_are_not_run(ran, way):
    """Whichever way and in whichever order they come."""
    builder = Builder([("a", {})], 5, details=False)
    for row in ran:
        if way == "put":
            builder.put(0, row, cell(row), None)
        else:
            builder.add(0, row, CellColumns.of([cell(row)], {}))

    found = cells_in(builder.columns())

    assert found == [cell(row) if row in ran else NOT_RUN for row in range(5)]


@given(st.data(), st.integers(0, 12))
def test_columns_are_complete_whatever_the_order_and_the_gaps(data, rows):
    """Stretches and single cells, mixed: every row has one cell, its own or `not run`."""
    builder = Builder([("a", {})], rows, details=False)
    kinds = data.draw(
        st.lists(st.sampled_from(["put", "add", "gap"]), min_size=rows, max_size=rows)
    )
    for row in data.draw(st.permutations(range(rows))):
        if kinds[row] == "put":
            builder.put(0, row, cell(row), None)
        elif kinds[row] == "add":
            builder.add(0, row, CellColumns.of([cell(row)], {}))

    found = cells_in(builder.columns())

    assert found == [NOT_RUN if kinds[row] == "gap" else cell(row) for row in range(rows)]


def test_stretches_of_rows_are_joined_in_row_order():
    """They come as their batches end."""
    builder = Builder([("a", {})], 6, details=False)
    builder.add(0, 4, CellColumns.of([cell(4)], {}))
    builder.add(0, 0, CellColumns.of([cell(0), cell(1), cell(2)], {}))

    assert cells_in(builder.columns()) == [
        *(cell(0), cell(1), cell(2), NOT_RUN, cell(4), NOT_RUN),
    ]


def test_evaluators_do_not_mix_their_cells():
    """Each has its place."""
    builder = Builder([("a", {}), ("b", {})], 2, details=False)
    builder.put(0, 1, cell(7), None)
    builder.add(1, 0, CellColumns.of([cell(8)], {}))

    columns = builder.columns()

    assert cells_in(columns, "a") == [NOT_RUN, cell(7)]
    assert cells_in(columns, "b") == [cell(8), NOT_RUN]


@pytest.mark.parametrize("rows", [2, CHUNK_ROWS + 1], ids=["open-chunk", "full-chunk"])
def test_a_cell_put_again_changes_nothing(rows):
    """A run that was interrupted may not know that it is there already."""
    builder = Builder([("a", {})], rows, details=False)
    for row in [*range(rows - 1), 0, 0]:
        builder.put(0, row, cell(row), None)

    assert cells_in(builder.columns()) == [*map(cell, range(rows - 1)), NOT_RUN]


def test_a_stretch_added_again_changes_nothing():
    """Its rows are there once."""
    builder = Builder([("a", {})], 3, details=False)
    for _ in range(2):
        builder.add(0, 0, CellColumns.of([cell(0), cell(1)], {}))

    assert cells_in(builder.columns()) == [cell(0), cell(1), NOT_RUN]


def test_the_columns_can_be_asked_for_again():
    """What an interrupted run hands out is what it has."""
    builder = Builder([("a", {}), ("b", {})], 2, details=False)
    builder.put(0, 1, cell(1), None)

    first = cells_in(builder.columns())

    assert cells_in(builder.columns()) == first == [NOT_RUN, cell(1)]


def test_very_many_parts_become_a_column_of_few_chunks():
    """A column in thousands of pieces is slow to work with."""
    builder = Builder([("a", {})], 1_000, details=False)
    for row in range(1_000):
        builder.add(0, row, CellColumns.of([cell(row)], {}))

    columns = builder.columns()

    assert cells_in(columns) == [cell(row) for row in range(1_000)]
    assert pa.chunked_array(pa.array(columns["eval.a.label"])).num_chunks < 200


def test_more_rows_than_a_chunk_keep_their_places():
    """Cells at both sides of each border, put from the last to the first."""
    rows = 2 * CHUNK_ROWS + 3
    ran = [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, *range(2 * CHUNK_ROWS, rows)]
    builder = Builder([("a", {})], rows, details=False)
    for row in reversed(ran):
        builder.put(0, row, cell(row), None)

    found = cells_in(builder.columns())

    assert [row for row, kept in enumerate(found) if kept != NOT_RUN] == ran
    assert [found[row] for row in ran] == [cell(row) for row in ran]
    assert len(found) == rows


def test_a_full_run_of_single_cells_has_no_gap():
    """Each chunk is closed when its last row is there."""
    rows = CHUNK_ROWS + 1
    builder = Builder([("a", {})], rows, details=False)
    for row in range(rows):
        builder.put(0, row, cell(row), None)

    assert cells_in(builder.columns()) == [cell(row) for row in range(rows)]


def test_a_failure_is_na_and_a_reason_and_never_a_score():
    """Not 0, not NaN."""
    builder = Builder([("a", {"hits": pa.int64()})], 2, details=False)
    builder.put(0, 0, Cell(error="exception: KeyError: 'x'"), None)
    builder.put(0, 1, Cell("good", 0.0, extras=(3,)), None)

    columns = builder.columns()

    assert pa.array(columns["eval.a.score"]).to_pylist() == [None, 0.0]
    assert pa.array(columns["eval.a.label"]).to_pylist() == [None, "good"]
    assert pa.array(columns["eval.a.hits"]).to_pylist() == [None, 3]
    assert pa.array(columns["eval.a.error"]).to_pylist() == ["exception: KeyError: 'x'", None]


def test_details_add_a_latency_that_is_null_where_nothing_ran():
    """After the extras; without details there is none."""
    builder = Builder([("a", {"hits": pa.int64()})], 4, details=True)
    builder.put(0, 2, cell(2), 0.25)
    builder.put(0, 0, cell(0), None)
    builder.add(0, 3, CellColumns.of([cell(3)], {"hits": pa.int64()}))

    columns = builder.columns()

    assert pa.array(columns["eval.a.latency_s"]).to_pylist() == [None, None, 0.25, None]
    assert list(columns)[-2:] == ["eval.a.hits", "eval.a.latency_s"]


def test_an_empty_dataset_has_all_columns_typed():
    """Nothing is left to be guessed from values."""
    columns = Builder([("a", {"hits": pa.int64()})], 0, details=False).columns()

    assert [len(array) for array in columns.values()] == [0] * 6
    assert columns["eval.a.hits"].dtype == pd.ArrowDtype(pa.int64())


def frame():
    """A frame with a difficult index and columns of several dtypes."""
    index = pd.MultiIndex.from_tuples([("b", 1), ("a", 1), ("b", 1)])
    made = pd.DataFrame(
        {"text": ["x", None, "z"], "objects": [[1], {"a": 1}, None], 3: [1.5, np.nan, 2.5]},
        index=index,
    )
    made.attrs["note"] = "mine"
    return made


def columns():
    """Two result columns."""
    return {
        "eval.a.score": pd.array([0.1, 0.2, 0.3], dtype="double[pyarrow]"),
        "eval.a.label": pd.array(["p", "q", "r"], dtype=TEXT),
    }


def test_result_columns_stand_after_the_frame_s_own_by_position():
    """A repeated label in the index sends no value to another row."""
    found = assembled(frame(), columns(), [])

    pd.testing.assert_frame_equal(found.iloc[:, :3], frame())
    assert list(found.columns) == ["text", "objects", 3, "eval.a.score", "eval.a.label"]
    assert found["eval.a.score"].tolist() == [0.1, 0.2, 0.3]
    assert found["eval.a.label"].tolist() == ["p", "q", "r"]
    assert found.attrs == {"note": "mine"}


def test_the_caller_s_frame_is_not_changed():
    """Neither by the result nor by what is done to it."""
    given_frame = frame()

    found = assembled(given_frame, columns(), ["text"])
    found["objects"] = "other"
    found.attrs["note"] = "other"

    pd.testing.assert_frame_equal(given_frame, frame())
    assert given_frame.attrs == {"note": "mine"}


def test_columns_that_are_made_anew_are_dropped_first():
    """The new ones stand at the end, once."""
    before = assembled(frame(), columns(), [])
    again = {**columns(), "eval.a.score": pd.array([0.9, 0.8, 0.7], dtype="double[pyarrow]")}

    found = assembled(before, again, list(again))

    assert list(found.columns) == list(before.columns)
    assert found["eval.a.score"].tolist() == [0.9, 0.8, 0.7]


def test_without_result_columns_the_frame_is_a_new_one():
    """Adding a column to the result adds none to the caller's."""
    given_frame = frame()

    found = assembled(given_frame, {}, [])
    found["new"] = 1

    assert "new" not in given_frame.columns
    pd.testing.assert_frame_equal(found.drop(columns="new"), frame())


def test_an_object_series_as_a_result_column_goes_by_its_position():
    """A task's output of mixed types stands among the columns."""
    index = frame().index
    output = pd.Series(["a", [1], None], index=index, dtype=object)

    found = assembled(frame().drop(columns="objects"), {"output": output}, [])

    assert found["output"].tolist() == ["a", [1], None]


def cells_of(*numbers):
    """Cells of rows with these numbers."""
    return CellColumns.of([cell(number) for number in numbers], {})


def test_cells_that_are_kept_stay_until_they_are_made_anew():
    """Wherever they lie; what has neither is not run."""
    builder = Builder([("a", {})], 5, details=False)
    todo = np.array([False, True, False, True, True])
    builder.keep(0, np.array([0, 1, 2, 3]), cells_of(0, 1, 2, 3), todo)

    builder.put(0, 3, cell(30), None)

    assert cells_in(builder.columns()) == [cell(0), cell(1), cell(2), cell(30), NOT_RUN]


@given(data=st.data(), rows=st.integers(1, 40))
def test_kept_and_new_cells_stand_in_their_rows_whatever_way_they_come(data, rows):
    """One by one, in stretches, or scattered; between kept ones and gaps."""
    subset = st.sets(st.integers(0, rows - 1))
    kept, made = sorted(data.draw(subset)), sorted(data.draw(subset))
    way = data.draw(st.sampled_from(["one-by-one", "scattered"]))
    builder = Builder([("a", {})], rows, details=False)
    todo = np.isin(np.arange(rows), made)
    builder.keep(0, np.array(kept, int), cells_of(*kept), todo)

    if way == "scattered":
        builder.add(0, np.array(made, int), cells_of(*(row + 1_000 for row in made)))
    for row in made if way == "one-by-one" else ():
        builder.put(0, row, cell(row + 1_000), None)

    expected = [NOT_RUN] * rows
    for row in kept:
        expected[row] = cell(row)
    for row in made:
        expected[row] = cell(row + 1_000)
    assert cells_in(builder.columns()) == expected


def test_fingerprints_are_of_cells_that_were_called():
    """Kept ones stay; a new cell takes the place of its own; none where nothing was called."""
    asked = []

    def fingerprints(place, rows):
        asked.append((place, list(rows)))
        return [f"new {row}" for row in rows]

    builder = Builder([("a", {})], 5, details=False, fingerprints=fingerprints)
    old = CellColumns(
        {**cells_of(0, 1, 2).arrays, "fingerprint": pa.array(["x", "y", "z"], pa.large_string())}
    )
    builder.keep(0, np.array([0, 1, 2]), old, np.array([False, True, True, True, True]))
    builder.put(0, 1, cell(1), None)
    builder.put(0, 2, Cell(error="task_failed: not run, the task failed"), None)
    builder.put(0, 3, Cell(error="skipped: budget"), None)

    marks = builder.columns()["eval.a.fingerprint"]

    assert pa.array(marks).to_pylist() == ["x", "new 1", None, None, None]
    assert asked == [(0, [1])]


def test_updated_columns_stay_in_their_places_and_new_ones_stand_beside_them():
    """What is not given of an evaluator that is given goes; all else stays."""
    before = assembled(
        frame(), {**columns(), "eval.a.old": [1, 2, 3], "eval.b.label": ["s", "t", "u"]}, []
    )
    before = before.iloc[:, [3, 0, 5, 4, 1, 6, 2]]
    new = {
        "eval.a.label": pd.array(["P", "Q", "R"], dtype=TEXT),
        "eval.a.score": pd.array([1, 2, 3], dtype="double[pyarrow]"),
        "eval.a.extra": pd.array([7, 8, 9], dtype="int64[pyarrow]"),
        "eval.c.label": pd.array(["v", "w", "x"], dtype=TEXT),
    }

    found = updated(before, new)

    expected = ["eval.a.score", "text", "eval.a.label", "eval.a.extra", "objects"]
    assert list(found.columns) == [*expected, "eval.b.label", 3, "eval.c.label"]
    assert found["eval.a.label"].tolist() == ["P", "Q", "R"]
    assert found["eval.a.score"].tolist() == [1.0, 2.0, 3.0]
    pd.testing.assert_frame_equal(found[["text", "objects", 3]], frame())
    assert found.attrs == {"note": "mine"}


@pytest.mark.parametrize("new", [{}, {"output": pd.array(["a", "b", "c"], dtype=TEXT)}])
def test_an_update_changes_nothing_of_the_callers(new):
    """Neither values nor names nor attrs, however little is updated."""
    given_frame = frame().assign(output=["x", "y", "z"])
    given_frame.attrs["note"] = ["mine"]
    before = given_frame.copy()

    found = updated(given_frame, new)
    found["text"] = "other"
    found.attrs["note"].append("other")
    found.index.names = ["k", "n"]

    pd.testing.assert_frame_equal(given_frame, before)
    assert given_frame.attrs == {"note": ["mine"]}
    assert list(found.columns) == list(before.columns)


def test_gaps_say_why_they_were_left_and_kept_cells_stay():
    """A cell that was to be made anew, and was put off, is that of before, and is counted."""
    builder = Builder([("a", {})], 6, details=False)
    todo = np.array([False, True, True, True, True, True])
    builder.keep(0, np.arange(4), cells_of(0, 1, 2, 3), todo)
    builder.put(0, 1, cell(1_001), None)
    builder.put(0, 2, Cell(error="skipped: budget"), None)
    builder.put(0, 4, Cell(error="skipped: budget"), None)

    found = cells_in(builder.columns("skipped: deadline"))

    left = [Cell(error="skipped: budget"), Cell(error="skipped: deadline")]
    assert found == [*map(cell, [0, 1_001, 2, 3]), *left]
    assert builder.stayed == {"skipped: budget": 1, "skipped: deadline": 1}


def test_a_cell_that_was_put_off_leaves_the_fingerprint_of_the_one_that_stays():
    """It is of what the kept cell was made of, not of what would be made today."""
    builder = Builder(
        [("a", {})], 2, details=False, fingerprints=lambda _, rows: ["new"] * len(rows)
    )
    old = {**cells_of(0, 1).arrays, "fingerprint": pa.array(["x", "y"], pa.large_string())}
    builder.keep(0, np.arange(2), CellColumns(old), np.array([True, True]))
    builder.put(0, 0, cell(7), None)
    builder.put(0, 1, Cell(error="skipped: budget"), None)

    assert pa.array(builder.columns()["eval.a.fingerprint"]).to_pylist() == ["new", "y"]
