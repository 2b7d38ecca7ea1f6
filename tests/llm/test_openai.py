"""Requests over real HTTP, on both transports: what is sent, what comes back, what is said."""

import asyncio
import contextlib
import logging
import socket
import sys
import threading

import pytest

from evalframe import testing
from evalframe.llm.chat import ChatError, ChatReply, ChatRequest, Usage
from evalframe.llm.model import Model
from evalframe.llm.openai import OpenAIClient, hold, retry_after

KEY = "topsecret-0123456789"
BODY = {"messages": [{"role": "user", "content": "Is 1+1 two? é"}], "temperature": 0}


@pytest.fixture(params=[True, False], ids=["aiohttp", "httpx"])
def complete(request):
    """A function: what a server's reply becomes, a ChatReply or the ChatError."""

    def ended(base_url, body=BODY, *, timeout=10.0, times=1, **model):
        described = Model("mine/some-model", base_url=base_url, timeout=timeout, **model)
        endpoint = described.endpoint()

        async def main():
            client = OpenAIClient(endpoint, timeout=timeout, connections=4, aiohttp=request.param)
            try:
                asked = ChatRequest(endpoint, body)
                calls = (client.complete(asked) for _ in range(times))
                return (await asyncio.gather(*calls, return_exceptions=True))[0]
            finally:
                await client.close()

        return asyncio.run(main())

    return ended


@pytest.fixture
def answered(complete):
    """A function: what a scripted reply becomes, and the requests that the server saw."""

    def ended(script, body=BODY, **given):
        with testing.ChatServer(script) as server:
            outcome = complete(server.base_url, body, **given)
        return outcome, server.requests

    return ended


@contextlib.contextmanager
def dripping(*pieces, every):
    """The address of a server that answers with these bytes, one piece after the other."""
    ended = threading.Event()

    def serve():
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
                if ended.wait(every):
                    break

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        ended.set()
        thread.join()


def test_body_is_sent_as_it_is_with_the_models_name(answered):
    """To /chat/completions, as JSON; whatever the body holds is passed on."""
    body = BODY | {"guided_choice": ["é", "\u2028"], "max_tokens": None}

    _, (request,) = answered(testing.reply("yes"), body)

    assert request.path == "/v1/chat/completions"
    assert request.body == {"model": "some-model", **body}


def test_completion_becomes_a_reply(answered):
    """Text, finish reason, counted tokens, model and log probabilities."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    script = testing.reply("yes é", usage=usage, logprobs=[("yes", {"yes": -0.1, "no": -2.5})])

    reply, _ = answered(script)

    tops = [{"token": t, "logprob": p, "bytes": None} for t, p in (("yes", -0.1), ("no", -2.5))]
    token = {"token": "yes", "logprob": -0.1, "bytes": None, "top_logprobs": tops}
    assert reply == ChatReply(
        "yes é",
        finish_reason="stop",
        usage=Usage(9, 4, 8),
        model="some-model",
        logprobs=[token],
    )


@pytest.mark.parametrize(
    ("script", "text", "refusal", "finish_reason"),
    [
        pytest.param(testing.refusal("I will not."), None, "I will not.", "stop", id="refusal"),
        pytest.param(testing.content_filter(), "", None, "content_filter", id="filter"),
        pytest.param(testing.truncated("{"), "{", None, "length", id="truncated"),
        pytest.param(testing.reply(""), "", None, "stop", id="empty"),
    ],
)
def test_every_end_of_a_completion_is_a_reply(answered, script, text, refusal, finish_reason):
    """What it means is for the judge to say."""
    reply, _ = answered(script)

    assert (reply.text, reply.refusal, reply.finish_reason) == (text, refusal, finish_reason)


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        pytest.param({}, Usage(), id="none"),
        pytest.param({"usage": None}, Usage(), id="null"),
        pytest.param({"usage": {"prompt_tokens": "7"}}, Usage(), id="text"),
        pytest.param({"usage": {"prompt_tokens": 7}}, Usage(7), id="half"),
        pytest.param(
            {"usage": {"prompt_tokens": 7, "prompt_tokens_details": []}}, Usage(7), id="list"
        ),
    ],
)
def test_tokens_are_what_the_server_counted_or_none(answered, body, usage):
    """Never a guess."""
    choice = {"message": {"content": "yes"}}
    reply, _ = answered(testing.Reply(body={"choices": [choice], **body}))

    assert reply == ChatReply("yes", usage=usage)


@pytest.mark.parametrize(
    ("script", "kind", "retryable"),
    [
        pytest.param(testing.error(400, "x"), "bad_request", False, id="400"),
        pytest.param(testing.error(401, "x"), "auth", False, id="401"),
        pytest.param(testing.error(402, "x"), "quota", False, id="402"),
        pytest.param(testing.error(403, "x"), "auth", False, id="403"),
        pytest.param(testing.error(404, "x"), "bad_request", False, id="404"),
        pytest.param(testing.error(408, "x"), "server_error", True, id="408"),
        pytest.param(testing.error(409, "x"), "server_error", True, id="409"),
        pytest.param(testing.error(422, "x"), "bad_request", False, id="422"),
        pytest.param(testing.error(429, "x"), "rate_limit", True, id="429"),
        pytest.param(testing.error(500, "x"), "server_error", True, id="500"),
        pytest.param(testing.error(503, "x"), "server_error", True, id="503"),
        pytest.param(testing.error(529, "x"), "server_error", True, id="529"),
        pytest.param(testing.error(429, "x", code="insufficient_quota"), "quota", False, id="code"),
        pytest.param(testing.error(429, "x", kind="insufficient_quota"), "quota", False, id="type"),
        pytest.param(
            testing.error(400, "x", code="billing_hard_limit_reached"), "quota", False, id="billing"
        ),
    ],
)
def test_status_is_a_kind_and_says_whether_to_ask_again(answered, script, kind, retryable):
    """One request each: nothing is retried at this level."""
    error, requests = answered(script)

    assert isinstance(error, ChatError)
    assert (error.kind, error.retryable, str(error), len(requests)) == (
        kind,
        retryable,
        f"HTTP {script.status}: x",
        1,
    )


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        pytest.param("input (901 tokens) is too large to process", "bad_request", id="llama.cpp"),
        pytest.param("the input length exceeds the context length", "bad_request", id="ollama"),
        pytest.param("the model took too long", "server_error", id="time"),
        pytest.param("out of memory", "server_error", id="other"),
    ],
)
def test_text_that_is_too_long_is_no_failure_of_the_server(answered, said, kind):
    """Some say it with status 500; to ask again would only take time."""
    failure, _ = answered(testing.error(500, said))

    assert (failure.kind, failure.retryable) == (kind, kind == "server_error")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "Bad Gateway", id="empty"),
        pytest.param(b"<p>no\n way</p>", "<p>no way</p>", id="html"),
        pytest.param(b'[{"error": {"message": "m"}}]', "m", id="list"),
        pytest.param(b'{"message": "m"}', "m", id="flat"),
        pytest.param(b'{"error": "m"}', '{"error": "m"}', id="text"),
        pytest.param(b'{"detail": "m"}', '{"detail": "m"}', id="other"),
        pytest.param(b"[]", "[]", id="empty-list"),
        pytest.param(b"\xff", "\ufffd", id="bytes"),
    ],
)
def test_error_with_any_body_is_an_error_of_its_status(answered, body, said):
    """Proxies and other servers write what they like."""
    error, _ = answered(testing.Reply(status=502, body=body))

    assert (error.kind, str(error)) == ("server_error", f"HTTP 502: {said}")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="html"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"error": {"message": "overloaded"}}', id="error"),
        pytest.param(b'{"choices": []}', id="no-choice"),
        pytest.param(b'{"choices": [{"message": null}]}', id="no-message"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\xff\xfe\x00", id="bytes"),
    ],
)
def test_success_that_is_no_completion_is_a_server_error(answered, body):
    """It is asked again, and its first letters are shown."""
    error, _ = answered(testing.garbage(body))

    assert (error.kind, error.retryable) == ("server_error", True)
    assert "no chat completion" in str(error)
    assert len(str(error)) < 700


@pytest.mark.parametrize(
    "script", [testing.hang_up(), testing.torn("x" * 1000)], ids=["hang-up", "torn"]
)
def test_connection_that_ends_early_may_be_asked_again(answered, script):
    """It says that it was the connection."""
    error, requests = answered(script)

    assert (error.kind, error.retryable, len(requests)) == ("connection", True, 1)


def test_server_that_is_not_there_is_named(complete):
    """With its address; it may be starting."""
    error = complete("http://127.0.0.1:9/v1")

    assert (error.kind, error.retryable) == ("connection", True)
    assert "http://127.0.0.1:9/v1" in str(error)


def test_server_that_never_answers_is_a_timeout(answered):
    """After the model's own seconds."""
    error, _ = answered(testing.never(), timeout=0.1)

    assert (error.kind, error.retryable) == ("timeout", True)
    assert str(error) == "the server gave no answer within 0.1 s"


def test_server_that_answers_in_drops_is_a_timeout(complete):
    """The seconds are for the request, not for each of its bytes."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"

    with dripping(head, *[b" "] * 100, every=0.05) as base_url:
        error = complete(base_url, timeout=0.3)

    assert error.kind == "timeout"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"Retry-After": "7"}, 7.0, id="seconds"),
        pytest.param({"Retry-After": "0.5"}, 0.5, id="fraction"),
        pytest.param({"retry-after-ms": "250"}, 0.25, id="milliseconds"),
        pytest.param({"retry-after-ms": "250", "Retry-After": "7"}, 0.25, id="both"),
        pytest.param({"retry-after-ms": "soon", "Retry-After": "7"}, 7.0, id="other-is-no-number"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, id="date-gone-by"),
        pytest.param({"Retry-After": "Wed, 99 Oct 2015 07:28:00 GMT"}, None, id="no-date"),
        pytest.param({"Retry-After": "-1"}, None, id="negative"),
        pytest.param({"Retry-After": "inf"}, None, id="infinite"),
        pytest.param({"Retry-After": "nan"}, None, id="nan"),
        pytest.param(
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
            360.0,
            id="reset",
        ),
        pytest.param(
            {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s"},
            None,
            id="not-at-the-end",
        ),
    ],
)
def test_refusal_says_how_long_to_wait(answered, headers, seconds):
    """In any of the ways that servers say it; what cannot be is no word."""
    error, _ = answered(testing.error(429, "slow", headers=headers))

    assert error.retry_after == seconds


def test_server_error_may_say_how_long_to_wait_and_a_final_one_may_not(answered):
    """Nobody waits for what will not change."""
    wait = {"Retry-After": "3"}

    found = [answered(testing.error(s, "x", headers=wait))[0].retry_after for s in (503, 400)]

    assert found == [3.0, None]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("12.5", 12.5),
        ("1.2.3s", 5.3 - 3.0),
        ("2024-01-27T16:58:11Z", 0.0),
        ("", 0.0),
        (".s", 0.0),
    ],
)
def test_duration_of_a_hold_is_read_in_any_spelling(text, seconds):
    """What is no duration holds nothing up, and breaks nothing."""
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": text}

    assert hold(headers) == pytest.approx(seconds, abs=1.0)


def test_hold_is_the_longer_one_of_requests_and_tokens():
    """And none while something is left of both."""
    at_end = {f"x-ratelimit-remaining-{w}": "0" for w in ("requests", "tokens")}
    resets = {"x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "5s"}

    assert hold({**at_end, **resets}) == 5.0
    assert hold({"x-ratelimit-remaining-requests": "1", **resets}) is None


def test_hold_comes_with_the_reply(answered):
    """For the limits to keep to."""
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1500ms"}

    assert answered(testing.reply("yes", headers=headers))[0].hold == 1.5


def test_missing_header_is_no_wait():
    """Also where the numbers are missing altogether."""
    assert retry_after({}) is None
    assert hold({}) is None


def test_key_is_sent_as_a_bearer_token(answered, monkeypatch):
    """Without the line break that a file put behind it."""
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")

    _, (request,) = answered(testing.reply("yes"), api_key_env="SOME_KEY")

    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_no_secret_of_openais_reaches_another_server(answered, monkeypatch):
    """Neither keys nor organisation, nor headers that are meant for it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", f"admin-{KEY}")
    monkeypatch.setenv("OPENAI_ORG_ID", f"org-{KEY}")
    monkeypatch.setenv("OPENAI_PROJECT_ID", f"project-{KEY}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Mine: {KEY}\nAuthorization: Bearer {KEY}")

    _, (request,) = answered(testing.reply("yes"))

    assert KEY not in str(request.headers)


def test_organisation_reaches_the_server_that_openais_key_is_for(answered, monkeypatch):
    """As the client's users expect."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")

    _, (request,) = answered(testing.reply("yes"), api_key_env="OPENAI_API_KEY")

    assert (request.headers["authorization"], request.headers["openai-organization"]) == (
        f"Bearer {KEY}",
        "org-1",
    )


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(testing.error(401, f"Incorrect API key provided: {KEY}."), id="message"),
        pytest.param(testing.error(400, f"a  {KEY}\n b"), id="among-blanks"),
        pytest.param(testing.garbage(f"<html>{KEY}".encode()), id="garbage"),
        pytest.param(testing.Reply(status=500, body=f'["{KEY}"]'.encode()), id="no-object"),
    ],
)
def test_key_is_taken_out_of_what_the_server_says(answered, monkeypatch, script):
    """Errors end up in columns, files and screenshots."""
    monkeypatch.setenv("SOME_KEY", KEY)

    error, _ = answered(script, api_key_env="SOME_KEY")

    assert KEY not in str(error)
    assert "[key]" in str(error)


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcDEF123456",
        "sk-ant-api03-abc_DEF-1",
        "gsk_abcdef123456",
        "xai-abcdef123456",
        "hf_abcdefABCDEF",
        "pplx-abcdef123456",
        "nvapi-abcdef123456",
        "AIzaSyA1234567890abcdefghij",
        "sk-pr****************cdef",
    ],
)
def test_what_looks_like_a_key_is_taken_out_too(answered, key):
    """It may be another one than was sent, such as that of a proxy."""
    error, _ = answered(testing.error(401, f"Incorrect API key provided: {key}. See https://x."))

    assert str(error) == "HTTP 401: Incorrect API key provided: [key]. See https://x."


def test_key_is_in_no_log(answered, monkeypatch, caplog):
    """Of ours, the client's or its transport's, at any level."""
    monkeypatch.setenv("SOME_KEY", KEY)

    with caplog.at_level(logging.DEBUG):
        for script in (testing.reply("yes"), testing.error(500, KEY), testing.hang_up()):
            answered(script, api_key_env="SOME_KEY")

    assert caplog.records
    texts = [
        f"{record.getMessage()} {record.args!r} {record.exc_text}" for record in caplog.records
    ]
    assert not [text for text in texts if KEY in text]


def test_key_is_in_no_traceback(answered, monkeypatch):
    """The client's own exceptions hold the request, so they are not chained."""
    monkeypatch.setenv("SOME_KEY", KEY)

    for script in (testing.error(500, "x"), testing.hang_up(), testing.garbage()):
        error, _ = answered(script, api_key_env="SOME_KEY")
        assert error.__suppress_context__


def test_many_requests_go_out_at_once(answered):
    """More than there may be connections wait for one."""
    reply, requests = answered(testing.reply("yes", delay=0.05), times=8)

    assert (reply.text, len(requests)) == ("yes", 8)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}], ids=["nan", "set"])
def test_body_that_is_no_json_is_no_connection_error(answered, value):
    """It cannot be sent, now or later."""
    error, requests = answered(testing.reply("yes"), BODY | {"seed": value})

    assert (error.kind, error.retryable, requests) == ("bad_request", False, [])


def test_transport_is_aiohttp_where_it_is_installed(monkeypatch):
    """And the client's own where it is not; nothing else differs."""
    endpoint = Model("mine/m", base_url="http://127.0.0.1:9/v1").endpoint()

    async def transport():
        client = OpenAIClient(endpoint, timeout=1.0, connections=1)
        try:
            return type(client._client._client).__name__  # noqa: SLF001 - nothing else shows it
        finally:
            await client.close()

    installed = asyncio.run(transport())
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    missing = asyncio.run(transport())

    assert (installed, missing) == ("_InstalledAioHttpClient", "_DefaultAsyncHttpxClient")


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        pytest.param("http://me:pass@127.0.0.1:{}/v1", ["me:", "pass"], id="password"),
        pytest.param("http://127.0.0.1:{}/v1?key=word", ["key", "word"], id="query"),
    ],
)
def test_secret_in_an_address_is_not_in_a_message(complete, address, secrets):
    """Messages stand in results and files."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    failure = complete(address.format(port))

    assert isinstance(failure, ChatError)
    assert not any(secret in str(failure) for secret in secrets)
