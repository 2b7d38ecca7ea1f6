"""ROUGE: n-grams or the longest sequence of words shared with a reference.

Words are runs of letters and digits, in lower case. On ASCII text these are the words of
Google's rouge-score, and the figures are its figures. That package drops every other letter:
"élan" becomes "lan", and Chinese text has no words at all. Here letters and digits of any
script count, and each Chinese and Japanese character is a word, as these are written without
spaces. Accents and vowel signs belong to the letter on which they stand.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from evalframe.evaluators.flags import check_flags
from evalframe.evaluators.overlap import Overlap, common_order, shared
from evalframe.evaluators.text_pairs import Floats, Pairs, PairScore
from evalframe.evaluators.words import marked, word_of

VARIANTS = ("rouge1", "rouge2", "rougeL")

# Han and kana with their iteration and length marks, without punctuation.
_CHARACTERS = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
_ASCII_WORDS = re.compile(r"[a-z0-9]+")


class Rouge(PairScore):
    """How much of the reference's wording `output` has: the F-measure of ROUGE, in [0, 1].

    "rouge1" counts shared words, "rouge2" shared pairs of neighbouring words, "rougeL" the
    longest sequence of words that both have in the same order, gaps allowed. F = 2PR / (P + R)
    with P = shared / those in the output and R = shared / those in the reference; both are
    extras. No stemming. Where there is nothing to share, F is 0.0: for texts without words, and
    for "rouge2" for a text of one word, even against itself.

    Words are runs of letters and digits of any script with their marks, in lower case, and single
    Chinese and Japanese characters. On ASCII text the figures equal those of the package
    rouge-score.

    A list of texts as `dataset_output` holds several references, of which the best counts. A
    null reference is skipped, a null output against a reference scores 0.0, a value that is no
    text fails.

    Args:
        variant: "rouge1", "rouge2" or "rougeL"; also the evaluator's name unless one is given.
        ascii_only: Take runs of a-z and 0-9 for words and drop all else, as rouge-score does;
            its figures then hold for every text.

    Raises:
        ValueError: `variant` is none of the three, or `ascii_only` is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "the cat sat", "dataset_output": "the cat ran away"}]
        >>> ef.run_experiment(rows, evaluators=[ef.Rouge("rougeL")]).evals.scores.iloc[0, 0]
        0.5714285714285714
    """

    extras: ClassVar[Mapping[str, Any]] = {"precision": float, "recall": float}
    source: ClassVar[str] = (
        "[Lin 2004](https://aclanthology.org/W04-1013), words as "
        "[rouge-score](https://github.com/google-research/google-research/tree/master/rouge)"
    )

    def __init__(
        self,
        variant: str,
        *,
        ascii_only: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if variant not in VARIANTS:
            message = f"variant must be one of {VARIANTS}, not {variant!r}."
            raise ValueError(message)
        check_flags(ascii_only=ascii_only)
        self.variant = variant
        self.ascii_only = ascii_only
        self.name = name or variant
        self.threshold = threshold

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        if given.get("name") == self.variant:
            del given["name"]
        return given

    def _measure(self, asked: Pairs) -> Floats:
        words = _ASCII_WORDS.findall if self.ascii_only else _words_of
        listed, common = _VARIANTS[self.variant]
        scores = []
        for output, reference in zip(asked.outputs, asked.references, strict=True):
            found, wanted = listed(words(output.lower())), listed(words(reference.lower()))
            scores.append(Overlap.of(common(found, wanted), len(found), len(wanted)))
        return np.array(scores, dtype=np.float64).reshape(-1, len(Overlap._fields))


def _words_of(text: str) -> list[str]:
    return (_ASCII_WORDS if text.isascii() else _any_words()).findall(text)


@functools.cache
def _any_words() -> re.Pattern[str]:
    letters = rf"[^\W_{_CHARACTERS}]"
    return re.compile(rf"{marked(f'[{_CHARACTERS}]')}|{word_of(letters)}")


_Words = Sequence[Hashable]


def _as_they_are(words: list[str]) -> _Words:
    return words


def _neighbours(words: list[str]) -> _Words:
    return list(itertools.pairwise(words))


_VARIANTS: dict[str, tuple[Callable[[list[str]], _Words], Callable[[_Words, _Words], int]]] = {
    "rouge1": (_as_they_are, shared),
    "rouge2": (_neighbours, shared),
    "rougeL": (_as_they_are, common_order),
}
