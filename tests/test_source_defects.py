"""Defects of the systems that these evaluators come from, and what holds here instead.

Each docstring names the defect, and the system that has it.
"""

import json

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import never, reply


def model_on(server):
    """A model that asks the server."""
    return ef.Model("local/m", base_url=server.base_url, max_retries=0)


def cell(row, evaluator):
    """The only row's cell, without what is NA."""
    scored = ef.run_experiment([row], evaluators={"it": evaluator})
    return scored.evals["it"].iloc[0].dropna().to_dict()


def sets_apart(request):
    """A model that finds contradicted what says so."""
    contexts = request.prompt.partition("Contexts:\n")[2].splitlines()
    words = ["yes" if "contradicted" in context else "no" for context in contexts]
    return reply({"verdicts": [{"reason": "r", "verdict": word} for word in words]})


@pytest.mark.parametrize(
    ("threshold", "passed"),
    [pytest.param(0.0, [True, False, False], id="strictest"), (0.5, [True, True, False])],
)
def test_no_threshold_lets_everything_pass_where_lower_is_better(serve, threshold, passed):
    """Judgeval's strict mode set the threshold 1 also where lower is better: all rows passed."""
    contexts = [["a", "b"], ["a", "contradicted"], ["contradicted", "contradicted too"]]
    rows = [{"output": "o", "context": some} for some in contexts]
    judge = ef.Hallucination(model_on(serve(sets_apart)), threshold=threshold)
    scored = ef.run_experiment(rows, evaluators=judge)

    assert scored.evals.scores["hallucination"].tolist() == [0.0, 0.5, 1.0]
    assert scored.evals.passed["hallucination"].tolist() == passed
    assert scored.evals.summary()["pass_rate"][0] == pytest.approx(sum(passed) / 3)


@pytest.mark.parametrize("mode", ["exact", "ordered", "set"])
def test_no_expected_tools_divide_by_no_zero(mode):
    """Judgeval's ExecutionOrder raised a ZeroDivisionError on an empty list of expected tools."""
    tools = ef.ToolCalls(mode)

    assert cell({"tools_called": [], "expected_tools": []}, tools)["score"] == 1.0
    assert cell({"tools_called": ["a"], "expected_tools": []}, tools)["score"] == 0.0


def test_a_tool_that_is_expected_twice_counts_twice():
    """Judgeval set a number of distinct tools against the length of a list: 0.5 for equal ones."""
    row = {"tools_called": ["a", "a"], "expected_tools": ["a", "a"]}

    assert cell(row, ef.ToolCalls("set"))["score"] == 1.0


@pytest.mark.parametrize("lists", ["penalise", "zip"])
@pytest.mark.parametrize(("output", "wanted"), [([], [1]), ([1], [])], ids=["none", "extra"])
def test_an_empty_list_against_another_divides_by_no_zero(lists, output, wanted):
    """Lynxius' JsonDiff raised a ZeroDivisionError where one of two lists is empty."""
    row = {"output": output, "dataset_output": wanted}

    assert cell(row, ef.JsonDiff(lists=lists))["score"] == 0.0


@pytest.mark.parametrize("swapped", [False, True], ids=["short-output", "short-reference"])
def test_a_list_that_was_cut_short_is_not_equal(swapped):
    """Lynxius' JsonDiff walked two lists to the end of the shorter: 1.0 for [1] of [1, 2, 3]."""
    output, wanted = ([1, 2, 3], [1]) if swapped else ([1], [1, 2, 3])
    found = cell({"output": output, "dataset_output": wanted}, ef.JsonDiff())

    assert found["score"] == pytest.approx(1 / 3)


NO_CLAIMS = {
    ef.Faithfulness: {"statements": []},
    ef.AnswerRelevancy: {"statements": []},
    ef.ContextRecall: {"statements": []},
    ef.AnswerCorrectness: {"true_positives": [], "false_positives": [], "false_negatives": []},
}


@pytest.mark.parametrize("kind", NO_CLAIMS, ids=lambda kind: kind.__name__)
def test_no_claims_are_no_score(serve, kind):
    """They were 1.0 in judgeval, and a ZeroDivisionError in Lynxius' AnswerCorrectness."""
    row = {"input": "q", "output": "Hello!", "dataset_output": "Hi!", "retrieval_context": ["c"]}
    found = cell(row, kind(model_on(serve(reply(NO_CLAIMS[kind])))))

    assert found == {"error": "skipped: no statements"}


@pytest.mark.parametrize("said", ["correct.", "**correct**", "I say:\ncorrect"])
@pytest.mark.filterwarnings("ignore:.*seems to ignore the constraint:UserWarning")
def test_a_verdict_with_a_full_stop_is_not_the_opposite(serve, said):
    """Lynxius' CustomEval took "correct." for incorrect; here such a reply is none."""
    server = serve(reply(said))
    found = cell({"output": "o"}, ef.CustomEval("{output}", model=model_on(server)))

    assert "score" not in found
    assert found["error"].startswith("parse: ")
    assert found["reply"] == said


@pytest.mark.parametrize(
    "said",
    ["incorrect", "INCORRECT", json.dumps({"explanation": "not correct", "label": "incorrect"})],
    ids=["text", "capitals", "object"],
)
def test_a_verdict_that_holds_another_is_not_the_other(serve, said):
    """Phoenix found "relevant" in "not relevant"; "correct" is in "incorrect" as well."""
    judge = ef.CustomEval("{output}", model=model_on(serve(reply(said))))
    found = cell({"output": "o"}, judge)

    assert (found["label"], found["score"]) == ("incorrect", 0.0)


@pytest.mark.parametrize("kind", [ef.ContextPrecision, ef.NDCG], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("relevance", [5, -1.01, "x"], ids=str)
def test_relevance_is_looked_at(serve, kind, relevance):
    """Lynxius' ContextChunk took any: 5, and a text too."""
    server = serve(never())
    evaluator = kind(model_on(server)) if kind is ef.ContextPrecision else kind()
    chunks = [{"document": "d", "relevance": relevance}]
    row = {"input": "q", "dataset_output": "r", "retrieval_context": chunks, "context": ["d"]}
    found = cell(row, evaluator)

    assert found.keys() == {"error"}
    assert "relevance of item 1 of retrieval_context" in found["error"]
    assert server.calls == 0


def test_a_null_output_ends_no_run(serve):
    """A task that gave None ended a run of Arize's; here each evaluator says what that means."""
    server = serve(never())
    model = model_on(server)
    evaluators = [
        *(ef.ExactMatch(), ef.TokenF1(), ef.JsonDiff(), ef.ValidJSON()),
        *(ef.AnswerCorrectness(model), ef.AnswerRelevancy(model)),
        ef.CustomEval("{output}", model=model),
    ]
    rows = pd.DataFrame({"input": ["q"], "dataset_output": ["{}"]})
    scored = ef.run_experiment(rows, lambda input: None, evaluators=evaluators)

    scores = pa.Table.from_pandas(scored.evals.scores).to_pylist()[0]
    assert list(scores.values()) == [0.0, 0.0, 0.0, 0.0, 0.0, None, None]
    assert scored["eval.answer_relevancy.error"][0] == "skipped: output is null"
    assert scored["eval.custom_eval.error"][0] == "skipped: output is null"
