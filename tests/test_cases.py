"""Faults that users of other toolkits met, each as a test that is named after its case.

The case itself stands in the docstring: what went wrong elsewhere, and what holds here.
"""

import asyncio
import contextvars
import json
import math
import sys
import types
import warnings
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

TEXT = pd.StringDtype("pyarrow")
NUMBER = pd.ArrowDtype(pa.float64())


def scores(values):
    """A score column; None is NA."""
    return pd.array(values, dtype=NUMBER)


def frame_of(output):
    """A frame with an output column."""
    return pd.DataFrame({"output": output})


def scored_as(values, **options):
    """A run whose evaluator returns these values, row by row."""
    frame = pd.DataFrame({"output": range(len(values))})
    evaluator = ef.evaluator(lambda output: values[output], name="e", **options)
    return ef.run_experiment(frame, evaluators=[evaluator])


class Recorder:
    """An evaluator that remembers what it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, value):
        self.seen.append(value)
        return True

    def of(self, column):
        """Itself as an evaluator of a column."""
        return ef.evaluator(self, name="recorder").bind(value=column)


def test_h01_scores_stay_with_their_rows_after_a_filter_and_a_sort():
    """Results written by position landed on wrong rows once the frame had been reordered."""
    frame = pd.DataFrame({"input": [f"r{n}" for n in range(6)]})
    chained = frame[frame["input"].isin(["r1", "r3", "r5"])]
    chained = chained.loc[[5, 1, 3]]
    before = chained.copy()

    def digit(output):
        return output, int(output[1]) / 10

    scored = chained.pipe(ef.run_experiment, lambda input: input, [digit])

    expected = chained.assign(
        output=pd.array(["r5", "r1", "r3"], dtype=TEXT),
        **{
            "task.error": pd.array([None] * 3, dtype=TEXT),
            "eval.digit.label": pd.array(["r5", "r1", "r3"], dtype=TEXT),
            "eval.digit.score": scores([0.5, 0.1, 0.3]),
            "eval.digit.explanation": pd.array([None] * 3, dtype=TEXT),
            "eval.digit.metadata": pd.array([None] * 3, dtype=TEXT),
            "eval.digit.error": pd.array([None] * 3, dtype=TEXT),
        },
    )
    pd.testing.assert_frame_equal(scored, expected)
    assert scored.index.tolist() == [5, 1, 3]
    pd.testing.assert_frame_equal(chained, before)


def test_h02_a_column_from_a_vectorized_evaluator_goes_to_its_rows():
    """A Series with another index was aligned by label and turned into NaN or wrong rows."""
    frame = frame_of(list("abcd")).iloc[2:]

    def vectorized(name, result):
        return ef.evaluator(lambda output: result, name=name, vectorized=True)

    scored = ef.run_experiment(
        frame,
        evaluators=[
            vectorized("list", [0.1, 0.2]),
            vectorized("own_index", pd.Series([0.1, 0.2])),
            vectorized("other_order", pd.Series([0.2, 0.1], index=[3, 2])),
            vectorized("neither", pd.Series([0.1, 0.2], index=[7, 8])),
        ],
    )

    for name in ("list", "own_index", "other_order"):
        expected = pd.Series(scores([0.1, 0.2]), index=[2, 3], name=f"eval.{name}.score")
        pd.testing.assert_series_equal(scored[f"eval.{name}.score"], expected)
    error = scored["eval.neither.error"].tolist()
    assert error[0] == error[1]
    assert error[0].startswith("invalid_result: 'neither' returned an index")
    assert "[7, 8]" in error[0]
    assert "[2, 3]" in error[0]


H03_INDEXES = [
    pytest.param(pd.Index([0.5, 2.0, 9.9]), id="float"),
    pytest.param(pd.date_range("2024-01-01", periods=3, tz="Asia/Tokyo"), id="datetime-tz"),
    pytest.param(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), id="multi"),
]


@pytest.mark.parametrize("index", H03_INDEXES)
def test_h03_any_index_gives_the_same_results(index):
    """Rows were fetched by integer labels: KeyError on a float index."""
    rows = pd.DataFrame({"input": ["a", "bb", "ccc"]})

    def sync(output):
        return len(output) > 2, output

    async def awaited(output):
        return sync(output)

    @ef.evaluator(vectorized=True)
    def column(output):
        return output.str.len() > 2, output

    def run(frame):
        return ef.run_experiment(
            frame, lambda input: input + "!", [sync, awaited, column], experiment_name="same"
        )

    plain, scored = run(rows), run(rows.set_index(index))

    assert scored.index.equals(index)
    pd.testing.assert_frame_equal(scored.reset_index(drop=True), plain)
    assert scored["eval.column.score"].tolist() == [0.0, 1.0, 1.0]
    assert scored["eval.column.explanation"].tolist() == ["a!", "bb!", "ccc!"]
    assert scored.evals.failures().empty


def test_h04_a_missing_score_neither_passes_nor_fails():
    """Comparing NA with a threshold raised 'boolean value of NA is ambiguous'."""
    scored = scored_as([None, 0.9, 0.2], threshold=0.5)

    assert scored.evals.passed["e"].tolist() == [pd.NA, True, False]
    summary = scored.evals.summary().iloc[0]
    assert summary["pass_rate"] == 0.5
    assert (summary["n_scored"], summary["n_skipped"]) == (2, 1)


def test_h05_no_documents_and_nothing_are_three_different_things():
    """A row without retrieved documents ended the whole evaluation."""
    frame = pd.DataFrame({"retrieval_context": [["doc one"], [], None]})
    seen = []

    def recorder(retrieval_context):
        seen.append(retrieval_context)
        return True

    scored = ef.run_experiment(frame, evaluators=[recorder])

    assert seen == [["doc one"], [], None]
    assert scored["eval.recorder.score"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("missing", [5, 4, 2])
def test_h06_numbers_over_scores_leave_the_good_neighbours_alone(missing):
    """Filling the one missing score overwrote a neighbour, a kernel's fault in some releases."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    values[missing] = None
    scored = scored_as(values, score_range=(0, 10))

    filled = scored.evals.scores["e"].fillna(0)

    kept = [value or 0.0 for value in values]
    assert filled.tolist() == kept
    summary = scored.evals.summary().iloc[0]
    assert summary["mean"] == pytest.approx(sum(kept) / 5)
    assert (summary["min"], summary["max"]) == (1.0, 6.0 if missing != 5 else 5.0)


def test_h07_every_kind_of_null_is_none():
    """An expected value of None or NaN crashed the harness with an attribute error."""
    frame = pd.DataFrame(
        {
            "output": ["4", "4", "4", "4"],
            "dataset_output": [{"answer": "4"}, None, math.nan, pd.NA],
        }
    )
    seen = []

    def f(output, dataset_output):
        seen.append(dataset_output)
        return 1.0 if dataset_output is None else 0.5

    scored = ef.run_experiment(frame, evaluators=[f])

    assert seen == [{"answer": "4"}, None, None, None]
    assert scored["eval.f.score"].tolist() == [0.5, 1.0, 1.0, 1.0]


def test_h09_a_row_without_any_score_is_no_zero():
    """A row on which every metric was missing was averaged in as a successful zero."""
    a, b = [0.8, None, 0.4], [0.6, None, None]
    scored = ef.run_experiment(
        pd.DataFrame({"output": range(3)}),
        evaluators={"a": lambda output: a[output], "b": lambda output: b[output]},
    )

    means = scored.evals.scores.mean(axis=1)

    assert means.isna().tolist() == [False, True, False]
    assert means.dropna().tolist() == pytest.approx([0.7, 0.4])
    assert means.min() == pytest.approx(0.4)
    assert means.mean() == pytest.approx(0.55)
    assert means.count() == 2


def test_h10_a_nan_score_is_a_failed_cell_and_no_fail():
    """NaN was compared with the threshold, counted as a fail, and made the mean NaN."""
    scored = scored_as([0.9, math.nan, 0.8, 0.7, 0.95], threshold=0.5)

    summary = scored.evals.summary().iloc[0]
    assert scored.evals.passed["e"].isna().tolist() == [False, True, False, False, False]
    assert summary["pass_rate"] == 1.0
    assert summary["mean"] == pytest.approx(0.8375)
    assert (summary["n_scored"], summary["n_failed"], summary["n"]) == (4, 1, 5)
    assert scored["eval.e.error"][1].startswith("invalid_result: returned the score nan")


def test_h11_a_crash_stays_in_the_count_and_the_columns_stay():
    """Crashed rows left the denominator; a crash in the first row removed the metric."""

    def f(output):
        return {1: True, 2: False}[output]

    scored = ef.run_experiment(pd.DataFrame({"output": range(4)}), evaluators=[f])

    expected = pd.Series(scores([None, 1.0, 0.0, None]), name="eval.f.score")
    pd.testing.assert_series_equal(scored["eval.f.score"], expected)
    summary = scored.evals.summary().iloc[0]
    assert summary["mean"] == 0.5
    assert (summary["n"], summary["n_scored"], summary["n_failed"]) == (4, 2, 2)


def test_h12_what_json_cannot_hold_in_attrs_does_not_cost_the_run(tmp_path):
    """Anything not JSON-able in attrs made parquet export fail, after the run was paid for."""
    frame = frame_of(["a"])
    frame.attrs["note"] = {1: object()}
    frame.attrs["kept"] = "text"

    scored = ef.run_experiment(
        frame, evaluators={"f": lambda output: True}, output="output", experiment_name="mine"
    )
    with pytest.warns(UserWarning, match="note"):
        scored.evals.to_parquet(tmp_path / "scored.parquet")
    again = ef.read_parquet(tmp_path / "scored.parquet")

    assert set(again.attrs) == {"kept", "evalframe"}
    assert again.attrs["evalframe"] == scored.attrs["evalframe"]
    info = json.loads(again.attrs["evalframe"])
    assert (info["mapping"], info["experiment_name"]) == ({"output": "output"}, "mine")


def test_h14_an_all_null_result_column_is_text_all_the_same():
    """It got Arrow's null type, and changed or broke its partner on concat."""
    plain = ef.run_experiment(frame_of(["a", "b"]), evaluators={"f": lambda output: 1.0})
    telling = ef.run_experiment(
        frame_of(["c"]).assign(at=pd.date_range("2024", periods=1, tz="UTC")),
        evaluators={"f": lambda output: (1.0, "said")},
    )

    joined = pd.concat([plain, telling])

    for field in ("label", "explanation", "metadata", "error"):
        assert plain[f"eval.f.{field}"].dtype == TEXT
        assert joined[f"eval.f.{field}"].dtype == TEXT
    assert joined["eval.f.explanation"].tolist() == [pd.NA, pd.NA, "said"]
    assert plain["eval.f.explanation"].str.upper().isna().all()
    assert str(joined["at"].dtype).endswith("UTC]")


def test_h16_text_and_lists_in_one_column_each_keep_their_type(tmp_path):
    """A column that is sometimes text and sometimes a list failed, and only at export."""
    values = ["hi", [{"role": "user", "content": "hi"}]]

    scored = ef.run_experiment(
        [{"input": value} for value in values],
        lambda input: type(input).__name__,
        {"kept": lambda input: input in values},
    )
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    again = ef.read_parquet(tmp_path / "scored.parquet")

    assert scored["output"].tolist() == ["str", "list"]
    assert scored["input"].tolist() == values
    pd.testing.assert_frame_equal(again, scored)


def test_h17_times_keep_their_zone_at_every_depth(tmp_path):
    """Timestamps inside structs lost their zone although top-level ones kept it."""
    at = datetime(2024, 5, 1, 13, tzinfo=timezone(timedelta(hours=2)))
    rows = [{"metadata": {"at": at}, "time": at}]
    first, second = Recorder(), Recorder()

    scored = ef.run_experiment(
        rows, evaluators=[first.of("metadata"), first.of("time").named("top")]
    )
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    ef.run_experiment(
        ef.read_parquet(tmp_path / "scored.parquet"),
        evaluators=[second.of("metadata"), second.of("time").named("top")],
        overwrite=True,
    )

    for recorder in (first, second):
        inner, top = recorder.seen[0]["at"], recorder.seen[1]
        assert inner == top == datetime(2024, 5, 1, 11, tzinfo=UTC)
        assert inner.tzinfo is not None
        assert top.tzinfo is not None


def test_h17_a_naive_time_beside_an_aware_one_is_refused():
    """Mixing them silently dropped the zone."""
    aware, naive = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1)
    frame = pd.DataFrame({"metadata": [{"at": aware}, {"at": naive}]})

    with pytest.raises(ef.ExperimentError, match=r"'metadata', row 1, at .at: .*without a zone"):
        ef.run_experiment(frame, evaluators={"m": lambda metadata: True})


def test_h19_lists_are_lists_also_after_plain_pandas(tmp_path):
    """Lists came back from parquet as NumPy arrays, whose truth value is ambiguous."""
    rows = [{"retrieval_context": ["x", "y"]}, {"retrieval_context": []}]
    scored = ef.run_experiment(rows, evaluators={"f": lambda retrieval_context: True})
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    plain = pd.read_parquet(tmp_path / "scored.parquet")

    def dumped(retrieval_context):
        return json.dumps(retrieval_context), 1.0 if retrieval_context else 0.0

    again = ef.run_experiment(ef.Dataset(plain), evaluators=[dumped])

    assert again["eval.dumped.label"].tolist() == ['["x", "y"]', "[]"]
    assert again["eval.dumped.score"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("source", [list, ef.Dataset, pd.DataFrame])
def test_h20_dicts_are_not_padded_with_the_keys_of_others(source):
    """Dicts with different keys in one column came back with extra null keys."""
    tools = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    rows = [{"tools_called": value, "expected_tools": value} for value in tools]
    recorder = Recorder()

    scored = ef.run_experiment(
        source(rows),
        evaluators=[
            recorder.of("tools_called"),
            ef.ExactMatch().bind(output="tools_called", dataset_output="expected_tools"),
        ],
    )

    assert recorder.seen == tools
    assert json.dumps(recorder.seen) == json.dumps(tools)
    assert scored["eval.exact_match.score"].tolist() == [1.0, 1.0]


def test_h21_integers_in_dicts_stay_integers(tmp_path):
    """Saving changed integers to floats and added null keys."""
    rows = [{"metadata": {"n": 3, "k": 1}}, {"metadata": {"k": 2}}]
    scored = ef.run_experiment(rows, evaluators={"f": lambda metadata: True})
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    recorder = Recorder()

    ef.run_experiment(
        ef.read_parquet(tmp_path / "scored.parquet"), evaluators=[recorder.of("metadata")]
    )

    assert recorder.seen == [{"n": 3, "k": 1}, {"k": 2}]
    assert [type(value) for row in recorder.seen for value in row.values()] == [int, int, int]


def test_h22_a_field_that_is_not_there_is_found_before_the_first_task_call():
    """It ended the run after all tasks had been run and billed."""
    calls = []

    def task(input):
        calls.append(input)

    def g(output, grund_truth):
        return True

    with pytest.raises(ef.ExperimentError, match=r"'g'.*'grund_truth'.*'dataset_output'"):
        ef.run_experiment([{"input": "a", "dataset_output": "b"}], task, [g])

    assert calls == []


def test_h22_an_evaluator_is_passed_what_it_asks_for_and_nothing_else():
    """Evaluators failed on each row because they took no extra keywords."""

    def f(output):
        return output == "A"

    scored = ef.run_experiment(
        [{"input": "a", "dataset_output": "b"}], lambda input: input.upper(), [f]
    )

    assert scored["eval.f.score"].tolist() == [1.0]


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("output.final.text", id="path"),
        pytest.param(lambda output: output["final"]["text"], id="callable"),
        pytest.param(lambda output, input: output["final"]["text"], id="callable-with-row"),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async", "vectorized"])
def test_h23_a_nested_result_can_be_picked_out(output, kind):
    """A callable mapping was given the row but not the task's output."""

    def task(input):
        return {"final": {"text": "ok"}, "steps": 3} if input else {"steps": 0}

    def sync(output):
        return output

    async def awaited(output):
        return output

    made = {
        "sync": ef.evaluator(sync, name="f"),
        "async": ef.evaluator(awaited, name="f"),
        "vectorized": ef.evaluator(sync, name="f", vectorized=True),
    }
    scored = ef.run_experiment(
        pd.DataFrame({"input": [1, 0, 1]}), task, [made[kind].bind(output=output)]
    )

    assert scored["eval.f.label"].tolist() == ["ok", pd.NA, "ok"]
    error = scored["eval.f.error"].tolist()
    assert (error[0], error[2]) == (pd.NA, pd.NA)
    assert "final" in error[1]


def test_h24_the_output_is_the_tasks_when_there_is_a_task():
    """When the name for the model's result could mean two things, the wrong one was bound."""
    frame = pd.DataFrame({"output": ["stale"], "input": ["x"]})

    def f(output, dataset_row):
        return output, json.dumps(dataset_row)

    with pytest.raises(ef.ExperimentError, match=r"'output'.*overwrite=True"):
        ef.run_experiment(frame, lambda input: "fresh", [f])
    fresh = ef.run_experiment(frame, lambda input: "fresh", [f], overwrite=True)
    stale = ef.run_experiment(frame, evaluators=[f])

    assert fresh["eval.f.label"].tolist() == ["fresh"]
    assert json.loads(fresh["eval.f.explanation"][0]) == {"output": "stale", "input": "x"}
    assert stale["eval.f.label"].tolist() == ["stale"]


def test_h25_two_instances_of_one_class_are_told_apart():
    """They shared one name and overwrote each other."""
    frame = frame_of(["a cat", "a dog"])

    with pytest.raises(ef.ExperimentError, match="Two evaluators are named 'contains'"):
        ef.run_experiment(frame, evaluators=[ef.Contains("cat"), ef.Contains("dog")])
    scored = ef.run_experiment(
        frame, evaluators=[ef.Contains("cat").named("cat"), ef.Contains("dog", name="dog")]
    )

    assert scored.evals.scores["cat"].tolist() == [1.0, 0.0]
    assert scored.evals.scores["dog"].tolist() == [0.0, 1.0]


H26 = contextvars.ContextVar("h26", default="lost")


def test_h26_context_variables_reach_worker_threads():
    """What the caller had set was gone inside evaluators run on worker threads."""

    def say(output):
        before = H26.get()
        H26.set("changed")
        return True, before

    async def async_say(output):
        return say(output)

    def run():
        H26.set("exp-1")
        scored = ef.run_experiment(
            pd.DataFrame({"input": range(8)}),
            lambda input: H26.get(),
            [say, async_say, ef.evaluator(say, name="threaded", threads=3)],
            concurrency=4,
        )
        return scored, H26.get()

    scored, afterwards = contextvars.copy_context().run(run)

    assert scored["output"].tolist() == ["exp-1"] * 8
    for name in scored.evals.names:
        assert scored[f"eval.{name}.explanation"].tolist() == ["exp-1"] * 8
    assert afterwards == "exp-1"


@pytest.mark.parametrize("swapped", [False, True], ids=["as-given", "reversed"])
def test_h48_unlike_values_are_unequal_and_no_error(swapped):
    """Comparing None or a number with a dict raised instead of being unequal."""
    pairs = [(None, {"amount": 100}), (True, [1]), (3, {"a": 1}), ("x", None), (None, None)]
    pairs = [(b, a) for a, b in pairs] if swapped else pairs
    frame = pd.DataFrame({"output": [a for a, _ in pairs], "dataset_output": [b for _, b in pairs]})

    scored = ef.run_experiment(frame, evaluators=[ef.ExactMatch()])

    expected = [None if b is None else 0.0 for _, b in pairs]
    assert scored["eval.exact_match.score"].tolist() == [
        pd.NA if value is None else value for value in expected
    ]
    skipped = scored["eval.exact_match.error"].str.startswith("skipped:").fillna(value=False)
    assert skipped.tolist() == [value is None for value in expected]


def notebook_kernel(monkeypatch):
    """Make this process look like a notebook kernel without ipywidgets."""
    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)


def test_h52_a_failed_task_is_counted_everywhere_and_progress_ends(monkeypatch, capsys):
    """Evaluations of a failed task were skipped without a trace; progress never ended."""
    notebook_kernel(monkeypatch)
    seen = []

    def task(input):
        if input == "b":
            raise ValueError(input)
        return input

    def one(output):
        seen.append(output)
        return True

    async def two(output):
        seen.append(output)
        return False

    scored = ef.run_experiment([{"input": x} for x in "abc"], task, [one, two])

    assert scored["output"].isna().tolist() == [False, True, False]
    assert scored["task.error"][1].startswith("exception: ValueError: b")
    for name in ("one", "two"):
        assert scored[f"eval.{name}.error"][1] == "task_failed: not run, the task failed"
        assert scored[f"eval.{name}.score"].isna().tolist() == [False, True, False]
    assert sorted(seen) == ["a", "a", "c", "c"]
    summary = scored.evals.summary()
    assert summary["n_task_failed"].tolist() == [1, 1]
    assert summary["n_failed"].tolist() == [0, 0]
    assert "9/9" in capsys.readouterr().err


def test_h53_an_exception_keeps_its_traceback_and_is_counted_once(monkeypatch, capsys):
    """It ended the run, or was kept only as a bare message without a traceback."""
    notebook_kernel(monkeypatch)

    def f(output):
        if output % 3 == 1:
            raise KeyError("x")  # noqa: EM101 - as the case has it
        return True

    scored = ef.run_experiment(pd.DataFrame({"output": range(9)}), evaluators=[f])

    failures = scored.evals.failures()
    assert scored["eval.f.score"].count() == 6
    assert failures["position"].tolist() == [1, 4, 7]
    assert failures["message"].str.startswith("KeyError: 'x' (test_cases.py:").all()
    assert 'raise KeyError("x")' in failures["traceback"].dropna().iloc[0]
    assert capsys.readouterr().err.count("KeyError") == 1
    assert repr(failures).count("KeyError") == 1
    assert "3 x f" in repr(failures)


def test_h54_calls_that_hang_do_not_hold_up_the_run():
    """A few requests that never ended held up everything."""

    async def f(output):
        if output in (3, 8):
            await asyncio.Event().wait()
        return True

    scored = ef.run_experiment(
        pd.DataFrame({"output": range(20)}), evaluators=[f], concurrency=5, timeout=0.05
    )

    assert scored["eval.f.score"].count() == 18
    assert scored.evals.failures()[["position", "kind"]].to_numpy().tolist() == [
        [3, "timeout"],
        [8, "timeout"],
    ]


def test_h54_an_interrupt_leaves_what_is_finished():
    """After Ctrl-C the finished rows are there, though others still hang."""
    finished = 0

    async def f(output):
        nonlocal finished
        if output in (3, 8):
            await asyncio.Event().wait()
        if finished == 10:
            for _ in range(5):
                await asyncio.sleep(0)
            raise KeyboardInterrupt
        finished += 1
        return True

    with pytest.raises(KeyboardInterrupt) as caught:  # noqa: PT012, RUF100
        ef.run_experiment(pd.DataFrame({"output": range(20)}), evaluators=[f], concurrency=5)

    assert caught.value.partial["eval.f.score"].count() >= 10
    assert ef.last_run() is caught.value.partial


@pytest.mark.parametrize("count", [2, 4])
def test_h56_results_of_the_wrong_length_fail_their_evaluator_only(count):
    """They were zipped, or failed deep inside another library."""

    @ef.evaluator(vectorized=True)
    def wrong(output):
        return [1.0] * count

    scored = ef.run_experiment(
        frame_of(["a", "b", "c"]), evaluators=[wrong, ef.evaluator(lambda output: 1, name="ok")]
    )

    message = f"invalid_result: 'wrong' returned {count} results for 3 rows"
    assert scored["eval.wrong.error"].tolist() == [message] * 3
    assert scored["eval.wrong.score"].isna().all()
    assert scored["eval.wrong.score"].dtype == NUMBER
    assert scored["eval.ok.score"].tolist() == [1.0] * 3


def test_h56_a_frame_of_results_is_taken_by_name():
    """Columns label and score, in whatever order."""

    @ef.evaluator(vectorized=True)
    def named(output):
        return pd.DataFrame({"score": [0.0, 0.5, 1.0], "label": output.str.upper()})

    scored = ef.run_experiment(frame_of(["a", "b", "c"]), evaluators=[named])

    assert scored["eval.named.label"].tolist() == ["A", "B", "C"]
    assert scored["eval.named.score"].tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        pytest.param("abc", "(str)", id="text"),
        pytest.param({0: 1.0, 1: 1.0, 2: 1.0}, "columns named 0, 1, 2", id="dict-by-row"),
        pytest.param(0.5, "(float)", id="one-float"),
        pytest.param(np.ones((3, 1)), "shape (3, 1)", id="two-dimensional"),
    ],
)
def test_h57_one_value_for_many_rows_is_refused(returned, kind):
    """A single text where a list was expected was walked letter by letter."""
    evaluator = ef.evaluator(lambda output: returned, name="wrong", vectorized=True)

    scored = ef.run_experiment(frame_of(["x", "y", "z"]), evaluators=[evaluator])

    (error,) = set(scored["eval.wrong.error"])
    assert error.startswith("invalid_result: 'wrong' returned")
    assert kind in error
    assert scored["eval.wrong.label"].isna().all()


def test_h57_a_generator_gives_one_result_per_row():
    """What yields three numbers has three scores."""
    evaluator = ef.evaluator(lambda output: (n / 2 for n in range(3)), name="gen", vectorized=True)

    scored = ef.run_experiment(frame_of(["x", "y", "z"]), evaluators=[evaluator])

    assert scored["eval.gen.score"].tolist() == [0.0, 0.5, 1.0]


def test_h58_what_is_falsy_is_not_missing():
    """False was refused or lost because it is falsy or no number."""
    scored = scored_as([0, 0.0, False, "", None, ("bad", 0)])

    expected = scores([0.0, 0.0, 0.0, None, None, 0.0])
    pd.testing.assert_series_equal(scored["eval.e.score"], pd.Series(expected, name="eval.e.score"))
    assert scored["eval.e.label"].tolist() == [pd.NA, pd.NA, "False", "", pd.NA, "bad"]
    summary = scored.evals.summary().iloc[0]
    assert (summary["mean"], summary["n_scored"]) == (0.0, 4)


def test_h62_without_the_widget_package_there_is_a_text_bar(monkeypatch, capsys):
    """The progress bar raised ImportError and ended the run."""
    notebook_kernel(monkeypatch)

    scored = ef.run_experiment(
        frame_of(["a", "b"]), evaluators={"f": lambda output: True}, experiment_name="mine"
    )

    printed = capsys.readouterr()
    assert scored["eval.f.score"].tolist() == [1.0, 1.0]
    assert printed.out == ""
    assert "mine" in printed.err
    assert "2/2" in printed.err


@pytest.mark.parametrize("options", [{"progress": False}, {}], ids=["off", "no-terminal"])
def test_h62_nothing_is_printed_where_nobody_looks(monkeypatch, capfd, options):
    """With progress off, a notebook stays clean; without a terminal it is off by itself."""
    if options:
        notebook_kernel(monkeypatch)

    def f(output):
        return 1 / output

    async def task(input):
        return input

    ef.run_experiment(pd.DataFrame({"input": [0, 1]}), task, [f], **options)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("rows", [2, 0])
def test_h63_a_metric_without_any_value_has_no_mean(rows):
    """It printed 'Mean of empty slice' and reported nan."""
    frame = pd.DataFrame({"output": pd.Series(["x"] * rows, dtype="str")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = ef.run_experiment(
            frame, evaluators=[ef.evaluator(lambda output: None, name="e", threshold=0.5)]
        )
        summary = scored.evals.summary()
        printed, written = repr(summary), json.loads(summary.to_json(orient="records"))

    assert summary["mean"].isna().tolist() == [True]
    assert (summary["n_scored"][0], summary["n"][0]) == (0, rows)
    assert "nan" not in printed.casefold().replace("<na>", "")
    assert written[0]["mean"] is None
    assert written[0]["pass_rate"] is None


def test_a_returned_dict_that_is_used_again_gives_each_row_its_own_verdict():
    """A verdict is what was returned, not what the user made of the object later."""
    out, log = {}, []

    def reused(output):
        out["score"] = output / 10
        return out

    def logged(output):
        log.append(output)
        return {"score": 1, "metadata": {"history": log}}

    async def reused_async(output):
        out["score"] = output / 10
        return out

    rows = [{"output": number} for number in range(6)]
    scored = ef.run_experiment(rows, evaluators=[reused, logged, reused_async])

    wanted = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert scored["eval.reused.score"].tolist() == wanted
    assert scored["eval.reused_async.score"].tolist() == wanted
    assert [len(json.loads(text)["history"]) for text in scored["eval.logged.metadata"]] == [
        *range(1, 7)
    ]


def test_an_output_that_is_used_again_is_each_rows_own():
    """An output is what was returned, also where async calls share the object."""
    shared = {}

    async def answer(input):
        shared["n"] = input
        return shared

    outputs = ef.run_experiment([{"input": number} for number in range(5)], answer)["output"]

    assert [output["n"] for output in outputs] == [0, 1, 2, 3, 4]


def test_a_counting_index_on_rows_that_count_down_is_refused():
    """0..n could be positions or labels there: no guess which."""
    frame = pd.DataFrame({"output": ["1", "2", "3"]})[::-1]

    @ef.evaluator(vectorized=True)
    def sorted_back(output):
        return (output.astype(float) / 10).sort_index()

    @ef.evaluator(vectorized=True)
    def kept(output):
        return output.astype(float) / 10

    scored = ef.run_experiment(frame, evaluators=[sorted_back, kept])

    assert scored["eval.sorted_back.error"].str.contains("positions or the labels").all()
    assert scored["eval.kept.score"].tolist() == [0.3, 0.2, 0.1]


def test_what_is_scored_is_what_the_result_shows():
    """A change of the caller's frame during the run reaches neither evaluators nor result."""
    frame = pd.DataFrame({"output": list("abc")})

    def meddling(output):
        frame.loc[:, "output"] = "Z"
        return 1, output

    scored = ef.run_experiment(frame, evaluators=[meddling])

    assert scored["output"].tolist() == scored["eval.meddling.explanation"].tolist() == list("abc")


def test_times_finer_than_python_knows_are_said():
    """Nanoseconds are lost on the way to a function of one row, and the user learns of it."""
    frame = pd.DataFrame({"output": pd.to_datetime(["2020-01-01 00:00:00.123456789"])})

    with pytest.warns(UserWarning, match="finer than a microsecond") as caught:
        ef.run_experiment(frame, evaluators={"year": lambda output: output.year == 2020})

    assert [Path(warning.filename).name for warning in caught] == ["test_cases.py"]


@pytest.mark.parametrize(
    "reference", ["", [""], ["", None]], ids=["text", "list", "list-with-null"]
)
def test_an_empty_reference_is_contained_by_no_merit(reference):
    """Every text contains the empty one: such a row is skipped, and raises no mean."""
    scored = ef.run_experiment([{"output": "a", "expected": reference}], evaluators=[ef.Contains()])

    assert scored["eval.contains.error"].tolist() == ["skipped: empty reference"]


TORN_COLUMN = pd.DataFrame([["a", 1]], columns=pd.Index(["output", "c\ud800"], dtype=object))


@pytest.mark.parametrize(
    ("rows", "evaluators"),
    [
        pytest.param(TORN_COLUMN, {"x": lambda output: True}, id="column"),
        pytest.param([{"output": "a"}], {"x\ud800": lambda output: True}, id="evaluator"),
    ],
)
def test_a_name_that_is_no_text_is_refused_by_name(rows, evaluators):
    """A lone surrogate in a name cannot be written anywhere; the error says which name."""
    with pytest.raises(ef.EvalframeError, match="lone surrogate"):
        ef.run_experiment(rows, evaluators=evaluators)


def test_a_returned_array_that_is_used_again_is_each_evaluators_own():
    """What the user writes into a buffer later reaches no score."""
    buffer = np.zeros(2)

    @ef.evaluator(vectorized=True)
    def low(output):
        buffer[:] = 0.1
        return buffer

    @ef.evaluator(vectorized=True)
    def high(output):
        buffer[:] = 0.9
        return pd.Series(buffer, index=output.index)

    scored = ef.run_experiment([{"output": "a"}, {"output": "b"}], evaluators=[low, high])
    buffer[:] = 0.5

    assert scored.evals.scores.to_numpy(dtype=float).tolist() == [[0.1, 0.9], [0.1, 0.9]]


def test_nobody_shares_an_index_or_attrs_with_the_callers_frame():
    """Renaming the result's index, or filling its attrs, is nobody else's business."""
    frame = pd.DataFrame({"output": ["a"]}, index=pd.Index([7], name="row"))
    frame.attrs["note"] = {"k": [1]}

    @ef.evaluator(vectorized=True)
    def renaming(output):
        output.index.name = "hacked"
        return output == "a"

    scored = ef.run_experiment(frame, evaluators=[renaming])
    dataset = ef.Dataset(frame)
    made = dataset.to_pandas()
    made.index.name = scored.index.name = "changed"
    scored.attrs["note"]["k"].append(2)

    assert frame.index.name == dataset.index.name == "row"
    assert frame.attrs == {"note": {"k": [1]}}


def test_a_mask_with_labels_in_another_order_is_no_count_of_rows():
    """An int64 index 0..n-1 holds labels: a mask in another order is refused, not misread."""
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=[2, 0, 1])

    with pytest.raises(ef.DatasetError, match="another index"):
        ef.Dataset(frame).filter(frame.sort_index()["x"] > 2)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(pd.Timestamp("2020-01-01 00:00:00.123456789"), id="timestamp"),
        pytest.param([pd.Timedelta(5, "ns")], id="inside-a-list"),
        pytest.param(np.datetime64(1, "ns"), id="numpy"),
    ],
)
def test_a_nanosecond_in_a_python_object_is_refused_and_not_cut(value):
    """It would come back as another time, from evaluators and from files."""
    frame = pd.DataFrame({"output": pd.Series([value], dtype=object)})

    with pytest.raises(ef.ExperimentError, match=r"row 0.*finer than a microsecond"):
        ef.run_experiment(frame, evaluators={"x": lambda output: True})
    with pytest.raises(ef.UnsupportedValueError, match="finer than a microsecond"):
        ef.to_parquet(frame, "never.parquet")


def deep(levels):
    """A list inside lists."""
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_too_deep_to_keep_is_a_failed_task_or_refused_before():
    """It never ends a run whose calls have been made, however deep its caller stands."""

    def called_deep(levels):
        if levels:
            return called_deep(levels - 1)
        return ef.run_experiment([{"input": 1}], lambda input: deep(480))

    found = called_deep(300)

    assert found["task.error"][0].startswith("invalid_result: the task returned a value nested")
    with pytest.raises(ef.ExperimentError, match="nested deeper than 100 levels"):
        ef.run_experiment([{"output": deep(600)}], evaluators={"x": lambda output: True})


def test_a_map_that_no_dict_can_be_is_refused_before_the_run():
    """A key that is there twice, or is no text, is named with its row."""
    kind = pd.ArrowDtype(pa.map_(pa.string(), pa.int64()))
    frame = pd.DataFrame({"output": pd.Series([[("a", 1)], [("a", 1), ("a", 2)]], dtype=kind)})

    with pytest.raises(ef.ExperimentError, match="row 1: a map that has a key twice"):
        ef.run_experiment(frame, evaluators={"x": lambda output: True})


def test_a_row_that_got_its_output_after_its_task_failed_is_evaluated():
    """An old task error leaves out rows without an output, for evaluators of that output."""

    def half(input):
        if input == "b":
            message = "no"
            raise ValueError(message)
        return input

    ran = ef.run_experiment(pd.DataFrame({"input": ["a", "b"], "other": ["x", "y"]}), half)
    mended = ran.assign(output=["a", "b"])
    said = {"said": lambda output: output}

    left_out = ef.run_experiment(ran, evaluators=said)["eval.said.error"]
    elsewhere = ef.run_experiment(ran, evaluators=said, output="other")["eval.said.label"]

    assert left_out.tolist() == [pd.NA, "task_failed: not run, the task failed"]
    assert elsewhere.tolist() == ["x", "y"]
    assert ef.run_experiment(mended, evaluators=said)["eval.said.label"].tolist() == ["a", "b"]


def test_results_of_another_output_never_stand_beside_a_new_one():
    """A task that replaces the output needs its old results run again, or gone."""
    said = {"said": lambda output: output}
    first = ef.run_experiment([{"input": "a"}], lambda input: "old", said)

    with pytest.raises(ef.ExperimentError, match="'said' for another output"):
        ef.run_experiment(first, lambda input: "new", overwrite=True)
    again = ef.run_experiment(first, lambda input: "new", said, overwrite=True)

    assert again["eval.said.label"].tolist() == ["new"]


def test_an_exception_arrives_with_its_own_context():
    """With errors="raise" the user's traceback shows what led to it."""

    def wrapped(output):
        try:
            return 1 / 0
        except ZeroDivisionError:
            raise ValueError("wrapped")  # noqa: B904, EM101 - the context is the point

    with pytest.raises(ValueError, match="wrapped") as caught:
        ef.run_experiment([{"output": "a"}], evaluators=[wrapped], errors="raise")

    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert not caught.value.__suppress_context__


def test_context_variables_do_not_leak_between_vectorized_evaluators():
    """Each call starts from the caller's context."""
    variable = contextvars.ContextVar("experiment", default="caller")
    seen = []

    @ef.evaluator(vectorized=True)
    def first(output):
        variable.set("first")
        return output == "a"

    @ef.evaluator(vectorized=True)
    def second(output):
        seen.append(variable.get())
        return output == "a"

    ef.run_experiment([{"output": "a"}], evaluators=[first, second])

    assert seen == ["caller"]


def test_a_stopped_run_cancels_the_calls_in_flight():
    """They would go on costing after the exception has arrived."""
    started, cancelled, all_started = [], [], asyncio.Event()

    async def slow(output):
        if output == 0:
            await all_started.wait()
            message = "stop"
            raise ValueError(message)
        started.append(output)
        if len(started) == 3:
            all_started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(output)
            raise

    rows = [{"output": number} for number in range(4)]
    with pytest.raises(ValueError, match="stop"):
        ef.run_experiment(rows, evaluators=[slow], errors="raise", timeout=60)

    assert sorted(cancelled) == [1, 2, 3]


@pytest.mark.parametrize("column", [{"a"}, pd.Series([1]), [["a"]]], ids=["set", "series", "list"])
def test_a_role_that_is_no_column_name_is_refused_as_such(column):
    """Not with an error from the depths of Python."""
    with pytest.raises(ef.DatasetError, match="metadata= takes the name of a column"):
        ef.run_experiment([{"output": "a"}], evaluators=[ef.ValidJSON()], metadata=column)
