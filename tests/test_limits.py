"""Runs with a budget or a deadline: what is sent, what is left, and what the user is told.

What is left is skipped, neither failed nor valid, and every count still adds up.
"""

import asyncio
import json
import threading
import warnings

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import embeddings, error, garbage, hang_up, label, reply, torn

BUDGET = "skipped: budget"
DEADLINE = "skipped: deadline"
PRICE = {"input": 1.0, "output": 1.0}
YES = label("yes", usage={"prompt_tokens": 10, "completion_tokens": 10})


def model_of(server, **options):
    """A model behind the server."""
    return ef.Model("local/m", **{"base_url": server.base_url, "max_retries": 0, **options})


def judge_of(server, name="j", *, invalid_retries=0, **options):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        name,
        model=model_of(server, **options),
        prompt="{{ item.output }}",
        choices={"yes": 1.0, "no": 0.0},
        explanation=False,
        invalid_retries=invalid_retries,
    )


def rows(count, column="output"):
    """Rows that are all different."""
    return pd.DataFrame({column: [f"text {n}" for n in range(count)]})


def echo(request):
    """The prompt as the reply."""
    return reply(request.prompt)


def errors(scored, name="j"):
    """The error column, None where there is none."""
    return pa.array(scored[f"eval.{name}.error"]).to_pylist()


def run_sync(*args, **options):
    """run_experiment, called from plain code."""
    return ef.run_experiment(*args, **options)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


BOTH_WAYS = pytest.mark.parametrize(
    "run", [pytest.param(run_sync, id="sync"), pytest.param(run_awaited, id="awaited")]
)


def left(reason, cells):
    """The warning that so many cells are left."""
    return pytest.warns(UserWarning, match=rf"{reason}.*: {cells} w(as|ere) left .*only='missing'")


@BOTH_WAYS
def test_no_more_requests_are_sent_than_max_requests(serve, run):
    """The rest is skipped, and the user is told once how many cells that is."""
    server = serve(YES)
    with left("max_requests", "7 cells"):
        scored = run(rows(10), evaluators=[judge_of(server)], max_requests=3)

    assert server.calls == 3
    assert sorted(errors(scored), key=str) == [None] * 3 + [BUDGET] * 7
    counts = scored.evals.summary().iloc[0]
    assert counts[["n", "n_valid", "n_failed", "n_task_failed", "n_skipped"]].tolist() == [
        *(10, 3, 0, 0, 7)
    ]


def test_a_budget_that_suffices_is_not_mentioned(serve):
    """Exactly as many requests as are needed leave nothing to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = ef.run_experiment(rows(3), evaluators=[judge_of(serve(YES))], max_requests=3)

    assert errors(scored) == [None] * 3


def test_one_budget_is_for_all_judges_and_the_task(serve):
    """It is the run's, not each evaluator's."""
    server = serve(lambda request: label("yes") if "schema" in str(request.body) else echo(request))
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    with left("max_requests", ".*"):
        ef.run_experiment(
            rows(6, "input"),
            task,
            [judge_of(server), judge_of(server, "k")],
            max_requests=8,
        )

    assert server.calls == 8


def test_requests_that_are_sent_again_count(serve):
    """A cell whose next attempt is not sent any more is left, too: its fate is open."""
    server = serve(error(500, "No.", headers={"Retry-After": "0"}))
    with left("max_requests", "2 cells"):
        scored = ef.run_experiment(
            rows(2), evaluators=[judge_of(server, max_retries=5)], max_requests=4, concurrency=1
        )

    assert server.calls == 4
    assert errors(scored) == [BUDGET] * 2


def test_an_invalid_reply_that_cannot_be_asked_about_again_is_what_the_cell_ended_in(serve):
    """It was paid for, and is there to be read."""
    server = serve(label("maybe"))
    scored = ef.run_experiment(
        rows(1), evaluators=[judge_of(server, invalid_retries=3)], max_requests=2
    )

    assert server.calls == 2
    assert errors(scored)[0].startswith("parse: ")
    assert scored["eval.j.reply"][0] == '{"label": "maybe"}'


def test_answers_from_the_cache_are_free(serve, tmp_path):
    """With the budget at its end they still come; so do other rows' answers."""
    server = serve(YES)
    cache, data = tmp_path / "replies.sqlite", rows(6)
    ef.run_experiment(data.head(4), evaluators=[judge_of(server)], cache=cache)
    both = pd.concat([data, data.tail(1)])
    with left("max_requests", ".* cells?"):
        scored = ef.run_experiment(
            both, evaluators=[judge_of(server)], cache=cache, max_requests=1, concurrency=1
        )

    assert errors(scored) == [*[None] * 5, BUDGET, BUDGET]
    assert server.calls == 5


def test_what_was_not_asked_is_in_no_count_of_the_model(serve):
    """`usage()` tells of cells that were asked."""
    server = serve(YES)
    data = pd.concat([rows(4)] * 2)
    with left("max_requests", "4 cells"):
        scored = ef.run_experiment(data, evaluators=[judge_of(server)], max_requests=2)

    spent = scored.evals.usage().iloc[0]
    assert spent[["cells", "calls", "shared"]].tolist() == [4, 2, 2]


def test_outputs_that_were_not_asked_for_are_in_no_count_of_the_model(serve):
    """As for judges."""
    server = serve(reply("done"))
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    with left("max_requests", "3 task outputs"):
        scored = ef.run_experiment(rows(5, "input"), task, max_requests=2)

    assert scored.evals.usage()[["cells", "calls"]].iloc[0].tolist() == [2, 2]


def test_code_evaluators_run_all_the_same(serve):
    """A budget is for requests."""
    with left("max_requests", "4 cells"):
        scored = ef.run_experiment(
            rows(5),
            evaluators=[judge_of(serve(YES)), ef.evaluator(lambda output: True, name="code")],
            max_requests=1,
        )

    assert scored["eval.code.score"].tolist() == [1.0] * 5


@pytest.mark.parametrize("how", ["record", "raise"])
def test_outputs_that_were_not_made_are_skipped_with_their_cells(serve, how):
    """Nothing has failed, so nothing ends the run and no cell says that the task failed."""
    server = serve(reply("done"))
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    with left("max_requests", "3 cells and 3 task outputs"):
        scored = ef.run_experiment(
            rows(5, "input"),
            task,
            [ef.evaluator(lambda output: True, name="j")],
            max_requests=2,
            errors=how,
        )

    assert scored["task.error"].dropna().tolist() == [BUDGET] * 3
    assert scored["output"].isna().sum() == 3
    assert sorted(errors(scored), key=str) == [None] * 2 + [BUDGET] * 3
    assert scored.evals.summary()["n_skipped"].tolist() == [3]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_no_more_money_is_spent_than_max_cost(serve, concurrency):
    """Calls of one price use it up to the last one that fits."""
    server = serve(YES)
    judge = judge_of(server, price=PRICE)
    with left("max_cost", "45 cells"):
        scored = ef.run_experiment(
            rows(50), evaluators=[judge], max_cost=100e-6, concurrency=concurrency
        )

    assert server.calls == 5
    assert scored.evals.usage()["cost"].tolist() == [pytest.approx(100e-6)]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(error(400), id="400"),
        pytest.param(error(429, headers={"Retry-After": "0.01"}), id="429"),
        pytest.param(error(500), id="500"),
        pytest.param(hang_up(), id="hang-up"),
        pytest.param(torn(), id="torn"),
        pytest.param(garbage(), id="garbage"),
    ],
)
def test_max_cost_is_not_passed_by_more_for_what_failed_first(serve, failure):
    """Until an answer has told what one costs, the server has one request at a time."""
    usage = {"prompt_tokens": 100, "completion_tokens": 0}
    server = serve([*[failure] * 10, *[label("yes", usage=usage, delay=0.1)] * 20])
    judge = judge_of(server, price={"input": 1000.0, "output": 1.0})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scored = ef.run_experiment(rows(30), evaluators=[judge], max_cost=0.1)

    # The first answer uses the money up.
    assert (server.calls, server.most_in_flight) == (11, 1)
    assert scored.evals.usage()["cost"].tolist() == [pytest.approx(0.1)]


def test_a_server_without_counts_ends_a_run_with_max_cost(serve):
    """The user is told why, instead of a limit that does not hold."""
    message = {"role": "assistant", "content": '{"label": "yes"}'}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    server = serve(garbage(json.dumps(body).encode()))
    with (
        pytest.warns(UserWarning, match="local/m counts no tokens"),
        left("max_cost", "2 cells"),
    ):
        ef.run_experiment(rows(3), evaluators=[judge_of(server, price=PRICE)], max_cost=1.0)

    assert server.calls == 1


def test_requests_for_embeddings_count(serve):
    """Texts that are not embedded any more leave their cells."""
    server = serve(embeddings(lambda text: [1.0, float(len(text))]))
    embedder = ef.Embedder(model_of(server), batch_size=2)
    data = rows(6).assign(dataset_output="t")
    with left("max_requests", ".* cells"):
        scored = ef.run_experiment(
            data, evaluators=[ef.SemanticSimilarity(embedder, name="j")], max_requests=2
        )

    assert server.calls == 2
    assert set(errors(scored)) == {None, BUDGET}


PRICES = [
    pytest.param({}, "'input', 'output'", id="none"),
    pytest.param({"price": {"input": 1.0}}, "'output'", id="half"),
]


@pytest.mark.parametrize(("options", "lacking"), PRICES)
def test_max_cost_needs_the_price_of_every_model(serve, options, lacking):
    """Judges and tasks alike, all told at once, before anything is sent."""
    server = serve(YES)
    task = ef.ChatTask(model_of(server, **options), "{{ item.input }}")
    with pytest.raises(ef.ExperimentError, match=f"price of 'local/m' for {lacking}") as caught:
        ef.run_experiment(
            rows(1, "input"),
            task,
            [judge_of(server, **options), judge_of(server, "k", price=PRICE)],
            max_cost=1.0,
        )

    assert [text.split(":")[0] for text in caught.value.problems] == ["The task", "Evaluator 'j'"]
    assert server.calls == 0


def test_embeddings_need_a_price_for_what_is_sent_only(serve):
    """A model that gives vectors is charged for nothing else."""
    data = rows(1).assign(dataset_output="x")
    server = serve(embeddings(lambda text: [1.0, float(len(text))]))
    for price, problem in (({}, "'input' tokens"), ({"input": 1.0}, None)):
        embedder = ef.Embedder(model_of(server, price=price))
        similar = ef.SemanticSimilarity(embedder, name="j")
        if problem:
            with pytest.raises(ef.ExperimentError, match=problem):
                ef.run_experiment(data, evaluators=[similar], max_cost=1.0)
        else:
            assert errors(ef.run_experiment(data, evaluators=[similar], max_cost=1.0)) == [None]


@pytest.mark.parametrize("name", ["max_cost", "deadline", "max_requests"])
@pytest.mark.parametrize("value", [0, -1, True, float("nan"), float("inf"), "1"], ids=repr)
def test_a_limit_that_is_none_is_refused(name, value):
    """Before anything runs, saying what it must be."""
    with pytest.raises(ef.ExperimentError, match=f"{name} must be .*, or None, not"):
        ef.run_experiment(
            rows(1), evaluators=[ef.evaluator(lambda output: True, name="j")], **{name: value}
        )


def waits_from(number):
    """An async evaluator that never ends from the row of this number on."""

    async def evaluator(output):
        if int(output.split()[1]) >= number:
            await asyncio.Event().wait()
        return True

    return ef.evaluator(evaluator, name="j")


@BOTH_WAYS
@pytest.mark.usefixtures("short_grace")
def test_at_the_deadline_nothing_more_begins(run):
    """What has ended stays, calls that do not end are cut off; no exception."""
    with left("deadline", "15 cells"):
        scored = run(rows(20), evaluators=[waits_from(5)], deadline=0.3, concurrency=4)

    assert errors(scored) == [None] * 5 + [DEADLINE] * 15
    assert scored.evals.summary()["n_skipped"].tolist() == [15]


@BOTH_WAYS
def test_calls_in_flight_at_the_deadline_come_into_the_frame(serve, run):
    """They have been paid for; and nothing is sent after it."""
    server = serve(YES, latency=0.5)
    ef.run_experiment(rows(1).iloc[::-1], evaluators=[judge_of(server)])  # imports take a while
    server.reset()
    with left("deadline", "16 cells"):
        scored = run(rows(20), evaluators=[judge_of(server)], deadline=0.25, concurrency=4)

    assert server.calls == 4
    assert errors(scored) == [None] * 4 + [DEADLINE] * 16


@BOTH_WAYS
def test_plain_evaluators_stop_at_the_deadline(run):
    """Between two calls: one that runs is never cut off."""

    def slow(output):
        threading.Event().wait(0.02)
        return bool(output)

    with left("deadline", ".* cells"):
        scored = run(rows(200), evaluators=[ef.evaluator(slow, name="j")], deadline=0.2)

    found = errors(scored)
    done = found.count(None)
    assert 0 < done < 200
    assert found == [None] * done + [DEADLINE] * (200 - done)


@BOTH_WAYS
@pytest.mark.usefixtures("short_grace")
def test_tasks_stop_at_the_deadline(run):
    """Rows without an output say so, and so do their cells."""

    async def task(input):
        if input != "text 0":
            await asyncio.Event().wait()
        return input

    with left("deadline", "4 cells and 4 task outputs"):
        scored = run(
            rows(5, "input"),
            task,
            [ef.evaluator(lambda output: True, name="j")],
            deadline=0.3,
            concurrency=2,
        )

    assert pa.array(scored["task.error"]).to_pylist() == [None] + [DEADLINE] * 4
    assert errors(scored) == [None] + [DEADLINE] * 4


@BOTH_WAYS
@pytest.mark.usefixtures("short_grace")
def test_a_blocked_thread_is_left_behind_at_the_deadline(run):
    """The run ends all the same."""
    released = threading.Event()

    def blocks(output):
        del output
        return released.wait(30)

    try:
        with left("deadline", "3 cells"):
            scored = run(
                rows(3), evaluators=[ef.evaluator(blocks, name="j", threads=1)], deadline=0.1
            )
        assert errors(scored) == [DEADLINE] * 3
    finally:
        released.set()


@BOTH_WAYS
@pytest.mark.usefixtures("short_grace")
def test_vectorized_evaluators_stop_at_the_deadline(run):
    """An awaited one is cut off, and the next does not begin."""
    begun = []

    @ef.evaluator(vectorized=True)
    async def j(output):
        begun.append("j")
        await asyncio.Event().wait()

    @ef.evaluator(vectorized=True)
    def k(output):
        begun.append("k")
        return output.notna()

    with left("deadline", "4 cells"):
        scored = run(rows(2), evaluators=[j, k], deadline=0.2)

    assert begun == ["j"]
    assert errors(scored) == errors(scored, "k") == [DEADLINE] * 2


@BOTH_WAYS
def test_a_deadline_that_is_not_reached_changes_nothing(run):
    """All cells are there, and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = run(rows(3), evaluators=[waits_from(9)], deadline=60, max_cost=1, max_requests=1)

    assert errors(scored) == [None] * 3
