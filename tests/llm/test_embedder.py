"""What a user may give as embedder, and what is said of what is none."""

import copy
import pickle

import pytest

import evalframe as ef
from evalframe.llm.embedder import as_embedder

SERVER = ef.Model("local/m", base_url="http://here/v1")


def lengths(texts):
    """Vectors of one number."""
    return [[len(text)] for text in texts]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(ef.Embedder(), "Embedder()", id="local"),
        pytest.param(
            ef.Embedder("openai/text-embedding-3-small", dimensions=256),
            "Embedder('openai/text-embedding-3-small', dimensions=256)",
            id="name",
        ),
        pytest.param(
            ef.Embedder(SERVER, batch_size=8),
            "Embedder(Model('local/m', base_url='http://here/v1'), batch_size=8)",
            id="model",
        ),
    ],
)
def test_repr_makes_it_again(made, text):
    """Without what was not given; and it pickles to an equal one."""
    assert repr(made) == text
    assert eval(text, {"Embedder": ef.Embedder, "Model": ef.Model}) == made  # noqa: S307 - ours
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


def test_it_equals_only_what_does_the_same():
    """Model and options count."""
    different = [
        ef.Embedder(),
        ef.Embedder(SERVER),
        ef.Embedder(SERVER, batch_size=2),
        ef.Embedder(SERVER, dimensions=2),
        ef.Embedder(lengths),
    ]

    assert [(a, b) for a in different for b in different if a == b and a is not b] == []


def test_it_is_frozen():
    """A run may rely on it."""
    with pytest.raises(AttributeError, match="cannot assign"):
        ef.Embedder().batch_size = 3


@pytest.mark.parametrize("given", [None, "openai/x", SERVER, lengths, ef.Embedder(SERVER)])
def test_everything_that_may_be_given_becomes_one(given):
    """An Embedder as it is."""
    made = as_embedder(given)

    assert made == (given if isinstance(given, ef.Embedder) else ef.Embedder(given))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        pytest.param({"model": 3}, TypeError, r"a function from a list.*not 3", id="number"),
        pytest.param({"model": "openai"}, ValueError, "<provider>/<model>", id="no-model"),
        pytest.param({"batch_size": 0}, ValueError, "batch_size must be a whole", id="no-batch"),
        pytest.param({"batch_size": True}, ValueError, "not True", id="bool"),
        pytest.param(
            {"model": SERVER, "dimensions": 1.5}, ValueError, "dimensions must be", id="fraction"
        ),
        pytest.param({"dimensions": 3}, ValueError, "dimensions= is for models", id="local"),
        pytest.param(
            {"model": lengths, "dimensions": 3}, ValueError, "dimensions= is for", id="function"
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments, error, match):
    """When it is made; the message says what would do."""
    with pytest.raises(error, match=match):
        ef.Embedder(**arguments)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        pytest.param("nobody/m", "The provider 'nobody'", id="provider"),
        pytest.param("openai/m", "set the environment variable OPENAI_API_KEY", id="key"),
    ],
)
def test_what_is_missing_is_said_before_the_run(monkeypatch, given, match):
    """Of the environment, as for judges."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rows = [{"output": "a", "dataset_output": "b"}]

    with pytest.raises(ef.ExperimentError, match=match):
        ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity(given)])


def test_key_is_never_part_of_it(monkeypatch):
    """Neither of its repr nor of its pickle."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    made = ef.Embedder("openai/m")
    assert made.requirements() is None

    assert "secret" not in repr(made)
    assert b"secret" not in pickle.dumps(made)


def test_address_of_a_model_is_without_its_path():
    """As for chat completions."""
    with pytest.raises(ValueError, match="without '/chat/completions' or '/embeddings'"):
        ef.Model("local/m", base_url="http://here/v1/embeddings")
