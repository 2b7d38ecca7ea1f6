"""`only=` and the limits of a run together: what a limit left is made later, at no price twice.

A run that was ended by a budget or a deadline, and then continued, is the undisturbed run: its
frame, and what it has asked of models.
"""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import label, reply

NOT_RUN = "skipped: not run"
BUDGET = "skipped: budget"
DEADLINE = "skipped: deadline"
NO_TIME = 1e-9
# A token costs 1/64 of a dollar, so that sums of costs are exact in any order.
PRICE = {"input": 1e6 / 64, "output": 1e6 / 64}


def answer(request):
    """A verdict to judges, an output to the task; the same to the same request."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    if "response_format" in request.body:
        return label("yes" if "1" in request.prompt else "no", usage=usage)
    return reply(f"out {request.prompt}", usage=usage)


def model_of(server):
    """A model behind the server."""
    return ef.Model("local/m", base_url=server.base_url, max_retries=0, price=PRICE)


def judge_of(server, prompt="{{ item.output }}", name="j"):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        name,
        model=model_of(server),
        prompt=prompt,
        choices={"yes": 1.0, "no": 0.0},
        explanation=False,
    )


def size(output):
    """A score by the output's length."""
    return len(output) / 100


@ef.evaluator(vectorized=True)
def short(output):
    """Whether the output has few letters."""
    return output.str.len() < 8


def with_task(server):
    """Data, task and evaluators of a run whose outputs a model makes."""
    rows = pd.DataFrame({"input": [f"text {n}" for n in range(8)]})
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    return rows, {"task": task, "evaluators": [judge_of(server), size, short]}


def without_task(server):
    """Data and evaluators of a run on outputs that are there."""
    rows = pd.DataFrame({"output": [f"text {n}" for n in range(8)]})
    return rows, {
        "evaluators": [
            judge_of(server),
            size,
            short,
            judge_of(server, "Q: {{ item.output }}", name="k"),
        ]
    }


def errors(scored, name="j"):
    """The error column, None where there is none."""
    return pa.array(scored[f"eval.{name}.error"]).to_pylist()


def usage(scored):
    """What the run has asked of models, by who asked."""
    return json.loads(scored.attrs["evalframe"])["usage"]


def without_times(scored):
    """A frame without what no two runs have in common."""
    return scored.drop(columns=[c for c in scored if str(c).endswith(".latency_s")])


def scored_before(server, *, details=False):
    """Four rows with a judge's results."""
    rows = pd.DataFrame({"output": [f"text {n}" for n in range(4)]})
    return ef.run_experiment(rows, evaluators=[judge_of(server)], details=details)


@pytest.mark.parametrize("details", [False, True], ids=["plain", "details"])
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_requests": 5}, id="max_requests"),
        pytest.param({"max_requests": 11}, id="max_requests-late"),
        pytest.param({"max_cost": 1.25}, id="max_cost"),
        pytest.param({"deadline": NO_TIME}, id="deadline"),
    ],
)
@pytest.mark.parametrize("case", [with_task, without_task])
def test_a_run_that_a_limit_ended_and_only_missing_continued_is_the_undisturbed_run(
    serve, case, limits, details
):
    """Its cells, its fingerprints, its usage; and no question was sent twice."""
    server = serve(answer)
    rows, parts = case(server)
    with pytest.warns(UserWarning, match="were left .*only='missing'"):
        part = ef.run_experiment(rows, details=details, concurrency=2, **limits, **parts)

    whole = ef.run_experiment(part, **parts, only="missing")

    assert server.calls == 16
    undisturbed = ef.run_experiment(rows, details=details, **parts)
    pd.testing.assert_frame_equal(without_times(whole), without_times(undisturbed))
    assert usage(whole) == usage(undisturbed)


def test_fingerprints_of_a_run_in_parts_are_those_of_the_run_as_a_whole(serve):
    """Nothing that a limit left and a later run made is stale."""
    server = serve(answer)
    rows, parts = with_task(server)
    with pytest.warns(UserWarning, match="were left"):
        part = ef.run_experiment(rows, details=True, max_requests=5, **parts)
    whole = ef.run_experiment(part, **parts, only="missing")
    server.reset()

    again = ef.run_experiment(whole, **parts, only="stale")

    assert server.calls == 0
    pd.testing.assert_frame_equal(again, whole)


def test_in_as_many_parts_as_it_takes(serve):
    """Each continuation has a budget of its own."""
    server = serve(answer)
    rows, parts = with_task(server)
    with pytest.warns(UserWarning, match="w(as|ere) left"):
        frame = ef.run_experiment(rows, max_requests=3, **parts)
    for _ in range(4):
        with pytest.warns(UserWarning, match="w(as|ere) left"):
            frame = ef.run_experiment(frame, max_requests=3, only="missing", **parts)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = ef.run_experiment(frame, max_requests=3, only="missing", **parts)

    assert server.calls == 16
    undisturbed = ef.run_experiment(rows, **parts)
    pd.testing.assert_frame_equal(frame, undisturbed)


def test_what_is_left_once_more_says_why_it_was_left_now(serve):
    """The reason is that of the newest run, and the user is told of that one only."""
    server = serve(answer)
    rows, parts = without_task(server)
    with pytest.warns(UserWarning, match="max_requests"):
        part = ef.run_experiment(rows, max_requests=10, concurrency=1, **parts)
    left = [error == BUDGET for error in errors(part)]

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = ef.run_experiment(part, deadline=NO_TIME, only="missing", **parts)

    assert errors(again) == [DEADLINE if was_left else None for was_left in left]
    (note,) = (str(each.message) for each in told)
    assert note.startswith("the deadline= passed: 6 cells were left")


def test_what_an_earlier_run_left_is_no_news(serve):
    """A run that is not to make those cells says nothing of them."""
    server = serve(answer)
    frame = pd.DataFrame({"output": [f"text {n}" for n in range(4)]})
    with pytest.warns(UserWarning, match="were left"):
        part = ef.run_experiment(frame, evaluators=[judge_of(server)], max_requests=2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ef.run_experiment(part, evaluators=[judge_of(server), size], only="failed")

    assert errors(again) == errors(part)
    assert server.calls == 2


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({"max_requests": 1}, id="max_requests"),
        pytest.param({"deadline": NO_TIME}, id="deadline"),
    ],
)
def test_a_verdict_that_was_to_be_made_anew_is_not_lost_to_a_limit(serve, limit):
    """It stays, stale as it is, until another takes its place; the user is told how to go on."""
    server = serve(answer)
    before = scored_before(server, details=True)
    changed = judge_of(server, prompt="Is it: {{ item.output }}")
    stay = 4 - limit.get("max_requests", 0)
    with pytest.warns(UserWarning, match=rf": {stay} cells stayed as before.*only='stale'"):
        part = ef.run_experiment(before, evaluators=[changed], only="stale", concurrency=1, **limit)

    fingerprints = "eval.j.fingerprint"
    same = (part[fingerprints] == before[fingerprints]).to_numpy()
    assert same.sum() == stay
    assert errors(part) == [None] * 4
    pd.testing.assert_frame_equal(part[same], before[same])
    server.reset()

    whole = ef.run_experiment(part, evaluators=[changed], only="stale")

    assert server.calls == stay
    assert not (whole[fingerprints] == before[fingerprints]).any()


def test_failures_that_no_budget_was_left_for_can_be_run_again_as_failures(serve):
    """Else only='failed' would no longer find them."""
    failing = serve(reply("neither"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = scored_before(failing)
    assert all(error.startswith("parse") for error in errors(before))
    server = serve(answer)
    with pytest.warns(UserWarning, match=r": 1 cell stayed as before.*only='failed'"):
        part = ef.run_experiment(
            before, evaluators=[judge_of(server)], only="failed", max_requests=3
        )

    whole = ef.run_experiment(part, evaluators=[judge_of(server)], only="failed")

    assert errors(whole) == [None] * 4
    assert server.calls == 4


def test_a_vectorized_evaluator_that_a_deadline_kept_out_leaves_what_is_there(serve):
    """Its verdicts of before stay in the rows that they are of."""
    rows = pd.DataFrame({"output": ["a", None, "c"]})

    @ef.evaluator(vectorized=True, name="e")
    def fails_on_some(output):
        return [0.5, np.nan, 0.5]

    @ef.evaluator(vectorized=True, name="e")
    def mended(output):
        return [1.0] * len(output)

    before = ef.run_experiment(rows, evaluators=[fails_on_some])
    with pytest.warns(UserWarning, match="1 cell stayed as before"):
        part = ef.run_experiment(before, evaluators=[mended], only="failed", deadline=NO_TIME)

    pd.testing.assert_frame_equal(part, before)
    whole = ef.run_experiment(part, evaluators=[mended], only="failed")
    assert whole["eval.e.score"].tolist() == [0.5, 1.0, 0.5]


def test_rows_whose_output_was_left_have_not_failed_in_a_later_run_without_the_task(serve):
    """A new evaluator leaves them out for the same reason, and that is no news."""
    server = serve(answer)
    rows, parts = with_task(server)
    with pytest.warns(UserWarning, match="were left"):
        part = ef.run_experiment(rows, parts["task"], max_requests=5, concurrency=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = ef.run_experiment(part, evaluators={"new": size}, only="missing")

    assert errors(both, "new") == [None] * 5 + [BUDGET] * 3
    assert both.evals.summary()[["n", "n_task_failed", "n_skipped"]].iloc[0].tolist() == [8, 0, 3]
    whole = ef.run_experiment(both, parts["task"], {"new": size}, only="missing")
    assert errors(whole, "new") == [None] * 8
