"""run_experiment: where all parts meet. It has no logic of its own.

data in (Dataset) -> plan (checked) -> local run (cells) -> frame out (columns, attrs)
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Hashable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from evalframe.analysis.failures import failure_lines
from evalframe.analysis.left_over import left_over
from evalframe.core.namespace import Namespace
from evalframe.core.run_info import EvaluatorInfo, RunInfo, mapping_for_attrs
from evalframe.data.dataset import Dataset
from evalframe.engines.inputs import Inputs
from evalframe.engines.local import LocalRun
from evalframe.engines.plan import Plan
from evalframe.engines.prepare import Preparation, check_options, opened_cache
from evalframe.engines.progress import Progress
from evalframe.engines.roles import missing_columns, role_mapping, rows_without_output
from evalframe.engines.signals import SigtermRaises
from evalframe.results.builder import Builder, assembled, repeated
from evalframe.results.remember import remember, versions

DRY_RUN_ROWS = 10

_last: list[pd.DataFrame] = []


class _Experiment:
    """One call of run_experiment, from its arguments to its frame."""

    def __init__(self, data: Any, task: Any, evaluators: Any, roles: Any, options: Any) -> None:
        """Check everything; nothing has been called when this raises."""
        self.started = datetime.now(UTC)
        self.options = options
        problems = check_options(options)
        self.dataset = data if isinstance(data, Dataset) else Dataset(data)
        # Shallow, so that what the caller does to the frame during the run stays out of the result.
        plain = data.copy(deep=False) if isinstance(data, pd.DataFrame) else None
        if options["dry_run"] and not problems:
            rows = DRY_RUN_ROWS if options["dry_run"] is True else options["dry_run"]
            self.dataset = self.dataset.head(rows)
            plain = plain.iloc[:rows] if plain is not None else None
        self.mapping, more = role_mapping(
            self.dataset,
            roles,
            is_dataset=isinstance(data, Dataset),
            has_task=task is not None,
        )
        columns = tuple(self.dataset.columns)
        names = Namespace(columns, self.mapping, has_task=task is not None)
        self.plan, self.drop = self._planned(names, task, evaluators, problems + more)
        self.base = self.dataset.to_pandas() if plain is None else plain
        repetitions = options["repetitions"]
        if repetitions > 1:
            self.base = repeated(self.base, repetitions)
        self.inputs = Inputs(self.dataset.column, names.row_columns, self.base.index, repetitions)
        made = [(e.name, e.further) for e in self.plan.evaluators]
        self.builder = Builder(made, self.plan.rows, details=options["details"])
        cells = self.plan.rows * (len(made) + (self.plan.task is not None))
        name = self.experiment_name
        self.progress = Progress(cells, name, enabled=options["progress"])
        # Last: whatever fails before leaves no file open, and makes none.
        self.plan = replace(self.plan, cache=opened_cache(options["cache"]))
        self.run = LocalRun(self.plan, self.inputs, self.builder, self.progress)

    @property
    def experiment_name(self) -> str:
        """As given, else the time."""
        return self.options["experiment_name"] or self.started.strftime("%Y-%m-%d %H:%M:%S")

    def _planned(
        self, names: Namespace, task: Any, evaluators: Any, problems: list[str]
    ) -> tuple[Plan, list[Hashable]]:
        options = self.options
        preparation = Preparation(
            names,
            self.dataset.column,
            problems,
            missing_columns(names),
            details=options["details"] is True,
        )
        planned_task = preparation.task(task)
        planned = preparation.evaluators(evaluators)
        if options["max_cost"] is not None:
            preparation.prices(planned_task, planned)
        preparation.collisions(overwrite=options["overwrite"], repeated=options["repetitions"] != 1)
        preparation.refuse()
        plan = Plan(
            rows=len(self.dataset) * options["repetitions"],
            failed_rows=rows_without_output(self.dataset, names, options["repetitions"]),
            task=planned_task,
            evaluators=tuple(planned),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            stop_at_failure=options["errors"] == "raise",
            details=options["details"],
            repetitions=options["repetitions"],
            deadline=options["deadline"],
            max_requests=options["max_requests"],
            max_cost=options["max_cost"],
        )
        return plan, preparation.drop

    def frame(self, *, partial: bool) -> pd.DataFrame:
        """The frame with everything that is finished."""
        frame = assembled(self.base, self.run.columns(partial=partial), self.drop)
        self._remember(frame, partial=partial)
        _last[:] = [frame]
        self.progress.close(failure_lines(frame) if self.progress.shown else [])
        return frame

    def _remember(self, frame: pd.DataFrame, *, partial: bool) -> None:
        infos = {
            planned.name: EvaluatorInfo(
                kind=planned.evaluator.kind,
                direction=planned.evaluator.direction,
                threshold=planned.evaluator.threshold,
                score_range=(planned.rules.low, planned.rules.high),
                version=planned.evaluator.version,
            )
            for planned in self.plan.evaluators
        }
        info = RunInfo(
            experiment_name=self.experiment_name,
            started=self.started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=self.plan.rows,
            mapping=mapping_for_attrs(self.mapping),
            tracebacks=self.run.tracebacks.texts,
            task=self.plan.task.task.name if self.plan.task else None,
            task_version=self.plan.task.task.version if self.plan.task else None,
            partial=partial,
            versions=versions(),
            usage=self._usage(),
        )
        remember(frame, info, infos, self.base.attrs)

    def _usage(self) -> dict[str, dict[str, Any]]:
        return {
            who: {**asdict(facts), "models": sorted(facts.models)}
            for who, facts in self.run.session.spent.items()
        }

    def ended(self) -> pd.DataFrame:
        """The whole frame; what the user should know of the models is said once."""
        frame = self.frame(partial=False)
        self.close()
        names = [planned.name for planned in self.plan.evaluators]
        left = left_over(frame, names, has_task=self.plan.task is not None)
        for note in (*self.run.session.notes, *left):
            warnings.warn(note, stacklevel=3)
        return frame

    def close(self) -> None:
        """Close the cache."""
        if self.plan.cache is not None:
            self.plan.cache.close()

    def stopped(self, exc: BaseException) -> None:
        """Put what is finished on the exception that ended the run."""
        # Whatever goes wrong here must not hide why the run ended.
        with contextlib.suppress(Exception):
            frame = self.frame(partial=True)
            # mypy: no exception has it; documented in run_experiment.
            exc.partial = frame  # type: ignore[attr-defined]
        self.close()


def run_experiment(
    dataset: Any,
    task: Any = None,
    evaluators: Any = (),
    experiment_name: str | None = None,
    *,
    input: Hashable = None,
    output: Hashable = None,
    dataset_output: Hashable = None,
    metadata: Any = None,
    concurrency: int = 32,
    timeout: float | None = None,
    errors: str = "record",
    overwrite: bool = False,
    repetitions: int = 1,
    dry_run: bool | int = False,
    details: bool = False,
    cache: str | os.PathLike[str] | None = None,
    deadline: float | None = None,
    max_cost: float | None = None,
    max_requests: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """The dataset as a frame, with the results of task and evaluators as new columns.

    The frame that went in comes out: same rows, order, index, columns, dtypes and values, and
    the caller's object is never changed. Columns that are added, in this order: `repetition`
    (with `repetitions`), `output` and `task.error` (with a task), then for each evaluator
    `eval.<name>.label`, `.score`, `.explanation`, `.metadata`, `.error`, and its extras.

    Args:
        dataset: A pandas frame (its own columns come back), or anything that `Dataset` takes
            (an Arrow-backed frame comes back).
        task: A function that makes the `output` of a row; sync or async.
        evaluators: A function, an `Evaluator`, a list of them, or a mapping name -> evaluator.
        experiment_name: Recorded with the results; the time if not given.
        input: Column that plays this role.
        output: Column that plays this role; not with a task, which makes it.
        dataset_output: Column that plays this role: what was expected.
        metadata: Column, or list of columns, that plays this role.
        concurrency: Most task calls and async cells at once.
        timeout: Seconds for each task call and each cell; not for vectorized evaluators.
        errors: "record": a failure is a fact of its cell. "raise": the first one ends the run
            with the user's own exception.
        overwrite: Replace the results of evaluators of the same name, and `output`.
        repetitions: How often each row is run; a row's repetitions stand together.
        dry_run: True: the first 10 rows only; a number: the first so many.
        details: Add `eval.<name>.latency_s`, in seconds (a vectorized call's time is shared
            equally by its rows), and for judges tokens, `cost` and `from_cache`.
        cache: File in which replies and embeddings of models are kept, so that none is paid for
            twice.
        deadline: Seconds after which no cell and no task call begins. Calls in flight have 5 s
            more; a plain function in the caller's thread is never cut off. The rest is
            `skipped: deadline`.
        max_cost: Dollars. No request is sent to a model unless what was spent and what the
            requests in flight may cost leave room for it, each at the cost of the model's dearest
            answer so far; the rest is `skipped: budget`. Every model needs a price.
        max_requests: Most requests to models, those that are sent again included; the rest is
            `skipped: budget`. Answers from the cache are free, of this and of `max_cost`; what
            your own functions ask of a model is not counted.
        progress: Show a bar, where stderr is a terminal or a notebook.

    Returns:
        A new frame; `.evals` reads it.

    Raises:
        ExperimentError: What was asked for cannot run. All mistakes are listed, and nothing
            has been called yet.
        DatasetError: The data cannot be read; ColumnNotFoundError if a column is not there.
        StuckCallsError: 8 timed-out calls cannot be stopped.
        Exception: With errors="raise", what the user's function raised, or CellError. Then,
            and on KeyboardInterrupt (after which calls in flight have 5 s to end, unless it comes
            again) and on SystemExit after SIGTERM, `.partial` on the exception is the frame so
            far.

    Examples:
        >>> import evalframe as ef
        >>> def exact(output, dataset_output):
        ...     return output == dataset_output
        >>> rows = [{"q": "1+1", "a": "2", "truth": "2"}, {"q": "2+2", "a": "5", "truth": "4"}]
        >>> scored = ef.run_experiment(
        ...     rows, evaluators=[exact], input="q", output="a", dataset_output="truth"
        ... )
        >>> scored[["q", "eval.exact.label", "eval.exact.score"]]
             q eval.exact.label  eval.exact.score
        0  1+1             True               1.0
        1  2+2            False               0.0
    """
    arguments = dict(locals())
    experiment = _experiment(arguments)
    with SigtermRaises():
        try:
            experiment.run.run()
            return experiment.ended()
        except BaseException as exc:
            experiment.stopped(exc)
            raise


async def arun_experiment(
    dataset: Any,
    task: Any = None,
    evaluators: Any = (),
    experiment_name: str | None = None,
    *,
    input: Hashable = None,
    output: Hashable = None,
    dataset_output: Hashable = None,
    metadata: Any = None,
    concurrency: int = 32,
    timeout: float | None = None,  # noqa: ASYNC109 - per cell, not of this call
    errors: str = "record",
    overwrite: bool = False,
    repetitions: int = 1,
    dry_run: bool | int = False,
    details: bool = False,
    cache: str | os.PathLike[str] | None = None,
    deadline: float | None = None,
    max_cost: float | None = None,
    max_requests: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """As `run_experiment`, on the running event loop; sync evaluators run in one worker thread.

    Args:
        dataset: As for `run_experiment`, like all arguments.
        task: See there.
        evaluators: See there.
        experiment_name: See there.
        input: See there.
        output: See there.
        dataset_output: See there.
        metadata: See there.
        concurrency: See there.
        timeout: See there.
        errors: See there.
        overwrite: See there.
        repetitions: See there.
        dry_run: See there.
        details: See there.
        cache: See there.
        deadline: See there.
        max_cost: See there.
        max_requests: See there.
        progress: See there.

    Returns:
        A new frame.

    Raises:
        ExperimentError: As `run_experiment`, like all others.
        asyncio.CancelledError: When cancelled; `.partial` is the frame so far.

    Examples:
        >>> import asyncio
        >>> import evalframe as ef
        >>> async def polite(output):
        ...     return "please" in output
        >>> rows = [{"output": "please sit"}]
        >>> scored = asyncio.run(ef.arun_experiment(rows, evaluators=[polite]))
        >>> scored["eval.polite.label"][0]
        'True'
    """
    arguments = dict(locals())
    experiment = _experiment(arguments)
    try:
        await experiment.run.arun()
        return experiment.ended()
    except BaseException as exc:
        experiment.stopped(exc)
        raise


def _experiment(arguments: dict[str, Any]) -> _Experiment:
    roles = {
        role: arguments.pop(role) for role in ("input", "output", "dataset_output", "metadata")
    }
    data, task = arguments.pop("dataset"), arguments.pop("task")
    return _Experiment(data, task, arguments.pop("evaluators"), roles, arguments)


def last_run() -> pd.DataFrame | None:
    """The frame of the newest run in this process, finished or not; None before the first.

    Returns:
        The frame itself, not a copy.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators={"four": lambda output: True})
        >>> ef.last_run() is scored
        True
    """
    return _last[0] if _last else None
