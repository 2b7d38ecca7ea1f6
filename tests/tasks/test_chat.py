"""A ChatTask makes the output of a row with a model, on the stack of judges."""

import pickle

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import (
    content_filter,
    error,
    garbage,
    label,
    obedient,
    refusal,
    reply,
    truncated,
)

ROWS = [{"input": "a"}, {"input": "b"}]
TEXT = pd.StringDtype("pyarrow")


def task_of(server, prompt="{{ item.input }}", *, max_retries=0, price=None, **options):
    """A task that asks the server."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=max_retries, price=price)
    return ef.ChatTask(model, prompt, **options)


def echo(request):
    """The prompt, and how often it came."""
    return reply(f"{request.prompt}{request.occurrence}")


def test_the_reply_is_the_output(serve):
    """One row, one request, one output, in the order of the rows."""
    server = serve(echo)
    scored = ef.run_experiment(ROWS, task_of(server))

    assert scored["output"].tolist() == ["a1", "b1"]
    assert scored["task.error"].isna().all()
    assert scored.dtypes[["output", "task.error"]].tolist() == [TEXT, TEXT]
    assert sorted(request.prompt for request in server.requests) == ["a", "b"]


def test_the_request_is_the_prompt_and_no_more(serve):
    """With a system prompt, a list of messages, and further fields, where given."""
    server = serve(echo)
    ef.run_experiment(ROWS[:1], task_of(server))
    ef.run_experiment(
        ROWS[:1],
        task_of(
            server,
            [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "{{ item.input }}"},
            ],
            system_prompt="Be {{ item.input }}.",
            inference_args={"temperature": 0},
        ),
    )

    plain, full = (request.body for request in server.requests)
    assert plain == {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    assert full["temperature"] == 0
    assert [(m["role"], m["content"]) for m in full["messages"]] == [
        ("system", "Be a."),
        ("user", "Hi"),
        ("assistant", "a"),
    ]


FAILURES = [
    pytest.param(refusal("I will not."), "refusal: I will not.", id="refusal"),
    pytest.param(content_filter("par"), "content_filter: ", id="content_filter"),
    pytest.param(truncated("par"), "truncated: ", id="truncated"),
    pytest.param(error(500, "Boom."), "server_error: HTTP 500: Boom.", id="server_error"),
    pytest.param(error(400, "No."), "bad_request: HTTP 400: No.", id="bad_request"),
    pytest.param(error(401, "Who?"), "auth: HTTP 401: Who?", id="auth"),
    pytest.param(
        error(429, "Pay.", code="insufficient_quota"), "quota: HTTP 429: Pay.", id="quota"
    ),
    pytest.param(garbage(), "server_error: the server answered what is no chat", id="garbage"),
]


@pytest.mark.parametrize(("answer", "expected"), FAILURES)
def test_a_failed_call_is_a_failed_task_of_its_kind(serve, answer, expected):
    """Its row has no output and no cells; the other rows are as they would have been."""
    server = serve(lambda request: answer if request.prompt == "a" else reply("fine"))

    def same(output):
        return output == "fine"

    scored = ef.run_experiment(ROWS, task_of(server), [same])

    assert scored["task.error"][0].startswith(expected)
    assert pd.isna(scored["output"][0])
    assert scored["eval.same.error"][0] == "task_failed: not run, the task failed"
    assert scored["eval.same.label"][1] == "True"
    assert server.calls == 2
    assert scored.evals.failures()["kind"].tolist() == [expected.partition(":")[0]]


def test_a_failed_call_is_what_errors_raise_gives(serve):
    """With the frame so far on it."""
    server = serve(error(400, "No such model."))

    with pytest.raises(Exception, match="HTTP 400: No such model") as caught:
        ef.run_experiment(ROWS[:1], task_of(server), errors="raise")

    assert caught.value.partial["task.error"][0].startswith("bad_request: ")


def test_a_field_that_is_null_or_not_there_fails_the_row(serve):
    """Without a request: the row could not be asked as it was meant."""
    server = serve(echo)
    rows = [{"input": None, "m": {"k": 1}}, {"input": "b", "m": {}}, {"input": "c", "m": {"k": 2}}]
    scored = ef.run_experiment(rows, task_of(server, "{{ item.input }}{{ item.m.k }}"))

    assert scored["task.error"].tolist()[:2] == [
        "template: input is null",
        "template: item.m.k: 'k' is not there; there is nothing",
    ]
    assert scored["output"][2] == "c21"
    assert server.calls == 1


def test_equal_rows_are_asked_apart(serve):
    """Their outputs are independent samples, each from a request of its own."""
    server = serve(echo)
    scored = ef.run_experiment([{"input": "a"}] * 3, task_of(server))

    assert sorted(scored["output"]) == ["a1", "a2", "a3"]
    assert server.calls == 3


def test_every_repetition_has_requests_of_its_own(serve):
    """Equal rows in them too."""
    server = serve(echo)
    scored = ef.run_experiment([{"input": "a"}] * 2, task_of(server), repetitions=2)

    assert sorted(scored["output"]) == ["a1", "a2", "a3", "a4"]
    assert scored["repetition"].tolist() == [1, 2, 1, 2]


def test_the_cache_keeps_as_many_answers_as_there_were(serve, tmp_path):
    """A later run gives equal rows the same different outputs, and asks only for more of them."""
    server = serve(echo)
    task, cache = task_of(server), tmp_path / "replies.sqlite"
    first = ef.run_experiment([{"input": "a"}] * 2, task, cache=cache, concurrency=1)
    second = ef.run_experiment([{"input": "a"}] * 3, task, cache=cache)
    other = ef.run_experiment([{"input": "a"}], task, cache=cache, repetitions=2)

    assert sorted(first["output"]) == ["a1", "a2"]
    assert sorted(second["output"]) == ["a1", "a2", "a3"]
    assert sorted(other["output"]) == ["a1", "a4"]
    assert server.calls == 4


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal("No."), id="refusal"),
        pytest.param(truncated(), id="truncated"),
        pytest.param(content_filter(), id="filtered"),
        pytest.param(error(400), id="error"),
    ],
)
def test_no_failure_is_ever_cached(serve, tmp_path, answer):
    """The next run asks again."""
    server = serve([answer, reply("fine")])
    task, cache = task_of(server), tmp_path / "replies.sqlite"
    failed = ef.run_experiment(ROWS[:1], task, cache=cache)
    again = ef.run_experiment(ROWS[:1], task, cache=cache)

    assert failed["output"].isna().all()
    assert again["output"].tolist() == ["fine"]


def test_an_output_is_text_whatever_it_looks_like(serve):
    """JSON in it stays text; an empty reply is an empty output."""
    server = serve([reply('{"a": 1}'), reply("")])
    scored = ef.run_experiment(ROWS, task_of(server), concurrency=1)

    assert scored["output"].tolist() == ['{"a": 1}', ""]


def test_a_judge_reads_the_output_of_the_task(serve):
    """Both on the same server, in one run, each counted for itself."""

    def script(request):
        return label("yes", explanation=request.prompt) if request.schema else echo(request)

    server = serve(script)
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="<{{ item.output }}>", choices=["yes", "no"])
    scored = ef.run_experiment(ROWS, task_of(server), [judge])

    assert scored["eval.j.explanation"].tolist() == ["<a1>", "<b1>"]
    usage = scored.evals.usage().set_index("evaluator")
    assert usage["calls"].to_dict() == {"<task>": 2, "j": 2}


def test_what_the_task_has_cost_is_in_usage(serve):
    """Under its own name."""
    server = serve(reply("x", usage={"prompt_tokens": 10, "completion_tokens": 5}))
    task = task_of(server, price={"input": 1, "output": 2})
    (usage,) = ef.run_experiment(ROWS, task).evals.usage().to_dict("records")

    assert usage["evaluator"] == "<task>"
    assert (usage["calls"], usage["prompt_tokens"], usage["models"]) == (2, 20, "m")
    assert usage["cost"] == pytest.approx(40e-6)


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "message"),
    [
        pytest.param((5, "x"), {}, TypeError, r"or an ef\.Model, not 5", id="model"),
        pytest.param(("gpt", "x"), {}, ValueError, "'<provider>/<model>'", id="model-name"),
        pytest.param(("a/b", None), {}, ValueError, "A prompt is text, or a list", id="prompt"),
        pytest.param(("a/b", "{{ x }}"), {}, ValueError, r"Write {{ item\.x }}", id="field"),
        pytest.param(
            ("a/b", "x"),
            {"inference_args": {"stream": True}},
            ValueError,
            "the task itself sets 'stream'",
            id="own-arguments",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_when_it_is_built(arguments, options, kind, message):
    """With the way out."""
    with pytest.raises(kind, match=message):
        ef.ChatTask(*arguments, **options)


def test_a_field_that_binds_to_nothing_is_found_before_the_run(serve):
    """So is a key that is missing; nothing is sent."""
    server = serve(echo)

    with pytest.raises(ef.ExperimentError, match="field 'quest' binds to nothing"):
        ef.run_experiment([{"input": "a", "question": "b"}], task_of(server, "{{ item.quest }}"))

    assert server.calls == 0


def test_a_missing_key_is_found_before_the_run(monkeypatch):
    """With the variable's name."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ef.ExperimentError, match="set the environment variable OPENAI_API_KEY"):
        ef.run_experiment(ROWS, ef.ChatTask("openai/x", "{{ item.input }}"))


def test_a_whole_row_can_be_printed(serve):
    """As JSON, without result columns."""
    server = serve(obedient)
    ef.run_experiment([{"input": "a", "n": 1}], task_of(server, "{{ item }}"))

    assert server.requests[0].prompt == '{"input": "a", "n": 1}'


def test_it_says_what_it_is():
    """Its name is the model's unless one is given."""
    task = ef.ChatTask("openai/x", "{{ item.input }}")

    assert repr(task) == "ChatTask('openai/x')"
    assert task.name == "openai/x"
    assert ef.ChatTask("openai/x", "{{ item.input }}", name="n", version="2").version == "2"


def test_it_pickles():
    """By what it was made of."""
    task = pickle.loads(pickle.dumps(ef.ChatTask("openai/x", "{{ item.input }}", name="n")))

    assert (task.name, task.model) == ("n", ef.Model("openai/x"))
