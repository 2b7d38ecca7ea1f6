"""run_experiment, sync and awaited: its arguments, and how each of the two is run and ended.

What a run consists of is put together in running.py.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Any

import pandas as pd

from evalframe.engines.signals import SignalsRaise
from evalframe.running import Experiment, newest


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
    only: str | None = None,
    overwrite: bool = False,
    repetitions: int = 1,
    dry_run: bool | int = False,
    details: bool = False,
    run_dir: str | os.PathLike[str] | None = None,
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
        only: Add to the results that the frame has: run just the cells that are "missing"
            (those not run), "failed" (and those whose task failed), "stale" (those whose
            fingerprint is not what it would be today; missing ones, too), or "all". The other
            cells, and other evaluators' columns, stay as they are, all in their places. A task
            makes the outputs that are not there (null, also where it returned None), and all
            cells of their rows are run again. What a run that is cut short does not come to
            stays as it was, also with "all". Not together with `dry_run`.
        overwrite: Replace the results of evaluators of the same name, and `output`; go on in a
            `run_dir` of which nothing belongs to this run.
        repetitions: How often each row is run; a row's repetitions stand together.
        dry_run: True: the first 10 rows only; a number: the first so many.
        details: Add `eval.<name>.latency_s`, in seconds (a vectorized call's time is shared
            equally by its rows), `eval.<name>.fingerprint`, and for judges tokens, `cost` and
            `from_cache`. With `only`, also where the frame's results have them.
        run_dir: Folder in which results are kept as they come, so that nothing paid for is lost
            when the run ends early, even by kill -9. The same call again goes on from there:
            cells and task outputs that are finished are not run again, failures neither (they
            are with only="failed"), unless no answer came (a timeout, a server out of reach, a
            rate limit, a wrong key). They are found by what was read and by the code, not by row
            number: rows may be added, dropped, reordered or edited. Cells of a vectorized
            function, which sees all rows, are kept only where all of them are the same. One run
            at a time. Adds `eval.<name>.fingerprint`.
        cache: File in which replies and embeddings of models are kept, so that none is paid for
            twice; with `run_dir`, one in that folder if not given.
        deadline: Seconds after which no cell and no task call begins. Calls in flight have 5 s
            more; a plain function in the caller's thread is never cut off. The rest is
            `skipped: deadline`.
        max_cost: Dollars. No request is sent to a model unless what was spent and what the
            requests in flight may cost leave room for it, each at the cost of the model's dearest
            answer so far; the rest is `skipped: budget`. Every model that has something to do
            needs a price.
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
        RunDirError: The folder cannot be used, is in use, or has nothing but results of others.
        JournalError: The journal in it is damaged, or its disk fails during the run: what is
            safe is named, and `.partial` is the frame so far.
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
    with SignalsRaise():
        experiment = _experiment(arguments)
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
    only: str | None = None,
    overwrite: bool = False,
    repetitions: int = 1,
    dry_run: bool | int = False,
    details: bool = False,
    run_dir: str | os.PathLike[str] | None = None,
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
        only: See there.
        overwrite: See there.
        repetitions: See there.
        dry_run: See there.
        details: See there.
        run_dir: See there.
        cache: See there.
        deadline: See there.
        max_cost: See there.
        max_requests: See there.
        progress: See there.

    Returns:
        A new frame.

    Raises:
        ExperimentError: As `run_experiment`, like all others.
        asyncio.CancelledError: When cancelled, as by the interrupt of a notebook's cell;
            `.partial` is the frame so far.

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


def _experiment(arguments: dict[str, Any]) -> Experiment:
    roles = {
        role: arguments.pop(role) for role in ("input", "output", "dataset_output", "metadata")
    }
    data, task = arguments.pop("dataset"), arguments.pop("task")
    return Experiment(data, task, arguments.pop("evaluators"), roles, arguments)


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
    return newest()
