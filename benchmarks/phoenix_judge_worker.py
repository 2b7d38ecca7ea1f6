"""arize-phoenix-evals: a `ClassificationEvaluator` in `async_evaluate_dataframe`.

Its progress bar is off, and so is its limit of requests per second, which starts at 5. Run by
processes.py as `python phoenix_judge_worker.py URL ROWS`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

import pandas as pd
from judge_workload import CHOICES, CONCURRENCY, MODEL, TEMPLATE, table
from phoenix.evals import LLM, ClassificationEvaluator, async_evaluate_dataframe
from serving import serve

UNLIMITED = 1e6


def evaluate(frame: pd.DataFrame, url: str) -> pd.DataFrame:
    """Give phoenix's frame, with its scores as JSON."""
    model = LLM(
        provider="openai",
        model=MODEL,
        client="openai",
        initial_per_second_request_rate=UNLIMITED,
        base_url=url,
        api_key="none",
    )
    judge = ClassificationEvaluator(
        name="same", llm=model, prompt_template=TEMPLATE.replace("item.", ""), choices=CHOICES
    )
    running = async_evaluate_dataframe(
        dataframe=frame, evaluators=[judge], concurrency=CONCURRENCY, hide_tqdm_bar=True
    )
    return asyncio.run(running)


def totals(result: pd.DataFrame) -> dict[str, float]:
    """Count the rows that have a verdict with its reason."""
    scores: list[dict[str, Any]] = [
        json.loads(cell) if isinstance(cell, str) else cell or {} for cell in result["same_score"]
    ]
    return {
        "verdicts": float(
            sum(
                score.get("label") in CHOICES
                and score["score"] == CHOICES[score["label"]]
                and bool(score["explanation"])
                for score in scores
            )
        )
    }


if __name__ == "__main__":
    serve(partial(evaluate, pd.DataFrame(table(int(sys.argv[2]))), sys.argv[1]), totals)
