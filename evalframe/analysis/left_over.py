"""What a run left undone because its budget or its time was at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from evalframe.core import schema

_ENDS = {
    schema.BUDGET: "max_cost= or max_requests= was reached",
    schema.DEADLINE: "the deadline= passed",
}


def left_over(frame: pd.DataFrame, due: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """What to tell the user: a text for each of the two ends that left something.

    Args:
        frame: The frame of a run.
        due: Error columns of the evaluators, and of the task, that ran -> for each row whether
            the run was to make it. What an earlier run left is no news.
    """
    notes = []
    for error, reason in _ENDS.items():
        counts = {name: _count(frame[name], error, rows) for name, rows in due.items()}
        outputs = counts.pop(schema.TASK_ERROR, 0)
        cells = sum(counts.values())
        left = [_counted(cells, "cell")] if cells else []
        left += [_counted(outputs, "task output")] if outputs else []
        if left:
            notes.append(
                f"{reason}: {' and '.join(left)} were left ({error!r}). To go on, run the "
                "result again with only='missing'."
            )
    return notes


def _count(errors: pd.Series, error: str, rows: np.ndarray[Any, Any]) -> int:
    hits = (errors == error).to_numpy(dtype=bool, na_value=False)
    return int((hits & rows).sum())


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
