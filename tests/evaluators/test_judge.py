"""A judge checks its arguments when it is built, and a reply as a whole when it comes."""

import json
import math
import re
from enum import StrEnum
from typing import Literal

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, field_validator

import evalframe as ef
from evalframe.testing import garbage, label, never, obedient, reply, tool_call, truncated

ROWS = [{"output": "a"}]
BASE = ["label", "score", "explanation", "metadata", "error"]
TEXT = pd.StringDtype("pyarrow")
NUMBER = pd.ArrowDtype(pa.float64())
INTEGER = pd.ArrowDtype(pa.int64())
FLAG = pd.ArrowDtype(pa.bool_())


def judge_of(server=None, name="j", **options):
    """A judge with what is not given filled in; it asks the server, if there is one."""
    options.setdefault("prompt", "{{ item.output }}?")
    if "response_format" not in options:
        options.setdefault("choices", ["yes", "no"])
    fields = options.pop("model_options", {})
    model = ef.Model("local/m", base_url=server.base_url, **fields) if server else "openai/x"
    return ef.LLMJudge(name, model=options.pop("model", model), **options)


def object_of(**properties):
    """A schema of an object with these properties, all of them required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def text_of(**more):
    """A schema of text."""
    return {"type": "string", **more}


def number(low=0, high=1, kind="number"):
    """A schema of a number with bounds."""
    return {"type": kind, "minimum": low, "maximum": high}


def judged(server, rows=ROWS, *, run=None, **options):
    """The columns of a run of a judge, under short names."""
    scored = ef.run_experiment(rows, evaluators=[judge_of(server, **options)], **(run or {}))
    return scored.evals["j"]


def cell(frame):
    """The first row without what is NA."""
    return {name: value for name, value in frame.iloc[0].items() if not pd.isna(value)}


REFUSED = [
    pytest.param({"choices": None}, ValueError, "exactly one of choices and resp", id="neither"),
    pytest.param(
        {"choices": ["a"], "response_format": object_of(a=text_of())},
        ValueError,
        "exactly one of choices and response_format",
        id="both",
    ),
    pytest.param({"choices": "yes"}, ValueError, "list of labels.*not 'yes'", id="a-text"),
    pytest.param({"choices": []}, ValueError, r"list of labels.*not \[\]", id="no-choice"),
    pytest.param({"choices": {"a", "b"}}, ValueError, "list of labels", id="set-has-no-order"),
    pytest.param({"choices": 5}, ValueError, "list of labels.*not 5", id="number"),
    pytest.param({"choices": [["a"]]}, ValueError, r"must be text, not \['a'\]", id="list-label"),
    pytest.param({"choices": ["a", 1]}, ValueError, "must be text, not 1", id="number-label"),
    pytest.param({"choices": ["a", " "]}, ValueError, "must be text, not ' '", id="blank-label"),
    pytest.param({"choices": ["Yes", "yes"]}, ValueError, "differ by more than case", id="case"),
    pytest.param({"choices": ["yes", " yes"]}, ValueError, "differ by more", id="space"),
    pytest.param(
        {"choices": {"a": True}}, ValueError, "score of 'a' must be a number, not True", id="bool"
    ),
    pytest.param({"choices": {"a": "1"}}, ValueError, "score of 'a' must be", id="text-score"),
    pytest.param({"choices": {"a": math.nan}}, ValueError, "score of 'a' must be", id="nan"),
    pytest.param({"choices": {"a": None}}, ValueError, "score of 'a' must be", id="null-score"),
    pytest.param(
        {"choices": {"a": 1, "b": 2.0}},
        ValueError,
        r"score 2\.0 of 'b' is outside \[0, 1\]; score_range=",
        id="score-outside",
    ),
    pytest.param({"fields": {"label": "a"}}, ValueError, "choices have none", id="fields"),
    pytest.param({"score_range": (1,)}, ValueError, r"score_range must be.*\(1,\)", id="range"),
    pytest.param({"score_range": (1, 0)}, ValueError, "score_range must be", id="range-upside"),
    pytest.param({"threshold": 2}, ValueError, "threshold must be a number in", id="threshold"),
    pytest.param({"direction": "up"}, ValueError, "direction must be one of", id="direction"),
    pytest.param({"name": "a.b"}, ValueError, "holds a dot", id="name"),
    pytest.param({"model": "gpt"}, ValueError, "must be '<provider>/<model>'", id="model"),
    pytest.param({"model": 5}, TypeError, r"or an ef\.Model, not 5", id="no-model"),
    pytest.param({"explanation": "no"}, TypeError, "explanation must be True or", id="explanation"),
    pytest.param({"confidence": 1}, ValueError, "confidence must be True or", id="confidence"),
    pytest.param({"invalid_retries": -1}, ValueError, "invalid_retries must be 0", id="retries"),
    pytest.param({"invalid_retries": True}, ValueError, "invalid_retries must be", id="retry-bool"),
    pytest.param({"run_if": 5}, ValueError, "a function or a Jinja expression, not 5", id="run-if"),
    pytest.param({"run_if": "item.x >"}, ValueError, "run_if='item.x >' is no exp", id="jinja"),
    pytest.param({"prompt": None}, ValueError, "A prompt is text, or a list", id="no-prompt"),
    pytest.param({"prompt": []}, ValueError, "at least one message", id="no-message"),
    pytest.param({"prompt": "{{ item."}, ValueError, "no valid template", id="bad-template"),
    pytest.param(
        {"prompt": "{{ output }}"}, ValueError, r"Write {{ item\.output }}", id="bare-name"
    ),
    pytest.param({"system_prompt": 5}, ValueError, "A prompt is text", id="system-prompt"),
    pytest.param(
        {"inference_args": {"messages": [], "n": 2}},
        ValueError,
        "the judge itself sets 'messages', 'n'",
        id="own-arguments",
    ),
    pytest.param({"inference_args": {"seed": object()}}, ValueError, "must be JSON", id="no-json"),
]


@pytest.mark.parametrize(("options", "kind", "message"), REFUSED)
def test_what_cannot_be_used_is_refused_when_it_is_built(options, kind, message):
    """With the value and the way out; nothing has been sent."""
    with pytest.raises(kind, match=message):
        judge_of(**options)


def of_format(schema, **options):
    """The options of a judge with a schema."""
    return {"response_format": schema, **options}


SCORE_AND_LABEL = object_of(quality=number(1, 5), verdict=text_of(enum=["a", "b"]))
REFUSED_FORMATS = [
    pytest.param(of_format(5), TypeError, "a JSON Schema or a model class, not 5", id="number"),
    pytest.param(of_format({"type": "string"}), ValueError, "Schema of an object", id="no-object"),
    pytest.param(
        of_format(object_of(score={"type": "number"})),
        ValueError,
        r"'score' has no minimum and maximum.*score_range=\(lowest, highest\)",
        id="score-without-bounds",
    ),
    pytest.param(
        of_format(object_of(score=text_of())), ValueError, "'score' cannot fill the", id="text"
    ),
    pytest.param(
        of_format(object_of(score={"type": "boolean"}), score_range=(2, 3)),
        ValueError,
        "'score' is a boolean, 0 or 1: score_range must hold both",
        id="boolean-outside",
    ),
    pytest.param(
        of_format(object_of(a=text_of(pattern="^["))), ValueError, "is not a 'regex'", id="pattern"
    ),
    pytest.param(
        of_format(object_of(label=number())), ValueError, "'label' cannot fill the", id="label"
    ),
    pytest.param(
        of_format(SCORE_AND_LABEL, fields={"score": "qualty"}),
        ValueError,
        r"no property 'qualty'.*\('quality', 'verdict'\)",
        id="no-such-property",
    ),
    pytest.param(
        of_format(SCORE_AND_LABEL, fields={"scores": "quality"}),
        ValueError,
        "'scores' is no part",
        id="no-such-part",
    ),
    pytest.param(
        of_format(SCORE_AND_LABEL, fields=["quality"]), TypeError, "fields must map", id="a-list"
    ),
    pytest.param(
        of_format(object_of(label=text_of()), explanation=False),
        ValueError,
        "explanation= goes with choices",
        id="explanation",
    ),
    pytest.param(
        of_format(object_of(label=text_of(), args={"type": "object"})),
        ValueError,
        "args: an object with free keys",
        id="free-keys",
    ),
    pytest.param(
        of_format(object_of(a={"$ref": "http://x/y"})), ValueError, "a: only references", id="ref"
    ),
    pytest.param(
        of_format(object_of(a=text_of(), b={"type": "nonsense"})),
        ValueError,
        "no valid JSON Schema",
        id="invalid-schema",
    ),
    pytest.param(
        of_format(object_of(**{"a.b": text_of()})), ValueError, "'a.b' needs a name", id="dot"
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), REFUSED_FORMATS)
def test_a_schema_that_cannot_be_asked_for_is_refused_when_it_is_built(options, kind, message):
    """The message names the property or its path."""
    with pytest.raises(kind, match=message):
        judge_of(**options)


@pytest.mark.parametrize(
    "name",
    [
        *("metadata", "error", "reply", "raw_score", "confidence", "coverage", "latency_s"),
        *("prompt_tokens", "completion_tokens", "cached_tokens", "cost", "from_cache"),
        "fingerprint",
    ],
)
def test_a_property_named_like_a_column_is_refused(name):
    """A reply can never overwrite what evalframe itself says of a cell."""
    with pytest.raises(ValueError, match=f"'{name}' are names of columns every judge has"):
        judge_of(response_format=object_of(label=text_of(), **{name: text_of()}))


def test_a_prompt_that_reads_no_field_warns_where_it_is_written():
    """Every row would be asked the same question."""
    with pytest.warns(UserWarning, match="prompt of judge 'j' reads no field") as caught:
        judge_of(prompt="Evaluate this response...")

    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "further"),
    [
        pytest.param({}, {"reply": TEXT}, id="choices"),
        pytest.param(
            {"confidence": True},
            {"reply": TEXT, "confidence": NUMBER, "coverage": NUMBER},
            id="confidence",
        ),
        pytest.param(
            of_format(
                object_of(
                    s=text_of(),
                    e={"enum": ["a", "b"]},
                    c={"const": "k"},
                    i={"type": "integer"},
                    n={"type": "number"},
                    b={"type": "boolean"},
                    nullable={"type": ["integer", "null"]},
                    union={"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                    mixed={"anyOf": [{"type": "boolean"}, {"type": "string"}]},
                    items={"type": "array", "items": text_of()},
                    inner=object_of(x=number()),
                )
            ),
            {
                "s": TEXT,
                "e": TEXT,
                "c": TEXT,
                "i": INTEGER,
                "n": NUMBER,
                "b": FLAG,
                "nullable": INTEGER,
                "union": FLAG,
                "mixed": TEXT,
                "items": TEXT,
                "inner": TEXT,
                "reply": TEXT,
            },
            id="properties",
        ),
        pytest.param(
            of_format(object_of(score=number(1, 5), label=text_of(), why=text_of())),
            {"why": TEXT, "reply": TEXT, "raw_score": NUMBER},
            id="parts-are-no-extras",
        ),
        pytest.param(
            of_format(SCORE_AND_LABEL, fields={"score": "quality", "label": "verdict"}),
            {"quality": NUMBER, "verdict": TEXT, "reply": TEXT, "raw_score": NUMBER},
            id="mapped-parts-are",
        ),
    ],
)
def test_columns_and_types_are_known_before_the_first_row(serve, options, further):
    """Without any row they are the same as with one."""
    server = serve(obedient)
    types = dict.fromkeys(BASE, TEXT) | {"score": NUMBER} | further

    empty = judged(server, pd.DataFrame({"output": pd.Series([], dtype="string")}), **options)
    full = judged(server, **options)

    assert empty.dtypes.to_dict() == full.dtypes.to_dict() == types
    assert list(full.columns) == list(types)
    assert server.calls == 1


def test_details_are_further_columns(serve):
    """After the judge's own, with their types."""
    found = judged(serve(obedient), run={"details": True})

    assert found.dtypes.to_dict() == {
        **dict.fromkeys(BASE, TEXT),
        "score": NUMBER,
        "reply": TEXT,
        "prompt_tokens": INTEGER,
        "completion_tokens": INTEGER,
        "cached_tokens": INTEGER,
        "cost": NUMBER,
        "from_cache": FLAG,
        "latency_s": NUMBER,
        "fingerprint": TEXT,
    }


def test_extras_are_typed_and_json_is_text(serve):
    """Each property is a column of its own type; lists and objects are JSON text."""
    schema = object_of(
        i={"type": "integer"},
        n={"type": "number"},
        b={"type": "boolean"},
        items={"type": "array", "items": {"type": "integer"}},
    )
    found = judged(serve(reply({"i": 3, "n": 2, "b": False, "items": [1, 2]})), **of_format(schema))

    assert cell(found) == {"i": 3, "n": 2.0, "b": False, "items": "[1, 2]"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param('{"i": 1e400, "n": 0}', "parse: ", id="integer-infinite"),
        pytest.param('{"i": 0, "n": 1e400}', "parse: ", id="number-infinite"),
        pytest.param(f'{{"i": {2**63}, "n": 0}}', "range: 'i' does not fit", id="integer-large"),
        pytest.param(f'{{"i": 0, "n": 1{"0" * 400}}}', "range: 'n' is beyond", id="number-large"),
        pytest.param('{"i": 0, "n": NaN}', "parse: ", id="nan"),
    ],
)
def test_a_number_that_no_column_can_hold_fails_its_cell_alone(serve, said, error):
    """And not the run; the reply is there to be read."""
    schema = object_of(i={"type": "integer"}, n={"type": "number"})
    server = serve(lambda request: reply(said if "bad" in request.prompt else {"i": 1, "n": 2}))
    rows = [{"output": "good"}, {"output": "bad"}]

    found = judged(server, rows, **of_format(schema))

    assert found["i"].tolist()[0] == 1
    assert pd.isna(found["error"][0])
    assert found["reply"][1] == said
    assert re.match(error, found["error"][1])


@pytest.mark.parametrize(
    ("schema", "fields", "answer", "expected"),
    [
        pytest.param(
            object_of(label=text_of(), explanation=text_of()),
            None,
            {"label": "a", "explanation": "e"},
            {"label": "a", "explanation": "e"},
            id="own-names",
        ),
        pytest.param(
            object_of(category=text_of(), reason=text_of()),
            None,
            {"category": "a", "reason": "e"},
            {"label": "a", "explanation": "e", "category": "a", "reason": "e"},
            id="category-and-reason",
        ),
        pytest.param(
            object_of(reasoning=text_of(), ok={"type": "boolean"}),
            None,
            {"reasoning": "e", "ok": True},
            {"explanation": "e", "reasoning": "e", "ok": True},
            id="reasoning",
        ),
        pytest.param(
            object_of(label=text_of(), category=text_of(), reason=text_of(), reasoning=text_of()),
            None,
            {"label": "a", "category": "b", "reason": "c", "reasoning": "d"},
            {"label": "a", "explanation": "c", "category": "b", "reason": "c", "reasoning": "d"},
            id="own-name-goes-first",
        ),
        pytest.param(
            object_of(quality=number(1, 5, "integer")),
            {"score": "quality"},
            {"quality": 4},
            {"score": 0.75, "raw_score": 4.0, "quality": 4},
            id="rescaled",
        ),
        pytest.param(
            object_of(score=number(-1, 1)),
            None,
            {"score": 0},
            {"score": 0.5, "raw_score": 0.0},
            id="rescaled-by-name",
        ),
        pytest.param(
            object_of(score=number(0, 1)),
            None,
            {"score": 0.25},
            {"score": 0.25, "raw_score": 0.25},
            id="unit",
        ),
        pytest.param(
            object_of(score={"type": "boolean"}),
            None,
            {"score": True},
            {"label": "True", "score": 1.0},
            id="boolean",
        ),
        pytest.param(
            object_of(score={"type": "boolean"}, label=text_of()),
            None,
            {"score": False, "label": "bad"},
            {"label": "bad", "score": 0.0},
            id="boolean-keeps-label",
        ),
        pytest.param(
            object_of(score={"anyOf": [number(0, 10), {"type": "null"}]}),
            None,
            {"score": 5},
            {"score": 0.5, "raw_score": 5.0},
            id="nullable",
        ),
        pytest.param(
            object_of(score={"anyOf": [number(0, 10), {"type": "null"}]}, note=text_of()),
            None,
            {"score": None, "note": "n"},
            {"note": "n"},
            id="null-score",
        ),
        pytest.param(
            object_of(score={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 4}),
            None,
            {"score": 1},
            {"score": 0.25, "raw_score": 1.0},
            id="open-bounds",
        ),
        pytest.param(
            {**object_of(score={"$ref": "#/$defs/S"}), "$defs": {"S": number(0, 2)}},
            None,
            {"score": 1},
            {"score": 0.5, "raw_score": 1.0},
            id="reference",
        ),
    ],
)
def test_parts_of_the_cell_are_filled_by_properties(serve, schema, fields, answer, expected):
    """By `fields`, by name, by the usual names; a score is rescaled to [0, 1]."""
    found = judged(serve(reply(answer)), **of_format(schema, fields=fields))

    assert cell(found) == expected


def test_a_property_that_no_column_would_hold_is_refused():
    """Of two for one column the other would be lost; before anything is asked."""
    schema = object_of(label=text_of(), kind=text_of())

    with pytest.raises(ValueError, match="the property 'label' would be in no column"):
        ef.LLMJudge(
            "j",
            model="openai/x",
            prompt="{{ item.output }}",
            response_format=schema,
            fields={"label": "kind"},
        )


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        pytest.param(7, {"score": 7.0}, id="inside"),
        pytest.param(0, {"score": 0.0}, id="bound"),
        pytest.param(11, "range: the score 11 is outside [0, 10]", id="above"),
        pytest.param(-0.5, "range: the score -0.5 is outside [0, 10]", id="below"),
    ],
)
def test_a_score_range_is_kept_and_not_rescaled(serve, score, expected):
    """Without bounds in the schema, the given range is what replies are held to."""
    schema = object_of(score={"type": "number"})
    found = judged(serve(reply({"score": score})), **of_format(schema, score_range=(0, 10)))

    assert "raw_score" not in found
    error = found["error"][0]
    assert (cell(found) if pd.isna(error) else error) == expected


def test_a_lone_surrogate_in_a_reply_becomes_a_replacement_character(serve):
    """Wherever it is: no column and no file can hold one."""
    schema = object_of(label=text_of(), note=text_of(), items={"type": "array", "items": text_of()})
    said = '{"label": "a\\ud800", "note": "b\\ud800", "items": ["c\\ud800"]}'
    found = judged(serve(reply(said)), **of_format(schema))

    assert cell(found) == {"label": "a\ufffd", "note": "b\ufffd", "items": '["c\ufffd"]'}


ODD_BODIES = [
    pytest.param({"usage": {"prompt_tokens": 10**30, "completion_tokens": -1}}, id="counts"),
    pytest.param({"usage": {"prompt_tokens": "7", "completion_tokens": True}}, id="types"),
    pytest.param({"usage": 5, "model": None}, id="no-usage"),
    pytest.param({"choices": [{"message": {"content": "yes", "refusal": 5}}]}, id="refusal"),
]


@pytest.mark.parametrize("body", ODD_BODIES)
def test_what_a_server_says_beside_the_reply_ends_no_run(serve, body):
    """A count that cannot be one is no count."""
    usual = {"choices": [{"message": {"content": "yes"}}], "model": "m"}
    server = serve(garbage(json.dumps(usual | body).encode()))
    found = judged(server, run={"details": True})

    assert found["label"].tolist() == ["yes"]
    assert found[["prompt_tokens", "completion_tokens"]].isna().all(axis=None)


class Grade(StrEnum):
    """How good."""

    GOOD = "good"
    BAD = "bad"


class Graded(BaseModel):
    """A reply as a model class, with an inner model and a rule no schema can say."""

    label: Grade
    score: int = Field(ge=1, le=5)
    note: str | None = None
    tone: Literal["warm", "cold"] = "cold"

    @field_validator("note")
    @classmethod
    def not_shouted(cls, value):
        """Refuse capitals."""
        if value and value.isupper():
            message = "must not shout"
            raise ValueError(message)
        return value


def test_a_model_class_is_a_response_format(serve):
    """Its optional fields are asked for as nullable, and null is read as absent."""
    server = serve(reply({"label": "good", "score": 5, "note": None, "tone": "warm"}))
    found = judged(server, **of_format(Graded))

    assert cell(found) == {"label": "good", "score": 1.0, "tone": "warm", "raw_score": 5.0}
    sent = server.requests[0].schema
    assert sent["required"] == ["label", "score", "note", "tone"]
    assert sent["additionalProperties"] is False


def test_a_rule_of_a_model_class_is_checked_too(serve):
    """What its validators refuse is no verdict."""
    said = {"label": "good", "score": 5, "note": "LOUD", "tone": "warm"}
    found = judged(serve(reply(said)), **of_format(Graded, invalid_retries=0))

    assert found["error"][0].startswith("parse: the reply fails the model: ")
    assert "must not shout" in found["error"][0]
    assert '"LOUD"' in found["reply"][0]


def test_a_schema_is_neither_changed_nor_watched(serve):
    """What its owner does to it later changes neither requests nor checks."""
    schema = object_of(label=text_of(enum=["a", "b"]))
    server = serve(reply({"label": "b"}))
    judge = judge_of(server, response_format=schema)
    schema["properties"]["label"]["enum"].remove("b")

    scored = ef.run_experiment(ROWS, evaluators=[judge])

    assert scored["eval.j.label"][0] == "b"
    assert server.requests[0].schema["properties"]["label"]["enum"] == ["a", "b"]


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        pytest.param("json_schema", label("yes", explanation="e"), id="json_schema"),
        pytest.param("json_object", label("yes", explanation="e"), id="json_object"),
        pytest.param("tool", tool_call("verdict", {"explanation": "e", "label": "yes"}), id="tool"),
        pytest.param("grammar", label("yes", explanation="e"), id="grammar"),
    ],
)
def test_every_form_of_constraint_gives_the_same_cell(serve, form, answer):
    """Only json_object, which says nothing of the schema, adds a system message."""
    server = serve(answer)
    found = judged(server, model_options={"structured": form})

    assert cell(found) == {"label": "yes", "explanation": "e"}
    (request,) = server.requests
    assert request.prompt == "a?"
    assert bool(request.system) == (form == "json_object")


def test_guided_choice_is_answered_with_the_label_alone(serve):
    """The whole text is one of the choices, whatever the case and the space around it."""
    server = serve(reply(" YES\n"))
    found = judged(server, model_options={"structured": "guided_choice"}, explanation=False)

    assert cell(found) == {"label": "yes"}
    assert server.requests[0].choices == ["yes", "no"]


def test_choices_are_sent_explanation_first(serve):
    """So that the label follows from it; the user message is exactly the prompt."""
    server = serve(label("no", explanation="e"))
    judged(server, system_prompt="Be {{ item.output }}.", inference_args={"temperature": 0})

    (request,) = server.requests
    body = dict(request.body)
    schema = body.pop("response_format")["json_schema"]
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be a."},
            {"role": "user", "content": "a?"},
        ],
        "temperature": 0,
    }
    assert schema["strict"] is True
    assert list(schema["schema"]["properties"]) == ["explanation", "label"]


def test_explanation_can_be_left_out(serve):
    """Then the label is all that is asked for."""
    server = serve(label("no"))

    assert cell(judged(server, explanation=False)) == {"label": "no"}
    assert list(server.requests[0].schema["properties"]) == ["label"]


def test_choices_may_have_scores_of_another_range(serve):
    """Scores are as given: nothing is rescaled."""
    found = judged(
        serve(label("yes", explanation="e")), choices={"yes": 5, "no": -5}, score_range=(-5, 5)
    )

    assert cell(found) == {"label": "yes", "score": 5.0, "explanation": "e"}


TOKENS = [
    ('{"label": "', {'{"label": "': 0.0}),
    ("yes", {"yes": math.log(0.6), "no": math.log(0.2), "maybe": math.log(0.1)}),
    ('"}', {'"}': 0.0}),
]


def test_confidence_is_the_labels_share_among_the_labels(serve):
    """And coverage what share of all the labels held."""
    server = serve(label("yes", logprobs=TOKENS))
    found = judged(server, explanation=False, confidence=True)

    assert found["confidence"][0] == pytest.approx(0.75)
    assert found["coverage"][0] == pytest.approx(0.8)
    assert server.requests[0].body["logprobs"] is True
    assert server.requests[0].body["top_logprobs"] == 20


def test_the_number_of_alternatives_can_be_given(serve):
    """For servers that give fewer than are asked for by default."""
    server = serve(label("yes", logprobs=TOKENS))
    judged(server, explanation=False, confidence=True, inference_args={"top_logprobs": 5})

    assert server.requests[0].body["top_logprobs"] == 5


def test_confidence_is_missing_where_the_server_gives_no_logprobs(serve):
    """Never a substitute; the verdict stands."""
    found = judged(serve(label("yes", explanation="e")), confidence=True)

    assert cell(found) == {"label": "yes", "explanation": "e"}
    assert found[["confidence", "coverage"]].isna().all(axis=None)


def test_logprobs_are_only_asked_for_where_they_are_used(serve):
    """Some servers refuse a request for them."""
    server = serve(label("yes", explanation="e"))
    judged(server)

    assert not {"logprobs", "top_logprobs"} & set(server.requests[0].body)


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
}
PRICE = {"input": 1.0, "cached_input": 0.5, "output": 2.0}
COST = (60 * 1.0 + 40 * 0.5 + 10 * 2.0) / 1e6


def test_details_say_what_the_cell_itself_was_paid_for(serve):
    """A shared answer was paid for by another cell; the sums are those of `usage`."""
    server = serve(label("yes", explanation="e", usage=USAGE))
    judge = judge_of(server, model_options={"price": PRICE})
    rows = [{"output": text} for text in ("a", "a", "b")]
    scored = ef.run_experiment(rows, evaluators=[judge], details=True)
    found = scored.evals["j"]

    assert sorted(found["prompt_tokens"]) == [0, 100, 100]
    assert sorted(found["cached_tokens"]) == [0, 40, 40]
    assert sorted(found["cost"]) == pytest.approx([0.0, COST, COST])
    assert not found["from_cache"].any()
    (total,) = scored.evals.usage().to_dict("records")
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost"):
        assert total[name] == pytest.approx(found[name].sum())


@pytest.mark.parametrize("invalid_retries", [0, 1, 2])
def test_details_of_a_failed_cell_say_what_it_was_paid_for(serve, invalid_retries):
    """Every reply was paid for, also one that is no verdict."""
    server = serve(reply("{", usage=USAGE))
    judge = judge_of(server, model_options={"price": PRICE}, invalid_retries=invalid_retries)
    scored = ef.run_experiment(ROWS, evaluators=[judge], details=True)

    asked = invalid_retries + 1
    assert server.calls == asked
    assert scored["eval.j.prompt_tokens"][0] == 100 * asked
    assert scored["eval.j.cost"][0] == pytest.approx(COST * asked)
    (total,) = scored.evals.usage().to_dict("records")
    assert (total["prompt_tokens"], total["calls"], total["reasked"]) == (
        100 * asked,
        asked,
        invalid_retries,
    )


def test_cost_is_missing_without_a_price(serve):
    """No list of prices is guessed from."""
    found = judged(serve(label("yes", explanation="e", usage=USAGE)), run={"details": True})

    assert found["cost"].isna().all()
    assert found["prompt_tokens"][0] == 100


def test_an_invalid_reply_is_asked_again(serve):
    """As often as `invalid_retries` says; a valid one then counts."""
    server = serve([reply("{"), reply("}"), label("yes", explanation="e")])

    assert cell(judged(server, invalid_retries=2)) == {"label": "yes", "explanation": "e"}
    assert server.calls == 3


def test_a_truncated_reply_is_asked_again_with_more_room(serve):
    """Never with the identical request."""
    server = serve([truncated(), label("yes", explanation="e")])
    found = judged(server, inference_args={"max_tokens": 50})

    assert cell(found) == {"label": "yes", "explanation": "e"}
    assert [request.body["max_tokens"] for request in server.requests] == [50, 100]


def test_preview_shows_what_would_be_sent_and_sends_nothing(serve):
    """Rendered messages and the schema per row; why a row is not asked about is its error."""
    server = serve(never())
    judge = judge_of(
        server,
        system_prompt="Judge.",
        prompt="{{ item.output }} {{ item.metadata.k }}",
        run_if="item.output != 'skip'",
    )
    frame = pd.DataFrame(
        {"output": ["a", None, "skip", "d"], "m": [{"k": 1}, {"k": 1}, {"k": 1}, {"z": 1}]},
        index=[7, 7, 8, 9],
    )
    shown = judge.preview(frame, 4, metadata="m")

    system = {"role": "system", "content": "Judge."}
    assert shown["messages"].tolist() == [
        [system, {"role": "user", "content": "a 1"}],
        None,
        None,
        None,
    ]
    assert shown["error"].fillna("").tolist() == [
        "",
        "skipped: output is null",
        "skipped: run_if",
        "template: item.metadata.k: 'k' is not there; there is 'z'",
    ]
    assert shown["response_schema"][9] == judge.reading.schema
    assert shown.index.tolist() == [7, 7, 8, 9]
    assert server.calls == 0


def test_preview_shows_three_rows_and_needs_no_key(monkeypatch):
    """It is for trying a prompt before anything is set up."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    assert len(judge_of().preview([{"output": "a"}] * 5)) == 3


def test_preview_reads_the_columns_that_a_run_would_read(serve):
    """A frame that was scored remembers which of its columns is the output."""
    judge = judge_of(serve(label("yes", explanation="e")))
    scored = ef.run_experiment([{"answer": "x"}], evaluators=[judge], output="answer")

    for given in (scored, ef.Dataset([{"answer": "x"}], output="answer")):
        assert judge.preview(given)["messages"][0] == [{"role": "user", "content": "x?"}]


def test_preview_shows_where_a_bound_path_or_function_fails():
    """On that row alone, as the run would."""
    judge = judge_of().bind(output="a.b")
    shown = judge.preview([{"a": {"b": "x"}}, {"a": {"c": "x"}}])

    assert shown["messages"][0] == [{"role": "user", "content": "x?"}]
    assert shown["error"][1] == (
        "exception: PathNotFoundError: the path 'a.b' ends before 'b': it has the keys 'c'"
    )


def test_preview_names_a_field_that_binds_to_nothing():
    """Like the run itself."""
    with pytest.raises(ef.ExperimentError, match="judge 'j': field 'outputs' binds to nothing"):
        judge_of(prompt="{{ item.outputs }}").preview([{"output": "a", "input": "b"}])


def test_a_key_that_is_missing_is_told_before_the_run(monkeypatch):
    """With the name of the variable; so is an unknown provider."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    judges = [judge_of(), judge_of(name="k", model="opnai/x")]

    with pytest.raises(ef.ExperimentError) as caught:
        ef.run_experiment(ROWS, evaluators=judges)

    first, second = caught.value.problems
    assert "set the environment variable OPENAI_API_KEY" in first
    assert "The provider 'opnai' of 'opnai/x' is not known. Did you mean 'openai'?" in second


@pytest.mark.parametrize("key", ["set", "missing"])
def test_preview_shows_the_message_that_says_the_constraint(monkeypatch, key):
    """Where `structured` sends it as a system message; with or without a key in place."""
    monkeypatch.setenv("OPENAI_API_KEY", "k" if key == "set" else "")
    judge = judge_of(model=ef.Model("openai/x", structured="json_object"))
    first, second = judge.preview([{"output": "a"}])["messages"][0]

    assert first["role"] == "system"
    assert json.dumps(judge.reading.schema) in first["content"]
    assert second == {"role": "user", "content": "a?"}


def test_preview_shows_what_is_sent(serve):
    """Message by message, whatever the form of the constraint."""
    for form in ("json_schema", "json_object", "tool", "guided_choice", "grammar"):
        server = serve(label("yes", explanation="e"))
        judge = judge_of(server, model_options={"structured": form}, system_prompt="Judge.")
        ef.run_experiment(ROWS, evaluators=[judge])

        assert judge.preview(ROWS)["messages"][0] == server.requests[0].messages


MESSAGES = [{"role": "user", "content": "{{ item.output }}"}]


@pytest.mark.parametrize("prompt", ["{{ item.output }}?", MESSAGES], ids=["text", "messages"])
def test_the_prompt_is_shown_as_it_was_given(prompt):
    """The template, not what was made of it."""
    assert judge_of(prompt=prompt).prompt == prompt


def test_with_another_prompt_it_is_a_copy_that_differs_in_that_alone():
    """Name and bindings included; the judge itself stays as it is."""
    judge = judge_of(threshold=None, version="2").bind(output="a.b").named("other")
    changed = judge.with_prompt("{{ item.output }}!")

    assert changed.prompt == "{{ item.output }}!"
    assert judge.prompt == "{{ item.output }}?"
    assert changed != judge
    assert changed.with_prompt(judge.prompt) == judge
    assert (changed.name, changed.version, changed.bindings) == ("other", "2", {"output": "a.b"})


def test_another_prompt_is_checked_as_the_first():
    """When the copy is made, not in the run."""
    with pytest.raises(ValueError, match=r"Write {{ item\.output }}"):
        judge_of().with_prompt("{{ output }}")


class Fixed(ef.LLMJudge):
    """A judge whose class sets the prompt."""

    def __init__(self, name):
        super().__init__(name, model="openai/x", prompt="{{ item.output }}", choices=["a", "b"])


def test_a_class_without_the_argument_says_so():
    """There is nothing that it could be made of again."""
    with pytest.raises(TypeError, match="Fixed takes no prompt= to replace"):
        Fixed("j").with_prompt("{{ item.output }}?")
