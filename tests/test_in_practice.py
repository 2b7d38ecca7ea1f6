"""Whole runs of built-in evaluators as users make them: Examples, thresholds, both directions."""

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import ChatServer, reply

TOOLS = ["research_person", "research_company"]
FOUNDERS = {
    "input": "Who founded Microsoft?",
    "actual_output": "Bill Gates and Paul Allen.",
    "expected_output": "Bill Gates and Paul Allen founded Microsoft in New Mexico in 1975.",
    "retrieval_context": ["Bill Gates co-founded Microsoft with Paul Allen in 1975."],
    "context": ["Bill Gates and Paul Allen are the founders of Microsoft."],
    "tools_called": TOOLS,
    "expected_tools": TOOLS,
    "additional_metadata": {"research_source": "Wikipedia"},
}
EXAMPLES = [
    ef.Example(**FOUNDERS),
    ef.Example(**{**FOUNDERS, "actual_output": "Ada Lovelace.", "tools_called": TOOLS[:1]}),
    ef.Example(input="Is sparkling water healthy?", actual_output="It is."),
]


def claims(request):
    """A model that finds one claim in each answer, and believes all but one."""
    told = "no" if "Ada Lovelace" in request.prompt else "yes"
    return reply({"statements": [{"statement": "A claim.", "reason": "So.", "verdict": told}]})


@pytest.fixture
def model():
    """A model on loopback."""
    with ChatServer(claims) as server:
        yield ef.Model("local/scripted", base_url=server.base_url)


def test_examples_run_with_code_and_judged_evaluators_and_thresholds(model):
    """A list of Example, as the source document has it, needs no mapping at all."""
    evaluators = [
        ef.ToolCalls(mode="set", threshold=0.9),
        ef.Faithfulness(model, threshold=0.5),
        ef.TokenF1(threshold=0.2),
    ]

    scored = ef.run_experiment(EXAMPLES, evaluators=evaluators)

    assert scored.evals.scores["tool_calls"].tolist()[:2] == [1.0, 0.5]
    assert scored.evals.scores["faithfulness"].tolist()[:2] == [1.0, 0.0]
    passed = scored.evals.passed
    assert passed["tool_calls"].tolist() == [True, False, pd.NA]
    assert passed["faithfulness"].tolist() == [True, False, pd.NA]
    assert scored["eval.tool_calls.error"][2] == "skipped: no expected tools"
    assert scored["eval.faithfulness.error"][2] == "skipped: no contexts"
    summary = scored.evals.summary().set_index("evaluator")
    assert summary["pass_rate"].tolist()[:2] == [0.5, 0.5]
    assert summary["n_skipped"].tolist() == [1, 1, 1]
    assert len(ef.Dataset(scored).to_examples()) == len(EXAMPLES)


@pytest.mark.parametrize(
    ("direction", "passed"),
    [("maximize", [True, True, False]), ("minimize", [False, True, True])],
)
def test_direction_says_on_which_side_of_the_threshold_a_cell_passes(direction, passed):
    """At or above it, or at or below it, on any evaluator."""
    rows = [{"output": text, "dataset_output": "abcd"} for text in ("abcd", "abxx", "wxyz")]
    close = ef.Levenshtein(threshold=0.5, direction=direction)

    scored = ef.run_experiment(rows, evaluators=close)

    assert scored.evals.passed["levenshtein"].tolist() == passed
    assert scored.evals.summary()["pass_rate"][0] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("threshold", "passed"), [(0.4, [True, False]), (0.5, [True, True])], ids=["below", "at"]
)
def test_hallucination_passes_at_or_below_its_threshold(threshold, passed):
    """Its direction is "minimize" without being told."""

    def contradicts(request):
        words = ["yes" if "Ada" in request.prompt else "no", "no"]
        return reply({"verdicts": [{"reason": "So.", "verdict": word} for word in words]})

    founders = ["Bill Gates is a founder of Microsoft.", "Microsoft makes software."]
    answers = ["Bill Gates.", "Ada Lovelace."]
    examples = [ef.Example(actual_output=answer, context=founders) for answer in answers]
    with ChatServer(contradicts) as server:
        model = ef.Model("local/scripted", base_url=server.base_url)
        judge = ef.Hallucination(model, threshold=threshold)
        scored = ef.run_experiment(examples, evaluators=judge)

    assert scored.evals.scores["hallucination"].tolist() == [0.0, 0.5]
    assert scored.evals.passed["hallucination"].tolist() == passed
    assert scored.evals.summary()["pass_rate"][0] == sum(passed) / 2


def test_h10_unscored_rows_are_outside_the_pass_rate():
    """A skipped row is NA in `passed`, and in no denominator."""
    rows = [{"output": "a b", "dataset_output": truth} for truth in ("a b", None, "a", "c", "a b")]

    scored = ef.run_experiment(rows, evaluators=ef.TokenF1(threshold=0.5))

    assert scored.evals.passed["token_f1"].tolist() == [True, pd.NA, True, False, True]
    row = scored.evals.summary().iloc[0]
    assert (row["n"], row["n_scored"], row["pass_rate"]) == (5, 4, 0.75)
    assert row["mean"] == pytest.approx((1 + 2 / 3 + 0 + 1) / 4)


@pytest.mark.parametrize(
    "evaluator",
    [
        ef.TokenF1(score_range=(0.0, 0.5)),
        ef.JsonDiff(score_range=(0.0, 0.5)),
        ef.Levenshtein(score_range=(0.0, 0.5)),
        ef.SemanticSimilarity(lambda texts: [[1.0]] * len(texts), score_range=(0.0, 0.5)),
        ef.ExactMatch(score_range=(0.0, 0.5)),
    ],
    ids=lambda evaluator: evaluator.name,
)
def test_a_score_outside_the_declared_range_fails_whoever_made_it(evaluator):
    """Also of built-in evaluators; a skipped row stays skipped."""
    rows = [{"output": "a", "dataset_output": "a"}, {"output": "a", "dataset_output": None}]

    scored = ef.run_experiment(rows, evaluators=evaluator)

    errors = scored[f"eval.{evaluator.name}.error"].tolist()
    assert errors[0].startswith("range: returned the score 1.0")
    assert errors[1] == "skipped: no reference"
    assert scored.evals.scores[evaluator.name].isna().all()


def test_a_judged_score_outside_the_declared_range_fails(model):
    """The range is the user's, whatever the formula gives."""
    judge = ef.Faithfulness(model, score_range=(0.0, 0.5))

    scored = ef.run_experiment(EXAMPLES[:1], evaluators=judge)

    assert scored["eval.faithfulness.error"][0].startswith("range: ")


def test_contexts_from_a_csv_file_are_what_they_stand_for(tmp_path):
    """JSON text of a list is that list, for retrieval metrics and judges alike."""
    path = tmp_path / "rows.csv"
    lists = pd.DataFrame({"contexts": ['["Rome", "Paris"]'], "context": ['["Paris"]']})
    lists.to_csv(path, index=False)

    assert ef.run_experiment(str(path), evaluators=ef.MRR()).evals.scores["mrr"].tolist() == [0.5]


def test_a_missing_context_is_not_taken_for_what_was_retrieved():
    """`context` is what is true: `contexts` is no misspelling of it."""
    with pytest.raises(ef.ExperimentError) as caught:
        ef.run_experiment([{"contexts": ["a"]}], evaluators=ef.MRR())

    assert "'context' binds to nothing" in str(caught.value)
    assert "Did you mean" not in str(caught.value)


def test_usage_is_in_the_order_of_the_evaluators(model):
    """Not in the order in which they came to ask."""
    judges = [ef.Faithfulness(model, name=name) for name in ("b", "a", "c")]

    scored = ef.run_experiment(EXAMPLES, evaluators=judges)

    assert scored.evals.usage()["evaluator"].tolist() == ["b", "a", "c"]
