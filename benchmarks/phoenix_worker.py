"""arize-phoenix-evals: `evaluate_dataframe` over a DataFrame, its progress bar off.

Run by processes.py as `python phoenix_worker.py <rows>`.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pandas as pd
from phoenix.evals import bind_evaluator, create_evaluator, evaluate_dataframe
from serving import serve
from workload import columns, exact, mentioned_year, token_f1


def dated(output: str) -> dict[str, str]:
    """Give label and explanation in the form phoenix knows."""
    label, explanation = mentioned_year(output)
    return {"label": label, "explanation": explanation}


BOTH = {"output": "answer", "dataset_output": "truth"}
EVALUATORS = [
    bind_evaluator(evaluator=create_evaluator(name="exact")(exact), input_mapping=BOTH),
    bind_evaluator(evaluator=create_evaluator(name="token_f1")(token_f1), input_mapping=BOTH),
    bind_evaluator(
        evaluator=create_evaluator(name="dated")(dated), input_mapping={"output": "answer"}
    ),
]


def evaluate(frame: pd.DataFrame) -> pd.DataFrame:
    """Give phoenix's frame, with its scores as JSON."""
    return evaluate_dataframe(dataframe=frame, evaluators=EVALUATORS, hide_tqdm_bar=True)


def totals(result: pd.DataFrame) -> dict[str, float]:
    """Add up the three columns."""
    return {
        "exact": float(sum(score["score"] for score in _scores(result["exact_score"]))),
        "token_f1": sum(score["score"] for score in _scores(result["token_f1_score"])),
        "dated": float(sum(score["label"] == "dated" for score in _scores(result["dated_score"]))),
    }


def _scores(cells: pd.Series[Any]) -> list[dict[str, Any]]:
    return [json.loads(cell) if isinstance(cell, str) else cell for cell in cells]


if __name__ == "__main__":
    serve(partial(evaluate, pd.DataFrame(columns(int(sys.argv[1])))), totals)
