"""`df.evals` gives what the plain functions give."""

import pandas as pd
import pytest

import evalframe.accessor  # noqa: F401 - registers df.evals
from evalframe.analysis.failures import failures
from evalframe.analysis.scores import passed, scores
from evalframe.analysis.summary import summary
from evalframe.core.errors import EvalframeError
from evalframe.core.run_info import EvaluatorInfo
from evalframe.results.parquet import read_parquet


@pytest.fixture
def frame(results):
    """Two evaluators, one failure."""
    return results(
        judge=[{"score": 1.0, "label": "good"}, {"error": "timeout: 1 s"}],
        exact=[{"score": 0.0}, {"score": 1.0}],
        infos={"judge": EvaluatorInfo(kind="LLM", threshold=0.5)},
    )


@pytest.mark.parametrize(
    ("short", "function"),
    [
        pytest.param(lambda frame: frame.evals.scores, scores, id="scores"),
        pytest.param(lambda frame: frame.evals.passed, passed, id="passed"),
        pytest.param(lambda frame: frame.evals.failures(), failures, id="failures"),
        pytest.param(lambda frame: frame.evals.summary(), summary, id="summary"),
    ],
)
def test_accessor_is_the_plain_function(frame, short, function):
    """There is one implementation of each."""
    pd.testing.assert_frame_equal(short(frame), function(frame))


def test_names_are_the_evaluators(frame):
    """In the order of their columns."""
    assert frame.evals.names == ["judge", "exact"]


def test_item_is_one_evaluator_under_short_names(frame):
    """Its five columns, then its extras, without the prefix, on the frame's index."""
    frame["eval.judge.precision"] = [0.5, 0.25]
    made = frame.evals["judge"]

    prefix = "eval.judge."
    expected = frame.filter(regex=r"^eval\.judge\.")
    expected.columns = [name.removeprefix(prefix) for name in expected.columns]
    pd.testing.assert_frame_equal(made, expected)
    assert list(made.columns) == ["label", "score", "explanation", "metadata", "error", "precision"]


def test_unknown_evaluator_is_a_key_error_with_the_nearest_name(frame):
    """The message is readable, and caught as KeyError or as ours."""
    with pytest.raises(
        KeyError, match=r"^The frame has no results .* Did you mean 'judge'\?"
    ) as caught:
        frame.evals["jugde"]

    assert isinstance(caught.value, EvalframeError)


def test_unknown_evaluator_on_a_frame_without_results_says_there_is_nothing():
    """No guess where there is nothing to guess from."""
    with pytest.raises(KeyError, match="It has: nothing"):
        pd.DataFrame({"x": [1]}).evals["judge"]


def test_file_of_the_accessor_gives_the_frame_back(frame, tmp_path):
    """A round trip keeps values and what the frame remembers."""
    frame["odd"] = pd.Series([{1}, {2}], dtype=object)
    frame.evals.to_parquet(tmp_path / "scored.parquet", drop=["odd"])
    read = read_parquet(tmp_path / "scored.parquet")

    pd.testing.assert_frame_equal(read, frame.drop(columns="odd"))
    pd.testing.assert_frame_equal(read.evals.summary(), frame.evals.summary())


def test_repr_says_what_is_there(frame):
    """Typing df.evals shows the evaluators and what can be asked for."""
    assert repr(frame.evals).startswith("Results of 'judge', 'exact' on 2 rows.")
