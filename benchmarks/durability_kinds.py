"""The kinds of runs whose journal is timed, what each writes per row, and what each may keep.

Standard library only: the parent needs no evalframe for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        name: What runs.
        share: Its rows, for each row of the runs that are cut off.
        results: What the journal gets of each row: cells, and an output if there is a task.
        calls: Whether it calls a model, so that there is a wall time to compare.
    """

    name: str
    share: int
    results: int
    calls: bool


JUDGE = Kind("a judge", 1, 1, calls=True)
TASK_AND_JUDGE = Kind("a task and a judge", 1, 2, calls=True)
CODE = Kind("three code evaluators", 10, 3, calls=False)
KINDS = (JUDGE, TASK_AND_JUDGE, CODE)

NOTHING = "nothing"
REPLIES = "replies (cache=)"
RESULTS = "all (run_dir=)"
WAYS = (NOTHING, REPLIES, RESULTS)
