"""One row per evaluator: how much was scored, and what came out.

Owns   counting cells and the numbers over them.
Leaves which cells there are, and pass or fail, to scores.py.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.analysis.scores import cells, names, passed_cells, score_cells
from evalframe.core import run_info, schema
from evalframe.core.unmade import unmade_cells

_TEXTS = ("evaluator", "kind")
_COUNTS = ("n", "n_valid", "n_scored", "n_failed", "n_task_failed", "n_skipped")
_NUMBERS = ("mean", "std", "min", "max", "pass_rate")
_LABELS = "labels"


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per evaluator: counts, and the numbers over the cells that have a score.

    A cell is valid, failed, not reached because its task failed, or skipped:
    `n = n_valid + n_failed + n_task_failed + n_skipped`. Cells of rows that were added, null in
    all columns of the evaluator, are skipped: they have not been run. Only the `n_scored` valid
    cells with a score enter `mean`, `std` (of a sample), `min`, `max` and `pass_rate`; a failure
    is never a 0. Where nothing was scored they are NA.

    Args:
        frame: A frame with results; one without gives no rows.

    Returns:
        Columns `evaluator`, `kind`, `n`, `n_valid`, `n_scored`, `n_failed`, `n_task_failed`,
        `n_skipped`, `mean`, `std`, `min`, `max`, `pass_rate` (NA without a threshold) and
        `labels` (a dict label -> count, most frequent first), in the evaluators' order. `kind`
        and `pass_rate` are NA where the frame has lost its attrs.

    Raises:
        DatasetError: Several columns have the name of one result.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": "4"}, {"output": "5"}]
        >>> scored = ef.run_experiment(rows, evaluators=[ef.OneOf(["4", "four"])])
        >>> ef.summary(scored)[["evaluator", "n", "n_scored", "mean"]].values.tolist()
        [['one_of', 2, 2, 0.5]]
    """
    known = run_info.remembered(frame.attrs).evaluators
    rows = []
    for name in names(frame):
        kind = known[name].kind if name in known else None
        rows.append({"evaluator": name, "kind": kind, **_counted(frame, name)})
    return _typed(rows)


def _counted(frame: pd.DataFrame, evaluator: str) -> dict[str, Any]:
    errors = cells(frame, schema.column(evaluator, schema.ERROR), schema.TEXT)
    unmade = unmade_cells(frame, evaluator)
    valid = pc.and_(pc.is_null(errors), pa.array(~unmade))
    skipped = (pc.sum(_of_kind(errors, schema.SKIPPED)).as_py() or 0) + int(unmade.sum())
    task_failed = pc.sum(_of_kind(errors, schema.TASK_FAILED)).as_py() or 0
    n_valid = pc.sum(valid).as_py() or 0
    scored = pc.drop_null(score_cells(frame, evaluator).filter(valid))
    bounds: Any = pc.min_max(scored).as_py()
    return {
        "n": len(frame),
        "n_valid": n_valid,
        "n_scored": len(scored),
        "n_failed": len(frame) - n_valid - skipped - task_failed,
        "n_task_failed": task_failed,
        "n_skipped": skipped,
        "mean": pc.mean(scored).as_py(),
        "std": pc.stddev(scored, ddof=1).as_py() if len(scored) > 1 else None,
        **bounds,
        "pass_rate": pc.mean(passed_cells(frame, evaluator).filter(valid)).as_py(),
        _LABELS: _labels(cells(frame, schema.column(evaluator, schema.LABEL), schema.TEXT)),
    }


def _of_kind(errors: Any, kind: Any) -> Any:
    return pc.or_(pc.starts_with(errors, f"{kind}:"), pc.equal(errors, kind))


def _labels(labels: Any) -> dict[str, int]:
    """Label -> count, most frequent first; of equally frequent ones the first to appear."""
    found = pc.value_counts(pc.drop_null(labels))
    counts = Counter(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))
    return dict(counts.most_common())


def _typed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name in _TEXTS:
        columns[name] = pd.array([row[name] for row in rows], dtype=pd.StringDtype("pyarrow"))
    for names_, kind in ((_COUNTS, pa.int64()), (_NUMBERS, pa.float64())):
        for name in names_:
            values = pa.array([row[name] for row in rows], type=kind)
            columns[name] = pd.arrays.ArrowExtensionArray(values)
    labels = np.empty(len(rows), dtype=object)
    labels[:] = [row[_LABELS] for row in rows]
    columns[_LABELS] = pd.Series(labels, dtype=object)
    return pd.DataFrame(columns)
