"""What a run has left to do, found without beginning it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalframe.engines.plan import Mask, PlannedEvaluator, PlannedTask
from evalframe.engines.planning import Planning
from evalframe.engines.resume import Restored
from evalframe.engines.run_reader import RunReader


class LeftToDo:
    """The plan of a run, with what frame and run_dir have taken off.

    Attributes:
        inputs: The values, with the outputs that are there.
        plan: The run.
        new_outputs: For each row whether the task is to make its output.
    """

    def __init__(
        self, planning: Planning, folder: RunReader | None, only: str | None, *, overwrite: bool
    ) -> None:
        """Look into the folder.

        Args:
            planning: The run as it would be without a run_dir.
            folder: The run_dir, if it has one.
            only: The run's `only=`.
            overwrite: The run's `overwrite=`.

        Raises:
            RunDirError: Nothing in the folder belongs to this run.
            JournalError: Its journal is damaged or cannot be read.
        """
        self._prior = planning.prior
        self._restored: dict[str, Restored] = {}
        self.plan = planning.plan
        self.inputs = planning.inputs(pd.RangeIndex(self.plan.rows))
        if folder is not None:
            codes = planning.all_codes
            adds = self._prior.has_results or overwrite or not self.plan.rows
            found = folder.resume(self.plan, self.inputs, codes, only=only, adds=adds)
            self.plan, self._restored = found.plan, found.cells
        self.new_outputs = self._todo(self.plan.task)
        self._evaluators = {planned.name: planned for planned in self.plan.evaluators}
        self._with_output = np.ones(self.plan.rows, bool)
        self._with_output[list(self.plan.no_output)] = False

    def _todo(self, planned: PlannedEvaluator | PlannedTask | None) -> Mask:
        if planned is None or planned.todo is None:
            return np.full(self.plan.rows, planned is not None)
        return planned.todo

    def asked(self, name: str) -> Mask:
        """For each row whether this evaluator is to run on it, given its output."""
        return self._todo(self._evaluators.get(name)) & self._with_output

    def done(self, name: str) -> Mask:
        """For each row whether its cell of this evaluator is there, and is not made again."""
        kept = self._prior.cells.get(name)
        done = np.zeros(self.plan.rows, bool) if kept is None else kept.done.copy()
        if name in self._restored:
            done[self._restored[name].rows] = True
        return done
