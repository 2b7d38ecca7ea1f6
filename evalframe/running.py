"""One run from its arguments to its frame.

data in (Dataset) -> plan (checked) -> local run (cells) -> frame out (columns, attrs)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from evalframe.analysis.failures import failure_lines
from evalframe.analysis.left_over import left_over
from evalframe.core import schema
from evalframe.core.errors import JournalError
from evalframe.core.run_info import KEY, EvaluatorInfo, RunInfo, mapping_for_attrs, remembered
from evalframe.data.dataset import Dataset
from evalframe.engines.cell_fingerprints import Fingerprints
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
            self._save()
        except BaseException:
            self.close()
            raise

    def _take(self, planning: Planning) -> None:
        """Keep what the end of the run needs of its beginning."""
        self.mapping, self.drop = planning.mapping, planning.drop
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
            adds=self.prior.has_results,
            save=self._save,
        )
        if self.plan.max_cost is not None:
            refuse_unpriced(self.plan)
        store.restore(self.builder, self.plan)
        self.plan = replace(
            self.plan, cache=opened_cache(store.replies if cache is None else cache)
        )
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
            untouched=self._untouched(),
        )

    def _untouched(self) -> set[str]:
        """Evaluators of which this run has made nothing."""
        made = {e.name for e in self.plan.evaluators if e.todo is None or e.todo.any()}
        return set(self.facts.keys() - made)

    def _attrs_before(self) -> tuple[Mapping[Any, Any], set[str]]:
        """The attrs of the frame that went in, and who in them has cells from the run_dir.

        What those have cost is told by the run_dir, which knows also what no frame has seen.
        """
        attrs = self.base.attrs
        if self.store is None or self.store.before is None:
            return attrs, set()
        restored, old = self.store.usage(), remembered(attrs)
        parts = self.store.before.evaluators
        whole = {
            name: replace(
                self.facts[name], started=parts[name].started, finished=parts[name].finished
            )
            for name in self._untouched() & parts.keys()
            if self.store.reused(name)
        }
        known = replace(
            old,
            evaluators={**old.evaluators, **whole},
            usage={**old.usage, **restored},
            tracebacks={**self.store.before.tracebacks, **old.tracebacks},
        )
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
        made = {name: self._part(name, frame, attrs) for name in self.facts}
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

    def _part(self, name: str, frame: pd.DataFrame | None, attrs: RunInfo) -> PartRecord:
        assert self.store is not None  # noqa: S101 - who writes a record has one
        facts, found = self.facts[name], {}
        if frame is not None:
            found = {f"n_{kind}": n for kind, n in counts(frame, name).items()}
            found = {"n": len(frame), **found, "n_reused": self.store.reused(name)}
        when = attrs.evaluators.get(name, EvaluatorInfo())
        if frame is None and name not in self._untouched():
            when = EvaluatorInfo(started=self.started.isoformat(timespec="seconds"))
        return PartRecord(
            fingerprint=facts.fingerprint,
            unread=tuple(facts.unread),
            kind=facts.kind,
            version=facts.version,
            counts=found,
            started=when.started,
            finished=when.finished,
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


def newest() -> pd.DataFrame | None:
    """The frame of the newest run in this process, finished or not; None before the first."""
    return _last[0] if _last else None
