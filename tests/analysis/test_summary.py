"""The summary: every cell is counted once, and only scores enter numbers."""

import json

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.analysis.summary import summary
from evalframe.core.run_info import EvaluatorInfo

TEXT = pd.StringDtype("pyarrow")
INT = pd.ArrowDtype(pa.int64())
NUMBER = pd.ArrowDtype(pa.float64())
DTYPES = {
    "evaluator": TEXT,
    "kind": TEXT,
    **dict.fromkeys(("n", "n_valid", "n_scored", "n_failed", "n_task_failed", "n_skipped"), INT),
    **dict.fromkeys(("mean", "std", "min", "max", "pass_rate"), NUMBER),
    "labels": object,
}


def expected(**columns):
    """A summary, typed; NA for what is not given."""
    rows = len(next(iter(columns.values())))
    full = {name: columns.get(name, [None] * rows) for name in DTYPES}
    return pd.DataFrame({name: pd.Series(full[name], dtype=kind) for name, kind in DTYPES.items()})


def cells(*scores):
    """Scored cells."""
    return [{"score": score} for score in scores]


def test_summary_counts_every_cell_once(results):
    """Valid, failed, task failed and skipped add up; labels are counted in order."""
    frame = results(
        judge=[
            {"label": "good", "score": 1.0},
            {"label": "bad", "score": 0.0},
            {"label": "bad", "score": 0.5},
            {"label": "odd"},
            {"error": "exception: KeyError: 'x' (a.py:1)"},
            {"error": "skippedish: no"},
            {"error": "task_failed: exception: boom"},
            {"error": "skipped: returned None"},
        ],
        text=[{"label": "a"}] * 8,
        infos={
            "judge": EvaluatorInfo(kind="LLM", threshold=0.5),
            "text": EvaluatorInfo(),
        },
    )

    pd.testing.assert_frame_equal(
        summary(frame),
        expected(
            evaluator=["judge", "text"],
            kind=["LLM", "CODE"],
            n=[8, 8],
            n_valid=[4, 8],
            n_scored=[3, 0],
            n_failed=[2, 0],
            n_task_failed=[1, 0],
            n_skipped=[1, 0],
            mean=[0.5, None],
            std=[0.5, None],
            min=[0.0, None],
            max=[1.0, None],
            pass_rate=[2 / 3, None],
            labels=[{"bad": 2, "good": 1, "odd": 1}, {"a": 8}],
        ),
    )


def test_labels_stand_by_frequency_then_first_appearance(results):
    """The order of the label counts is defined, for printing and for comparing."""
    frame = results(a=[{"label": label} for label in "cbbaad"])

    assert list(summary(frame)["labels"][0].items()) == [("b", 2), ("a", 2), ("c", 1), ("d", 1)]


def test_h04_pass_rate_is_over_scored_cells(scored):
    """One of two scored cells passes; the unscored one is shown, not counted."""
    frame = scored(a=[None, 0.9, 0.2], infos={"a": EvaluatorInfo(threshold=0.5)})
    row = summary(frame).loc[0]

    assert (row["pass_rate"], row["n_scored"], row["n"], row["n_skipped"]) == (0.5, 2, 3, 1)


def test_h10_nan_score_enters_neither_mean_nor_rate(scored):
    """Four of five are scored, and all of these pass."""
    frame = scored(a=[0.9, 0.0, 0.8, 0.7, 0.95], infos={"a": EvaluatorInfo(threshold=0.5)})
    frame["eval.a.score"] = [0.9, float("nan"), 0.8, 0.7, 0.95]
    row = summary(frame).loc[0]

    assert (row["n"], row["n_scored"], row["pass_rate"]) == (5, 4, 1.0)
    assert row["mean"] == pytest.approx(0.8375)


def test_h11_failed_cells_stay_in_the_denominator(results):
    """Two of four failed; the mean of the scored ones is 0.5, never 1.0."""
    crash = {"error": "exception: ZeroDivisionError: division by zero (a.py:3)"}
    passes = [{"label": "True", "score": 1.0}, {"label": "False", "score": 0.0}]
    row = summary(results(a=[crash, *passes, crash])).loc[0]

    assert (row["n"], row["n_failed"], row["n_scored"], row["mean"]) == (4, 2, 2, 0.5)


@pytest.mark.parametrize("rows", [pytest.param(2, id="none-scored"), pytest.param(0, id="no-rows")])
def test_h63_nothing_scored_is_na_in_print_and_null_in_json(results, rows):
    """No warning, no NaN: means are NA, counts say 0 of how many."""
    made = summary(results(a=[{"error": "skipped: returned None"}] * rows))

    pd.testing.assert_frame_equal(
        made,
        expected(
            evaluator=["a"],
            kind=["CODE"],
            n=[rows],
            n_valid=[0],
            n_scored=[0],
            n_failed=[0],
            n_task_failed=[0],
            n_skipped=[rows],
            labels=[{}],
        ),
    )
    assert "nan" not in made.to_string().lower()
    assert json.loads(made.to_json(orient="records"))[0]["mean"] is None


def test_one_score_has_no_deviation(scored):
    """The deviation of a sample needs two."""
    row = summary(scored(a=[0.5, None])).loc[0]

    assert (row["mean"], row["min"], row["max"], row["std"]) == (0.5, 0.5, 0.5, pd.NA)


def test_frame_without_results_gives_an_empty_typed_summary():
    """No evaluators are no rows, in the same columns."""
    pd.testing.assert_frame_equal(summary(pd.DataFrame({"x": [1]})), expected(evaluator=[]))


def test_summary_works_from_names_where_attrs_were_lost(scored):
    """A merge loses attrs; kind and pass rate are then unknown, all counts are there."""
    frame = scored(a=[1.0, 0.0], infos={"a": EvaluatorInfo(threshold=0.5)})
    merged = frame.merge(pd.DataFrame({"output": ["r0", "r1"], "topic": ["x", "y"]}), on="output")
    merged.attrs = {}
    row = summary(merged).loc[0]

    assert (row["n"], row["mean"], row["kind"], row["pass_rate"]) == (2, 0.5, pd.NA, pd.NA)


def test_summary_of_columns_with_other_dtypes_is_the_same(results):
    """Plain pandas reads the columns of a file with its own dtypes; nothing changes."""
    frame = results(a=[{"label": "x", "score": 1.0}, {"error": "range: 7"}, {"score": 0.0}])
    plain = frame.astype({"eval.a.label": "str", "eval.a.score": "float64", "eval.a.error": object})

    pd.testing.assert_frame_equal(summary(plain), summary(frame))


ERRORS = [None, "exception: x", "timeout: 1 s", "range", "skipped: y", "task_failed: z", "skipped"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(ERRORS), st.none() | st.floats(0, 1), st.none() | st.text("ab"))
    )
)
def test_counts_always_add_up(results, drawn):
    """The number of rows is the sum of its four parts, and scores are among the valid."""
    frame = results(
        a=[
            {"error": error} if error else {"score": score, "label": label}
            for error, score, label in drawn
        ]
    )
    row = summary(frame).loc[0]

    assert (
        row["n"] == row[["n_valid", "n_failed", "n_task_failed", "n_skipped"]].sum() == len(drawn)
    )
    assert row["n_scored"] == sum(score is not None for error, score, _ in drawn if not error)
    assert row["n_failed"] == sum(error in ERRORS[1:4] for error, _, _ in drawn)
