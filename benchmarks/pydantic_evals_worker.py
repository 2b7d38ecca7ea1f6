"""pydantic-evals: `Dataset.evaluate_sync`, the task giving the answer back, its progress off.

The time includes making the cases from the columns. Run by processes.py as
`python pydantic_evals_worker.py <rows>`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from serving import serve
from workload import columns, exact, mentioned_year, token_f1


@dataclass
class Exact(Evaluator[str, str, None]):
    """An assertion."""

    def evaluate(self, ctx: EvaluatorContext[str, str, None]) -> bool:
        """Compare."""
        return exact(ctx.output, ctx.expected_output or "")


@dataclass
class TokenF1(Evaluator[str, str, None]):
    """A score."""

    def evaluate(self, ctx: EvaluatorContext[str, str, None]) -> float:
        """Count common words."""
        return token_f1(ctx.output, ctx.expected_output or "")


@dataclass
class MentionedYear(Evaluator[str, str, None]):
    """A label with its reason."""

    def evaluate(self, ctx: EvaluatorContext[str, str, None]) -> EvaluationReason:
        """Search."""
        label, explanation = mentioned_year(ctx.output)
        return EvaluationReason(value=label, reason=explanation)


async def answer(said: str) -> str:
    """Give the answer that is there already: the task."""
    return said


def evaluate(table: dict[str, list[str]]) -> Any:
    """Give the report."""
    cases = [
        Case(inputs=said, expected_output=truth)
        for said, truth in zip(table["answer"], table["truth"], strict=True)
    ]
    dataset = Dataset(
        name="benchmark", cases=cases, evaluators=[Exact(), TokenF1(), MentionedYear()]
    )
    return dataset.evaluate_sync(answer, progress=False, max_concurrency=64)


def totals(report: Any) -> dict[str, float]:
    """Add up assertions, scores and labels."""
    return {
        "exact": float(sum(case.assertions["Exact"].value for case in report.cases)),
        "token_f1": sum(case.scores["TokenF1"].value for case in report.cases),
        "dated": float(sum(case.labels["MentionedYear"].value == "dated" for case in report.cases)),
    }


if __name__ == "__main__":
    serve(partial(evaluate, columns(int(sys.argv[1]))), totals)
