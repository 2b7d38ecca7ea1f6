"""The scripted server over real HTTP: every kind of reply, connections, counts."""

import asyncio
import contextlib
import http.client
import json
import math
import socket
import threading
import time
from urllib.parse import urlsplit

import openai
import pytest

from evalframe import testing
from evalframe.testing import obedient

ASKED = {"model": "some-model", "messages": [{"role": "user", "content": "Is 1+1 two?"}]}
PATH = "/v1/chat/completions"


def connect(server, timeout=10):
    """A connection to the server that is kept open."""
    return http.client.HTTPConnection(urlsplit(server.base_url).netloc, timeout=timeout)


def post(server, body=ASKED, *, path=PATH, timeout=10, connection=None):
    """(status, headers, body) of the response to one request."""
    own = connection or connect(server, timeout)
    try:
        own.request("POST", path, json.dumps(body))
        response = own.getresponse()
        return response.status, response.headers, response.read()
    finally:
        if connection is None:
            own.close()


def choice_of(reply):
    """The first choice of the completion that a client gets for this reply."""
    with testing.ChatServer(reply) as server:
        _, _, body = post(server)
    return json.loads(body)["choices"][0]


def asked(text):
    """A request with this text."""
    return {**ASKED, "messages": [{"role": "user", "content": text}]}


def until(holds):
    """Wait until the server's thread has got so far."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.001)
    pytest.fail("it never came to hold")


@pytest.mark.parametrize(
    ("reply", "message", "finish_reason"),
    [
        pytest.param(testing.reply("Hi."), {"content": "Hi."}, "stop", id="text"),
        pytest.param(testing.reply({"a": "é"}), {"content": '{"a": "é"}'}, "stop", id="object"),
        pytest.param(testing.label("no"), {"content": '{"label": "no"}'}, "stop", id="label"),
        pytest.param(
            testing.label("no", explanation="Not so."),
            {"content": '{"explanation": "Not so.", "label": "no"}'},
            "stop",
            id="label-after-its-explanation",
        ),
        pytest.param(
            testing.refusal("I will not."),
            {"content": None, "refusal": "I will not."},
            "stop",
            id="refusal",
        ),
        pytest.param(testing.content_filter(), {"content": ""}, "content_filter", id="filtered"),
        pytest.param(testing.truncated('{"la'), {"content": '{"la'}, "length", id="truncated"),
        pytest.param(
            testing.tool_call("verdict", {"label": "no"}),
            {
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "verdict", "arguments": '{"label": "no"}'},
                    }
                ],
            },
            "tool_calls",
            id="tool",
        ),
    ],
)
def test_model_says_what_the_reply_says(reply, message, finish_reason):
    """Each constructor gives one choice, in the form that the API has for it."""
    choice = choice_of(reply)

    assert choice["message"] == {"role": "assistant", "refusal": None, **message}
    assert choice["finish_reason"] == finish_reason


def test_openai_client_reads_a_reply():
    """The official client takes the server for one of its own."""
    reply = testing.reply(
        "yes",
        usage={"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 16}},
        logprobs=[("yes", {"yes": -0.1, "no": -2.4})],
    )
    with (
        testing.ChatServer(reply) as server,
        openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client,
    ):
        completion = client.chat.completions.create(**ASKED)

    assert completion.model == "some-model"
    assert completion.choices[0].message.content == "yes"
    assert completion.usage.prompt_tokens == 20
    assert completion.usage.prompt_tokens_details.cached_tokens == 16
    token = completion.choices[0].logprobs.content[0]
    assert [(top.token, top.logprob) for top in token.top_logprobs] == [("yes", -0.1), ("no", -2.4)]


def test_async_client_is_answered_many_times_at_once():
    """Every call of the official client gets its own answer."""

    async def ask_all(base_url):
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0) as client:
            asking = [client.chat.completions.create(**asked(f"{n}")) for n in range(20)]
            return [done.choices[0].message.content for done in await asyncio.gather(*asking)]

    with testing.ChatServer(lambda request: testing.reply(request.prompt)) as server:
        answers = asyncio.run(ask_all(server.base_url))

    assert answers == [f"{n}" for n in range(20)]


def test_tokens_are_counted_where_the_reply_does_not_say():
    """A reply without usage costs a token for every four letters, and the total adds up."""
    with testing.ChatServer(testing.reply("yes")) as server:
        _, _, body = post(server, asked("x" * 400))
    usage = json.loads(body)["usage"]

    assert usage["prompt_tokens"] == 101
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_error_has_its_status_headers_and_body():
    """A refusal says how long to wait, and why, where clients look for it."""
    wait = {"Retry-After": "1", "x-ratelimit-remaining-requests": "0"}
    reply = testing.error(429, "Slow down.", code="rate_limit_exceeded", headers=wait)
    with testing.ChatServer(reply) as server:
        status, headers, body = post(server)

    assert status == 429
    assert {name: headers[name] for name in wait} == wait
    assert json.loads(body)["error"] == {
        "message": "Slow down.",
        "type": None,
        "param": None,
        "code": "rate_limit_exceeded",
    }


def test_garbage_is_sent_as_it_is():
    """Status 200 and a body that is no JSON."""
    with testing.ChatServer(testing.garbage(b"\xff{")) as server:
        status, _, body = post(server)

    assert (status, body) == (200, b"\xff{")


@pytest.mark.parametrize(
    ("reply", "raised", "message"),
    [
        pytest.param(testing.torn(), http.client.IncompleteRead, "more expected", id="torn"),
        pytest.param(testing.hang_up(), http.client.RemoteDisconnected, "closed", id="hang-up"),
    ],
)
def test_connection_breaks_off(reply, raised, message):
    """The client sees the connection end: in the middle of a body, or before any of it."""
    with testing.ChatServer(reply) as server, pytest.raises(raised, match=message):
        post(server)

    assert server.stats()["outcomes"] == {reply.ending: 1}


def test_reply_that_never_comes_ends_with_the_client():
    """The request stays in flight until its client gives up."""
    with testing.ChatServer(testing.never()) as server:
        with pytest.raises(TimeoutError):
            post(server, timeout=0.02)
        until(lambda: server.connections == 0)

    assert server.stats() == {
        "requests": 1,
        "unique_prompts": 1,
        "outcomes": {},
        "refusal_episodes": 0,
        "abandoned": 1,
        "in_flight": 0,
        "most_in_flight": 1,
    }


@pytest.mark.parametrize(
    ("latency", "delay"),
    [pytest.param(0.0, 0.03, id="of-the-reply"), pytest.param(0.03, 0.0, id="of-the-server")],
)
def test_reply_comes_after_its_delay(latency, delay):
    """A reply is sent no earlier than its own delay and the server's latency say."""
    with testing.ChatServer(testing.reply("yes", delay=delay), latency=latency) as server:
        start = time.monotonic()
        post(server)

    assert time.monotonic() - start >= 0.03


def test_replies_are_given_in_turn():
    """A sequence of replies starts over when it is through."""
    with testing.ChatServer([testing.reply("a"), testing.error(500)]) as server:
        statuses = [post(server)[0] for _ in range(4)]

    assert statuses == [200, 500, 200, 500]


def test_script_without_replies_is_refused():
    """There would be nothing to say."""
    with pytest.raises(ValueError, match="at least one reply"):
        testing.ChatServer([])


def test_function_sees_the_request():
    """A script decides by prompt, headers, path and how often it was asked the same."""

    def script(request):
        return testing.reply([request.prompt, request.path, request.occurrence])

    with testing.ChatServer(script) as server:
        replies = [post(server, asked(text)) for text in ("a", "b", "a")]

    contents = [json.loads(body)["choices"][0]["message"]["content"] for _, _, body in replies]
    assert contents == [f'["a", "{PATH}", 1]', f'["b", "{PATH}", 1]', f'["a", "{PATH}", 2]']


def test_requests_are_recorded_in_order():
    """What was sent can be looked at after the server has ended."""
    with testing.ChatServer() as server:
        for text in ("a", "b"):
            post(server, asked(text))

    assert [request.body for request in server.requests] == [asked("a"), asked("b")]
    assert [request.headers["accept-encoding"] for request in server.requests] == ["identity"] * 2
    assert server.requests[0].time <= server.requests[1].time
    assert server.calls == 2


def test_body_that_is_no_json_is_an_empty_one():
    """A script need not look twice: a request's body is always a mapping."""
    with testing.ChatServer() as server:
        connection = connect(server)
        connection.request("POST", PATH, b"{")
        connection.getresponse().read()
        connection.close()

    assert server.requests[0].body == {}


def test_unrecorded_requests_are_counted():
    """A server for a long run keeps no prompt, and counts all the same."""
    with testing.ChatServer(record=False) as server:
        post(server)

    assert (server.requests, server.calls) == ([], 1)


def test_connection_is_kept_for_the_next_request():
    """Two requests over one connection, also after an error."""
    with testing.ChatServer([testing.error(500), testing.reply("yes")]) as server:
        connection = connect(server)
        statuses = [post(server, connection=connection)[0] for _ in range(2)]
        connections = server.connections
        connection.close()

    assert (statuses, connections) == ([500, 200], 1)


def test_requests_come_in_any_pieces():
    """Two requests in one packet, or one in many, are two requests, answered in order."""
    body = json.dumps(asked("é")).encode()
    one = b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (PATH.encode(), len(body), body)
    last = one.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
    replies = [testing.reply("first", delay=0.005), testing.reply("second")]
    with testing.ChatServer(replies) as server:
        address = urlsplit(server.base_url)
        with socket.create_connection((address.hostname, address.port), timeout=10) as client:
            client.sendall(one + last[:50])
            client.sendall(last[50:])
            received = b"".join(iter(lambda: client.recv(65536), b""))

    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b"first") < received.index(b"second")


def test_thousand_clients_wait_at_once():
    """Replies that wait hold nothing up: a thousand delays take little more than one."""

    async def ask(address):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = json.dumps(ASKED)
        writer.write(f"POST {PATH} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        status = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return status

    async def ask_all(address):
        return await asyncio.gather(*(ask(address) for _ in range(1000)))

    with testing.ChatServer(testing.reply("yes", delay=1.0)) as server:
        statuses = asyncio.run(ask_all(urlsplit(server.base_url)))

    assert set(statuses) == {b"HTTP/1.1 200 OK\r\n"}
    assert server.most_in_flight > 500


def test_script_that_fails_is_reported_where_the_block_ends():
    """The request is answered with a status that nobody retries, and the test fails."""

    def script(request):
        raise KeyError(request.prompt)

    with (
        pytest.raises(testing.ScriptError, match=r"KeyError\('Is 1\+1 two\?'\)") as raised,
        testing.ChatServer(script) as server,
    ):
        status = post(server)[0]

    assert status == 400
    assert isinstance(raised.value.__cause__, KeyError)


def test_script_gives_replies():
    """A function that gives anything else is told so."""
    with (
        pytest.raises(testing.ScriptError, match="a script gives a Reply, not 'yes'"),
        testing.ChatServer(lambda _: "yes") as server,
    ):
        post(server)


def test_failure_of_the_block_comes_before_the_scripts():
    """The block's own exception is raised; the script's is a note on it."""

    def block():
        with testing.ChatServer(lambda _: None) as server:
            post(server)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        block()

    assert "script failed" in raised.value.__notes__[0]


def test_server_is_gone_after_its_block():
    """Nobody listens any more, and clients that waited are let go."""
    with testing.ChatServer(testing.never()) as server:
        connection = connect(server)
        connection.request("POST", PATH, json.dumps(ASKED))
        until(lambda: server.calls == 1)

    with pytest.raises(ConnectionError):
        connection.getresponse()
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        post(server)


def left_hanging(is_let_go, script=obedient, *, busy=False):
    """How many of five clients that connect as the block ends still wait after it.

    Args:
        is_let_go: Whether a client waits no more.
        script: What the server does.
        busy: Whether there is a request for it to do it to.
    """
    with contextlib.ExitStack() as clients:
        with testing.ChatServer(script) as server:
            address = urlsplit(server.base_url)
            if busy:
                asking = clients.enter_context(contextlib.closing(connect(server)))
                asking.request("POST", PATH, json.dumps(ASKED))
                until(lambda: server.calls == 1)
            came = [
                clients.enter_context(
                    socket.create_connection((address.hostname, address.port), timeout=1)
                )
                for _ in range(5)
            ]
        return sum(not is_let_go(client) for client in came)


def test_connections_accepted_in_the_last_turn_are_closed(is_let_go, resource_warnings):
    """A busy server accepts them in the very turn in which it learns of its end.

    asyncio makes a connection in a later turn than that in which it accepts it.
    """

    def script(_):
        threading.Event().wait(0.1)  # the block ends meanwhile
        return testing.reply("yes")

    assert (left_hanging(is_let_go, script, busy=True), resource_warnings()) == (0, [])


def test_connections_that_come_as_the_block_ends_are_closed(is_let_go, resource_warnings):
    """In whichever turn: left to the garbage collector they would fail a test far from here."""
    hanging = any(left_hanging(is_let_go) for _ in range(20))

    assert (hanging, resource_warnings()) == (False, [])


def test_port_that_is_taken_is_an_error():
    """A second server at a port does not start, and leaves no thread behind."""
    with testing.ChatServer() as first:
        taken = urlsplit(first.base_url).port
        with pytest.raises(OSError, match="in use"), testing.ChatServer(port=taken):
            pass

    assert "evalframe-chat-server" not in {thread.name for thread in threading.enumerate()}


def test_unknown_address_is_not_found():
    """A wrong base URL is seen, not answered."""
    with testing.ChatServer() as server:
        status, _, body = post(server, path="/chat/complete")

    assert status == 404
    assert "nothing at /chat/complete" in json.loads(body)["error"]["message"]


def test_body_without_length_is_refused():
    """A chunked body is answered with an error that says what is missing."""
    with testing.ChatServer() as server:
        connection = connect(server)
        # The head alone: the server may close before a body could be written.
        connection.putrequest("POST", PATH)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()

    assert status == 411


def test_counts_are_under_an_address_of_their_own():
    """GET reads the counts; POST reads them, and starts anew."""
    with testing.ChatServer([testing.reply("a"), testing.error(500)]) as server:
        for text in ("a", "b", "a"):
            post(server, asked(text))
        counted = json.loads(post(server, path="/stats")[2])
        left = server.stats()

    assert counted == {
        "requests": 3,
        "unique_prompts": 2,
        "outcomes": {"200": 2, "500": 1},
        "refusal_episodes": 0,
        "abandoned": 0,
        "in_flight": 0,
        "most_in_flight": 1,
    }
    assert left == {**counted, "requests": 0, "unique_prompts": 0, "outcomes": {}} | {
        "most_in_flight": 0
    }


def test_reset_forgets_what_was_asked():
    """After a reset a server is as good as new."""
    with testing.ChatServer() as server:
        post(server)
        server.reset()

        assert (server.calls, server.requests) == (0, [])
        post(server)

    assert server.requests[0].occurrence == 1


@pytest.mark.parametrize(
    ("headers", "episodes"),
    [
        pytest.param({"Retry-After": "60"}, 1, id="within-the-wait"),
        pytest.param({"retry-after": "0"}, 3, id="after-the-wait"),
        pytest.param({}, 1, id="a-second-where-it-does-not-say"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 1, id="a-second-for-a-date"),
    ],
)
def test_refusals_within_the_wait_are_one_episode(headers, episodes):
    """A refusal opens an episode that lasts as long as it says to wait."""
    with testing.ChatServer(testing.error(429, headers=headers)) as server:
        for _ in range(3):
            post(server)

    assert server.stats()["refusal_episodes"] == episodes


def test_logprob_of_a_token_outside_the_alternatives_is_none_to_speak_of():
    """A token that a constraint forced may be missing among the likeliest."""
    choice = choice_of(testing.reply("yes", logprobs=[("yes", {"Paris": -0.5})]))

    assert math.exp(choice["logprobs"]["content"][0]["logprob"]) == 0.0
