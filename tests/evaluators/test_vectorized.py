"""What a vectorized evaluator returns, placed on its rows."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.columns import TEXT
from evalframe.core.records import Cell
from evalframe.evaluators.normalize import InvalidResultError, Rules, normalize
from evalframe.evaluators.vectorized import place

RULES = Rules()
THREE = pd.RangeIndex(3)
FILTERED = pd.Index([2, 3])
GOOD = [Cell(score=0.1), Cell(score=0.2)]

INDEXES = {
    "range": pd.RangeIndex(2),
    "range-from-5": pd.RangeIndex(5, 7),
    "filtered": FILTERED,
    "float": pd.Index([0.5, 9.9]),
    "text": pd.Index(["b", "a"]),
    "time": pd.DatetimeIndex(["2024-05-02", "2024-05-01"], tz="UTC"),
    "multi": pd.MultiIndex.from_tuples([("a", 2), ("a", 1)]),
    "category": pd.CategoricalIndex(["b", "a"]),
}


def listed(columns, extras=()):
    """The cells of columns, one by one."""
    fields = [columns.arrays[name].to_pylist() for name in (*schema.FIELDS, *extras)]
    return [Cell(*row[:5], extras=tuple(row[5:])) for row in zip(*fields, strict=True)]


def placed(returned, index=THREE, rules=RULES):
    """The cells, row by row."""
    return listed(place(returned, index, rules), rules.extras)


def one_by_one(values, rules=RULES):
    """What each value alone would be."""
    found = CellColumns.of([normalize(value, rules) for value in values], rules.columns)
    return listed(found, rules.extras)


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda values, index: values, id="list"),
        pytest.param(lambda values, index: np.array(values), id="numpy"),
        pytest.param(lambda values, index: pa.array(values), id="arrow"),
        pytest.param(lambda values, index: pd.array(values), id="pandas-array"),
        pytest.param(lambda values, index: iter(values), id="generator"),
        pytest.param(lambda values, index: pd.Index(values), id="index-as-values"),
        pytest.param(lambda values, index: pd.Series(values, index=index), id="own-index"),
        pytest.param(lambda values, index: pd.Series(values), id="counting-index"),
        pytest.param(
            lambda values, index: pd.Series(values, index=index).iloc[::-1], id="other-order"
        ),
        pytest.param(
            lambda values, index: pd.DataFrame({"score": values}, index=index).iloc[::-1],
            id="frame-in-other-order",
        ),
        pytest.param(
            lambda values, index: {"score": pd.Series(values, index=index).iloc[::-1]},
            id="dict-in-other-order",
        ),
        pytest.param(
            lambda values, index: (pd.Series(values, index=index).iloc[::-1], ["", ""]),
            id="tuple-in-other-order",
        ),
    ],
)
def test_h02_results_reach_their_rows_whatever_the_index(index, make):
    """Without labels or with counting ones by position, in another order by label."""
    found = place(make([0.1, 0.2], index), index, RULES)

    assert found.arrays["score"].to_pylist() == [0.1, 0.2]


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param([0.1, 0.2], id="A-list"),
        pytest.param(pd.Series([0.1, 0.2]), id="B-counting-index"),
        pytest.param(pd.Series([0.2, 0.1], index=[3, 2]), id="C-other-order"),
    ],
)
def test_h02_the_three_forms_of_the_case_agree(returned):
    """On a filtered frame, where alignment by label alone gives nulls."""
    assert placed(returned, FILTERED) == GOOD


def test_h02_an_index_that_is_neither_is_an_error_that_shows_both():
    """Nothing is aligned by guess, and nothing becomes null."""
    with pytest.raises(
        InvalidResultError,
        match=r"^returned an index that is not the rows': it has \[7, 8\], the rows have \[2, 3\]; "
        r"keep the index of the given Series, or return \.to_numpy\(\)$",
    ):
        placed(pd.Series([0.1, 0.2], index=[7, 8]), FILTERED)


def test_an_int64_index_holds_labels_even_if_it_counts():
    """Only a RangeIndex counts positions: these labels are rows 0 and 1 of another frame."""
    with pytest.raises(InvalidResultError, match=r"it has \[0, 1\], the rows have \[2, 3\]"):
        placed(pd.Series([0.1, 0.2], index=pd.Index([0, 1])), FILTERED)


def test_an_int64_index_of_the_rows_own_labels_is_followed():
    """By label although the rows count from 0."""
    returned = pd.Series([0.3, 0.1, 0.2], index=pd.Index([2, 0, 1]))

    assert [cell.score for cell in placed(returned)] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "index", [pd.RangeIndex(1, 3), pd.RangeIndex(0, 4, 2), pd.RangeIndex(1, -1, -1)], ids=str
)
def test_a_range_that_does_not_count_from_0_by_1_holds_labels(index):
    """It was cut out of another frame."""
    with pytest.raises(InvalidResultError, match="an index that is not the rows'"):
        placed(pd.Series([0.1, 0.2], index=index), FILTERED)


def test_rows_with_equal_labels_are_placed_by_position_only():
    """In another order nobody knows which is which."""
    index = pd.Index(["a", "a"])

    assert placed(pd.Series([0.1, 0.2], index=["a", "a"]), index) == GOOD
    with pytest.raises(InvalidResultError, match=r"the rows have \['a', 'b', 'a'\]"):
        placed(pd.Series([0.1, 0.2, 0.3], index=list("aab")), pd.Index(list("aba")))


@pytest.mark.parametrize(
    "kind", [lambda s: s, lambda s: s.to_frame("score"), lambda s: {"score": s}]
)
def test_an_index_with_a_repeated_label_is_an_error(kind):
    """It does not hold the rows' labels."""
    with pytest.raises(InvalidResultError, match=r"it has \[2, 2\], the rows have \[2, 3\]"):
        placed(kind(pd.Series([0.1, 0.2], index=[2, 2])), FILTERED)


def test_long_indexes_are_cut_in_the_message():
    """Five labels tell what is wrong."""
    with pytest.raises(InvalidResultError, match=r"it has \[1, 2, 3, 4, 5, \.\.\.\]"):
        placed(pd.Series(0.5, index=range(1, 9)), pd.RangeIndex(8))


@pytest.mark.parametrize("count", [2, 4], ids=["short", "long"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda values: values, id="list"),
        pytest.param(np.array, id="numpy"),
        pytest.param(pa.array, id="arrow"),
        pytest.param(pd.Series, id="series"),
        pytest.param(lambda values: (value for value in values), id="generator"),
        pytest.param(lambda values: pd.DataFrame({"score": values}), id="frame"),
        pytest.param(lambda values: {"score": values}, id="dict"),
        pytest.param(lambda values: (values, values), id="tuple"),
    ],
)
def test_h56_a_wrong_length_is_an_error_with_both_numbers(make, count):
    """Never cut, never padded."""
    with pytest.raises(InvalidResultError, match=f"^returned {count} results for 3 rows$"):
        placed(make([0.5] * count))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(pd.DataFrame, id="pandas"),
        pytest.param(pa.table, id="arrow"),
        pytest.param(lambda columns: pa.table(columns).to_batches()[0], id="arrow-batch"),
        pytest.param(pl.DataFrame, id="polars"),
        pytest.param(dict, id="dict"),
    ],
)
def test_tables_of_all_kinds_are_taken_over_by_name(make):
    """A row that has neither label nor score is skipped, in each of them."""
    returned = make({"label": ["a", None, None], "score": [0.1, 0.2, None]})

    assert placed(returned) == [
        Cell("a", 0.1),
        Cell(None, 0.2),
        Cell(error="skipped: returned None"),
    ]


def test_h56_a_frame_of_the_right_length_is_taken_over_by_name():
    """In any order of columns."""
    returned = pd.DataFrame({"label": ["a", "b", "c"], "score": [0.1, 0.2, 0.3]})

    assert placed(returned) == placed(returned[["score", "label"]])
    assert placed(returned) == [Cell("a", 0.1), Cell("b", 0.2), Cell("c", 0.3)]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        pytest.param("abc", r"returned 'abc' \(str\) for 3 rows", id="text-of-three-letters"),
        pytest.param(0.5, r"returned 0\.5 \(float\) for 3 rows", id="float"),
        pytest.param(None, r"returned None \(NoneType\) for 3 rows", id="none"),
        pytest.param(
            {0: 0.1, 1: 0.2, 2: 0.3},
            "returned columns named 0, 1, 2; they may be",
            id="dict-by-row",
        ),
        pytest.param(np.ones((3, 1)), r"returned an array of shape \(3, 1\)", id="3x1-array"),
        pytest.param(np.float64(0.5), r"\(float64\) for 3 rows", id="numpy-float"),
        pytest.param(np.array(0.5), r"returned an array of shape \(\)", id="0d-array"),
        pytest.param({0.1, 0.2, 0.3}, r"\(set\) for 3 rows", id="set"),
        pytest.param(b"abc", r"\(bytes\) for 3 rows", id="bytes"),
        pytest.param({"score": "abc"}, r"returned 'abc' \(str\) for 3 rows", id="text-in-dict"),
        pytest.param({"score": 0.5}, r"returned 0\.5 \(float\) for 3 rows", id="float-in-dict"),
        pytest.param((0.5, "why"), r"returned 0\.5 \(float\) for 3 rows", id="a-single-verdict"),
        pytest.param(
            {"score": pl.DataFrame({"a": [1, 2, 3]})},
            "DataFrame.* where one column",
            id="polars-part",
        ),
        pytest.param(
            {"score": pd.DataFrame({"a": [1, 2, 3]})},
            "DataFrame.* where one column",
            id="frame-part",
        ),
        pytest.param(([0.1] * 3,), "returned a tuple of 1; up to three", id="one-column"),
        pytest.param(([0.1] * 3,) * 4, "returned a tuple of 4; up to three", id="four-columns"),
    ],
)
def test_h57_anything_that_is_no_column_is_an_error_that_names_its_type(returned, message):
    """A text is never walked letter by letter, a number never spread."""
    with pytest.raises(InvalidResultError, match=message):
        placed(returned)


def test_h57_a_generator_of_numbers_is_a_column_of_scores():
    """It is read once, to its end."""
    assert placed(x / 10 for x in (1, 2, 3)) == one_by_one([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(pd.Series([True, False, None], dtype="boolean"), id="nullable"),
        pytest.param(pd.Series([True, False, None], dtype="bool[pyarrow]"), id="arrow-backed"),
        pytest.param(pd.Series([True, False, None], dtype=object), id="objects"),
        pytest.param(pd.array([True, False, None], dtype="boolean"), id="pandas-array"),
        pytest.param(pa.array([True, False, None]), id="arrow"),
        pytest.param(pa.chunked_array([[True], [False, None]]), id="chunked"),
        pytest.param(pl.Series([True, False, None]), id="polars"),
        pytest.param([True, False, None], id="list"),
        pytest.param(np.array([True, False, None], dtype=object), id="numpy-objects"),
    ],
)
def test_bools_are_labels_and_scores_and_missing_ones_are_skipped(returned):
    """In whatever kind of column they come."""
    assert placed(returned) == [
        Cell("True", 1.0),
        Cell("False", 0.0),
        Cell(error="skipped: returned None"),
    ]


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(pd.Series(["a", "", None]), id="str"),
        pytest.param(pd.Series(["a", "", None], dtype=TEXT), id="string"),
        pytest.param(pd.Series(["a", "", None], dtype=object), id="objects"),
        pytest.param(pd.Series(["a", "", None], dtype="category"), id="category"),
        pytest.param(pa.array(["a", "", None]), id="arrow"),
        pytest.param(pl.Series(["a", "", None]), id="polars"),
        pytest.param(["a", "", None], id="list"),
    ],
)
def test_texts_are_labels_and_missing_ones_are_skipped(returned):
    """The empty text is a label."""
    assert placed(returned) == [Cell("a"), Cell(""), Cell(error="skipped: returned None")]


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(pd.Series([0.5, math.nan]), id="float"),
        pytest.param(pd.Series([0.5, None], dtype="Float64"), id="nullable"),
        pytest.param(pd.Series([0.5, None], dtype="double[pyarrow]"), id="arrow-backed"),
        pytest.param(
            pd.Series(
                pd.arrays.ArrowExtensionArray(pa.array([0.5, math.nan])),
            ),
            id="nan-in-arrow-backed",
        ),
        pytest.param(pd.Series([0.5, math.nan], dtype=object), id="nan-object"),
        pytest.param(pd.Series([0.5, pd.NA], dtype=object), id="na-object"),
        pytest.param(pd.Series([0.5, math.nan], dtype="float16"), id="float16"),
        pytest.param(pd.DataFrame({"score": [0.5, math.nan]}), id="frame"),
        pytest.param({"score": pd.Series([0.5, math.nan])}, id="dict"),
    ],
)
def test_missing_in_a_pandas_result_is_skipped(returned):
    """There pandas has no other way to say it."""
    assert placed(returned, pd.RangeIndex(2)) == [
        Cell(score=0.5),
        Cell(error="skipped: returned None"),
    ]


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(np.array([0.5, math.nan]), id="numpy"),
        pytest.param(np.array([0.5, math.nan], dtype="float32"), id="numpy-float32"),
        pytest.param(np.array([0.5, math.nan], dtype=object), id="numpy-objects"),
        pytest.param(pa.array([0.5, math.nan]), id="arrow"),
        pytest.param(pl.Series([0.5, math.nan]), id="polars"),
        pytest.param([0.5, math.nan], id="list"),
        pytest.param({"score": np.array([0.5, math.nan])}, id="dict-of-numpy"),
        pytest.param({"score": [0.5, math.nan]}, id="dict-of-list"),
    ],
)
def test_nan_in_numpy_arrow_or_a_list_is_a_failure(returned):
    """There it is a number gone wrong, not a missing value."""
    assert placed(returned, pd.RangeIndex(2)) == [
        Cell(score=0.5),
        Cell(
            error="invalid_result: returned the score nan (float); it must be a finite number",
        ),
    ]


def test_a_masked_value_of_a_numpy_array_is_skipped():
    """It says itself that it is missing."""
    assert placed(np.ma.array([0.5, 0.7], mask=[False, True]), pd.RangeIndex(2)) == [
        Cell(score=0.5),
        Cell(error="skipped: returned None"),
    ]


@pytest.mark.parametrize("kind", ["M8[ns]", "m8[ns]", "M8[s]"])
def test_times_are_no_scores(kind):
    """NumPy would turn them into integers."""
    found = placed(np.zeros(2, kind), pd.RangeIndex(2))

    assert [cell.error.split(":")[0] for cell in found] == ["invalid_result"] * 2


@pytest.mark.parametrize("score", [1.5, -0.5, 2**60 + 1])
@pytest.mark.parametrize(
    "make", [list, np.array, pa.array, pd.Series, lambda scores: pd.DataFrame({"score": scores})]
)
def test_a_score_out_of_range_fails_its_row_alone(make, score):
    """Never clipped."""
    found = placed(make([score, 1]), pd.RangeIndex(2))

    assert found == [Cell(error=normalize(score, RULES).error), Cell(score=1.0)]


def test_lists_hold_verdicts_of_any_form():
    """Element by element, by the table of single returns."""
    returned = [True, 0.5, "good", ("good", 0.5, "why"), {"score": 1}, None, [1]]

    assert placed(returned, pd.RangeIndex(7)) == one_by_one(returned)


TEXT_COLUMN = pd.Series(["a", "b"], dtype=TEXT)
NUMBER_COLUMN = pd.Series([0.1, 0.2])
BOOL_COLUMN = pd.Series([True, False], dtype="bool[pyarrow]")
WHY = pd.Series(["why", None], dtype=TEXT)


@pytest.mark.parametrize("make", [lambda column: column, list], ids=["series", "lists"])
@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        pytest.param(
            (NUMBER_COLUMN, WHY), [Cell(None, 0.1, "why"), Cell(None, 0.2)], id="number-text"
        ),
        pytest.param(
            (BOOL_COLUMN, WHY), [Cell("True", 1.0, "why"), Cell("False", 0.0)], id="bool-text"
        ),
        pytest.param((TEXT_COLUMN, WHY), [Cell("a", None, "why"), Cell("b")], id="text-text"),
        pytest.param((TEXT_COLUMN, NUMBER_COLUMN), [Cell("a", 0.1), Cell("b", 0.2)], id="text-num"),
        pytest.param((TEXT_COLUMN, BOOL_COLUMN), [Cell("a", 1.0), Cell("b", 0.0)], id="text-bool"),
        pytest.param(
            (TEXT_COLUMN, NUMBER_COLUMN, WHY),
            [Cell("a", 0.1, "why"), Cell("b", 0.2)],
            id="label-score-explanation",
        ),
        pytest.param(
            (NUMBER_COLUMN, TEXT_COLUMN, WHY),
            [Cell("a", 0.1, "why"), Cell("b", 0.2)],
            id="score-label-explanation",
        ),
        pytest.param(
            (BOOL_COLUMN, TEXT_COLUMN, WHY),
            [Cell("a", 1.0, "why"), Cell("b", 0.0)],
            id="bool-label-explanation",
        ),
    ],
)
def test_a_tuple_of_columns_is_read_by_the_table(columns, cells, make):
    """Label, score and explanation are never swapped."""
    returned = tuple(
        make(column.where(column.notna(), None)) if make is list else column for column in columns
    )
    returned = tuple(
        [None if value is pd.NA else value for value in column] if make is list else column
        for column in returned
    )

    assert placed(returned, pd.RangeIndex(2)) == cells


def test_a_tuple_of_two_number_columns_fails_every_row():
    """As a tuple of two numbers does."""
    found = placed((NUMBER_COLUMN, NUMBER_COLUMN), pd.RangeIndex(2))

    assert found == one_by_one([(0.1, 0.1), (0.2, 0.2)])


def test_each_column_of_a_tuple_is_placed_by_its_own_index():
    """One may be sorted, the other not."""
    returned = (pd.Series([0.2, 0.1], index=[3, 2]), pd.Series(["a", "b"], index=[2, 3]))

    assert placed(returned, FILTERED) == [Cell(None, 0.1, "a"), Cell(None, 0.2, "b")]


def test_named_columns_of_all_kinds_are_taken_over():
    """Metadata as JSON text, extras by their declaration."""
    rules = Rules(extras={"hits": int, "spans": "json", "part": float})
    returned = {
        "score": [0.5, None],
        "label": pd.Series(["a", "b"]),
        "explanation": np.array(["x", "y"]),
        "metadata": [{"k": (1,)}, None],
        "hits": pa.array([1, None]),
        "spans": [[1], None],
        "part": [1, None],
    }

    assert placed(returned, pd.RangeIndex(2), rules) == [
        Cell("a", 0.5, "x", '{"k": {"$tuple": [1]}}', None, (1, "[1]", 1.0)),
        Cell("b", None, "y", extras=(None, None, None)),
    ]


@pytest.mark.parametrize("metadata", [{}, {"metadata": [{"a": 1}, None]}], ids=["quick", "by-row"])
def test_a_row_of_named_columns_without_a_verdict_is_skipped_for_its_explanation(metadata):
    """Whatever other columns there are."""
    returned = pd.DataFrame(
        {"score": [0.5, None], "explanation": ["fine", "no contexts"], **metadata}
    )

    assert placed(returned, pd.RangeIndex(2))[1] == Cell(error="skipped: no contexts")


@pytest.mark.parametrize("make", [dict, pd.DataFrame], ids=["dict", "frame"])
def test_undeclared_columns_are_an_error_that_names_them(make):
    """With the accepted ones."""
    with pytest.raises(
        InvalidResultError,
        match=r"^returned columns named 'scores'; they may be 'label', 'score', 'explanation', "
        r"'metadata' and declared extras \('hits'\)$",
    ):
        placed(make({"scores": [1, 1, 1], "label": ["a"] * 3}), rules=Rules(extras={"hits": int}))


@pytest.mark.parametrize("make", [dict, pd.DataFrame], ids=["dict", "frame"])
def test_a_label_or_a_score_column_must_be_there(make):
    """An explanation alone is no verdict."""
    with pytest.raises(InvalidResultError, match="returned neither a label nor a score column"):
        placed(make({"explanation": ["a"] * 3}))


@pytest.mark.parametrize(
    "returned",
    [
        pd.DataFrame([[1.0, 0.0]] * 3, columns=["score", "score"]),
        pa.table([[1.0] * 3, [0.0] * 3], names=["score", "score"]),
    ],
    ids=["pandas", "arrow"],
)
def test_a_table_with_a_column_twice_is_an_error(returned):
    """Neither of the two is dropped in silence."""
    with pytest.raises(InvalidResultError, match="columns 'score', 'score': one of them is there"):
        placed(returned)


def test_extras_of_another_type_fail_their_rows():
    """The declaration is the type of the column."""
    rules = Rules(extras={"hits": int})
    found = placed({"score": [1, 1], "hits": ["x", 2]}, pd.RangeIndex(2), rules)

    assert found == one_by_one([{"score": 1, "hits": "x"}, {"score": 1, "hits": 2}], rules)


def test_a_large_integer_is_a_float_extra_all_the_same():
    """As it is row by row."""
    rules = Rules(extras={"part": float})
    returned = pd.DataFrame({"score": [1, 0], "part": [2**60 + 1, 0]})

    assert placed(returned, pd.RangeIndex(2), rules) == one_by_one(
        [{"score": 1, "part": 2**60 + 1}, {"score": 0, "part": 0}], rules
    )


@pytest.mark.parametrize(
    "returned",
    [
        [],
        np.array([]),
        pa.array([], pa.float64()),
        pa.array([]),
        pd.Series([], dtype=object),
        pd.DataFrame({"score": []}),
        ([], []),
        {"score": []},
    ],
    ids=lambda returned: type(returned).__name__,
)
def test_no_rows_give_no_cells_with_all_columns_typed(returned):
    """An empty dataset is no special case."""
    found = place(returned, pd.RangeIndex(0), RULES)

    assert found.arrays == CellColumns.of([], {}).arrays


def test_an_awaitable_is_an_error():
    """It is closed, so that Python does not warn of it later."""

    async def verdicts():
        return [1, 1, 1]

    with pytest.raises(InvalidResultError, match=r"\(coroutine\) for 3 rows"):
        placed(verdicts())


VERDICTS = st.one_of(
    st.lists(st.booleans()),
    st.lists(st.floats(-0.5, 1.5)),
    st.lists(st.integers(-1, 2)),
    st.lists(st.text(max_size=3)),
    st.lists(st.tuples(st.floats(0, 1), st.text(max_size=3))),
    st.lists(st.tuples(st.text(max_size=2), st.booleans(), st.text(max_size=2))),
    st.lists(st.one_of(st.none(), st.booleans(), st.floats(0, 1), st.text(max_size=2))),
)


@given(VERDICTS, st.randoms())
def test_a_column_of_verdicts_is_what_the_rows_would_be(values, rng):
    """Row by row, as a list, as a Series, and as a shuffled Series with the rows' labels."""
    index = pd.Index(range(10, 10 + len(values)))
    series = pd.Series(values, index=index, dtype=object)
    shuffled = series.iloc[rng.sample(range(len(values)), len(values))]
    expected = one_by_one(values)

    assert placed(values, index) == expected
    assert placed(series, index) == expected
    assert placed(shuffled, index) == expected


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(max_size=2)),
            st.one_of(st.none(), st.floats(-0.5, 1.5)),
            st.one_of(st.none(), st.text(max_size=2)),
        )
    )
)
def test_named_columns_are_what_dicts_row_by_row_would_be(rows):
    """But that a row without label and score is skipped, as missing values are."""
    index = pd.RangeIndex(len(rows))
    names = ("label", "score", "explanation")
    frame = pd.DataFrame(rows, columns=names).astype(
        {"label": TEXT, "score": "float64", "explanation": TEXT}
    )
    expected = one_by_one(
        [
            (None, explanation)
            if label is score is None and explanation is not None
            else None
            if label is score is None
            else {"label": label, "score": score, "explanation": explanation}
            for label, score, explanation in rows
        ]
    )

    assert placed(frame, index) == expected
    assert placed({name: frame[name] for name in names}, index) == expected
    assert placed({name: [row[i] for row in rows] for i, name in enumerate(names)}, index) == (
        expected
    )
