"""What a run leaves in the attrs of its frame."""

import json
import platform

import pandas as pd
import pytest

from evalframe.core.columns import TEXT
from evalframe.core.run_info import KEY, EvaluatorInfo, RunInfo, remembered
from evalframe.results.remember import counts, remember, versions

ERRORS = [
    None,
    "exception: KeyError: 'x'",
    "range: returned the score 97.0",
    "skipped: returned None",
    "skipped: not run",
    "task_failed: ValueError: no",
    None,
    None,
]


def errors(values):
    """An error column."""
    return pd.Series(values, dtype=TEXT)


def scored(*names):
    """A frame with the error columns of these evaluators."""
    return pd.DataFrame({f"eval.{name}.error": errors([None, "timeout: 1 s"]) for name in names})


def with_scores(values):
    """The results of one evaluator, with a score where there is no error."""
    numbers = [1.0 if value is None else None for value in values]
    return pd.DataFrame(
        {"eval.e.score": pd.array(numbers, "Float64"), "eval.e.error": errors(values)}
    )


def test_every_cell_is_counted_once_by_what_became_of_it():
    """Skipped and task_failed are no failures and not valid; a failure is never a success."""
    found = counts(with_scores(ERRORS), "e")

    assert found == {"valid": 3, "failed": 2, "task_failed": 1, "skipped": 2}
    assert sum(found.values()) == len(ERRORS)


def test_no_cells_are_counted_as_none():
    """An empty dataset has all counts, 0."""
    assert counts(with_scores([]), "e") == {"valid": 0, "failed": 0, "task_failed": 0, "skipped": 0}


def test_a_run_is_remembered_with_the_counts_of_its_evaluators():
    """From the frame's own error columns."""
    frame = scored("a")

    remember(frame, RunInfo(experiment_name="x", rows=2), {"a": EvaluatorInfo(threshold=0.5)}, {})

    found = remembered(frame.attrs)
    assert (found.experiment_name, found.rows) == ("x", 2)
    assert found.evaluators == {
        "a": EvaluatorInfo(
            threshold=0.5, counts={"valid": 1, "failed": 1, "task_failed": 0, "skipped": 0}
        )
    }


def test_the_attrs_hold_one_json_text_and_what_the_user_put_there():
    """About the run, never about cells."""
    frame = scored("a")

    remember(frame, RunInfo(), {"a": EvaluatorInfo()}, {"note": "mine"})

    assert set(frame.attrs) == {"note", KEY}
    assert isinstance(json.loads(frame.attrs[KEY]), dict)


def test_earlier_evaluators_are_remembered_as_long_as_their_columns_are_there():
    """A second run adds to the first; what was dropped is forgotten."""
    first = scored("a", "b")
    remember(
        first, RunInfo(task="answer"), {"a": EvaluatorInfo(kind="LLM"), "b": EvaluatorInfo()}, {}
    )
    second = scored("a", "c")

    remember(second, RunInfo(), {"c": EvaluatorInfo()}, first.attrs)

    found = remembered(second.attrs)
    assert list(found.evaluators) == ["a", "c"]
    assert found.evaluators["a"].kind == "LLM"
    assert found.task == "answer"


def test_an_evaluator_that_ran_again_is_remembered_as_it_is_now():
    """The newest declaration counts, and the newest task."""
    first = scored("a")
    remember(first, RunInfo(task="old"), {"a": EvaluatorInfo(threshold=0.1)}, {})
    second = scored("a")

    remember(second, RunInfo(task="new"), {"a": EvaluatorInfo(threshold=0.9)}, first.attrs)

    found = remembered(second.attrs)
    assert (found.evaluators["a"].threshold, found.task) == (0.9, "new")


def test_a_traceback_is_kept_as_long_as_its_error_stands_in_the_frame():
    """The newest one of an equal error is as good; those of replaced results go."""
    first = pd.DataFrame({"eval.a.error": errors(["e1", "e2"])})
    second = pd.DataFrame({"eval.a.error": errors(["e2", "e3"])})
    remember(first, RunInfo(tracebacks={"e1": "t1", "e2": "t2"}), {}, {})

    remember(second, RunInfo(tracebacks={"e2": "t2, again", "e3": "t3"}), {}, first.attrs)

    assert remembered(first.attrs).tracebacks == {"e1": "t1", "e2": "t2"}
    assert remembered(second.attrs).tracebacks == {"e2": "t2, again", "e3": "t3"}


@pytest.mark.parametrize("before", [{}, {KEY: "{torn"}, {KEY: 3}], ids=["none", "torn", "number"])
def test_what_is_unreadable_is_replaced(before):
    """A run never fails for what is written in the attrs."""
    frame = scored("a")

    remember(frame, RunInfo(rows=2), {}, before)

    assert remembered(frame.attrs).rows == 2


def test_the_attrs_of_the_frame_that_went_in_are_not_changed():
    """They are the caller's."""
    before = {"note": "mine"}

    remember(scored("a"), RunInfo(), {"a": EvaluatorInfo()}, before)

    assert before == {"note": "mine"}


def test_versions_are_those_of_what_makes_the_numbers():
    """Python and the packages beneath."""
    found = versions()

    assert found["python"] == platform.python_version()
    assert found["pandas"] == pd.__version__


def test_cells_that_are_null_in_all_columns_are_counted_as_skipped():
    """Their rows were added, and not run."""
    frame = pd.concat([with_scores([None, "timeout: 1 s"]), pd.DataFrame(index=[2, 3])])

    found = counts(frame, "e")

    assert found == {"valid": 1, "failed": 1, "task_failed": 0, "skipped": 2}


@pytest.mark.parametrize("values", [[], [None], [None] * 3], ids=["no-rows", "one", "several"])
def test_rows_without_an_error_are_valid(values):
    """The usual column, which is not looked through."""
    assert counts(with_scores(values), "e") == {
        "valid": len(values),
        "failed": 0,
        "task_failed": 0,
        "skipped": 0,
    }


SPENT = {"cells": 3, "calls": 2, "cost": 0.5, "models": ["m1"]}


def spending(**usage):
    """A run in which models were asked."""
    return RunInfo(usage=usage, started="now", finished="later")


@pytest.mark.parametrize(
    ("now", "total"),
    [
        pytest.param(SPENT, {"cells": 6, "calls": 4, "cost": 1.0, "models": ["m1"]}, id="sum"),
        pytest.param(
            {**SPENT, "cost": None, "models": ["m0"]},
            {"cells": 6, "calls": 4, "cost": None, "models": ["m0", "m1"]},
            id="a-cost-that-is-not-known",
        ),
    ],
)
def test_runs_that_add_to_results_add_up_what_they_have_cost(now, total):
    """Others begin anew."""
    first = scored("a", "b")
    remember(first, spending(a=SPENT, b=SPENT), {"a": EvaluatorInfo(), "b": EvaluatorInfo()}, {})
    second = scored("a", "b")

    remember(
        second,
        spending(a=now, b=now),
        {"a": EvaluatorInfo(), "b": EvaluatorInfo()},
        first.attrs,
        continued={"a"},
    )

    assert remembered(second.attrs).usage == {"a": total, "b": now}


def test_results_that_stayed_are_of_the_run_that_made_them():
    """What they were made by stays; the threshold is the one that was given last."""
    first = scored("a")
    made = EvaluatorInfo(threshold=0.1, prompt="old", fingerprint="f1")
    remember(first, RunInfo(started="then"), {"a": made}, {})
    second = scored("a")

    now = EvaluatorInfo(threshold=0.9, prompt="new", fingerprint="f2")
    remember(second, RunInfo(started="now"), {"a": now}, first.attrs, untouched={"a"})

    found = remembered(second.attrs).evaluators["a"]
    assert (found.threshold, found.prompt, found.fingerprint, found.started) == (
        0.9,
        "old",
        "f1",
        "then",
    )


def test_a_task_and_its_version_are_remembered_by_runs_without_one():
    """Its outputs are still there."""
    first = scored("a")
    remember(first, RunInfo(task="t", task_version="3"), {"a": EvaluatorInfo()}, {})
    second = scored("a")

    remember(second, RunInfo(), {"a": EvaluatorInfo()}, first.attrs)

    found = remembered(second.attrs)
    assert (found.task, found.task_version) == ("t", "3")
