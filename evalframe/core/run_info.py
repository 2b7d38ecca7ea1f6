"""What a frame remembers of its runs: one JSON text in `df.attrs["evalframe"]`.

It is about runs, never about cells. pandas copies attrs at every step, so it stays small;
where it was lost (a merge), everything works from the column names alone.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalframe.core.mapping import RoleMapping

KEY = "evalframe"


@dataclass(frozen=True, slots=True)
class EvaluatorInfo:
    """What is known of an evaluator whose results are in a frame.

    Attributes:
        version: The mark its author gave it.
        counts: Cells by what became of them.
        class_name: Its class.
        fingerprint: The digest of what changes its cells.
        unread: What that could not read, each "name: type".
        prompt: The prompt of a judge, shortened where it is very long.
        model: The model that is asked.
        parameters: The call that makes it, shortened likewise.
        started: Its newest run, ISO 8601 with zone.
        finished: End of that.
    """

    kind: str = "CODE"
    direction: str = "maximize"
    threshold: float | None = None
    score_range: tuple[float, float] = (0.0, 1.0)
    version: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    class_name: str | None = None
    fingerprint: str | None = None
    unread: list[str] = field(default_factory=list)
    prompt: str | None = None
    model: str | None = None
    parameters: str | None = None
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The runs that a frame went through, the newest one's own facts first.

    Attributes:
        experiment_name: Of the newest run.
        started: Of the newest run, ISO 8601 with zone.
        finished: Of the newest run.
        rows: Rows of the newest run, repetitions included.
        mapping: Role -> column (text columns only).
        evaluators: Name -> what is known of it, from all runs.
        tracebacks: Error cell -> the first traceback behind it, from all runs.
        task: Name of the newest task, if any run had one.
        task_version: The mark its author gave it.
        partial: Whether the newest run was stopped before its end.
        versions: Packages of the newest run.
        usage: Evaluator that asks a model, or "<task>" -> what its results have cost, in all runs
            that added to them.
    """

    experiment_name: str | None = None
    started: str | None = None
    finished: str | None = None
    rows: int = 0
    mapping: dict[str, Any] = field(default_factory=dict)
    evaluators: dict[str, EvaluatorInfo] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict)
    task: str | None = None
    task_version: str | None = None
    partial: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The JSON text for attrs."""
        infos = {name: _fields(info) for name, info in self.evaluators.items()}
        return json.dumps({**_fields(self), "evaluators": infos}, ensure_ascii=False)

    def role_mapping(self) -> RoleMapping:
        """The mapping as an object."""
        return RoleMapping.of(**self.mapping)


def _fields(record: Any) -> dict[str, Any]:
    """Its fields by name; not `asdict`, which copies whatever is in them."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def remembered(attrs: Mapping[Hashable, Any]) -> RunInfo:
    """What the attrs of a frame say; an empty RunInfo where they say nothing readable."""
    text = attrs.get(KEY)
    try:
        raw = json.loads(text) if isinstance(text, str) else {}
        known = {name: raw[name] for name in RunInfo.__dataclass_fields__ if name in raw}
        evaluators = {
            name: EvaluatorInfo(**{**info, "score_range": tuple(info["score_range"])})
            for name, info in known.pop("evaluators", {}).items()
        }
        return RunInfo(**known, evaluators=evaluators)
    except (ValueError, TypeError, KeyError, AttributeError):
        return RunInfo()


def mapping_for_attrs(mapping: RoleMapping) -> dict[str, Any]:
    """The roles that JSON can remember: text columns, and lists of them."""
    kept: dict[str, Any] = {}
    for role, given in mapping.given().items():
        parts = given if isinstance(given, tuple) else (given,)
        if all(isinstance(part, str) for part in parts):
            kept[role] = list(given) if isinstance(given, tuple) else given
    return kept
