"""What of an evaluator counts in its fingerprint, and what is told of it.

Owns   which arguments change a cell, and which only how it is called or read.
Leaves the digest to core/fingerprint.py.

counted    an evaluator -> what changes its labels, scores and explanations
told       an evaluator -> its facts for `explain`
unread_note   what the user is told of a fingerprint that cannot see all
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalframe.core.code_forms import is_users_class
from evalframe.core.fingerprint import of_function
from evalframe.core.form import CHANGES, stored
from evalframe.core.run_info import EvaluatorInfo
from evalframe.evaluators.normalize import text_of
from evalframe.llm.embedder import Embedder
from evalframe.llm.model import Model

if TYPE_CHECKING:
    from evalframe.evaluators.base import Evaluator

# How a cell is called, or read afterwards; none of it is in the cell.
BESIDE = frozenset(
    {"name", "threshold", "direction", "version", "kind", "threads", "source", "extra_needed"}
)
_LONGEST_PARAMETERS = 2_000
_LONGEST_PROMPT = 20_000
_MOST_NAMED = 5


def counted(evaluator: Evaluator, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What changes the cells of an evaluator: name -> value.

    Its `version` in place of everything else, where it has one.

    Args:
        evaluator: Of any class.
        arguments: What it was made with, defaults included.
    """
    if evaluator.version is not None:
        return {"version": evaluator.version}
    kind = type(evaluator)
    # Of what a user's own code is given, or reads, it may make anything.
    beside = {"name", "version"} if is_users_class(kind) else BESIDE
    found = {name: value for name, value in arguments.items() if name not in beside}
    for name in sorted(BESIDE & _read_by(kind)):
        found[name] = inspect.getattr_static(evaluator, name)
    found["score_range"] = tuple(map(float, evaluator.score_range))
    found["bound"] = dict(sorted(evaluator.bindings.items()))
    # Where a class of a package is kept is that package's own affair.
    return {"class": kind if is_users_class(kind) else kind.__name__, **found}


def _read_by(kind: type) -> set[str]:
    """The names that methods of the user's classes look up, but for `__init__`."""
    members = [m for base in filter(is_users_class, kind.__mro__) for m in vars(base).values()]
    functions = [getattr(m, "fget", None) if type(m) is property else m for m in members]
    return {
        name
        for function in functions
        if isinstance(function, types.FunctionType) and function.__name__ != "__init__"
        for code in _codes(function.__code__)
        for name in code.co_names
    }


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)


def told(evaluator: Evaluator) -> EvaluatorInfo:
    """The facts of an evaluator that a frame keeps of it."""
    # Not by its method: an argument of a user's class may have that name.
    digest, unread = of_function(evaluator)
    held = stored(evaluator)
    return EvaluatorInfo(
        kind=evaluator.kind,
        direction=evaluator.direction,
        threshold=evaluator.threshold,
        score_range=(float(evaluator.score_range[0]), float(evaluator.score_range[1])),
        version=evaluator.version,
        class_name=type(evaluator).__name__,
        fingerprint=digest,
        unread=list(unread),
        prompt=_prompt_of(held),
        model=_model_of(held),
        parameters=_parameters(evaluator),
    )


def unread_note(name: str, unread: Sequence[str], what: str = "evaluator") -> str | None:
    """What the user is told of a fingerprint that does not see all; None if it does.

    Args:
        name: Whose it is.
        unread: What it does not see.
        what: "evaluator" or "task".
    """
    # A counter or a cache is no constant, and nobody means it to be.
    hidden = [text for text in unread if not text.endswith(CHANGES)]
    if not hidden:
        return None
    more = len(hidden) - _MOST_NAMED
    parts = ", ".join(hidden[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"The fingerprint of {name!r} cannot see into {parts}: it stays the same when they change. "
        f"Give the {what} a version=, and another one when it is to count as changed."
    )


def _prompt_of(held: Mapping[str, Any]) -> str | None:
    """The prompt as it was given: text, or a list of messages as JSON."""
    given = held.get("prompt")
    if isinstance(given, list):
        try:
            given = json.dumps(given, ensure_ascii=False, indent=2)
        except (TypeError, ValueError):
            return None
    return _shortened(given, _LONGEST_PROMPT) if isinstance(given, str) else None


def _model_of(held: Mapping[str, Any]) -> str | None:
    """The name of the model that is asked, for a verdict or for vectors."""
    model = held.get("model")
    embedder = held.get("embedder")
    if isinstance(embedder, Embedder):
        model = embedder.served
    name = model.name if isinstance(model, Model) else model
    return _shortened(name, _LONGEST_PARAMETERS) if isinstance(name, str) else None


def _parameters(evaluator: Evaluator) -> str:
    try:
        return _shortened(repr(evaluator), _LONGEST_PARAMETERS)
    except Exception as exc:  # noqa: BLE001 - an argument of the user's may print itself wrongly
        return f"{type(evaluator).__name__}(...) ({type(exc).__name__} when it was printed)"


def _shortened(text: str, longest: int) -> str:
    """The text, which every frame that is derived from the run's will carry."""
    text = text_of(text)
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text):,} characters)"
