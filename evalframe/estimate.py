"""estimate: what a run will ask of its models, and what that will cost.

Every prompt is rendered and thrown away again; only a probe sends anything.

estimate   the public function
_Line      what is known of one judge or ChatTask; a row of the result
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from evalframe.core.columns import backed
from evalframe.core.errors import ExperimentError
from evalframe.core.namespace import Namespace
from evalframe.data.dataset import Dataset
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Call
from evalframe.engines.prepare import Preparation, opened_cache
from evalframe.engines.probe import probed
from evalframe.engines.requests import Asker, ToBeAsked
from evalframe.engines.roles import missing_columns, role_mapping, rows_without_output
from evalframe.evaluators.asking import Judge
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.embedded import Embedded
from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.llm.chat import ChatReply
from evalframe.llm.connect import InvalidReplyError
from evalframe.tasks.chat import ChatTask

TOTAL = "<total>"
BY_LENGTH = "length of the prompts; replies not counted"
EMBEDS = "embeds texts, which is not estimated"
NO_OUTPUT = "reads the task's output, which is not there yet"
_LIMITS = ("rpm", "tpm")

_COLUMNS: dict[str, pa.DataType] = {
    "evaluator": pa.large_string(),
    "model": pa.large_string(),
    "rows": pa.int64(),
    "cells": pa.int64(),
    "unique": pa.int64(),
    "cached": pa.int64(),
    "requests": pa.int64(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "cost": pa.float64(),
    "minutes": pa.float64(),
    "basis": pa.large_string(),
}
_SUMMED = tuple(_COLUMNS)[3:10]


@dataclass
class _Line:
    """One judge or ChatTask.

    Attributes:
        guessed: Tokens of the prompts to be sent, by their length.
        sample: Some of the requests to be sent, each as likely as any other.
        probed: For each of the sample its guess, and the reply or why there is none.
    """

    asker: Asker
    rows: int
    cells: int = 0
    unique: int = 0
    cached: int = 0
    guessed: int = 0
    sample: list[ToBeAsked] = field(default_factory=list)
    probed: list[tuple[int, ChatReply | str]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Requests to be sent."""
        return self.unique - self.cached

    def row(self) -> dict[str, Any]:
        """Its row of the result, without minutes."""
        model = self.asker.model
        known: dict[str, Any] = {"evaluator": self.asker.who, "model": model.name}
        known["rows"] = self.rows
        if self.asker.reads_output:
            return {**known, "basis": NO_OUTPUT}
        prompt, completion, basis = self._tokens()
        return {
            **known,
            "cells": self.cells,
            "unique": self.unique,
            "cached": self.cached,
            "requests": self.requests,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "cost": model.cost(prompt, completion or 0, 0),
            "basis": basis,
        }

    def _tokens(self) -> tuple[int, int | None, str]:
        """Prompt and completion tokens of all requests, and what they are known by."""
        replies = [(guess, found) for guess, found in self.probed if isinstance(found, ChatReply)]
        counted = [
            (guess, reply.usage.prompt_tokens, reply.usage.completion_tokens)
            for guess, reply in replies
            if reply.usage.prompt_tokens is not None and reply.usage.completion_tokens is not None
        ]
        if not counted:
            why = [found for _, found in self.probed if isinstance(found, str)]
            why += ["the server counts no tokens"] if replies else []
            return self.guessed, None, "; ".join([BY_LENGTH, *why[:1]])
        guesses, prompts, completions = (sum(column) for column in zip(*counted, strict=True))
        prompt = round(self.guessed * prompts / guesses) if guesses else self.guessed
        calls = "1 call" if len(counted) == 1 else f"{len(counted)} calls"
        return prompt, round(self.requests * completions / len(counted)), f"usage of {calls}"


def estimate(
    dataset: Any,
    task: Any = None,
    evaluators: Any = (),
    *,
    input: Hashable = None,
    output: Hashable = None,
    dataset_output: Hashable = None,
    metadata: Any = None,
    repetitions: int = 1,
    probe: int = 0,
    cache: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """What a run would ask of its models, and what it would cost: a row per judge, and a total.

    Nothing is sent without `probe`. Columns: `evaluator` ("<task>" for a ChatTask, "<total>"),
    `model`, `rows`, `cells` (those that are asked about), `unique` (questions that none before
    has asked), `cached` (of these, answered by the cache), `requests` (the rest, to be sent),
    `prompt_tokens`, `completion_tokens`, `cost` in dollars, `minutes`, and `basis`: what tokens
    and cost are known by. Without a probe that is the length of the prompts, a token for four
    bytes, and `cost` is that of the prompts only; with one it is what some calls have used.
    `minutes` is what rpm and tpm of the models ask for at least. What is not known is NA, and
    so is its total. Retries, and invalid replies that are asked again, come on top.

    Args:
        dataset: As for `run_experiment`.
        task: As for `run_experiment`; the evaluators may stand here if there is none.
        evaluators: As for `run_experiment`. Those that ask no model have no row; what one takes
            that embeds texts with a model is not known.
        input: Column that plays this role.
        output: Column that plays this role.
        dataset_output: Column that plays this role.
        metadata: Column, or list of columns, that plays this role.
        repetitions: How often each row is to be run.
        probe: So many real calls for each judge and ChatTask.
        cache: The run's file of replies; those of the probe are put into it, and stay in the
            numbers.

    Returns:
        A frame.

    Raises:
        ExperimentError: The run could not be made; all mistakes are listed.
        DatasetError: The data cannot be read; ColumnNotFoundError if a column is not there.

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
    problems = _problems(repetitions, probe)
    planned = _planned(dataset, task, evaluators, roles, times=repetitions, problems=problems)
    lines, inputs, left_out = planned.lines, planned.inputs, planned.left_out
    replies = _opened(cache, probe)
    try:
        seen: set[bytes] = set()
        for line in lines:
            if not line.asker.reads_output:
                requests = line.asker.requests(inputs, left_out)
                _count(line, requests, seen, replies=replies, probe=probe)
        samples = [(line, asked) for line in lines for asked in line.sample]
        answers = probed([(line.asker, asked) for line, asked in samples], replies)
        for (line, asked), answer in zip(samples, answers, strict=True):
            line.probed.append((asked.request.prompt_tokens, answer))
    finally:
        if replies is not None:
            replies.close()
    return _frame(planned)


def _are_evaluators(given: Any) -> bool:
    return isinstance(given, (list, tuple, dict, Evaluator))


def _opened(cache: Any, probe: int) -> ReplyCache | None:
    """The file of replies; a look at one that is not there must not make it."""
    is_path = isinstance(cache, (str, os.PathLike))
    if is_path and not probe and not Path(cache).expanduser().exists():
        return None
    return opened_cache(cache)


def _problems(repetitions: Any, probe: Any) -> list[str]:
    problems = []
    for name, value, least in (("repetitions", repetitions, 1), ("probe", probe, 0)):
        if type(value) is not int or value < least:
            problems.append(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return problems


class _Planned(NamedTuple):
    """A run, as far as it asks models.

    Attributes:
        lines: Judges and ChatTask.
        embedding: What is known of evaluators that embed with a model.
        inputs: The values.
        left_out: Rows that have no output.
    """

    lines: list[_Line]
    embedding: list[dict[str, Any]]
    inputs: Inputs
    left_out: Collection[int]


def _planned(
    given: Any,
    task: Any,
    evaluators: Any,
    roles: dict[str, Any],
    *,
    times: Any,
    problems: list[str],
) -> _Planned:
    """The parts that ask models, checked as for a run."""
    dataset = given if isinstance(given, Dataset) else Dataset(given)
    has_task = task is not None
    mapping, more = role_mapping(
        dataset, roles, is_dataset=isinstance(given, Dataset), has_task=has_task
    )
    names = Namespace(tuple(dataset.columns), mapping, has_task=has_task)
    preparation = Preparation(
        names, dataset.column, problems + more, missing_columns(names), details=False
    )
    planned_task = preparation.task(task)
    planned = preparation.evaluators(evaluators)
    preparation.refuse()
    parts: list[tuple[Any, Call]] = [(each.evaluator, each.call) for each in planned]
    if planned_task is not None:
        parts = [(planned_task.task, planned_task.call), *parts]
    rows = len(dataset) * times
    lines = [
        _Line(Asker(part, call), rows)
        for part, call in parts
        if isinstance(part, (ChatTask, Judge))
    ]
    embedding = [
        {"evaluator": part.name, "model": model.name, "rows": rows, "basis": EMBEDS}
        for part, _ in parts
        if isinstance(part, Embedded) and (model := part.embedder.served) is not None
    ]
    inputs = Inputs(dataset.column, names.row_columns, pd.RangeIndex(rows), times)
    return _Planned(
        lines, embedding, inputs, rows_without_output(dataset, names, times, adds=False)
    )


def _count(
    line: _Line,
    requests: Iterable[ToBeAsked],
    seen: set[bytes],
    *,
    replies: ReplyCache | None,
    probe: int,
) -> None:
    """Go through the requests of one line, of which only the sample is kept."""
    rng = random.Random(0)  # noqa: S311 - the same sample each time
    for asked in requests:
        line.cells += 1
        short = hashlib.blake2b(asked.terms.encode(), digest_size=16).digest()
        if short in seen:
            continue
        seen.add(short)
        line.unique += 1
        if replies is not None and _is_cached(replies, asked):
            line.cached += 1
            continue
        line.guessed += asked.request.prompt_tokens
        if len(line.sample) < probe:
            line.sample.append(asked)
        elif probe and (place := rng.randrange(line.requests)) < probe:
            line.sample[place] = asked


def _is_cached(replies: ReplyCache, asked: ToBeAsked) -> bool:
    try:
        reply = replies.get(asked.request.key)
    except CacheError as exc:
        raise ExperimentError([str(exc)]) from exc
    try:
        return reply is not None and (asked.accept(reply), True)[1]
    except InvalidReplyError:
        return False


def _frame(planned: _Planned) -> pd.DataFrame:
    lines = planned.lines
    rows = [line.row() for line in lines]
    needed: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line, row in zip(lines, rows, strict=True):
        row["minutes"] = _minutes([row], [line])
        endpoint = line.asker.model.endpoint()
        needed.setdefault((endpoint.base_url, endpoint.model), []).append({**row, "line": line})
    rows += planned.embedding
    total: dict[str, Any] = {"evaluator": TOTAL, "rows": len(planned.inputs.index)}
    for name in _SUMMED:
        values: list[Any] = [row.get(name) for row in rows]
        total[name] = None if None in values else sum(values)
    # Models at one address share its limits; others are asked at the same time.
    each = [_minutes(group, [row["line"] for row in group]) for group in needed.values()]
    known = [minutes for minutes in each if minutes is not None]
    total["minutes"] = max(known) if known else None
    total["basis"] = "; ".join(dict.fromkeys(row["basis"] for row in rows))
    made = [*rows, total]
    return pd.DataFrame(
        {
            name: backed(pa.array([row.get(name) for row in made], kind))
            for name, kind in _COLUMNS.items()
        }
    )


def _minutes(rows: Sequence[dict[str, Any]], lines: Sequence[_Line]) -> float | None:
    """The least that the limits of one address allow; None without any, or if rows are unknown."""
    if any(row.get("requests") is None for row in rows):
        return None
    requests = sum(row["requests"] for row in rows)
    tokens = sum(row["prompt_tokens"] + (row["completion_tokens"] or 0) for row in rows)
    waits = []
    for name, amount in zip(_LIMITS, (requests, tokens), strict=True):
        given = [getattr(line.asker.model, name) for line in lines]
        limits = [limit for limit in given if limit is not None]
        waits += [amount / min(limits)] if limits else []
    return max(waits) if waits else None
