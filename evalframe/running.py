"""One run from its arguments to its frame.

data in (Dataset) -> plan (checked) -> local run (cells) -> frame out (columns, attrs)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from evalframe.analysis.failures import failure_lines
from evalframe.analysis.left_over import left_over
from evalframe.core import schema
from evalframe.core.errors import JournalError
from evalframe.core.namespace import Namespace
from evalframe.core.run_info import KEY, RunInfo, mapping_for_attrs, remembered
from evalframe.data.dataset import Dataset
from evalframe.engines.cell_fingerprints import Fingerprints
from evalframe.engines.earlier import Earlier, is_only, kept_details
from evalframe.engines.inputs import Inputs
from evalframe.engines.local import LocalRun
from evalframe.engines.plan import Mask, Plan, PlannedTask
from evalframe.engines.prepare import Preparation, check_options, opened_cache
from evalframe.engines.prior import Prior
from evalframe.engines.progress import Progress
from evalframe.engines.recorder import Recorder
from evalframe.engines.roles import (
    missing_columns,
    namespace,
    repetition_numbers,
    role_mapping,
    rows_without_output,
)
from evalframe.engines.run_store import RunStore
from evalframe.evaluators.identity import told, unread_note
from evalframe.results.builder import Builder
from evalframe.results.frame import assembled, repeated, updated
from evalframe.results.remember import counts, remember, total_usage, versions
from evalframe.results.run_record import PartRecord, RunRecord

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
        self.store: RunStore | None = None
        # Last: whatever fails before leaves no file open, and makes none.
        try:
            recorder = self._opened()
            name = self.experiment_name
            self.progress = Progress(self.plan.calls(), name, enabled=options["progress"])
            self.run = LocalRun(self.plan, self.inputs, self.builder, self.progress, recorder)
            self._save()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> Recorder | None:
        """Open the run_dir, and take over what is there, and the cache."""
        path, cache = self.options["run_dir"], self.options["cache"]
        if path is None:
            self.plan = replace(self.plan, cache=opened_cache(cache))
            return None
        store = self.store = RunStore(path)
        codes: dict[str | None, str] = dict(self.codes.items())
        if self.task_facts is not None:
            codes[None] = str(self.task_facts.fingerprint)
        self.plan = store.resume(
            self.plan,
            self.inputs,
            codes,
            only=self.options["only"],
            adds=bool(self.prior.cells),
            save=self._save,
        )
        store.restore(self.builder, self.plan)
        self.plan = replace(
            self.plan, cache=opened_cache(store.replies if cache is None else cache)
        )
        return store.recorder

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
        self.task_facts = _task_facts(planned_task)
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
        before, restored = self._attrs_before()
        old = remembered(before)
        # A task may spend nothing more, as after its deadline, and its outputs have cost something.
        spenders = info.usage.keys() | (old.usage.keys() - old.evaluators.keys())
        remember(
            frame,
            info,
            self.facts,
            before,
            continued=restored
            | self.prior.continued(
                spenders,
                self.facts,
                self.builder.staying,
                outputs_stayed=self.run.stayed.total() > 0,
            ),
            untouched=self.facts.keys() - made,
        )

    def _attrs_before(self) -> tuple[Mapping[Any, Any], set[str]]:
        """The attrs of the frame that went in, and who in them has cells from the run_dir.

        What those have cost is told by the run_dir, which knows also what no frame has seen.
        """
        attrs = self.base.attrs
        if self.store is None or self.store.before is None:
            return attrs, set()
        restored, old = self.store.usage(), remembered(attrs)
        traces = {**self.store.before.tracebacks, **old.tracebacks}
        known = replace(old, usage={**old.usage, **restored}, tracebacks=traces)
        return {**attrs, KEY: known.to_json()}, set(restored)

    def _record(self, frame: pd.DataFrame | None = None) -> RunRecord:
        """What the run_dir says of this run; without a frame it has not ended."""
        assert self.store is not None  # noqa: S101 - who writes it has one
        before, restored = self._attrs_before()
        attrs = remembered(before if frame is None else frame.attrs)
        usage, traces = attrs.usage, attrs.tracebacks
        if frame is None:
            traces = {**traces, **self.run.tracebacks.texts}
            usage = total_usage(usage, self._usage(), restored | self.prior.cells.keys())
        earlier = self.store.before or RunRecord()
        others = {k: part for k, part in earlier.evaluators.items() if k not in self.facts}
        made = {name: self._part(name, frame) for name in self.facts}
        return RunRecord(
            experiment_name=self.experiment_name,
            started=self.started.isoformat(timespec="seconds"),
            finished=attrs.finished if frame is not None and not attrs.partial else None,
            rows=self.plan.rows,
            mapping=mapping_for_attrs(self.mapping),
            evaluators={**others, **made},
            task=self._task_part(frame) or earlier.task,
            versions=versions(),
            usage={
                **{who: facts for who, facts in earlier.usage.items() if who in others},
                **usage,
            },
            tracebacks=traces,
        )

    def _part(self, name: str, frame: pd.DataFrame | None) -> PartRecord:
        assert self.store is not None  # noqa: S101 - who writes a record has one
        facts, found = self.facts[name], {}
        if frame is not None:
            found = {f"n_{kind}": n for kind, n in counts(frame, name).items()}
            found = {"n": len(frame), **found, "n_reused": self.store.reused(name)}
        return PartRecord(
            fingerprint=facts.fingerprint,
            unread=tuple(facts.unread),
            kind=facts.kind,
            version=facts.version,
            counts=found,
        )

    def _task_part(self, frame: pd.DataFrame | None) -> PartRecord | None:
        if self.task_facts is None or frame is None or self.store is None:
            return self.task_facts
        errors = frame[schema.TASK_ERROR].dropna()
        found = {
            "n": len(frame),
            "n_failed": sum(map(schema.is_failure, errors)),
            "n_reused": self.store.reused(None),
        }
        return replace(self.task_facts, counts=found)

    def _save(self) -> None:
        """Keep what the run has cost so far, for the case that it does not come to its end."""
        if self.store is not None:
            self.store.write(self._record())

    def _usage(self) -> dict[str, dict[str, Any]]:
        spent = self.run.session.spent
        # In the order of the evaluators, not in that in which they came to ask.
        names = [planned.name for planned in self.plan.evaluators]
        order = [*(who for who in spent if who not in names), *(n for n in names if n in spent)]
        return {who: {**asdict(spent[who]), "models": sorted(spent[who].models)} for who in order}

    def ended(self) -> pd.DataFrame:
        """The whole frame; what the user should know of the models is said once."""
        frame = self.frame(partial=False)
        kept: list[str | None] = []
        if self.store is not None:
            kept = [self.store.note(), self.store.finish(self._record(frame))]
        self.close()
        self._note_unread()
        stayed = {"cell": self.builder.stayed, "task output": self.run.stayed}
        left = left_over(frame, self._due(), stayed, self.options["only"])
        for note in filter(None, (*kept, *self.run.session.notes, *left)):
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
        if not self.marks:
            return
        notes = [unread_note(name, facts.unread) for name, facts in self.facts.items()]
        task = self.plan.task
        if self.store is not None and task is not None and self.task_facts is not None:
            notes.append(unread_note(str(task.task.name), self.task_facts.unread, "task"))
        for note in filter(None, notes):
            self.run.session.note(note)

    def close(self) -> None:
        """Close cache and run_dir."""
        if self.plan.cache is not None:
            self.plan.cache.close()
        if self.store is not None:
            self.store.close()

    def stopped(self, exc: BaseException) -> None:
        """Put what is finished on the exception that ended the run."""
        # Whatever goes wrong here must not hide why the run ended.
        with contextlib.suppress(Exception):
            frame = self.frame(partial=True)
            # mypy: no exception has it; documented in run_experiment.
            exc.partial = frame  # type: ignore[attr-defined]
            if self.store is not None:
                self.store.write(self._record(frame))
        with contextlib.suppress(JournalError):
            self.close()


def _task_facts(planned: PlannedTask | None) -> PartRecord | None:
    if planned is None:
        return None
    digest, unread = planned.task.fingerprint()
    return PartRecord(fingerprint=digest, unread=unread, kind="TASK", version=planned.task.version)


def newest() -> pd.DataFrame | None:
    """The frame of the newest run in this process, finished or not; None before the first."""
    return _last[0] if _last else None
