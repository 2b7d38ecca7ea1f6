"""Is something in the output: a text, a pattern, one of a fixed list?

Contains   a text, or the reference, stands in the output
Regex      a pattern matches the output
OneOf      the output is one of fixed choices
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    arrow,
    is_text,
    needs_text,
    no_reference,
    not_text,
    verdicts,
)
from evalframe.evaluators.text_form import TextForm


class _TextVerdict(Evaluator):
    """An evaluator of text outputs; `_matches` says which of an Arrow array match."""

    vectorized: ClassVar[bool] = True

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """The output must be text, and so must a reference."""
        return needs_text("output", types) or needs_text("dataset_output", types)

    def evaluate(self, output: pd.Series) -> Any:
        """The verdicts of a whole column."""
        texts = arrow(output)
        if texts is not None and is_text(texts.type):
            return verdicts(self._matches(texts))
        values = output.tolist() if texts is None else texts.to_pylist()
        return [self._verdict(value) for value in values]

    def _verdict(self, value: Any) -> Any:
        if value is None:
            return False
        if not isinstance(value, str):
            return not_text("output", value)
        return self._matches(pa.array([value], pa.large_string()))[0].as_py()

    def _matches(self, texts: pa.Array) -> pa.Array:
        raise NotImplementedError


class Contains(_TextVerdict):
    """Whether `output` contains a text: label "True" / "False", score 1.0 / 0.0.

    With `text`, that text; without, the row's `dataset_output`, which may be a list of texts.
    A null output scores 0.0, a null reference is skipped.

    Args:
        text: What to look for; None: the row's reference.
        ignore_case: Compare by `str.casefold`.
        mode: Of a list of references, must "any" or "all" be contained.

    Raises:
        ValueError: `text` is empty, or `mode` is neither.

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
        return self.against_reference if self.text is None else self.evaluate

    def against_reference(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns, each row with its own reference."""
        found, wanted = arrow(output), arrow(dataset_output)
        outputs = output.tolist() if found is None else found.to_pylist()
        references = dataset_output.tolist() if wanted is None else wanted.to_pylist()
        return [self._pair(*pair) for pair in zip(outputs, references, strict=True)]

    def _pair(self, output: Any, reference: Any) -> Any:
        if reference is None:
            return no_reference()
        if output is None:
            return False
        wanted = reference if isinstance(reference, list) else [reference]
        for what, values in (("output", [output]), ("dataset_output", wanted)):
            for value in values:
                if not isinstance(value, str):
                    return not_text(what, value)
        text = self.form.one(output)
        there = [self.form.one(part) in text for part in wanted]
        return any(there) if self.mode == "any" else all(there)

    def _matches(self, texts: pa.Array) -> pa.Array:
        wanted = self.form.one(self.text or "")
        return pc.match_substring(self.form.array(texts), pattern=wanted)


class Regex(_TextVerdict):
    r"""Whether a pattern matches `output`: label "True" / "False", score 1.0 / 0.0.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), run by Arrow: it takes
    time linear in the text whatever the pattern, has no look-around and no back-references,
    and `\d`, `\w`, `\s` are ASCII (`\p{L}` is any letter). A null output scores 0.0.

    Args:
        pattern: The pattern.
        mode: "search": anywhere in the text. "fullmatch": the whole text.
        ignore_case: Match letters of either case.

    Raises:
        ValueError: The pattern is not RE2's, or `mode` is neither.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "It is 42."}, {"output": "unknown"}]
        >>> digits = ef.Regex(r"\d+", name="has_number")
        >>> ef.run_experiment(rows, evaluators=[digits]).evals.scores["has_number"].tolist()
        [1.0, 0.0]
    """

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
        self.pattern = pattern
        self.mode = mode
        self.ignore_case = ignore_case
        self.name = name or ""
        self.threshold = threshold
        try:
            self._matches(pa.array([""], pa.large_string()))
        except (pa.ArrowInvalid, TypeError, ValueError) as exc:
            message = (
                f"The pattern {pattern!r} is not an RE2 pattern: {exc}. Look-around and "
                "back-references need a function of your own with Python's re."
            )
            raise ValueError(message) from None

    def _matches(self, texts: pa.Array) -> pa.Array:
        pattern = self.pattern if self.mode == "search" else rf"\A(?:{self.pattern})\z"
        return pc.match_substring_regex(texts, pattern=pattern, ignore_case=self.ignore_case)


class OneOf(_TextVerdict):
    """Whether `output` is one of fixed choices: label "True" / "False", score 1.0 / 0.0.

    A null output scores 0.0.

    Args:
        choices: The texts that are allowed.
        ignore_case: Compare by `str.casefold`.
        ignore_whitespace: Strip, and take runs of white space for one space.

    Raises:
        ValueError: There is no choice, or one is not text.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "Yes"}, {"output": "maybe"}]
        >>> allowed = ef.OneOf(["yes", "no"], ignore_case=True)
        >>> ef.run_experiment(rows, evaluators=[allowed]).evals.scores["one_of"].tolist()
        [1.0, 0.0]
    """

    def __init__(
        self,
        choices: Iterable[str],
        *,
        ignore_case: bool = False,
        ignore_whitespace: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        listed = [choices] if isinstance(choices, str) else list(choices)
        wrong = [choice for choice in listed if not isinstance(choice, str)]
        if isinstance(choices, str) or not listed or wrong:
            message = f"choices must be a list of texts, such as ['yes', 'no'], not {choices!r}."
            raise ValueError(message)
        self.form = TextForm(ignore_case=ignore_case, ignore_whitespace=ignore_whitespace)
        self.choices = tuple(listed)
        self.name = name or ""
        self.threshold = threshold

    def _matches(self, texts: pa.Array) -> pa.Array:
        allowed = pa.array([self.form.one(choice) for choice in self.choices], pa.large_string())
        return pc.and_(pc.is_in(self.form.array(texts), value_set=allowed), texts.is_valid())
