"""Which part of a run asks which model, through the stack of the run.

asked_of        the model of a part
gives_samples   whether its answers differ by repetition
"""

from __future__ import annotations

from typing import Any

from evalframe.evaluators.asking import Judge
from evalframe.evaluators.embedded import Embedded
from evalframe.llm.model import Model
from evalframe.tasks.chat import ChatTask


def gives_samples(part: Any) -> bool:
    """Whether an evaluator or a task asks anew in each repetition, through the stack of the run."""
    return isinstance(part, (Judge, ChatTask))


def asked_of(part: Any) -> tuple[Model | None, tuple[str, ...]]:
    """The model that an evaluator or a task asks, and the kinds of tokens it is charged for.

    None for one that asks none, or asks with a client of its own.
    """
    if isinstance(part, (Judge, ChatTask)):
        return part.model, ("input", "output")
    if isinstance(part, Embedded):
        return part.embedder.served, ("input",)
    return None, ()
