"""Is the output the reference number, up to a tolerance?"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    arrow,
    failed,
    is_number,
    is_text,
    one_by_one,
    verdicts,
)
from evalframe.evaluators.normalize import describe

_Floats = np.ndarray[Any, np.dtype[np.float64]]

_Bools = np.ndarray[Any, np.dtype[np.bool_]]

# Rows at a time: what is in between stays in the processor's cache.
_BLOCK = 16_384
_LARGEST = sys.float_info.max


class NumericClose(Evaluator):
    """Whether the number `output` is close to `dataset_output`: label "True" / "False".

    Close means |a - b| <= max(rel_tol * max(|a|, |b|), abs_tol), the formula of Python's
    `math.isclose`. Numbers are compared as 64-bit floats (exactly by `ExactMatch`); text and
    bools are not read as numbers. A null reference is skipped, a null output against a
    reference scores 0.0; NaN is null, and an infinity is close to itself only.

    Args:
        rel_tol: Tolerance relative to the larger of the two.
        abs_tol: Tolerance in the unit of the numbers, for values near 0.

    Raises:
        ValueError: A tolerance is no number, negative, infinite or NaN.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": 0.3334, "dataset_output": 1 / 3}]
        >>> close = ef.NumericClose(rel_tol=0.001)
        >>> ef.run_experiment(rows, evaluators=[close])["eval.numeric_close.label"][0]
        'True'
    """

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.LABEL, schema.SCORE)
    source: ClassVar[str] = (
        "[`math.isclose`](https://docs.python.org/3/library/math.html#math.isclose)"
    )

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
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                message = f"{argument} must be a finite number of at least 0, not {value!r}."
                raise ValueError(message)
        self.rel_tol = rel_tol
        self.abs_tol = abs_tol
        self.name = name or ""
        self.threshold = threshold

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Both columns must be numbers."""
        for name, kind in types.items():
            if is_text(kind):
                # `and` leaves null as it is: float(None) would raise.
                return (
                    f"it needs numbers, but {name} is {kind} (text is not compared with numbers). "
                    f"Convert it: .bind({name}=lambda {name}: {name} and float({name})), or types= "
                    "in ef.Dataset."
                )
            if kind is not None and not is_number(kind):
                return f"it needs numbers, but {name} is {kind}. Give another column with .bind()."
        return None

    def evaluate(self, output: pd.Series, dataset_output: pd.Series) -> Any:
        """The verdicts of whole columns."""
        found, wanted = arrow(output), arrow(dataset_output)
        if (
            found is None
            or wanted is None
            or not is_number(found.type)
            or not is_number(wanted.type)
        ):
            return one_by_one(output, dataset_output, self._verdict)
        a, b = _floats(found), _floats(wanted)
        close = np.empty(len(a), dtype=np.bool_)
        for start in range(0, len(a), _BLOCK):
            rows = slice(start, start + _BLOCK)
            close[rows] = self._close(a[rows], b[rows])
        return verdicts(pa.array(close), wanted)

    def _close(self, a: _Floats, b: _Floats) -> _Bools:
        with np.errstate(invalid="ignore", over="ignore"):
            room = np.maximum(np.abs(a), np.abs(b))
            finite = np.isfinite(room)
            room *= self.rel_tol
            np.maximum(room, self.abs_tol, out=room)
            gap = a - b
            np.abs(gap, out=gap)
            # Equal infinities are close, though nothing else is close to one.
            close: _Bools = ((gap <= room) & finite) | (a == b)
        return close

    def _verdict(self, found: Any, wanted: Any) -> bool | Cell:
        for what, value in (("output", found), ("dataset_output", wanted)):
            number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
            if not number or (isinstance(value, Decimal) and value.is_nan()):
                return failed(f"{what} is {describe(value)}, not a number")
        pair = (found, wanted)
        if any(not isinstance(value, float) and abs(value) > _LARGEST for value in pair):
            return self._huge(found, wanted)
        return math.isclose(*map(float, pair), rel_tol=self.rel_tol, abs_tol=self.abs_tol)

    def _huge(self, found: Any, wanted: Any) -> bool:
        """For numbers that no float holds: exactly."""
        if not all(isinstance(value, int) or math.isfinite(value) for value in (found, wanted)):
            return bool(found == wanted)
        a, b = Fraction(found), Fraction(wanted)
        room = max(Fraction(self.rel_tol) * max(abs(a), abs(b)), Fraction(self.abs_tol))
        return abs(a - b) <= room


def _floats(numbers: pa.Array | pa.ChunkedArray) -> _Floats:
    """Nulls become NaN; integers beyond 2**53 are rounded."""
    array: _Floats = numbers.cast(schema.NUMBER, safe=False).to_numpy(zero_copy_only=False)
    return array
