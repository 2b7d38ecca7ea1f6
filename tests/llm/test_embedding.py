"""What a response with embeddings becomes, and which responses are none."""

import base64
import json

import numpy as np
import pytest

from evalframe.llm.embedding import EmbeddingRequest
from evalframe.llm.model import Endpoint

HERE = Endpoint("http://here/v1", "m", None, "json_schema")


def item(embedding, index=0):
    """One embedding of a response."""
    return {"object": "embedding", "index": index, "embedding": embedding}


def read(*items, texts=1, **further):
    """What a request for so many texts makes of a response."""
    request = EmbeddingRequest(HERE, tuple("abcdef"[:texts]))
    return request.read(json.dumps({"data": items, **further}).encode())


def packed(*numbers):
    """Numbers as OpenAI sends them."""
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


def test_body_holds_the_texts_and_what_was_asked_for():
    """As the API spells it; `dimensions` only where they were given."""
    plain = EmbeddingRequest(HERE, ("a", "b"))

    assert plain.body == {"input": ["a", "b"], "encoding_format": "base64"}
    assert EmbeddingRequest(HERE, ("a",), 8).body["dimensions"] == 8
    assert (plain.path, plain.expected) == ("/embeddings", "list of 2 embeddings")


def test_tokens_are_guessed_from_the_texts():
    """A token for every four characters."""
    assert EmbeddingRequest(HERE, ("x" * 30, "y" * 10)).tokens == 10


@pytest.mark.parametrize("form", [packed, lambda *numbers: list(numbers)], ids=["base64", "list"])
def test_both_forms_of_numbers_are_read(form):
    """Servers that do not know base64 send lists."""
    reply = read(item(form(1.5, -2.0)))

    np.testing.assert_array_equal(reply.vectors, [[1.5, -2.0]])


def test_vectors_stand_in_the_order_of_their_index():
    """Servers may answer in any order."""
    reply = read(item([2.0], 1), item([1.0], 0), texts=2)

    np.testing.assert_array_equal(reply.vectors, [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"prompt_tokens": 7, "total_tokens": 7}, (7, 0), id="counted"),
        pytest.param(None, (None, None), id="not-counted"),
        pytest.param({"prompt_tokens": -1}, (None, None), id="no-count"),
        pytest.param([1], (None, None), id="no-object"),
    ],
)
def test_tokens_are_as_the_server_counted_them(usage, expected):
    """There are no completion tokens; where nothing was counted nothing is known."""
    found = read(item([1.0]), usage=usage).usage

    assert (found.prompt_tokens, found.completion_tokens) == expected


def test_model_is_the_servers_word():
    """A lone surrogate in it cannot be kept."""
    assert read(item([1.0]), model="m-\ud800").model == "m-\ufffd"
    assert read(item([1.0]), model=3).model is None


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([], id="none"),
        pytest.param([item([1.0]), item([1.0], 1)], id="too-many"),
        pytest.param([item([1.0], 1)], id="index-of-no-text"),
        pytest.param([item([])], id="empty-list"),
        pytest.param([item("")], id="empty-base64"),
        pytest.param([item("AAAA")], id="half-a-number"),
        pytest.param([item("?" * 8)], id="no-base64"),
        pytest.param([item("é" * 8)], id="no-ascii"),
        pytest.param([item(["1.0"])], id="texts"),
        pytest.param([item([True])], id="bools"),
        pytest.param([item([[1.0]])], id="nested"),
        pytest.param([item([{}])], id="objects"),
        pytest.param([item([10**400])], id="number-beyond-floats"),
        pytest.param([item(None)], id="null"),
        pytest.param([item(1.0)], id="number"),
        pytest.param([{"index": [], "embedding": [1.0]}], id="index-of-no-kind"),
        pytest.param(["x"], id="no-item"),
    ],
)
def test_what_is_not_one_vector_for_each_text_is_refused(items):
    """Never cut, filled up or guessed."""
    with pytest.raises(ValueError, match=r"."):
        read(*items)


def test_vectors_of_different_length_are_refused():
    """They cannot be compared."""
    with pytest.raises(ValueError, match="shape"):
        read(item([1.0]), item([1.0, 2.0], 1), texts=2)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'{"data": 3}', b"[" * 100_000])
def test_what_is_no_response_is_refused(content):
    """As a ValueError, whatever it is."""
    with pytest.raises(ValueError, match=r"."):
        EmbeddingRequest(HERE, ("a",)).read(content)


def test_number_that_is_not_finite_is_left_to_its_text():
    """One text's NaN does not cost the others."""
    found = read(item([float("nan")], 0), item([1.0], 1), texts=2).vectors

    assert np.isnan(found[0, 0])
    assert found[1, 0] == 1.0
