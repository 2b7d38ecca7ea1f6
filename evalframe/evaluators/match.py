"""Is something in the output: a text, a pattern, one of a fixed list?

Contains   a text, or the reference, stands in the output
Regex      a pattern matches the output
OneOf      the output is one of fixed choices
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    arrow,
    is_text,
    needs_text,
    needs_texts,
    not_text,
    one_by_one,
    references,
    values,
    verdicts,
)
from evalframe.evaluators.flags import check_flags
from evalframe.evaluators.normalize import skipped
from evalframe.evaluators.text_form import TextForm


class _TextVerdict(Evaluator):
    """An evaluator of text outputs; `_matches` says which of an Arrow array match."""

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.LABEL, schema.SCORE)

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """The output must be text."""
        return needs_text("output", types)

    def evaluate(self, output: pd.Series) -> Any:
        """The verdicts of a whole column."""
        texts = arrow(output)
        if texts is not None and is_text(texts.type):
            return verdicts(self._matches(texts))
        found = values(output)
        texts = pa.array([v if isinstance(v, str) else None for v in found], pa.large_string())
        matches = verdicts(self._matches(texts)).to_pylist()
        return [
            match if value is None or isinstance(value, str) else not_text("output", value)
            for match, value in zip(matches, found, strict=True)
        ]

    def _matches(self, texts: pa.Array | pa.ChunkedArray) -> Any:
        """Bools, null or False for null."""
        raise NotImplementedError  # each kind of match has its own


EMPTY_REFERENCE = "empty reference"


class Contains(_TextVerdict):
    """Whether `output` contains a text: label "True" / "False", score 1.0 / 0.0.

    With `text`, that text; without, the row's `dataset_output`, which may be a list of texts.
    A null output scores 0.0; a null or empty reference is skipped, and nulls and empty texts in a
    list of references are left out; a value that is no text fails.

    Args:
        text: What to look for; None: the row's reference.
        ignore_case: Compare by `str.casefold`.
        mode: Of a list of references, must "any" or "all" be contained.

    Raises:
        ValueError: `text` is empty, `mode` is neither, or `ignore_case` is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "a Cat"}, {"output": "a dog"}]
        >>> cat = ef.Contains("cat", ignore_case=True, name="cat")
        >>> ef.run_experiment(rows, evaluators=[cat]).evals.scores["cat"].tolist()
        [1.0, 0.0]
    """

    def __init__(
        self,
        text: str | None = None,
        *,
        ignore_case: bool = False,
        mode: str = "any",
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if text is not None and (not isinstance(text, str) or not text):
            message = f"Contains needs a text that is not empty, not {text!r}."
            raise ValueError(message)
        if mode not in ("any", "all"):
            message = f"mode must be 'any' or 'all', not {mode!r}."
            raise ValueError(message)
        self.form = TextForm(ignore_case=ignore_case)
        self.text = text
        self.mode = mode
        self.name = name or ""
        self.threshold = threshold

    @property
    def function(self) -> Callable[..., Any]:
        """With a text of its own it reads the output only."""
        return self.against_reference if self.text is None else super().evaluate

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Output and reference must be text; a list of texts will do as reference."""
        return needs_texts(types)

    def evaluate(self, output: pd.Series, dataset_output: pd.Series | None = None) -> Any:
        """The verdicts of whole columns; of its own text where there are no references."""
        if dataset_output is None:
            return super().evaluate(output)
        return self.against_reference(output, dataset_output)

    def against_reference(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns, each row with its own reference."""
        return one_by_one(output, dataset_output, self._verdict, several=True)

    def _verdict(self, found: Any, reference: Any) -> bool | Cell:
        wanted = references(reference)
        if not isinstance(found, str):
            return not_text("output", found)
        for part in wanted:
            if not isinstance(part, str):
                return not_text("dataset_output", part)
        # Every text contains the empty one: such a reference says nothing, and passes nobody.
        wanted = [part for part in wanted if part]
        if not wanted:
            return skipped(EMPTY_REFERENCE)
        text = self.form.one(found)
        there = (self.form.one(part) in text for part in wanted)
        return any(there) if self.mode == "any" else all(there)

    def _matches(self, texts: pa.Array | pa.ChunkedArray) -> Any:
        wanted = self.form.one(self.text or "")
        return pc.match_substring(self.form.array(texts), pattern=wanted)


class Regex(_TextVerdict):
    r"""Whether a pattern matches `output`: label "True" / "False", score 1.0 / 0.0.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), run by Arrow: it takes
    time linear in the text whatever the pattern, has no look-around and no back-references,
    `\d`, `\w`, `\s` and `\b` are ASCII (`\p{L}` is any letter), and `$` matches at the very
    end only, not before a last line break. A null output scores 0.0.

    Args:
        pattern: The pattern.
        mode: "search": anywhere in the text. "fullmatch": the whole text.
        ignore_case: Match letters of either case, also outside ASCII ("É" and "é", "ẞ" and
            "ß"); always one letter to one, so "ß" is not "SS".

    Raises:
        ValueError: The pattern is not RE2's, `mode` is neither, or `ignore_case` is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "It is 42."}, {"output": "unknown"}]
        >>> digits = ef.Regex(r"\d+", name="has_number")
        >>> ef.run_experiment(rows, evaluators=[digits]).evals.scores["has_number"].tolist()
        [1.0, 0.0]
    """

    source: ClassVar[str] = "[RE2](https://github.com/google/re2/wiki/Syntax)"

    def __init__(
        self,
        pattern: str,
        *,
        mode: str = "search",
        ignore_case: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if mode not in ("search", "fullmatch"):
            message = f"mode must be 'search' or 'fullmatch', not {mode!r}."
            raise ValueError(message)
        check_flags(ignore_case=ignore_case)
        self.pattern = pattern
        self.mode = mode
        self.ignore_case = ignore_case
        self.name = name or ""
        self.threshold = threshold
        # As it stands, too: "a)|(?:b" is a pattern only inside the parentheses of fullmatch.
        for tried in (pattern, self._whole()):
            problem = _problem(tried)
            if problem:
                message = (
                    f"The pattern {pattern!r} is not an RE2 pattern: {problem}. For look-around, "
                    "back-references and the like write an evaluator with Python's re: "
                    "def matches(output): return re.search(pattern, output) is not None"
                )
                raise ValueError(message)

    def _whole(self) -> str:
        return self.pattern if self.mode == "search" else rf"\A(?:{self.pattern})\z"

    def _matches(self, texts: pa.Array | pa.ChunkedArray) -> Any:
        return pc.match_substring_regex(texts, pattern=self._whole(), ignore_case=self.ignore_case)


def _problem(pattern: Any) -> str | None:
    if not isinstance(pattern, str):
        return r"it is no text, such as r'\d+'"
    try:
        pc.match_substring_regex(pa.array([""], pa.large_string()), pattern=pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as exc:
        return str(exc)
    return None


class OneOf(_TextVerdict):
    """Whether `output` is one of fixed choices: label "True" / "False", score 1.0 / 0.0.

    A null output scores 0.0, a value that is no text fails.

    Args:
        choices: The texts that are allowed: a list, tuple or set.
        ignore_case: Compare by `str.casefold`.
        ignore_whitespace: Strip, and take runs of white space for one space.

    Raises:
        ValueError: There is no choice, one is not text, they are no list, tuple or set, or a flag
            is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "Yes"}, {"output": "maybe"}]
        >>> allowed = ef.OneOf(["yes", "no"], ignore_case=True)
        >>> ef.run_experiment(rows, evaluators=[allowed]).evals.scores["one_of"].tolist()
        [1.0, 0.0]
    """

    def __init__(
        self,
        choices: Sequence[str] | AbstractSet[str],
        *,
        ignore_case: bool = False,
        ignore_whitespace: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        # What is given is what repr, equality and pickle go by: no iterator, which is used up.
        fits = isinstance(choices, (list, tuple, set, frozenset)) and len(choices) > 0
        if not fits or not all(isinstance(choice, str) for choice in choices):
            message = f"choices must be a list of texts, such as ['yes', 'no'], not {choices!r}."
            raise ValueError(message)
        self.form = TextForm(ignore_case=ignore_case, ignore_whitespace=ignore_whitespace)
        self.choices = tuple(choices)
        self.name = name or ""
        self.threshold = threshold

    def _matches(self, texts: pa.Array | pa.ChunkedArray) -> Any:
        allowed = pa.array([self.form.one(choice) for choice in self.choices], pa.large_string())
        return pc.is_in(self.form.array(texts), value_set=allowed)
