"""What models were asked and what it cost, in total, for each judge and the task."""

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import error, label, reply

ROWS = [{"output": text} for text in ("a", "a", "b", None)]
COUNTED = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
}
COLUMNS = {
    "evaluator": "string",
    **dict.fromkeys(("cells", "calls", "cached", "shared", "reasked"), "int64[pyarrow]"),
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), "int64[pyarrow]"),
    "cost": "double[pyarrow]",
    "models": "string",
}


def judge_of(server, name="j", **options):
    """A judge that asks the server."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0, **options)
    return ef.LLMJudge(name, model=model, prompt="{{ item.output }}", choices=["yes", "no"])


def usage_of(evaluators, rows=ROWS, **options):
    """One dict per judge."""
    scored = ef.run_experiment(rows, evaluators=evaluators, **options)
    return scored.evals.usage().set_index("evaluator").to_dict("index")


def test_each_judge_has_a_row(serve):
    """Rows are cells, requests are calls: equal ones are asked once, a skipped cell not at all."""
    server = serve(label("yes", explanation="e", usage=COUNTED))
    found = usage_of([judge_of(server), judge_of(server, "other", structured="json_object")])

    assert found["j"] == found["other"]
    del found["j"]["cost"]
    assert found["j"] == {
        "cells": 3,
        "calls": 2,
        "cached": 0,
        "shared": 1,
        "reasked": 0,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "cached_tokens": 80,
        "models": "m",
    }
    assert server.calls == 4


def test_a_question_two_judges_share_is_counted_once(serve):
    """For the one that asked it first."""
    server = serve(label("yes", explanation="e"))
    found = usage_of([judge_of(server), judge_of(server, "twin")])

    assert found["j"]["calls"] + found["twin"]["calls"] == server.calls == 2
    assert found["j"]["shared"] + found["twin"]["shared"] == 4


def test_the_second_run_is_free(serve, tmp_path):
    """What came from the cache is counted as such, and costs nothing."""
    server = serve(label("yes", explanation="e", usage=COUNTED))
    judge, cache = judge_of(server, price={"input": 1.0}), tmp_path / "replies.sqlite"
    usage_of([judge], cache=cache)
    found = usage_of([judge], cache=cache)["j"]

    assert server.calls == 2
    assert (found["cells"], found["cached"], found["calls"], found["shared"]) == (3, 3, 0, 0)
    assert (found["prompt_tokens"], found["models"]) == (0, "m")
    assert pd.isna(found["cost"]) or found["cost"] == 0


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        pytest.param({"input": 1.0, "output": 2.0}, 2 * (100 + 20), id="plain"),
        pytest.param(
            {"input": 1.0, "cached_input": 0.5, "output": 2.0}, 2 * (60 + 20 + 20), id="cached"
        ),
        pytest.param({"input": 0, "output": 1}, 2 * 10, id="output-only"),
    ],
)
def test_cost_is_by_the_given_price(serve, price, cost):
    """Dollars per million tokens, cached ones apart."""
    server = serve(label("yes", explanation="e", usage=COUNTED))

    assert usage_of([judge_of(server, price=price)])["j"]["cost"] == pytest.approx(cost / 1e6)


def test_cost_is_missing_without_a_price(serve):
    """No list of prices is guessed from."""
    assert pd.isna(usage_of([judge_of(serve(label("yes", explanation="e")))])["j"]["cost"])


def test_an_answer_that_is_no_verdict_has_cost_too(serve):
    """And the asking again is counted."""
    server = serve(reply("{", usage=COUNTED))
    found = usage_of([judge_of(server)])["j"]

    assert (found["calls"], found["reasked"], found["prompt_tokens"]) == (4, 2, 400)


def test_a_request_without_an_answer_is_no_call(serve):
    """It cost nothing."""
    found = usage_of([judge_of(serve(error(400, "No.")))])["j"]

    assert (found["cells"], found["calls"], found["shared"], found["prompt_tokens"]) == (3, 0, 1, 0)


def test_all_models_that_answered_are_named(serve):
    """By the server's word, which may be another than was asked for."""
    first, second = (label("yes", explanation="e") for _ in range(2))
    answers = [first.body | {"model": "m-2024"}, second.body | {"model": "m-2025"}]
    server = serve([type(first)(body=body) for body in answers])

    assert usage_of([judge_of(server)])["j"]["models"] == "m-2024, m-2025"


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pd.DataFrame({"a": [1]}), id="no-run"),
        pytest.param(
            ef.run_experiment([{"output": "a"}], evaluators=[ef.OneOf(["a"])]), id="no-judge"
        ),
    ],
)
def test_a_frame_without_judges_has_no_rows(frame):
    """But all columns, of the same types."""
    found = ef.usage(frame)

    assert len(found) == 0
    assert {name: str(kind) for name, kind in found.dtypes.items()} == COLUMNS


def test_types_are_the_same_with_rows(serve):
    """As without."""
    scored = ef.run_experiment(ROWS, evaluators=[judge_of(serve(label("yes", explanation="e")))])

    assert {name: str(kind) for name, kind in scored.evals.usage().dtypes.items()} == COLUMNS


def test_usage_survives_a_file_and_a_filter(serve, tmp_path):
    """It is remembered with the frame."""
    scored = ef.run_experiment(ROWS, evaluators=[judge_of(serve(label("yes", explanation="e")))])
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    for frame in (ef.read_parquet(tmp_path / "scored.parquet"), scored.iloc[:1]):
        pd.testing.assert_frame_equal(ef.usage(frame), ef.usage(scored))


def test_an_earlier_judges_usage_stays_until_it_runs_again(serve):
    """As its results do."""
    server = serve(label("yes", explanation="e"))
    first = ef.run_experiment(ROWS, evaluators=[judge_of(server)])
    both = ef.run_experiment(first, evaluators=[judge_of(server, "k")])
    again = ef.run_experiment(both.iloc[:1], evaluators=[judge_of(server)], overwrite=True)

    cells = [
        frame.evals.usage().set_index("evaluator")["cells"].to_dict() for frame in (both, again)
    ]
    assert cells == [{"j": 3, "k": 3}, {"j": 1, "k": 3}]
