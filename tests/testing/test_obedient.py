"""The obedient script gives what was asked for, wherever the request says it."""

import json

import jsonschema
import pytest

from evalframe.testing import Request, obedient
from evalframe.testing.obedient import instance

VERDICT = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "label": {"enum": ["yes", "no"]}},
    "required": ["explanation", "label"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "verdict", "parameters": VERDICT}}


def request_with(prompt="Is it?", system=None, **body):
    """A request for a completion."""
    first = [] if system is None else [{"role": "system", "content": system}]
    messages = [*first, {"role": "user", "content": prompt}]
    body = {"model": "m", "messages": messages, **body}
    return Request(path="/v1/chat/completions", headers={}, body=body, time=0.0)


def message_for(request):
    """What the model says."""
    return obedient(request).body["choices"][0]["message"]


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(
            {"response_format": {"type": "json_schema", "json_schema": {"schema": VERDICT}}},
            id="json-schema",
        ),
        pytest.param(
            {"response_format": {"type": "json_object", "schema": VERDICT}}, id="json-object"
        ),
        pytest.param({"structured_outputs": {"json": VERDICT}}, id="structured-outputs"),
        pytest.param({"guided_json": VERDICT}, id="guided-json"),
        pytest.param({"system": f"Answer as {json.dumps(VERDICT)}."}, id="system-message"),
    ],
)
def test_schema_is_found_wherever_it_is(where):
    """Each form of a constraint gets a valid object as the content."""
    content = json.loads(message_for(request_with(**where))["content"])

    jsonschema.validate(content, VERDICT)
    assert list(content) == ["explanation", "label"]


def test_tool_is_called():
    """A request with a tool gets a call of it, with valid arguments."""
    call = message_for(request_with(tools=[TOOL]))["tool_calls"][0]["function"]

    assert call["name"] == "verdict"
    jsonschema.validate(json.loads(call["arguments"]), VERDICT)


@pytest.mark.parametrize(
    "where",
    [
        pytest.param({"guided_choice": ["yes", "no"]}, id="guided-choice"),
        pytest.param({"structured_outputs": {"choice": ["yes", "no"]}}, id="structured-outputs"),
    ],
)
def test_choice_is_one_of_the_choices(where):
    """A choice is answered with its bare text."""
    assert message_for(request_with(**where))["content"] in {"yes", "no"}


@pytest.mark.parametrize(
    "system",
    [None, "Be brief.", "Use {curly} braces.", '{"a"'],
    ids=["none", "text", "braces", "cut"],
)
def test_request_without_a_constraint_gets_a_sentence(system):
    """Nothing was asked for, so nothing is guessed."""
    assert message_for(request_with(system=system))["content"].endswith(".")


def test_answers_depend_on_the_prompt_alone():
    """The same prompt is answered the same; different ones are not all."""
    form = {"response_format": {"json_schema": {"schema": VERDICT}}}
    first, again = ([obedient(request_with(f"{n}", **form)) for n in range(20)] for _ in range(2))

    assert first == again
    assert len({reply.body["choices"][0]["message"]["content"] for reply in first}) == 2


def test_text_of_a_message_in_parts_is_read():
    """Content in parts is text too; other parts count as none."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]

    assert request_with(parts).prompt == "ab"


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "integer", "minimum": 1, "maximum": 5}, id="integer"),
        pytest.param({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, id="one"),
        pytest.param({"type": "integer"}, id="any-integer"),
        pytest.param({"type": "number", "minimum": -1, "maximum": 1}, id="number"),
        pytest.param({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, id="open"),
        pytest.param({"type": "boolean"}, id="boolean"),
        pytest.param({"type": "string", "minLength": 50, "maxLength": 60}, id="long-text"),
        pytest.param({"type": "string", "maxLength": 3}, id="short-text"),
        pytest.param({"type": ["string", "null"]}, id="nullable"),
        pytest.param({"const": {"a": 1}}, id="const"),
        pytest.param({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]}, id="any-of"),
        pytest.param({"type": "array", "items": VERDICT, "minItems": 2}, id="array"),
        pytest.param(
            {"$defs": {"a/b": {"enum": [1]}}, "properties": {"x": {"$ref": "#/$defs/a~1b"}}},
            id="reference",
        ),
        pytest.param(
            {
                "$defs": {
                    "node": {
                        "type": "object",
                        "properties": {
                            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                        },
                        "required": ["next", "all"],
                    }
                },
                "$ref": "#/$defs/node",
            },
            id="refers-to-itself",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"v": VERDICT, "x": True},
                "required": ["v", "x"],
            },
            id="nested",
        ),
    ],
)
def test_instance_fits_its_schema(schema):
    """Whatever the seed, the value is valid by an independent validator."""
    for seed in range(30):
        jsonschema.validate(instance(schema, f"{seed}"), schema)
