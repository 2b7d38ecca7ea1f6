"""One run from its arguments to its frame.

data in (Dataset) -> plan (checked) -> local run (cells) -> frame out (columns, attrs)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Hashable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from evalframe.analysis.failures import failure_lines
from evalframe.analysis.left_over import left_over
from evalframe.core import schema
from evalframe.core.namespace import Namespace
from evalframe.core.run_info import RunInfo, mapping_for_attrs, remembered
from evalframe.data.dataset import Dataset
from evalframe.engines.cell_fingerprints import Fingerprints
from evalframe.engines.earlier import Earlier, is_only, kept_details
from evalframe.engines.inputs import Inputs
from evalframe.engines.local import LocalRun
from evalframe.engines.plan import Mask, Plan
from evalframe.engines.prepare import Preparation, check_options, opened_cache
from evalframe.engines.prior import Prior
from evalframe.engines.progress import Progress
from evalframe.engines.roles import (
    missing_columns,
    namespace,
    repetition_numbers,
    role_mapping,
    rows_without_output,
)
from evalframe.evaluators.identity import told, unread_note
from evalframe.results.builder import Builder, assembled, repeated, updated
from evalframe.results.remember import remember, versions

DRY_RUN_ROWS = 10

_last: list[pd.DataFrame] = []


class Experiment:
    """One call of run_experiment, from its arguments to its frame."""

    def __init__(self, data: Any, task: Any, evaluators: Any, roles: Any, options: Any) -> None:
        """Check everything; nothing has been called when this raises."""
        self.started = datetime.now(UTC)
        self.options = options
        problems = check_options(options)
        self.dataset = data if isinstance(data, Dataset) else Dataset(data)
        # Shallow, so that what the caller does to the frame during the run stays out of the result.
        plain = data.copy(deep=False) if isinstance(data, pd.DataFrame) else None
        if options["dry_run"] and not problems:
            rows = DRY_RUN_ROWS if options["dry_run"] is True else options["dry_run"]
            self.dataset = self.dataset.head(rows)
            plain = plain.iloc[:rows] if plain is not None else None
        self.mapping, more = role_mapping(
            self.dataset,
            roles,
            is_dataset=isinstance(data, Dataset),
            has_task=task is not None,
        )
        names = namespace(
            self.dataset, self.mapping, has_task=task is not None, adds=options["only"]
        )
        self.details, self.marks = kept_details(self.dataset.columns, options)
        self.prior = Prior()
        self.plan, self.drop = self._planned(names, task, evaluators, problems + more)
        self.base = self.dataset.to_pandas() if plain is None else plain
        repetitions = options["repetitions"]
        if repetitions > 1:
            self.base = repeated(self.base, repetitions)
        outputs = self.prior.output_values(self.plan.rows) if task is not None else ()
        self.inputs = Inputs(
            self.dataset.column, names.row_columns, self.base.index, repetitions, outputs
        )
        made = [(e.name, e.further) for e in self.plan.evaluators]
        marks = Fingerprints(self.plan.evaluators, self.codes, self.inputs) if self.marks else None
        self.builder = Builder(made, self.plan.rows, details=self.details, fingerprints=marks)
        self.prior.fill(self.builder, self.plan)
        name = self.experiment_name
        self.progress = Progress(self.plan.calls(), name, enabled=options["progress"])
        # Last: whatever fails before leaves no file open, and makes none.
        self.plan = replace(self.plan, cache=opened_cache(options["cache"]))
        self.run = LocalRun(self.plan, self.inputs, self.builder, self.progress)

    @property
    def experiment_name(self) -> str:
        """As given, else the time."""
        return self.options["experiment_name"] or self.started.strftime("%Y-%m-%d %H:%M:%S")

    def _planned(
        self, names: Namespace, task: Any, evaluators: Any, problems: list[str]
    ) -> tuple[Plan, list[Hashable]]:
        options = self.options
        preparation = Preparation(
            names,
            self.dataset.column,
            problems,
            missing_columns(names),
            details=self.details,
        )
        planned_task = preparation.task(task)
        self.given = preparation.evaluators(evaluators)
        if options["max_cost"] is not None:
            preparation.prices(planned_task, self.given)
        adds = is_only(options["only"])
        no_output = rows_without_output(self.dataset, names, options["repetitions"], adds=adds)
        earlier = None
        if adds:
            row_columns, keeps = names.row_columns, (self.details, self.marks)
            earlier = Earlier(self.dataset, row_columns, no_output, options["only"], keeps)
            preparation.earlier(earlier, planned_task, self.given)
        elif options["only"] is None:
            repeated = options["repetitions"] != 1
            preparation.collisions(overwrite=options["overwrite"], repeated=repeated)
        preparation.refuse()
        # Before anything runs: what runs may change what it reads.
        self.facts = {planned.name: told(planned.evaluator) for planned in self.given}
        self.codes = {name: str(facts.fingerprint) for name, facts in self.facts.items()}
        if earlier is not None:
            self.prior = earlier.prior(self.codes)
        plan = Plan(
            rows=len(self.dataset) * options["repetitions"],
            no_output=no_output,
            task=self.prior.task(planned_task),
            evaluators=self.prior.evaluators(self.given),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            stop_at_failure=options["errors"] == "raise",
            details=self.details,
            repetitions=options["repetitions"],
            repetition_of=None if earlier is None else repetition_numbers(self.dataset),
            deadline=options["deadline"],
            max_requests=options["max_requests"],
            max_cost=options["max_cost"],
        )
        return plan, preparation.drop

    def frame(self, *, partial: bool) -> pd.DataFrame:
        """The frame with everything that is finished."""
        columns = self.run.columns(partial=partial)
        if self.options["only"] is None:
            frame = assembled(self.base, columns, self.drop)
        else:
            frame = updated(self.base, columns)
        self._remember(frame, partial=partial)
        _last[:] = [frame]
        self.progress.close(failure_lines(frame) if self.progress.shown else [])
        return frame

    def _remember(self, frame: pd.DataFrame, *, partial: bool) -> None:
        info = RunInfo(
            experiment_name=self.experiment_name,
            started=self.started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=self.plan.rows,
            mapping=mapping_for_attrs(self.mapping),
            tracebacks=self.run.tracebacks.texts,
            task=self.plan.task.task.name if self.plan.task else None,
            task_version=self.plan.task.task.version if self.plan.task else None,
            partial=partial,
            versions=versions(),
            usage=self._usage(),
        )
        made = {planned.name for planned in self.plan.evaluators}
        old = remembered(self.base.attrs)
        # A task may spend nothing more, as after its deadline, and its outputs have cost something.
        spenders = info.usage.keys() | (old.usage.keys() - old.evaluators.keys())
        remember(
            frame,
            info,
            self.facts,
            self.base.attrs,
            continued=self.prior.continued(
                spenders,
                self.facts,
                self.builder.staying,
                outputs_stayed=self.run.stayed.total() > 0,
            ),
            untouched=self.facts.keys() - made,
        )

    def _usage(self) -> dict[str, dict[str, Any]]:
        spent = self.run.session.spent
        # In the order of the evaluators, not in that in which they came to ask.
        names = [planned.name for planned in self.plan.evaluators]
        order = [*(who for who in spent if who not in names), *(n for n in names if n in spent)]
        return {who: {**asdict(spent[who]), "models": sorted(spent[who].models)} for who in order}

    def ended(self) -> pd.DataFrame:
        """The whole frame; what the user should know of the models is said once."""
        frame = self.frame(partial=False)
        self.close()
        self._note_unread()
        stayed = {"cell": self.builder.stayed, "task output": self.run.stayed}
        left = left_over(frame, self._due(), stayed, self.options["only"])
        for note in (*self.run.session.notes, *left):
            warnings.warn(note, stacklevel=3)
        return frame

    def _due(self) -> dict[str, Mask]:
        """The error columns of what the run consists of -> for each row whether it was to do it."""
        plan = self.plan
        due = {
            schema.column(planned.name, schema.ERROR): plan.chosen([place])
            for place, planned in enumerate(plan.evaluators)
        }
        if plan.task is not None:
            whole = np.ones(plan.rows, bool)
            due[schema.TASK_ERROR] = whole if plan.task.todo is None else plan.task.todo
        return due

    def _note_unread(self) -> None:
        """Say what fingerprints cannot see, where a run keeps them."""
        if self.marks:
            for name, facts in self.facts.items():
                note = unread_note(name, facts.unread)
                if note is not None:
                    self.run.session.note(note)

    def close(self) -> None:
        """Close the cache."""
        if self.plan.cache is not None:
            self.plan.cache.close()

    def stopped(self, exc: BaseException) -> None:
        """Put what is finished on the exception that ended the run."""
        # Whatever goes wrong here must not hide why the run ended.
        with contextlib.suppress(Exception):
            frame = self.frame(partial=True)
            # mypy: no exception has it; documented in run_experiment.
            exc.partial = frame  # type: ignore[attr-defined]
        self.close()


def newest() -> pd.DataFrame | None:
    """The frame of the newest run in this process, finished or not; None before the first."""
    return _last[0] if _last else None
