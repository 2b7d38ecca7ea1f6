"""Exact match: is the output the reference?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    arrow,
    is_text,
    no_reference,
    text_against_number,
    verdicts,
)
from evalframe.evaluators.text_form import TextForm


class ExactMatch(Evaluator):
    """Whether `output` equals `dataset_output`: label "True" / "False", score 1.0 / 0.0.

    Texts must be the same, character by character, unless an option says else. Numbers are
    equal by value (1 and 1.0), a bool is no number, lists and dicts are equal part by part.
    A list as reference of an output that is no list holds several accepted answers. A null
    reference is skipped; a null output against a reference scores 0.0.

    Args:
        ignore_case: Compare texts by `str.casefold`.
        ignore_whitespace: Strip texts, and take runs of white space for one space.
        normal_form: Unicode normal form for texts: "NFC", "NFD", "NFKC", "NFKD", or None, by
            which a composed and a decomposed letter differ.
        accept_any: Whether a list as reference holds several accepted answers.

    Raises:
        ValueError: `normal_form` is not one of Unicode's.

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
        self.form = TextForm(ignore_case, ignore_whitespace, normal_form)
        self.accept_any = accept_any
        self.name = name or ""
        self.threshold = threshold

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Text cannot be compared with numbers."""
        return text_against_number(types)

    def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns.

        Raises:
            TypeError: One column is text and the other is not.
        """
        found, wanted = arrow(output), arrow(dataset_output)
        if found is None or wanted is None or not self._comparable(found.type, wanted.type):
            return self._one_by_one(output, dataset_output)
        if is_text(found.type):
            found, wanted = self.form.array(found), self.form.array(wanted)
        return verdicts(pc.equal(found, wanted), wanted)

    def _comparable(self, found: pa.DataType, wanted: pa.DataType) -> bool:
        problem = text_against_number({"output": found, "dataset_output": wanted})
        if problem:
            raise TypeError(problem)
        return bool(found == wanted)

    def _one_by_one(self, output: pd.Series, dataset_output: pd.Series) -> list[Any]:
        pairs = zip(_listed(output), _listed(dataset_output), strict=True)
        return [self._verdict(found, wanted) for found, wanted in pairs]

    def _verdict(self, found: Any, wanted: Any) -> Any:
        if wanted is None:
            return no_reference()
        if found is None:
            return False
        if self._same(found, wanted):
            return True
        several = self.accept_any and isinstance(wanted, list)
        return several and any(self._same(found, answer) for answer in wanted)

    def _same(self, a: Any, b: Any) -> bool:
        if isinstance(a, str) and isinstance(b, str):
            return self.form.one(a) == self.form.one(b)
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(map(self._same, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._same(a[key], b[key]) for key in a)
        # True == 1 in Python, but a bool is no number.
        return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _listed(series: pd.Series) -> list[Any]:
    array = arrow(series)
    return series.tolist() if array is None else array.to_pylist()
