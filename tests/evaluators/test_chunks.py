"""Lists of context chunks: `evalframe.evaluators.chunks`."""

import pytest

from evalframe.evaluators.chunks import Chunk, ChunkError, Passage, chunks_of, passages_of


@pytest.mark.parametrize(
    ("value", "chunks"),
    [
        pytest.param(None, [], id="null-is-none"),
        pytest.param([], [], id="empty"),
        pytest.param("one", [Chunk("one")], id="a-text-is-one-chunk"),
        pytest.param({"document": "one"}, [Chunk("one")], id="a-dict-is-one-chunk"),
        pytest.param(["a", "b"], [Chunk("a"), Chunk("b")], id="texts"),
        pytest.param(("a",), [Chunk("a")], id="tuple"),
        pytest.param(
            ["a", {"document": "b", "relevance": -1}], [Chunk("a"), Chunk("b", -1.0)], id="mixed"
        ),
        pytest.param([{"document": "b", "relevance": None}], [Chunk("b")], id="relevance-null"),
        pytest.param(' ["a", {"document": "b"}]', [Chunk("a"), Chunk("b")], id="json-text"),
        pytest.param("[]", [], id="json-text-of-none"),
        pytest.param("[1] says so", [Chunk("[1] says so")], id="text-that-is-no-json"),
        pytest.param("[1]", [Chunk("[1]")], id="json-text-of-no-chunks"),
        pytest.param("[" * 9_999, [Chunk("[" * 9_999)], id="json-text-nested-too-deeply"),
    ],
)
def test_chunks_come_in_their_order(value, chunks):
    """Texts and dicts of document and relevance, alone or in lists."""
    assert chunks_of(value, "contexts") == chunks


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param([1], r"item 1 of contexts is 1 \(int\)", id="number"),
        pytest.param(["a", None], r"item 2 of contexts is None", id="null-item"),
        pytest.param([["a"]], r"item 1 of contexts is \['a'\]", id="nested"),
        pytest.param([{"text": "a"}], "give a text, or a dict of document", id="other-keys"),
        pytest.param([{"document": 1}], r"the document of item 1", id="document"),
        pytest.param([{"document": "a", "relevance": 1.1}], r"in \[-1, 1\]", id="beyond"),
        pytest.param([{"document": "a", "relevance": True}], "relevance of item 1", id="bool"),
        pytest.param([{"document": "a", "relevance": float("nan")}], "relevance", id="nan"),
        pytest.param([{"document": "a", "relevance": 10**400}], r"in \[-1, 1\]", id="huge"),
    ],
)
def test_what_is_no_chunk_is_named(value, message):
    """Its place, what it is, and what it should be."""
    with pytest.raises(ChunkError, match=message):
        chunks_of(value, "contexts")


def test_white_space_is_blank():
    """Nothing that a model could read."""
    assert [Chunk(text).blank for text in ("", " \n", "a")] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "passages"),
    [
        pytest.param(None, [], id="null-is-none"),
        pytest.param(7, [Passage(7)], id="a-number-is-one-passage"),
        pytest.param([" a\n", 3], [Passage("a"), Passage(3)], id="texts-and-ids"),
        pytest.param([{"document": 3, "relevance": 1}], [Passage(3, 1.0)], id="dict"),
        pytest.param([" "], [Passage("")], id="blank"),
    ],
)
def test_passages_may_be_ids(value, passages):
    """Texts lose the white space around them, whole numbers are ids."""
    assert passages_of(value, "context") == passages


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(
            [1.0], r"item 1 of context is 1\.0 \(float\); give a text, a whole", id="float"
        ),
        pytest.param([True], r"item 1 of context is True", id="bool"),
        pytest.param([{"document": True}], "neither text nor a whole number", id="document"),
    ],
)
def test_what_is_no_passage_is_named(value, message):
    """Its place, what it is, and what it should be."""
    with pytest.raises(ChunkError, match=message):
        passages_of(value, "context")
