"""Lynxius' page of input arguments, section by section.

Each section lists the attributes of one evaluator's rows. A row with exactly these keys, the
contexts as that page has them, runs as it stands: no column is named, and nothing is mapped.
"""

import pytest

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
