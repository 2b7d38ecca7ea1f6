"""What a run left undone because its budget or its time was at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from evalframe.core import schema

_ENDS = {
    schema.BUDGET: "max_cost= or max_requests= was reached",
    schema.DEADLINE: "the deadline= passed",
}


def left_over(frame: pd.DataFrame, evaluators: Sequence[str], *, has_task: bool) -> list[str]:
    """What to tell the user: a text for each of the two ends that left something.

    Args:
        frame: The frame of a run.
        evaluators: The evaluators of this run.
        has_task: Whether it had a task; what an earlier one left is no news.
    """
    names = [schema.column(name, schema.ERROR) for name in evaluators]
    notes = []
    for error, reason in _ENDS.items():
        cells = sum(int((frame[name] == error).sum()) for name in names)
        outputs = int((frame[schema.TASK_ERROR] == error).sum()) if has_task else 0
        counted = [f"{cells:,} {_cells(cells)}"] if cells else []
        counted += [f"{outputs:,} {_outputs(outputs)}"] if outputs else []
        if counted:
            notes.append(
                f"{reason}: {' and '.join(counted)} were left ({error!r}). To go on, run the "
                "result again with only='missing'."
            )
    return notes


def _cells(count: int) -> str:
    return "cell" if count == 1 else "cells"


def _outputs(count: int) -> str:
    return "task output" if count == 1 else "task outputs"
