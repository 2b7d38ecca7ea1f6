"""deepeval: `evaluate` over test cases, with everything off that costs time beside the metrics.

That is its progress, its printing, its telemetry and its cache of results, which as delivered is
rewritten after each case. The time includes making the test cases from the columns. Run by
processes.py as `python deepeval_worker.py <rows>`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from serving import serve
from workload import columns, exact, mentioned_year, token_f1

os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES", DEEPEVAL_NO_INSPECT_PROMPT="1")

from deepeval import evaluate as run_deepeval
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class Metric(BaseMetric):
    """What the three have in common; deepeval has no labels, so `dated` is a score."""

    name = ""
    threshold = 0.5
    async_mode = False

    @property
    def __name__(self) -> str:
        """What deepeval reports it as."""
        return self.name

    def score_of(self, output: str, expected: str) -> float:
        """Give the score; may set `reason`."""
        raise NotImplementedError  # each metric has its own

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Score a case and keep the score, as deepeval wants it."""
        self.score = self.score_of(test_case.actual_output or "", test_case.expected_output or "")
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Do the same; not used with `run_async=False`."""
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Whether the last case passed."""
        return bool(self.success)


class Exact(Metric):
    """Exact match."""

    name = "exact"

    def score_of(self, output: str, expected: str) -> float:
        """Compare."""
        return float(exact(output, expected))


class TokenF1(Metric):
    """Token F1."""

    name = "token_f1"

    def score_of(self, output: str, expected: str) -> float:
        """Count common words."""
        return token_f1(output, expected)


class Dated(Metric):
    """Mentioned year, with its reason."""

    name = "dated"

    def score_of(self, output: str, _expected: str) -> float:
        """Search."""
        label, self.reason = mentioned_year(output)
        return float(label == "dated")


def evaluate(table: dict[str, list[str]]) -> Any:
    """Give deepeval's result."""
    cases = [
        LLMTestCase(input=question, actual_output=answer, expected_output=truth)
        for question, answer, truth in zip(*table.values(), strict=True)
    ]
    return run_deepeval(
        cases,
        [Exact(), TokenF1(), Dated()],
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(
            show_indicator=False, print_results=False, inspect_after_run=False
        ),
        cache_config=CacheConfig(write_cache=False, use_cache=False),
    )


def totals(result: Any) -> dict[str, float]:
    """Add up the scores by metric."""
    sums = {"exact": 0.0, "token_f1": 0.0, "dated": 0.0}
    for case in result.test_results:
        for metric in case.metrics_data:
            sums[metric.name] += metric.score
    return sums


if __name__ == "__main__":
    serve(partial(evaluate, columns(int(sys.argv[1]))), totals)
