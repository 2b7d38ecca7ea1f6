"""What a run will do, with everything checked that can be known before the first call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evalframe.core.binding import Binding
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.normalize import Rules
from evalframe.llm.cache import ReplyCache
from evalframe.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Call:
    """A function bound to the data.

    Attributes:
        function: Takes the values of `binding.reads` by position.
        binding: What it reads.
    """

    function: Callable[..., Any]
    binding: Binding

    def caller(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Another function that takes the same values."""
        return self.binding.caller(function)


@dataclass(frozen=True, slots=True)
class PlannedEvaluator:
    """An evaluator bound to the data.

    Attributes:
        further: Its columns beyond the five that every evaluator has.
    """

    evaluator: Evaluator
    call: Call
    rules: Rules
    further: Mapping[str, pa.DataType]

    @property
    def name(self) -> str:
        """Name of its columns."""
        return self.evaluator.name


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """The task bound to the data."""

    task: Task[..., Any]
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run, ready to start.

    Attributes:
        rows: Rows of the result, repetitions included.
        failed_rows: Rows whose task failed in an earlier run.
        concurrency: Most task and async calls at once.
        timeout: Seconds for one cell or task call, None for no limit.
        stop_at_failure: Whether the first failure ends the run.
        details: Whether latencies, and what judges cost, are kept.
        repetitions: How often each dataset row is run.
        cache: Replies of models from earlier runs.
        deadline: Seconds after which nothing more begins, None for no limit.
        max_requests: Most requests to models, None for no limit.
        max_cost: Dollars that models may cost, None for no limit.
    """

    rows: int
    failed_rows: tuple[int, ...]
    task: PlannedTask | None
    evaluators: tuple[PlannedEvaluator, ...]
    concurrency: int
    timeout: float | None
    stop_at_failure: bool
    details: bool
    repetitions: int = 1
    cache: ReplyCache | None = None
    deadline: float | None = None
    max_requests: int | None = None
    max_cost: float | None = None

    def ready_rows(self) -> list[range]:
        """The rows that can be run, as stretches."""
        edges = [-1, *self.failed_rows, self.rows]
        pairs = itertools.pairwise(edges)
        return [range(low + 1, high) for low, high in pairs if high - low > 1]

    def by_row(self) -> list[int]:
        """Evaluators that run cell by cell in the caller's thread, by position."""
        return [i for i, e in enumerate(self.evaluators) if self._lane(e) == "row"]

    def apart(self) -> list[int]:
        """Evaluators whose cells run on the loop or in threads."""
        return [i for i, e in enumerate(self.evaluators) if self._lane(e) == "apart"]

    def vectorized(self) -> list[int]:
        """Evaluators that see whole columns."""
        return [i for i, e in enumerate(self.evaluators) if self._lane(e) == "vectorized"]

    def _lane(self, planned: PlannedEvaluator) -> str:
        evaluator = planned.evaluator
        if evaluator.vectorized:
            return "vectorized"
        threaded = evaluator.threads is not None or self.timeout is not None
        return "apart" if threaded or evaluator.is_async else "row"
