"""From the arguments of a run to its plan: what will be made, and what is there already.

Owns   putting the parts together, with every check that needs no file of the run.
Leaves the parts to prepare.py, what a frame has to earlier.py, and the run_dir to who opens it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from evalframe.data.dataset import Dataset
from evalframe.engines.earlier import Earlier, is_only, kept_details
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Plan, PlannedTask
from evalframe.engines.prepare import Preparation
from evalframe.engines.prices import price_problems, refuse_unpriced
from evalframe.engines.prior import Prior
from evalframe.engines.roles import (
    missing_columns,
    namespace,
    repetition_numbers,
    role_mapping,
    rows_without_output,
)
from evalframe.evaluators.identity import told
from evalframe.results.run_record import PartRecord


class Planning:
    """A run as it would be without a run_dir; nothing has been called.

    Attributes:
        dataset: The rows.
        mapping: Which column plays which role.
        details: Whether latencies and such are kept.
        marks: Whether fingerprints are.
        task: The task, whatever of it is there already.
        evaluators: All evaluators, whatever of them is there already.
        facts: Evaluator -> what it is.
        task_facts: The same of the task.
        codes: Evaluator -> the digest of its code.
        prior: What the frame has.
        plan: What is left to do.
        drop: Columns that are made anew.
    """

    def __init__(
        self,
        dataset: Dataset,
        task: Any,
        evaluators: Any,
        roles: dict[str, Any],
        options: Mapping[str, Any],
        *,
        problems: Sequence[str],
        is_dataset: bool,
    ) -> None:
        """Check everything.

        Args:
            dataset: The rows of the run.
            task: As it was given.
            evaluators: As they were given.
            roles: Role -> column as given to the run, None where not.
            options: The other arguments of `run_experiment`.
            problems: What is known to be wrong already.
            is_dataset: Whether the user gave a Dataset, which has a mapping of its own.

        Raises:
            ExperimentError: The run cannot be made; all mistakes are listed.
            ColumnNotFoundError: Columns of the mapping are missing, and that is all.
        """
        self.dataset = dataset
        self._options = options
        has_task = task is not None
        self.mapping, more = role_mapping(dataset, roles, is_dataset=is_dataset, has_task=has_task)
        names = namespace(dataset, self.mapping, has_task=has_task, adds=options["only"])
        self._row_columns = names.row_columns
        self.details, self.marks = kept_details(dataset.columns, options)
        adds = is_only(options["only"])
        preparation = Preparation(
            names,
            dataset.column,
            [*problems, *more],
            missing_columns(names),
            details=self.details,
        )
        self.task = preparation.task(task)
        self.evaluators = preparation.evaluators(evaluators)
        priced, may_hold = options["max_cost"] is not None, _is_there(options["run_dir"])
        if priced and not (adds or may_hold):
            preparation.problems += price_problems(self.task, self.evaluators)
        no_output = rows_without_output(dataset, names, options["repetitions"], adds=adds)
        earlier = self._earlier(preparation, no_output) if adds else None
        if options["only"] is None:
            repeated = options["repetitions"] != 1
            preparation.collisions(overwrite=options["overwrite"], repeated=repeated)
        preparation.refuse()
        self.drop = preparation.drop
        # Before anything runs: what runs may change what it reads.
        self.facts = {planned.name: told(planned.evaluator) for planned in self.evaluators}
        self.task_facts = _task_facts(self.task)
        self.codes = {name: str(facts.fingerprint) for name, facts in self.facts.items()}
        self.prior = Prior() if earlier is None else earlier.prior(self.codes)
        self.plan = self._plan(no_output)
        if priced and not may_hold:
            refuse_unpriced(self.plan)

    def _earlier(self, preparation: Preparation, no_output: Mapping[int, str]) -> Earlier:
        keeps = (self.details, self.marks)
        only = self._options["only"]
        earlier = Earlier(self.dataset, self._row_columns, no_output, only, keeps)
        preparation.earlier(earlier, self.task, self.evaluators)
        return earlier

    def _plan(self, no_output: Mapping[int, str]) -> Plan:
        options, adds = self._options, is_only(self._options["only"])
        return Plan(
            rows=len(self.dataset) * options["repetitions"],
            no_output=no_output,
            task=self.prior.task(self.task),
            evaluators=self.prior.evaluators(self.evaluators),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            stop_at_failure=options["errors"] == "raise",
            details=self.details,
            repetitions=options["repetitions"],
            repetition_of=repetition_numbers(self.dataset) if adds else None,
            deadline=options["deadline"],
            max_requests=options["max_requests"],
            max_cost=options["max_cost"],
        )

    @property
    def all_codes(self) -> dict[str | None, str]:
        """Evaluator, None for the task -> the digest of its code."""
        codes: dict[str | None, str] = dict(self.codes.items())
        if self.task_facts is not None:
            codes[None] = str(self.task_facts.fingerprint)
        return codes

    def inputs(self, index: pd.Index) -> Inputs:
        """The values of the run, with the outputs that the frame has.

        Args:
            index: Of the result's rows.
        """
        outputs = () if self.task is None else self.prior.output_values(self.plan.rows)
        repetitions = self._options["repetitions"]
        return Inputs(self.dataset.column, self._row_columns, index, repetitions, outputs)


def _is_there(run_dir: Any) -> bool:
    """Whether a run_dir may hold results; what is no path is refused elsewhere."""
    if not isinstance(run_dir, (str, os.PathLike)):
        return False
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Path(run_dir).expanduser().exists()
    return False


def _task_facts(planned: PlannedTask | None) -> PartRecord | None:
    if planned is None:
        return None
    digest, unread = planned.task.fingerprint()
    return PartRecord(fingerprint=digest, unread=unread, kind="TASK", version=planned.task.version)
