"""The run_dir of one run: opened, read, written, closed.

Owns   what of an earlier run is taken over, what is said of it, and when the folder is refused.
Leaves finding cells to resume.py, writing them to recorder.py, and the files to results/.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from evalframe.core.errors import JournalError, RunDirError, counted
from evalframe.engines.belonging import resumed
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Plan
from evalframe.engines.recorder import Recorder
from evalframe.engines.resume import Resume
from evalframe.llm.spent import Spent
from evalframe.results.builder import Builder
from evalframe.results.journal import Journal
from evalframe.results.run_dir import RunDir
from evalframe.results.run_record import RunRecord

Codes = Mapping[str | None, str]


class RunStore:
    """A run_dir that one run has to itself.

    Attributes:
        before: What the newest run in it has written; None for a new one.
        recorder: Takes what the run makes; there after `resume`.
    """

    recorder: Recorder

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the folder.

        Args:
            path: The folder: a new one, an empty one, or one of an earlier run.

        Raises:
            RunDirError: It cannot be used.
        """
        self._dir = RunDir(path)
        self._journal: Journal | None = None
        self._found: Resume | None = None
        self._closed = False
        try:
            self.before = self._dir.record()
        except BaseException:
            self._dir.close()
            raise

    @property
    def replies(self) -> os.PathLike[str]:
        """The file for the reply cache."""
        return self._dir.replies

    def resume(
        self,
        plan: Plan,
        inputs: Inputs,
        codes: Codes,
        *,
        only: str | None,
        adds: bool,
        save: Callable[[], None],
    ) -> Plan:
        """The run with what is left to do; what is there is taken over.

        Args:
            plan: The run as it would be without.
            inputs: What its calls read; outputs of the task that are there go in.
            codes: Evaluator, None for the task -> the digest of its code.
            only: The run's `only=`.
            adds: Whether the run may add to a folder of which nothing belongs to it.
            save: Writes what the run has cost so far.

        Raises:
            RunDirError: Nothing in the folder belongs to this run.
            JournalError: The journal is damaged or cannot be read.
        """
        further = {planned.name: planned.further for planned in plan.evaluators}
        has_task = plan.task is not None
        journal = Journal(self._dir.journal, further, task=has_task, details=plan.details)
        self._journal = journal
        found = resumed(self._dir, journal, plan, inputs, codes, only=only, adds=adds)
        self._found = found
        self.recorder = Recorder(journal, found.plan, inputs, codes, found.numbers, save=save)
        return found.plan

    def restore(self, builder: Builder, plan: Plan) -> None:
        """Put the cells that are taken over in their places."""
        assert self._found is not None  # noqa: S101 - after resume
        for place, planned in enumerate(plan.evaluators):
            kept = self._found.cells.get(planned.name)
            if kept is not None and planned.todo is not None:
                builder.restore(place, kept.rows, kept.cells, planned.todo)

    def reused(self, name: str | None) -> int:
        """How many cells of an evaluator, None: outputs of the task, were taken over."""
        if self._found is None:
            return 0
        if name is None:
            return self._found.outputs
        kept = self._found.cells.get(name)
        return 0 if kept is None else len(kept.rows)

    def usage(self) -> dict[str, dict[str, Any]]:
        """What the results that were taken over have cost: evaluator, or "<task>" -> facts.

        A cost of which a part is not known is None.
        """
        if self.before is None:
            return {}
        # Who is no evaluator is the task.
        names = self.before.evaluators
        known = {
            who: facts
            for who, facts in self.before.usage.items()
            if self.reused(who if who in names else None)
        }
        nothing = {**asdict(Spent()), "models": []}
        return known | {who: known.get(who, nothing) | {"cost": None} for who in self._untold()}

    def _untold(self) -> dict[str, int]:
        """Judges -> of how many of their cells nobody knows the cost: their run was killed."""
        if self.before is None or self._found is None:
            return {}
        told, parts = self.before.usage, self.before.evaluators
        # Valid cells alone: one that was skipped may have asked nobody.
        lacking = {
            name: kept.cells.errors.null_count - told.get(name, {}).get("cells", 0)
            for name, kept in self._found.cells.items()
            if name in parts and parts[name].kind == "LLM"
        }
        return {name: count for name, count in lacking.items() if count > 0}

    def note(self) -> str | None:
        """What to tell the user of results that were not made now; None if all were."""
        found = self._found
        if found is None or not (found.outputs or found.cells):
            return None
        rows = found.plan.rows
        parts = [f"{found.outputs:,} of {counted(rows, 'task output')}"] if found.outputs else []
        parts += [
            f"{len(kept.rows):,} of {counted(rows, 'cell')} of {name!r}"
            for name, kept in found.cells.items()
        ]
        text = f"{self._dir.shown}: finished before, and not run again: {', '.join(parts)}."
        failed = found.failed.total()
        if failed:
            text += f" {failed:,} of them failed; only='failed' runs those again."
        for name, count in self._untold().items():
            text += (
                f" What {counted(count, 'cell')} of {name!r} cost is not known: the run that made "
                "them was killed before it could say."
            )
        return text

    def write(self, record: RunRecord) -> None:
        """Put a record in the place of the one before, as long as the folder is this run's.

        A call that blocks its loop may ask for it when the run is long over.

        Raises:
            RunDirError: The disk fails.
        """
        if not self._closed:
            self._dir.write(record)

    def finish(self, record: RunRecord) -> str | None:
        """Write all that waits and the record, and compact the journal.

        Returns:
            What to tell the user if the disk fails: the run is over, and its frame whole.
        """
        try:
            if self._journal is not None:
                self._journal.compact()
            self._dir.write(record)
        except (JournalError, RunDirError) as exc:
            return f"The results of this run are whole in its frame, but not on disk. {exc}"
        return None

    def close(self) -> None:
        """Write what waits, and let others use the folder; harmless when it was done.

        Raises:
            JournalError: The disk fails.
        """
        self._closed = True
        with contextlib.ExitStack() as stack:
            stack.callback(self._dir.close)
            if self._journal is not None:
                stack.callback(self._journal.close)
