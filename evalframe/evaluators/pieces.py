"""Texts in pieces: words, or sentences, each with the place where it stands.

The rules are simple and the same for every language. A word is one of words.py, with an
apostrophe or a hyphen inside ("don't", "well-known"); an emoji or another pictorial sign is one
too. A text without any is taken by its other signs ("?!"). A sentence ends with a line break,
with a Chinese or Japanese full stop, question or exclamation mark, or with ".", "!", "?" or an
ellipsis before white space ("e.g. this" is two).
"""

from __future__ import annotations

import functools
import re

from evalframe.evaluators.words import picture, word_of

Spans = list[tuple[int, int]]

_INSIDE = r"['\u2019-]"
_ASCII_WORD = re.compile(rf"\w+(?:{_INSIDE}\w+)*")
_SIGN = re.compile(r"[^\w\s]")
_MARKS = r".!?\u2026"
_QUOTES = r"\"'\u201d\u2019)\]"
_WIDE_MARKS = r"\u3002\uff01\uff1f"
_WIDE_QUOTES = r"\u201d\u2019\u300d\u300f\uff09"
# Not from the middle of "....": each run of marks is looked at once.
_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{_QUOTES}]*+(?=\s)"
    rf"|[{_WIDE_MARKS}]++[{_WIDE_QUOTES}]*+"
    r"|[\r\n]++"
)


def words(text: str) -> Spans:
    """[start, end) of each word; of a text that is not blank there is at least one.

    Examples:
        >>> from evalframe.evaluators.pieces import words
        >>> words("Don't stop!")
        [(0, 5), (6, 10)]
    """
    pattern = _ASCII_WORD if text.isascii() else _word()
    found = [match.span() for match in pattern.finditer(text)]
    return found or [match.span() for match in _SIGN.finditer(text)]


@functools.cache
def _word() -> re.Pattern[str]:
    word = word_of(r"\w")
    return re.compile(f"{word}(?:{_INSIDE}{word})*+|{picture()}")


def sentences(text: str) -> Spans:
    """[start, end) of each sentence, without white space around it; none is blank.

    Examples:
        >>> from evalframe.evaluators.pieces import sentences
        >>> [text[a:b] for text in ["It is 1.5 m. Why?  Who knows"] for a, b in sentences(text)]
        ['It is 1.5 m.', 'Why?', 'Who knows']
    """
    ends = [match.end() for match in _END.finditer(text)]
    spans = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        part = text[start:end]
        bare = part.strip()
        if bare:
            begins = start + part.index(bare)
            spans.append((begins, begins + len(bare)))
    return spans
