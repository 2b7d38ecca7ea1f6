"""Texts measured by words, by edits, and as translations are.

TokenF1        words in common
Levenshtein    edits from one to the other (rapidfuzz)
Bleu, Chrf     n-grams of words, and of characters (sacrebleu)

A list of texts as reference holds several, of which the best counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evalframe.core.optional import optional
from evalframe.evaluators.flags import check_flags
from evalframe.evaluators.overlap import Overlap, shared
from evalframe.evaluators.text_form import TextForm
from evalframe.evaluators.text_pairs import Floats, Pairs, PairScore
from evalframe.evaluators.words import words_of

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
SMOOTHINGS = ("exp", "floor", "add-k", "none")

_HIGHEST_ORDER = 20
_HIGHEST_BETA = 100.0

_EXTRA = "text"

_SAME = Overlap(1.0, 1.0, 1.0)


class TokenF1(PairScore):
    """F1 of the words that `output` and `dataset_output` have in common, in [0, 1].

    Words are runs of letters, digits and underscores of any script with the accents and vowel
    signs on them, in lower case, articles included; their order does not matter, and each counts
    as often as both texts have it. F1 = 2PR / (P + R) with precision P = shared / words of the
    output and recall R = shared / words of the reference; both are extras. Two texts without words
    score 1.0, one without words against one with words 0.0, as in SQuAD 2.0. Text that is written
    without spaces, such as Chinese, is one word: use `Chrf`, or `Rouge`.

    A list of texts as `dataset_output` holds several references, of which the best counts. A
    null reference is skipped, a null output against a reference scores 0.0, a value that is no
    text fails.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "The city of Paris", "dataset_output": ["paris", "Lutetia"]}]
        >>> scored = ef.run_experiment(rows, evaluators=[ef.TokenF1()])
        >>> scored.evals["token_f1"][["score", "precision", "recall"]].values.tolist()
        [[0.4, 0.25, 1.0]]
    """

    extras: ClassVar[Mapping[str, Any]] = {"precision": float, "recall": float}
    source: ClassVar[str] = (
        "[Rajpurkar et al. 2016](https://aclanthology.org/D16-1264), articles kept"
    )

    def __init__(self, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        self.name = name or ""
        self.threshold = threshold

    def _measure(self, asked: Pairs) -> Floats:
        scores = []
        for output, reference in zip(asked.outputs, asked.references, strict=True):
            found, wanted = words_of(output.lower()), words_of(reference.lower())
            alike = not found and not wanted
            common = shared(found, wanted)
            scores.append(_SAME if alike else Overlap.of(common, len(found), len(wanted)))
        return np.array(scores, dtype=np.float64).reshape(-1, len(Overlap._fields))


class Levenshtein(PairScore):
    """How few edits make `output` the reference: 1 - edits / length of the longer text.

    Edits are the fewest insertions, deletions and replacements of single characters (Unicode
    code points). Two empty texts score 1.0.

    A list of texts as `dataset_output` holds several references, of which the best counts. A
    null reference is skipped, a null output against a reference scores 0.0, a value that is no
    text fails.

    Args:
        ignore_case: Compare by `str.casefold`.
        ignore_whitespace: Strip, and take runs of white space for one space.
        normal_form: Unicode normal form: "NFC", "NFD", "NFKC", "NFKD", or None, by which a
            composed and a decomposed letter differ.

    Raises:
        ValueError: `normal_form` is not one of Unicode's, or a flag is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "kitten", "dataset_output": "sitting"}]
        >>> ef.run_experiment(rows, evaluators=[ef.Levenshtein()]).evals.scores.iloc[0, 0]
        0.5714285714285714
    """

    source: ClassVar[str] = (
        "[rapidfuzz](https://rapidfuzz.github.io/RapidFuzz/Usage/distance/Levenshtein.html)"
    )
    extra_needed: ClassVar[str] = _EXTRA

    def __init__(
        self,
        *,
        ignore_case: bool = False,
        ignore_whitespace: bool = False,
        normal_form: str | None = None,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        self.form = TextForm(ignore_case, ignore_whitespace, normal_form)
        self.name = name or ""
        self.threshold = threshold

    def _library(self) -> Any:
        return optional("rapidfuzz", extra=_EXTRA, needed_by=type(self).__name__)

    def _measure(self, asked: Pairs) -> Floats:
        rapidfuzz = self._library()
        outputs, references = asked.outputs, asked.references
        if self.form != TextForm():
            outputs = list(map(self.form.one, outputs))
            references = list(map(self.form.one, references))
        scores: Floats = rapidfuzz.process.cpdist(
            outputs,
            references,
            scorer=rapidfuzz.distance.Levenshtein.normalized_similarity,
            dtype=np.float64,
        )
        return scores.reshape(-1, 1)


class Bleu(PairScore):
    """BLEU of a single text: shared runs of 1 to 4 words, in [0, 1].

    The geometric mean of the shares of the output's n-grams that the reference has, times a
    penalty for outputs shorter than the reference: the sentence BLEU of sacrebleu, divided by
    100, with `effective_order`, so that a short text is not marked down for having no longer
    n-grams. The mean over rows is not the corpus BLEU of papers. A text without words scores
    0.0, also against another such text.

    A list of texts as `dataset_output` holds several references, of which the best counts
    unless `pooled`. A null reference is skipped, a null output against a reference scores 0.0,
    a value that is no text fails.

    Args:
        max_order: Length of the longest runs of words, 1 to 20.
        smoothing: For orders of which nothing is shared: "exp" (each such order halves, as in
            mteval), "floor" (0.1 instead of 0), "add-k" (adds 1 to the counts of all orders
            above 1), or "none", by which the score is 0.0.
        tokenize: How words are found: "13a" (as in WMT), "intl" (by Unicode's punctuation and
            symbols), "zh" (each Chinese character is a word), "char" (each character is one),
            "none" (split at white space).
        ignore_case: Compare in lower case.
        pooled: Of several references take all n-grams together, and the length that is closest
            to the output's, as the paper does, instead of the best reference.

    Raises:
        ValueError: An argument is none of these.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "the cat sat", "dataset_output": "the cat sat down"}]
        >>> ef.run_experiment(rows, evaluators=[ef.Bleu()]).evals.scores.round(4).iloc[0, 0]
        0.7165
    """

    source: ClassVar[str] = (
        "[Papineni et al. 2002](https://aclanthology.org/P02-1040), by "
        "[sacrebleu](https://github.com/mjpost/sacrebleu)"
    )
    extra_needed: ClassVar[str] = _EXTRA

    def __init__(
        self,
        *,
        max_order: int = 4,
        smoothing: str = "exp",
        tokenize: str = "13a",
        ignore_case: bool = False,
        pooled: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        _check_order("max_order", max_order, lowest=1)
        _check_choice("smoothing", smoothing, SMOOTHINGS)
        _check_choice("tokenize", tokenize, TOKENIZERS)
        check_flags(ignore_case=ignore_case, pooled=pooled)
        self.max_order = max_order
        self.smoothing = smoothing
        self.tokenize = tokenize
        self.ignore_case = ignore_case
        self.pooled = pooled
        self.name = name or ""
        self.threshold = threshold

    def _library(self) -> Any:
        return _sacrebleu(self)

    def _measure(self, asked: Pairs) -> Floats:
        metric = self._library().BLEU(
            lowercase=self.ignore_case,
            tokenize=self.tokenize,
            smooth_method=self.smoothing,
            max_ngram_order=self.max_order,
            effective_order=True,
        )
        if not self.pooled:
            return _sentence_scores(metric, asked.outputs, [[one] for one in asked.references])
        _, starts, counts = np.unique(asked.rows, return_index=True, return_counts=True)
        parts = zip(starts.tolist(), counts.tolist(), strict=True)
        references = [asked.references[start : start + count] for start, count in parts]
        outputs = [asked.outputs[start] for start in starts.tolist()]
        # All pairs of a row have the row's score.
        return np.repeat(_sentence_scores(metric, outputs, references), counts, axis=0)


class Chrf(PairScore):
    """chrF: shared runs of 1 to 6 characters, in [0, 1].

    The F-score of the mean precision and mean recall over the orders of n-grams, white space
    left out, recall counting `beta` times as much: the sentence chrF of sacrebleu, divided by
    100. It needs no words, and so suits every script. A blank text scores 0.0, also against
    another blank one.

    A list of texts as `dataset_output` holds several references, of which the best counts. A
    null reference is skipped, a null output against a reference scores 0.0, a value that is no
    text fails.

    Args:
        char_order: Length of the longest runs of characters, 1 to 20.
        word_order: Length of the longest runs of words counted beside them, 0 to 20: 0 is chrF,
            2 is chrF++.
        beta: How many times as important recall is as precision; above 0, up to 100.
        ignore_case: Compare in lower case.

    Raises:
        ValueError: An argument is out of its range.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "the cat sat", "dataset_output": "the cat sat down"}]
        >>> ef.run_experiment(rows, evaluators=[ef.Chrf()]).evals.scores.round(4).iloc[0, 0]
        0.6602
    """

    source: ClassVar[str] = (
        "[Popović 2015](https://aclanthology.org/W15-3049), by "
        "[sacrebleu](https://github.com/mjpost/sacrebleu)"
    )
    extra_needed: ClassVar[str] = _EXTRA

    def __init__(
        self,
        *,
        char_order: int = 6,
        word_order: int = 0,
        beta: float = 2,
        ignore_case: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        _check_order("char_order", char_order, lowest=1)
        _check_order("word_order", word_order, lowest=0)
        number = isinstance(beta, (int, float)) and not isinstance(beta, bool)
        if not number or not 0 < beta <= _HIGHEST_BETA:
            message = f"beta must be a number above 0 and up to {_HIGHEST_BETA:g}, not {beta!r}."
            raise ValueError(message)
        check_flags(ignore_case=ignore_case)
        self.char_order = char_order
        self.word_order = word_order
        self.beta = beta
        self.ignore_case = ignore_case
        self.name = name or ""
        self.threshold = threshold

    def _library(self) -> Any:
        return _sacrebleu(self)

    def _measure(self, asked: Pairs) -> Floats:
        metric = self._library().CHRF(
            char_order=self.char_order,
            word_order=self.word_order,
            beta=self.beta,
            lowercase=self.ignore_case,
        )
        return _sentence_scores(metric, asked.outputs, [[one] for one in asked.references])


def _check_order(argument: str, order: Any, *, lowest: int) -> None:
    whole = isinstance(order, int) and not isinstance(order, bool)
    if not whole or not lowest <= order <= _HIGHEST_ORDER:
        message = (
            f"{argument} must be a whole number from {lowest} to {_HIGHEST_ORDER}, not {order!r}."
        )
        raise ValueError(message)


def _check_choice(argument: str, choice: Any, choices: tuple[str, ...]) -> None:
    if choice not in choices:
        message = f"{argument} must be one of {choices}, not {choice!r}."
        raise ValueError(message)


def _sacrebleu(evaluator: PairScore) -> Any:
    return optional("sacrebleu", extra=_EXTRA, needed_by=type(evaluator).__name__)


def _sentence_scores(metric: Any, outputs: list[str], references: list[list[str]]) -> Floats:
    """A score per output in [0, 1]; the library gives per cent, and 100.00000000000004."""
    pairs = zip(outputs, references, strict=True)
    scores = [metric.sentence_score(output, several).score for output, several in pairs]
    return np.minimum(np.array(scores, dtype=np.float64) / 100, 1.0).reshape(-1, 1)
