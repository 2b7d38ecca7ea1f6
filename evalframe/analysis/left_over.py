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


def left_over(
    frame: pd.DataFrame,
    due: Mapping[str, np.ndarray[Any, Any]],
    stayed: Mapping[str, Mapping[str, int]],
    only: str | None,
) -> list[str]:
    """What to tell the user: a text for each of the two ends that left something.

    Args:
        frame: The frame of a run.
        due: Error columns of the evaluators, and of the task, that ran -> for each row whether
            the run was to make it. What an earlier run left is no news.
        stayed: What -> reason -> how many of it were to be made anew and are those of before.
        only: The word of a run that added to the results of others.
    """
    notes = []
    for error, reason in _ENDS.items():
        counts = {name: _count(frame[name], error, rows) for name, rows in due.items()}
        outputs = counts.pop(schema.TASK_ERROR, 0)
        cells = sum(counts.values())
        as_before = [_counted(why[error], what) for what, why in stayed.items() if why.get(error)]
        left = [_counted(cells, "cell")] if cells else []
        left += [_counted(outputs, "task output")] if outputs else []
        parts = [f"{' and '.join(left)} were left ({error!r})"] if left else []
        parts += [f"{' and '.join(as_before)} stayed as before"] if as_before else []
        again = ["only='missing'"] if left else []
        again += [f"only={only!r}"] if as_before else []
        if parts:
            notes.append(
                f"{reason}: {', and '.join(parts)}. To go on, run the result again with "
                f"{' and with '.join(again)}."
            )
    return notes


def _count(errors: pd.Series, error: str, rows: np.ndarray[Any, Any]) -> int:
    hits = (errors == error).to_numpy(dtype=bool, na_value=False)
    return int((hits & rows).sum())


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
