"""What makes a request this one and no other, and a reply that comes back from text."""

import json
import pickle

import numpy as np
import pytest

from evalframe.core.call_info import Occurrence
from evalframe.llm.chat import ChatError, ChatReply, ChatRequest, Usage
from evalframe.llm.embedding import EmbeddingReply
from evalframe.llm.model import Endpoint, Model

HERE = Endpoint("http://here/v1", "m", None, "json_schema")
BODY = {
    "messages": [{"role": "user", "content": "Is 1+1 two?"}],
    "temperature": 0,
    "response_format": {"properties": {"b": {}, "a": {}}},
}


def key(endpoint=HERE, body=BODY, **given):
    """The key of a request."""
    return ChatRequest(endpoint, body, **given).key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"endpoint": Endpoint("http://there/v1", "m", None, "tool")}, id="address"),
        pytest.param({"endpoint": Endpoint("http://here/v1", "n", None, "tool")}, id="model"),
        pytest.param({"body": BODY | {"temperature": 1}}, id="inference-argument"),
        pytest.param({"body": BODY | {"seed": None}}, id="argument-of-null"),
        pytest.param({"body": BODY | {"messages": []}}, id="messages"),
        pytest.param(
            {"body": BODY | {"response_format": {"properties": {"a": {}, "b": {}}}}},
            id="order-of-properties",
        ),
        pytest.param({"repetition": 2}, id="repetition"),
        pytest.param({"occurrence": Occurrence("ab", 1)}, id="occurrence"),
    ],
)
def test_key_differs_with_what_can_change_the_answer(other):
    """Address, model, any field of the body, and which asking it is, make another question."""
    assert key(**other) != key()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            {"endpoint": Endpoint("http://here/v1", "m", "KEY", "tool")}, id="key-and-form"
        ),
        pytest.param({"body": dict(reversed(BODY.items()))}, id="order-of-fields"),
    ],
)
def test_key_does_not_differ_with_what_cannot(other):
    """Who pays, and the order in which fields were written down, change no answer."""
    assert key(**other) == key()


def test_limits_and_timeouts_are_in_no_endpoint():
    """What only decides how and when a request is sent reaches no key."""
    plain = Model("x/m", base_url="http://here/v1")
    other = Model(
        "x/m", base_url="http://here/v1", rpm=1, tpm=1, max_retries=0, timeout=1, price={"input": 1}
    )

    assert plain.endpoint() == other.endpoint()


def test_every_row_that_is_answered_apart_has_a_key_of_its_own():
    """By repetition, by what is read of it, and by its number among equal rows."""
    rows = [(1, "ab", 1), (2, "ab", 1), (1, "ab", 2), (1, "cd", 1)]
    keys = {
        key(repetition=repetition, occurrence=Occurrence(read, number))
        for repetition, read, number in rows
    }

    assert len(keys) == len(rows)


def test_the_key_of_a_question_is_the_same_in_every_version():
    """What was paid for is found again; a new key makes all caches of judges worthless."""
    assert key(repetition=2) == "49125c69ddabe7567441ddbf703935002f34b8b7531894105d410a7e8ecbb22a"


def test_text_that_cannot_be_encoded_has_a_key_of_its_own():
    """A lone surrogate is not the question mark that it would be replaced by."""
    assert key(body={"x": "\ud800"}) != key(body={"x": "?"})


@pytest.mark.parametrize(
    ("body", "longer"),
    [
        pytest.param({"max_tokens": 10}, {"max_tokens": 20}, id="old-name"),
        pytest.param({"max_completion_tokens": 7}, {"max_completion_tokens": 14}, id="new-name"),
        pytest.param(
            {"max_tokens": 1, "max_completion_tokens": 3},
            {"max_tokens": 2, "max_completion_tokens": 6},
            id="both",
        ),
    ],
)
def test_longer_request_has_twice_the_room(body, longer):
    """Every limit on the answer is doubled, and nothing else changes."""
    row = Occurrence("ab", 3)
    request = ChatRequest(HERE, {"seed": 1, **body}, 2, row)

    assert request.longer() == ChatRequest(HERE, {"seed": 1, **longer}, 2, row)
    assert request.body == {"seed": 1, **body}


@pytest.mark.parametrize("body", [{}, {"max_tokens": None}], ids=["none", "null"])
def test_request_without_a_limit_has_no_longer_one(body):
    """There is nothing to double."""
    assert ChatRequest(HERE, body).longer() is None


def test_tokens_are_guessed_from_the_text_and_the_limit():
    """A token for every four characters of the messages, and all that may be answered."""
    messages = [{"role": "user", "content": "x" * 400}]

    assert ChatRequest(HERE, {"messages": messages}).tokens == len(json.dumps(messages)) // 4
    assert ChatRequest(HERE, {"messages": [], "max_tokens": 50}).tokens == 50


def test_reply_comes_back_from_its_text():
    """Everything is kept but the server's wish to be left alone, which is of its moment."""
    reply = ChatReply(
        "é\u2028 <b>",
        finish_reason="stop",
        usage=Usage(3, 4, 1),
        model="m-1",
        logprobs=[{"token": "a", "logprob": -0.5}],
        hold=2.0,
    )

    back = ChatReply.from_json(reply.to_json())

    assert back == ChatReply(
        "é\u2028 <b>",
        finish_reason="stop",
        usage=Usage(3, 4, 1),
        model="m-1",
        logprobs=[{"token": "a", "logprob": -0.5}],
        hold=None,
    )


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"text": 1}', '{"text": "a", "usage": {}, "new": 1}', '{"usage": {"x": 1}}'],
)
def test_text_that_is_no_reply_is_refused(text):
    """Half a reply is none."""
    with pytest.raises(ValueError, match=r"not a stored reply|Expecting value"):
        ChatReply.from_json(text)


def test_error_knows_its_kind_and_whether_to_ask_again():
    """What the layers above decide by."""
    error = ChatError("rate_limit", "slow down", retryable=True, retry_after=2.0)

    assert (error.kind, str(error), error.retryable, error.retry_after) == (
        "rate_limit",
        "slow down",
        True,
        2.0,
    )


def test_request_holds_no_key(monkeypatch):
    """A request can be printed and pickled: the key is looked up when it is sent."""
    monkeypatch.setenv("SOME_KEY", "topsecret-0123456789")
    endpoint = Model("x/m", base_url="http://here/v1", api_key_env="SOME_KEY").endpoint()
    request = ChatRequest(endpoint, BODY)

    assert b"topsecret" not in pickle.dumps(request)
    assert "topsecret" not in repr(request)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(ChatReply(text="my key", refusal="no key", model="m-key"), id="chat"),
        pytest.param(EmbeddingReply(np.ones((1, 2)), model="m-key"), id="embedding"),
    ],
)
def test_nothing_that_a_server_wrote_is_left_uncleaned(reply):
    """What a model is called is the server's word, too, and stands in `evals.usage()`."""
    cleaned = reply.cleaned(lambda said: said.replace("key", "[...]"))

    assert "key" in repr(reply)
    assert "key" not in repr(cleaned)
    assert cleaned.model == "m-[...]"


def test_reply_without_texts_has_none_to_clean():
    """None stays None."""
    assert ChatReply(text=None).cleaned(str.upper) == ChatReply(text=None)
