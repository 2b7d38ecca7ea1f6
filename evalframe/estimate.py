"""estimate: what a run will ask of its models, and what that will cost.

Every prompt is rendered and thrown away again; only a probe sends anything.

    arguments -> plan, as for a run -> what frame and run_dir have is taken off -> requests
    -> looked up in the cache -> table (engines/cost_table.py)
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evalframe.core.errors import ExperimentError
from evalframe.data.dataset import Dataset
from evalframe.engines.cost_table import Line, cost_table
from evalframe.engines.earlier import ALL
from evalframe.engines.left_to_do import LeftToDo
from evalframe.engines.plan import PlannedEvaluator
from evalframe.engines.planning import Planning
from evalframe.engines.prepare import check_options, opened_cache
from evalframe.engines.probe import probed
from evalframe.engines.requests import Asker, ToBeAsked
from evalframe.engines.run_reader import RunReader
from evalframe.evaluators.asking import Judge
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.embedded import Embedded
from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.llm.connect import InvalidReplyError
from evalframe.tasks.chat import ChatTask

EMBEDS = "embeds texts, which is not estimated"
NO_OUTPUT = "reads the task's output, which is not there yet"

# Arguments of a run that have no say in what it asks of its models.
_WITHOUT_A_SAY: dict[str, Any] = {
    "concurrency": 1,
    "timeout": None,
    "errors": "record",
    "dry_run": False,
    "details": False,
    "deadline": None,
    "max_cost": None,
    "max_requests": None,
    "experiment_name": None,
    "progress": False,
}


def estimate(
    dataset: Any,
    task: Any = None,
    evaluators: Any = (),
    *,
    input: Hashable = None,
    output: Hashable = None,
    dataset_output: Hashable = None,
    metadata: Any = None,
    only: str | None = None,
    overwrite: bool = False,
    repetitions: int = 1,
    run_dir: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    probe: int = 0,
) -> pd.DataFrame:
    """What a run would ask of its models, and what it would cost: a row per judge, and a total.

    Nothing is sent without `probe`. Columns: `evaluator` ("<task>" for a ChatTask, "<total>"),
    `model`, `rows`, `cells` (those that are done, and those that are asked about), `done` (of
    these, there already, in the frame or the run_dir, and not made again), `unique` (questions
    that none before has asked), `cached` (of these, answered by the cache), `requests` (the
    rest, to be sent), `prompt_tokens`, `completion_tokens`, `cost` in dollars, `minutes`, and
    `basis`: what tokens and cost are known by. Without a probe that is the length of the
    prompts, a token for four bytes, and `cost` is that of the prompts only; with one it is what
    some calls have used. `minutes` is what rpm and tpm of the models ask for at least. What is
    not known is NA, and so is its total: where some outputs of a task are there and others are
    not, a judge has two rows, one for each. Retries, and invalid replies that are asked again,
    come on top.

    Args:
        dataset: As for `run_experiment`.
        task: As for `run_experiment`; the evaluators may stand here if there is none.
        evaluators: As for `run_experiment`. Those that ask no model have no row; what one takes
            that embeds texts with a model is not known.
        input: Column that plays this role.
        output: Column that plays this role.
        dataset_output: Column that plays this role.
        metadata: Column, or list of columns, that plays this role.
        only: As for `run_experiment`.
        overwrite: As for `run_experiment`; results that the frame has count as made anew also
            without it, where there is no `only`.
        repetitions: How often each row is to be run.
        run_dir: The run's folder. It is looked into, also while a run uses it, and neither
            changed nor made; only a probe makes it, for its replies.
        cache: The run's file of replies; those of the probe are put into it, and stay in the
            numbers. With `run_dir`, the one in that folder if not given.
        probe: So many real calls for each judge and ChatTask.

    Returns:
        A frame.

    Raises:
        ExperimentError: The run could not be made; all mistakes are listed.
        DatasetError: The data cannot be read; ColumnNotFoundError if a column is not there.
        RunDirError: The folder could not be used, or has nothing but results of others.
        JournalError: The journal in it is damaged or cannot be read.

    Examples:
        >>> import evalframe as ef
        >>> model = ef.Model(
        ...     "local/judge", base_url="http://127.0.0.1:1/v1", price={"input": 2.0}, rpm=60
        ... )
        >>> judge = ef.LLMJudge("ok", model=model, prompt="Polite? {{ item.x }}", choices=["y"])
        >>> costs = ef.estimate([{"x": "Yes."}, {"x": "No!"}, {"x": "No!"}], evaluators=[judge])
        >>> costs[["evaluator", "cells", "requests", "prompt_tokens", "cost"]]
          evaluator  cells  requests  prompt_tokens      cost
        0        ok      3         2             22  0.000044
        1   <total>      3         2             22  0.000044
    """
    roles = {"input": input, "output": output}
    roles |= {"dataset_output": dataset_output, "metadata": metadata}
    if _are_evaluators(task) and not evaluators:
        task, evaluators = None, task
    options = {**_WITHOUT_A_SAY, "only": only, "overwrite": overwrite}
    options |= {"repetitions": repetitions, "run_dir": run_dir}
    problems = check_options(options) + _probe_problems(probe)
    options["overwrite"] = only is None
    rows = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    planning = Planning(
        rows,
        task,
        evaluators,
        roles,
        options,
        problems=problems,
        is_dataset=isinstance(dataset, Dataset),
    )
    folder = None if run_dir is None else RunReader(run_dir)
    left = LeftToDo(planning, folder, only, overwrite=overwrite)
    parts = _parts(planning, left)
    replies = _opened(cache, folder if only != ALL else None, probe)
    try:
        _ask(parts, left, replies, probe)
    finally:
        if replies is not None:
            replies.close()
    return cost_table([part.line for part in parts], left.plan.rows)


def _are_evaluators(given: Any) -> bool:
    return isinstance(given, (list, tuple, dict, Evaluator))


def _probe_problems(probe: Any) -> list[str]:
    if type(probe) is int and probe >= 0:
        return []
    return [f"probe must be a whole number of at least 0, not {probe!r}."]


def _opened(cache: Any, folder: RunReader | None, probe: int) -> ReplyCache | None:
    """The file of replies; to look at one neither makes nor changes it."""
    if cache is None and folder is not None:
        cache = folder.replies
        if probe:
            folder.make()
    if probe:
        return opened_cache(cache)
    if isinstance(cache, (str, os.PathLike)) and not Path(cache).expanduser().exists():
        return None
    return opened_cache(cache, reads_only=True)


class _Part(NamedTuple):
    """A line of the table, and whose requests are counted in it.

    Attributes:
        asker: None where it is not known, or is known without asking.
        rows: The rows that it may be asked about.
        sample: Some of the requests to be sent, each as likely as any other.
    """

    line: Line
    asker: Asker | None
    rows: np.ndarray[Any, Any]
    sample: list[ToBeAsked]


def _parts(planning: Planning, left: LeftToDo) -> list[_Part]:
    """The task, the judges, then what embeds with a model."""
    parts = []
    if planning.task is not None and isinstance(planning.task.task, ChatTask):
        asker = Asker(planning.task.task, planning.task.call)
        done = left.plan.rows - int(left.new_outputs.sum())
        line = Line(asker.who, asker.model, left.plan.rows, done)
        parts.append(_Part(line, asker, np.flatnonzero(left.new_outputs), []))
    embedding = []
    for planned in planning.evaluators:
        if isinstance(planned.evaluator, Judge):
            parts += _judge_parts(planned.evaluator, planned, left)
        elif isinstance(planned.evaluator, Embedded):
            embedding += _embedding_parts(planned.evaluator, left)
    return parts + embedding


def _judge_parts(judge: Judge, planned: PlannedEvaluator, left: LeftToDo) -> list[_Part]:
    """What it asks about the outputs that are there, and what is not known of the others."""
    asker = Asker(judge, planned.call)
    asked, done, rows = left.asked(judge.name), left.done(judge.name), left.plan.rows
    to_come = int(left.new_outputs.sum()) if asker.reads_output else 0
    parts = []
    if to_come < rows or not rows:
        there = asked & ~left.new_outputs if asker.reads_output else asked
        line = Line(asker.who, asker.model, rows - to_come, int(done.sum()))
        parts.append(_Part(line, asker, np.flatnonzero(there), []))
    if to_come:
        line = Line(asker.who, asker.model, to_come, 0, unknown=NO_OUTPUT)
        parts.append(_Part(line, None, np.empty(0, int), []))
    return parts


def _embedding_parts(embedded: Embedded, left: LeftToDo) -> list[_Part]:
    model = embedded.embedder.served
    if model is None:
        return []
    done, asked = left.done(embedded.name), left.asked(embedded.name)
    unknown = EMBEDS if asked.any() else None
    line = Line(embedded.name, model, left.plan.rows, int(done.sum()), unknown=unknown)
    return [_Part(line, None, np.empty(0, int), [])]


def _ask(parts: list[_Part], left: LeftToDo, replies: ReplyCache | None, probe: int) -> None:
    """Count all requests, and send some with a probe."""
    seen: set[bytes] = set()
    for part in parts:
        if part.asker is not None:
            requests = part.asker.requests(left.inputs, part.rows, left.plan)
            _count(part, requests, seen, replies=replies, probe=probe)
    samples = [(part, part.asker, asked) for part in parts if part.asker for asked in part.sample]
    answers = probed([(asker, asked) for _, asker, asked in samples], replies)
    for (part, _, asked), answer in zip(samples, answers, strict=True):
        part.line.probed.append((asked.request.prompt_tokens, answer))


def _count(
    part: _Part,
    requests: Iterable[ToBeAsked],
    seen: set[bytes],
    *,
    replies: ReplyCache | None,
    probe: int,
) -> None:
    """Go through the requests of one line, of which only the sample is kept."""
    line, sample = part.line, part.sample
    rng = random.Random(0)  # noqa: S311 - the same sample each time
    for asked in requests:
        line.asked += 1
        short = hashlib.blake2b(asked.terms.encode(), digest_size=16).digest()
        if short in seen:
            continue
        seen.add(short)
        line.unique += 1
        if replies is not None and _is_cached(replies, asked):
            line.cached += 1
            continue
        line.guessed += asked.request.prompt_tokens
        if len(sample) < probe:
            sample.append(asked)
        elif probe and (place := rng.randrange(line.requests)) < probe:
            sample[place] = asked


def _is_cached(replies: ReplyCache, asked: ToBeAsked) -> bool:
    try:
        reply = replies.get(asked.request.key)
    except CacheError as exc:
        raise ExperimentError([str(exc)]) from exc
    try:
        return reply is not None and (asked.accept(reply), True)[1]
    except InvalidReplyError:
        return False
