"""Forms in which texts are compared: case, white space, Unicode normal form.

The rules are Python's (`str.casefold`, `str.split`, `unicodedata`); ASCII texts go through
Arrow kernels that give the same, the others of a column one by one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from evalframe.evaluators.flags import check_flags

NORMAL_FORMS = ("NFC", "NFD", "NFKC", "NFKD")

# What str.split() takes for white space in ASCII text, and where it is not one inner space.
_ASCII_SPACE = r"[\t-\r\x1c-\x20]+"
_UNTIDY = r"[\t-\r\x1c-\x1f]|  |\A | \z"


@dataclass(frozen=True, slots=True)
class TextForm:
    """How texts are changed before they are compared.

    Attributes:
        ignore_case: Compare `str.casefold`.
        ignore_whitespace: Strip, and take runs of white space for one space.
        normal_form: Unicode normal form, or None to leave texts as they are.
    """

    ignore_case: bool = False
    ignore_whitespace: bool = False
    normal_form: str | None = None

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            ValueError: A flag is no bool, or the normal form is not one of Unicode's.
        """
        check_flags(ignore_case=self.ignore_case, ignore_whitespace=self.ignore_whitespace)
        if self.normal_form is not None and self.normal_form not in NORMAL_FORMS:
            message = f"normal_form must be one of {NORMAL_FORMS}, not {self.normal_form!r}."
            raise ValueError(message)

    def one(self, text: str) -> str:
        """A single text in this form."""
        text = self._normal(text)
        if self.ignore_case:
            # Folded text need not be in normal form any more.
            text = self._normal(text.casefold())
        return " ".join(text.split()) if self.ignore_whitespace else text

    def _normal(self, text: str) -> str:
        if self.normal_form is None or text.isascii():
            return text
        # mypy: the form was checked to be one of the four when this was made.
        return unicodedata.normalize(self.normal_form, text)  # type: ignore[arg-type]

    def array(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """large_string texts in this form; nulls stay null."""
        if self == TextForm():
            return texts
        if isinstance(texts, pa.ChunkedArray):
            return pa.chunked_array([self._chunk(part) for part in texts.chunks], texts.type)
        return self._chunk(texts)

    def _chunk(self, texts: pa.Array) -> pa.Array:
        foreign = pc.invert(pc.string_is_ascii(texts))
        changed = pc.ascii_lower(texts) if self.ignore_case else texts
        if self.ignore_whitespace:
            untidy = pc.match_substring_regex(changed, pattern=_UNTIDY)
            changed = _replaced(changed, untidy, changed, _tidied)
        return _replaced(changed, foreign, texts, self._each)

    def _each(self, texts: pa.Array) -> pa.Array:
        return pa.array(map(self.one, texts.to_pylist()), pa.large_string(), size=len(texts))


def _replaced(
    into: pa.Array, rows: pa.Array, texts: pa.Array, change: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """`into` with `change` of the texts in these rows; null rows are not among them."""
    if not pc.any(rows).as_py():
        return into
    return pc.replace_with_mask(
        into, pc.fill_null(rows, fill_value=False), change(texts.filter(rows))
    )


def _tidied(texts: pa.Array) -> pa.Array:
    spaced = pc.replace_substring_regex(texts, pattern=_ASCII_SPACE, replacement=" ")
    return pc.utf8_trim(spaced, characters=" ")
