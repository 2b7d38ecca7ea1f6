"""ValidJSON: what is JSON by RFC 8259, and where a text breaks."""

import datetime as dt
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef

DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": [1, 2.5e-3, null, true]}', id="object"),
        pytest.param(' \t\r\n"text"\n', id="white-space-around"),
        pytest.param("0", id="number"),
        pytest.param("null", id="null-as-text"),
        pytest.param('{"a": 1, "a": 2}', id="duplicate-keys"),
        pytest.param("1" * 10_000, id="huge-int"),
        pytest.param("1e999999999", id="huge-exponent"),
        pytest.param('"\\ud800"', id="escaped-surrogate"),
        pytest.param('"\u2028é\U0001f600"', id="unicode"),
        pytest.param("[" * 200 + "]" * 200, id="nested"),
    ],
)
def test_json_text_is_valid(judge, text):
    """Whatever the value, also where Python could not hold it."""
    assert judge(ef.ValidJSON(), [text]) == [True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "Expecting value: line 1 column 1 (char 0)", id="empty"),
        pytest.param("  ", "Expecting value: line 1 column 3 (char 2)", id="blank"),
        pytest.param('{"a": 1', "Expecting ',' delimiter: line 1 column 8 (char 7)", id="torn"),
        pytest.param("{'a': 1}", "Expecting property name enclosed in double", id="python-quotes"),
        pytest.param("[1, 2,]", None, id="trailing-comma"),
        pytest.param("[1] [2]", "Extra data: line 1 column 5 (char 4)", id="two-values"),
        pytest.param('```json\n{"a": 1}\n```', "Expecting value", id="code-fence"),
        pytest.param('{"a": NaN}', "NaN is not JSON", id="nan"),
        pytest.param("-Infinity", "-Infinity is not JSON", id="infinity"),
        pytest.param("01", "Extra data", id="leading-zero"),
        pytest.param("1.", "Extra data", id="no-digit-after-the-point"),
        pytest.param("\u0661", "Expecting value", id="digit-of-another-script"),
        pytest.param('"a\nb"', "Invalid control character", id="line-break-in-a-string"),
        pytest.param("\u00a01", "Expecting value", id="no-break-space"),
        pytest.param("\ufeff1", "Unexpected UTF-8 BOM", id="byte-order-mark"),
        pytest.param("None", "Expecting value", id="python-none"),
        pytest.param("[" * DEEP + "]" * DEEP, "nested too deeply to be read", id="too-deep"),
    ],
)
def test_other_text_is_not_valid_and_says_where(text, why):
    """The explanation is the parser's; the score is 0.0 and no failure."""
    frame = pd.DataFrame({"output": ["1", text]})

    cells = ef.run_experiment(frame, evaluators=[ef.ValidJSON()], progress=False).evals[
        "valid_json"
    ]

    assert cells["label"].tolist() == ["True", "False"]
    assert cells["score"].tolist() == [1.0, 0.0]
    assert pd.isna(cells["explanation"][0])
    assert cells["explanation"][1].startswith(why or "")
    assert cells["error"].isna().all()


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        pytest.param({"a": [1, None, "x", True, 2.5]}, True, id="dict"),
        pytest.param([], True, id="empty-list"),
        pytest.param((1, 2), True, id="tuple"),
        pytest.param(3, True, id="int"),
        pytest.param(False, True, id="bool"),
        pytest.param([10**5_000], True, id="huge-int"),
        pytest.param({"a": float("nan")}, False, id="nan-inside"),
        pytest.param(float("inf"), False, id="infinity"),
        pytest.param([dt.date(2024, 5, 1)], False, id="date-inside"),
        pytest.param(b"{}", False, id="bytes"),
        pytest.param(None, False, id="null"),
    ],
)
@pytest.mark.parametrize("others", [[], ['{"a": 1}']], ids=["alone", "beside-text"])
def test_what_is_read_already_is_valid_if_json_can_express_it(judge, value, valid, others):
    """An output that is a dict or a list needs no text; a date in it has no JSON form."""
    assert judge(ef.ValidJSON(), [value, *others]) == [valid] + [True] * len(others)


def test_the_explanation_says_what_json_cannot_express():
    """The type, or the number."""
    frame = pd.DataFrame({"output": [[dt.date(2024, 5, 1)], [float("nan")]]}, dtype=object)

    cells = ef.run_experiment(frame, evaluators=[ef.ValidJSON()], progress=False).evals[
        "valid_json"
    ]

    assert cells["explanation"].tolist() == ["a date is not JSON", "nan is not JSON"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(value=json_values, indent=st.none() | st.integers(0, 2), ascii_only=st.booleans())
def test_what_json_writes_is_valid_and_torn_off_is_not(value, indent, ascii_only):
    """Every text of json.dumps; without its last bracket or quote it is none."""
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)

    result = ef.ValidJSON().evaluate(pd.Series([text, text[:-1]], dtype="string"))

    assert result["score"].to_pylist() == [True, False]
