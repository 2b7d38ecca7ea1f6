"""The real server enforces what the judge relies on, and ignores what it is known to ignore."""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import openai
import pandas as pd
import pytest

import evalframe as ef

LABELS = ["zq_alpha", "zq_beta", "zq_gamma"]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": LABELS}},
    "required": ["label"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": SCHEMA}}
MESSAGES = [{"role": "user", "content": "What is the capital of France? Answer in a sentence."}]


@pytest.fixture
def complete(real_server):
    """A function: the first choice of a chat completion of MESSAGES."""
    with openai.OpenAI(base_url=real_server.base_url, api_key="none", max_retries=0) as client:

        def ask(**body):
            found = client.chat.completions.create(model="any", messages=MESSAGES, **body)
            return found.choices[0]

        yield ask


def test_enum_of_a_schema_is_enforced_at_any_temperature(complete):
    """Labels that no model would say of itself are all it says, whatever the seed."""

    def label(seed):
        choice = complete(response_format=FORMAT, temperature=2.0, seed=seed, max_tokens=60)
        return json.loads(choice.message.content)["label"]

    with ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(label, range(4)))

    assert set(labels) <= set(LABELS)


def test_field_that_the_server_does_not_know_is_ignored(complete):
    """A constraint in another server's field is answered with free text, and no error."""
    choice = complete(extra_body={"guided_choice": LABELS}, temperature=0.0, max_tokens=12)

    assert choice.message.content.strip() not in LABELS


def test_reply_that_reaches_the_limit_says_so(complete):
    """A reply that is cut off is no JSON, and its finish reason is "length"."""
    choice = complete(response_format=FORMAT, temperature=0.0, max_tokens=3)

    assert choice.finish_reason == "length"


def test_logprobs_come_for_every_token(complete):
    """As many alternatives as were asked for, at every token."""
    choice = complete(logprobs=True, top_logprobs=3, temperature=0.0, max_tokens=4)

    assert [len(token.top_logprobs) for token in choice.logprobs.content] == [3] * 4


def test_request_bodies_are_recorded_as_they_were_sent(real_server, complete):
    """What reaches the server can be looked at after it."""
    with real_server.recording() as bodies:
        complete(response_format=FORMAT, max_tokens=1)

    assert bodies == [
        {"model": "any", "messages": MESSAGES, "response_format": FORMAT, "max_tokens": 1}
    ]


# Through a judge: what is sent, and what becomes of what comes back.

QUESTION = [{"output": MESSAGES[0]["content"]}]
SEEDS = range(20)

# What strict mode takes: objects closed and complete, all the way down.
STRICT = {
    "$ref": "#/$defs/any",
    "$defs": {
        "any": {
            "anyOf": [
                {"required": ["$ref"], "maxProperties": 1},
                {
                    "required": ["anyOf"],
                    "properties": {"anyOf": {"items": {"$ref": "#/$defs/any"}}},
                },
                {
                    "required": ["type", "properties", "required", "additionalProperties"],
                    "properties": {
                        "type": {"const": "object"},
                        "properties": {"additionalProperties": {"$ref": "#/$defs/any"}},
                        "additionalProperties": {"const": False},
                        "$defs": {"additionalProperties": {"$ref": "#/$defs/any"}},
                    },
                },
                {
                    "required": ["type", "items"],
                    "properties": {"type": {"const": "array"}, "items": {"$ref": "#/$defs/any"}},
                },
                {
                    "properties": {
                        "type": {"enum": ["string", "number", "integer", "boolean", "null"]}
                    }
                },
            ]
        }
    },
}
REQUEST = {
    "type": "object",
    "required": ["model", "messages", "response_format"],
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "messages": {
            "minItems": 1,
            "items": {
                "required": ["role", "content"],
                "properties": {
                    "role": {"enum": ["system", "user", "assistant"]},
                    "content": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
        "response_format": {
            "required": ["type", "json_schema"],
            "properties": {
                "type": {"const": "json_schema"},
                "json_schema": {
                    "required": ["name", "strict", "schema"],
                    "properties": {
                        "strict": {"const": True},
                        "name": {"pattern": "^[a-z_-]+$"},
                        "schema": {"type": "object"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    },
}
NESTED = {
    "type": "object",
    "$defs": {
        "Part": {
            "type": "object",
            "properties": {
                "name": {"enum": ["zq_one", "zq_two"]},
                "weight": {"type": "integer", "minimum": 3, "maximum": 4},
            },
            "required": ["name", "weight"],
        }
    },
    "properties": {
        "parts": {
            "type": "array",
            "items": {"$ref": "#/$defs/Part"},
            "minItems": 1,
            "maxItems": 2,
        },
        "inner": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "label": {"enum": ["zq_x", "zq_y"]},
    },
    "required": ["parts", "inner", "score", "label"],
}


def agrees_with_specification(body):
    """Check a request body with another library, by the words of the API."""
    jsonschema.validate(body, REQUEST)
    schema = body["response_format"]["json_schema"]["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(schema, STRICT)


@pytest.fixture
def judge(real_server):
    """A function: a judge that asks the real server, with what is not given filled in."""

    def make(name="j", *, structured=None, model="local/any", **options):
        options.setdefault("prompt", "{{ item.output }}")
        options.setdefault("invalid_retries", 0)
        if "response_format" not in options:
            options = {"choices": LABELS, "explanation": False, **options}
        options["inference_args"] = {
            "temperature": 0.0,
            "seed": 1,
            "max_tokens": 120,
            **options.get("inference_args", {}),
        }
        model = ef.Model(model, base_url=real_server.base_url, max_retries=0, structured=structured)
        return ef.LLMJudge(name, model=model, **options)

    return make


def run(judges, rows=QUESTION):
    """The scored frame, and the kinds of its errors."""
    judges = judges if isinstance(judges, list) else [judges]
    scored = ef.run_experiment(rows, evaluators=judges, concurrency=4, details=True)
    errors = [scored[f"eval.{one.name}.error"][0] for one in judges]
    return scored, [None if pd.isna(text) else text.partition(":")[0] for text in errors]


def hot(judge, **options):
    """One judge for each seed, at a temperature at which the model says anything."""
    args = {"temperature": 2.0, "stop": ["."]}
    return [judge(f"s{n}", inference_args={**args, "seed": n}, **options) for n in SEEDS]


def test_judges_verdicts_are_valid_at_any_temperature(real_server, judge):
    """Twenty seeds at temperature 2: twenty of the choices, at the first asking."""
    with real_server.recording() as bodies, warnings.catch_warnings():
        warnings.simplefilter("error")
        scored, kinds = run(hot(judge))

    assert kinds == [None] * len(SEEDS)
    labels = {scored[f"eval.s{n}.label"][0] for n in SEEDS}
    assert 1 < len(labels) <= len(LABELS)
    assert labels <= set(LABELS)
    assert len(bodies) == len(SEEDS)
    for body in bodies:
        agrees_with_specification(body)


def test_a_constraint_in_a_field_of_another_server_is_noticed(real_server, judge):
    """The same twenty in vLLM's field, which this server ignores: no verdict, one warning."""
    args = {"max_tokens": 40}
    judges = hot(judge, structured="guided_choice")
    judges = [
        judge(one.name, structured="guided_choice", inference_args={**one.inference_args, **args})
        for one in judges
    ]
    with (
        real_server.recording() as bodies,
        pytest.warns(UserWarning, match="seems to ignore the constraint on replies") as caught,
    ):
        scored, kinds = run(judges)

    assert len(caught) == 1
    assert set(kinds) <= {"parse", "truncated"}
    assert "parse" in kinds
    assert all(pd.isna(scored[f"eval.s{n}.label"][0]) for n in SEEDS)
    assert all(body["guided_choice"] == LABELS for body in bodies)


def test_a_nested_schema_comes_back_as_typed_columns(real_server, judge):
    """References, lists, objects and bounds are enforced there and checked here."""
    with real_server.recording() as bodies:
        scored, kinds = run(judge(response_format=NESTED, inference_args={"max_tokens": 400}))

    assert kinds == [None]
    cell = scored.evals["j"].iloc[0]
    assert cell["label"] in ("zq_x", "zq_y")
    assert cell["score"] == (cell["raw_score"] - 1) / 4
    assert {part["name"] for part in json.loads(cell["parts"])} <= {"zq_one", "zq_two"}
    assert isinstance(json.loads(cell["inner"])["ok"], bool)
    (body,) = bodies
    agrees_with_specification(body)


@pytest.mark.parametrize("options", [{}, {"response_format": NESTED}], ids=["choices", "format"])
def test_a_grammar_is_obeyed_too(judge, options):
    """llama.cpp's own fields: GBNF for choices, json_schema for the rest."""
    judge = judge(structured="grammar", inference_args={"max_tokens": 400}, **options)
    _, kinds = run(judge)

    assert kinds == [None]


@pytest.mark.parametrize("form", ["json_object", "tool"])
@pytest.mark.filterwarnings("ignore:.*seems to ignore the constraint:UserWarning")
def test_a_form_that_is_not_enforced_gives_no_wrong_label(judge, form):
    """This server takes any object for json_object, and ignores that a tool was chosen."""
    scored, kinds = run(judge(structured=form, inference_args={"max_tokens": 60}))

    assert kinds[0] in (None, "parse", "truncated")
    assert scored["eval.j.label"].dropna().isin(LABELS).all()
    assert scored["eval.j.label"].isna()[0] == (kinds[0] is not None)


def test_explanation_comes_before_the_label(judge):
    """In the order in which it was asked for; the label still is one of the choices."""
    scored, kinds = run(judge(explanation=True, inference_args={"max_tokens": 400}))

    assert kinds == [None]
    assert isinstance(scored["eval.j.explanation"][0], str)
    assert scored["eval.j.label"][0] in LABELS


def test_confidence_is_of_the_label_among_the_labels(judge):
    """From raw log probabilities, whatever white space or fence is among the tokens."""
    rows = [*QUESTION, {"output": "Is the sky blue?"}]
    scored, kinds = run(judge(choices=["Paris", "London"], confidence=True), rows)

    assert kinds == [None]
    for name in ("confidence", "coverage"):
        assert scored[f"eval.j.{name}"].dropna().between(0, 1).all()
    assert scored["eval.j.confidence"][0] > 0
    # The labels do not hold all of the mass: the model is free to say other things.
    assert scored["eval.j.coverage"][0] < 1


def test_a_truncated_reply_is_asked_again_with_more_room_and_never_read(real_server, judge):
    """Five tokens hold no verdict, nor do ten."""
    with real_server.recording() as bodies:
        scored, kinds = run(judge(invalid_retries=1, inference_args={"max_tokens": 5}))

    assert kinds == ["truncated"]
    assert pd.isna(scored["eval.j.label"][0])
    assert [body["max_tokens"] for body in bodies] == [5, 10]
    assert 5 < scored["eval.j.completion_tokens"][0] <= 15


def test_white_space_in_a_reply_is_no_part_of_it(judge):
    """The model puts line breaks into its JSON: more tokens than the object needs."""
    scored, kinds = run(judge())

    assert kinds == [None]
    assert scored["eval.j.completion_tokens"][0] > 8


def test_a_model_that_the_server_does_not_know_is_answered_for(judge):
    """By the model that is loaded; what answered is in the usage."""
    scored, kinds = run(judge(model="local/no-such-model"))

    assert kinds == [None]
    assert scored.evals.usage()["models"][0]


def test_what_the_server_does_not_check_is_checked_here(judge):
    """A pattern that its grammar cannot express is left out of it in silence."""
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "pattern": "^(?<=a)b$"}},
        "required": ["label"],
    }
    _, kinds = run(judge(response_format=schema))

    assert kinds == ["parse"]


def test_a_prompt_that_is_too_long_is_a_bad_request(judge):
    """At once, with the server's own words."""
    scored, kinds = run(judge(), [{"output": "word " * 20_000}])

    assert kinds == ["bad_request"]
    assert "exceeds the available context size" in scored["eval.j.error"][0]


def test_a_request_that_the_server_refuses_is_a_bad_request(real_server, judge):
    """Of the wrong type: final at once."""
    with real_server.recording() as bodies:
        _, kinds = run(judge(inference_args={"temperature": "hot"}))

    assert kinds == ["bad_request"]
    assert len(bodies) == 1


RETRIEVED = {
    "input": "Where is Rome?",
    "output": "Rome is in Italy.",
    "dataset_output": "Rome is a city in Italy.",
    "retrieval_context": ["Rome is a city in Italy.", "", "Cats purr."],
    "context": ["Rome lies on the Tiber."],
}


@pytest.fixture
def scored_by(real_server):
    """A function: what a judged evaluator's kind says of RETRIEVED; and the bodies it sent."""

    def ask(kind, **inference_args):
        given = {"temperature": 0.0, "seed": 1, "max_tokens": 300, **inference_args}
        model = ef.Model("local/any", base_url=real_server.base_url, max_retries=0)
        judge = kind(model, inference_args=given, invalid_retries=0)
        with real_server.recording() as bodies:
            scored = ef.run_experiment([RETRIEVED], evaluators=[judge])
        return scored.evals[judge.name].iloc[0], bodies

    return ask


@pytest.mark.parametrize("kind", [ef.ContextPrecision, ef.Hallucination])
def test_as_many_verdicts_as_contexts_come_back(scored_by, kind):
    """The server's grammar counts them; what the model thinks of them is no matter here."""
    cell, (body,) = scored_by(kind)

    agrees_with_specification(body)
    assert pd.isna(cell["error"])
    assert 0.0 <= cell["score"] <= 1.0
    contexts = RETRIEVED["retrieval_context" if kind is ef.ContextPrecision else "context"]
    said = json.loads(cell["verdicts"])
    assert len(said) == len(contexts)
    assert {one["verdict"] for one in said} <= {"yes", "no"}


@pytest.mark.parametrize("kind", [ef.Faithfulness, ef.AnswerCorrectness])
def test_statements_come_back_whole_or_the_cell_fails(scored_by, kind):
    """The model may go on and on: then its list is cut off, and never scored."""
    cell, (body,) = scored_by(kind, max_tokens=60)

    agrees_with_specification(body)
    if pd.isna(cell["error"]):
        assert 0.0 <= cell["score"] <= 1.0
    else:
        assert cell["error"].partition(":")[0] in ("truncated", "parse", "skipped")
        assert pd.isna(cell["score"])


@pytest.mark.parametrize("kind", [ef.ContextPrecision, ef.Faithfulness])
def test_a_list_that_is_cut_off_is_no_score(scored_by, kind):
    """Twelve tokens hold no verdict."""
    cell, _ = scored_by(kind, max_tokens=12)

    assert cell["error"].startswith("truncated: ")
    assert pd.isna(cell["score"])
