"""The numbers of a frame with results, side by side.

Owns   reading result columns, whatever dtypes they have by now, and pass or fail.
Leaves counting to summary.py and errors to failures.py.

Everything here works from the columns' names. Only thresholds and directions come from what
the frame remembers of its runs; where that was lost, there is no pass or fail.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import run_info, schema
from evalframe.core.errors import DatasetError, UnknownEvaluatorError


def names(frame: pd.DataFrame) -> list[str]:
    """The evaluators whose results are in the frame, in the order of their columns.

    Raises:
        DatasetError: Several columns have the name of one result.
    """
    results = [name for name in frame.columns if schema.is_result(name)]
    twice = sorted({name for name in results if results.count(name) > 1})
    if twice:
        message = (
            f"The frame has {twice[0]!r} more than once. Keep the first of each name: "
            "frame.loc[:, ~frame.columns.duplicated()]."
        )
        raise DatasetError(message)
    return schema.evaluators_in(frame.columns)


def check_name(frame: pd.DataFrame, evaluator: str) -> None:
    """See that the frame has results of an evaluator.

    Raises:
        UnknownEvaluatorError: It has none of that name (a KeyError).
        DatasetError: Several columns have the name of one result.
    """
    known = names(frame)
    if evaluator not in known:
        raise UnknownEvaluatorError(evaluator, known)


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """The scores alone: a row per row of the frame, a column per evaluator.

    Args:
        frame: A frame with results.

    Returns:
        `double[pyarrow]` columns named like the evaluators, on the frame's index. NA where a
        cell has no score, so that means over rows or columns are over scored cells.

    Raises:
        DatasetError: Several columns have the name of one result.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators=[ef.OneOf(["4", "four"])])
        >>> ef.scores(scored).mean(axis=1).tolist()
        [1.0]
    """
    columns = {name: _backed(score_cells(frame, name)) for name in names(frame)}
    return _beside(frame, columns)


def passed(frame: pd.DataFrame) -> pd.DataFrame:
    """Pass or fail: a row per row of the frame, a column per evaluator.

    A cell passes when its score is at least the evaluator's threshold; at most, where the
    evaluator's direction is "minimize".

    Args:
        frame: A frame with results.

    Returns:
        `bool[pyarrow]` columns named like the evaluators, on the frame's index. NA where a
        cell has no score, and everywhere for an evaluator without a threshold.

    Raises:
        DatasetError: Several columns have the name of one result.

    Examples:
        >>> import evalframe as ef
        >>> @ef.evaluator(threshold=0.5)
        ... def short(output):
        ...     return 1 - len(output) / 20
        >>> rows = [{"output": "4"}, {"output": "It is four."}]
        >>> ef.passed(ef.run_experiment(rows, evaluators=[short]))["short"].tolist()
        [True, False]
    """
    columns = {name: _backed(passed_cells(frame, name)) for name in names(frame)}
    return _beside(frame, columns)


def score_cells(frame: pd.DataFrame, evaluator: str) -> Any:
    """An evaluator's scores as an Arrow array; NaN, as other code may leave it, is null."""
    scored = cells(frame, schema.column(evaluator, schema.SCORE), schema.NUMBER)
    return pc.if_else(pc.is_nan(scored), None, scored)


def passed_cells(frame: pd.DataFrame, evaluator: str) -> Any:
    """An evaluator's passes as an Arrow array of bools and nulls."""
    known = run_info.remembered(frame.attrs).evaluators.get(evaluator)
    if known is None or known.threshold is None:
        return pa.nulls(len(frame), pa.bool_())
    compare = pc.less_equal if known.direction == "minimize" else pc.greater_equal
    return compare(score_cells(frame, evaluator), pa.scalar(float(known.threshold)))


def cells(frame: pd.DataFrame, name: str, kind: Any) -> Any:
    """A result column as an Arrow array of its type; all null if it is not there (any more).

    Raises:
        DatasetError: The column holds something else by now.
    """
    if name not in frame.columns:
        return pa.chunked_array([pa.nulls(len(frame), kind)])
    column = frame[name].array
    try:
        array = pa.array(column, from_pandas=True)
        array = array if array.type == kind else array.cast(kind)
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    except (pa.ArrowException, TypeError) as exc:
        message = (
            f"Column {name!r} is a result column of type {kind}, but holds other values by now "
            f"({exc}). Rename it, or convert it back."
        )
        raise DatasetError(message) from exc


def _backed(array: Any) -> pd.api.extensions.ExtensionArray:
    whole = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return pd.arrays.ArrowExtensionArray(whole)


def _beside(frame: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    made = pd.DataFrame(columns, index=frame.index, copy=False)
    made.columns = pd.Index(list(columns), dtype="str")
    return made
