"""What a run left undone because its budget or its time was at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from evalframe.core import schema
from evalframe.core.errors import counted

_MISSING, _STALE, _ALL = "missing", "stale", "all"

_ENDS = {
    schema.BUDGET: "max_cost= or max_requests= was reached",
    schema.DEADLINE: "the deadline= passed",
}


def left_over(
    frame: pd.DataFrame,
    due: Mapping[str, np.ndarray[Any, Any]],
    stayed: Mapping[str, Mapping[str, int]],
    only: str | None,
    *,
    resumes: bool = False,
) -> list[str]:
    """What to tell the user: a text for each of the two ends that left something.

    Args:
        frame: The frame of a run.
        due: Error columns of the evaluators, and of the task, that ran -> for each row whether
            the run was to make it. What an earlier run left is no news.
        stayed: What -> reason -> how many of it were to be made anew and are those of before.
        only: The word of the run; None if it made everything.
        resumes: Whether the same call goes on from where it ended.
    """
    notes = []
    for error, reason in _ENDS.items():
        counts = {name: _count(frame[name], error, rows) for name, rows in due.items()}
        outputs = counts.pop(schema.TASK_ERROR, 0)
        cells = sum(counts.values())
        as_before = [counted(why[error], what) for what, why in stayed.items() if why.get(error)]
        left = [counted(cells, "cell")] if cells else []
        left += [counted(outputs, "task output")] if outputs else []
        verb = "was" if cells + outputs == 1 else "were"
        parts = [f"{' and '.join(left)} {verb} left ({error!r})"] if left else []
        parts += [f"{' and '.join(as_before)} stayed as before"] if as_before else []
        if parts:
            way = _way_on(only, left=bool(left), as_before=bool(as_before))
            if resumes and only is None:
                way = "To go on, make the same call again."
            notes.append(f"{reason}: {', and '.join(parts)}. {way}")
    return notes


def _way_on(only: str | None, *, left: bool, as_before: bool) -> str:
    """How to have the rest made, and no more than the rest where there is a word for it."""
    if not as_before:
        return "To go on, run the result again with only='missing'."
    if only in (None, _ALL):
        # Nothing marks a verdict of before among those that were made anew.
        missing = "To go on, run the result again with only='missing'. " if left else ""
        return f"{missing}To replace what stayed, only='all' makes all cells anew once more."
    # What is missing is stale too.
    words = [_MISSING] if left and only != _STALE else []
    words += [only] if only not in words else []
    return f"To go on, run the result again with {' and with '.join(f'only={w!r}' for w in words)}."


def _count(errors: pd.Series, error: str, rows: np.ndarray[Any, Any]) -> int:
    if not errors.notna().any():
        return 0  # as in most runs: to compare each row would take more memory than all else
    hits = (errors == error).to_numpy(dtype=bool, na_value=False)
    return int((hits & rows).sum())
