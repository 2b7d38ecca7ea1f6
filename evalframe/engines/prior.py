"""Results that are there already and need not be made again.

Owns   which rows of each evaluator, and of the task, a run still has to make.
Leaves where the results come from to whoever makes a Prior: a frame's columns, or a journal.

KeptCells    what is there of one evaluator
KeptOutputs  what is there of the task
Prior        all of it, and the plan with that taken off
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from evalframe.core.cells import CellColumns
from evalframe.engines.plan import Mask, Plan, PlannedEvaluator, PlannedTask
from evalframe.results.builder import Builder


class KeptCells(NamedTuple):
    """Cells of one evaluator.

    Attributes:
        rows: The rows that have one, ascending; it stays until it is made anew.
        cells: One for each of them.
        todo: For every row of the result, whether its cell is to be made.
    """

    rows: np.ndarray[Any, Any]
    cells: CellColumns
    todo: Mask


class KeptOutputs(NamedTuple):
    """Outputs of the task.

    Attributes:
        values: By row; None where it is to be made.
        todo: For every row of the result, whether its output is to be made.
    """

    values: Sequence[Any]
    todo: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What is there before a run.

    Attributes:
        cells: Evaluator -> its cells; those of evaluators not named are all to be made.
        outputs: Those of the task; None: all are to be made.
    """

    cells: Mapping[str, KeptCells] = field(default_factory=dict)
    outputs: KeptOutputs | None = None

    def evaluators(self, planned: Sequence[PlannedEvaluator]) -> tuple[PlannedEvaluator, ...]:
        """Those that have something to do, with the rows that they are to do."""
        return tuple(
            replace(item, todo=self.cells[item.name].todo) if item.name in self.cells else item
            for item in planned
            if item.name not in self.cells or self.cells[item.name].todo.any()
        )

    def task(self, planned: PlannedTask | None) -> PlannedTask | None:
        """The task with the rows that it is to do; None if there are none."""
        if planned is None or self.outputs is None:
            return planned
        return replace(planned, todo=self.outputs.todo) if self.outputs.todo.any() else None

    def output_values(self, rows: int) -> Sequence[Any]:
        """By row, the outputs that a run with a task begins with."""
        return [None] * rows if self.outputs is None else self.outputs.values

    def continued(self, spenders: Collection[str], evaluators: Collection[str]) -> set[str]:
        """Those who spend and add to results that stay; who is no evaluator is the task."""
        return {
            who
            for who in spenders
            if who in self.cells or (who not in evaluators and self.outputs is not None)
        }

    def fill(self, builder: Builder, plan: Plan) -> None:
        """Put in place what is there."""
        for place, planned in enumerate(plan.evaluators):
            if (kept := self.cells.get(planned.name)) is not None:
                builder.keep(place, kept.rows, kept.cells, kept.todo)
