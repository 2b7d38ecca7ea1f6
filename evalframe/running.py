"""One run from its arguments to its frame.

data in (Dataset) -> plan (checked) -> local run (cells) -> frame out (columns, attrs)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from evalframe.analysis.failures import failure_lines
from evalframe.analysis.left_over import left_over
from evalframe.core import schema
from evalframe.core.errors import JournalError
from evalframe.data.dataset import Dataset
from evalframe.engines.account import Account
from evalframe.engines.cell_fingerprints import Fingerprints
from evalframe.engines.earlier import ALL
from evalframe.engines.local import LocalRun
from evalframe.engines.plan import Mask
from evalframe.engines.planning import Planning
from evalframe.engines.prepare import check_options, opened_cache
from evalframe.engines.prices import refuse_unpriced
from evalframe.engines.progress import Progress
from evalframe.engines.recorder import Recorder
from evalframe.engines.run_store import RunStore
from evalframe.evaluators.identity import unread_note
from evalframe.results.builder import Builder
from evalframe.results.frame import assembled, repeated, updated

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
        planning = Planning(
            self.dataset,
            task,
            evaluators,
            roles,
            options,
            problems=problems,
            is_dataset=isinstance(data, Dataset),
        )
        self._take(planning)
        self.base = self.dataset.to_pandas() if plain is None else plain
        if options["repetitions"] > 1:
            self.base = repeated(self.base, options["repetitions"])
        self.inputs = planning.inputs(self.base.index)
        made = [(e.name, e.further) for e in self.plan.evaluators]
        marks = (
            Fingerprints(self.plan.evaluators, planning.codes, self.inputs) if self.marks else None
        )
        self.builder = Builder(made, self.plan.rows, details=self.details, fingerprints=marks)
        self.prior.fill(self.builder, self.plan)
        self.store: RunStore | None = None
        # Last: whatever fails before leaves no file open, and makes none.
        try:
            recorder = self._opened(planning.all_codes)
            name = self.experiment_name
            self.progress = Progress(self.plan.calls(), name, enabled=options["progress"])
            self.run = LocalRun(self.plan, self.inputs, self.builder, self.progress, recorder)
            attrs, started = self.base.attrs, self.started
            self.account = Account(
                planning, self.run, attrs, self.store, name=name, started=started
            )
            self._save()
        except BaseException:
            self.close()
            raise

    def _take(self, planning: Planning) -> None:
        """Keep what the end of the run needs of its beginning."""
        self.drop = planning.drop
        self.details, self.marks = planning.details, planning.marks
        self.facts, self.task_facts = planning.facts, planning.task_facts
        self.prior, self.plan = planning.prior, planning.plan

    def _opened(self, codes: Mapping[str | None, str]) -> Recorder | None:
        """Open the run_dir, and take over what is there, and the cache."""
        path, cache = self.options["run_dir"], self.options["cache"]
        if path is None:
            self.plan = replace(self.plan, cache=opened_cache(cache))
            return None
        store = self.store = RunStore(path)
        self.plan = store.resume(
            self.plan,
            self.inputs,
            codes,
            only=self.options["only"],
            adds=self.prior.has_results or self.options["overwrite"] or not self.plan.rows,
            save=self._save,
        )
        if self.plan.max_cost is not None:
            refuse_unpriced(self.plan)
        store.restore(self.builder, self.plan)
        if cache is None and self.options["only"] != ALL:
            cache = store.replies  # to make all anew is to ask anew
        self.plan = replace(self.plan, cache=opened_cache(cache))
        return store.recorder

    @property
    def experiment_name(self) -> str:
        """As given, else the time."""
        return self.options["experiment_name"] or self.started.strftime("%Y-%m-%d %H:%M:%S")

    def frame(self, *, partial: bool) -> pd.DataFrame:
        """The frame with everything that is finished."""
        columns = self.run.columns(partial=partial)
        if self.options["only"] is None:
            frame = assembled(self.base, columns, self.drop)
        else:
            frame = updated(self.base, columns)
        self.account.remember(frame, partial=partial)
        _last[:] = [frame]
        self.progress.close(failure_lines(frame) if self.progress.shown else [])
        return frame

    def _save(self) -> None:
        """Keep what the run has cost so far, for the case that it does not come to its end."""
        if self.store is not None:
            self.store.write(self.account.record())

    def ended(self) -> pd.DataFrame:
        """The whole frame; what the user should know of the models is said once."""
        frame = self.frame(partial=False)
        kept: list[str | None] = []
        if self.store is not None:
            kept = [self.store.note(), self.store.finish(self.account.record(frame))]
        self.close()
        self._note_unread()
        for note in filter(None, (*kept, *self.run.session.notes, *self._left_over(frame))):
            warnings.warn(note, stacklevel=3)
        return frame

    def _left_over(self, frame: pd.DataFrame) -> list[str]:
        plan = self.plan
        if plan.deadline is None and plan.max_requests is None and plan.max_cost is None:
            return []  # to look for what no limit can have left takes as long as a small run
        stayed = {"cell": self.builder.stayed, "task output": self.run.stayed}
        only, resumes = self.options["only"], self.store is not None
        return left_over(frame, self._due(), stayed, only, resumes=resumes)

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
        if not self.marks:
            return
        notes = [unread_note(name, facts.unread) for name, facts in self.facts.items()]
        task = self.plan.task
        if self.store is not None and task is not None and self.task_facts is not None:
            notes.append(unread_note(str(task.task.name), self.task_facts.unread, "task"))
        for note in filter(None, notes):
            self.run.session.note(note)

    def close(self) -> None:
        """Close cache and run_dir, the one also where the other fails.

        Raises:
            JournalError: The disk fails.
        """
        with contextlib.ExitStack() as stack:
            if self.store is not None:
                stack.callback(self.store.close)
            if self.plan.cache is not None:
                stack.callback(self.plan.cache.close)

    def stopped(self, exc: BaseException) -> None:
        """Put what is finished on the exception that ended the run."""
        try:
            # Whatever goes wrong here must not hide why the run ended.
            with contextlib.suppress(Exception):
                frame = self.frame(partial=True)
                # mypy: no exception has it; documented in run_experiment.
                exc.partial = frame  # type: ignore[attr-defined]
                if self.store is not None:
                    self.store.write(self.account.record(frame))
        finally:
            # Also after one more Ctrl-C: the next run in this process needs the folder.
            with contextlib.suppress(JournalError):
                self.close()


def newest() -> pd.DataFrame | None:
    """The frame of the newest run in this process, finished or not; None before the first."""
    return _last[0] if _last else None
