"""`explain`: where the results of an evaluator come from, from the frame alone."""

import re

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import label

ROWS = [{"output": text} for text in ("a", "a", "b", None)]
COUNTED = {"prompt_tokens": 100, "completion_tokens": 10}


def short(output):
    """Fails on None."""
    return len(output) < 2


def test_a_judge_is_explained_in_full(serve):
    """What was asked, of whom, when and at what cost; its own row of `usage` and `summary`."""
    server = serve(label("yes", explanation="e", usage=COUNTED))
    model = ef.Model("local/m", base_url=server.base_url, price={"input": 1, "output": 1})
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"])
    scored = ef.run_experiment(ROWS, evaluators=[judge, short], experiment_name="first")
    found = scored.evals.explain("j")
    times = pd.to_datetime(found[["started", "finished"]])

    assert times["started"] <= times["finished"]
    assert found.drop(["started", "finished", "parameters"]).to_dict() == {
        "kind": "LLM",
        "class": "LLMJudge",
        "version": None,
        "fingerprint": judge.fingerprint().digest,
        "unread": [],
        "prompt": "{{ item.output }}",
        "model": "local/m",
        "direction": "maximize",
        "threshold": None,
        "score_range": (0.0, 1.0),
        "cells": 3,
        "calls": 2,
        "cached": 0,
        "shared": 1,
        "reasked": 0,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "cached_tokens": 0,
        "cost": pytest.approx(220e-6),
        "models": "m",
        "n": 4,
        "n_valid": 3,
        "n_scored": 0,
        "n_failed": 0,
        "n_task_failed": 0,
        "n_skipped": 1,
    }


def test_a_function_has_no_facts_of_a_model():
    """What does not apply is left out; counts of failures are there."""
    scored = ef.run_experiment(ROWS, evaluators=[ef.evaluator(short, version="2")])
    found = scored.evals.explain("short")

    assert found["version"] == "2"
    assert {"prompt", "model", "cost", "calls"}.isdisjoint(found.index)
    assert found[["n", "n_valid", "n_failed"]].tolist() == [4, 3, 1]


def test_it_is_kept_through_parquet(tmp_path):
    """All of it."""
    scored = ef.run_experiment(ROWS, evaluators=[ef.Contains("a"), short])
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    found = ef.read_parquet(tmp_path / "scored.parquet")

    pd.testing.assert_series_equal(ef.explain(found, "contains"), ef.explain(scored, "contains"))


def test_evaluators_of_earlier_runs_keep_their_facts():
    """Each has the time of its own newest run."""
    first = ef.run_experiment(ROWS, evaluators=[short])
    second = ef.run_experiment(first, evaluators=[ef.Contains("a")])

    pd.testing.assert_series_equal(second.evals.explain("short"), first.evals.explain("short"))
    assert second.evals.explain("contains")["class"] == "Contains"


def test_a_frame_without_attrs_has_counts_only():
    """Nothing is made up for what was lost."""
    scored = ef.run_experiment(ROWS, evaluators=[short])
    scored.attrs = {}

    assert scored.evals.explain("short").to_dict() == {
        "n": 4,
        "n_valid": 3,
        "n_scored": 3,
        "n_failed": 1,
        "n_task_failed": 0,
        "n_skipped": 0,
    }


def test_counts_are_of_the_rows_that_are_there():
    """Of a part of a frame they are the part's."""
    scored = ef.run_experiment(ROWS, evaluators=[short])

    assert scored.iloc[:2].evals.explain("short")["n"] == 2


def test_an_unknown_name_is_an_error_with_the_nearest():
    """As for `df.evals[...]`."""
    scored = ef.run_experiment(ROWS, evaluators=[short])

    with pytest.raises(KeyError, match="Did you mean 'short'"):
        scored.evals.explain("shor")


def test_long_prompts_are_kept_in_part(serve):
    """Every frame derived from the run's carries them, so they end somewhere, and say so."""
    server = serve(label("yes", explanation="e"))
    prompt = "{{ item.output }}" + "x" * 30_000
    judge = ef.LLMJudge(
        "j",
        model=ef.Model("local/m", base_url=server.base_url),
        prompt=[{"role": "user", "content": prompt}],
        choices=["yes", "no"],
    )
    scored = ef.run_experiment(ROWS[:1], evaluators=[judge])
    found = scored.evals.explain("j")

    assert len(found["prompt"]) < 20_100
    assert re.search(r"… \(30,\d{3} characters\)$", found["prompt"])
    assert len(found["parameters"]) < 2_100


class Unprintable:
    """Its own __repr__ fails."""

    def __repr__(self):
        raise RuntimeError


class Holding(ef.Evaluator):
    thing: object

    def evaluate(self, output):
        return True


def test_an_argument_that_cannot_be_printed_costs_no_run():
    """The parameters say why they are not there."""
    scored = ef.run_experiment(ROWS, evaluators=[Holding(Unprintable())])

    assert "RuntimeError" in scored.evals.explain("holding")["parameters"]
