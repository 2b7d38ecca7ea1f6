"""What a word is."""

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.evaluators.words import words_of

JOINERS = "\u200c\u200d"


def by_character(text):
    """The words, character by character, from the definition."""
    found, word = [], ""
    for place, character in enumerate(text):
        after = text[place:].lstrip(JOINERS)[:1]
        mark = unicodedata.category(character).startswith("M")
        inside = character in JOINERS and bool(after) and stands_in_a_word(after)
        if character.isalnum() or character == "_" or (word and (mark or inside)):
            word += character
        elif word:
            found.append(word)
            word = ""
    return found + [word] * bool(word)


def stands_in_a_word(character):
    """A letter, a digit, an underscore or a mark."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


odd = st.sampled_from([*"a1_ .-éक नी\u0301\u094d\u20e3\U000e0100", *JOINERS])


@given(text=st.text() | st.lists(odd).map("".join))
def test_words_are_runs_of_letters_with_their_marks(text):
    """Whatever the script; a mark or a joiner alone is none."""
    assert words_of(text) == by_character(text)


def test_every_mark_belongs_to_its_word():
    """All that Unicode has."""
    every = map(chr, range(sys.maxunicode + 1))
    marks = [c for c in every if unicodedata.category(c).startswith("M")]

    assert len(marks) > 2_000
    assert [mark for mark in marks if words_of(f"aé{mark}b") != [f"aé{mark}b"]] == []


@pytest.mark.parametrize(
    "text", ["é" * 200_000, "é" + "\u200d" * 200_000, "é\u0301\u200d" * 60_000, "\u0301" * 200_000]
)
def test_finding_words_takes_time_in_proportion_to_the_text(text):
    """A text made to be slow would else take minutes, and this test with it."""
    assert len(words_of(text)) <= 1


def test_ascii_texts_need_no_table():
    """It is made for the first text that needs it."""
    code = (
        "import evalframe; from evalframe.evaluators import words;"
        "print(words.words_of('a b'), words._characters.cache_info().currsize)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "['a', 'b'] 0\n"
