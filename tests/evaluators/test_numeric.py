"""NumericClose: which numbers are close, and what is no number."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef

NAN, INF = float("nan"), float("inf")
NO_REFERENCE = "skipped: no reference"


@pytest.mark.parametrize(
    ("options", "output", "reference", "close"),
    [
        pytest.param({}, 1.0, 1.0 + 1e-12, True, id="default-allows-rounding"),
        pytest.param({}, 1.0, 1.001, False, id="default-allows-no-more"),
        pytest.param({}, 1e-12, 0.0, False, id="relative-to-zero-is-zero"),
        pytest.param({"abs_tol": 1e-9}, 1e-12, 0.0, True, id="absolute-near-zero"),
        pytest.param({"rel_tol": 0.1}, 90.0, 100.0, True, id="at-the-relative-bound"),
        pytest.param({"rel_tol": 0.1}, 100.0, 90.0, True, id="relative-to-the-larger"),
        pytest.param({"rel_tol": 0.0, "abs_tol": 0.5}, 1.5, 2.0, True, id="at-the-absolute-bound"),
        pytest.param({"rel_tol": 0}, 3, 3.0, True, id="exact"),
        pytest.param({}, -5, 5, False, id="sign"),
        pytest.param({}, INF, INF, True, id="infinity"),
        pytest.param({"rel_tol": 1}, INF, 1e308, False, id="only-infinity-is-close-to-infinity"),
        pytest.param({}, -INF, INF, False, id="infinities-of-both-signs"),
        pytest.param({"rel_tol": 1}, -1e308, 1e308, False, id="difference-overflows"),
        pytest.param({"rel_tol": 3}, 1e308, -1e308, True, id="room-overflows"),
        pytest.param({}, 2**53 + 1, 2**53, True, id="int-beyond-float-precision"),
        pytest.param({}, 2**63 - 1, 2.0**63, True, id="largest-int64"),
        pytest.param({}, 10**400, 10**400 + 1, True, id="int-beyond-any-float"),
        pytest.param({}, 10**400, 2 * 10**400, False, id="ints-beyond-any-float"),
        pytest.param({}, 10**400, 1.0, False, id="int-beyond-any-float-and-float"),
        pytest.param({}, 10**400, INF, False, id="int-beyond-any-float-and-infinity"),
        pytest.param({}, Decimal("1E+400"), Decimal("2E+400"), False, id="decimals-beyond-floats"),
        pytest.param({}, Decimal("Infinity"), INF, True, id="decimal-infinity"),
        pytest.param({}, Decimal("0.1"), 0.1, True, id="decimal"),
    ],
)
def test_close_is_what_math_isclose_says(judge, options, output, reference, close):
    """Alone in a typed column, and in a mixed one where values are compared one by one."""
    evaluator = ef.NumericClose(**options)
    mixed = [output, 1, 2.0], [reference, 1.0, 2]

    assert judge(evaluator, [output], [reference]) == [close]
    assert judge(evaluator, *mixed) == [close, True, True]


numbers = st.none() | st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1).map(float)
tolerances = st.sampled_from([0.0, 1e-9, 0.1, 1.0, 2.0]) | st.floats(0, 1e300)


@given(
    rows=st.lists(st.tuples(numbers, numbers) | numbers.map(lambda x: (x, x)), max_size=6),
    rel_tol=tolerances,
    abs_tol=tolerances,
)
def test_whole_columns_agree_with_math_isclose(rows, rel_tol, abs_tol):
    """For every pair of floats, with every tolerance."""
    output, reference = (
        pd.Series([row[side] for row in rows], dtype="double[pyarrow]") for side in (0, 1)
    )
    expected = [
        None
        if b is None
        else a is not None and math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
        for a, b in rows
    ]

    frame = pd.DataFrame({"output": output, "dataset_output": reference})
    close = ef.NumericClose(rel_tol=rel_tol, abs_tol=abs_tol)

    scores = ef.run_experiment(frame, evaluators=[close], progress=False).evals.scores

    assert pa.array(scores["numeric_close"]).to_pylist() == expected


def test_long_columns_are_judged_to_the_end():
    """Every row by its own numbers, wherever it stands."""
    count = 50_000
    numbers = np.arange(count, dtype=float)
    frame = pd.DataFrame({"output": numbers, "dataset_output": numbers + (numbers % 7 == 0)})

    scores = ef.run_experiment(frame, evaluators=[ef.NumericClose()], progress=False).evals.scores

    assert scores["numeric_close"].to_numpy().tolist() == (numbers % 7 != 0).tolist()


NUMBER_COLUMNS = {
    **{kind: pd.Series([1, 3, 0, 7], dtype=kind) for kind in ("int8", "uint64", "f2", "f4", "f8")},
    **{kind: pd.Series([1, 3, 0, 7], dtype=kind) for kind in ("Int64", "Float32")},
    "decimal": pd.Series(
        pd.arrays.ArrowExtensionArray(pa.array([1, 3, 0, 7], pa.decimal128(9, 2)))
    ),
    "object": pd.Series([1, 3.0, Decimal(0), np.float32(7)], dtype=object),
    "chunks": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([[1], [], [3, 0, 7]]))),
}


@pytest.mark.parametrize("kind", NUMBER_COLUMNS)
def test_every_type_of_number_is_read(judge, kind):
    """On either side; NaN and every other null of the reference is no reference."""
    column, other = NUMBER_COLUMNS[kind], pd.Series([1.0, 4.0, 0.0, NAN])

    assert judge(ef.NumericClose(), column, other) == [True, False, True, NO_REFERENCE]
    assert judge(ef.NumericClose(), other, column) == [True, False, True, False]


def test_h10_nan_is_missing_and_no_number(judge):
    """A NaN output is a null output, a NaN reference is none; nothing turns into NaN."""
    output, reference = pd.Series([0.9, NAN, 0.8, NAN]), pd.Series([0.9, 0.5, NAN, NAN])

    outcomes = judge(ef.NumericClose(), output, reference)

    assert outcomes == [True, False, NO_REFERENCE, NO_REFERENCE]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("1", "'1' (str)", id="text"),
        pytest.param(True, "True (bool)", id="bool"),
        pytest.param([1], "[1] (list)", id="list"),
        pytest.param(Decimal("NaN"), "Decimal('NaN') (Decimal)", id="decimal-nan"),
        pytest.param(Decimal("sNaN"), "Decimal('sNaN') (Decimal)", id="signaling-nan"),
    ],
)
def test_what_is_no_number_fails_alone(judge, value, shown):
    """In a mixed column, on either side; the row beside it has its verdict."""
    failed = f"invalid_result: {{}} is {shown}, not a number"
    column, other = [value, 1, 2.5], [1, 1.0, 2]

    assert judge(ef.NumericClose(), column, other) == [failed.format("output"), True, False]
    assert judge(ef.NumericClose(), other, column) == [failed.format("dataset_output"), True, False]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        pytest.param(
            ["1", "2"],
            r"large_string \(text is not compared with numbers\)\. Convert it: \.bind\(",
            id="text",
        ),
        pytest.param([True, False], r"bool\. Give another column with \.bind\(\)", id="bool"),
        pytest.param([[1], [2]], "list", id="list"),
        pytest.param(
            pd.to_datetime(["2024-05-01", "2024-05-02"]).to_series(), "timestamp", id="time"
        ),
    ],
)
@pytest.mark.parametrize("side", ["output", "dataset_output"])
def test_columns_that_are_no_numbers_are_refused_before_the_run(judge, column, said, side):
    """On either side, with the way out."""
    columns = {"output": [1, 2], "dataset_output": [1, 2], side: column}

    message = f"'numeric_close': it needs numbers, but {side} is .*{said}"
    with pytest.raises(ef.ExperimentError, match=message):
        judge(ef.NumericClose(), **columns)


def test_outputs_of_a_task_that_are_text_are_failed_cells(judge_task):
    """Not zeros; a null stays a null, and a row without a reference is skipped."""
    outcomes = judge_task(ef.NumericClose(), ["1", None, "x"], [1, 2, None])

    failed = "invalid_result: output is '1' (str), not a number"
    assert outcomes == [failed, False, NO_REFERENCE]


def test_the_way_out_that_the_error_names_works(judge):
    """The function it shows reads numbers from text, leaves nulls, and fails on other text."""
    close = ef.NumericClose().bind(output=lambda output: output and float(output))

    one, two, three = judge(close, ["1e0", None, "one"], [1, 2, 3])

    assert (one, two) == (True, False)
    assert three.startswith("exception: ValueError: could not convert string to float: 'one'")


@pytest.mark.parametrize("value", [-0.1, INF, NAN, "1", None, True], ids=repr)
@pytest.mark.parametrize("argument", ["rel_tol", "abs_tol"])
def test_a_tolerance_is_a_finite_number(argument, value):
    """When it is made, naming the argument."""
    message = rf"{argument} must be a finite number of at least 0, not "
    with pytest.raises(ValueError, match=message):
        ef.NumericClose(**{argument: value})
