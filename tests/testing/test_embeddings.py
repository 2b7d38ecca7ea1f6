"""The scripted server as a client of embeddings sees it: through the openai package."""

import json

import openai
import pytest

from evalframe import testing

TABLE = {"a": [1.0, -2.5], "b": [0.0, 3.0]}


@pytest.fixture
def ask(serve):
    """A function: what the openai client makes of the server's answer."""

    def embed(script, texts, **further):
        server = serve(script)
        with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            return client.embeddings.create(model="some-model", input=texts, **further)

    return embed


@pytest.mark.parametrize("as_numbers", [False, True])
@pytest.mark.parametrize("vectors", [TABLE, TABLE.__getitem__], ids=["mapping", "function"])
def test_each_text_gets_its_vector(ask, vectors, as_numbers):
    """In the order of the texts; as base64, which the client asks for, or as numbers."""
    found = ask(testing.embeddings(vectors, as_numbers=as_numbers), ["b", "a"])

    assert [(item.index, item.embedding) for item in found.data] == [
        (0, TABLE["b"]),
        (1, TABLE["a"]),
    ]
    assert found.model == "some-model"


def test_numbers_are_sent_where_base64_is_not_asked_for(ask):
    """As the API does."""
    found = ask(testing.embeddings(TABLE), "a", encoding_format="float")

    assert found.data[0].embedding == TABLE["a"]


def test_usage_is_counted_or_given(ask):
    """A token for every four letters."""
    counted = ask(testing.embeddings(lambda _: [1.0]), ["x" * 8, "y" * 4]).usage
    given = ask(testing.embeddings(TABLE, usage={"prompt_tokens": 7}), "a").usage

    assert (counted.prompt_tokens, counted.total_tokens) == (4, 4)
    assert (given.prompt_tokens, given.total_tokens) == (7, 7)


def test_text_without_a_vector_is_the_scripts_failure():
    """Raised where the block ends, like whatever a script raises."""

    def ask():
        with testing.ChatServer(testing.embeddings(TABLE)) as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
            with client, pytest.raises(openai.BadRequestError):
                client.embeddings.create(model="m", input="c")

    with pytest.raises(testing.ScriptError, match="KeyError"):
        ask()


def test_request_knows_its_texts():
    """One or many; none where there are none."""

    def request(body):
        return testing.Request(path="", headers={}, body=json.loads(body), time=0.0)

    assert request('{"input": "a"}').texts == ["a"]
    assert request('{"input": ["a", "b"]}').texts == ["a", "b"]
    assert request('{"messages": []}').texts == []
