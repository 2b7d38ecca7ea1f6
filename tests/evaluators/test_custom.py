"""CustomEval: a template with fields in braces, and a verdict that is correct or incorrect."""

import json

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import label, never, obedient, reply

TEMPLATE = "Q: {question} A: {output}"
ROW = {"question": "1+1?", "output": "2"}


def judge_of(server=None, template=TEMPLATE, *args, **options):
    """A CustomEval that asks the server, if there is one."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0) if server else "openai/x"
    return ef.CustomEval(template, *args, model=model, **options)


@pytest.fixture
def correct(serve):
    """A server whose model finds everything correct."""
    return serve(label("correct", explanation="e"))


def values(scored, field, name="custom_eval"):
    """A column with None for NA."""
    return pa.array(scored[f"eval.{name}.{field}"]).to_pylist()


def prompts(server):
    """The user messages, in the order of the requests."""
    return [request.prompt for request in server.requests]


def asked(server, rows, judge=None, **options):
    """The prompts of a run over these rows."""
    judge = judge or judge_of(server)
    ef.run_experiment(rows, evaluators=[judge], concurrency=1, **options)
    return prompts(server)


# Verdicts.


def test_correct_is_one_and_incorrect_is_zero(serve):
    """With the label, and the explanation that came before it."""
    server = serve([label("correct", explanation="a"), label("incorrect", explanation="b")])
    rows = [{**ROW, "output": text} for text in "xy"]
    scored = ef.run_experiment(rows, evaluators=[judge_of(server)], concurrency=1)

    assert values(scored, "label") == ["correct", "incorrect"]
    assert values(scored, "score") == [1.0, 0.0]
    assert values(scored, "explanation") == ["a", "b"]


@pytest.mark.parametrize("text", ["correct", " Correct\n", "CORRECT"])
def test_a_label_without_json_is_taken_if_it_is_all_there_is(serve, text):
    """Whatever its case; servers that ignore the constraint answer so."""
    scored = ef.run_experiment([ROW], evaluators=[judge_of(serve(reply(text)))])

    assert values(scored, "label") == ["correct"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("correct.", id="full-stop"),
        pytest.param("**correct**", id="markdown"),
        pytest.param("It is fine.\ncorrect", id="last-line"),
        pytest.param("not correct", id="not"),
        pytest.param("incorrect!", id="incorrect"),
        pytest.param(json.dumps({"explanation": "e", "label": "correct."}), id="in-json"),
        pytest.param(json.dumps({"label": True}), id="bool"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*seems to ignore the constraint:UserWarning")
def test_a_reply_that_is_neither_is_never_incorrect(serve, text):
    """Elsewhere a full stop made an answer incorrect: here it is a failed cell."""
    server = serve(reply(text))
    scored = ef.run_experiment([ROW], evaluators=[judge_of(server)])

    assert values(scored, "error")[0].startswith("parse: ")
    assert values(scored, "score") == [None]
    assert values(scored, "reply") == [text]
    assert server.calls == 2


def test_the_choices_are_sent_as_a_strict_schema(correct):
    """The explanation first."""
    ef.run_experiment([ROW], evaluators=[judge_of(correct)])
    schema = correct.requests[0].schema

    assert list(schema["properties"]) == ["explanation", "label"]
    assert schema["properties"]["label"]["enum"] == ["correct", "incorrect"]
    assert schema["additionalProperties"] is False


# Where fields are read.


def test_fields_bind_like_parameters(correct):
    """By role, alias, or column."""
    row = {"query": "q", "reference": "r", "actual_output": "o", "topic": "t"}
    judge = judge_of(correct, "{query}|{input}|{reference}|{output}|{topic}")

    assert asked(correct, [row], judge) == ["q|q|r|o|t"]


def test_a_mapping_says_which_column_each_field_is(correct):
    """A column, a path into one, or a function of the row."""
    sources = {
        "question": "asked",
        "output": "reply.text",
        "day": lambda dataset_row: f"{dataset_row['asked']}!",
    }
    judge = judge_of(correct, "{question}|{output}|{day}", sources)

    assert asked(correct, [{"asked": "q", "reply": {"text": "o"}}], judge) == ["q|o|q!"]


def test_bind_goes_before_the_mapping(correct):
    """It is what changes an evaluator that is there."""
    judge = judge_of(correct, TEMPLATE, {"question": "a", "output": "b"}).bind(question="c")

    assert asked(correct, [{"a": "a", "b": "b", "c": "c"}], judge) == ["Q: c A: b"]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param("variables", {}, id="found"),
        pytest.param("variables", {"variables": "variables"}, id="named"),
        pytest.param("values", {"variables": "values"}, id="another"),
    ],
)
def test_one_column_may_hold_a_dict_of_fields_per_row(correct, column, options):
    """Further keys are of no account, nor are columns named like fields."""
    rows = [
        {column: {**ROW, "more": 1}, "question": "of a column"},
        {column: {"question": "q", "output": {"a": [1]}}, "question": None},
    ]

    assert asked(correct, rows, judge_of(correct, **options)) == [
        "Q: 1+1? A: 2",
        'Q: q A: {"a": [1]}',
    ]


def test_the_column_of_variables_can_be_bound(correct):
    """As any other."""
    judge = judge_of(correct).bind(variables=lambda dataset_row: json.loads(dataset_row["text"]))

    assert asked(correct, [{"text": json.dumps(ROW)}], judge) == ["Q: 1+1? A: 2"]


def test_a_bound_field_is_read_from_the_row_as_all_are_then(correct):
    """Though there is a column of variables, which nobody named."""
    judge = judge_of(correct).bind(output="answer")

    assert asked(correct, [{"variables": ROW, "question": "q", "answer": "a"}], judge) == [
        "Q: q A: a"
    ]


@pytest.mark.parametrize("field", ["output", "contexts"])
def test_a_bound_field_takes_the_place_of_a_key_of_the_column_that_was_named(correct, field):
    """The others are read from its dicts."""
    inner = {"output": "o", "contexts": ["c"]}
    judge = judge_of(correct, "{output} {contexts}", "held").bind(**{field: "other"})

    assert asked(correct, [{"held": inner, "other": ["x"]}], judge) == [
        '["x"] ["c"]' if field == "output" else 'o ["x"]'
    ]


@pytest.mark.parametrize("options", [{}, {"variables": "variables"}], ids=["found", "named"])
def test_a_task_gives_the_output_though_a_dict_holds_one(correct, options):
    """What is judged is what the run made."""
    rows = [{"variables": ROW}]
    judge = judge_of(correct, **options)
    found = asked(correct, rows, judge, task=lambda variables: "made")

    assert found == ["Q: 1+1? A: made"]


@pytest.mark.parametrize("options", [{}, {"variables": "held"}], ids=["itself", "in-a-dict"])
def test_a_field_may_be_called_variables(correct, options):
    """Then that is the column, or a key of the dict whose column was named."""
    row = {"variables": "v", "output": "o", "held": {"variables": "inner", "output": "o"}}
    found = asked(correct, [row], judge_of(correct, "{variables}|{output}", **options))

    assert found == ["inner|o" if options else "v|o"]


@pytest.mark.parametrize("template", ["{output} {contexts}", "{{ output }} {{ contexts }}"])
@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"output": "o"}, id="row"),
        pytest.param({"variables": {"output": "o"}}, id="dict"),
        pytest.param({"variables": {"output": "o", "contexts": ["other"]}}, id="instead-of-dict"),
    ],
)
def test_contexts_are_the_texts_of_the_chunks(correct, template, row):
    """Of the row's own column, where there is one, without blank ones."""
    chunks = [{"document": "a", "relevance": 0.5}, ef.ContextChunk("b", -1.0), ""]
    found = asked(correct, [{**row, "contexts": chunks}], judge_of(correct, template))

    assert found == ['o ["a", "b"]']


def test_contexts_may_be_in_the_dict(correct):
    """Where the row has none."""
    row = {"variables": {"output": "o", "contexts": ["a", {"document": "b"}]}}

    assert asked(correct, [row], judge_of(correct, "{output} {contexts}")) == ['o ["a", "b"]']


def test_contexts_that_are_not_in_the_template_change_nothing(serve):
    """Not even when they are malformed."""
    server = serve(label("correct", explanation="e"))
    rows = [{"variables": ROW, "contexts": [{"document": "a", "relevance": 5.0}]}]
    scored = ef.run_experiment(rows, evaluators=[judge_of(server)])

    assert values(scored, "error") == [None]


def test_fields_that_are_nowhere_are_named_before_the_run():
    """All of them at once."""
    judge = judge_of(template="{output} {question} {day}")

    with pytest.raises(ef.ExperimentError) as caught:
        judge.preview([{"output": "a"}])

    assert ["'question' binds" in text or "'day' binds" in text for text in caught.value.problems]
    assert len(caught.value.problems) == 2


def test_a_column_of_variables_that_is_not_there_is_named():
    """With the name that was given."""
    with pytest.raises(ef.ExperimentError, match="variables='values' names no column"):
        judge_of(variables="values").preview([ROW])


# Rows that are not asked about.


@pytest.mark.parametrize(
    ("row", "error"),
    [
        pytest.param({"output": None}, "skipped: output is null", id="null"),
        pytest.param({"output": ""}, "skipped: output is empty", id="empty"),
        pytest.param({"output": " \n"}, "skipped: output is empty", id="blank"),
        pytest.param({"output": []}, "skipped: output is empty", id="list"),
        pytest.param({"output": {}}, "skipped: output is empty", id="dict"),
        pytest.param({"question": None}, "skipped: question is null", id="other-null"),
    ],
)
@pytest.mark.parametrize("within", [False, True], ids=["columns", "dict"])
def test_a_row_without_output_or_with_a_null_is_skipped(serve, row, error, within):
    """Without a request."""
    server = serve(never())
    found = {**ROW, **row}
    rows = [{"variables": found} if within else found]
    scored = ef.run_experiment(rows, evaluators=[judge_of(server)])

    assert values(scored, "error") == [error]
    assert server.calls == 0


@pytest.mark.parametrize("output", [0, False, 0.0])
def test_an_output_that_is_zero_is_one(correct, output):
    """Only text, lists and dicts can be empty."""
    assert len(asked(correct, [{**ROW, "output": output}])) == 1


@pytest.mark.parametrize(
    ("held", "error"),
    [
        pytest.param(None, "skipped: variables is null", id="null"),
        pytest.param(
            {"output": "o"},
            "template: item.question: 'question' is not there; there is 'output'",
            id="missing-key",
        ),
        pytest.param(
            {"question": "q"},
            "template: item.output: 'output' is not there; there is 'question'",
            id="missing-output",
        ),
        pytest.param(
            "question: q",
            "invalid_result: variables is 'question: q' (str), not a dict of fields",
            id="text",
        ),
    ],
)
def test_a_dict_that_cannot_be_used_ends_its_row_alone(serve, held, error):
    """Other rows are judged."""
    server = serve(label("correct", explanation="e"))
    frame = pd.DataFrame({"variables": pd.Series([held, ROW], dtype=object)})
    scored = ef.run_experiment(frame, evaluators=[judge_of(server)])

    assert values(scored, "error") == [error, None]
    assert server.calls == 1


@pytest.mark.parametrize(
    ("contexts", "error"),
    [
        pytest.param([], "skipped: no contexts", id="empty"),
        pytest.param(None, "skipped: no contexts", id="null"),
        pytest.param([""], "skipped: no contexts", id="blank"),
        pytest.param(
            [{"document": "a", "relevance": 2.0}],
            "invalid_result: the relevance of item 1 of contexts is 2.0 (float); it must be in "
            "[-1, 1]",
            id="relevance",
        ),
    ],
)
def test_contexts_that_a_template_reads_must_be_there_and_in_form(serve, contexts, error):
    """Without a request."""
    server = serve(never())
    rows = [{"output": "o", "contexts": contexts}]
    scored = ef.run_experiment(rows, evaluators=[judge_of(server, "{output} {contexts}")])

    assert values(scored, "error") == [error]
    assert server.calls == 0


def test_run_if_sees_the_fields(correct):
    """Those of the dict too."""
    rows = [{"variables": ROW}, {"variables": {**ROW, "output": "other"}}]
    judge = judge_of(correct, run_if="item.output == '2'")
    scored = ef.run_experiment(rows, evaluators=[judge])

    assert values(scored, "error") == [None, "skipped: run_if"]


def test_run_if_may_read_a_column_called_variables(correct):
    """That is the column, where the fields are read elsewhere."""
    rows = [{**ROW, "variables": {"keep": keep}} for keep in (True, False)]
    judge = judge_of(
        correct,
        TEMPLATE,
        {"question": "question", "output": "output"},
        run_if="item.variables.keep",
    )
    scored = ef.run_experiment(rows, evaluators=[judge])

    assert values(scored, "error") == [None, "skipped: run_if"]


# Building.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["{question}"], "must have the field 'output'.*are 'question'", id="no-output"
        ),
        pytest.param(["Correct?"], "must have the field 'output'.*it has no field", id="no-field"),
        pytest.param([""], "must have the field 'output'", id="empty"),
        pytest.param(["{output} {{ x }}"], "fields of two kinds", id="both"),
        pytest.param(["{output!r}"], "no plain name", id="conversion"),
        pytest.param(
            [TEMPLATE, {"output": "a", "x": "b", "y": "c"}],
            "lacks 'question' of prompt_template. variables has 'x', 'y', of which",
            id="missing-and-unused",
        ),
        pytest.param(
            ["{question}", {"question": "a", "output": "b"}],
            "must have the field 'output'.*variables has 'output', of which",
            id="output-only-mapped",
        ),
        pytest.param([TEMPLATE, {}], "variables lacks 'question', 'output'", id="empty-mapping"),
    ],
)
def test_a_template_and_a_mapping_that_do_not_fit_are_refused_when_built(arguments, message):
    """Everything that is wrong with them, at once."""
    with pytest.raises(ValueError, match=message):
        judge_of(None, *arguments)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        pytest.param([5], {}, "prompt_template must be text, not 5", id="template"),
        pytest.param([None], {}, "prompt_template must be text, not None", id="none"),
        pytest.param([TEMPLATE, 5], {}, "variables must map fields to columns", id="number"),
        pytest.param([TEMPLATE, ["a"]], {}, "variables must map fields", id="list"),
        pytest.param(
            [TEMPLATE, {"question": None, "output": "a"}], {}, "'question' is None", id="source"
        ),
        pytest.param([TEMPLATE], {"system_prompt": 5}, "system_prompt must be text", id="system"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_when_built(arguments, options, message):
    """With what they may be."""
    with pytest.raises(TypeError, match=message):
        judge_of(None, *arguments, **options)


def test_the_system_prompt_is_of_the_same_style(correct):
    """Its fields count, too."""
    judge = judge_of(correct, "{{ output }}", system_prompt='Of {{ topic }}: {"a": {b}}.')
    ef.run_experiment([{"output": "o", "topic": "t"}], evaluators=[judge])

    assert correct.requests[0].system == 'Of t: {"a": {b}}.'
    with pytest.raises(ValueError, match="fields of two kinds"):
        judge_of(correct, "{output}", system_prompt="Of {{ topic }}")


def test_the_prompt_is_the_template_and_can_be_replaced(correct):
    """By another in either style, checked as the first."""
    judge = judge_of(correct, TEMPLATE, threshold=1.0)
    changed = judge.with_prompt("{{ output }}!")

    assert (judge.prompt, changed.prompt) == (TEMPLATE, "{{ output }}!")
    assert changed.with_prompt(TEMPLATE) == judge
    assert asked(correct, [ROW], changed) == ["2!"]
    with pytest.raises(ValueError, match="must have the field 'output'"):
        judge.with_prompt("{question}")


def test_a_template_with_escaped_braces_is_sent_with_single_ones(correct):
    """And what a value holds is sent as it is."""
    rows = [{"output": '{"a": {question}} {{ x }}'}]
    judge = judge_of(correct, 'Rate {output}. Say {{"label": "correct"}}, or {{}}.')

    assert asked(correct, rows, judge) == [
        'Rate {"a": {question}} {{ x }}. Say {"label": "correct"}, or {}.'
    ]


def test_mapping_changes_of_its_owner_change_nothing():
    """A frozen evaluator is made of copies."""
    given = {"question": "a", "output": "b"}
    judge = judge_of(None, TEMPLATE, given)
    given["question"] = "z"

    assert judge == judge_of(None, TEMPLATE, {"question": "a", "output": "b"})
    assert judge.variables == {"question": "a", "output": "b"}


def test_a_well_behaved_model_gives_only_the_two_labels(serve):
    """Of many rows."""
    rows = [{**ROW, "output": str(number)} for number in range(20)]
    scored = ef.run_experiment(rows, evaluators=[judge_of(serve(obedient))])

    assert set(values(scored, "label")) == {"correct", "incorrect"}


def test_variables_may_be_json_text(serve):
    """As a CSV file has them."""
    server = serve(label("correct", explanation="So."))
    rows = [{"variables": '{"output": "4"}'}, {"variables": "{not JSON"}]

    scored = ef.run_experiment(rows, evaluators=[judge_of(server, "Is it {output}?")])

    assert values(scored, "label") == ["correct", None]
    assert server.requests[0].prompt == "Is it 4?"
    assert values(scored, "error")[1].startswith("invalid_result: variables is '{not JSON'")
