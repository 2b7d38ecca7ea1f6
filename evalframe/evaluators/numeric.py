"""Is the output the reference number, up to a tolerance?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import arrow, is_number, no_reference, verdicts
from evalframe.evaluators.normalize import describe


class NumericClose(Evaluator):
    """Whether the number `output` is close to `dataset_output`: label "True" / "False".

    Close means |a - b| <= max(rel_tol * max(|a|, |b|), abs_tol), the formula of Python's
    `math.isclose`. Numbers are compared as 64-bit floats; text is not read as a number. A null
    reference is skipped, a null output against a reference scores 0.0.

    Args:
        rel_tol: Tolerance relative to the larger of the two.
        abs_tol: Tolerance in the unit of the numbers, for values near 0.

    Raises:
        ValueError: A tolerance is negative, infinite or NaN.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": 0.3334, "dataset_output": 1 / 3}]
        >>> close = ef.NumericClose(rel_tol=0.001)
        >>> ef.run_experiment(rows, evaluators=[close])["eval.numeric_close.label"][0]
        'True'
    """

    vectorized: ClassVar[bool] = True

    def __init__(
        self,
        *,
        rel_tol: float = 1e-9,
        abs_tol: float = 0.0,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        for argument, value in (("rel_tol", rel_tol), ("abs_tol", abs_tol)):
            if not 0 <= value < math.inf:
                message = f"{argument} must be a finite number of at least 0, not {value!r}."
                raise ValueError(message)
        self.rel_tol = rel_tol
        self.abs_tol = abs_tol
        self.name = name or ""
        self.threshold = threshold

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Both columns must be numbers."""
        for name, kind in types.items():
            if kind is not None and not is_number(kind) and not pa.types.is_nested(kind):
                return (
                    f"it needs numbers, but {name} is {kind} (text is not compared with numbers). "
                    f"Convert it: .bind({name}=lambda {name}: float({name})), or types= in "
                    "ef.Dataset."
                )
        return None

    def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns.

        Raises:
            TypeError: A column is of another type than numbers.
        """
        found, wanted = arrow(output), arrow(dataset_output)
        if found is None or wanted is None:
            pairs = zip(output.tolist(), dataset_output.tolist(), strict=True)
            return [self._verdict(*pair) for pair in pairs]
        problem = self.check_types({"output": found.type, "dataset_output": wanted.type})
        if problem:
            raise TypeError(problem)
        a = found.cast(schema.NUMBER).to_numpy(zero_copy_only=False)
        b = wanted.cast(schema.NUMBER).to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore", over="ignore"):
            room = np.maximum(self.rel_tol * np.maximum(np.abs(a), np.abs(b)), self.abs_tol)
            close = (np.abs(a - b) <= room) & np.isfinite(a) & np.isfinite(b)
        return verdicts(pa.array(close | (a == b)), wanted)

    def _verdict(self, found: Any, wanted: Any) -> Any:
        found = None if found is pd.NA else found
        wanted = None if wanted is pd.NA else wanted
        if wanted is None:
            return no_reference()
        if found is None:
            return False
        for what, value in (("output", found), ("dataset_output", wanted)):
            if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
                message = f"{what} is {describe(value)}, not a number"
                return Cell(error=schema.error_text(schema.INVALID_RESULT, message))
        return math.isclose(float(found), float(wanted), rel_tol=self.rel_tol, abs_tol=self.abs_tol)
