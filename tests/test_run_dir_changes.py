"""A run_dir while evaluators and task change, and what it tells of all its runs."""

import json
import platform
import warnings
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import error, label, reply

SECRET = "sk-nobody-may-read-this"  # noqa: S105
DATA = pd.DataFrame({"output": ["a", "bb", "a"]})


def listed(frame, column):
    """A column with None for NA."""
    return pa.array(frame[column]).to_pylist()


def finished(*parts):
    """The one warning at the end of a run that has taken something over."""
    return pytest.warns(
        UserWarning, match=f"finished before, and not run again: {', '.join(parts)}.$"
    )


def length(output):
    """A score by the output's length."""
    return len(output) / 10


def other_length(output):
    """The same function after an edit."""
    return len(output) / 20


def always(output):
    """Says the same of every row."""
    return True


def test_an_evaluator_that_is_added_runs_alone(tmp_path):
    """The others' cells are there."""
    ef.run_experiment(DATA, evaluators=[length], run_dir=tmp_path)
    with finished("3 of 3 cells of 'length'"):
        scored = ef.run_experiment(DATA, evaluators=[always, length], run_dir=tmp_path)

    assert scored.evals.names == ["always", "length"]
    assert listed(scored, "eval.always.score") == [1.0] * 3


def test_an_evaluator_that_is_left_out_comes_back_with_its_cells(tmp_path):
    """And with what is known of it in run.json meanwhile."""
    ef.run_experiment(DATA, evaluators=[length, always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'always'"):
        without = ef.run_experiment(DATA, evaluators=[always], run_dir=tmp_path)
    between = json.loads((tmp_path / "run.json").read_text("utf-8"))["evaluators"]
    with finished("3 of 3 cells of 'length'", "3 of 3 cells of 'always'"):
        ef.run_experiment(DATA, evaluators=[length, always], run_dir=tmp_path)

    assert without.evals.names == ["always"]
    assert set(between) == {"length", "always"}


def test_an_evaluator_that_is_edited_runs_on_every_row(tmp_path):
    """Back in its old form it has its old cells."""
    edited = ef.evaluator(other_length, name="length")
    ef.run_experiment(DATA, evaluators=[length, always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'always'"):
        after = ef.run_experiment(DATA, evaluators=[edited, always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'length'", "3 of 3 cells of 'always'"):
        back = ef.run_experiment(DATA, evaluators=[length, always], run_dir=tmp_path)

    assert listed(after, "eval.length.score") == [0.05, 0.1, 0.05]
    assert listed(back, "eval.length.score") == [0.1, 0.2, 0.1]


def test_an_evaluator_under_another_name_is_another_one(tmp_path):
    """Its columns are others, and so are its cells."""
    ef.run_experiment(DATA, evaluators=[length, always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'always'"):
        scored = ef.run_experiment(
            DATA, evaluators=[ef.evaluator(length).named("size"), always], run_dir=tmp_path
        )

    assert listed(scored, "eval.size.score") == [0.1, 0.2, 0.1]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_version_stands_for_the_code(tmp_path, version):
    """The same one keeps the cells through an edit, another one makes them anew."""
    old = ef.evaluator(length, name="f", version="1")
    new = ef.evaluator(other_length, name="f", version=version)
    ef.run_experiment(DATA, evaluators=[old, always], run_dir=tmp_path)
    kept = ["3 of 3 cells of 'f'"] if version == "1" else []
    with finished(*kept, "3 of 3 cells of 'always'"):
        scored = ef.run_experiment(DATA, evaluators=[new, always], run_dir=tmp_path)

    assert listed(scored, "eval.f.score") == ([0.1, 0.2, 0.1] if kept else [0.05, 0.1, 0.05])


def test_extras_of_another_type_are_made_anew_and_the_old_ones_stay(tmp_path):
    """Also under one `version`: no column gets a value of another type."""

    def f_with(kind):
        return ef.evaluator(
            lambda output: {"score": 0.5, "size": kind(len(output))},
            name="f",
            extras={"size": kind},
            version="1",
        )

    ef.run_experiment(DATA, evaluators=[f_with(int), always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'always'"):
        after = ef.run_experiment(DATA, evaluators=[f_with(str), always], run_dir=tmp_path)
    with finished("3 of 3 cells of 'f'", "3 of 3 cells of 'always'"):
        back = ef.run_experiment(DATA, evaluators=[f_with(int), always], run_dir=tmp_path)

    assert listed(after, "eval.f.size") == ["1", "2", "1"]
    assert listed(back, "eval.f.size") == [1, 2, 1]


def test_a_task_that_is_edited_needs_a_run_dir_of_its_own(tmp_path):
    """Every output is another sample, so no cell is known to belong to it; nothing is lost."""
    data = pd.DataFrame({"input": ["a", "b"]})

    def task(input):
        return input.upper()

    def edited(input):
        return input + input

    def by_input(input):
        return len(input) / 10

    evaluators = [length, by_input]
    ef.run_experiment(data, ef.task(task, name="t"), evaluators, run_dir=tmp_path)
    with pytest.raises(ef.RunDirError, match="none of them belongs to this run"):
        ef.run_experiment(data, ef.task(edited, name="t"), evaluators, run_dir=tmp_path)
    with finished("2 of 2 task outputs", "2 of 2 cells of 'length'", "2 of 2 cells of 'by_input'"):
        scored = ef.run_experiment(data, ef.task(task, name="t"), evaluators, run_dir=tmp_path)

    assert listed(scored, "output") == ["A", "B"]


def test_outputs_that_are_not_of_the_declared_type_are_made_anew(tmp_path):
    """A task of one version may declare another type than before."""
    data = pd.DataFrame({"input": ["a"]})
    ef.run_experiment(data, ef.task(lambda input: 7, name="t", version="1"), run_dir=tmp_path)
    with finished("1 of 1 task output"):
        kept = ef.run_experiment(
            data, ef.task(lambda input: 8, name="t", version="1", output=int), run_dir=tmp_path
        )
    made = ef.run_experiment(
        data, ef.task(lambda input: "9", name="t", version="1", output=str), run_dir=tmp_path
    )

    assert listed(kept, "output") == [7]
    assert listed(made, "output") == ["9"]


@pytest.fixture
def judged(serve, monkeypatch, tmp_path):
    """Runs of a task and a judge that ask a model, in one folder: `judged(texts, **options)`."""
    monkeypatch.setenv("NOBODYS_KEY", SECRET)

    def script(request):
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        if request.prompt == "bad":
            return error(400, f"{SECRET} is no key for this")
        return label("yes") if request.schema else reply(f"out {request.prompt}")

    server = serve(script)
    price = {"input": 1.0, "cached_input": 1.0, "output": 1.0}
    model = ef.Model(
        "local/m", base_url=server.base_url, api_key_env="NOBODYS_KEY", price=price, max_retries=0
    )
    task = ef.ChatTask(model, "{{ item.input }}")
    judge = ef.LLMJudge(
        "j", model=model, prompt="{{ item.output }}", choices=["yes"], explanation=False
    )

    def run(texts, **options):
        is_frame = isinstance(texts, pd.DataFrame)
        data = texts if is_frame else pd.DataFrame({"question": list(texts)})
        options = {"input": "question", "run_dir": tmp_path / "run", **options}
        return ef.run_experiment(data, task, [judge, always], **options)

    run.server = server  # its counts
    return run


def test_usage_and_explain_add_up_over_the_runs_of_a_folder(judged):
    """What the results have cost, whichever run it was that paid."""
    once = judged("ab")
    with finished("2 of 5 task outputs", "2 of 5 cells of 'j'", "2 of 5 cells of 'always'"):
        twice = judged("abcde")
    with finished("5 of 5 task outputs", "5 of 5 cells of 'j'", "5 of 5 cells of 'always'"):
        rested = judged("abcde")

    def spent(frame):
        usage = frame.evals.usage().set_index("evaluator")
        return {who: usage.loc[who, ["cells", "calls"]].tolist() for who in usage.index}

    assert spent(once) == {"<task>": [2, 2], "j": [2, 2]}
    assert spent(twice) == spent(rested) == {"<task>": [5, 5], "j": [5, 5]}
    for frame in (twice, rested):
        told = frame.evals.explain("j")
        assert (told["calls"], told["models"], told["n_valid"]) == (5, "m", 5)
        assert told["cost"] == frame.evals.usage().set_index("evaluator").loc["j", "cost"] > 0
    assert judged.server.calls == 10


@pytest.mark.parametrize("given", ["frame", "rows"])
def test_usage_counts_a_call_once_whether_frame_or_folder_knows_of_it(judged, tmp_path, given):
    """With only= both may: the frame so far, and the folder of the run that made it."""
    with pytest.warns(UserWarning, match="max_requests"):
        part = judged("abcd", max_requests=5, concurrency=1)
    more = {"frame": {"only": "missing"}, "rows": {}}[given]
    data = part if given == "frame" else "abcd"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="run_dir=.*finished before")
        whole = judged(data, **more)
        twice = judged(whole if given == "frame" else "abcd", **more)

    saved = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["usage"]
    for frame in (whole, twice):
        assert frame.evals.usage().set_index("evaluator")["calls"].to_dict() == {
            "<task>": 4,
            "j": 4,
        }
    assert {who: facts["calls"] for who, facts in saved.items()} == {"<task>": 4, "j": 4}
    assert judged.server.calls == 8


def test_run_json_says_what_ran_when_and_with_which_counts(judged, tmp_path):
    """For people, and for the next run."""
    with pytest.warns(UserWarning, match="budget|max_requests"):
        judged("abc", max_requests=4, concurrency=1, experiment_name="mine")
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))

    began, ended = (datetime.fromisoformat(record[key]) for key in ("started", "finished"))
    parts = {**record["evaluators"], "<task>": record["task"]}
    assert (record["experiment_name"], record["rows"]) == ("mine", 3)
    assert record["mapping"] == {"input": "question"}
    assert record["versions"]["python"] == platform.python_version()
    assert began <= ended
    assert began.tzinfo is not None
    assert {name: part["kind"] for name, part in parts.items()} == {
        "j": "LLM",
        "always": "CODE",
        "<task>": "TASK",
    }
    assert all(len(part["fingerprint"]) == 32 for part in parts.values())
    assert all(part["counts"]["n"] == 3 for part in parts.values())
    assert parts["j"]["counts"]["n_valid"] + parts["j"]["counts"]["n_skipped"] == 3
    assert sum(facts["calls"] for facts in record["usage"].values()) == 4


def test_a_run_that_was_ended_has_no_end_in_its_record(tmp_path):
    """Its counts are those of the frame so far."""

    def stops(output):
        raise KeyboardInterrupt

    data = pd.DataFrame({"output": ["a", "b"]})
    with pytest.raises(KeyboardInterrupt):
        ef.run_experiment(data, evaluators=[always, stops], run_dir=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text("utf-8"))

    assert record["finished"] is None
    assert record["evaluators"]["stops"]["counts"]["n_skipped"] == 2


def test_no_key_is_in_any_file_of_the_folder(judged, tmp_path):
    """Nor where a server's message repeats it, in any form that is kept."""
    scored = judged(["a", "bad"], details=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert listed(scored, "task.error") == [None, "bad_request: HTTP 400: [key] is no key for this"]
    assert {path.suffix for path in files} >= {".arrows", ".json", ".sqlite"}
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []


def str_of(output):
    """The output as it is."""
    return output


def optional(output, a=0, b=0):
    """Says what it was given."""
    return f"a={a} b={b}"


@pytest.mark.parametrize(
    "evaluator",
    [
        pytest.param(optional, id="parameters"),
        pytest.param(
            ef.evaluator(str_of, name="optional").bind(output=lambda a=0, b=0: f"a={a} b={b}"),
            id="bound-function",
        ),
    ],
)
def test_a_value_under_another_name_makes_another_cell(tmp_path, evaluator):
    """Parameters with a default take what columns there are: equal values tell nothing of which."""
    first = pd.DataFrame({"output": ["o"], "a": [1]})
    other = pd.DataFrame({"output": ["o"], "b": [1]})
    both = {"evaluators": [evaluator, always], "run_dir": tmp_path}
    one = ef.run_experiment(first, **both)
    with finished("1 of 1 cell of 'always'"):
        two = ef.run_experiment(other, **both)

    labels = [listed(frame, "eval.optional.label") for frame in (one, two)]
    marks = [listed(frame, "eval.optional.fingerprint") for frame in (one, two)]
    assert labels == [["a=1 b=0"], ["a=0 b=1"]]
    assert marks[0] != marks[1]


def total(output):
    """Every row's share of all of them."""
    return output.str.len() / output.str.len().sum()


def test_a_vectorized_call_that_some_rows_have_nothing_for_is_not_made_again(tmp_path):
    """What is bound fails on them, which is as finished as the cells of the others."""
    seen = []

    def counted(output):
        seen.append(len(output))
        return total(output)

    evaluator = ef.evaluator(counted, vectorized=True, version="1").bind(output="answer.text")
    data = pd.DataFrame({"answer": [{"text": "a"}, {"other": "b"}, {"text": "ccc"}]})
    first = ef.run_experiment(data, evaluators=[evaluator], run_dir=tmp_path)
    with finished("3 of 3 cells of 'counted'. 1 of them failed; only='failed' runs those again"):
        again = ef.run_experiment(data, evaluators=[evaluator], run_dir=tmp_path)

    assert seen == [2]
    assert listed(first, "eval.counted.score") == [0.25, None, 0.75]
    pd.testing.assert_frame_equal(again, first)
