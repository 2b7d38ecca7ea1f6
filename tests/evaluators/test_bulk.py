"""Whole columns of returned values, against the same values one by one."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.records import Cell, EvaluationResult, skip
from evalframe.evaluators.bulk import cells_of, normalize_all
from evalframe.evaluators.normalize import Rules, normalize

RULES = Rules()
EXTRAS = {"hits": int, "note": str}


def listed(columns, extras=()):
    """The cells of columns, one by one."""
    fields = [columns.arrays[name].to_pylist() for name in (*schema.FIELDS, *extras)]
    return [Cell(*row[:5], extras=tuple(row[5:])) for row in zip(*fields, strict=True)]


def cells(values, rules=RULES):
    """The cells of values normalised as a whole."""
    return listed(normalize_all(values, rules), rules.extras)


def one_by_one(values, rules=RULES):
    """The cells of values normalised each by itself."""
    found = CellColumns.of([normalize(value, rules) for value in values], rules.columns)
    return listed(found, rules.extras)


FLOATS = st.one_of(
    st.floats(0, 1),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-10, -1e-10, 1 + 2e-9, math.nan, math.inf, -math.inf]),
)
INTS = st.one_of(
    st.integers(0, 1), st.integers(), st.sampled_from([2**53 + 1, 2**63, -(2**63), 10**400])
)
TEXTS = st.one_of(st.text(max_size=4), st.just("\ud800"))
MAYBE = st.one_of(st.none(), TEXTS)
SCORES = [FLOATS, INTS, st.booleans(), st.one_of(FLOATS, INTS)]


def tuples(score):
    """Each accepted form of a tuple, over scores of one kind."""
    return [
        st.tuples(score, MAYBE),
        st.tuples(TEXTS, MAYBE),
        st.tuples(MAYBE, score),
        st.tuples(MAYBE, score, MAYBE),
        st.tuples(score, MAYBE, MAYBE),
        st.tuples(TEXTS, st.none(), MAYBE),
        st.tuples(st.none(), MAYBE),
        st.tuples(st.none(), st.none(), MAYBE),
    ]


# Columns of one kind take the quick way, mixed ones the other: both must end the same.
KINDS = [*SCORES, TEXTS, *(form for score in SCORES for form in tuples(score))]
ODD = st.one_of(
    st.none(),
    st.sampled_from(
        [pd.NA, Decimal("0.5"), np.float64(0.5), np.True_, b"x", [1], (), (1,), skip("why")]
    ),
    st.fixed_dictionaries({"score": FLOATS, "hits": INTS}),
    st.builds(EvaluationResult, score=FLOATS, label=MAYBE, explanation=MAYBE),
)
COLUMNS = st.one_of(
    st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, max_size=5)),
    st.lists(st.sampled_from(KINDS), min_size=2, max_size=2).flatmap(
        lambda kinds: st.lists(st.one_of(kinds), max_size=5)
    ),
    st.lists(st.one_of(ODD, *KINDS), max_size=5),
)
RULE_SETS = st.sampled_from(
    [RULES, Rules(low=1, high=5), Rules(low=-1.0, high=math.inf), Rules(extras=EXTRAS)]
)


@settings(max_examples=600)
@given(COLUMNS, RULE_SETS)
@example([True, False], RULES)
@example([1, 0.5], RULES)
@example([(True, "why"), (False, None)], RULES)
@example([(None, "why"), ("good", "why")], RULES)
@example([("good", 0.5, "why"), (None, 2, None)], RULES)
@example([(0.5, "good", "why"), (0.5, None, None)], RULES)
@example([("good", True), (None, False)], RULES)
@example([2**53 + 1, 0], RULES)
@example([1, True], RULES)
@example([("a", 0.5, 0.5)], RULES)
@example([None, "a"], RULES)
def test_values_together_end_as_they_do_one_by_one(values, rules):
    """The quick way for a column of one kind is only quicker."""
    assert cells(values, rules) == one_by_one(values, rules)


@given(COLUMNS, RULE_SETS)
def test_columns_have_the_declared_types_whatever_was_returned(values, rules):
    """The quick way and the other one cannot be told apart afterwards."""
    expected = CellColumns.of([], rules.columns)

    found = normalize_all(values, rules)

    assert {name: array.type for name, array in found.arrays.items()} == {
        name: array.type for name, array in expected.arrays.items()
    }


@given(COLUMNS)
def test_every_cell_is_valid_failed_or_skipped(values):
    """A verdict without an error, or an error without any part of a verdict."""
    for cell in cells(values):
        verdict = cell.label is not None or cell.score is not None
        assert verdict is (cell.error is None)
        assert verdict or cell == Cell(error=cell.error)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(
            [True, False], [Cell("True", 1.0), Cell("False", 0.0)], id="bools-label-and-score"
        ),
        pytest.param([0, 1], [Cell(score=0.0), Cell(score=1.0)], id="ints"),
        pytest.param([0.0, 0.5], [Cell(score=0.0), Cell(score=0.5)], id="floats"),
        pytest.param(["", "a"], [Cell(""), Cell("a")], id="texts"),
        pytest.param(
            [(0.5, "why"), (0.25, None)], [Cell(None, 0.5, "why"), Cell(None, 0.25)], id="pairs"
        ),
        pytest.param(
            [("good", "why"), ("bad", None)], [Cell("good", None, "why"), Cell("bad")], id="texts-2"
        ),
        pytest.param(
            [("good", 0.5, "why"), (None, 0.25, None)],
            [Cell("good", 0.5, "why"), Cell(None, 0.25)],
            id="label-first",
        ),
        pytest.param(
            [(0.5, "good", "why"), (0.25, None, "so")],
            [Cell("good", 0.5, "why"), Cell(None, 0.25, "so")],
            id="score-first",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_columns_of_one_kind_are_read_by_the_table(values, expected):
    """Spelled out, so that both ways cannot be wrong together."""
    assert cells(values) == expected


def test_h58_falsy_verdicts_in_one_column_are_verdicts():
    """Only None is none; 0, False and '' are not."""
    returned = [0, 0.0, False, "", None, ("bad", 0)]

    found = normalize_all(returned, RULES).arrays

    assert found["score"].to_pylist() == [0.0, 0.0, 0.0, None, None, 0.0]
    assert found["label"].to_pylist() == [None, None, "False", "", None, "bad"]
    assert found["error"].to_pylist() == [None] * 4 + ["skipped: returned None", None]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.5, -0.5])
def test_one_bad_score_fails_alone(bad):
    """Its neighbours keep theirs; it keeps nothing, and is not 0."""
    found = cells([(0.5, "a"), (bad, "b"), (1.0, "c")])

    assert found[::2] == [Cell(None, 0.5, "a"), Cell(None, 1.0, "c")]
    assert found[1] == Cell(error=found[1].error)
    assert found[1].error.startswith(("invalid_result: ", "range: "))


def test_an_integer_beyond_64_bits_fails_alone():
    """It does not fit a column; the others do."""
    found = cells([1, 10**400, 0])

    assert found[::2] == [Cell(score=1.0), Cell(score=0.0)]
    assert found[1].error.endswith("it must be a finite number")


@given(
    st.lists(st.tuples(MAYBE.filter(lambda text: text != "\ud800"), st.one_of(st.none(), FLOATS)))
)
def test_arrow_columns_with_missing_parts_are_skipped_where_nothing_is_left(rows):
    """A label or a score is enough; the explanation is then the reason."""
    labels = pa.array([label for label, _ in rows], pa.large_string())
    scores = pa.array([score for _, score in rows], pa.float64())
    reasons = pa.array(["why"] * len(rows), pa.large_string())

    found = listed(cells_of(RULES, label=labels, score=scores, explanation=reasons))

    assert found == [
        normalize(
            skip("why")
            if label is None and score is None
            else {"label": label, "score": score, "explanation": "why"},
            RULES,
        )
        for label, score in rows
    ]


def test_a_long_reason_for_skipping_is_cut():
    """An error cell has at most 2,000 characters, as it has one by one."""
    reason = "x" * 5_000
    score, why = pa.array([None, 0.5], pa.float64()), pa.array([reason, reason], pa.large_string())

    found = listed(cells_of(RULES, score=score, explanation=why))

    assert found == [normalize(skip(reason), RULES), Cell(None, 0.5, reason)]
    assert len(found[0].error) == 2_000


@pytest.mark.parametrize("kind", [pa.float32(), pa.int8(), pa.uint64(), pa.int64(), pa.float64()])
def test_any_kind_of_arrow_number_is_a_score(kind):
    """As 64-bit floats."""
    found = cells_of(RULES, score=pa.array([1, None, 0], kind))

    assert found.arrays["score"] == pa.array([1.0, None, 0.0])


def test_a_large_arrow_integer_is_out_of_range_and_no_error_of_its_own():
    """It has no exact float, and needs none."""
    found = cells_of(RULES, score=pa.array([2**60 + 1, 1]))

    assert found.arrays["error"].to_pylist() == [normalize(2**60 + 1, RULES).error, None]


def test_arrow_bools_give_the_label_only_where_there_is_none():
    """The user's label counts."""
    found = cells_of(
        RULES, score=pa.array([True, False]), label=pa.array(["ok", None], pa.large_string())
    )

    assert listed(found) == [Cell("ok", 1.0), Cell("False", 0.0)]


def test_extras_of_a_failed_row_are_gone():
    """A failed cell has nothing but its error."""
    rules = Rules(extras={"hits": int})

    found = cells_of(rules, score=pa.array([0.5, 7.0]), extras={"hits": pa.array([1, 2])})

    assert found.arrays["hits"].to_pylist() == [1, None]
