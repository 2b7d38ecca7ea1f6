"""Lynxius' page of input arguments, section by section.

Each section lists the attributes of one evaluator's rows. A row with exactly these keys, the
contexts as that page has them, runs as it stands: no column is named, and nothing is mapped.
"""

import pytest
from pydantic import ValidationError

import evalframe as ef
from evalframe.testing import label, never, reply

QUERY = "Which planet is the largest?"
REFERENCE = "Jupiter is the largest planet."
OUTPUT = "It is Jupiter."
# Section "ContextChunk": a document, and its relevance in [-1, 1].
CONTEXTS = [
    {"document": "Saturn has rings.", "relevance": 0.25},
    {"document": "Jupiter is larger than all other planets together.", "relevance": 0.92},
]


@pytest.fixture
def run(serve):
    """A function: a row's cell without what is NA, and the request that was sent for it."""

    def judged(row, said, make):
        server = serve(said)
        judge = make(ef.Model("local/m", base_url=server.base_url, max_retries=0))
        scored = ef.run_experiment([row], evaluators=[judge])
        assert list(scored.columns[: len(row)]) == list(row)
        (request,) = server.requests or [None]
        return scored.evals[judge.name].iloc[0].dropna().to_dict(), request

    return judged


def scored_alone(row, evaluator):
    """A row's cell without what is NA, of an evaluator that asks nobody."""
    scored = ef.run_experiment([row], evaluators=[evaluator])
    assert list(scored.columns[: len(row)]) == list(row)
    return scored.evals[evaluator.name].iloc[0].dropna().to_dict()


# Section "ReferenceOutputPair".
PAIR = {"reference": REFERENCE, "output": OUTPUT, "contexts": CONTEXTS}


@pytest.fixture
def embedded():
    """What an embedder of this test was given."""
    return []


@pytest.fixture
def planets(embedded):
    """An embedder: whether a text names the planet, and whether it is of any size."""

    def vectors(texts):
        embedded.extend(texts)
        return [["jupiter" in text.lower(), "largest" in text.lower(), 1] for text in texts]

    return vectors


def test_reference_output_and_contexts_are_a_row_of_semantic_similarity(planets, embedded):
    """The cosine of (1, 1, 1) and (1, 0, 1); the contexts are not embedded."""
    cell = scored_alone(PAIR, ef.SemanticSimilarity(planets))

    assert cell["score"] == pytest.approx(2 / 6**0.5)
    assert sorted(embedded) == sorted([REFERENCE, OUTPUT])


def test_reference_output_and_contexts_are_a_row_of_bert_score(planets, embedded):
    """Each word of the output finds its like, "largest" in the reference none."""
    cell = scored_alone(PAIR, ef.BertScore(planets, presence_threshold=0.8))

    recall = (4 + 0.5**0.5) / 5
    assert cell["precision"] == 1.0
    assert cell["recall"] == pytest.approx(recall)
    assert cell["score"] == pytest.approx(2 * recall / (1 + recall))
    assert cell["explanation"] == "missing: 'largest'"
    assert not {"Saturn", "rings"} & {*embedded}


def test_query_reference_output_and_contexts_are_a_row_of_answer_correctness(run):
    """The contexts are there for display: they are not asked about."""
    row = {"query": QUERY, "reference": REFERENCE, "output": OUTPUT, "contexts": CONTEXTS}
    said = {"true_positives": ["Jupiter is it."], "false_positives": [], "false_negatives": []}
    cell, request = run(row, reply(said), ef.AnswerCorrectness)

    assert cell["score"] == 1.0
    assert all(text in request.prompt for text in (QUERY, REFERENCE, OUTPUT))
    assert "Saturn" not in request.prompt


def test_query_reference_and_contexts_are_a_row_of_context_precision(run):
    """There is no output; the documents are asked about, in their order."""
    row = {"query": QUERY, "reference": REFERENCE, "contexts": CONTEXTS}
    said = [{"reason": "r", "verdict": word} for word in ("no", "yes")]
    cell, request = run(row, reply({"verdicts": said}), ef.ContextPrecision)

    assert cell["score"] == 0.5
    assert request.prompt.index("Saturn") < request.prompt.index("larger than all")
    assert "0.92" not in request.prompt


# The sections' names of JsonDiff; `n` weighs 0.25 + 0.25, `z` 1.0 as it is not named.
DIFF = {
    "reference": {"n": {"x": 1, "y": 1}, "z": "same"},
    "output": {"n": {"x": 1, "y": 0}, "z": "same"},
    "weights": {"n": {"x": 0.25, "y": 0.25}},
    "contexts": CONTEXTS,
}


def test_reference_output_weights_and_contexts_are_a_row_of_json_diff():
    """The weight of a nested dict is the sum of the weights in it: (0.5 / 2 + 1) / (0.5 + 1)."""
    cell = scored_alone(DIFF, ef.JsonDiff())

    assert cell["score"] == pytest.approx(0.8333, abs=5e-5)
    assert cell["explanation"] == "$.n.y: 0 is not 1"


def test_a_nested_weight_is_computed_recursively():
    """Of a dict of dicts of weights it is the sum of theirs: 0.2 + 0.3, and not 2."""
    row = {
        "reference": {"a": {"b": {"c": 1, "d": 1}}, "z": 1},
        "output": {"a": {"b": {"c": 1, "d": None}}, "z": 1},
        "weights": {"a": {"b": {"c": 0.2, "d": 0.3}}},
        "contexts": [],
    }

    assert scored_alone(row, ef.JsonDiff())["score"] == pytest.approx((0.5 * 0.4 + 1) / 1.5)


def test_the_default_weight_is_one():
    """Without weights, or with none for a key."""
    rows = [{**DIFF, "weights": weights} for weights in (None, {}, {"z": 1.0}, {"n": 1})]

    assert [scored_alone(row, ef.JsonDiff())["score"] for row in rows] == [0.75] * 4


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan"), True, "1"], ids=str)
def test_a_weight_outside_its_interval_is_refused(weight):
    """A ValueError when the evaluator is built; on a row, its failed cell."""
    with pytest.raises(ValueError, match="'z'"):
        ef.JsonDiff(weights={"z": weight})
    cell = scored_alone({**DIFF, "weights": {"z": weight}}, ef.JsonDiff())

    assert cell.keys() == {"error"}
    assert cell["error"].startswith("invalid_result: ")
    assert "'z'" in cell["error"]


TEMPLATE = "Is {output} an answer to {question}?"


def test_variables_and_contexts_are_a_row_of_custom_eval(run):
    """The fields of the template are in the dict; `output` is one of them."""
    row = {"variables": {"question": QUERY, "output": OUTPUT}, "contexts": CONTEXTS}
    said = label("correct", explanation="It is.")
    cell, request = run(row, said, lambda model: ef.CustomEval(TEMPLATE, model=model))

    assert cell == {"label": "correct", "score": 1.0, "explanation": "It is."}
    assert request.prompt == f"Is {OUTPUT} an answer to {QUERY}?"


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        pytest.param({"question": QUERY, "output": ""}, "skipped: output is empty", id="empty"),
        pytest.param({"question": QUERY, "output": None}, "skipped: output is null", id="null"),
        pytest.param(
            {"question": QUERY},
            "template: item.output: 'output' is not there; there is 'question'",
            id="missing",
        ),
    ],
)
def test_the_key_output_of_variables_is_mandatory_and_not_empty(run, variables, error):
    """A row without it has no verdict, and is not asked about."""
    row = {"variables": variables, "contexts": CONTEXTS}
    cell, request = run(row, never(), lambda model: ef.CustomEval(TEMPLATE, model=model))

    assert cell == {"error": error}
    assert request is None


@pytest.mark.parametrize("relevance", [-1.5, 1.01, float("nan")], ids=str)
def test_relevance_outside_its_interval_is_refused(run, relevance):
    """[-1, 1] is what a `ContextChunk` may have; the row fails, before any request."""
    chunks = [CONTEXTS[0], {"document": "d", "relevance": relevance}]
    row = {"query": QUERY, "reference": REFERENCE, "contexts": chunks}
    cell, request = run(row, never(), ef.ContextPrecision)

    assert cell.keys() == {"error"}
    assert "relevance of item 2 of retrieval_context" in cell["error"]
    assert request is None


@pytest.mark.parametrize("relevance", [-1, 0, 0.25, 1.0], ids=str)
def test_a_chunk_is_a_document_and_a_relevance(run, relevance):
    """Both bounds belong to the interval; in a row a chunk is the same as a dict of the two."""
    chunk = ef.ContextChunk(document="Jupiter is large.", relevance=relevance)
    row = {"query": QUERY, "reference": REFERENCE, "contexts": [chunk]}
    said = reply({"verdicts": [{"reason": "r", "verdict": "yes"}]})
    cell, request = run(row, said, ef.ContextPrecision)

    assert (chunk.document, chunk.relevance) == ("Jupiter is large.", relevance)
    assert cell["score"] == 1.0
    assert '1: "Jupiter is large."' in request.prompt


@pytest.mark.parametrize("relevance", [-1.01, 1.5, float("nan"), "high"], ids=str)
def test_a_chunk_of_another_relevance_is_not_built(relevance):
    """It is in [-1, 1] for whoever makes one."""
    with pytest.raises(ValidationError, match="relevance"):
        ef.ContextChunk(document="d", relevance=relevance)
