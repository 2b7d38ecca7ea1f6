"""Constraints: the strict schema, how it is sent, and every rule checked on what comes back."""

import copy
import enum
import json
import re
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field
from referencing.exceptions import Unresolvable

from evalframe import testing
from evalframe.llm.connect import InvalidReplyError
from evalframe.llm.model import STRUCTURED
from evalframe.llm.structured import (
    ReplyCheck,
    SchemaError,
    choice_schema,
    read_object,
    request_fields,
    strict_schema,
)

TEXT = {"type": "string"}


def closed(**properties):
    """An object of exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nullable(schema):
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def objects_in(schema):
    """Every object schema, wherever it is."""
    if isinstance(schema, list):
        return [found for inner in schema for found in objects_in(inner)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "properties" in schema and "type" in schema else []
    return own + [found for inner in schema.values() for found in objects_in(inner)]


NESTED = {
    "$defs": {
        "claim": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1}, "source": TEXT},
            "required": ["text"],
        }
    },
    "type": "object",
    "title": "Verdict",
    "properties": {
        "verdict": {"enum": ["good", "bad"]},
        "score": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
        "claims": {"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1},
        "main": {"$ref": "#/$defs/claim"},
        "meta": {"type": "object", "properties": {"lang": TEXT}},
    },
    "required": ["verdict", "score", "claims"],
}


def test_every_object_is_closed_and_complete():
    """Those in $defs and in lists included; what is optional may be null instead."""
    claim = closed(text=TEXT, source=nullable(TEXT))

    assert strict_schema(NESTED) == {
        "title": "Verdict",
        **closed(
            verdict={"enum": ["good", "bad"]},
            score={"type": "number", "minimum": 0, "maximum": 1},
            claims={"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1},
            main=nullable({"$ref": "#/$defs/claim"}),
            meta=nullable(closed(lang=nullable(TEXT))),
        ),
        "$defs": {"claim": claim},
    }


def test_callers_schema_is_not_changed():
    """Nor does what is sent share anything with it."""
    before = copy.deepcopy(NESTED)

    sent = strict_schema(NESTED)
    for found in objects_in(sent):
        found.clear()

    assert before == NESTED


def test_properties_keep_their_order():
    """A model answers in it: the reasons before the verdict."""
    schema = {"type": "object", "properties": dict.fromkeys("zay", TEXT), "required": ["a"]}

    assert list(strict_schema(schema)["properties"]) == ["z", "a", "y"]
    assert strict_schema(schema)["required"] == ["z", "a", "y"]


@pytest.mark.parametrize(
    "optional",
    [
        pytest.param({"type": ["string", "null"]}, id="type"),
        pytest.param({"anyOf": [TEXT, {"type": "null"}]}, id="any-of"),
        pytest.param({"type": "null"}, id="null"),
    ],
)
def test_property_that_takes_null_already_is_sent_as_it_is(optional):
    """Not nullable twice."""
    schema = {"type": "object", "properties": {"a": optional}}

    assert strict_schema(schema) == closed(a=optional)


def inside(schema):
    """An object with this schema deep within."""
    step = {"type": "array", "items": {"type": "object", "properties": {"b": schema}}}
    return {"type": "object", "properties": {"a": step}}


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        pytest.param({"type": "object"}, "an object with free keys", id="no-properties"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}},
            "an object with free keys",
            id="typed-keys",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": TEXT}, "additionalProperties": True},
            "an object with free keys",
            id="open",
        ),
        pytest.param({"type": "array"}, "an array needs 'items'", id="array"),
        pytest.param({}, "needs a type", id="anything"),
        pytest.param({"title": "Any"}, "needs a type", id="pydantic-any"),
        pytest.param(True, "True is no schema", id="true"),
        pytest.param({"allOf": [TEXT, {"minLength": 3}]}, "cannot express allOf", id="all-of"),
        pytest.param({"oneOf": [TEXT, {"type": "null"}]}, "cannot express allOf and oneOf"),
        pytest.param({"$ref": "https://example.com/s.json"}, "only references inside", id="remote"),
        pytest.param({"$ref": "other.json#/x"}, "only references inside", id="other-file"),
        *(
            pytest.param({"type": "object", key: {"x": TEXT}}, f"cannot express '{key}'", id=key)
            for key in (
                *("patternProperties", "propertyNames", "unevaluatedProperties", "if", "not"),
                *("dependentRequired", "dependentSchemas", "dependencies"),
            )
        ),
        *(
            pytest.param({"type": "array", key: [TEXT]}, f"cannot express '{key}'", id=key)
            for key in ("prefixItems", "contains", "unevaluatedItems")
        ),
    ],
)
def test_what_strict_mode_cannot_express_is_an_error_that_names_the_path(schema, match):
    """Wherever it is: no row is sent with a constraint that says something else."""
    with pytest.raises(SchemaError, match=rf"^a\[\]\.b: .*{match}"):
        strict_schema(inside(schema))


def test_path_leads_into_definitions_and_options():
    """As far as a reader needs it."""
    free = {"type": "object"}
    defs = {"type": "object", "properties": {"a": TEXT}, "$defs": {"d": inside(free)}}
    options = {"type": "object", "properties": {"a": {"anyOf": [TEXT, free]}}}

    with pytest.raises(SchemaError, match=r"^\$defs\.d\.a\[\]\.b: "):
        strict_schema(defs)
    with pytest.raises(SchemaError, match=r"^a\|1: "):
        strict_schema(options)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array", "items": TEXT}, id="list"),
        pytest.param({"properties": {"a": TEXT}}, id="no-type"),
        pytest.param({}, id="empty"),
    ],
)
def test_schema_must_be_of_an_object(schema):
    """Strict mode takes no other."""
    with pytest.raises(SchemaError, match="must be a JSON Schema of an object"):
        strict_schema(schema)


def test_reference_to_nothing_is_an_error():
    """It would fail on every row."""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/clam"}}, "$defs": {}}

    with pytest.raises(SchemaError, match="'#/\\$defs/clam' leads nowhere"):
        strict_schema(schema)


@pytest.mark.parametrize(
    "key",
    ["default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "$comment"],
)
def test_keyword_that_servers_refuse_is_not_sent(key):
    """A property of that name is."""
    schema = {"type": "object", "properties": {key: {"type": "string", key: 1}}, "required": [key]}

    assert strict_schema(schema) == closed(**{key: TEXT})


class Grade(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Source(BaseModel):
    url: str
    page: int | None = None


class Text(BaseModel):
    kind: Literal["text"]
    text: str


class Number(BaseModel):
    kind: Literal["number"]
    value: float
    unit: str | None = None


class Verdict(BaseModel):
    reasons: list[str]
    grade: Grade
    mood: Literal["kind", "harsh"] = "kind"
    score: float = Field(ge=0, le=1)
    sure: Annotated[float, Field(ge=0, le=1)] | None = None
    source: Source | None = None
    sources: list[Source] = []
    answer: Text | Number = Field(discriminator="kind")


REPLY = {
    "reasons": ["a"],
    "grade": "good",
    "mood": "harsh",
    "score": 0.5,
    "sure": None,
    "source": {"url": "u", "page": None},
    "sources": [],
    "answer": {"kind": "number", "value": 1.5, "unit": None},
}


def test_pydantic_models_are_closed_and_complete():
    """Nested, optional, literal, enum, discriminated: all the way down."""
    sent = strict_schema(Verdict.model_json_schema())
    objects = objects_in(sent)

    assert len(objects) == 4
    assert all(o["required"] == list(o["properties"]) for o in objects)
    assert all(o["additionalProperties"] is False for o in objects)
    assert list(sent["properties"]) == list(Verdict.model_fields)
    assert not re.search("default|discriminator|oneOf", json.dumps(sent))


def test_reply_to_a_pydantic_model_is_valid():
    """With null for what is optional."""
    found = ReplyCheck(Verdict.model_json_schema()).checked(REPLY, "")

    assert Verdict.model_validate(found).answer == Number(kind="number", value=1.5)


def test_model_with_free_keys_is_refused_by_its_path():
    """A dict of unknown keys cannot be asked for."""

    class Call(BaseModel):
        label: str
        args: dict[str, int]

    with pytest.raises(SchemaError, match=r"^args: an object with free keys"):
        strict_schema(Call.model_json_schema())


def test_choices_are_a_schema_with_the_explanation_first():
    """So that the label follows from it."""
    assert choice_schema(["b", "a"], explanation=True) == closed(
        explanation=TEXT, label={"type": "string", "enum": ["b", "a"]}
    )
    assert list(choice_schema(["a"], explanation=False)["properties"]) == ["label"]


SCHEMA = choice_schema(["ja", "né"], explanation=True)


@pytest.mark.parametrize(
    ("form", "labels", "fields"),
    [
        pytest.param(
            "json_schema",
            None,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA},
                }
            },
            id="json_schema",
        ),
        pytest.param(
            "json_object", None, {"response_format": {"type": "json_object"}}, id="json_object"
        ),
        pytest.param(
            "tool",
            None,
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "verdict", "strict": True, "parameters": SCHEMA},
                    }
                ],
                "tool_choice": {"type": "function", "function": {"name": "verdict"}},
            },
            id="tool",
        ),
        pytest.param(
            "guided_choice",
            ["ja", "né"],
            {"guided_json": SCHEMA, "structured_outputs": {"json": SCHEMA}},
            id="guided_choice-explained",
        ),
        pytest.param(
            "guided_choice",
            None,
            {"guided_json": SCHEMA, "structured_outputs": {"json": SCHEMA}},
            id="guided_json",
        ),
        pytest.param("grammar", None, {"json_schema": SCHEMA}, id="grammar-of-a-schema"),
    ],
)
def test_constraint_is_sent_as_the_server_takes_it(form, labels, fields):
    """In fields that servers of that form document."""
    found, _ = request_fields(form, SCHEMA, labels)

    assert found == fields


def test_guided_choice_alone_is_sent_as_the_choice_itself():
    """Without an explanation the label is all of the reply, and no object is asked for."""
    schema = choice_schema(["ja", "né"], explanation=False)
    fields, _ = request_fields("guided_choice", schema, ["ja", "né"])

    assert fields == {
        "guided_choice": ["ja", "né"],
        "structured_outputs": {"choice": ["ja", "né"]},
    }


@pytest.mark.parametrize("form", STRUCTURED)
def test_only_an_unconstrained_object_needs_words(form):
    """The schema, and the word JSON that such servers ask for; no other form adds a message."""
    _, said = request_fields(form, SCHEMA, ["ja", "né"])

    assert (said is not None) == (form == "json_object")
    assert said is None or (json.dumps(SCHEMA, ensure_ascii=False) in said and "JSON" in said)


@pytest.mark.parametrize(
    "labels",
    [["yes", "no"], ["né", "\N{PILE OF POO}"], ['say "x"', "back\\slash"], ["a\nb", "tab\t"]],
    ids=["plain", "letters", "quotes", "control"],
)
def test_grammar_of_a_choice_spells_the_labels_as_json(labels):
    """Every text that it lets through is the object with that label."""
    fields, _ = request_fields("grammar", choice_schema(labels, explanation=False), labels)

    (root,) = fields["grammar"].splitlines()
    texts = [re.sub(r"\\(.)", r"\1", quoted) for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', root)]
    opening, key, *middle, end = texts
    assert [json.loads(opening + key + label + end) for label in middle] == [
        {"label": label} for label in labels
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n ',
        '```\n{"a": 1}\n```',
        '```json\n{"a": 1}\n```',
        '\n```JSON \n{"a": 1}\n  ```\n',
    ],
    ids=["bare", "blanks", "fence", "json-fence", "fence-and-blanks"],
)
def test_object_is_read_as_a_whole(text):
    """One code fence around it is taken off."""
    assert read_object(text) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("GRID: C", id="prose"),
        pytest.param('{"a": 1', id="cut-off"),
        pytest.param('{"a": 1} Ignore the rest', id="and-more"),
        pytest.param('I quote: {"a": 1} {"a": 2}', id="two-objects"),
        pytest.param('{"a": 1}\n{"a": 2}', id="two-lines"),
        pytest.param('Here:\n```json\n{"a": 1}\n```', id="before-the-fence"),
        pytest.param('```json\n{"a": 1}\n```\nDone.', id="behind-the-fence"),
        pytest.param('```\n```json\n{"a": 1}\n```\n```', id="two-fences"),
        pytest.param("{'a': 1}", id="python"),
        pytest.param('{"a": 1,}', id="comma"),
        pytest.param('{"a": NaN}', id="nan"),
        pytest.param('{"a": Infinity}', id="infinity"),
        pytest.param('{"a": -Infinity}', id="minus-infinity"),
        pytest.param('{"a": 1e999}', id="beyond-floats"),
        pytest.param('{"a": 1, "a": 2}', id="key-twice"),
        pytest.param('{"b": {"a": 1, "a": 2}}', id="key-twice-inside"),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_reply_that_is_no_object_is_a_parse_failure(text):
    """Nothing is picked out of it; it may be asked again, and is kept."""
    with pytest.raises(InvalidReplyError, match="the reply is not a JSON object") as caught:
        read_object(text)

    assert (caught.value.kind, caught.value.reply, caught.value.ask_again) == ("parse", text, True)


@pytest.mark.parametrize(("text", "kind"), [("[1]", "list"), ('"a"', "str"), ("null", "NoneType")])
def test_json_that_is_no_object_is_a_parse_failure(text, kind):
    """It says what it is."""
    with pytest.raises(InvalidReplyError, match=f"a JSON {kind}, not an object"):
        read_object(text)


def number(**rules):
    """A schema of one number that must be there."""
    return {"type": "object", "properties": {"n": rules}, "required": ["n"]}


def fate(schema, found):
    """The checked reply, or the kind of its failure."""
    try:
        return ReplyCheck(schema).checked(found, "text")
    except InvalidReplyError as exc:
        return exc.kind


@pytest.mark.parametrize(
    ("rules", "value", "kind"),
    [
        pytest.param({"type": "number", "minimum": 0, "maximum": 1}, 7, "range", id="above"),
        pytest.param({"type": "number", "minimum": 0, "maximum": 1}, -0.1, "range", id="below"),
        pytest.param({"type": "number", "exclusiveMaximum": 1}, 1, "range", id="exclusive"),
        pytest.param({"type": "number", "exclusiveMinimum": 0}, 0, "range", id="exclusive-low"),
        pytest.param(nullable({"type": "number", "maximum": 1}), 3, "range", id="nullable"),
        pytest.param(nullable({"type": "number", "maximum": 1}), "3", "parse", id="nullable-text"),
        pytest.param({"type": "number"}, "0.5", "parse", id="text"),
        pytest.param({"type": "number"}, True, "parse", id="bool-is-no-number"),
        pytest.param({"type": "integer"}, True, "parse", id="bool-is-no-int"),
        pytest.param({"type": "integer"}, 1.5, "parse", id="fraction"),
        pytest.param({"type": "integer"}, "1", "parse", id="int-as-text"),
        pytest.param({"type": "boolean"}, 1, "parse", id="int-is-no-bool"),
        pytest.param({"type": "boolean"}, "true", "parse", id="bool-as-text"),
        pytest.param({"type": "string"}, 1, "parse", id="number-is-no-text"),
        pytest.param({"type": "string"}, None, "parse", id="null-is-no-text"),
        pytest.param({"enum": ["a", "b"]}, "A", "parse", id="case-of-an-enum"),
        pytest.param({"const": 1}, True, "parse", id="const"),
        pytest.param({"type": "string", "minLength": 2}, "a", "parse", id="length"),
        pytest.param({"type": "string", "pattern": "^a"}, "ba", "parse", id="pattern"),
        pytest.param({"type": "array", "items": TEXT}, ["a", 1], "parse", id="item"),
        pytest.param({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "parse"),
        pytest.param({"type": "array", "uniqueItems": True}, [1, 1], "parse", id="unique"),
        pytest.param({"type": "number", "multipleOf": 0.5}, 0.3, "parse", id="multiple"),
    ],
)
def test_reply_that_breaks_a_rule_fails_by_its_kind(rules, value, kind):
    """Nothing is converted or clipped; only a number outside its bounds is `range`."""
    assert fate(number(**rules), {"n": value}) == kind


def test_wrong_type_beside_a_bound_is_a_parse_failure():
    """The reply is no answer, whatever its numbers are."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", "maximum": 1}, "b": {"type": "string"}},
    }

    assert fate(schema, {"a": 3, "b": 4}) == "parse"


@pytest.mark.parametrize(
    ("rules", "value"),
    [({"type": "number", "maximum": 1}, 1), ({"type": "integer"}, 2), ({"type": "integer"}, 2.0)],
)
def test_valid_reply_is_given_as_it_is(rules, value):
    """An integer for a number is one; 2.0 is an integer in JSON."""
    assert fate(number(**rules), {"n": value}) == {"n": value}


def test_missing_and_unknown_properties_follow_the_callers_schema():
    """What must be there, and whether there may be more."""
    open_one = number(type="number")

    assert fate(open_one, {}) == "parse"
    assert fate({**open_one, "additionalProperties": False}, {"n": 1, "m": 2}) == "parse"


def test_failure_says_where_and_what():
    """And keeps the reply."""
    check = ReplyCheck(NESTED)
    with pytest.raises(InvalidReplyError, match=r"\$\.claims\[0\]\.text: .*'text'|\$\.claims") as e:
        check.checked({"verdict": "good", "score": 0, "claims": [{}]}, "the text")

    assert (e.value.reply, e.value.ask_again) == ("the text", True)


def test_null_stands_for_absent_only_where_the_caller_leaves_it_out():
    """Optional and not nullable: absent. Nullable: null. Required: a failure."""
    schema = {
        "type": "object",
        "properties": {
            "optional": TEXT,
            "nullable": {"type": ["string", "null"]},
            "required": TEXT,
        },
        "required": ["required"],
    }

    assert fate(schema, {"optional": None, "nullable": None, "required": "x"}) == {
        "nullable": None,
        "required": "x",
    }
    assert fate(schema, {"optional": "", "nullable": "", "required": None}) == "parse"


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(
            {"type": "array", "items": {"$ref": "#/$defs/claim"}}, id="list-of-references"
        ),
        pytest.param({"anyOf": [TEXT, {"$ref": "#/$defs/claim"}]}, id="any-of"),
        pytest.param(
            {"oneOf": [TEXT, {"$ref": "#/$defs/claim"}], "discriminator": {}}, id="one-of"
        ),
        pytest.param({"allOf": [{"$ref": "#/$defs/claim"}], "default": None}, id="all-of-one"),
    ],
)
def test_null_stands_for_absent_all_the_way_down(wrapped):
    """As the strict schema asks for it there."""
    schema = {"$defs": NESTED["$defs"], "type": "object", "properties": {"a": wrapped}}
    claim = {"text": "t", "source": None}
    value = [claim] if wrapped.get("type") == "array" else claim

    strict_schema(schema)
    checked = fate(schema, {"a": value})

    assert json.dumps(checked) == json.dumps({"a": value}).replace(', "source": null', "")


def test_reply_itself_is_not_changed():
    """It is shared by all who asked for it."""
    found = {"verdict": "good", "score": 0, "claims": [{"text": "t", "source": None}], "main": None}
    before = copy.deepcopy(found)

    ReplyCheck(NESTED).checked(found, "")

    assert found == before


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        pytest.param({"type": "objekt"}, "'objekt' is not valid", id="type"),
        pytest.param(
            number(type="number", minimum="0"), r"'0' is not of type 'number'", id="bound"
        ),
        pytest.param({"type": "object", "required": "a"}, "'a' is not of type 'array'"),
        pytest.param(number(type="string", pattern="("), r"'\(' is not a 'regex'", id="pattern"),
    ],
)
def test_schema_that_is_none_is_refused_when_built(schema, match):
    """Before any row is asked about."""
    with pytest.raises(SchemaError, match=match):
        ReplyCheck(schema)


def test_reference_to_elsewhere_is_never_fetched():
    """Not by the check either: it is unknown, though a server has it."""
    with testing.ChatServer() as server:
        schema = number(**{"$ref": f"{server.base_url}/schema.json"})

        with pytest.raises(Unresolvable):
            ReplyCheck(schema).checked({"n": 1}, "")

    assert server.calls == 0
