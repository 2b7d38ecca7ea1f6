"""Tasks in whole runs: what they are given, what becomes of what they return.

How many run at once and how they are given up is in test_concurrency.py.
"""

import asyncio
import copy
import functools
import json
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

TEXT = pd.StringDtype("pyarrow")
QUESTIONS = pd.DataFrame({"input": ["a", "b", "c"], "dataset_output": ["A", "B", "x"]})


def upper(input):
    """A plain task."""
    return input.upper()


async def async_upper(input):
    """An async task."""
    await asyncio.sleep(0)
    return input.upper()


def apply(how, input):
    """A function that needs a partial around it."""
    return how(input)


class Upper:
    """A callable object as a task."""

    def __call__(self, input):
        return input.upper()


class AsyncUpper:
    """A callable object whose call is async."""

    async def __call__(self, input):
        return input.upper()


def is_right(output, dataset_output):
    """Whether the task's output is the expected one."""
    return output == dataset_output


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(upper, id="function"),
        pytest.param(async_upper, id="async-function"),
        pytest.param(lambda input: input.upper(), id="lambda"),
        pytest.param(functools.partial(apply, str.upper), id="partial"),
        pytest.param(Upper(), id="callable-object"),
        pytest.param(AsyncUpper(), id="async-callable-object"),
        pytest.param(Upper().__call__, id="method"),
        pytest.param(ef.task(upper), id="decorated"),
        pytest.param(ef.task(output=str)(async_upper), id="declared"),
    ],
)
def test_a_task_makes_the_output(task):
    """Its result is the column `output` after the dataset's own, then `task.error`."""
    scored = ef.run_experiment(QUESTIONS, task, [is_right])

    expected = QUESTIONS.assign(
        output=pd.array(["A", "B", "C"], dtype=TEXT),
        **{"task.error": pd.array([None] * 3, dtype=TEXT)},
    )
    pd.testing.assert_frame_equal(scored.iloc[:, :4], expected)
    assert scored["eval.is_right.score"].tolist() == [1.0, 1.0, 0.0]


def test_a_task_alone_is_an_experiment():
    """Evaluators may come later, from the frame."""
    answered = ef.run_experiment(QUESTIONS, upper)

    scored = answered.pipe(ef.run_experiment, evaluators=[is_right])

    assert list(answered.columns) == ["input", "dataset_output", "output", "task.error"]
    assert scored["eval.is_right.score"].tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("task", "output"),
    [
        pytest.param(lambda question: f"{question}", "q", id="sole-unknown-name-gets-the-input"),
        pytest.param(lambda topic: topic, "t", id="column"),
        pytest.param(lambda dataset_output: dataset_output, "d", id="role"),
        pytest.param(lambda metadata: metadata, {"topic": "t"}, id="metadata"),
        pytest.param(lambda input, nothing=5: [input, nothing], ["q", 5], id="default"),
        pytest.param(lambda dataset_row: [*dataset_row], ["query", "topic", "expected"], id="row"),
        pytest.param(
            lambda input, **rest: rest, {"topic": "t", "expected": "d"}, id="keyword-arguments"
        ),
    ],
)
def test_parameters_of_a_task_are_bound_by_name(task, output):
    """The same names as in evaluators; the sole unknown one is the input."""
    frame = pd.DataFrame({"query": ["q"], "topic": ["t"], "expected": ["d"]})

    scored = ef.run_experiment(frame, task, metadata=["topic"])

    assert scored["output"].tolist() == [output]


@pytest.mark.parametrize(
    ("task", "match"),
    [
        pytest.param(lambda grund, truht: 1, "parameter 'grund' binds to nothing", id="unknown"),
        pytest.param(lambda inptu: 1, "Did you mean 'input'", id="misspelt"),
        pytest.param(lambda: 1, "takes no parameters", id="no-parameters"),
        pytest.param(str, "must be a function", id="class"),
        pytest.param("upper", "must be a function", id="text"),
        pytest.param(7, "must be a function", id="number"),
        pytest.param((x for x in "a"), "must be a function", id="generator"),
    ],
)
def test_a_task_that_cannot_run_is_refused(task, match):
    """Before the first call, with the evaluators' mistakes in the same error."""
    with pytest.raises(ef.ExperimentError, match=match) as caught:
        ef.run_experiment(QUESTIONS, task, {"bad": lambda outptu: 1})

    assert "'outptu'" in str(caught.value)


def test_a_generator_function_is_no_task():
    """A task returns; it does not yield."""

    def task(input):
        yield input

    with pytest.raises(ef.ExperimentError, match="generator function"):
        ef.run_experiment(QUESTIONS, task)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"output": list}, "output must be str, float, int, bool or 'json'"),
        ({"threads": 0}, "threads must be a whole number of at least 1"),
        ({"threads": True}, "threads must be a whole number of at least 1"),
    ],
    ids=["output", "threads", "threads-bool"],
)
def test_options_of_a_task_are_checked_when_it_is_made(options, match):
    """A wrong declaration fails where it is written."""
    with pytest.raises(ValueError, match=match):
        ef.task(**options)(upper)


def test_a_decorated_task_is_still_the_function():
    """It can be called and tested as before, and says what it is."""
    task = ef.task(output=str, name="shout")(upper)

    assert task("a") == "A"
    assert task.__name__ == "upper"
    assert repr(task) == "<task 'shout'>"


def test_an_output_that_is_there_is_not_lost():
    """The dataset's `output` and a task are in each other's way: refused, with the ways out."""
    calls = []
    frame = QUESTIONS.assign(output="stale")

    with pytest.raises(ef.ExperimentError, match=r"'output'.*overwrite=True.*rename"):
        ef.run_experiment(frame, ef.task(calls.append), [is_right])

    assert calls == []


def test_overwrite_replaces_the_output():
    """Then the old column goes, and the new one stands where a task's output stands."""
    frame = pd.DataFrame({"output": ["stale"], "input": ["a"]})

    scored = ef.run_experiment(frame, upper, {"said": lambda output: output}, overwrite=True)

    assert list(scored.columns[:3]) == ["input", "output", "task.error"]
    assert scored["output"].tolist() == ["A"]
    assert scored["eval.said.label"].tolist() == ["A"]
    assert frame["output"].tolist() == ["stale"]


def test_naming_an_output_column_beside_a_task_is_an_error():
    """The output is what the task makes."""
    with pytest.raises(ef.ExperimentError, match=r"output=.*a task makes the output"):
        ef.run_experiment(QUESTIONS, upper, [is_right], output="dataset_output")


def test_an_output_mapping_remembered_from_before_gives_way_to_the_task():
    """An earlier run's output column is just a column, once a task makes the output."""
    frame = pd.DataFrame({"input": ["a"], "answer": ["old"]})
    first = ef.run_experiment(frame, evaluators={"a": lambda output: output}, output="answer")

    second = ef.run_experiment(first, upper, {"b": lambda output: output})
    third = ef.run_experiment(second, evaluators={"c": lambda output: output})

    assert second["eval.b.label"].tolist() == ["A"]
    assert third["eval.c.label"].tolist() == ["A"]


@pytest.mark.parametrize("kind", [upper, async_upper], ids=["sync", "async"])
def test_a_failed_task_is_a_fact_of_its_row(kind):
    """No output, the error with type, text and line, and cells that say why they are empty."""
    frame = pd.DataFrame({"input": ["a", None, "c"]})
    seen = []

    def plain(output):
        seen.append(output)
        return True

    async def awaited(output):
        seen.append(output)
        return True

    @ef.evaluator(vectorized=True)
    def column(output):
        seen.extend(output.tolist())
        return output.str.len() > 0

    scored = ef.run_experiment(frame, kind, [plain, awaited, column])

    assert scored["output"].isna().tolist() == [False, True, False]
    error = scored["task.error"][1]
    assert error.startswith("exception: AttributeError: 'NoneType' object has no attribute 'upper'")
    assert "(test_tasks.py:" in error
    for name in ("plain", "awaited", "column"):
        errors = scored[f"eval.{name}.error"]
        assert errors.dropna().to_dict() == {1: "task_failed: not run, the task failed"}
    assert sorted(seen) == ["A", "A", "A", "C", "C", "C"]
    summary = scored.evals.summary()
    assert summary["n_task_failed"].tolist() == [1, 1, 1]
    assert summary["n_failed"].tolist() == [0, 0, 0]
    failed = scored.evals.failures()
    assert failed[["position", "evaluator", "kind"]].to_numpy().tolist() == [
        [1, "<task>", "exception"]
    ]


def test_when_every_task_fails_vectorized_evaluators_are_not_called():
    """There is no row that they could see."""

    @ef.evaluator(vectorized=True)
    def column(output):
        pytest.fail("called")

    def task(input):
        raise ValueError(input)

    scored = ef.run_experiment(QUESTIONS, task, [column])

    assert scored["eval.column.error"].str.startswith("task_failed:").tolist() == [True] * 3


def test_none_is_a_legal_output():
    """It is null in the column, no error, and evaluators are given None."""
    scored = ef.run_experiment(
        QUESTIONS, lambda input: None, {"none": lambda output: output is None}
    )

    assert scored["output"].isna().all()
    assert scored["output"].dtype == TEXT
    assert scored["task.error"].isna().all()
    assert scored["eval.none.score"].tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("value", "what"),
    [
        pytest.param({1, 2}, "a set", id="set"),
        pytest.param(object(), "an object", id="object"),
        pytest.param({"deep": [{"er": {1}}]}, "a set at .deep", id="nested-set"),
        pytest.param(lambda: 1, "a function", id="function"),
        pytest.param((x for x in "a"), "a generator", id="generator"),
        pytest.param({1: "x"}, "", id="dict-with-number-keys"),
    ],
)
def test_an_output_that_cannot_be_kept_is_a_failed_task(value, what):
    """It is known when the task returns, and said with type and place."""
    scored = ef.run_experiment(
        QUESTIONS, lambda input: value if input == "b" else input, {"e": lambda output: True}
    )

    error = scored["task.error"][1]
    assert error.startswith(f"invalid_result: the task returned {what}")
    assert scored["output"].isna().tolist() == [False, True, False]
    assert scored["eval.e.error"][1].startswith("task_failed:")


def test_a_plain_task_that_returns_an_awaitable_is_told_to_be_async():
    """A lambda around an async function is a common slip; nothing is left unawaited."""
    scored = ef.run_experiment(QUESTIONS, lambda input: async_upper(input or "x"), [is_right])

    assert scored["task.error"].str.startswith("invalid_result:").tolist() == [True] * 3
    assert "async def" in scored["task.error"][0]


def test_errors_raise_tells_of_an_output_that_cannot_be_kept():
    """There is no exception of the user's, so it is a CellError."""
    with pytest.raises(ef.CellError, match=r"The task, row 0: invalid_result: .* a set"):
        ef.run_experiment(QUESTIONS, lambda input: {1}, errors="raise")


@pytest.mark.parametrize(
    ("outputs", "dtype"),
    [
        pytest.param(["x", None], TEXT, id="text"),
        pytest.param([1, None], pd.ArrowDtype(pa.int64()), id="int"),
        pytest.param([1.5, None], pd.ArrowDtype(pa.float64()), id="float"),
        pytest.param([True, None], pd.ArrowDtype(pa.bool_()), id="bool"),
        pytest.param([1, 1.5], object, id="int-and-float"),
        pytest.param([1, True], object, id="int-and-bool"),
        pytest.param(["x", 1], object, id="mixed"),
        pytest.param([["x"], []], pd.ArrowDtype(pa.list_(pa.large_string())), id="lists"),
        pytest.param([{"a": 1}, {"b": 2}], object, id="different-keys"),
        pytest.param([{}, {}], object, id="empty-dicts"),
        pytest.param([("x", 1), ("y", 2)], object, id="tuples"),
        pytest.param([2**70, 1], object, id="large-int"),
        pytest.param([date(2024, 5, 1), None], pd.ArrowDtype(pa.date32()), id="dates"),
        pytest.param([Decimal("1.10"), Decimal(2)], object, id="decimals"),
        pytest.param([uuid.UUID(int=1), None], object, id="uuid"),
        pytest.param([timedelta(seconds=1), None], pd.ArrowDtype(pa.duration("us")), id="duration"),
    ],
)
def test_an_output_keeps_its_value_and_type(outputs, dtype, tmp_path):
    """Stored natively where that keeps each value, else as Python objects; also in a file."""
    frame = pd.DataFrame({"input": [0, 1]})
    seen = {}

    def recorder(input, output):
        seen[input] = output
        return True

    scored = ef.run_experiment(frame, lambda input: outputs[input], [recorder])
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    again = ef.read_parquet(tmp_path / "scored.parquet")

    assert scored["output"].dtype == dtype
    assert [seen[0], seen[1]] == outputs
    assert [type(seen[0]), type(seen[1])] == [type(value) for value in outputs]
    pd.testing.assert_frame_equal(again, scored)


def test_an_aware_time_as_output_keeps_its_instant():
    """A zone is not lost on the way to evaluators or into the column."""
    at = datetime(2024, 5, 1, 13, tzinfo=UTC)
    seen = []

    scored = ef.run_experiment(pd.DataFrame({"input": [0]}), lambda input: at, {"e": seen.append})

    assert seen == [at]
    assert scored["output"][0] == at


def test_numpy_and_pandas_outputs_become_plain_values():
    """Evaluators are given Python's own types, nulls of every kind are None."""
    values = [np.float64(0.5), np.array([1, 2]), np.nan, pd.NA, pd.NaT, {"n": np.int64(3)}]
    seen = {}

    def recorder(input, output):
        seen[input] = output
        return True

    ef.run_experiment(pd.DataFrame({"input": range(6)}), lambda input: values[input], [recorder])

    assert [seen[n] for n in range(6)] == [0.5, [1, 2], None, None, None, {"n": 3}]
    assert type(seen[0]) is float
    assert type(seen[5]["n"]) is int


@pytest.mark.parametrize(
    ("declared", "good", "kept", "dtype"),
    [
        pytest.param(str, "x", "x", TEXT, id="str"),
        pytest.param(int, 3, 3, pd.ArrowDtype(pa.int64()), id="int"),
        pytest.param(float, 3, 3.0, pd.ArrowDtype(pa.float64()), id="float-takes-int"),
        pytest.param(bool, True, True, pd.ArrowDtype(pa.bool_()), id="bool"),
        pytest.param("json", {"a": [1]}, {"a": [1]}, object, id="json"),
    ],
)
def test_a_declared_output_has_its_type_from_the_start(declared, good, kept, dtype):
    """Also without a single row, or without a single output."""
    task = ef.task(output=declared)(lambda input: good if input else None)

    full = ef.run_experiment(pd.DataFrame({"input": [1, 0]}), task)
    null = ef.run_experiment(pd.DataFrame({"input": [0]}), task)
    none = ef.run_experiment(pd.DataFrame({"input": pd.Series([], dtype=int)}), task)

    assert full["output"][0] == kept
    assert full["output"].isna().tolist() == [False, True]
    assert [frame["output"].dtype for frame in (full, null, none)] == [dtype] * 3


@pytest.mark.parametrize(
    ("declared", "bad"),
    [
        pytest.param(str, 1, id="int-for-str"),
        pytest.param(int, True, id="bool-for-int"),
        pytest.param(int, 1.0, id="float-for-int"),
        pytest.param(int, 2**63, id="too-large"),
        pytest.param(float, "1.0", id="str-for-float"),
        pytest.param(float, True, id="bool-for-float"),
        pytest.param(bool, 1, id="int-for-bool"),
    ],
)
def test_an_output_of_another_type_than_declared_is_a_failed_task(declared, bad):
    """A declaration is held, never coerced."""
    scored = ef.run_experiment(
        pd.DataFrame({"input": [1]}), ef.task(output=declared)(lambda input: bad)
    )

    assert scored["task.error"][0].startswith("invalid_result: the task returned")
    assert f"output={declared.__name__}" in scored["task.error"][0]


def spoil(input):
    """A task that changes its input and gives it as the output."""
    input["tags"].append("spoilt")
    del input["q"]
    return input


async def async_spoil(input):
    """The same, async."""
    return spoil(input)


def clear(output, input):
    """An evaluator that empties what it is given."""
    output.clear()
    input.clear()
    return True


async def async_clear(output, input):
    """The same, async."""
    return clear(output, input)


@ef.evaluator(vectorized=True)
def clear_all(output, input):
    """The same for whole columns."""
    for made in [*output, *input]:
        made.clear()
    return [True] * len(output)


def look(input, output):
    """Everything that an evaluator sees, as the label."""
    return json.dumps([input, output])


async def async_look(input, output):
    """The same, async."""
    return look(input, output)


@ef.evaluator(vectorized=True)
def look_at_all(input, output):
    """The same for whole columns."""
    return [json.dumps(pair) for pair in zip(input, output, strict=True)]


@pytest.mark.parametrize("task", [spoil, async_spoil], ids=["sync", "async"])
def test_h60_what_a_call_does_to_a_value_reaches_nobody_else(task):
    """Task, evaluators and repetitions each get values of their own; the frame is untouched."""
    value = {"q": "a", "tags": ["x"]}
    frame = pd.DataFrame({"input": [value, value]})
    before = copy.deepcopy(frame)
    evaluators = [clear, async_clear, clear_all, look, async_look, look_at_all]

    scored = ef.run_experiment(frame, task, evaluators, repetitions=2)

    output = {"tags": ["x", "spoilt"]}
    assert scored["input"].tolist() == [value] * 4
    assert scored["output"].tolist() == [output] * 4
    for name in ("look", "async_look", "look_at_all"):
        assert scored[f"eval.{name}.label"].tolist() == [json.dumps([value, output])] * 4
    pd.testing.assert_frame_equal(frame, before)
    assert value == {"q": "a", "tags": ["x"]}


def test_an_output_does_not_change_with_the_object_it_came_from():
    """A task may return the same list again and again; each row keeps what it was then."""
    running = []

    @ef.task(threads=1)
    def task(input):
        running.append(input)
        return running

    scored = ef.run_experiment(pd.DataFrame({"input": ["a", "b"]}), task)

    assert scored["output"].tolist() == [["a"], ["a", "b"]]


def test_every_repetition_is_a_call_of_its_own():
    """Outputs of repetitions are independent samples."""
    calls = []

    @ef.task(threads=1)
    def task(input):
        calls.append(input)
        return len(calls)

    scored = ef.run_experiment(
        QUESTIONS, task, {"e": lambda output: f"{output}"}, repetitions=2, concurrency=1
    )

    assert calls == ["a", "a", "b", "b", "c", "c"]
    assert scored["output"].tolist() == [1, 2, 3, 4, 5, 6]
    assert scored["eval.e.label"].tolist() == list("123456")
    assert list(scored.columns[:4]) == ["input", "dataset_output", "repetition", "output"]


def test_a_task_sees_rows_of_a_dry_run_only():
    """A dry run costs as many calls as it has rows."""
    calls = []

    ef.run_experiment(QUESTIONS, calls.append, dry_run=2)

    assert sorted(calls) == ["a", "b"]


def test_an_evaluator_given_as_a_task_is_told_apart():
    """And a task given as an evaluator."""
    with pytest.raises(ef.ExperimentError, match=r"given as the task, but is an evaluator"):
        ef.run_experiment(QUESTIONS, ef.ExactMatch())
    with pytest.raises(ef.ExperimentError, match=r"given as an evaluator, but is a task"):
        ef.run_experiment(QUESTIONS, upper, [ef.task(upper)])


def test_attrs_name_the_task():
    """Which task made the outputs is known later, also after a run without one."""
    first = ef.run_experiment(QUESTIONS, ef.task(name="shout")(upper))
    second = ef.run_experiment(first, evaluators=[is_right])

    assert [json.loads(frame.attrs["evalframe"])["task"] for frame in (first, second)] == [
        "shout",
        "shout",
    ]
