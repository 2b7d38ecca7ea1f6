"""The demo: ten questions with answers and references, three evaluators of different kinds.

It is written as a user would write it. One answer is wrong, one is null, one question has no
reference, and on one row an evaluator raises.

EVALUATORS   what is run: a built-in one, a plain function, a vectorized function
run          the questions with their results
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from evalframe.core.records import Skip, skip
from evalframe.evaluators.exact_match import ExactMatch
from evalframe.evaluators.function import evaluator
from evalframe.experiment import run_experiment

QUESTIONS = Path(__file__).with_name("demo_questions.jsonl")

LONGEST_SHORT = 30


@evaluator(threshold=0.5)
def recall(output: str | None, dataset_output: str | None) -> tuple[float, str] | float | Skip:
    """How many words of the reference are in the answer; it raises on a reference of no words."""
    if dataset_output is None:
        return skip("no reference")
    if output is None:
        return 0.0, "there is no answer"
    wanted = set(dataset_output.casefold().split())
    found = wanted & set(output.casefold().split())
    return len(found) / len(wanted)


@evaluator(vectorized=True)
def short(output: pd.Series) -> pd.Series:
    """Whether an answer is short, for all answers at once; a null one has no length."""
    return output.str.len() <= LONGEST_SHORT


EVALUATORS = {
    "built in, ExactMatch(ignore_case=True)": ExactMatch(ignore_case=True),
    "a plain function, called once per row": recall,
    "a vectorized function, called once with all answers": short,
}


def run() -> pd.DataFrame:
    """The questions with the results of the three evaluators."""
    return run_experiment(
        str(QUESTIONS),
        evaluators=list(EVALUATORS.values()),
        experiment_name="demo",
        input="question",
        output="answer",
        dataset_output="reference",
        metadata=["topic"],
        progress=False,
    )
