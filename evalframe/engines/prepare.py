"""From what the user asked for to a plan, with every mistake found before the first call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from evalframe.core import schema
from evalframe.core.binding import Binding
from evalframe.core.columns import Column
from evalframe.core.errors import (
    ColumnNotFoundError,
    ExperimentError,
    UnsupportedValueError,
    listed,
)
from evalframe.core.namespace import BindingError, ColumnSource, Namespace
from evalframe.engines.earlier import ONLY, Earlier, is_only
from evalframe.engines.plan import Call, PlannedEvaluator, PlannedTask
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.function import as_evaluator
from evalframe.evaluators.normalize import Rules
from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.tasks.task import Task, as_task


class Preparation:
    """Collects a run's parts and everything that is wrong with them.

    Attributes:
        problems: What was found so far.
        names: The evaluators' names.
        drop: Columns that the run makes anew (`overwrite=True`).
    """

    def __init__(
        self,
        namespace: Namespace,
        column: Callable[[Hashable], Column],
        problems: Sequence[str],
        missing: ColumnNotFoundError | None,
        *,
        details: bool,
    ) -> None:
        """Prepare a run on these columns.

        Args:
            namespace: What names stand for; a role's column may be missing.
            column: Label -> column, of those that are there.
            problems: What is known to be wrong already.
            missing: The columns that are not there.
            details: Whether the run keeps details.
        """
        self.details = details
        self.namespace = namespace
        self.problems = list(problems)
        self.names: list[str] = []
        self.drop: list[Hashable] = []
        self._column = column
        self._missing = missing
        self._read: set[Hashable] = set()
        self._unreadable: set[Hashable] = set()

    def task(self, given: Any) -> PlannedTask | None:
        """The task bound to the dataset's own columns; None if there is none or it is wrong."""
        if given is None:
            return None
        if isinstance(given, Evaluator):
            self.problems.append(
                f"{given!r} was given as the task, but is an evaluator. Write "
                "run_experiment(dataset, evaluators=[...])."
            )
            return None
        if _looks_like_evaluators(given):
            self.problems.append(
                "evaluators were given as the task (the second argument). Write "
                "run_experiment(dataset, evaluators=[...])."
            )
            return None
        try:
            task = as_task(given)
        except (TypeError, ValueError) as exc:
            self.problems.append(str(exc))
            return None
        names = Namespace(self.namespace.columns, self.namespace.mapping, has_task=False)
        call = self._bound(task, names, what=f"task {task.name!r}")
        if call is None:
            self.problems[-1] += (
                " If it is an evaluator: run_experiment(dataset, evaluators=[...])."
            )
        return None if call is None else PlannedTask(task, call)

    def evaluators(self, given: Any) -> list[PlannedEvaluator]:
        """The evaluators bound to the data; those that are wrong are left out."""
        made: list[PlannedEvaluator] = []
        items = _items(given)
        if not items and not self.namespace.has_task:
            self.problems.append(_nothing_to_run(self.namespace.columns))
        for name, item in items:
            if isinstance(item, Task):
                self.problems.append(f"{item!r} was given as an evaluator, but is a task.")
                continue
            try:
                evaluator = as_evaluator(item, name=name)
            except (TypeError, ValueError) as exc:
                self.problems.append(str(exc))
                continue
            if evaluator.name in self.names:
                self.problems.append(
                    f"Two evaluators are named {evaluator.name!r}; their columns would be the "
                    f"same. Rename one: .named('{evaluator.name}_2')."
                )
                continue
            self.names.append(evaluator.name)
            planned = self._planned(evaluator)
            if planned is not None:
                made.append(planned)
        return made

    def _planned(self, evaluator: Evaluator) -> PlannedEvaluator | None:
        what = f"evaluator {evaluator.name!r}"
        call = self._bound(evaluator, self.namespace, what=what)
        if call is None:
            return None
        low, high = evaluator.score_range
        self._check_types(evaluator, call.binding)
        rules = Rules(low, high, evaluator.extras)
        further = evaluator.result_fields(details=self.details)
        return PlannedEvaluator(evaluator, call, rules, further)

    def _bound(
        self, part: Evaluator | Task[..., Any], namespace: Namespace, *, what: str
    ) -> Call | None:
        lacking = part.requirements()
        if lacking is not None:
            self.problems.append(f"{what[0].upper()}{what[1:]}: {lacking}")
        try:
            binding = part.binding(namespace, what=what)
        except BindingError as exc:
            self.problems += [text[0].upper() + text[1:] for text in exc.problems]
            return None
        self._check_columns(binding)
        return Call(binding.caller(part.function), binding)

    def _check_columns(self, binding: Binding) -> None:
        """Every value that will be read must have a plain form."""
        for label in binding.labels(self.namespace.row_columns):
            if label in self._read:
                continue
            self._read.add(label)
            if label not in self.namespace.columns:
                self._unreadable.add(label)
                continue
            try:
                self._column(label).check()
            except UnsupportedValueError as exc:
                self.problems.append(str(exc))
                self._unreadable.add(label)

    def _check_types(self, evaluator: Evaluator, binding: Binding) -> None:
        if self._unreadable & binding.labels(self.namespace.row_columns):
            return
        names = list(inspect.signature(evaluator.function).parameters)
        columns: dict[str, Column] = {}
        for place, argument in enumerate(binding.arguments):
            source = binding.reads[argument.start] if argument.plain else None
            if isinstance(source, ColumnSource):
                columns[argument.keyword or names[place]] = self._column(source.label)
        types = {name: column.arrow_type for name, column in columns.items()}
        problem = evaluator.check_types(types)
        if problem:
            # A column of nothing but nulls, or of no rows, has a type by accident only.
            empty = [name for name, column in columns.items() if not column.vector().notna().any()]
            problem = evaluator.check_types({**types, **dict.fromkeys(empty)})
        if problem:
            self.problems.append(f"Evaluator {evaluator.name!r}: {problem}")

    def collisions(self, *, overwrite: bool, repeated: bool) -> None:
        """Columns that are there already: to be dropped, or problems."""
        columns, has_task = self.namespace.columns, self.namespace.has_task
        if repeated and schema.REPETITION in columns:
            self.problems.append(
                "The data already has a column 'repetition', which repetitions= makes: rename it."
            )
        if has_task and schema.OUTPUT in columns and not overwrite:
            self.problems.append(
                "The data already has a column 'output', and a task makes one. Pass "
                "only='missing' to make those that are not there, overwrite=True to replace it, "
                "leave the task out to evaluate it, or rename it."
            )
        old = [name for name in schema.evaluators_in(columns) if name not in self.names]
        if has_task and schema.OUTPUT in columns and old:
            self.problems.append(
                f"The frame has results of {listed(old)} for another output than the task will "
                "make. Run these evaluators again too, or drop their columns (eval.<name>.*)."
            )
        if has_task:
            self.drop += [name for name in (schema.OUTPUT, schema.TASK_ERROR) if name in columns]
        for name in self.names:
            there = [str(c) for c in columns if (schema.parse(c) or ("",))[0] == name]
            if there and not overwrite:
                self.problems.append(schema.collision_problem(name, there))
            self.drop += there

    def earlier(
        self, earlier: Earlier, task: PlannedTask | None, evaluators: Sequence[PlannedEvaluator]
    ) -> None:
        """Results that are there already, where the run adds to them."""
        if task is not None:
            earlier.add_task(task)
            earlier.add_others(self.names)
        for planned in evaluators:
            earlier.add_evaluator(planned)
        self.problems += earlier.problems

    def refuse(self) -> None:
        """End here if anything is wrong.

        Raises:
            ExperimentError: With every problem that was found.
            ColumnNotFoundError: Columns of the mapping are missing, and that is all.
        """
        if self._missing is not None:
            if not self.problems:
                raise self._missing
            self.problems.insert(0, str(self._missing))
        if self.problems:
            raise ExperimentError(self.problems)


def _items(given: Any) -> list[tuple[str | None, Any]]:
    if isinstance(given, Mapping) and "task_type" not in given:
        return [(name, item) for name, item in given.items()]
    if isinstance(given, (list, tuple)):
        return [(None, item) for item in given]
    return [(None, given)]


def _looks_like_evaluators(given: Any) -> bool:
    items = [item for _, item in _items(given)]
    many = isinstance(given, (list, tuple, Mapping))
    return many and all(callable(item) or isinstance(item, Evaluator) for item in items)


def opened_cache(path: Any, *, reads_only: bool = False) -> ReplyCache | None:
    """The cache at a path, None without one.

    Args:
        path: As it was given.
        reads_only: Whether the file is to stay as it is.

    Raises:
        ExperimentError: It cannot be used.
    """
    if path is None:
        return None
    try:
        return ReplyCache(path, reads_only=reads_only)
    except CacheError as exc:
        raise ExperimentError([str(exc)]) from exc
    except TypeError:
        message = f"cache must be the path of a file, not {path!r}."
        raise ExperimentError([message]) from None


def check_options(options: Mapping[str, Any]) -> list[str]:
    """What is wrong with the plain options of a run."""
    problems = []
    for name in ("concurrency", "repetitions"):
        value = options[name]
        if type(value) is not int or value < 1:
            problems.append(f"{name} must be a whole number of at least 1, not {value!r}.")
    problems += _limit_problems(options)
    if options["errors"] not in ("record", "raise"):
        problems.append(f"errors must be 'record' or 'raise', not {options['errors']!r}.")
    dry_run = options["dry_run"]
    # 0 is no False here: who asks for no rows must not get all of them.
    if not isinstance(dry_run, bool) and (not isinstance(dry_run, int) or dry_run < 1):
        problems.append(
            f"dry_run must be True, False or a number of rows of at least 1, not {dry_run!r}."
        )
    name = options["experiment_name"]
    if name is not None and not isinstance(name, str):
        problems.append(f"experiment_name must be text, not {name!r}.")
    run_dir = options["run_dir"]
    path = os.fspath(run_dir) if isinstance(run_dir, os.PathLike) else run_dir
    if run_dir is not None and not (isinstance(path, str) and path):
        problems.append(f"run_dir must be the path of a folder, not {run_dir!r}.")
    problems += _check_only(options)
    flags = ("overwrite", "details", "progress")
    wrong = [flag for flag in flags if not isinstance(options[flag], bool)]
    return problems + [f"{flag} must be True or False, not {options[flag]!r}." for flag in wrong]


def _check_only(options: Mapping[str, Any]) -> list[str]:
    only = options["only"]
    if only is None:
        return []
    if not is_only(only):
        return [f"only must be {', '.join(map(repr, ONLY))} or None, not {only!r}."]
    problems = []
    if options["overwrite"] is True:
        problems.append(
            "only= and overwrite=True contradict each other; only='all' makes all cells anew."
        )
    if options["dry_run"] is not False:
        problems.append(
            "dry_run= gives the first rows alone, and only= adds to the results of all rows: leave "
            "one out. To try it on a few: pass frame.head(10)."
        )
    if options["repetitions"] != 1:
        problems.append(
            "repetitions= makes new rows, and only= takes the rows as they are: leave one out. A "
            "frame of repetitions has its column 'repetition' already."
        )
    return problems


def _limit_problems(options: Mapping[str, Any]) -> list[str]:
    problems = []
    units = {"timeout": "seconds", "deadline": "seconds", "max_cost": "dollars"}
    for name, unit in units.items():
        value = options[name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < float("inf")):
            problems.append(f"{name} must be {unit} above 0, or None, not {value!r}.")
    most = options["max_requests"]
    if most is not None and (type(most) is not int or most < 1):
        problems.append(
            f"max_requests must be a whole number of at least 1, or None, not {most!r}."
        )
    return problems


def _nothing_to_run(columns: Sequence[Hashable]) -> str:
    """What to say when there is neither a task nor an evaluator."""
    return (
        f"There is nothing to run: give evaluators=[...] or a task. The data has {listed(columns)}."
    )
