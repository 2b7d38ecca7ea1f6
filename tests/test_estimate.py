"""What a run will cost: held against what the run then asks, by the server's own count."""

import asyncio

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.testing import embeddings, error, label, reply

PRICE = {"input": 2.0, "output": 8.0}
COLUMNS = [
    *("evaluator", "model", "rows", "cells", "done", "unique", "cached", "requests"),
    *("prompt_tokens", "completion_tokens", "cost", "minutes", "basis"),
]
BY_LENGTH = "length of the prompts; replies not counted"
YES = label("yes", usage={"prompt_tokens": 50, "completion_tokens": 5})


def model_of(server, name="local/m", **options):
    """A model behind the server."""
    return ef.Model(name, **{"base_url": server.base_url, "max_retries": 0, **options})


def judge_of(server, name="j", *, prompt="Is it so? {{ item.output }}", run_if=None, **options):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        name,
        model=model_of(server, **options),
        prompt=prompt,
        choices={"yes": 1.0, "no": 0.0},
        explanation=False,
        run_if=run_if,
    )


def outputs(*texts):
    """Rows with these outputs."""
    return pd.DataFrame({"output": pd.Series(texts, dtype="string")})


def row(costs, name="j"):
    """A row of the estimate as a dict, with None for NA."""
    table = pa.table({column: pa.array(costs[column]) for column in costs})
    return next(found for found in table.to_pylist() if found["evaluator"] == name)


def counts(costs, name="j"):
    """Cells, unique, cached, requests."""
    return [row(costs, name)[column] for column in ("cells", "unique", "cached", "requests")]


def test_nothing_is_sent_without_a_probe(serve):
    """The columns and their types are there, and the server was not asked."""
    server = serve(YES)
    costs = ef.estimate(outputs("a", "b"), evaluators=[judge_of(server)])

    assert server.calls == 0
    assert costs.columns.tolist() == COLUMNS
    assert costs["evaluator"].tolist() == ["j", "<total>"]
    assert [str(kind) for kind in costs.dtypes] == [
        *("string",) * 2,
        *("int64[pyarrow]",) * 8,
        *("double[pyarrow]",) * 2,
        "string",
    ]
    assert row(costs)["basis"] == BY_LENGTH


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from(["a", "b", "long enough", None]), min_size=1, max_size=12),
    repetitions=st.integers(1, 3),
    first=st.integers(0, 4),
)
def test_a_run_sends_as_many_requests_as_estimated(
    serve, tmp_path_factory, texts, repetitions, first
):
    """With equal, null and left-out rows, repetitions, two judges alike, and a cache."""
    server = serve(YES)
    cache = tmp_path_factory.mktemp("replies") / "replies.sqlite"
    judges = [
        judge_of(server),
        judge_of(server, "again"),
        judge_of(server, "long", run_if="item.output | length > 3"),
    ]
    data = outputs(*texts)
    if first:
        ef.run_experiment(data.head(first), evaluators=judges, cache=cache)
    server.reset()
    costs = ef.estimate(data, evaluators=judges, repetitions=repetitions, cache=cache)
    ef.run_experiment(data, evaluators=judges, repetitions=repetitions, cache=cache)

    assert server.calls == row(costs, "<total>")["requests"]


def test_what_is_asked_shared_and_cached_is_told_apart(serve, tmp_path):
    """A null is not asked about; equal rows are one question; known ones are free."""
    server, cache = serve(YES), tmp_path / "replies.sqlite"
    ef.run_experiment(outputs("a"), evaluators=[judge_of(server)], cache=cache)
    costs = ef.estimate(outputs("a", "b", "b", None), evaluators=[judge_of(server)], cache=cache)

    assert counts(costs) == [3, 2, 1, 1]
    assert row(costs)["rows"] == 4


def test_a_question_that_two_judges_ask_is_counted_once(serve):
    """At the first of them, as in a run."""
    server = serve(YES)
    costs = ef.estimate(outputs("a"), evaluators=[judge_of(server), judge_of(server, "k")])

    assert counts(costs) == [1, 1, 0, 1]
    assert counts(costs, "k") == [1, 0, 0, 0]
    assert counts(costs, "<total>") == [2, 1, 0, 1]


def test_equal_rows_of_a_task_are_asked_apart(serve):
    """Each output is a sample of its own; judges that need it cannot be estimated yet."""
    server = serve(reply("x"))
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    data = pd.DataFrame({"input": ["a", "a", "b"]})
    costs = ef.estimate(data, task, [judge_of(server)])

    assert counts(costs, "<task>") == [3, 3, 0, 3]
    assert counts(costs) == counts(costs, "<total>") == [None] * 4
    assert row(costs)["basis"] == "reads the task's output, which is not there yet"
    assert row(costs, "<total>")["cost"] is None


def test_a_judge_of_the_input_is_estimated_beside_a_task(serve):
    """It does not wait for the output."""
    server = serve(reply("x"))
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    judge = judge_of(server, prompt="{{ item.input }}")
    costs = ef.estimate(pd.DataFrame({"input": ["a", "a"]}), task, [judge])

    assert counts(costs) == [2, 1, 0, 1]


def test_tokens_come_from_the_text_without_a_probe(serve):
    """About a token for four bytes, also where a letter takes three; the cost is the prompts'."""
    server = serve(YES)
    english = ef.estimate(outputs("word" * 1000), evaluators=[judge_of(server, price=PRICE)])
    chinese = ef.estimate(outputs("字" * 1000), evaluators=[judge_of(server, price=PRICE)])

    assert row(english)["prompt_tokens"] == pytest.approx(1000, rel=0.05)
    assert row(chinese)["prompt_tokens"] == pytest.approx(750, rel=0.05)
    assert row(english)["completion_tokens"] is None
    assert row(english)["cost"] == pytest.approx(row(english)["prompt_tokens"] * 2e-6)


def test_a_probe_makes_real_calls_and_goes_by_their_usage(serve):
    """The server counts 50 and 5 tokens a call, whatever the length says."""
    server = serve(YES)
    data = outputs(*(f"text {n:03}" for n in range(100)))
    costs = ef.estimate(data, evaluators=[judge_of(server, price=PRICE)], probe=4)

    assert server.calls == 4
    found = row(costs)
    assert (found["prompt_tokens"], found["completion_tokens"]) == (5000, 500)
    assert found["cost"] == pytest.approx((5000 * 2 + 500 * 8) / 1e6)
    assert found["basis"] == "usage of 4 calls"


def test_long_prompts_count_more_than_those_of_the_probe(serve):
    """What calls have used is scaled by the length of what is yet to be sent."""
    server = serve(
        lambda request: label(
            "yes", usage={"prompt_tokens": 2 * len(request.prompt), "completion_tokens": 1}
        )
    )
    texts = ["x" * (n % 50 + 1) * 20 for n in range(200)]
    data = outputs(*(f"{n:03}{text}" for n, text in enumerate(texts)))
    costs = ef.estimate(data, evaluators=[judge_of(server)], probe=5)
    ef.run_experiment(data, evaluators=[judge_of(server)])
    counted = sum(2 * len(request.prompt) for request in server.requests[5:])

    assert row(costs)["prompt_tokens"] == pytest.approx(counted, rel=0.1)


def test_replies_of_a_probe_are_kept_for_the_run(serve, tmp_path):
    """They are paid for once."""
    server, cache = serve(YES), tmp_path / "replies.sqlite"
    data = outputs(*"abcdef")
    ef.estimate(data, evaluators=[judge_of(server)], probe=2, cache=cache)
    ef.run_experiment(data, evaluators=[judge_of(server)], cache=cache)

    assert server.calls == 6


def test_replies_of_a_probed_task_are_kept_for_the_run(serve, tmp_path):
    """Also where equal rows are asked apart."""
    server, cache = serve(reply("x")), tmp_path / "replies.sqlite"
    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    data = pd.DataFrame({"input": ["a", "a", "a", "b"]})
    ef.estimate(data, task, probe=9, cache=cache)
    probed = server.calls
    ef.run_experiment(data, task, cache=cache)

    assert (probed, server.calls) == (4, 4)


def test_a_probe_that_fails_says_so(serve):
    """And the length of the prompts is what is left to go by."""
    server = serve(error(401, "Bad key."))
    costs = ef.estimate(outputs("a"), evaluators=[judge_of(server)], probe=1)

    assert row(costs)["basis"].startswith(f"{BY_LENGTH}; the probe failed: auth: ")


def test_an_invalid_reply_has_used_tokens_too(serve):
    """It is counted, and asked again by nobody."""
    server = serve(label("maybe", usage={"prompt_tokens": 70, "completion_tokens": 3}))
    costs = ef.estimate(outputs("a"), evaluators=[judge_of(server)], probe=1)

    assert server.calls == 1
    assert row(costs)["prompt_tokens"] == 70


@pytest.mark.parametrize("probe", [0, 1])
def test_a_cache_that_is_not_there_is_made_by_a_probe_only(serve, tmp_path, probe):
    """To ask for a price leaves nothing behind."""
    cache = tmp_path / "replies.sqlite"
    ef.estimate(outputs("a"), evaluators=[judge_of(serve(YES))], probe=probe, cache=cache)

    assert cache.exists() == bool(probe)


@pytest.mark.parametrize(
    ("limits", "minutes"),
    [
        pytest.param({"rpm": 5}, 2.0, id="requests"),
        pytest.param({"tpm": 110}, 5.0, id="tokens"),
        pytest.param({"rpm": 5, "tpm": 110}, 5.0, id="the-stricter"),
        pytest.param({}, None, id="none"),
    ],
)
def test_minutes_are_what_the_limits_ask_for(serve, limits, minutes):
    """Ten requests of 50 and 5 tokens."""
    data = outputs(*(f"text {n}" for n in range(10)))
    costs = ef.estimate(data, evaluators=[judge_of(serve(YES), **limits)], probe=1)

    assert row(costs)["minutes"] == minutes
    assert row(costs, "<total>")["minutes"] == minutes


@pytest.mark.parametrize(
    ("other", "minutes"),
    [pytest.param("local/m", 4.0, id="one"), pytest.param("local/n", 2.0, id="two")],
)
def test_models_at_one_address_share_their_limits(serve, other, minutes):
    """Others are asked at the same time."""
    server = serve(YES)
    second = ef.LLMJudge(
        "k", model=model_of(server, other, rpm=5), prompt="Or {{ item.output }}", choices=["yes"]
    )
    data = outputs(*(f"text {n}" for n in range(10)))
    costs = ef.estimate(data, evaluators=[judge_of(server, rpm=5), second])

    assert row(costs, "<total>")["minutes"] == minutes


def test_a_total_without_every_price_is_none(serve):
    """Half a sum would look like one."""
    server = serve(YES)
    costs = ef.estimate(
        outputs("a"), evaluators=[judge_of(server, price=PRICE), judge_of(server, "k")]
    )

    assert row(costs)["cost"] > 0
    assert row(costs, "<total>")["cost"] is None


def test_evaluators_that_ask_no_model_have_no_row(serve):
    """Code is free, and so is an embedder of the user's own."""
    similar = ef.SemanticSimilarity(lambda texts: [[1.0]] * len(texts))
    data = outputs("a").assign(dataset_output="a")
    costs = ef.estimate(data, evaluators=[ef.ExactMatch(), similar])

    assert costs["evaluator"].tolist() == ["<total>"]
    assert counts(costs, "<total>") == [0, 0, 0, 0]
    assert row(costs, "<total>")["cost"] == 0


def test_what_embedding_takes_is_not_known_and_no_part_of_a_total(serve):
    """A total that left it out would be too low."""
    similar = ef.SemanticSimilarity(model_of(serve(embeddings({}))), name="j")
    data = outputs("a").assign(dataset_output="a")
    costs = ef.estimate(data, evaluators=[judge_of(serve(YES), "k"), similar])

    assert costs["evaluator"].tolist() == ["k", "j", "<total>"]
    assert counts(costs) == counts(costs, "<total>") == [None] * 4
    assert row(costs)["basis"] == "embeds texts, which is not estimated"


def test_judges_that_differ_in_what_they_accept_are_probed_apart(serve, tmp_path):
    """Also where the cache then has the answer to both."""
    server = serve(YES)
    patient = ef.LLMJudge(
        "k",
        model=model_of(server),
        prompt="Is it so? {{ item.output }}",
        choices={"yes": 1.0, "no": 0.0},
        explanation=False,
        invalid_retries=3,
    )
    costs = ef.estimate(
        outputs("a"), [judge_of(server), patient], probe=1, cache=tmp_path / "replies.sqlite"
    )

    assert [row(costs, name)["prompt_tokens"] for name in "jk"] == [50, 50]


def test_evaluators_may_stand_where_the_task_would(serve):
    """The short form."""
    judge = judge_of(serve(YES))

    assert ef.estimate(outputs("a"), [judge]).equals(ef.estimate(outputs("a"), evaluators=[judge]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"probe": -1}, "probe must be a whole number of at least 0", id="probe"),
        pytest.param({"probe": True}, "probe must be a whole number", id="bool"),
        pytest.param({"repetitions": 0}, "repetitions must be a whole", id="repetitions"),
        pytest.param({"output": "nope"}, "Column 'nope'", id="column"),
        pytest.param({"cache": 7}, "cache must be the path", id="cache"),
    ],
)
def test_what_a_run_would_refuse_is_refused(serve, options, message):
    """Before anything is sent."""
    server = serve(YES)
    with pytest.raises((ef.ExperimentError, ef.ColumnNotFoundError), match=message):
        ef.estimate(outputs("a"), evaluators=[judge_of(server)], **options)

    assert server.calls == 0


def test_the_frame_is_not_changed_and_its_rows_may_have_any_index(serve):
    """Also with an index that repeats."""
    data = outputs("a", "b").set_axis([7, 7])
    before = data.copy(deep=True)
    costs = ef.estimate(data, evaluators=[judge_of(serve(YES))])

    pd.testing.assert_frame_equal(data, before)
    assert counts(costs) == [2, 2, 0, 2]


def test_a_probe_works_where_a_loop_is_running(serve):
    """As in a notebook."""

    async def main():
        return ef.estimate(outputs("a"), evaluators=[judge_of(serve(YES))], probe=1)

    assert row(asyncio.run(main()))["prompt_tokens"] == 50
