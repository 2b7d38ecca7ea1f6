"""Where words and sentences begin and end."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.evaluators.pieces import sentences, words


def cut(text, spans):
    """The pieces themselves."""
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("The cat sat.", ["The", "cat", "sat"], id="plain"),
        pytest.param("Don't, it’s well-known", ["Don't", "it’s", "well-known"], id="joined"),
        pytest.param("a - b '' c'", ["a", "b", "c"], id="marks-that-join-nothing"),
        pytest.param("naïve Straße 42 x_1", ["naïve", "Straße", "42", "x_1"], id="letters"),
        pytest.param("東京 です", ["東京", "です"], id="no-latin"),
        pytest.param("?! -", ["?", "!", "-"], id="no-word"),
        pytest.param("I 🙂 it!", ["I", "🙂", "it"], id="emoji"),
        pytest.param(
            "👩🏽\u200d💻 ok🇩🇪🇫🇷", ["👩🏽\u200d💻", "ok", "🇩🇪", "🇫🇷"], id="emoji-of-parts"
        ),
        pytest.param("5° ❤\ufe0f", ["5", "°", "❤\ufe0f"], id="other-pictures"),
        pytest.param("मेरी हिन्दी-भाषा", ["मेरी", "हिन्दी-भाषा"], id="vowel-signs"),
        pytest.param("cafe\u0301s", ["cafe\u0301s"], id="decomposed"),
        pytest.param("می\u200cخواهم \u200cx\u200c", ["می\u200cخواهم", "x"], id="joiners"),
        pytest.param("\u200b", ["\u200b"], id="invisible"),
        pytest.param(" \t\n", [], id="blank"),
        pytest.param("", [], id="empty"),
    ],
)
def test_words(text, pieces):
    """Letters, digits and underscores; joined by a hyphen or an apostrophe inside."""
    assert cut(text, words(text)) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("One. Two! Three?", ["One.", "Two!", "Three?"], id="marks"),
        pytest.param("It is 1.5 m... or 2.", ["It is 1.5 m...", "or 2."], id="inside"),
        pytest.param(
            'He said "no." Then (yes!) he', ['He said "no."', "Then (yes!)", "he"], id="q"
        ),
        pytest.param("a\nb\r\n\r\nc", ["a", "b", "c"], id="lines"),
        pytest.param("一。二！三", ["一。", "二！", "三"], id="ideographic"),
        pytest.param("no end", ["no end"], id="none"),
        pytest.param(" . ", ["."], id="mark-alone"),
        pytest.param("\n \n", [], id="blank"),
        pytest.param("", [], id="empty"),
    ],
)
def test_sentences(text, pieces):
    """A mark ends one before white space only; a line break, or an ideographic mark, always."""
    assert cut(text, sentences(text)) == pieces


@pytest.mark.parametrize("split", [words, sentences])
@given(text=st.text() | st.text(alphabet=".!? \n'-aé。🙂\u0301\u200d\ufe0f"))
def test_pieces_are_in_order_apart_and_not_blank(split, text):
    """And a text that is not blank has at least one."""
    spans = split(text)

    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert all(piece == piece.strip() != "" for piece in cut(text, spans))
    assert bool(spans) == bool(text.strip())


@given(text=st.text(alphabet=".!? \n'-aé。🙂"))
def test_sentences_leave_out_nothing_but_white_space(text):
    """Together they are the text."""
    kept = "".join(cut(text, sentences(text)))

    assert re.sub(r"\s", "", kept) == re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    "text",
    [
        "." * 200_000 + "x",
        "a'" * 100_000,
        '?"' * 100_000,
        "é" + "\u200d" * 200_000,
        "é'" * 100_000,
        "é\u0301\u200d" * 60_000,
        "👩\u200d" * 100_000,
    ],
)
def test_splitting_takes_time_in_proportion_to_the_text(text):
    """A text made to be slow would else take minutes, and this test with it."""
    assert words(text)
    assert len(sentences(text)) == 1
