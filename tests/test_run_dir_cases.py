"""Faults that users of other tools met, again with a `run_dir`.

Each holds for the first run, for one that goes on from the first two rows, and for one that finds
everything done.
"""

import asyncio
import copy
import json
import math
import pickle
import re
import subprocess
import sys
import types
import warnings

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import error, label, never, obedient, reply


def listed(frame, column):
    """A column with None for NA."""
    return pa.array(frame[column]).to_pylist()


def runs_of(data, tmp_path, **options):
    """Run -> frame: a first one, one that goes on from two rows of it, and one with all done."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="run_dir=.*finished before")
        first = ef.run_experiment(data, run_dir=tmp_path / "first", **options)
        ef.run_experiment(data, run_dir=tmp_path / "resumed", dry_run=2, **options)
        resumed = ef.run_experiment(data, run_dir=tmp_path / "resumed", **options)
        rested = ef.run_experiment(data, run_dir=tmp_path / "resumed", **options)
    return {"first": first, "resumed": resumed, "rested": rested}


def judge_of(server, name="j", *, max_retries=0, **options):
    """A judge that asks the server."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=max_retries)
    options = {"prompt": "{{ item.output }}", "choices": {"yes": 1.0, "no": 0.0}, **options}
    return ef.LLMJudge(name, model=model, **options)


def outputs(*values):
    """A frame with these outputs."""
    return pd.DataFrame({"output": list(values)})


def kinds(scored, name="j"):
    """The kind of each cell's error, None for a valid one."""
    return [text and text.partition(":")[0] for text in listed(scored, f"eval.{name}.error")]


def test_h10_a_nan_score_is_a_failed_cell_and_no_fail_with_a_run_dir(tmp_path):
    """NaN was compared with the threshold, counted as a fail, and made the mean NaN."""
    scores = [0.9, math.nan, 0.8, 0.7, 0.95]
    f = ef.evaluator(lambda output: scores[output], name="f", threshold=0.5)

    for scored in runs_of(outputs(*range(5)), tmp_path, evaluators=[f]).values():
        summary = scored.evals.summary().iloc[0]
        assert listed(scored.evals.passed, "f") == [True, None, True, True, True]
        assert summary["pass_rate"] == 1.0
        assert summary["mean"] == pytest.approx(0.8375)
        assert (summary["n_scored"], summary["n_failed"], summary["n"]) == (4, 1, 5)


def test_h11_a_crash_stays_in_the_count_and_the_columns_stay_with_a_run_dir(tmp_path):
    """Crashed rows left the denominator; a crash in the first row removed the metric."""

    def f(output):
        return {1: True, 2: False}[output]

    for scored in runs_of(outputs(*range(4)), tmp_path, evaluators=[f]).values():
        summary = scored.evals.summary().iloc[0]
        assert listed(scored, "eval.f.score") == [None, 1.0, 0.0, None]
        assert summary["mean"] == 0.5
        assert (summary["n"], summary["n_scored"], summary["n_failed"]) == (4, 2, 2)


def test_h12_what_json_cannot_hold_in_attrs_does_not_cost_the_run_with_a_run_dir(tmp_path):
    """Anything not JSON-able in attrs made the export fail, after the run was paid for."""
    frame = outputs("a", "b", "c")
    frame.attrs["note"] = {1: object()}
    options = {"evaluators": {"f": lambda output: True}, "output": "output"}

    for name, scored in runs_of(frame, tmp_path, **options).items():
        with pytest.warns(UserWarning, match="note"):
            scored.evals.to_parquet(tmp_path / f"{name}.parquet")
        again = ef.read_parquet(tmp_path / f"{name}.parquet")
        assert again.attrs == {"evalframe": scored.attrs["evalframe"]}
        assert json.loads(again.attrs["evalframe"])["mapping"] == {"output": "output"}
        assert listed(again, "eval.f.score") == [1.0] * 3
    for folder in ("first", "resumed"):
        record = json.loads((tmp_path / folder / "run.json").read_text("utf-8"))
        assert record["mapping"] == {"output": "output"}


def test_h28_a_failed_row_leaves_nothing_on_the_judge_with_a_run_dir(tmp_path, serve):
    """The stored error stuck to the evaluator, and every later row failed too."""
    server = serve(lambda request: error(400, "No.") if request.prompt == "1" else label("yes"))
    judge = judge_of(server, explanation=False)

    for scored in runs_of(outputs(*"12345"), tmp_path, evaluators=[judge]).values():
        assert kinds(scored) == ["bad_request", None, None, None, None]
    assert kinds(ef.run_experiment(outputs(*"2345"), evaluators=[judge])) == [None] * 4


def notebook_kernel(monkeypatch):
    """Make this process look like a notebook kernel without ipywidgets."""
    shell = type("ZMQInteractiveShell", (), {})()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)


def test_h52_a_failed_task_is_counted_everywhere_with_a_run_dir(tmp_path):
    """Evaluations of a failed task were skipped without a trace, also of one of a run before."""
    seen = []

    @ef.task(version="1")
    def task(input):
        if input == "b":
            raise ValueError(input)
        return input

    @ef.evaluator(version="1")
    def one(output):
        seen.append(output)
        return True

    @ef.evaluator(version="1")
    async def two(output):
        seen.append(output)
        return False

    data = pd.DataFrame({"input": list("abc")})
    frames = runs_of(data, tmp_path, task=task, evaluators=[one, two])

    for scored in frames.values():
        assert listed(scored, "output") == ["a", None, "c"]
        assert scored["task.error"][1].startswith("exception: ValueError: b")
        for name in ("one", "two"):
            assert scored[f"eval.{name}.error"][1] == "task_failed: not run, the task failed"
            assert scored[f"eval.{name}.score"].isna().tolist() == [False, True, False]
        summary = scored.evals.summary()
        assert summary["n_task_failed"].tolist() == [1, 1]
        assert summary["n_failed"].tolist() == [0, 0]
    assert sorted(seen) == ["a"] * 4 + ["c"] * 4
    record = json.loads((tmp_path / "resumed" / "run.json").read_text("utf-8"))
    assert record["task"]["counts"] == {"n": 3, "n_failed": 1, "n_reused": 3}


@pytest.mark.parametrize(
    ("before", "ends"),
    [("", ["9/9"]), ("ac", ["3/3"]), ("abc", ["2/2"])],
    ids=["anew", "going-on", "all-but-cells-of-the-failed-task"],
)
@pytest.mark.filterwarnings("ignore:run_dir=.*finished before")
def test_h52_progress_reaches_its_end_with_a_run_dir(tmp_path, monkeypatch, capsys, before, ends):
    """It counts what is left to do, cells of failed tasks included."""

    @ef.task(version="1")
    def task(input):
        if input == "b":
            raise ValueError(input)
        return input

    def run(texts):
        data = pd.DataFrame({"input": pd.array(list(texts), "string")})
        evaluators = {"one": lambda output: True, "two": lambda output: False}
        return ef.run_experiment(data, task, evaluators, run_dir=tmp_path)

    run(before)
    notebook_kernel(monkeypatch)
    run("abc")

    assert re.findall(r"\d+/\d+", capsys.readouterr().err)[-1:] == ends


def test_h53_an_exception_keeps_its_traceback_with_a_run_dir(tmp_path):
    """It was kept only as a bare message; a run that goes on knows it too, counted once."""

    def f(output):
        if output % 3 == 1:
            raise KeyError("x")  # noqa: EM101 - as the case has it
        return True

    for scored in runs_of(outputs(*range(9)), tmp_path, evaluators=[f]).values():
        failures = scored.evals.failures()
        assert scored["eval.f.score"].count() == 6
        assert failures["position"].tolist() == [1, 4, 7]
        assert failures["message"].str.startswith("KeyError: 'x' (test_run_dir_cases.py:").all()
        assert 'raise KeyError("x")' in failures["traceback"].dropna().iloc[0]
        assert repr(failures).count("KeyError") == 1
        assert "3 x f" in repr(failures)


def test_h54_calls_that_hang_do_not_hold_up_the_run_with_a_run_dir(tmp_path):
    """What had no answer in time is asked again by the next run, and nothing else is."""
    hanging, calls = {3, 8}, []

    @ef.evaluator(version="1")
    async def f(output):
        calls.append(output)
        if output in hanging:
            await asyncio.Event().wait()
        return True

    options = {"evaluators": [f], "concurrency": 5, "timeout": 0.05, "run_dir": tmp_path}
    scored = ef.run_experiment(outputs(*range(20)), **options)
    hanging.clear()
    with pytest.warns(UserWarning, match="18 of 20 cells of 'f'"):
        again = ef.run_experiment(outputs(*range(20)), **options)

    assert scored.evals.failures()[["position", "kind"]].to_numpy().tolist() == [
        [3, "timeout"],
        [8, "timeout"],
    ]
    assert sorted(calls[20:]) == [3, 8]
    assert again["eval.f.score"].count() == 20


def test_h54_what_is_done_is_there_after_an_interrupt_with_a_run_dir(tmp_path, serve):
    """It is in the frame so far and on disk; the next run asks for the rest alone."""
    hangs = [True]

    def script(request):
        return never() if hangs[0] and request.prompt in ("3", "8") else label("yes")

    @ef.evaluator(version="1", vectorized=True)
    def last(output):
        if hangs[0]:
            raise KeyboardInterrupt
        return [True] * len(output)

    server = serve(script)
    judge = judge_of(server, explanation=False)
    options = {"evaluators": [judge, last], "concurrency": 5, "timeout": 0.3, "run_dir": tmp_path}
    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(outputs(*map(str, range(20))), **options)
    hangs[0], before = False, server.calls
    with pytest.warns(UserWarning, match="18 of 20 cells of 'j'"):
        whole = ef.run_experiment(outputs(*map(str, range(20))), **options)

    assert caught.value.partial["eval.j.score"].count() == 18
    assert server.calls - before == 2
    assert whole[["eval.j.score", "eval.last.score"]].count().tolist() == [20, 20]


def test_h55_a_judge_without_an_answer_leaves_the_rest_alone_with_a_run_dir(tmp_path, serve):
    """The fallback after the last retry had the wrong number of parts; here it is asked again."""
    server = serve(error(500, "Boom.", headers={"Retry-After": "0"}))

    def fine(output):
        return output, 1.0

    judge = judge_of(server, max_retries=1)
    frames = runs_of(outputs(*"abcd"), tmp_path, evaluators=[judge, fine])

    for scored in frames.values():
        assert kinds(scored) == ["server_error"] * 4
        for part in ("label", "score", "explanation"):
            assert listed(scored, f"eval.j.{part}") == [None] * 4
        assert listed(scored, "eval.fine.label") == list("abcd")
    # Two requests a cell: of the first run, of the beginning, and of the two that went on.
    assert server.calls == 2 * (4 + 2 + 4 + 4)


H59_FRESH = """
import pickle, sys, warnings
import evalframe as ef
warnings.simplefilter("ignore")
dataset, judge, folder = pickle.load(sys.stdin.buffer)
pickle.dump(ef.run_experiment(dataset, evaluators=[judge], run_dir=folder), sys.stdout.buffer)
"""


def test_h59_settings_of_one_run_do_not_leak_into_the_next_with_a_run_dir(tmp_path, serve):
    """They were written onto the shared object; a fresh process goes on from the same cells."""
    frame = outputs("a", "b", "bad")
    server = serve(lambda request: reply("{") if request.prompt == "bad" else obedient(request))
    judge = judge_of(server)
    state = pickle.dumps((frame, judge, sorted(vars(judge))))
    strict = judge_of(server, threshold=0.9, invalid_retries=0)
    options = {"concurrency": 1, "timeout": 5.0, "repetitions": 2, "details": True}
    ef.run_experiment(frame, evaluators=[strict], run_dir=tmp_path / "strict", **options)
    server.reset()
    second = ef.run_experiment(frame, evaluators=[judge], run_dir=tmp_path / "run")
    calls = server.calls
    fresh = [
        subprocess.run(
            [sys.executable, "-c", H59_FRESH],
            input=pickle.dumps((frame, judge, str(tmp_path / folder))),
            capture_output=True,
            check=True,
        )
        for folder in ("fresh", "run")
    ]

    for done in fresh:
        pd.testing.assert_frame_equal(second, pickle.loads(done.stdout))
    assert (calls, server.calls) == (4, 8)
    assert pickle.dumps((frame, judge, sorted(vars(judge)))) == state
    assert second.evals.passed.isna().all(axis=None)


def spoil(input):
    """A task that changes what it is given."""
    del input["q"]
    input["tags"].append("spoilt")
    return input


def clear(output, input):
    """An evaluator that empties what it is given."""
    output.clear()
    input.clear()
    return True


async def async_clear(output, input):
    """The same, async."""
    return clear(output, input)


def look(input, output):
    """Everything that an evaluator sees, as the label."""
    return json.dumps([input, output])


async def async_look(input, output):
    """The same, async."""
    return look(input, output)


def test_h60_what_a_call_does_to_a_value_reaches_nobody_else_with_a_run_dir(tmp_path):
    """Nor the folder: what is found there belongs to the value as it was, and is found again."""
    value = {"q": "a", "tags": ["x"]}
    frame = pd.DataFrame({"input": [value, value, value]})
    before = copy.deepcopy(frame)
    evaluators = [clear, async_clear, look, async_look]

    frames = runs_of(frame, tmp_path, task=spoil, evaluators=evaluators, repetitions=2)

    output = {"tags": ["x", "spoilt"]}
    for scored in frames.values():
        assert scored["input"].tolist() == [value] * 6
        assert scored["output"].tolist() == [output] * 6
        for name in ("look", "async_look"):
            assert listed(scored, f"eval.{name}.label") == [json.dumps([value, output])] * 6
    pd.testing.assert_frame_equal(frame, before)
    record = json.loads((tmp_path / "resumed" / "run.json").read_text("utf-8"))
    parts = [record["task"], *record["evaluators"].values()]
    assert [part["counts"]["n_reused"] for part in parts] == [6] * 5
