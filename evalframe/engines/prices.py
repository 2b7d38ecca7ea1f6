"""What `max_cost=` needs to know of the models of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evalframe.core.errors import ExperimentError, listed
from evalframe.engines.asked import asked_of
from evalframe.engines.plan import Plan, PlannedEvaluator, PlannedTask


def price_problems(task: PlannedTask | None, evaluators: Iterable[PlannedEvaluator]) -> list[str]:
    """What to say of models of which the price of some kind of token is not known.

    Args:
        task: One that has something to do, if any.
        evaluators: Those that have.
    """
    parts: list[tuple[str, Any]] = [] if task is None else [("The task", task.task)]
    parts += [(f"Evaluator {e.name!r}", e.evaluator) for e in evaluators]
    problems = []
    for what, part in parts:
        model, kinds = asked_of(part)
        lacking = [kind for kind in kinds if kind not in ((model and model.price) or {})]
        if model is not None and lacking:
            problems.append(
                f"{what}: max_cost= needs the price of {model.name!r} for {listed(lacking)} "
                "tokens: ef.Model(..., price={'input': ..., 'output': ...}) in dollars per "
                "million; 0 for a server of your own."
            )
    return problems


def refuse_unpriced(plan: Plan) -> None:
    """End here if a model that the plan has something to do for lacks a price.

    Raises:
        ExperimentError: With all that are lacking.
    """
    todo = None if plan.task is None else plan.task.todo
    task = plan.task if todo is None or todo.any() else None
    left = [e for place, e in enumerate(plan.evaluators) if plan.chosen([place]).any()]
    problems = price_problems(task, left)
    if problems:
        raise ExperimentError(problems)
