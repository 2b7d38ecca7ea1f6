"""What a run will do, with everything checked that can be known before the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from evalframe.core.binding import Binding
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.normalize import Rules
from evalframe.llm.cache import ReplyCache
from evalframe.tasks.task import Task

# Numbers of rows in ascending order.
Rows = range | np.ndarray[Any, Any]
# One bool per row of the result.
Mask = np.ndarray[Any, np.dtype[np.bool_]]


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


# By identity: a plan is never compared, and a mask has no single truth value.
@dataclass(frozen=True, slots=True, eq=False)
class PlannedEvaluator:
    """An evaluator bound to the data.

    Attributes:
        further: Its columns beyond the five that every evaluator has.
        todo: The rows whose cell is to be made; None for all.
    """

    evaluator: Evaluator
    call: Call
    rules: Rules
    further: Mapping[str, pa.DataType]
    todo: Mask | None = None

    @property
    def name(self) -> str:
        """Name of its columns."""
        return self.evaluator.name

    def among(self, rows: Rows) -> np.ndarray[Any, Any] | None:
        """Which of these rows are to be made, as positions among them; None for all."""
        if self.todo is None:
            return None
        chosen = self.todo[rows.start : rows.stop] if isinstance(rows, range) else self.todo[rows]
        return None if chosen.all() else np.flatnonzero(chosen)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedTask:
    """The task bound to the data.

    Attributes:
        todo: The rows whose output is to be made; None for all.
        before: Row -> output and error of an earlier run, which stay if the row is not come to.
    """

    task: Task[..., Any]
    call: Call
    todo: Mask | None = None
    before: Mapping[int, tuple[Any, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run, ready to start.

    Attributes:
        rows: Rows of the result, repetitions included.
        no_output: Rows that got no output in earlier runs -> the error of their task.
        concurrency: Most task and async calls at once.
        timeout: Seconds for one cell or task call, None for no limit.
        stop_at_failure: Whether the first failure ends the run.
        details: Whether latencies, and what judges cost, are kept.
        repetitions: How often each dataset row is run.
        repetition_of: Which repetition each row is, where the data says so; None: by its place.
        cache: Replies of models from earlier runs.
        deadline: Seconds after which nothing more begins, None for no limit.
        max_requests: Most requests to models, None for no limit.
        max_cost: Dollars that models may cost, None for no limit.
    """

    rows: int
    no_output: Mapping[int, str]
    task: PlannedTask | None
    evaluators: tuple[PlannedEvaluator, ...]
    concurrency: int
    timeout: float | None
    stop_at_failure: bool
    details: bool
    repetitions: int = 1
    repetition_of: Sequence[int] | None = None
    cache: ReplyCache | None = None
    deadline: float | None = None
    max_requests: int | None = None
    max_cost: float | None = None

    def ready_rows(self, places: Sequence[int]) -> Rows:
        """The rows whose output is there, and on which some of these evaluators are to run."""
        chosen = self.chosen(places)
        if self.task is not None:
            chosen &= np.zeros(self.rows, bool) if self.task.todo is None else ~self.task.todo
        return _listed(chosen)

    def driven_rows(self) -> Rows:
        """The rows on which the task, or an evaluator apart from the caller's thread, runs."""
        chosen = self.chosen(self.apart())
        if self.task is not None:
            chosen |= True if self.task.todo is None else self.task.todo
        return _listed(chosen)

    def chosen(self, places: Sequence[int]) -> Mask:
        """For each row whether some of these evaluators is to run on it, given its output."""
        chosen = np.zeros(self.rows, bool)
        for place in places:
            todo = self.evaluators[place].todo
            chosen |= True if todo is None else todo
        chosen[list(self.no_output)] = False
        return chosen

    def task_runs(self, row: int) -> bool:
        """Whether the task makes the output of this row."""
        return self.task is not None and (self.task.todo is None or bool(self.task.todo[row]))

    def running(self, places: Sequence[int], row: int) -> Sequence[int]:
        """Those of these evaluators that run on this row."""
        evaluators = self.evaluators
        return [i for i in places if (todo := evaluators[i].todo) is None or todo[row]]

    def repetition(self, row: int) -> int:
        """Which repetition of its dataset row this is, from 1."""
        if self.repetition_of is not None:
            return self.repetition_of[row]
        return row % self.repetitions + 1

    def calls(self) -> int:
        """Cells and outputs that are to be made."""
        masks = [planned.todo for planned in self.evaluators]
        masks += [] if self.task is None else [self.task.todo]
        return sum(self.rows if mask is None else int(mask.sum()) for mask in masks)

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


def _listed(chosen: Mask) -> Rows:
    return range(len(chosen)) if chosen.all() else np.flatnonzero(chosen)
