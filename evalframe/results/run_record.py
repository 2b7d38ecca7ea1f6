"""What `run.json` says of the runs in a run_dir: one JSON object, for people and for resuming."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from evalframe.core.nested import without_surrogates

FORMAT = 1

_KEY = "evalframe_run"


class NewerRecordError(ValueError):
    """A later evalframe wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """An evaluator of a run, or its task.

    Attributes:
        fingerprint: Of its code or configuration; None if it has none.
        unread: What entered the fingerprint by type name only.
        kind: "CODE", "LLM", "HUMAN"; "TASK" for the task.
        version: The mark its author gave it.
        counts: How its cells ended: "n", "n_valid", "n_failed", "n_task_failed", "n_skipped" (of
            the task "n", "n_failed"), and "n_reused": how many are from earlier runs.
        started: The newest run that made some of its results, ISO 8601 with zone.
        finished: End of that; None if it was killed.
    """

    fingerprint: str | None = None
    unread: tuple[str, ...] = ()
    kind: str = "CODE"
    version: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The newest run in a run_dir.

    Attributes:
        experiment_name: Its name.
        started: ISO 8601 with zone.
        finished: The same; None while it runs, and for one that was killed.
        rows: Rows, repetitions included.
        mapping: Role -> column.
        evaluators: Name -> what is known of it.
        task: The same of the task; None without one.
        versions: Packages.
        usage: Evaluator that asks a model, or "<task>" -> what its results have cost so far, in
            all runs of the folder.
        tracebacks: Error cell -> the first traceback behind it.

    Examples:
        >>> from evalframe.results.run_record import PartRecord, RunRecord
        >>> record = RunRecord(rows=2, evaluators={"exact": PartRecord(fingerprint="0" * 32)})
        >>> RunRecord.from_json(record.to_json()) == record
        True
    """

    experiment_name: str | None = None
    started: str | None = None
    finished: str | None = None
    rows: int = 0
    mapping: dict[str, Any] = field(default_factory=dict)
    evaluators: dict[str, PartRecord] = field(default_factory=dict)
    task: PartRecord | None = None
    versions: dict[str, str] = field(default_factory=dict)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of the file; what is no text, half of a surrogate pair, is U+FFFD in it."""
        text: str = without_surrogates(
            json.dumps({_KEY: FORMAT, **asdict(self)}, ensure_ascii=False, indent=2)
        )
        return text + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record of a file's text.

        Raises:
            NewerRecordError: A later evalframe wrote it.
            ValueError: The text is none of ours.
        """
        raw = json.loads(text)
        version = raw.get(_KEY) if isinstance(raw, dict) else None
        if type(version) is not int:
            message = "it is not the run.json of an evalframe run"
            raise ValueError(message)
        if version > FORMAT:
            message = "a newer evalframe wrote it"
            raise NewerRecordError(message)
        try:
            known = {name: raw[name] for name in cls.__dataclass_fields__ if name in raw}
            parts = {name: _part(part) for name, part in known.pop("evaluators", {}).items()}
            task = known.pop("task", None)
            return cls(**known, evaluators=parts, task=None if task is None else _part(task))
        except (TypeError, AttributeError) as exc:
            message = f"it does not hold what a run.json holds ({exc})"
            raise ValueError(message) from exc


def _part(raw: dict[str, Any]) -> PartRecord:
    return PartRecord(**{**raw, "unread": tuple(raw.get("unread", ()))})
