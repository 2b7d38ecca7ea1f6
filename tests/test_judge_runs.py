"""Whole runs with judges: what is asked, how often, and what is left when something goes wrong."""

import asyncio
import contextlib
import gc
import logging
import pickle
import signal
import socket
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import (
    content_filter,
    error,
    garbage,
    hang_up,
    label,
    never,
    obedient,
    refusal,
    reply,
    torn,
    truncated,
)

NOW = {"Retry-After": "0"}


def judge_of(server, name="j", *, model_options=None, **options):
    """A judge that asks the server; what is not given is filled in."""
    options.setdefault("prompt", "{{ item.output }}")
    if "response_format" not in options:
        options.setdefault("choices", {"yes": 1.0, "no": 0.0})
    fields = {"base_url": server.base_url, "max_retries": 0, **(model_options or {})}
    return ef.LLMJudge(name, model=ef.Model("local/m", **fields), **options)


def outputs(*values):
    """Rows with these outputs."""
    return pd.DataFrame({"output": list(values)})


def numbers(count, start=0):
    """Rows whose outputs are different."""
    return outputs(*map(str, range(start, start + count)))


def values(scored, field, name="j"):
    """A column with None for NA."""
    return pa.array(scored[f"eval.{name}.{field}"]).to_pylist()


def kinds(scored, name="j"):
    """The kind of each cell's error, None for a valid one."""
    return [text and text.partition(":")[0] for text in values(scored, "error", name)]


def usage(scored, name="j"):
    """The judge's row of what was spent."""
    return scored.evals.usage().set_index("evaluator").loc[name].to_dict()


def echo(request):
    """A verdict whose explanation is the prompt."""
    return label("yes", explanation=request.prompt)


def counted(request):
    """A verdict whose explanation is the prompt, and how often it came."""
    return label("yes", explanation=f"{request.prompt}{request.occurrence}")


# What is asked, and how often.


def test_equal_questions_are_asked_once(serve):
    """Whichever rows they come from, also at once; rows, requests and calls are told apart."""
    server = serve(lambda request: label("yes", explanation=request.prompt, delay=0.01))
    scored = ef.run_experiment(outputs(*"abacab"), evaluators=[judge_of(server)])

    assert values(scored, "explanation") == list("abacab")
    assert server.calls == 3
    spent = usage(scored)
    assert (spent["cells"], spent["calls"], spent["shared"]) == (6, 3, 3)


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        pytest.param(error(400, "No."), 1, id="error"),
        pytest.param(refusal("No."), 1, id="refusal"),
        pytest.param(reply("{"), 2, id="invalid-is-asked-again"),
        pytest.param(truncated(), 1, id="truncated"),
    ],
)
def test_equal_questions_share_their_failure(serve, answer, calls):
    """A question that failed is not asked once per row."""
    server = serve(answer)
    scored = ef.run_experiment(outputs(*"aaaa"), evaluators=[judge_of(server)])

    assert len(set(values(scored, "error"))) == 1
    assert None not in kinds(scored)
    assert server.calls == calls


def test_judges_that_differ_in_the_request_share_nothing(serve):
    """Another prompt, schema or argument is another question."""
    server = serve(obedient)
    judges = [
        judge_of(server),
        judge_of(server, "plain", explanation=False),
        judge_of(server, "cold", inference_args={"temperature": 0}),
        judge_of(server, "other", prompt="{{ item.output }}!"),
        judge_of(server, "scores", choices={"yes": 0.5, "no": 0.0}),
    ]
    ef.run_experiment(outputs("a"), evaluators=judges)

    assert server.calls == 4  # the last one's scores are no part of the question


def test_every_repetition_has_requests_of_its_own(serve):
    """Equal rows share within a repetition, and never across."""
    server = serve(counted)
    scored = ef.run_experiment(outputs("a", "a"), evaluators=[judge_of(server)], repetitions=3)

    assert sorted(values(scored, "explanation")[:3]) == ["a1", "a2", "a3"]
    assert values(scored, "explanation")[:3] == values(scored, "explanation")[3:]
    assert server.calls == 3


def test_the_cache_answers_in_later_runs(serve, tmp_path):
    """Only new questions are asked; the cells are the same, and say where they come from."""
    server = serve(counted)
    judge, cache = judge_of(server), tmp_path / "replies.sqlite"
    first = ef.run_experiment(outputs(*"ab"), evaluators=[judge], cache=cache, details=True)
    second = ef.run_experiment(outputs(*"abc"), evaluators=[judge], cache=cache, details=True)

    assert values(second, "explanation") == ["a1", "b1", "c1"]
    assert values(second, "explanation")[:2] == values(first, "explanation")
    assert values(first, "from_cache") == [False, False]
    assert values(second, "from_cache") == [True, True, False]
    assert values(second, "prompt_tokens")[:2] == [0, 0]
    assert server.calls == 3
    assert (usage(second)["cached"], usage(second)["calls"]) == (2, 1)


def test_the_cache_knows_what_changes_an_answer(serve, tmp_path):
    """Limits, prices, thresholds and names do not; prompts, arguments and repetitions do."""
    server = serve(counted)
    cache = tmp_path / "replies.sqlite"

    def calls(judge, **options):
        server.reset()
        ef.run_experiment(outputs("a"), evaluators=[judge], cache=cache, **options)
        return server.calls

    same = {"rpm": 60_000, "tpm": 10**9, "price": {"input": 1}, "max_retries": 3, "timeout": 9.0}
    assert calls(judge_of(server)) == 1
    assert calls(judge_of(server, "k", threshold=0.5, model_options=same), concurrency=1) == 0
    assert calls(judge_of(server, choices={"yes": 0.1, "no": 0.2})) == 0
    assert calls(judge_of(server), repetitions=2) == 1
    assert calls(judge_of(server, inference_args={"seed": 1})) == 1
    assert calls(judge_of(server, system_prompt="s")) == 1
    assert calls(judge_of(server, model_options={"structured": "json_object"})) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(error(500, "Boom."), id="server-error"),
        pytest.param(error(400, "No."), id="bad-request"),
        pytest.param(refusal("No."), id="refusal"),
        pytest.param(content_filter(), id="filtered"),
        pytest.param(truncated(), id="truncated"),
        pytest.param(reply("{"), id="invalid"),
        pytest.param(garbage(), id="garbage"),
        pytest.param(hang_up(), id="hung-up"),
    ],
)
def test_what_is_no_verdict_is_never_cached(serve, tmp_path, answer):
    """The next run asks again, and its verdict is then kept."""
    server = serve([answer, label("yes", explanation="e")])
    judge, cache = judge_of(server, invalid_retries=0), tmp_path / "replies.sqlite"
    runs = [ef.run_experiment(outputs("a"), evaluators=[judge], cache=cache) for _ in range(3)]

    assert [values(scored, "label") for scored in runs] == [[None], ["yes"], ["yes"]]
    assert server.calls == 2


def test_the_valid_reply_to_asking_again_is_cached_as_the_first(serve, tmp_path):
    """The same question, whatever was said first."""
    server = serve([reply("{"), label("yes", explanation="e")])
    judge, cache = judge_of(server), tmp_path / "replies.sqlite"
    for _ in range(2):
        scored = ef.run_experiment(outputs("a"), evaluators=[judge], cache=cache)

        assert values(scored, "label") == ["yes"]
    assert server.calls == 2


def test_a_cache_that_cannot_be_used_is_found_before_the_run(serve, tmp_path):
    """And nothing is sent."""
    server = serve(echo)

    with pytest.raises(ef.ExperimentError, match="its folder is not there"):
        ef.run_experiment(
            outputs("a"), evaluators=[judge_of(server)], cache=tmp_path / "none" / "replies"
        )
    assert server.calls == 0


def test_a_dry_run_asks_about_its_rows_only(serve):
    """The first so many."""
    server = serve(echo)
    ef.run_experiment(numbers(20), evaluators=[judge_of(server)], dry_run=2)

    assert sorted(request.prompt for request in server.requests) == ["0", "1"]


def test_concurrency_counts_all_judges_together(serve):
    """Never more requests in flight than were allowed, and as many where there is enough to do."""
    server = serve(lambda request: label("yes", explanation="e", delay=0.01))
    judges = [judge_of(server), judge_of(server, "k", prompt="{{ item.output }}!")]
    ef.run_experiment(numbers(20), evaluators=judges, concurrency=5)

    assert server.most_in_flight == 5


# Rows that are not asked about.


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("item.output | length > 1", id="expression"),
        pytest.param("item.metadata.ask", id="expression-of-a-key"),
        pytest.param(lambda output: len(output) > 1, id="function"),
        pytest.param(lambda metadata: metadata["ask"], id="function-of-a-role"),
        pytest.param(lambda n, output: n > 1 and bool(output), id="function-of-columns"),
    ],
)
def test_run_if_says_which_rows_are_asked_about(serve, condition):
    """The others are skipped, without a request; they are neither failed nor valid."""
    server = serve(echo)
    rows = [
        {"output": "aa", "n": 2, "metadata": {"ask": True}},
        {"output": "b", "n": 1, "metadata": {"ask": False}},
    ]
    scored = ef.run_experiment(rows, evaluators=[judge_of(server, run_if=condition)])

    assert values(scored, "label") == ["yes", None]
    assert values(scored, "error") == [None, "skipped: run_if"]
    assert server.calls == 1
    (summary,) = scored.evals.summary().to_dict("records")
    assert (summary["n_valid"], summary["n_failed"], summary["n_skipped"]) == (1, 0, 1)


def test_run_if_that_raises_fails_its_row(serve):
    """As an evaluator that raises, with the user's own line."""
    server = serve(echo)

    def condition(output):
        return 1 / int(output) > 0

    scored = ef.run_experiment(outputs("0", "1"), evaluators=[judge_of(server, run_if=condition)])

    assert kinds(scored) == ["exception", None]
    assert "ZeroDivisionError: division by zero (test_judge_runs.py:" in values(scored, "error")[0]


def test_run_if_on_a_null_says_so(serve):
    """An expression that works on a null is not about that row."""
    judge = judge_of(serve(echo), prompt="{{ item.n }}", run_if="item.output | length > 0")
    scored = ef.run_experiment([{"output": None, "n": 1}], evaluators=[judge])

    assert values(scored, "error") == ["skipped: output is null"]


def test_run_if_of_unknown_fields_is_found_before_the_run(serve):
    """In an expression and in a function."""
    server = serve(echo)
    judges = [
        judge_of(server, run_if="item.outptu"),
        judge_of(server, "k", run_if=lambda output, outpt: True),
    ]
    with pytest.raises(ef.ExperimentError) as caught:
        ef.run_experiment(outputs("a"), evaluators=judges)

    first, second = caught.value.problems
    assert "'outptu' binds to nothing" in first
    assert "'outpt' binds to nothing" in second
    assert server.calls == 0


def test_a_null_is_never_printed(serve):
    """The row is skipped; a prompt that tests for it renders."""
    server = serve(echo)
    plain = judge_of(server)
    tested = judge_of(server, "k", prompt="{{ item.output or 'nothing' }}")
    scored = ef.run_experiment(outputs("a", None), evaluators=[plain, tested])

    assert values(scored, "error") == [None, "skipped: output is null"]
    assert values(scored, "explanation", "k") == ["a", "nothing"]
    assert sorted({request.prompt for request in server.requests}) == ["a", "nothing"]


# Beside other parts of a run.


def test_a_judge_stands_beside_code_of_every_kind(serve):
    """A row evaluator, a vectorized one, an async one and one in threads."""
    server = serve(echo)

    def exact(output):
        return output == "a"

    @ef.evaluator(vectorized=True)
    def lengths(output):
        return output.str.len() / 10

    async def awaited(output):
        return output

    threaded = ef.evaluator(lambda output: output, name="threaded", threads=2)
    parts = [exact, judge_of(server), lengths, awaited, threaded]
    scored = ef.run_experiment(outputs("a", "bb"), evaluators=parts)

    assert scored.evals.names == ["exact", "j", "lengths", "awaited", "threaded"]
    assert values(scored, "score", "exact") == [1.0, 0.0]
    assert values(scored, "score", "lengths") == [0.1, 0.2]
    for name, field in {"j": "explanation", "awaited": "label", "threaded": "label"}.items():
        assert values(scored, field, name) == ["a", "bb"]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_judge_reads_the_output_of_a_task(serve, way):
    """Row by row as it comes; a row whose task failed is not asked about."""

    def answer(input):
        if input == "bad":
            message = "no"
            raise ValueError(message)
        return input.upper()

    async def answer_async(input):
        return answer(input)

    server = serve(echo)
    task = answer if way == "sync" else answer_async
    rows = [{"input": text} for text in ("a", "bad", "b")]
    scored = ef.run_experiment(rows, task, [judge_of(server)])

    assert values(scored, "explanation") == ["A", None, "B"]
    assert kinds(scored) == [None, "task_failed", None]
    assert server.calls == 2


def test_a_judge_can_read_an_earlier_judges_verdict(serve):
    """By .bind, in a later run."""
    server = serve(echo)
    first = ef.run_experiment(outputs("a"), evaluators=[judge_of(server)])
    second = judge_of(server, "k", prompt="{{ item.verdict }}").bind(verdict="eval.j.label")
    scored = ef.run_experiment(first, evaluators=[second])

    assert values(scored, "explanation", "k") == ["yes"]
    assert scored.evals.names == ["j", "k"]


def test_a_judge_runs_again_with_overwrite(serve):
    """Its columns are made anew, in whatever form they were."""
    server = serve(counted)
    first = ef.run_experiment(outputs("a"), evaluators=[judge_of(server, confidence=True)])
    with pytest.raises(ef.ExperimentError, match="already has results of an evaluator named 'j'"):
        ef.run_experiment(first, evaluators=[judge_of(server)])
    again = ef.run_experiment(first, evaluators=[judge_of(server)], overwrite=True)

    assert values(again, "explanation") == ["a2"]
    assert "eval.j.confidence" not in again


# Where it runs.


def test_it_runs_on_a_running_loop(serve):
    """Awaited there, and also called plainly from it, as in a notebook."""
    judge = judge_of(serve(echo))

    async def both():
        awaited = await ef.arun_experiment(outputs("a"), evaluators=[judge])
        return awaited, ef.run_experiment(outputs("a"), evaluators=[judge])

    awaited, called = asyncio.run(both())

    pd.testing.assert_frame_equal(awaited, called)
    assert values(called, "explanation") == ["a"]


def test_one_judge_runs_on_several_loops(serve):
    """One after the other, and the background loop between them."""
    judge = judge_of(serve(echo))

    def awaited(text):
        return asyncio.run(ef.arun_experiment(outputs(text), evaluators=[judge]))

    frames = [awaited("a"), ef.run_experiment(outputs("b"), evaluators=[judge]), awaited("c")]

    assert [values(frame, "explanation") for frame in frames] == [["a"], ["b"], ["c"]]


def test_runs_at_once_on_one_loop_do_not_mix(serve):
    """Each has its own connections and counts."""
    server = serve(lambda request: label("yes", explanation=request.prompt, delay=0.01))
    judge = judge_of(server)

    async def three():
        runs = [ef.arun_experiment(outputs(text, "same"), evaluators=[judge]) for text in "abc"]
        return await asyncio.gather(*runs)

    frames = asyncio.run(three())

    assert [values(frame, "explanation") for frame in frames] == [[t, "same"] for t in "abc"]
    assert [usage(frame)["calls"] for frame in frames] == [2, 2, 2]


def test_one_judge_runs_in_threads_at_once(serve):
    """The object holds nothing of a run."""
    server = serve(lambda request: label("yes", explanation=request.prompt, delay=0.002))
    judge = judge_of(server)

    def run(start):
        return ef.run_experiment(numbers(10, start), evaluators=[judge], concurrency=3)

    with ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(run, range(0, 80, 10)))

    found = [text for frame in frames for text in values(frame, "explanation")]
    assert found == list(map(str, range(80)))


def test_threads_may_share_a_cache(serve, tmp_path):
    """A file that several runs write at once."""
    server = serve(echo)
    judge, cache = judge_of(server), tmp_path / "replies.sqlite"

    def run(start):
        return ef.run_experiment(numbers(10, start), evaluators=[judge], cache=cache)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(0, 40, 10)))
    server.reset()
    scored = ef.run_experiment(numbers(40), evaluators=[judge], cache=cache)

    assert server.calls == 0
    assert values(scored, "explanation") == list(map(str, range(40)))


def no_connections(server):
    """Whether soon nobody is connected any more."""
    for _ in range(200):
        if server.connections == 0:
            return True
        threading.Event().wait(0.005)
    return False


QUIET = """
import asyncio, gc, logging, sys
import evalframe as ef

# That the machine is busy is no news.
logging.getLogger("asyncio").addFilter(lambda record: "took" not in record.getMessage())

model = ef.Model("local/m", base_url=sys.argv[1])
judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"])
rows = [{"output": str(number)} for number in range(20)]
scored = ef.run_experiment(rows, evaluators=[judge])
awaited = asyncio.run(ef.arun_experiment(rows, evaluators=[judge], timeout=5))
del judge
gc.collect()
print(int(scored["eval.j.label"].notna().sum() + awaited["eval.j.label"].notna().sum()))
"""


def test_nothing_is_left_open(serve):
    """No connection, and no warning of a resource, also in development mode."""
    server = serve(obedient)
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", QUIET, server.base_url],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.stdout.strip(), ended.stderr) == ("40", "")
    assert no_connections(server)


@pytest.mark.parametrize("end", ["done", "failed", "raised", "timeout"])
def test_connections_are_closed_however_a_run_ends(serve, end):
    """In this process, whose background loop goes on."""
    script = {"failed": error(400, "No."), "raised": error(400, "No."), "timeout": never()}
    server = serve(script.get(end, label("yes", explanation="e")))
    options = {"timeout": 0.05} if end == "timeout" else {}
    options |= {"errors": "raise"} if end == "raised" else {}
    with contextlib.suppress(ef.CellError):
        ef.run_experiment(numbers(5), evaluators=[judge_of(server)], **options)
    gc.collect()

    assert no_connections(server)


# What goes wrong.


KINDS = [
    pytest.param(error(400, "Bad schema."), "bad_request: HTTP 400: Bad schema.", 1, id="400"),
    pytest.param(error(401, "Who?"), "auth: HTTP 401: Who?", 1, id="401"),
    pytest.param(error(403, "You?"), "auth: HTTP 403: You?", 1, id="403"),
    pytest.param(error(404, "No such model."), "bad_request: HTTP 404: No such", 1, id="404"),
    pytest.param(
        error(429, "Pay.", code="insufficient_quota"), "quota: HTTP 429: Pay.", 1, id="quota"
    ),
    pytest.param(error(408, "Slow.", headers=NOW), "server_error: HTTP 408: Slow.", 2, id="408"),
    pytest.param(error(409, "Busy.", headers=NOW), "server_error: HTTP 409: Busy.", 2, id="409"),
    pytest.param(error(500, "Boom.", headers=NOW), "server_error: HTTP 500: Boom.", 2, id="500"),
    pytest.param(error(503, "", headers=NOW), "server_error: HTTP 503", 2, id="503"),
]


@pytest.mark.parametrize(("answer", "expected", "calls"), KINDS)
def test_errors_of_the_server_are_kinds(serve, answer, expected, calls):
    """What asking again can mend is asked again `max_retries` times, the rest is final at once."""
    server = serve(answer)
    judge = judge_of(server, model_options={"max_retries": 1})
    scored = ef.run_experiment(outputs("a"), evaluators=[judge])

    assert values(scored, "error")[0].startswith(expected)
    assert server.calls == calls


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(garbage(), "server_error", id="garbage"),
        pytest.param(garbage(b"{}"), "server_error", id="other-json"),
        pytest.param(torn(), "connection", id="torn"),
        pytest.param(hang_up(), "connection", id="hung-up"),
    ],
)
def test_broken_answers_are_kinds(serve, answer, kind):
    """And the next row is asked all the same."""
    server = serve([answer, label("yes", explanation="e")])
    scored = ef.run_experiment(outputs("a", "b"), evaluators=[judge_of(server)], concurrency=1)

    assert kinds(scored) == [kind, None]


def test_a_dead_server_is_told_with_its_address():
    """For every row, without ending the run."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    model = ef.Model("local/m", base_url=address, max_retries=0)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"])
    scored = ef.run_experiment(outputs("a", "b"), evaluators=[judge])

    assert kinds(scored) == ["connection"] * 2
    assert address in values(scored, "error")[0]


def test_a_request_that_takes_too_long_is_a_timeout(serve):
    """By the model's own limit, for one request."""
    server = serve(never())
    scored = ef.run_experiment(
        outputs("a"), evaluators=[judge_of(server, model_options={"timeout": 0.1})]
    )

    assert values(scored, "error") == ["timeout: the server gave no answer within 0.1 s"]


def test_passing_errors_are_mended_by_asking_again(serve):
    """The cell is as if nothing had happened."""
    server = serve(
        [error(500, headers=NOW), error(503, headers={"retry-after-ms": "1"}), label("yes")]
    )
    judge = judge_of(server, model_options={"max_retries": 2}, explanation=False)
    scored = ef.run_experiment(outputs("a"), evaluators=[judge])

    assert kinds(scored) == [None]
    assert server.calls == 3


def test_a_refusal_for_the_rate_uses_up_no_attempt(serve):
    """However many there are, the server is waited for."""
    refused = error(429, "Slow down.", headers={"retry-after-ms": "5"})
    server = serve([refused, refused, refused, label("yes", explanation="e")])
    scored = ef.run_experiment(outputs("a"), evaluators=[judge_of(server)])

    assert kinds(scored) == [None]
    assert server.calls == 4


def test_waiting_for_a_rate_limit_is_in_no_timeout(serve):
    """A cell's time is from getting a slot, without what the server made it wait."""
    seen = []

    def script(request):
        seen.append(request.prompt)
        if len(seen) == 1:
            return error(429, "Slow down.", headers={"retry-after-ms": "700"})
        return label("yes", explanation="e")

    server = serve(script)
    scored = ef.run_experiment(numbers(4), evaluators=[judge_of(server)], timeout=0.5)

    assert kinds(scored) == [None] * 4


def test_a_refusal_holds_all_judges_of_the_model(serve):
    """Nothing is sent to it until the server is ready again."""

    def script(request):
        if request.prompt == "a" and request.occurrence == 1:
            return error(429, "Slow down.", headers={"retry-after-ms": "150"})
        return label("yes", explanation="e", delay=0.05)

    server = serve(script)
    judges = [judge_of(server), judge_of(server, "k", prompt="{{ item.output }}!")]
    ef.run_experiment(outputs("a", "b", "c"), evaluators=judges, concurrency=2)

    first = server.requests[0].time
    later = [request.time - first for request in server.requests[2:]]
    assert min(later) >= 0.14


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param([{"rpm": 1200}, {"rpm": 1200}], id="same"),
        pytest.param([{"rpm": 1200}, {}], id="first-only"),
        pytest.param([{}, {"rpm": 1200}], id="second-only"),
        pytest.param([{"rpm": 60_000}, {"rpm": 1200}], id="the-lower-one"),
        pytest.param([{"rpm": 1200, "price": {"input": 1}}, {"rpm": 1200}], id="other-options"),
    ],
)
def test_judges_of_one_model_share_its_limit(serve, limits):
    """Twenty requests a second, of which a second's worth may come at once."""
    server = serve(obedient)
    judges = [
        judge_of(server, name, prompt=f"{name} {{{{ item.output }}}}", model_options=options)
        for name, options in zip("jk", limits, strict=True)
    ]
    ef.run_experiment(numbers(14), evaluators=judges, concurrency=64)

    times = [request.time for request in server.requests]
    assert len(times) == 28
    assert max(times) - min(times) >= 0.25


def test_tokens_per_minute_are_kept_to(serve):
    """By the server's count."""
    usage = {"prompt_tokens": 500, "completion_tokens": 500}
    server = serve(label("yes", explanation="e", usage=usage))
    judge = judge_of(server, model_options={"tpm": 300_000})
    ef.run_experiment(numbers(8), evaluators=[judge], concurrency=1)

    times = [request.time for request in server.requests]
    assert max(times) - min(times) >= 0.35


def test_errors_raise_ends_the_run_at_the_first_failure(serve):
    """With what is finished; no further request is made."""

    def script(request):
        return reply("{") if request.prompt == "2" else echo(request)

    server = serve(script)
    with pytest.raises(ef.CellError, match="Evaluator 'j', row 2: parse: the reply is") as caught:
        ef.run_experiment(numbers(10), evaluators=[judge_of(server)], errors="raise", concurrency=1)

    frame = caught.value.partial
    assert values(frame, "explanation")[:2] == ["0", "1"]
    assert kinds(frame) == [None, None, "parse", *["skipped"] * 7]
    assert server.calls == 4


def test_errors_raise_is_not_for_rows_that_are_skipped(serve):
    """They are no failures."""
    scored = ef.run_experiment(
        outputs("a", None), evaluators=[judge_of(serve(echo))], errors="raise"
    )

    assert kinds(scored) == [None, "skipped"]


@pytest.mark.usefixtures("short_grace")
def test_an_interrupt_keeps_what_was_paid_for(serve, tmp_path):
    """In the frame, in what was spent, and in the cache, where the next run goes on."""
    interrupted = []

    def script(request):
        if request.prompt == "5" and not interrupted:
            interrupted.append(request)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return never()
        return echo(request)

    server = serve(script)
    judge, cache = judge_of(server), tmp_path / "replies.sqlite"
    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(numbers(8), evaluators=[judge], concurrency=1, cache=cache)

    frame = caught.value.partial
    assert values(frame, "explanation") == [*map(str, range(5)), None, None, None]
    assert values(frame, "error")[5:] == ["skipped: not run"] * 3
    assert usage(frame)["calls"] == 5
    server.reset()
    rest = ef.run_experiment(numbers(8), evaluators=[judge], cache=cache)
    assert kinds(rest) == [None] * 8
    assert server.calls == 3


def test_a_cancelled_run_keeps_what_was_paid_for(serve):
    """Under `arun_experiment` too."""
    here = {}

    def script(request):
        if request.prompt == "3":
            here["loop"].call_soon_threadsafe(here["run"].cancel)
            return never()
        return echo(request)

    server = serve(script)

    async def cancelled():
        run = ef.arun_experiment(numbers(6), evaluators=[judge_of(server)], concurrency=1)
        here.update(loop=asyncio.get_running_loop(), run=asyncio.ensure_future(run))
        try:
            await here["run"]
        except asyncio.CancelledError as exc:
            return getattr(exc, "partial", ef.last_run())

    frame = asyncio.run(cancelled())

    assert values(frame, "explanation") == ["0", "1", "2", None, None, None]
    assert no_connections(server)


@pytest.mark.parametrize("times", [2, 3])
def test_a_run_cancelled_several_times_leaves_no_connection(serve, times):
    """Also while it waits for a call in a thread, on a loop that goes on."""
    server = serve(obedient)
    entered, released = threading.Event(), threading.Event()

    def blocks(output):
        entered.set()
        released.wait(10)
        return True

    async def main():
        evaluators = [judge_of(server), blocks]
        run = asyncio.ensure_future(ef.arun_experiment(numbers(5), evaluators=evaluators))
        await asyncio.to_thread(entered.wait, 10)
        while server.stats()["outcomes"].get("200", 0) < 5:  # noqa: ASYNC110 - in a thread
            await asyncio.sleep(0.001)
        for _ in range(times):
            run.cancel()
            await asyncio.sleep(0.01)
        await asyncio.wait({run})
        closed = await asyncio.to_thread(no_connections, server)
        released.set()
        return run.cancelled(), closed

    assert asyncio.run(main()) == (True, True)


def test_only_prose_in_place_of_a_constraint_is_reported(serve):
    """Broken JSON, refusals, truncation and errors say nothing of the server's abilities."""
    answers = {
        "a": reply("{"),
        "b": refusal("I will not."),
        "c": truncated("The answer"),
        "d": content_filter("The"),
        "e": error(400, "No."),
        "f": reply(""),
        "g": label("maybe", explanation="e"),
        "h": reply("```json\n{}\n```"),
        "i": reply("YES"),
    }
    server = serve(lambda request: answers[request.prompt])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scored = ef.run_experiment(outputs(*answers), evaluators=[judge_of(server)])

    expected = ["parse", "refusal", "truncated", "content_filter", "bad_request"]
    assert kinds(scored) == [*expected, "parse", "parse", "parse", None]


def test_each_server_that_ignores_constraints_is_reported(serve):
    """Once each, whatever the number of rows and judges."""
    first, second = serve(reply("Well, yes.")), serve(reply("Well, no."))
    judges = [judge_of(first), judge_of(first, "k"), judge_of(second, "l")]
    with pytest.warns(UserWarning, match="seems to ignore the constraint") as caught:
        ef.run_experiment(numbers(3), evaluators=judges)

    told = sorted(str(warning.message).partition(" ")[0] for warning in caught)
    assert told == sorted([first.base_url, second.base_url])


# Keys.

SECRET = "tok_live-0123456789-abcdef"  # noqa: S105 - a key in no known form


@pytest.mark.parametrize("status", [401, 400, 500, 200])
def test_a_key_is_nowhere(serve, tmp_path, monkeypatch, caplog, status):
    """Not in frames, files, messages, logs or pickles, also where the server repeats it."""
    monkeypatch.setenv("MY_JUDGE_KEY", SECRET)
    caplog.set_level(logging.DEBUG)

    def script(request):
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        if status == 200:
            return echo(request)
        return error(status, f"Incorrect API key provided: {SECRET}.", headers=NOW)

    server = serve(script)
    judge = judge_of(server, model_options={"api_key_env": "MY_JUDGE_KEY"})
    cache = tmp_path / "replies.sqlite"
    scored = ef.run_experiment(outputs("a"), evaluators=[judge], cache=cache, details=True)
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    shown = [
        scored.to_csv(),
        repr(scored.attrs),
        scored.evals.failures().to_csv(),
        scored.evals.usage().to_csv(),
        repr(judge) + str(judge.to_config()) + repr(judge.model.endpoint()),
        caplog.text,
        *(path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()),
        pickle.dumps((judge, scored)).decode("latin-1"),
    ]

    assert server.calls == 1
    assert [text for text in shown if SECRET in text or "0123456789" in text] == []


@pytest.mark.parametrize("status", [401, 400, 500])
def test_a_key_is_in_no_exception(serve, monkeypatch, status):
    """Nor in the frame that it carries."""
    monkeypatch.setenv("MY_JUDGE_KEY", SECRET)
    server = serve(error(status, f"Incorrect API key provided: {SECRET}.", headers=NOW))
    judge = judge_of(server, model_options={"api_key_env": "MY_JUDGE_KEY"})

    with pytest.raises(ef.CellError, match=r"Incorrect API key provided: \[key\]") as caught:
        ef.run_experiment(outputs("a"), evaluators=[judge], errors="raise")

    assert SECRET not in repr(caught.value) + caught.value.partial.to_csv()


def test_a_server_without_a_key_is_sent_none_of_another_provider(serve, monkeypatch):
    """A given address gets a provider's key only where `api_key_env` names it."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server = serve(echo)
    model = ef.Model("openai/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"])
    ef.run_experiment(outputs("a"), evaluators=[judge])

    assert SECRET not in repr(dict(server.requests[0].headers))


def test_judges_that_send_the_same_take_the_reply_each_by_its_own_rules(serve):
    """One request for both; what the first one's local check refuses may do for the second."""
    server = serve(reply({"why": "short", "label": "yes"}))

    def schema(**rules):
        properties = {"why": {"type": "string", **rules}, "label": {"type": "string"}}
        return {"type": "object", "properties": properties, "required": ["why", "label"]}

    judges = [
        ef.LLMJudge(
            name,
            model=ef.Model("local/judge", base_url=server.base_url),
            prompt="{{ item.output }}",
            response_format=schema(**rules),
            invalid_retries=0,
        )
        for name, rules in (("strict", {"minLength": 10}), ("lax", {}))
    ]
    scored = ef.run_experiment([{"output": "a"}], evaluators=judges)

    assert server.calls == 1
    assert scored["eval.strict.error"][0].startswith("parse: ")
    assert scored["eval.lax.label"].tolist() == ["yes"]
