"""What a run says of itself: in the attrs of its frame, and in the run.json of its run_dir.

Owns   whose results are new, whose are of earlier runs, and what all of them have cost.
Leaves the form of attrs to results/remember.py, and that of run.json to results/run_record.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from evalframe.core import schema
from evalframe.core.run_info import KEY, EvaluatorInfo, RunInfo, mapping_for_attrs, remembered
from evalframe.engines.local import LocalRun
from evalframe.engines.planning import Planning
from evalframe.engines.run_store import RunStore
from evalframe.results.remember import counts, remember, total_usage, versions
from evalframe.results.run_record import PartRecord, RunRecord


class Account:
    """Tells of one run."""

    def __init__(
        self,
        planning: Planning,
        run: LocalRun,
        attrs: Mapping[Any, Any],
        store: RunStore | None,
        *,
        name: str,
        started: datetime,
    ) -> None:
        """Tell of a run, at its end or before.

        Args:
            planning: What was asked for.
            run: What is done.
            attrs: Those of the frame that went in.
            store: The run_dir, if there is one.
            name: Of the experiment.
            started: When.
        """
        self._name = name
        self._started = started
        self._facts, self._task_facts = planning.facts, planning.task_facts
        self._prior, self._mapping = planning.prior, planning.mapping
        self._run = run
        self._plan = run.plan
        self._attrs = attrs
        self._store = store

    def remember(self, frame: pd.DataFrame, *, partial: bool) -> None:
        """Write into the attrs of the run's frame, next to what earlier runs left there.

        Args:
            frame: Its attrs are set.
            partial: Whether the run was stopped before its end.
        """
        info = RunInfo(
            experiment_name=self._name,
            started=self._started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=self._plan.rows,
            mapping=mapping_for_attrs(self._mapping),
            tracebacks=self._run.tracebacks.texts,
            task=self._plan.task.task.name if self._plan.task else None,
            task_version=self._plan.task.task.version if self._plan.task else None,
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
            self._facts,
            before,
            continued=restored
            | self._prior.continued(
                spenders,
                self._facts,
                self._run.builder.staying,
                outputs_stayed=self._run.stayed.total() > 0,
            ),
            untouched=self._untouched(),
        )

    def _untouched(self) -> set[str]:
        """Evaluators of which this run has made nothing."""
        made = {e.name for e in self._plan.evaluators if e.todo is None or e.todo.any()}
        return set(self._facts.keys() - made)

    def _attrs_before(self) -> tuple[Mapping[Any, Any], set[str]]:
        """The attrs of the frame that went in, and who in them has cells from the run_dir.

        What those have cost is told by the run_dir, which knows also what no frame has seen.
        """
        attrs = self._attrs
        if self._store is None or self._store.before is None:
            return attrs, set()
        restored, old = self._store.usage(), remembered(attrs)
        parts = self._store.before.evaluators
        whole = {
            name: replace(
                self._facts[name],
                started=parts[name].started,
                finished=parts[name].finished,
            )
            for name in self._untouched() & parts.keys()
            if self._store.reused(name)
        }
        known = replace(
            old,
            evaluators={**old.evaluators, **whole},
            usage={**old.usage, **restored},
            tracebacks={**self._store.before.tracebacks, **old.tracebacks},
        )
        return {**attrs, KEY: known.to_json()}, set(restored)

    def record(self, frame: pd.DataFrame | None = None) -> RunRecord:
        """What the run_dir says of this run; without a frame it has not ended.

        Args:
            frame: The run's, whose attrs are set.
        """
        assert self._store is not None  # noqa: S101 - who writes it has one
        before, restored = self._attrs_before()
        attrs = remembered(before if frame is None else frame.attrs)
        usage, traces = attrs.usage, attrs.tracebacks
        if frame is None:
            traces = {**traces, **self._run.tracebacks.texts}
            usage = total_usage(usage, self._usage(), restored | self._prior.cells.keys())
        earlier = self._store.before or RunRecord()
        others = {k: part for k, part in earlier.evaluators.items() if k not in self._facts}
        made = {name: self._part(name, frame, attrs) for name in self._facts}
        return RunRecord(
            experiment_name=self._name,
            started=self._started.isoformat(timespec="seconds"),
            finished=attrs.finished if frame is not None and not attrs.partial else None,
            rows=self._plan.rows,
            mapping=mapping_for_attrs(self._mapping),
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
        assert self._store is not None  # noqa: S101 - who writes a record has one
        facts, found = self._facts[name], {}
        if frame is not None:
            found = {f"n_{kind}": n for kind, n in counts(frame, name).items()}
            found = {"n": len(frame), **found, "n_reused": self._store.reused(name)}
        when = attrs.evaluators.get(name, EvaluatorInfo())
        if frame is None and name not in self._untouched():
            when = EvaluatorInfo(started=self._started.isoformat(timespec="seconds"))
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
        if self._task_facts is None or frame is None or self._store is None:
            return self._task_facts
        errors = frame[schema.TASK_ERROR].dropna()
        found = {
            "n": len(frame),
            "n_failed": sum(map(schema.is_failure, errors)),
            "n_reused": self._store.reused(None),
        }
        return replace(self._task_facts, counts=found)

    def _usage(self) -> dict[str, dict[str, Any]]:
        spent = self._run.session.spent
        # In the order of the evaluators, not in that in which they came to ask.
        names = [planned.name for planned in self._plan.evaluators]
        order = [*(who for who in spent if who not in names), *(n for n in names if n in spent)]
        return {who: {**asdict(spent[who]), "models": sorted(spent[who].models)} for who in order}
