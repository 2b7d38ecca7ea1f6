"""Rows that were added to a frame with results, or whose output was taken out by hand."""

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef
from evalframe.core.run_info import remembered
from evalframe.testing import reply

NOT_RUN = "skipped: not run"
WORDS = pytest.mark.parametrize("only", ["missing", "failed", "stale"])


def listed(frame, column):
    """A column as plain values, None where null."""
    return pa.array(frame[column], from_pandas=True).to_pylist()


def shout(input):
    """An output for each input."""
    return f"{input}!"


def size(output):
    """A score that None has not."""
    return len(output) / 10


def scored(**options):
    """Two rows with outputs and scores."""
    rows = pd.DataFrame({"input": ["a", "bb"]})
    return ef.run_experiment(rows, shout, {"size": size}, details=True, **options)


def concatenated():
    """With a third row that has nothing but its input."""
    old = scored()
    frame = pd.concat([old, pd.DataFrame({"input": ["ccc"]})], ignore_index=True)
    frame.attrs = old.attrs
    return frame


def taken_out():
    """With a third row whose output was set to null by hand; its score is there."""
    rows = pd.DataFrame({"input": ["a", "bb", "ccc"]})
    frame = ef.run_experiment(rows, shout, {"size": size}, details=True)
    frame.loc[2, "output"] = pd.NA
    return frame


FRAMES = pytest.mark.parametrize("frame", [concatenated, taken_out])


@WORDS
@FRAMES
def test_with_the_task_a_row_without_output_gets_one(frame, only):
    """And all its cells; the task is not called for the others."""
    seen = []

    def task(input):
        seen.append(input)
        return shout(input)

    whole = ef.run_experiment(frame(), task, {"size": size}, only=only)

    assert seen == ["ccc"]
    assert listed(whole, "output") == ["a!", "bb!", "ccc!"]
    assert listed(whole, "eval.size.score") == [0.2, 0.3, 0.4]


@WORDS
@FRAMES
def test_without_the_task_such_a_row_stays_as_it_is(frame, only):
    """No evaluator is asked about an output that nobody made; a new one says it was not run."""
    seen = []

    def first(output):
        seen.append(output)
        return True

    old = frame()

    later = ef.run_experiment(old, evaluators={"size": size, "first": first}, only=only)

    assert seen == ["a!", "bb!"]
    results = [c for c in old if c.startswith("eval.size.")]
    pd.testing.assert_frame_equal(
        later[results].astype(object), old[results].astype(object), check_dtype=False
    )
    assert listed(later, "eval.first.error") == [None, None, NOT_RUN]


@WORDS
@FRAMES
def test_a_run_without_the_task_is_in_no_later_ones_way(frame, only):
    """The output, and the cells of all evaluators, can be made afterwards."""
    evaluators = {"size": size, "first": lambda output: output is not None}
    between = ef.run_experiment(frame(), evaluators=evaluators, only="missing")

    whole = ef.run_experiment(between, shout, evaluators, only=only)

    assert listed(whole, "output") == ["a!", "bb!", "ccc!"]
    assert listed(whole, "eval.size.score") == [0.2, 0.3, 0.4]
    assert listed(whole, "eval.first.score") == [1.0, 1.0, 1.0]


def test_a_judge_is_not_asked_about_outputs_that_were_not_made(serve):
    """It pays for nothing, and its cell is no failure."""
    server = serve(lambda request: reply("never"))
    frame = concatenated()
    frame.loc[[0, 1], "output"] = pd.NA
    judge = ef.LLMJudge(
        "j",
        model=ef.Model("local/m", base_url=server.base_url, max_retries=0),
        prompt="{{ item.output }}",
        choices=["yes", "no"],
    )

    later = ef.run_experiment(frame, evaluators=[judge], only="missing")

    assert server.calls == 0
    assert listed(later, "eval.j.error") == [NOT_RUN] * 3


def test_null_outputs_of_the_users_own_are_outputs():
    """Without the column task.error no task was to make them."""
    rows = pd.DataFrame({"output": ["a", None]})

    later = ef.run_experiment(rows, evaluators={"null": lambda output: output is None}, only="all")

    assert listed(later, "eval.null.score") == [0.0, 1.0]


COUNTS = ["n", "n_valid", "n_scored", "n_failed", "n_task_failed", "n_skipped"]


def test_cells_of_added_rows_are_counted_as_not_run():
    """In the summary, in explain, and in what the next run remembers."""
    frame = concatenated()
    assert ef.summary(frame)[COUNTS].iloc[0].tolist() == [3, 2, 2, 0, 0, 1]
    assert frame.evals.explain("size")[COUNTS].tolist() == [3, 2, 2, 0, 0, 1]

    later = ef.run_experiment(frame, evaluators={"size": size}, only="missing")

    assert remembered(later.attrs).evaluators["size"].counts == {
        "valid": 2,
        "failed": 0,
        "task_failed": 0,
        "skipped": 1,
    }


def test_a_verdict_in_columns_of_its_own_is_valid():
    """With neither label nor score a cell is valid by its own columns."""
    own = ef.evaluator(
        lambda output: {"score": 1, "note": output}, name="own", extras={"note": str}
    )
    old = ef.run_experiment([{"output": "a"}, {"output": "b"}], evaluators=[own])
    cleared = old.assign(**{"eval.own.label": pd.NA, "eval.own.score": pd.NA})
    frame = pd.concat([cleared, pd.DataFrame({"output": ["c"]})], ignore_index=True)
    frame.attrs = old.attrs

    counts = ef.summary(frame)[COUNTS].iloc[0].tolist()
    assert counts == [3, 2, 0, 0, 0, 1]
    assert frame.evals.explain("own")[COUNTS].tolist() == counts


def test_where_only_the_error_column_is_left_null_is_valid():
    """Nothing tells a cell that was made from one that was not."""
    frame = scored()[["input", "eval.size.error"]]
    assert ef.summary(frame)["n_valid"].tolist() == [2]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 1)),
            st.one_of(st.none(), st.just("yes")),
            st.sampled_from([None, "exception: x", "task_failed: x", "skipped: x"]),
        )
    )
)
def test_every_cell_is_counted_once(cells):
    """The rows are the sum of the four, whatever is null."""
    columns = {"eval.e.score": "float64", "eval.e.label": "object", "eval.e.error": "object"}
    frame = pd.DataFrame(cells, columns=list(columns)).astype(columns)

    found = ef.summary(frame).iloc[0]

    kinds = [
        "skipped"
        if (score is None and label is None and error is None)
        else ("valid" if error is None else error.split(":")[0])
        for score, label, error in cells
    ]
    for column, kind in {
        "n_valid": "valid",
        "n_failed": "exception",
        "n_task_failed": "task_failed",
        "n_skipped": "skipped",
    }.items():
        assert found[column] == kinds.count(kind)
    parts = found[["n_valid", "n_failed", "n_task_failed", "n_skipped"]]
    assert found["n"] == len(cells) == sum(parts)
