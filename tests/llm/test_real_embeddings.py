"""The real server's embeddings are read as they are meant, and it refuses what we never send."""

import numpy as np
import openai
import pytest

import evalframe as ef

NEAR = {"output": "A cat sat on the mat.", "dataset_output": "A cat was sitting on the mat."}
FAR = {"output": "A cat sat on the mat.", "dataset_output": "Stocks fell by 3% on Monday."}
LONG = {"output": "word " * 9_000, "dataset_output": "A cat sat on the mat."}


@pytest.fixture
def embed(real_embedder):
    """A function: what the server makes of texts, by the openai client."""
    with openai.OpenAI(base_url=real_embedder.base_url, api_key="none", max_retries=0) as client:
        yield lambda texts, **body: client.embeddings.create(model="m", input=texts, **body)


@pytest.fixture
def model(real_embedder):
    """The model as a user would describe it."""
    return ef.Model("local/m", base_url=real_embedder.base_url)


def test_scores_are_the_cosines_of_what_another_client_reads(embed, model):
    """As numbers; ours come as base64."""
    texts = [text for row in (NEAR, FAR) for text in row.values()]
    vectors = [item.embedding for item in embed(texts, encoding_format="float").data]
    a, b = (np.array(side) for side in (vectors[::2], vectors[1::2]))
    expected = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    scored = ef.run_experiment([NEAR, FAR], evaluators=[ef.SemanticSimilarity(model)])

    scores = scored["eval.semantic_similarity.score"]
    np.testing.assert_allclose(scores.astype(float), expected, atol=1e-3)
    assert scores[0] > scores[1]
    assert scored.evals.usage()["prompt_tokens"][0] > 20


def test_a_blank_text_is_refused_with_its_batch(embed):
    """Which is why none is sent."""
    with pytest.raises(openai.BadRequestError, match="empty"):
        embed(["a", ""])


def test_a_text_that_is_too_long_costs_no_other(model):
    """The server refuses the whole batch, with status 500; no attempt is made twice."""
    scored = ef.run_experiment([NEAR, LONG, FAR], evaluators=[ef.SemanticSimilarity(model)])

    errors = scored["eval.semantic_similarity.error"]
    assert errors.isna().tolist() == [True, False, True]
    assert errors[1].startswith("bad_request: HTTP 500: input")
