"""The table of an estimate: its columns, and its arithmetic.

Line        what is known of one judge or task; a row of the table
cost_table  the table, with its total
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa

from evalframe.core.columns import backed
from evalframe.llm.chat import ChatReply
from evalframe.llm.model import Model

TOTAL = "<total>"
BY_LENGTH = "length of the prompts; replies not counted"
NOTHING = "nothing to send"
_LIMITS = ("rpm", "tpm")

_COLUMNS: dict[str, pa.DataType] = {
    "evaluator": pa.large_string(),
    "model": pa.large_string(),
    "rows": pa.int64(),
    "cells": pa.int64(),
    "done": pa.int64(),
    "unique": pa.int64(),
    "cached": pa.int64(),
    "requests": pa.int64(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "cost": pa.float64(),
    "minutes": pa.float64(),
    "basis": pa.large_string(),
}
_SUMMED = tuple(_COLUMNS)[3:11]


@dataclass
class Line:
    """One judge or ChatTask, or the rows of a judge of which nothing more is known.

    Attributes:
        who: Its name.
        model: The model that it asks.
        rows: Rows of the run.
        done: Cells that are there, and are not made again.
        unknown: Why it is not known what it asks; None if it is.
        asked: Cells that are asked about.
        unique: Questions of these that none before has asked.
        cached: Those of them that the cache answers.
        guessed: Tokens of the prompts to be sent, by their length.
        probed: For some requests the guess, and the reply or why there is none.
    """

    who: str
    model: Model
    rows: int
    done: int
    unknown: str | None = None
    asked: int = 0
    unique: int = 0
    cached: int = 0
    guessed: int = 0
    probed: list[tuple[int, ChatReply | str]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Requests to be sent."""
        return self.unique - self.cached

    def row(self) -> dict[str, Any]:
        """Its row of the table, without minutes; what is not known is not in it."""
        known: dict[str, Any] = {"evaluator": self.who, "model": self.model.name}
        known |= {"rows": self.rows, "done": self.done}
        if self.unknown is not None:
            return {**known, "basis": self.unknown}
        known |= {"cells": self.done + self.asked, "unique": self.unique}
        known |= {"cached": self.cached, "requests": self.requests}
        if not self.requests:
            # Whatever the model's price is, and whether or not it has one.
            nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "cost"), 0)
            return {**known, **nothing, "basis": NOTHING}
        prompt, completion, basis = self._tokens()
        return {
            **known,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "cost": self.model.cost(prompt, completion or 0, 0),
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


def cost_table(lines: Sequence[Line], rows: int) -> pd.DataFrame:
    """A row per line, and a total.

    Args:
        lines: In the order of the table.
        rows: Rows of the run.
    """
    made = [line.row() for line in lines]
    needed: dict[tuple[str, str], list[tuple[Line, dict[str, Any]]]] = {}
    for line, row in zip(lines, made, strict=True):
        row["minutes"] = _minutes([(line, row)])
        endpoint = line.model.endpoint()
        needed.setdefault((endpoint.base_url, endpoint.model), []).append((line, row))
    total: dict[str, Any] = {"evaluator": TOTAL, "rows": rows}
    for name in _SUMMED:
        values: list[Any] = [row.get(name) for row in made]
        total[name] = None if None in values else sum(values)
    # Models at one address share its limits; others are asked at the same time.
    known = [minutes for group in needed.values() if (minutes := _minutes(group)) is not None]
    total["minutes"] = max(known) if known else None
    bases = dict.fromkeys(row["basis"] for row in made)
    if len(bases) > 1:
        bases.pop(NOTHING, None)
    total["basis"] = "; ".join(bases)
    made.append(total)
    return pd.DataFrame(
        {
            name: backed(pa.array([row.get(name) for row in made], kind))
            for name, kind in _COLUMNS.items()
        }
    )


def _minutes(group: Sequence[tuple[Line, dict[str, Any]]]) -> float | None:
    """The least that the limits of one address allow; None without any, or if rows are unknown."""
    rows = [row for _, row in group]
    if any(row.get("requests") is None for row in rows):
        return None
    requests = sum(row["requests"] for row in rows)
    tokens = sum(row["prompt_tokens"] + (row["completion_tokens"] or 0) for row in rows)
    waits = []
    for name, amount in zip(_LIMITS, (requests, tokens), strict=True):
        given = [getattr(line.model, name) for line, _ in group]
        limits = [limit for limit in given if limit is not None]
        waits += [amount / min(limits)] if limits else []
    return max(waits) if waits else None
