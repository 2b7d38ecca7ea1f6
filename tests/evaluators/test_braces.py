"""Templates with fields in braces: `evalframe.evaluators.braces`."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.evaluators.braces import DOUBLE, SINGLE, BracesError, as_jinja, style_of
from evalframe.llm.prompts import Prompt


def filled(template, item):
    """The template with these values, by way of Jinja."""
    text, _ = as_jinja(template, style_of(template))
    return Prompt(text).render(item)[0]["content"]


ITEM = {"output": "O", "x": "X", "größe": "G"}
FILLED = [
    pytest.param("{output}", "O", id="single"),
    pytest.param("{{ output }}", "O", id="double"),
    pytest.param("{{output}}", "O", id="double-tight"),
    pytest.param("{{\toutput\n}}", "O", id="double-white-space"),
    pytest.param("{output}{x}{output}", "OXO", id="several"),
    pytest.param("{größe} {output}", "G O", id="beyond-ascii"),
    pytest.param('{{"a": {output}}}', '{"a": O}', id="single-doubled-braces"),
    pytest.param("{output} {{}}", "O {}", id="single-doubled-empty"),
    pytest.param('{"a": "{{ output }}", "b": {}}', '{"a": "O", "b": {}}', id="double-json"),
    pytest.param('{"a": {"b": {{output}}}}', '{"a": {"b": O}}', id="double-json-closing"),
    pytest.param("{{{output}}}", "{O}", id="triple-is-one-text-in-both"),
    pytest.param("{{{output}}} {x}", "{O} X", id="triple-beside-single"),
    pytest.param("{{{output}}} {{ x }}", "{O} X", id="triple-beside-double"),
    pytest.param("{{ output }} {x!r} {0} {x.y}", "O {x!r} {0} {x.y}", id="double-text"),
    pytest.param("{% raw %}{{ output }}{# no #}", "{% raw %}O{# no #}", id="jinja-is-text"),
    pytest.param("{output} {{% raw %}} {{# no #}}", "O {% raw %} {# no #}", id="jinja-single"),
    pytest.param("100% {output}\n", "100% O\n", id="line-break-at-the-end"),
    pytest.param("{output}\r\n\r", "O\r\n\r", id="line-breaks-of-others-single"),
    pytest.param("{{ output }}\r\n\r", "O\r\n\r", id="line-breaks-of-others-double"),
]


@pytest.mark.parametrize(("template", "text"), FILLED)
def test_fields_are_filled_and_the_rest_is_text(template, text):
    """Also what Jinja would take for its own."""
    assert filled(template, ITEM) == text


VALUES = ["{x}", "{{ x }}", "{% raw %}", "{{{{", "}}", "%s {0!r}", "{{ '{' }}"]


@pytest.mark.parametrize("template", ["<{output}>", "<{{ output }}>"], ids=["single", "double"])
@pytest.mark.parametrize("value", VALUES)
def test_braces_in_a_value_come_through(template, value):
    """Data is no template."""
    assert filled(template, {"output": value, "x": "X"}) == f"<{value}>"


LETTERS = st.text(st.sampled_from("{}% #a'\"\\-\n\r"), max_size=12)


@given(st.lists(st.tuples(LETTERS, st.sampled_from(["output", "x"])), max_size=4), LETTERS, LETTERS)
def test_single_braces_are_filled_as_python_fills_them(parts, last, value):
    """Of any text, doubled: what `str.format` makes of it."""
    double = str.maketrans({"{": "{{", "}": "}}"})
    template = "".join(f"{text.translate(double)}{{{name}}}" for text, name in parts)
    template += last.translate(double)
    item = {"output": value, "x": "X"}
    text, names = as_jinja(template, SINGLE)

    assert Prompt(text).render(item)[0]["content"] == template.format(**item)
    found = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    assert names == list(dict.fromkeys(found))


@given(LETTERS.filter(lambda text: "{{" not in text), LETTERS)
def test_text_around_double_braces_stays_as_it_is(text, value):
    """Single braces included."""
    template = f"{text.rstrip('{')}{{{{ output }}}}{text.rstrip('{').lstrip('}')}"
    expected = f"{text.rstrip('{')}{value}{text.rstrip('{').lstrip('}')}"
    jinja, _ = as_jinja(template, DOUBLE)

    assert Prompt(jinja).render({"output": value})[0]["content"] == expected


@pytest.mark.parametrize(
    "template",
    ["{output} {{ x }}", "{{x}} and {output}", '{"a": {output}, "b": "{{ x }}"}'],
)
def test_fields_of_both_kinds_are_refused(template):
    """Which of them are fields cannot be told; both are named."""
    with pytest.raises(BracesError, match=r"\{output\} and \{\{ ?x ?\}\} are fields of two kinds"):
        style_of(template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param("{}", "the field {} is no plain name", id="positional"),
        pytest.param("{0}", "the field {0} is no plain name", id="number"),
        pytest.param("{output!r}", "the field {output!r} is", id="conversion"),
        pytest.param("{output:>9}", "the field {output:>9} is", id="format"),
        pytest.param("{output:{x}}", "{output:{x}} is no plain name", id="nested"),
        pytest.param("{output.x}", "the field {output.x} is", id="attribute"),
        pytest.param("{output[0]}", "the field {output[0]} is", id="index"),
        pytest.param("{ output }", "the field { output } is", id="space"),
        pytest.param('{"label": "good"} {output}', "written twice", id="json"),
        pytest.param("{output} }", "Single '}' encountered", id="alone"),
        pytest.param("{output} {", "Single '{' encountered", id="alone-opening"),
        pytest.param("{{ output.x }}", "'{{ output.x }}' is no field", id="double-attribute"),
        pytest.param("{{ output[0] }}", "'{{ output[0] }}' is no field", id="double-index"),
        pytest.param("{{ output | upper }}", "is no field", id="filter"),
        pytest.param("{{ item.output }}", "'{{ item.output }}' is no field", id="item"),
        pytest.param("{{ output }} {{ 1 }}", "'{{ 1 }}' is no field", id="double-number"),
        pytest.param("{{ output }} {{", "'{{' is no field", id="double-open"),
        pytest.param("{{ output }} {{}}", "'{{}}' is no field", id="double-empty"),
    ],
)
def test_anything_but_a_plain_name_is_refused(template, message):
    """What it is, and how to write braces that are text."""
    with pytest.raises(BracesError, match=re.escape(message)):
        as_jinja(template, style_of(template))
