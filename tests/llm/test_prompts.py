"""Prompts: what they read, what they print, what they never print, and what they cannot do."""

import json
from datetime import date
from decimal import Decimal

import pytest

from evalframe.llm.prompts import Condition, FieldError, NullFieldError, Prompt, PromptError


def text(template, **item):
    """The user message for a row."""
    (message,) = Prompt(template).render(item)
    return message["content"]


@pytest.mark.parametrize(
    "template",
    [
        'Rate {{ item.output }}. Reply as {"label": "good"} or {x}. 100% {output}',
        "{{ item.output }}\n",
        "  {{ item.output }}  \n\n",
        "{% raw %}{{ x }}{% endraw %} {{ item.output }}",
    ],
    ids=["json-and-braces", "last-newline", "blanks", "raw"],
)
def test_message_is_the_template_with_its_fields_filled_in(template):
    """Single braces, per cents, blanks and the last line break stay as they are."""
    expected = template.replace("{{ item.output }}", "hi")
    expected = expected.removeprefix("{% raw %}").replace("{% endraw %}", "")

    assert text(template, output="hi") == expected


@pytest.mark.parametrize(
    "value",
    [
        "Dear {{ name }} {% raw %}",
        "{{ item.dataset_output }}",
        "{# gone #} {% endfor %} {%- x -%}",
        "if a < b && c == \"d\": print('x')",
        "<b>é</b> &amp; \u2028 \N{PILE OF POO}",
        "%s %(x)s {0} {x} $x ${x} \\n",
    ],
    ids=["markers", "field", "comment", "code", "html", "formats"],
)
def test_data_is_never_a_template_and_never_escaped(value):
    """What a value holds is printed letter by letter, also in a filter or behind a `~`."""
    row = {"output": value, "dataset_output": "SECRET"}

    assert text("A: {{ item.output }}", **row) == f"A: {value}"
    assert text("{{ 'A: ' ~ item.output }}", **row) == f"A: {value}"
    assert text("{{ 'A: %s' % item.output }}", **row) == f"A: {value}"
    assert text("{{ 'A: %s' | format(item.output) }}", **row) == f"A: {value}"
    assert text("{{ [item.output] | join }}", **row) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("x", "x", id="text"),
        pytest.param("", "", id="empty-text"),
        pytest.param(3, "3", id="int"),
        pytest.param(0.5, "0.5", id="float"),
        pytest.param(False, "False", id="bool"),
        pytest.param(Decimal("1.50"), "1.50", id="decimal"),
        pytest.param(date(2024, 5, 1), "2024-05-01", id="date"),
        pytest.param([1, "é", None], '[1, "é", null]', id="list"),
        pytest.param([], "[]", id="empty-list"),
        pytest.param({"k": "<b> é", "n": None}, '{"k": "<b> é", "n": null}', id="dict"),
        pytest.param([date(2024, 5, 1)], '["2024-05-01"]', id="date-in-list"),
    ],
)
def test_values_print_as_text_and_nested_ones_as_json(value, shown):
    """However they get into the text."""
    for template in ("{{ item.x }}", "{{ '' ~ item.x }}", "{{ '%s' % item.x }}"):
        assert text(template, x=value) == shown
    assert text("{{ item.x | string | trim }}", x=value) == shown
    assert text("{{ [item.x, item.x] | join(';') }}", x=value) == f"{shown};{shown}"


def test_tuple_prints_as_a_list():
    """Only right of a `%` it is what Python takes it for: several values."""
    assert text("{{ item.x }}", x=(1, 2)) == "[1, 2]"
    assert text("{{ '%s of %s' % item.x }}", x=(1, 2)) == "1 of 2"


def test_tojson_is_json_and_not_html():
    """With real letters, whatever they are."""
    row = {"metadata": {"k": "<b> é", "n": None}}

    assert text("{{ item.metadata | tojson }}", **row) == '{"k": "<b> é", "n": null}'
    assert json.loads(text("{{ item.metadata | tojson(indent=2) }}", **row)) == row["metadata"]
    assert text("{{ item.metadata | tojson(2) }}", **row).startswith('{\n  "k"')


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        pytest.param("{{ item.d.items }}", "[1, 2]", id="items"),
        pytest.param("{{ item.d.values }}", "v", id="values"),
        pytest.param("{{ item.d.title }}", "T", id="title"),
        pytest.param("{{ item.d['get'] }}", "g", id="get-in-brackets"),
        pytest.param("{{ item.keys }}", "k", id="of-the-row"),
        pytest.param("{{ [item.d] | map(attribute='items') | first }}", "[1, 2]", id="map"),
        pytest.param("{% for d in [item.d] %}{{ d.copy }}{% endfor %}", "c", id="in-a-loop"),
    ],
)
def test_key_named_like_a_method_is_the_key(template, shown):
    """Data has no methods."""
    row = {"d": {"items": [1, 2], "values": "v", "title": "T", "get": "g", "copy": "c"}}

    assert text(template, keys="k", **row) == shown


@pytest.mark.parametrize(
    ("template", "match"),
    [
        pytest.param("{{ item.d.items }}", r"item\.d\.items: 'items' is not there; there is 'a'"),
        pytest.param("{{ item.s.title }}", r"item\.s\.title: a str has no key 'title'"),
        pytest.param("{{ item.s.upper() }}", r"item\.s\.upper: a str has no key 'upper'"),
        pytest.param("{{ item.l.append(1) }}", r"item\.l\.append: a list has no key 'append'"),
        pytest.param("{{ item.n.real }}", r"item\.n\.real: a int has no key 'real'"),
        pytest.param("{{ item.l[7] }}", "there is no item 7 of 2"),
        pytest.param("{{ item.d.b.c }}", r"item\.d\.b\.c: 'b' is not there"),
        pytest.param("{% if item.d.b %}x{% endif %}", r"item\.d\.b: 'b' is not there"),
        pytest.param("{{ item.d.b ~ 'x' }}", r"item\.d\.b: 'b' is not there"),
        pytest.param("{% for x in item.d.b %}x{% endfor %}", r"item\.d\.b: 'b' is not there"),
    ],
    ids=lambda given: given if given.startswith("{") else "",
)
def test_key_that_is_not_there_is_an_error_that_names_the_path(template, match):
    """Nothing is printed for it, and least of all a method."""
    with pytest.raises(FieldError, match=match):
        text(template, d={"a": 1}, s="text", l=[1, 2], n=3)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        pytest.param("{{ item.d.b | default('-') }}", "-", id="default"),
        pytest.param("{{ item.d.b is defined }}", "False", id="defined"),
        pytest.param("{{ item.d['b'] is undefined }}", "True", id="undefined"),
        pytest.param("{{ item.s[0] }}{{ item.l[-1] }}{{ item.l[:1] }}", "t2[1]", id="places"),
        pytest.param(
            "{% for k, v in item.d | items %}{{ k }}={{ v }};{% endfor %}", "a=1;", id="items"
        ),
        pytest.param("{% for k in item.d %}{{ k }}{% endfor %}", "a", id="keys"),
        pytest.param(
            "{% for x in item.l %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% endfor %}",
            "11,22",
            id="loop",
        ),
        pytest.param(
            "{% set n = namespace(s=0) %}{% for x in item.l %}{% set n.s = n.s + x %}{% endfor %}"
            "{{ n.s }}",
            "3",
            id="namespace",
        ),
        pytest.param("{{ item.l | length }} {{ item.s | upper }}", "2 TEXT", id="filters"),
        pytest.param("{{ item.l | map('string') | join('+') }}", "1+2", id="map"),
        pytest.param("{{ item.l | select('in', item.l) | list }}", "[1, 2]", id="select-in-list"),
        pytest.param("{{ item.l | map('string') }}", '["1", "2"]', id="generator"),
        pytest.param("{{ range(3) }}", "[0, 1, 2]", id="range"),
        pytest.param("{{ '%s-%s' % (item.s, item.n) }}", "text-3", id="format-of-two"),
        pytest.param("{{ '%(a)s' % item.d }}", "1", id="format-of-a-dict"),
        pytest.param("{{ '%(x)05d' | format(x=item.n) }}", "00003", id="format-with-names"),
        pytest.param("{{ item.l | upper }}", "[1, 2]", id="text-filter-of-a-list"),
        pytest.param(
            "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(item.s) }}", "[text]", id="macro"
        ),
        pytest.param("{% if item.e %}{{ item.e | length }}{% else %}none{% endif %}", "none"),
        pytest.param("{% if item.l %}{{ item.l | length }}{% else %}none{% endif %}", "2"),
    ],
)
def test_templates_can_do_what_prompts_need(template, shown):
    """Loops, filters, tests, macros, namespaces."""
    assert text(template, d={"a": 1}, s="text", l=[1, 2], n=3, e=[]) == shown


NULL_ROW = {"x": None, "s": "a", "l": ["p", None], "d": {"k": None}, "docs": [{"t": None}]}


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("{{ item.x }}", "x"),
        ("{{ item['x'] }}", "x"),
        ("{{ item.d.k }}", "d.k"),
        ("{{ item.d.k.z }}", "d.k"),
        ("{{ item.x.y }}", "x"),
        ("{{ 'a' ~ item.x }}", "x"),
        ("{{ item.x ~ 'a' }}", "x"),
        ("{{ item.s + item.x }}", "x"),
        ("{{ item.x + item.s }}", "x"),
        ("{{ '%s' % item.x }}", "x"),
        ("{{ '%s %s' % (item.s, item.x) }}", "x"),
        ("{{ '%(k)s' % item.d }}", "d"),
        ("{{ '%s' | format(item.x) }}", "x"),
        ("{{ '%(a)s' | format(a=item.x) }}", "x"),
        ("{{ '%s %s' | format(*item.l) }}", "l"),
        ("{{ item.x | upper }}", "x"),
        ("{{ item.x | string }}", "x"),
        ("{{ item.x | int }}", "x"),
        ("{{ item.x | tojson }}", "x"),
        ("{{ item.x | length }}", "x"),
        ("{{ item.x | list }}", "x"),
        ("{{ item.x | default('-') }}", "x"),
        ("{{ item.s | replace('a', item.x) }}", "x"),
        ("{{ item.s | replace('a', new=item.x) }}", "x"),
        ("{{ item.l | join }}", "l"),
        ("{{ item.l | join(item.x) }}", "x"),
        ("{{ item.docs | join(', ', attribute='t') }}", "docs"),
        ("{{ item.docs | map(attribute='t') | join }}", "docs"),
        ("{{ item.l | map('upper') | join }}", "l"),
        ("{{ item.l | last }}", "l"),
        ("{{ item.l[1] }}", "l"),
        ("{% for a in item.x %}{{ a }}{% endfor %}", "x"),
        ("{% for a in item.l %}{{ a }}{% endfor %}", "l"),
        ("{% for d in item.docs %}{{ d.t }}{% endfor %}", "docs"),
        ("{% set a = item.x %}{{ a }}", "x"),
        ("{% set a %}{{ item.x }}{% endset %}{{ a }}", "x"),
        ("{% set n = namespace(a=item.x) %}{{ n.a }}", "x"),
        ("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(item.x) }}", "x"),
        ("{% filter upper %}{{ item.x }}{% endfilter %}", "x"),
        ("{{ item.s if item.x else item.x }}", "x"),
        ("{{ item.x or item.x }}", "x"),
        ("{{ none }}", ""),
        ("{{ item.s ~ none }}", ""),
    ],
)
def test_null_is_never_printed(template, field):
    """Where a template would print one, the row is not asked about; the field is named."""
    with pytest.raises(NullFieldError) as caught:
        text(template, **NULL_ROW)

    assert caught.value.field in (field, "a value in the prompt")


def test_null_names_the_field_and_its_path():
    """The first one on the way that is null."""
    for template, field in [("{{ item.x }}", "x"), ("{{ item.s }}{{ item.d.k.z }}", "d.k")]:
        with pytest.raises(NullFieldError, match=f"^{field} is null$"):
            text(template, **NULL_ROW)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{% if item.x %}{{ item.x }}{% else %}none{% endif %}", "none"),
        ("{% if item.x is none %}none{% endif %}", "none"),
        ("{{ item.x is none }}{{ item.x == none }}", "TrueTrue"),
        ("{{ item.x or 'none' }}", "none"),
        ("{{ item.x | default('none', true) }}", "none"),
        ("{{ 'some' if item.x is not none else 'none' }}", "none"),
        ("{% if item.x and item.x.y %}a{% else %}b{% endif %}", "b"),
        ("{{ item.x.y is defined }}", "False"),
        ("{{ item.x.y | default('-') }}", "-"),
        ("{% for a in item.l if a %}{{ a }}{% endfor %}", "p"),
        ("{{ item.l | select | join }}", "p"),
        ("{% for a in item.x or [] %}{{ a }}{% else %}none{% endfor %}", "none"),
        ("{{ item.d }}{{ item.l }}", '{"k": null}["p", null]'),
    ],
)
def test_template_that_tests_for_a_null_renders(template, shown):
    """And null inside a list or dict is JSON's."""
    assert text(template, **NULL_ROW) == shown


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ item.__class__ }}",
        "{{ item.output.__class__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ cycler }}",
        "{{ lipsum() }}",
        "{{ joiner() }}",
        "{{ dict(a=1) }}",
        "{{ self.__init__ }}",
        "{{ range.__self__ }}",
        "{{ __import__('os') }}",
        "{{ '' | attr('__class__') }}",
        "{{ item | pprint }}",
        "{{ [1, 2] | random }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
        "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{% set n = namespace() %}{{ n.__class__ }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}{{ n.__class__ }}",
        "{% debug %}",
        "{{ debug() }}",
    ],
)
def test_escape_is_refused_when_the_prompt_is_built(template):
    """No row is ever rendered with it."""
    with pytest.raises(PromptError, match="no valid template"):
        Prompt(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''['__class__'] }}",
        "{{ item['__class__'] }}",
        "{{ item.output['__class__'] }}",
        "{{ item.output['__cl' ~ 'ass__'] }}",
        "{{ [item.output] | map(attribute='__class__') | list }}",
        "{{ [item.output] | map(attribute='__class__.__mro__') | list }}",
        "{{ [item.output] | map('attr', '__class__') | list }}",
        "{{ [item.output] | selectattr('__class__') | list }}",
        "{{ [item.output] | groupby('__class__') }}",
        "{{ [item.output, 'b'] | sort(attribute='__class__') }}",
        "{{ [item.output] | sum(attribute='__class__') }}",
        "{{ [item.output] | unique(attribute='__class__') | list }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{0.__class__}'['format'](1) }}",
        "{{ item.output.format(1) }}",
        "{{ item.output.format_map({}) }}",
        "{{ '%s'.join }}",
        "{{ [].append }}",
        "{{ {}.update }}",
        "{{ item.update({'a': 1}) }}",
        "{{ range }}",
        "{{ namespace }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{% macro m() %}{% endmacro %}{{ m }}",
        "{% macro m() %}{% endmacro %}{{ m._func }}",
        "{% macro m() %}{% endmacro %}{{ m._environment }}",
        "{% for x in [1] %}{{ loop }}{% endfor %}",
        "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
        "{% set n = namespace() %}{{ n }}",
        "{% set n = namespace() %}{{ n['__class__'] }}",
        "{% set n = namespace() %}{{ n._Namespace__attrs }}",
        "{{ item.n.real }}",
    ],
)
def test_escape_leads_nowhere_on_a_row(template):
    """It is an error of the row; nothing of Python is printed, called or changed."""
    row = {"output": "text {0.__class__}", "n": 3}

    with pytest.raises(FieldError):
        text(template, **row)

    assert row == {"output": "text {0.__class__}", "n": 3}


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ item.s * 999999999 }}",
        "{{ [1] * 10**9 }}",
        "{{ 2 ** 100000 }}",
        "{{ 999 ** 999 ** 999 }}",
        "{{ 2.0 ** 100000 }}",
        "{{ range(10**9) }}",
        "{{ range(10**9) | list }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '%(a)999999999d' % {'a': 1} }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ item.s | center(999999999) }}",
        "{{ item.s | center(width=999999999) }}",
        "{{ item.s | indent(999999999) }}",
        "{{ [1] | batch(10**9, 'x') | list }}",
        "{{ [1] | slice(10**9) | list }}",
        "{{ [1] | tojson(10**9) }}",
        "{% set n = namespace(a=9) %}{% for i in range(60) %}{% set n.a = n.a*n.a %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    ],
)
def test_template_that_would_fill_the_memory_fails(template):
    """At once, as an error of the row."""
    with pytest.raises(FieldError, match="the prompt failed"):
        text(template, s="a")


@pytest.mark.parametrize(
    ("template", "match"),
    [
        pytest.param("{{ item.x", "no valid template", id="syntax"),
        pytest.param("a\n\n{% if %}", r"\(line 3\)", id="line"),
        pytest.param("{{ item.x | nope }}", "No filter named 'nope'", id="filter"),
        pytest.param("{{ item.x is nope }}", "No test named 'nope'", id="test"),
        pytest.param(
            "{{ output }}", r"'output' is not known.*Write \{\{ item.output \}\}", id="bare"
        ),
        pytest.param("{{ iten.x }}", r"'iten' is not known.*Did you mean 'item'\?", id="misspelt"),
        pytest.param("{{ a }}{{ b }}", "'a', 'b' is not known", id="several"),
        pytest.param("{% for item in item.l %}{% endfor %}", "'item' is the row", id="loop"),
        pytest.param("{% set item = 1 %}", "'item' is the row", id="set"),
        pytest.param(3, "A prompt is text, or a list of messages", id="number"),
        pytest.param([], "at least one message", id="no-messages"),
        pytest.param(["a"], "A prompt is text, or a list", id="list-of-text"),
        pytest.param([{"role": "user"}], "A prompt is text, or a list", id="no-content"),
        pytest.param([{"role": "judge", "content": ""}], "with a role of", id="role"),
        pytest.param([{"role": "user", "content": None}], "A prompt is text", id="null-content"),
        pytest.param([{"role": "user", "content": "", "name": "x"}], "A prompt is", id="other-key"),
    ],
)
def test_prompt_that_cannot_be_used_is_refused_when_built(template, match):
    """The message says what is wrong, and where."""
    with pytest.raises(PromptError, match=match):
        Prompt(template)


def test_messages_are_templates_each():
    """In their order, with a system prompt before them; each is one pass over the data."""
    prompt = Prompt(
        [
            {"role": "developer", "content": "Be strict about {{ item.topic }}."},
            {"role": "user", "content": "{{ item.output }}"},
            {"role": "assistant", "content": "ok"},
        ],
        system_prompt="You judge {{ item.topic }}.",
    )

    assert prompt.render({"topic": "é", "output": "{{ item.topic }}"}) == [
        {"role": "system", "content": "You judge é."},
        {"role": "developer", "content": "Be strict about é."},
        {"role": "user", "content": "{{ item.topic }}"},
        {"role": "assistant", "content": "ok"},
    ]


def test_callers_messages_are_not_changed():
    """Nor are they looked at again."""
    messages = [{"role": "user", "content": "{{ item.x }}"}]
    prompt = Prompt(messages, system_prompt="s")
    messages[0]["content"] = "other"

    assert len(messages) == 1
    assert prompt.render({"x": "1"})[1]["content"] == "1"


def test_rendering_changes_no_data():
    """A template can sort and set for itself only."""
    row = {"l": [2, 1], "d": {"a": [1]}}

    text("{{ item.l | sort }}{% set x = item.d %}{{ x | dictsort }}", **row)

    assert row == {"l": [2, 1], "d": {"a": [1]}}


@pytest.mark.parametrize(
    ("template", "names", "whole_row"),
    [
        pytest.param("{{ item.a }} {{ item.b.c }} {{ item.a }}", ("a", "b"), False, id="order"),
        pytest.param("{{ item['a b'].c }}", ("a b",), False, id="brackets"),
        pytest.param("{% if item.a %}{{ item.b }}{% endif %}", ("a", "b"), False, id="condition"),
        pytest.param("{% for x in item.a %}{{ x.y }}{% endfor %}", ("a",), False, id="loop"),
        pytest.param("{{ item.a | default(item.b) }}", ("a", "b"), False, id="filter"),
        pytest.param("{% macro m(x=item.a) %}{{ item.b }}{% endmacro %}", ("a", "b"), False),
        pytest.param("{{ item }}", (), True, id="whole"),
        pytest.param("{{ item[item.a] }}", ("a",), True, id="computed"),
        pytest.param("{% set x = item %}{{ x.a }}", (), True, id="renamed"),
        pytest.param("no field", (), False, id="none"),
    ],
)
def test_fields_are_known_from_the_template_alone(template, names, whole_row):
    """So that a misspelt one is found before the run."""
    prompt = Prompt(template)

    assert (set(prompt.names), prompt.whole_row) == (set(names), whole_row)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("item.output | length > 2", True),
        ("item.output == 'no'", False),
        ("item.x is none", True),
        ("item.x", False),
        ("item.meta.topic == 'a' and item.n >= 3", True),
        ("item.meta.other is defined", False),
        ("'ex' in item.output", True),
        ("not item.e", True),
        ("item.n + 1", True),
    ],
)
def test_condition_holds_or_does_not(expression, holds):
    """As Jinja says what is true."""
    row = {"output": "text", "x": None, "meta": {"topic": "a"}, "n": 3, "e": []}

    assert Condition(expression).holds(row) is holds


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        pytest.param("item.x ==", "is no expression", id="syntax"),
        pytest.param("item.__class__", "is no field", id="dunder"),
        pytest.param("output", "'output' is not known", id="bare"),
        pytest.param("true }}{% include 'x' %}{{ 1", "cannot use include", id="more"),
        pytest.param("true }}{{ 1", "is no expression", id="two"),
        pytest.param("'' | attr('x')", "No filter named 'attr'", id="filter"),
    ],
)
def test_condition_that_cannot_be_used_is_refused_when_built(expression, match):
    """The text is shown."""
    with pytest.raises(PromptError, match=match):
        Condition(expression)


def test_condition_on_a_key_that_is_not_there_fails():
    """It is neither true nor false."""
    with pytest.raises(FieldError, match=r"run_if failed.*'other' is not there"):
        Condition("item.meta.other == 1").holds({"meta": {"topic": "a"}})


@pytest.mark.parametrize("expression", ["item.x.y == 1", "item.x | length > 1", "item.x + 1 > 1"])
def test_condition_that_works_on_a_null_names_it(expression):
    """It is neither true nor false."""
    with pytest.raises(NullFieldError, match="x is null"):
        Condition(expression).holds({"x": None})


def test_condition_knows_its_fields():
    """For the same check before the run."""
    condition = Condition("item.a and item.b.c == item['d']")

    assert (condition.names, condition.whole_row) == (("a", "b", "d"), False)
    assert repr(condition) == "Condition(\"item.a and item.b.c == item['d']\")"
