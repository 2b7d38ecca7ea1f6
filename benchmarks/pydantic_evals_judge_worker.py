"""pydantic-evals: its `LLMJudge` in `Dataset.evaluate_sync`, the task giving the answer back.

The prompt around the rubric is its own. The time includes making the cases from the columns.
Run by processes.py as `python pydantic_evals_judge_worker.py URL ROWS`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from judge_workload import CONCURRENCY, MODEL, table
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import LLMJudge
from serving import serve


def evaluate(given: dict[str, list[str]], url: str) -> Any:
    """Give the report."""
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="none"))
    judge = LLMJudge(
        rubric="The output says the same as the expected output.",
        model=model,
        include_input=True,
        include_expected_output=True,
    )
    answers = dict(zip(given["question"], given["answer"], strict=True))
    cases = [
        Case(inputs=question, expected_output=truth)
        for question, truth in zip(given["question"], given["truth"], strict=True)
    ]

    async def answer(question: str) -> str:
        return answers[question]

    dataset = Dataset(name="benchmark", cases=cases, evaluators=[judge])
    return dataset.evaluate_sync(answer, progress=False, max_concurrency=CONCURRENCY)


def totals(report: Any) -> dict[str, float]:
    """Count the rows that have a verdict with its reason."""
    verdicts = [case.assertions["LLMJudge"] for case in report.cases]
    return {"verdicts": float(sum(bool(verdict.reason) for verdict in verdicts))}


if __name__ == "__main__":
    serve(partial(evaluate, table(int(sys.argv[2])), sys.argv[1]), totals)
