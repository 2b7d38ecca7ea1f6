"""What each code evaluator of the package is measured on.

frame   columns: texts of twenty words, numbers, JSON, tools, retrieved documents
PAIRS   evaluator -> the columns it reads, its yardstick, and of which kind that is
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import evaluators_loops as loops
import pandas as pd
from workload import SEED, YEAR, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

_TOOLS = ("search", "open", "click", "read", "write", "send", "list", "stop")
_DOCUMENTS = tuple(f"document {number}" for number in range(40))


def frame(rows: int, names: Iterable[str]) -> pd.DataFrame:
    """These columns, the same for the same number of rows."""
    made: dict[str, list[Any]] = {}
    for columns_made, make in _MAKERS.items():
        if not columns_made.isdisjoint(names):
            made.update(make(random.Random(SEED), rows))
    return pd.DataFrame({name: made[name] for name in names})


def _texts(_: random.Random, rows: int) -> dict[str, list[Any]]:
    texts = [columns(rows)[name] for name in ("answer", "truth")]
    answers, truths = ([f"{a} {b} {c}" for a, b, c in _rolled(column)] for column in texts)
    return {"answer": answers, "truth": truths, "year": truths}


def _numbers(rng: random.Random, rows: int) -> dict[str, list[Any]]:
    numbers = [round(rng.uniform(0, 1000), 3) for _ in range(rows)]
    measured = [number + rng.choice((0.0, 0.0, 0.5)) for number in numbers]
    return {"measured": measured, "number": numbers}


def _json(rng: random.Random, rows: int) -> dict[str, list[Any]]:
    records = [_record(rng) for _ in range(rows)]
    changed = [{**record, "age": record["age"] + rng.randrange(2)} for record in records]
    return {
        "json_answer": list(map(json.dumps, changed)),
        "json_truth": list(map(json.dumps, records)),
    }


def _calls(rng: random.Random, rows: int) -> dict[str, list[Any]]:
    tools = [rng.choices(_TOOLS, k=rng.randrange(1, 5)) for _ in range(rows)]
    return {"tools_called": [_called(rng, expected) for expected in tools], "expected_tools": tools}


def _documents(rng: random.Random, rows: int) -> dict[str, list[Any]]:
    found = [rng.sample(_DOCUMENTS, k=8) for _ in range(rows)]
    relevant = [rng.sample(documents[:6], k=2) for documents in found]
    return {"retrieval_context": found, "context": relevant}


_MAKERS = {
    frozenset({"answer", "truth", "year"}): _texts,
    frozenset({"measured", "number"}): _numbers,
    frozenset({"json_answer", "json_truth"}): _json,
    frozenset({"tools_called", "expected_tools"}): _calls,
    frozenset({"retrieval_context", "context"}): _documents,
}


def _rolled(column: list[str]) -> Iterable[tuple[str, str, str]]:
    """Three neighbours as one text: the short texts of the other benchmarks are six words."""
    return zip(column, column[1:] + column[:1], column[2:] + column[:2], strict=True)


def _called(rng: random.Random, expected: list[str]) -> list[str]:
    """The expected tools in another order; in 3 of 10 rows another one in the place of one."""
    called = rng.sample(expected, k=len(expected))
    if rng.random() < 0.3:
        called[rng.randrange(len(called))] = "guess"
    return called


def _record(rng: random.Random) -> dict[str, Any]:
    return {
        "name": rng.choice(("Ada", "Grace", "Alan", "Kurt")),
        "age": rng.randrange(20, 80),
        "tags": rng.sample(_TOOLS, k=2),
        "address": {"city": rng.choice(("Paris", "Oslo")), "zip": str(rng.randrange(10_000))},
    }


@dataclass(frozen=True)
class Pair:
    """One evaluator and its yardstick.

    Attributes:
        make: Makes the evaluator; evalframe is imported by it.
        reads: Its parameters and the columns that they are bound to.
        loop: Takes these columns; gives the scores, columns by field, or of a kernel the bools.
        kernel: Whether the yardstick is a kernel rather than a loop.
    """

    make: Callable[[], Any]
    reads: dict[str, str]
    loop: Callable[..., pa.Array | dict[str, pa.Array]]
    kernel: bool = False


def _ef() -> Any:
    import evalframe  # the yardsticks run without it

    return evalframe


_TEXTS = {"output": "answer", "dataset_output": "truth"}
_DOCS = {"retrieval_context": "retrieval_context", "context": "context"}

PAIRS: dict[str, Pair] = {
    "ExactMatch": Pair(lambda: _ef().ExactMatch(), _TEXTS, loops.exact, kernel=True),
    "Contains": Pair(
        lambda: _ef().Contains(loops.NEEDLE), {"output": "answer"}, loops.contains, kernel=True
    ),
    "Regex": Pair(lambda: _ef().Regex(YEAR), {"output": "year"}, loops.regex, kernel=True),
    "NumericClose": Pair(
        lambda: _ef().NumericClose(),
        {"output": "measured", "dataset_output": "number"},
        loops.numeric,
        kernel=True,
    ),
    "OneOf": Pair(
        lambda: _ef().OneOf(["yes", "no"]), {"output": "answer"}, loops.one_of, kernel=True
    ),
    "ValidJSON": Pair(lambda: _ef().ValidJSON(), {"output": "json_answer"}, loops.valid_json),
    "TokenF1": Pair(lambda: _ef().TokenF1(), _TEXTS, loops.over(loops.token_f1)),
    "Levenshtein": Pair(lambda: _ef().Levenshtein(), _TEXTS, loops.levenshtein),
    "Rouge rouge1": Pair(lambda: _ef().Rouge("rouge1"), _TEXTS, loops.rouge("rouge1")),
    "Rouge rouge2": Pair(lambda: _ef().Rouge("rouge2"), _TEXTS, loops.rouge("rouge2")),
    "Rouge rougeL": Pair(lambda: _ef().Rouge("rougeL"), _TEXTS, loops.rouge("rougeL")),
    "Bleu": Pair(lambda: _ef().Bleu(), _TEXTS, loops.bleu),
    "Chrf": Pair(lambda: _ef().Chrf(), _TEXTS, loops.chrf),
    "JsonDiff": Pair(
        lambda: _ef().JsonDiff(),
        {"output": "json_answer", "dataset_output": "json_truth"},
        loops.json_diff,
    ),
    "ToolCalls": Pair(
        lambda: _ef().ToolCalls(mode="set"),
        {"tools_called": "tools_called", "expected_tools": "expected_tools"},
        loops.tool_calls,
    ),
    "PrecisionAtK": Pair(lambda: _ef().PrecisionAtK(loops.K), _DOCS, loops.precision),
    "RecallAtK": Pair(lambda: _ef().RecallAtK(loops.K), _DOCS, loops.recall),
    "HitRate": Pair(lambda: _ef().HitRate(), _DOCS, loops.hit),
    "MRR": Pair(lambda: _ef().MRR(), _DOCS, loops.mrr),
    "NDCG": Pair(lambda: _ef().NDCG(), _DOCS, loops.ndcg),
}
