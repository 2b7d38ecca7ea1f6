"""Many returned values at once, by column instead of one by one.

Owns   the quick way for values that are all of one kind, checked as a whole.
Leaves everything that is not plain sailing to normalize.py, value by value.

normalize_all   list of returned values -> CellColumns
in_range        the cells of built-in evaluators, by a declared range
cells_of        Arrow columns of labels, scores, explanations -> CellColumns
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.cells import CellColumns, nulls
from evalframe.evaluators.normalize import (
    BOUND_TOLERANCE,
    NOTHING,
    Rules,
    describe,
    normalize,
    range_message,
)

_TEXT = {str}
_MAYBE_TEXT = {str, type(None)}
_NUMBERS = ({float}, {int}, {float, int}, {bool})


def normalize_all(values: list[Any], rules: Rules) -> CellColumns:
    """What `normalize` gives for each value, as columns."""
    kinds = set(map(type, values))
    try:
        if kinds == _TEXT:
            return cells_of(rules, label=pa.array(values, schema.TEXT))
        if kinds in _NUMBERS:
            return cells_of(rules, score=pa.array(values))
        if kinds == {tuple}:
            columns = _transposed(values)
            if columns is not None:
                return cells_of(rules, **columns)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        # An integer beyond 64 bits or a lone surrogate: one by one.
        pass
    return CellColumns.of([normalize(value, rules) for value in values], rules.columns)


def _transposed(values: list[tuple[Any, ...]]) -> dict[str, pa.Array] | None:
    """Tuples that all have one of the accepted forms, as columns; None for any doubt."""
    sizes = set(map(len, values))
    if sizes not in ({2}, {3}):
        return None
    columns = list(zip(*values, strict=True))
    names: tuple[str, ...]
    kinds = [set(map(type, column)) for column in columns]
    rest = all(kind <= _MAYBE_TEXT for kind in kinds[1:])
    if kinds[0] in _NUMBERS and rest:
        names = ("score", "explanation") if sizes == {2} else ("score", "label", "explanation")
    elif sizes == {2} and kinds[0] == _TEXT and rest:
        names = ("label", "explanation")
    elif kinds[0] <= _MAYBE_TEXT and kinds[1] in _NUMBERS and kinds[-1] <= _MAYBE_TEXT | kinds[1]:
        names = ("label", "score", "explanation")[: len(columns)]
        if not all(kind <= _MAYBE_TEXT for kind in kinds[2:]):
            return None
    else:
        return None
    return {
        name: pa.array(column, None if name == "score" else schema.TEXT)
        for name, column in zip(names, columns, strict=True)
    }


def cells_of(
    rules: Rules,
    *,
    label: pa.Array | None = None,
    score: pa.Array | None = None,
    explanation: pa.Array | None = None,
    extras: Mapping[str, pa.Array] | None = None,
) -> CellColumns:
    """Columns of verdicts as cells; scores are checked, rows without a verdict are skipped.

    Args:
        rules: The evaluator's score range and extras.
        label: large_string.
        score: Bool (gives the label too, where there is none) or any number; null is missing,
            NaN is a mistake.
        explanation: large_string; on a row without a verdict, the reason for having none.
        extras: Field -> array of its declared type.
    """
    given = next(column for column in (score, label) if column is not None)
    count = len(given)
    is_bool = score is not None and pa.types.is_boolean(score.type)
    if is_bool:
        said = pc.if_else(score, pa.scalar("True", schema.TEXT), pa.scalar("False", schema.TEXT))
        label = said if label is None else pc.coalesce(label, said)
    score = nulls(count, schema.NUMBER) if score is None else score.cast(schema.NUMBER, safe=False)
    empty = nulls(count, schema.TEXT)
    columns = {
        schema.LABEL: empty if label is None else label,
        schema.SCORE: score,
        schema.EXPLANATION: empty if explanation is None else explanation,
        schema.METADATA: empty,
        schema.ERROR: empty,
    }
    for name, kind in rules.columns.items():
        array = (extras or {}).get(name)
        columns[name] = nulls(count, kind) if array is None else array
    # 0 and 1 fit the usual range: most columns are bools, and need no look at each number.
    if not is_bool or rules.low > 0 or rules.high < 1:
        columns = _without_bad_scores(columns, rules)
    return CellColumns(_without_verdict(columns))


def in_range(cells: CellColumns, rules: Rules) -> CellColumns:
    """The cells of an evaluator whose scores are in [0, 1], by a range that its user declared."""
    if rules.low <= 0 and rules.high >= 1:
        return cells
    return CellColumns(_without_bad_scores(dict(cells.arrays), rules))


def _without_bad_scores(columns: dict[str, pa.Array], rules: Rules) -> dict[str, pa.Array]:
    """Rows whose score is not finite or out of range become failed cells."""
    score = columns[schema.SCORE]
    missing = score.is_null().to_numpy(zero_copy_only=False)
    numbers = score.to_numpy(zero_copy_only=False)
    good = (numbers >= rules.low) & (numbers <= rules.high)
    # An open range, such as [0, inf], has room for every number but infinity itself.
    bounds = [bound for bound in (rules.low, rules.high) if np.isfinite(bound)]
    if len(bounds) < 2:  # noqa: PLR2004 - two ends
        good &= np.isfinite(numbers)
    bad = ~good & ~missing
    if not bad.any():
        return columns
    numbers = numbers.copy()
    for bound in bounds:
        near = bad & (np.abs(numbers - bound) <= BOUND_TOLERANCE)
        numbers[near] = bound
        bad &= ~near
    columns = {**columns, schema.SCORE: pa.array(numbers, schema.NUMBER, mask=missing)}
    errors: list[str | None] = [None] * len(numbers)
    for row in np.flatnonzero(bad):
        errors[row] = _score_error(float(numbers[row]), rules)
    texts = pc.coalesce(pa.array(errors, schema.TEXT), columns[schema.ERROR])
    return _blanked(columns, pa.array(bad), texts)


def _score_error(number: float, rules: Rules) -> str:
    if np.isfinite(number):
        return schema.error_text(schema.RANGE, range_message(number, rules))
    message = f"returned the score {describe(number)}; it must be a finite number"
    return schema.error_text(schema.INVALID_RESULT, message)


def _without_verdict(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Rows with neither label nor score nor error become skipped cells."""
    label, score = columns[schema.LABEL], columns[schema.SCORE]
    if label.null_count == 0 or score.null_count == 0:
        return columns
    empty = pc.and_(pc.and_(label.is_null(), score.is_null()), columns[schema.ERROR].is_null())
    if not empty.true_count:
        return columns
    reasons = pc.coalesce(columns[schema.EXPLANATION], pa.scalar(NOTHING, schema.TEXT))
    head, colon = pa.scalar(schema.SKIPPED, schema.TEXT), pa.scalar(": ", schema.TEXT)
    texts = pc.binary_join_element_wise(head, reasons, colon)
    if pc.max(pc.utf8_length(texts)).as_py() > schema.LONGEST_ERROR:
        cut = [schema.error_text(schema.SKIPPED, reason) for reason in reasons.to_pylist()]
        texts = pa.array(cut, schema.TEXT)
    return _blanked(columns, empty, pc.if_else(empty, texts, columns[schema.ERROR]))


def _blanked(columns: dict[str, pa.Array], rows: pa.Array, errors: pa.Array) -> dict[str, pa.Array]:
    """The columns with nothing but an error on these rows."""
    kept = {
        name: pc.if_else(rows, pa.scalar(None, array.type), array)
        for name, array in columns.items()
        if name != schema.ERROR
    }
    return {**kept, schema.ERROR: errors}
