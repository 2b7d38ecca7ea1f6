"""What a word is, in any script; for all evaluators that count words.

A word is a run of letters and digits with the marks that stand on them: accents, vowel signs,
and the invisible joiners inside a word of Persian or Hindi. What Python's regular expressions take
for a word leaves marks out: words with other vowels would be equal.

words_of    the words of a text
word_of     the pattern of a word of certain letters, for texts that are not ASCII
marked      the pattern of a single letter with its marks
picture     the pattern of an emoji or another pictorial sign
"""

from __future__ import annotations

import functools
import re
import unicodedata

_ASCII_WORD = re.compile(r"\w+")
# Beyond the first two planes there are ideographs, and the marks of _FURTHER_MARKS.
_PLANES = range(0x80, 0x20000)
_FURTHER_MARKS = "\U000e0100-\U000e01ef"
_JOINERS = "\u200c\u200d"
# Emoji, also those that are younger than this Python.
_EMOJI = "\U0001f000-\U0001faff"
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"


def words_of(text: str) -> list[str]:
    r"""The runs of letters, digits and underscores with their marks, in their order.

    Examples:
        >>> from evalframe.evaluators.words import words_of
        >>> words_of("It's नाम!")
        ['It', 's', 'नाम']
    """
    return (_ASCII_WORD if text.isascii() else _word()).findall(text)


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(word_of(r"\w"))


def word_of(letters: str) -> str:
    """The pattern of a word; it takes time in proportion to the text.

    Args:
        letters: Pattern of one of its letters; no mark, and no joiner.
    """
    marks = _marks()
    return f"{letters}++(?:(?:{marks}|[{_JOINERS}]++(?={letters}|{marks})){letters}*+)*+"


def marked(letter: str) -> str:
    """The pattern of a single letter with the marks on it."""
    return f"{letter}{_marks()}*+"


def picture() -> str:
    """The pattern of one pictorial sign: of an emoji with all that it is put together from."""
    marks = f"{_marks()}|[\U0001f3fb-\U0001f3ff]"
    sign = f"[{_characters('So')}{_EMOJI}]"
    return f"{_FLAG}|{sign}(?:{marks}|\u200d(?={sign}){sign})*+"


def _marks() -> str:
    return f"[{_characters('M')}{_FURTHER_MARKS}]"


@functools.cache
def _characters(category: str) -> str:
    """All characters of a category of Unicode, as they stand in the brackets of a pattern.

    It takes some hundredths of a second, and is made for the first text that is not ASCII.
    """
    found = [c for c in _PLANES if unicodedata.category(chr(c)).startswith(category)]
    # What does not follow on its predecessor begins a range.
    starts = [c for place, c in enumerate(found) if not place or found[place - 1] != c - 1]
    ends = [c for place, c in enumerate(found) if found[place + 1 : place + 2] != [c + 1]]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))
