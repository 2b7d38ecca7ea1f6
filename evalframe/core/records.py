"""What an evaluator may hand back as an object, and what a cell becomes.

EvaluationResult   label, score, explanation, metadata and extras, as the user gives them
Skip               "no verdict for this row, for this reason"
CallError          a failed call that knows its kind
Cell               the strict form of one cell
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """One verdict with all its parts. At least one of `score` and `label` must be given.

    The parts are checked when the evaluator returns it, so that a mistake is a failed cell
    (`invalid_result`, `range`) of that row and not an exception in the user's code.

    Args:
        score: Number in the evaluator's `score_range` ([0, 1] unless declared), or a bool.
        label: Text.
        explanation: Text.
        metadata: Anything that JSON text can keep; one dict per cell.
        extras: Values of the extras that the evaluator declares, by field name.

    Examples:
        >>> import evalframe as ef
        >>> def graded(output):
        ...     return ef.EvaluationResult(score=1, label="reasonable", metadata={"model": "v2"})
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators=[graded])
        >>> scored["eval.graded.label"][0], scored["eval.graded.score"][0]
        ('reasonable', 1.0)
    """

    score: Any = None
    label: str | None = None
    explanation: str | None = None
    metadata: Mapping[str, Any] | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skip:
    """No verdict for this row. Made by `evalframe.skip`."""

    reason: str


def skip(reason: str) -> Skip:
    """A return value that says: this row has no verdict, for this reason.

    A skipped cell is NA, is counted in `n_skipped`, and enters no mean and no rate.

    Args:
        reason: Shown in the cell's error column as `skipped: <reason>`.

    Returns:
        The value to return from an evaluator.

    Raises:
        TypeError: `reason` is not text, or is empty.

    Examples:
        >>> import evalframe as ef
        >>> def polite(output):
        ...     return "please" in output if output else ef.skip("empty output")
        >>> ef.run_experiment([{"output": ""}], evaluators=[polite])["eval.polite.error"][0]
        'skipped: empty output'
    """
    if not isinstance(reason, str) or not reason.strip():
        message = f"skip() needs the reason as text, not {reason!r}. Write ef.skip('no contexts')."
        raise TypeError(message)
    return Skip(reason)


class CallError(Exception):
    """A call that failed for a known reason; `kind` is that of its error cell."""

    def __init__(self, kind: str, message: str) -> None:
        """Keep the kind."""
        super().__init__(message)
        self.kind = kind


class Cell(NamedTuple):
    """One cell in its strict form; `error` is None exactly when the cell is valid."""

    label: str | None = None
    score: float | None = None
    explanation: str | None = None
    metadata: str | None = None
    error: str | None = None
    extras: tuple[Any, ...] = ()
