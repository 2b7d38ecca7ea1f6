"""Text forms: whole columns get what single texts get."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.evaluators.text_form import NORMAL_FORMS, TextForm

# All white space of str.split, what looks like it, letters whose case is special, marks.
SPACES = [chr(i) for i in range(0x3001) if chr(i).isspace()]
SPECIAL = [
    *SPACES,
    *"\u200b\ufeff\0\x08",
    *"aAsSkKiIßẞſİıΣσςﬁǅ\u0345",
    *"eé\u0301\u0323\u0307ＯＫ①",
]

texts = (
    st.text(st.sampled_from(SPECIAL), max_size=6)
    | st.text("aB \t\x1f", max_size=6)
    | st.text(max_size=4)
)
forms = st.builds(TextForm, st.booleans(), st.booleans(), st.none() | st.sampled_from(NORMAL_FORMS))


def by_hand(form, text):
    """The form, as its attributes describe it."""

    def normal(text):
        return unicodedata.normalize(form.normal_form, text) if form.normal_form else text

    text = normal(text)
    if form.ignore_case:
        text = normal(text.casefold())
    return " ".join(text.split()) if form.ignore_whitespace else text


@settings(max_examples=300)
@given(form=forms, column=st.lists(st.none() | texts, max_size=6), cut=st.integers(0, 6))
def test_a_column_gets_the_form_of_each_text(form, column, cut):
    """ASCII or not, in one piece or more; nulls stay nulls."""
    expected = [None if text is None else by_hand(form, text) for text in column]
    pieces = [pa.array(part, pa.large_string()) for part in (column[:cut], column[cut:])]

    whole = form.array(pa.array(column, pa.large_string()))
    chunked = form.array(pa.chunked_array(pieces))

    assert whole.to_pylist() == chunked.to_pylist() == expected
    assert [None if text is None else form.one(text) for text in column] == expected


def test_no_form_is_no_work():
    """Without options a column is passed on as it is."""
    column = pa.array(["A ", None], pa.large_string())

    assert TextForm().array(column) is column


@pytest.mark.parametrize("space", SPACES, ids=lambda space: f"U+{ord(space):04X}")
def test_every_white_space_of_python_counts(space):
    """At both ends and inside, also the ASCII separators that are no white space elsewhere."""
    column = pa.array([f"{space}a{space}{space}b{space}"], pa.large_string())

    assert TextForm(ignore_whitespace=True).array(column).to_pylist() == ["a b"]


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        pytest.param("a b", "a b", id="tidy"),
        pytest.param("a ", "a", id="space-at-the-end"),
        pytest.param(" a", "a", id="space-at-the-start"),
        pytest.param("a  b", "a b", id="two-spaces"),
        pytest.param("a\nb", "a b", id="line-break"),
        pytest.param("a\x1fb", "a b", id="separator"),
        pytest.param("  ", "", id="nothing-else"),
        pytest.param("", "", id="empty"),
    ],
)
def test_ascii_white_space_is_tidied_wherever_it_stands(text, tidy):
    """One reason is enough, and other rows of the column stay as they are."""
    column = pa.array([None, text, "x y"], pa.large_string())

    assert TextForm(ignore_whitespace=True).array(column).to_pylist() == [None, tidy, "x y"]
