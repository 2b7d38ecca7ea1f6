"""The page "Create an Experiment Evaluator" of Arize's documentation, line by line.

Functions are copied from it as they stand; the tables' rows are the parameters. What a user
of that page has written runs here unchanged.
"""

import json

import pandas as pd
import pytest

import evalframe as ef
from evalframe import EvaluationResult

TEXT = pd.StringDtype("pyarrow")


def is_true(output):  # noqa: D103 - as it stands on the page
    # output is the task output
    return output == True  # noqa: E712 - as it stands on the page


def is_equal(dataset_row, output):  # noqa: D103 - as it stands on the page
    expected = dataset_row.get("expected")
    return expected == output


TRACES = pd.DataFrame(
    {
        "attributes.input.value": ["1+1"],
        "attributes.output.value": ["2"],
        "attributes.metadata": [{"topic": "sums"}],
        "latency": [0.25],
    }
)


def said(frame, name="eval"):
    """Label, score and explanation of the first row's cell; None where there is nothing."""
    cell = frame.evals[name].iloc[0]
    assert pd.isna(cell["error"]), cell["error"]
    parts = (cell["label"], cell["score"], cell["explanation"])
    return tuple(None if pd.isna(part) else part for part in parts)


@pytest.mark.parametrize(
    ("output", "expected"),
    [(True, ("True", 1.0, None)), (False, ("False", 0.0, None)), ("true", ("False", 0.0, None))],
    ids=["true", "false", "text"],
)
@pytest.mark.parametrize("form", [is_true, ef.evaluator(is_true)], ids=["plain", "decorated"])
def test_the_simplest_version_of_an_evaluation_function(form, output, expected):
    """`is_true` reads the output of a task and checks it."""
    scored = ef.run_experiment([{"input": "?"}], lambda input: output, [form])

    assert said(scored, "is_true") == expected


def test_dataset_row_is_the_entire_row_including_every_column_as_dictionary_key():
    """Def eval(dataset_row): ..."""

    def eval(dataset_row):  # noqa: A001 - as it stands on the page
        return json.dumps(dataset_row)

    scored = ef.run_experiment(TRACES, lambda input: "two", [eval])

    label, _, _ = said(scored)
    assert json.loads(label) == {
        "attributes.input.value": "1+1",
        "attributes.output.value": "2",
        "attributes.metadata": {"topic": "sums"},
        "latency": 0.25,
    }


def test_input_is_the_run_input_mapped_to_attributes_input_value():
    """Def eval(input): ..."""

    def eval(input):  # noqa: A001 - as it stands on the page
        return input

    scored = ef.run_experiment(TRACES, lambda input: input, [eval])

    assert said(scored) == ("1+1", None, None)
    assert scored["output"].tolist() == ["1+1"]


def test_output_is_the_run_output():
    """Def eval(output): ... - what the task gave, not what was expected."""

    def eval(output):  # noqa: A001 - as it stands on the page
        return output

    scored = ef.run_experiment(TRACES, lambda input: f"{input}=2", [eval])

    assert said(scored) == ("1+1=2", None, None)


def test_dataset_output_is_the_expected_output_mapped_to_attributes_output_value():
    """Def eval(dataset_output): ..."""

    def eval(dataset_output):  # noqa: A001 - as it stands on the page
        return dataset_output

    assert said(ef.run_experiment(TRACES, lambda input: "two", [eval])) == ("2", None, None)
    assert said(ef.run_experiment(TRACES, evaluators=[eval])) == ("2", None, None)


def test_dataset_output_is_there_if_available():
    """Where a row has none it is None; where no column is, a default holds."""

    def eval(dataset_output):  # noqa: A001 - as it stands on the page
        return dataset_output is None

    def lenient(output, dataset_output="nothing"):
        return dataset_output

    null = TRACES.assign(**{"attributes.output.value": [None]})
    absent = TRACES.drop(columns="attributes.output.value")

    assert said(ef.run_experiment(null, evaluators=[eval])) == ("True", 1.0, None)
    assert said(ef.run_experiment(absent, lambda input: "2", [lenient]), "lenient") == (
        "nothing",
        None,
        None,
    )


def test_metadata_is_the_rows_metadata_mapped_to_attributes_metadata():
    """Def eval(metadata): ..."""

    def eval(metadata):  # noqa: A001 - as it stands on the page
        return metadata["topic"]

    assert said(ef.run_experiment(TRACES, evaluators=[eval])) == ("sums", None, None)


def test_the_arguments_are_optional_and_may_be_combined():
    """Any of the five, in any order."""

    def eval(metadata, output, dataset_row, dataset_output, input):  # noqa: A001 - as on the page
        return [input, output, dataset_output, metadata["topic"], dataset_row["latency"]] == [
            "1+1",
            "two",
            "2",
            "sums",
            0.25,
        ]

    assert said(ef.run_experiment(TRACES, lambda input: "two", [eval])) == ("True", 1.0, None)


@pytest.mark.parametrize(
    ("returned", "appears"),
    [
        pytest.param(True, ("True", 1.0, None), id="boolean"),
        pytest.param(1.0, (None, 1.0, None), id="float"),
        pytest.param("reasonable", ("reasonable", None, None), id="string"),
        pytest.param(
            (1.0, "my explanation notes"), (None, 1.0, "my explanation notes"), id="tuple-of-two"
        ),
        pytest.param(
            ("True", 1.0, "my explanation"), ("True", 1.0, "my explanation"), id="tuple-of-three"
        ),
        pytest.param(
            EvaluationResult(score=1, label="reasonable", explanation="explanation", metadata={}),
            ("reasonable", 1.0, "explanation"),
            id="evaluation-result",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async", "vectorized"])
def test_evaluation_outputs_appear_as_the_table_says(returned, appears, kind):
    """Each row of the table of output types, from any kind of evaluator."""

    def eval(output):  # noqa: A001 - as it stands on the page
        return returned

    async def async_eval(output):
        return returned

    made = {
        "sync": ef.evaluator(eval),
        "async": ef.evaluator(async_eval, name="eval"),
        "vectorized": ef.evaluator(
            lambda output: [returned] * len(output), name="eval", vectorized=True
        ),
    }

    scored = ef.run_experiment([{"output": "x"}, {"output": "y"}], evaluators=[made[kind]])

    assert said(scored) == appears


def test_the_metadata_of_an_evaluation_result_is_kept():
    """As JSON text, an empty dict too; null if none is given."""
    results = [
        EvaluationResult(score=1, label="reasonable", explanation="explanation", metadata={}),
        EvaluationResult(score=1, metadata={"model": "v2", "tries": 3}),
        EvaluationResult(label="reasonable"),
    ]

    scored = ef.run_experiment(
        pd.DataFrame({"output": [0, 1, 2]}), evaluators={"eval": lambda output: results[output]}
    )

    metadata = scored["eval.eval.metadata"]
    assert metadata.isna().tolist() == [False, False, True]
    assert metadata[0] == "{}"
    assert json.loads(metadata[1]) == {"model": "v2", "tries": 3}


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        pytest.param(EvaluationResult(label=1), "label 1", id="label-must-be-a-string"),
        pytest.param((2, 1.0, "x"), "tuple", id="label-of-a-tuple-must-be-a-string"),
        pytest.param(1.5, "score 1.5", id="score-above-one"),
        pytest.param(-0.1, "score -0.1", id="score-below-zero"),
        pytest.param(
            EvaluationResult(score=1, explanation=7), "explanation 7", id="explanation-must-be-text"
        ),
        pytest.param(
            EvaluationResult(explanation="x"), "neither a label nor a score", id="no-result"
        ),
        pytest.param(EvaluationResult(), "neither a label nor a score", id="empty-result"),
    ],
)
def test_what_the_page_rules_out_is_a_failed_cell(returned, error):
    """Label a string, score from 0.0 to 1.0, explanation a string, label or score supplied."""
    scored = ef.run_experiment([{"output": "x"}], evaluators={"eval": lambda output: returned})

    cell = scored.evals["eval"].iloc[0]
    assert cell["error"].partition(":")[0] in ("invalid_result", "range")
    assert error in cell["error"]
    assert cell[["label", "score", "explanation", "metadata"]].isna().all()


@pytest.mark.parametrize("score", [0, 0.0, 1, 1.0, 0.5])
def test_the_bounds_of_the_score_are_legal(score):
    """From 0.0 to 1.0, both included."""
    scored = ef.run_experiment([{"output": "x"}], evaluators={"eval": lambda output: score})

    assert said(scored) == (None, float(score), None)


@pytest.mark.parametrize(("answer", "score"), [(2, 1.0), (3, 0.0)])
def test_an_example_which_compares_the_output_to_a_value_in_the_dataset_row(answer, score):
    """`is_equal` with the page's own dataframe."""
    dataframe = pd.DataFrame({"expected": [2]})

    scored = ef.run_experiment(
        dataframe,
        task=lambda dataset_row: answer,
        evaluators=[is_equal],
        experiment_name="",
    )

    pd.testing.assert_frame_equal(scored[["expected"]], dataframe)
    assert said(scored, "is_equal") == (str(score == 1.0), score, None)
