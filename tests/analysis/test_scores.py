"""Scores and passes side by side; a missing score is neither zero nor a fail."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evalframe.analysis.scores import names, passed, scores
from evalframe.core.errors import DatasetError
from evalframe.core.run_info import EvaluatorInfo

HALF = EvaluatorInfo(threshold=0.5)


def numbers(*values):
    """A column of scores."""
    return pd.array(values, dtype="double[pyarrow]")


def bools(*values):
    """A column of passes."""
    return pd.array(values, dtype="bool[pyarrow]")


def test_names_are_the_evaluators_in_the_order_of_their_columns(scored):
    """The columns' names alone say which evaluators there are."""
    frame = scored(b=[1.0], a=[0.0]).assign(**{"eval.c.score": 1.0, "evaluation": 1})
    frame[3] = "not text"

    assert names(frame) == ["b", "a"]


def test_scores_are_a_column_per_evaluator_on_the_index(scored):
    """Nothing but the scores, typed, on the frame's own index, duplicates included."""
    index = pd.Index([7, 7, 1], name="id")
    frame = scored(index=index, a=[0.8, None, 0.4], b=[0.6, None, None])

    expected = pd.DataFrame(
        {"a": numbers(0.8, None, 0.4), "b": numbers(0.6, None, None)}, index=index
    )
    pd.testing.assert_frame_equal(scores(frame), expected)


def test_h09_row_means_leave_out_what_is_missing(scored):
    """A row without any score has no mean; 0.0 appears nowhere."""
    means = scores(scored(a=[0.8, None, 0.4], b=[0.6, None, None])).mean(axis=1)

    assert means.isna().tolist() == [False, True, False]
    assert means.dropna().tolist() == pytest.approx([0.7, 0.4])
    assert (means.min(), means.mean(), means.count()) == pytest.approx((0.4, 0.55, 2))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0, None], id="last"),
        pytest.param([1.0, 2.0, 3.0, 4.0, None, 6.0], id="last-but-one"),
        pytest.param([1.0, 2.0, None, 4.0, 5.0, 6.0], id="middle"),
    ],
)
def test_h06_filling_missing_scores_changes_nothing_else(scored, values):
    """The neighbour of a missing score keeps its own, sliced frames included."""
    frame = scored(a=[9.0, *values])[1:]

    filled = scores(frame)["a"].fillna(0.0).tolist()

    assert filled == [0.0 if value is None else value for value in values]


def test_h04_pass_is_missing_where_the_score_is(scored):
    """No comparison of NA raises or decides."""
    frame = scored(a=[None, 0.9, 0.2], infos={"a": HALF})

    pd.testing.assert_frame_equal(passed(frame), pd.DataFrame({"a": bools(None, True, False)}))


def test_h10_nan_score_is_unscored_not_failed(scored):
    """A NaN that other code left in the column is a missing score."""
    frame = scored(a=[0.9, 0.0, 0.8, 0.7, 0.95], infos={"a": HALF})
    frame["eval.a.score"] = [0.9, np.nan, 0.8, 0.7, 0.95]

    assert passed(frame)["a"].tolist() == [True, pd.NA, True, True, True]
    assert scores(frame)["a"].isna().tolist() == [False, True, False, False, False]


def test_nan_inside_an_arrow_column_is_missing_too(scored):
    """Arrow keeps NaN beside null; neither is a score."""
    frame = scored(a=[0.9, 0.1], infos={"a": HALF})
    nan = pa.array([0.9, float("nan")])
    frame["eval.a.score"] = pd.arrays.ArrowExtensionArray(nan)

    assert (scores(frame)["a"].isna().tolist(), passed(frame)["a"].tolist()) == (
        [False, True],
        [True, pd.NA],
    )


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        pytest.param(EvaluatorInfo(threshold=0.5), [False, True, True], id="maximize"),
        pytest.param(
            EvaluatorInfo(threshold=0.5, direction="minimize"), [True, True, False], id="minimize"
        ),
        pytest.param(EvaluatorInfo(threshold=1), [False, False, True], id="int-threshold"),
        pytest.param(EvaluatorInfo(), [pd.NA] * 3, id="no-threshold"),
    ],
)
def test_pass_follows_threshold_and_direction(scored, info, expected):
    """At least the threshold, or at most it; the threshold itself passes."""
    assert passed(scored(a=[0.0, 0.5, 1.0], infos={"a": info}))["a"].tolist() == expected


def test_pass_is_unknown_where_attrs_were_lost(scored):
    """Without the memory of the run there is no threshold; scores are still there."""
    frame = scored(a=[0.9, 0.2], infos={"a": HALF})
    frame.attrs = {}

    assert passed(frame)["a"].tolist() == [pd.NA, pd.NA]
    assert scores(frame)["a"].tolist() == [0.9, 0.2]


def test_frame_without_results_gives_rows_without_columns():
    """No evaluators are no columns, and no error."""
    frame = pd.DataFrame({"x": [1, 2]}, index=[3, 4])

    assert (scores(frame).shape, passed(frame).shape) == ((2, 0), (2, 0))
    assert scores(frame).index.tolist() == [3, 4]


def test_score_column_that_was_taken_out_is_all_missing(scored):
    """What is left of an evaluator is still read."""
    frame = scored(a=[0.9, 0.2]).drop(columns="eval.a.score")

    assert scores(frame)["a"].tolist() == [pd.NA, pd.NA]


def test_result_column_that_is_there_twice_is_an_error(scored):
    """Which one counts cannot be known."""
    frame = scored(a=[0.9])
    twice = pd.concat([frame, frame], axis=1)

    with pytest.raises(DatasetError, match=r"'eval\.a\.error' more than once"):
        scores(twice)


def test_score_column_that_holds_text_by_now_is_an_error(scored):
    """A column that was overwritten is named."""
    frame = scored(a=[0.9]).assign(**{"eval.a.score": "high"})

    with pytest.raises(DatasetError, match=r"'eval\.a\.score' is a result column of type double"):
        scores(frame)
