"""Forms in which texts are compared: case, white space, Unicode normal form.

The rules are Python's (`str.casefold`, `str.split`, `unicodedata`); columns of ASCII text go
through Arrow kernels that give the same.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

NORMAL_FORMS = ("NFC", "NFD", "NFKC", "NFKD")

# What str.split() takes for white space in ASCII text.
_ASCII_SPACE = r"[\t-\r\x1c-\x20]+"


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
        """Check the normal form.

        Raises:
            ValueError: It is not one of Unicode's.
        """
        if self.normal_form is not None and self.normal_form not in NORMAL_FORMS:
            message = f"normal_form must be one of {NORMAL_FORMS}, not {self.normal_form!r}."
            raise ValueError(message)

    def one(self, text: str) -> str:
        """A single text in this form."""
        if self.normal_form is not None:
            text = unicodedata.normalize(self.normal_form, text)  # type: ignore[arg-type]
        if self.ignore_case:
            text = text.casefold()
        return " ".join(text.split()) if self.ignore_whitespace else text

    def array(self, texts: pa.Array) -> pa.Array:
        """A large_string array in this form; nulls stay null."""
        if self == TextForm():
            return texts
        if not pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
            changed = [None if text is None else self.one(text) for text in texts.to_pylist()]
            return pa.array(changed, pa.large_string())
        if self.ignore_case:
            texts = pc.ascii_lower(texts)
        if self.ignore_whitespace:
            spaced = pc.replace_substring_regex(texts, pattern=_ASCII_SPACE, replacement=" ")
            texts = pc.utf8_trim(spaced, characters=" ")
        return texts
