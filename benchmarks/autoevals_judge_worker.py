"""autoevals: an `LLMClassifier` over one AsyncOpenAI, 64 calls at once by a semaphore.

It asks for a tool call. Run by processes.py as `python autoevals_judge_worker.py URL ROWS`.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import openai
from autoevals import LLMClassifier
from judge_workload import CHOICES, CONCURRENCY, MODEL, TEMPLATE, table
from serving import serve

PROMPT = (
    TEMPLATE.replace("item.question", "input")
    .replace("item.answer", "output")
    .replace("item.truth", "expected")
)


async def judge(given: dict[str, list[str]], url: str) -> list[Any]:
    """Give its scores."""
    slots = asyncio.Semaphore(CONCURRENCY)
    async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
        judge = LLMClassifier("same", PROMPT, CHOICES, model=MODEL, client=client)

        async def score(question: str, answer: str, truth: str) -> Any:
            async with slots:
                return await judge.eval_async(output=answer, expected=truth, input=question)

        rows = zip(given["question"], given["answer"], given["truth"], strict=True)
        return await asyncio.gather(*(score(*row) for row in rows))


def totals(scores: list[Any]) -> dict[str, float]:
    """Count the rows that have a verdict with its reason."""
    return {
        "verdicts": float(
            sum(
                score.score == CHOICES[score.metadata["choice"]]
                and bool(score.metadata["rationale"])
                for score in scores
            )
        )
    }


def run(given: dict[str, list[str]], url: str) -> list[Any]:
    """Judge all rows."""
    return asyncio.run(judge(given, url))


if __name__ == "__main__":
    serve(partial(run, table(int(sys.argv[2])), sys.argv[1]), totals)
