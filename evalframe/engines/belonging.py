"""What of a run_dir belongs to a run; one of which nothing does is refused."""

from __future__ import annotations

from collections.abc import Mapping

from evalframe.core.errors import RunDirError, listed
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Plan
from evalframe.engines.resume import Resume
from evalframe.results.journal import Journal
from evalframe.results.journal_reader import JournalReader
from evalframe.results.run_dir import RunFolder
from evalframe.results.run_record import PartRecord, RunRecord


def resumed(
    folder: RunFolder,
    journal: Journal | JournalReader,
    plan: Plan,
    inputs: Inputs,
    codes: Mapping[str | None, str],
    *,
    only: str | None,
    adds: bool,
) -> Resume:
    """What a run takes over from its folder, and what is left to do.

    Args:
        folder: The run_dir.
        journal: Its journal.
        plan: The run as it would be without.
        inputs: What its calls read; outputs of the task that are there go in.
        codes: Evaluator, None for the task -> the digest of its code.
        only: The run's `only=`.
        adds: Whether the run may add to a folder of which nothing belongs to it.

    Raises:
        RunDirError: Nothing in the folder belongs to this run.
        JournalError: The journal is damaged or cannot be read.
    """
    found = Resume(plan, inputs, journal, codes, only)
    if not found.matched and not adds:
        _refuse_others(folder, found.there, codes)
    return found


def _refuse_others(folder: RunFolder, there: int, codes: Mapping[str | None, str]) -> None:
    """Refuse a folder of which a run can take over nothing, if it has results.

    Args:
        folder: The run_dir.
        there: Cells and outputs that it has of the run's evaluators and task.
        codes: Evaluator, None for the task -> the digest of its code.

    Raises:
        RunDirError: It has results.
        JournalError: The journal is damaged or cannot be read.
    """
    record = folder.record() or RunRecord()
    others = [
        name
        for name, part in record.evaluators.items()
        if name not in codes and _made(folder, name, part.counts)
    ]
    if not there and (not others or _known(record, codes, same=True)):
        return  # it is empty, or what it had is gone
    known = listed(record.evaluators) if record.evaluators else "an earlier run"
    message = (
        f"{folder.shown} holds results of {known}, and none of them belongs to this run: "
        f"{_why(record, codes)}. Pass overwrite=True to go on in it all the same, name another "
        "run_dir, or delete this one to start anew."
    )
    raise RunDirError(message)


def _why(record: RunRecord, codes: Mapping[str | None, str]) -> str:
    """What differs, as far as the record tells."""
    changed = _known(record, codes, same=False)
    new = [name for name in codes if name is not None and name not in record.evaluators]
    same = _known(record, codes, same=True)
    parts = [f"{_all(changed)} changed since"] if changed else []
    parts += [f"{listed(new)} new in it"] if new else []
    parts += [f"of {_all(same)} it has other rows"] if same else []
    return ", and ".join(parts) or "they are of something else"


def _known(record: RunRecord, codes: Mapping[str | None, str], *, same: bool) -> list[str | None]:
    """Those of the run that the folder knows, by whether their code is still the same."""
    parts: dict[str | None, PartRecord | None] = {None: record.task}
    parts.update(record.evaluators.items())
    return [
        name
        for name, code in codes.items()
        if (part := parts.get(name)) is not None and (part.fingerprint == code) == same
    ]


def _all(names: list[str | None]) -> str:
    """Evaluators by name, and the task as what it is."""
    evaluators = [name for name in names if name is not None]
    parts = ["the task"] if None in names else []
    return " and ".join([*parts, *([listed(evaluators)] if evaluators else [])])


def _made(folder: RunFolder, name: str, counts: Mapping[str, int]) -> bool:
    """Whether there are results of an evaluator; a run that was killed has not counted them."""
    if counts:
        return counts.get("n", 0) > counts.get("n_skipped", 0)
    there = JournalReader(folder.journal, {name: {}}).cells(name)
    return len(there) + there.unfit > 0
