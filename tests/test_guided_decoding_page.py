"""The guided-decoding page of the documents that evalframe covers, line by line.

Its examples are used as they stand there; the model is a scripted server, which the
environment names as it would name any other address of the provider.
"""

import json

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import label, obedient, reply

CORRECTNESS = {
    "task_type": "auto_evaluation.guided_decoding",
    "alias": "correctness",
    "configuration": {
        "model": "openai/o3-mini",
        "prompt": """
          Given the user's query: {{item.input}},
          The agent's response was: {{item.generated_output}}
          The expected response is: {{item.expected_output}}
          Did the agent's response fully represent the expected response?
        """,
        "choices": ["Yes", "No"],
    },
}

MULTI_RESPONSE = {
    "task_type": "auto_evaluation.guided_decoding",
    "alias": "multi_response_option_judge",
    "configuration": {
        "model": "openai/gpt-4o",
        "prompt": "Evaluate this response...",
        "response_format": {
            "type": "object",
            "properties": {
                "is_helpful": {
                    "type": "boolean",
                    "description": "Whether the response is helpful",
                },
                "quality_score": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "description": "Quality score from 1 to 5",
                },
                "accuracy_score": {
                    "type": "number",
                    "minimum": 0.0,
                    "maximum": 1.0,
                    "description": "Accuracy as a decimal",
                },
                "category": {
                    "type": "string",
                    "enum": ["excellent", "good", "fair", "poor"],
                    "description": "Quality category",
                },
                "reasoning": {
                    "type": "string",
                    "description": "Explanation of the evaluation",
                },
            },
            "required": ["is_helpful", "quality_score", "accuracy_score", "category", "reasoning"],
        },
    },
}

ROW = {
    "input": "What color is the sky?",
    "expected_output": "Blue",
    "generated_output": "The sky appears blue during ...",
}
ASKED = """
          Given the user's query: What color is the sky?,
          The agent's response was: The sky appears blue during ...
          The expected response is: Blue
          Did the agent's response fully represent the expected response?
        """
KEY = "sk-of-the-page-1234"


@pytest.fixture
def openai_at(serve, monkeypatch):
    """A function: the server that the openai provider's variables then point to."""

    def start(script):
        server = serve(script)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        return server

    return start


def multi_response(**changes):
    """The second example with a prompt that reads the row, and other changes."""
    inner = {**MULTI_RESPONSE["configuration"], "prompt": "Evaluate {{ item.generated_output }}"}
    return {**MULTI_RESPONSE, "configuration": {**inner, **changes}}


def test_the_whole_call_of_the_page_runs(openai_at):
    """`client.evaluations.create(name=..., data=..., tasks=...)` as one experiment."""
    server = openai_at(label("Yes", explanation="Both say blue."))
    scored = ef.load_experiment(
        {"name": "Example Correctness Evaluation", "data": [ROW], "tasks": [CORRECTNESS]}
    )

    assert scored.iloc[0, :3].to_dict() == ROW
    found = scored.evals["correctness"].iloc[0]
    assert found[["label", "explanation"]].tolist() == ["Yes", "Both say blue."]
    assert found[["score", "metadata", "error", "reply"]].isna().all()
    assert json.loads(scored.attrs["evalframe"])["experiment_name"] == (
        "Example Correctness Evaluation"
    )
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_the_model_is_named_by_provider_and_name(openai_at):
    """`model · string · required`: <model_provider>/<model_name>."""
    server = openai_at(label("Yes", explanation="e"))
    ef.run_experiment([ROW], evaluators=[CORRECTNESS])

    assert server.requests[0].model == "o3-mini"
    with pytest.raises(ef.ExperimentError, match="lacks 'model'"):
        ef.run_experiment([ROW], evaluators=[{**CORRECTNESS, "configuration": {"prompt": "?"}}])


def test_the_prompt_is_the_user_message_with_data_of_the_item(openai_at):
    """`prompt · string · required`, with every line and blank as it is written."""
    server = openai_at(label("Yes", explanation="e"))
    ef.run_experiment([ROW], evaluators=[CORRECTNESS])

    assert server.requests[0].messages == [{"role": "user", "content": ASKED}]


def test_the_system_prompt_is_the_first_message(openai_at):
    """`system_prompt · string`, optional."""
    server = openai_at(label("Yes", explanation="e"))
    inner = {**CORRECTNESS["configuration"], "system_prompt": "You are a judge."}
    ef.run_experiment([ROW], evaluators=[{**CORRECTNESS, "configuration": inner}])

    assert [message["role"] for message in server.requests[0].messages] == ["system", "user"]
    assert server.requests[0].system == "You are a judge."


def test_the_model_can_only_choose_from_the_choices(openai_at):
    """`choices · string[] · required`, as strict structured output."""
    server = openai_at(label("Yes", explanation="e"))
    ef.run_experiment([ROW], evaluators=[CORRECTNESS])

    sent = server.requests[0].body["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["properties"]["label"]["enum"] == ["Yes", "No"]


def test_further_properties_are_included_in_the_request(openai_at):
    """`inference_args · object`, such as {"temperature": 0}; without them there are none."""
    server = openai_at(label("Yes", explanation="e"))
    inner = {**CORRECTNESS["configuration"], "inference_args": {"temperature": 0}}
    ef.run_experiment([ROW], evaluators=[CORRECTNESS])
    ef.run_experiment([ROW], evaluators=[{**CORRECTNESS, "configuration": inner}])

    plain, warm = (request.body for request in server.requests)
    assert sorted(plain) == ["messages", "model", "response_format"]
    assert warm == {**plain, "temperature": 0}


VERDICT = {
    "is_helpful": True,
    "quality_score": 4,
    "accuracy_score": 0.5,
    "category": "good",
    "reasoning": "Clear and right.",
}


def test_the_second_example_gives_every_property_as_a_column(openai_at):
    """As it stands; its prompt reads no field, of which the user is told."""
    openai_at(reply(VERDICT))
    with pytest.warns(UserWarning, match="multi_response_option_judge' reads no field"):
        scored = ef.load_experiment({"data": [ROW], "tasks": [MULTI_RESPONSE]})

    found = scored.evals["multi_response_option_judge"]
    assert found[list(VERDICT)].iloc[0].to_dict() == VERDICT
    assert found.iloc[0][["label", "explanation"]].tolist() == ["good", "Clear and right."]
    assert found[["score", "error"]].isna().all(axis=None)
    assert [str(found[name].dtype) for name in VERDICT] == [
        "bool[pyarrow]",
        "int64[pyarrow]",
        "double[pyarrow]",
        "string",
        "string",
    ]


def test_a_score_of_the_second_example_is_chosen_by_fields(openai_at):
    """And comes back on the scale of all scores."""
    openai_at(reply(VERDICT))
    scored = ef.run_experiment(
        [ROW], evaluators=[multi_response(fields={"score": "quality_score"})]
    )

    found = scored.evals["multi_response_option_judge"].iloc[0]
    assert (found["score"], found["raw_score"], found["quality_score"]) == (0.75, 4.0, 4)


def test_the_callers_order_and_words_are_sent(openai_at):
    """Properties in their order, descriptions and bounds included, and closed."""
    server = openai_at(obedient)
    ef.run_experiment([ROW], evaluators=[multi_response()])

    given = MULTI_RESPONSE["configuration"]["response_format"]
    assert server.requests[0].schema == {**given, "additionalProperties": False}
    assert list(server.requests[0].schema["properties"]) == list(VERDICT)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param({"quality_score": 6}, "range", id="score-above"),
        pytest.param({"accuracy_score": -0.1}, "range", id="score-below"),
        pytest.param({"quality_score": 4.5}, "parse", id="no-integer"),
        pytest.param({"category": "great"}, "parse", id="no-category"),
        pytest.param({"is_helpful": "yes"}, "parse", id="no-boolean"),
        pytest.param({"reasoning": None}, "parse", id="null"),
        pytest.param({"extra": 1}, None, id="open-schema"),
    ],
)
def test_a_reply_outside_of_the_schema_is_no_verdict(openai_at, change, kind):
    """None of its properties counts; the page's own schema is open, so more may be said."""
    openai_at(reply({**VERDICT, **change}))
    scored = ef.run_experiment([ROW], evaluators=[multi_response()])

    found = scored.evals["multi_response_option_judge"].iloc[0]
    if kind is None:
        assert pd.isna(found["error"])
    else:
        assert found["error"].startswith(f"{kind}: ")
        assert found[["label", "explanation", *VERDICT]].isna().all()
        assert json.loads(found["reply"]) == {**VERDICT, **change}


def test_both_tasks_of_the_page_run_beside_each_other(openai_at):
    """And beside evaluators of code."""
    openai_at(obedient)

    def mentions_blue(generated_output):
        return "blue" in generated_output

    scored = ef.run_experiment([ROW], evaluators=[mentions_blue, CORRECTNESS, multi_response()])

    assert scored.evals.names == ["mentions_blue", "correctness", "multi_response_option_judge"]
    assert scored.evals.failures().empty


def test_data_of_the_item_may_be_any_of_its_fields(openai_at):
    """`{{item.<field>}}`: roles, their aliases, and every other column."""
    server = openai_at(label("Yes", explanation="e"))
    prompt = "{{item.output}} | {{item.dataset_output}} | {{item.actual_output}} | {{item.topic}}"
    inner = {**CORRECTNESS["configuration"], "prompt": prompt}
    ef.run_experiment(
        [{**ROW, "topic": "nature"}], evaluators=[{**CORRECTNESS, "configuration": inner}]
    )

    said = ROW["generated_output"]
    assert server.requests[0].prompt == f"{said} | Blue | {said} | nature"
