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
from types import MappingProxyType
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
        done: For every row of the result, whether its cell is there and is not to be made again.
    """

    rows: np.ndarray[Any, Any]
    cells: CellColumns
    todo: Mask
    done: Mask


class KeptOutputs(NamedTuple):
    """Outputs of the task.

    Attributes:
        values: By row; None where it is to be made.
        todo: For every row of the result, whether its output is to be made.
        before: Row -> output and error that stay if the run does not come to make them anew.
    """

    values: Sequence[Any]
    todo: Mask
    before: Mapping[int, tuple[Any, str | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What is there before a run.

    Attributes:
        cells: Evaluator -> its cells; those of evaluators not named are all to be made.
        outputs: Those of the task; None: all are to be made.
        anew: Whether all of it is to be made anew, and stays only where the run does not come.
    """

    cells: Mapping[str, KeptCells] = field(default_factory=dict)
    outputs: KeptOutputs | None = None
    anew: bool = False

    @property
    def has_results(self) -> bool:
        """Whether there is anything that the run goes on from."""
        return bool(self.cells) or self.outputs is not None

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
        if not self.outputs.todo.any():
            return None
        return replace(planned, todo=self.outputs.todo, before=self.outputs.before)

    def output_values(self, rows: int) -> Sequence[Any]:
        """By row, the outputs that a run with a task begins with."""
        return [None] * rows if self.outputs is None else self.outputs.values

    def continued(
        self,
        spenders: Collection[str],
        evaluators: Collection[str],
        stayed: Collection[str],
        *,
        outputs_stayed: bool,
    ) -> set[str]:
        """Those who spend and add to results that stay; who is no evaluator is the task.

        Args:
            spenders: Those who spend.
            evaluators: The names of all evaluators.
            stayed: Evaluators of which cells of before stand in the result.
            outputs_stayed: Whether outputs of before do.
        """
        adding = stayed if self.anew else self.cells
        of_task = outputs_stayed if self.anew else self.outputs is not None
        return {who for who in spenders if (who in adding if who in evaluators else of_task)}

    def fill(self, builder: Builder, plan: Plan) -> None:
        """Put in place what is there."""
        for place, planned in enumerate(plan.evaluators):
            if (kept := self.cells.get(planned.name)) is not None:
                builder.keep(place, kept.rows, kept.cells, kept.todo)
