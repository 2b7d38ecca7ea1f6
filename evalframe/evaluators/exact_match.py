"""Exact match: is the output the reference?"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    arrow,
    failed,
    is_list,
    is_text,
    one_by_one,
    text_against_other,
    unlike,
    verdicts,
)
from evalframe.evaluators.flags import check_flags
from evalframe.evaluators.text_form import TextForm

_LISTS = (list, tuple)
_PARTS = (list, tuple, dict)


class ExactMatch(Evaluator):
    """Whether `output` equals `dataset_output`: label "True" / "False", score 1.0 / 0.0.

    Texts must be the same, character by character, unless an option says else. Numbers are
    equal by exact value (1 and 1.0), a bool is no number, times are equal as moments. Lists
    and dicts are equal part by part; inside them, null and NaN are values that equal
    themselves. A list as reference of an output that is no list holds several accepted answers,
    nulls left out.

    A null reference is skipped, as is a list without an accepted answer; a null output against a
    reference scores 0.0. Text against a number, bool or time is a mistake in the data and no wrong
    answer: columns of such types are refused before the run, single rows fail.

    Args:
        ignore_case: Compare texts by `str.casefold`; also those inside lists and dicts, but
            not a dict's keys.
        ignore_whitespace: Strip texts, and take runs of white space for one space.
        normal_form: Unicode normal form for texts: "NFC", "NFD", "NFKC", "NFKD", or None, by
            which a composed and a decomposed letter differ.
        accept_any: Whether a list as reference holds several accepted answers.

    Raises:
        ValueError: `normal_form` is not one of Unicode's, or a flag is no bool.

    Examples:
        >>> import evalframe as ef
        >>> rows = [
        ...     {"output": "Paris ", "dataset_output": "paris"},
        ...     {"output": "NYC", "dataset_output": ["New York", "NYC"]},
        ... ]
        >>> exact = ef.ExactMatch(ignore_case=True, ignore_whitespace=True)
        >>> ef.run_experiment(rows, evaluators=[exact]).evals.scores["exact_match"].tolist()
        [1.0, 1.0]
    """

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.LABEL, schema.SCORE)
    source: ClassVar[str] = (
        "[SQuAD](https://aclanthology.org/D16-1264), its exact match, without its normalising"
    )

    def __init__(
        self,
        *,
        ignore_case: bool = False,
        ignore_whitespace: bool = False,
        normal_form: str | None = None,
        accept_any: bool = True,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        check_flags(accept_any=accept_any)
        self.form = TextForm(ignore_case, ignore_whitespace, normal_form)
        self.accept_any = accept_any
        self.name = name or ""
        self.threshold = threshold

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Text cannot be compared with numbers."""
        found, wanted = types.get("output"), types.get("dataset_output")
        several = self.accept_any and found is not None and not pa.types.is_nested(found)
        if wanted is not None and several and is_list(wanted):
            wanted = wanted.value_type
        return text_against_other(found, wanted)

    def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns."""
        found, wanted = arrow(output), arrow(dataset_output)
        kind = None if found is None or wanted is None else _common(found.type, wanted.type)
        if found is None or wanted is None or kind is None:
            return one_by_one(output, dataset_output, self._verdict, several=self.accept_any)
        if is_text(kind):
            found, wanted = self.form.array(found), self.form.array(wanted)
        return verdicts(pc.equal(found.cast(kind), wanted.cast(kind)), wanted)

    def _verdict(self, found: Any, wanted: Any) -> bool | Cell:
        answers = [wanted]
        if self.accept_any and isinstance(wanted, _LISTS) and not isinstance(found, _LISTS):
            answers = [answer for answer in wanted if answer is not None]
        try:
            if any(self._same(found, answer) for answer in answers):
                return True
        except RecursionError:
            return failed("output and dataset_output are nested too deeply to be compared")
        if answers and all(_unlike(found, answer) for answer in answers):
            return unlike(found, wanted)
        return False

    def _same(self, a: Any, b: Any) -> bool:
        if isinstance(a, str) and isinstance(b, str):
            return self.form.one(a) == self.form.one(b)
        if isinstance(a, _LISTS) and isinstance(b, _LISTS):
            return len(a) == len(b) and all(map(self._same, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._same(a[key], b[key]) for key in a)
        # True == 1 in Python, but a bool is no number.
        return isinstance(a, bool) == isinstance(b, bool) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Decimal) and a.is_nan():  # a signaling one raises when it is compared
        return isinstance(b, Decimal) and b.is_nan()
    if isinstance(b, Decimal) and b.is_nan():
        return False
    # Only NaN differs from itself.
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)  # noqa: PLR0124


def _unlike(found: Any, answer: Any) -> bool:
    """Whether one is text and the other a single value that is none."""
    if isinstance(found, str) == isinstance(answer, str):
        return False
    return not isinstance(found, _PARTS) and not isinstance(answer, _PARTS)


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which Arrow compares values of both exactly, None where there is none."""
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return pa.float64()
    if a == b:
        return None if pa.types.is_interval(a) else a
    narrow = (pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in (a, b))
    return pa.int64() if all(narrow) else None
