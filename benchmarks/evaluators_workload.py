"""What each code evaluator of the package is measured on, and the loop that it is measured against.

frame   the rows: texts of twenty words, numbers, JSON, tools, retrieved documents
PAIRS   evaluator -> the columns it reads, the bare loop that gives the same scores, and its kind

A loop is what a user would write over the library that the evaluator stands on: it reads two
columns of Python values, catches nothing, and puts the scores into one Arrow array. A kernel is
the same `pyarrow.compute` call, and the frame with the five result columns made of it.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from workload import SEED, YEAR, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WORD = re.compile(r"\w+")
_TOOLS = ("search", "open", "click", "read", "write", "send", "list", "stop")
_DOCUMENTS = tuple(f"document {number}" for number in range(40))
_TEXT = pa.large_string()
_NEEDLE = "the"
_K = 5


def frame(rows: int) -> pd.DataFrame:
    """The columns that the evaluators read, the same for the same number of rows."""
    rng = random.Random(SEED)
    texts = [columns(rows)[name] for name in ("answer", "truth")]
    answers, truths = ([f"{a} {b} {c}" for a, b, c in _rolled(column)] for column in texts)
    numbers = [round(rng.uniform(0, 1000), 3) for _ in range(rows)]
    records = [_record(rng) for _ in range(rows)]
    changed = [{**record, "age": record["age"] + rng.randrange(2)} for record in records]
    tools = [rng.choices(_TOOLS, k=rng.randrange(1, 5)) for _ in range(rows)]
    found = [rng.sample(_DOCUMENTS, k=8) for _ in range(rows)]
    return pd.DataFrame(
        {
            "answer": answers,
            "truth": truths,
            "year": truths,
            "measured": [number + rng.choice((0.0, 0.0, 0.5)) for number in numbers],
            "number": numbers,
            "json_answer": [json.dumps(record) for record in changed],
            "json_truth": [json.dumps(record) for record in records],
            "tools_called": [rng.sample(called, k=len(called)) for called in tools],
            "expected_tools": tools,
            "retrieval_context": found,
            "context": [rng.sample(documents[:6], k=2) for documents in found],
        }
    )


def _rolled(column: list[str]) -> Iterable[tuple[str, str, str]]:
    """Three neighbours as one text: the short texts of the other benchmarks are six words."""
    return zip(column, column[1:] + column[:1], column[2:] + column[:2], strict=True)


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
        loop: Takes these columns, gives the scores; of a kernel, the bools.
        kernel: Whether the yardstick is a kernel rather than a loop.
    """

    make: Callable[[], Any]
    reads: dict[str, str]
    loop: Callable[..., pa.Array]
    kernel: bool = False


def _over(function: Callable[[Any, Any], float]) -> Callable[[pd.Series, pd.Series], pa.Array]:
    """The loop that calls a function of two values."""

    def loop(first: pd.Series, second: pd.Series) -> pa.Array:
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return pa.array([function(a, b) for a, b in pairs], pa.float64())

    return loop


def _exact(output: pd.Series, truth: pd.Series) -> pa.Array:
    return pc.equal(pa.array(output), pa.array(truth))


def _contains(output: pd.Series) -> pa.Array:
    return pc.match_substring(pa.array(output), _NEEDLE)


def _regex(output: pd.Series) -> pa.Array:
    return pc.match_substring_regex(pa.array(output), YEAR)


def _numeric(output: pd.Series, truth: pd.Series) -> pa.Array:
    a, b = pa.array(output), pa.array(truth)
    room = pc.multiply(pc.max_element_wise(pc.abs(a), pc.abs(b)), 1e-9)
    return pc.less_equal(pc.abs(pc.subtract(a, b)), room)


def _one_of(output: pd.Series) -> pa.Array:
    return pc.is_in(pa.array(output), pa.array(["yes", "no"], _TEXT))


def _valid_json(output: pd.Series) -> pa.Array:
    scores = []
    for text in output.tolist():
        try:
            json.loads(text)
        except ValueError:
            scores.append(0.0)
        else:
            scores.append(1.0)
    return pa.array(scores, pa.float64())


def _token_f1(output: str, truth: str) -> float:
    said, wanted = _WORD.findall(output.lower()), _WORD.findall(truth.lower())
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted))


def _levenshtein(output: pd.Series, truth: pd.Series) -> pa.Array:
    from rapidfuzz.distance import Levenshtein

    return _over(Levenshtein.normalized_similarity)(output, truth)


def _rouge(kind: str) -> Callable[[pd.Series, pd.Series], pa.Array]:
    def loop(output: pd.Series, truth: pd.Series) -> pa.Array:
        from rouge_score.rouge_scorer import RougeScorer

        score = RougeScorer([kind], use_stemmer=False).score
        return _over(lambda said, wanted: score(wanted, said)[kind].fmeasure)(output, truth)

    return loop


def _bleu(output: pd.Series, truth: pd.Series) -> pa.Array:
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score
    return _over(lambda said, wanted: score(said, [wanted]).score / 100)(output, truth)


def _chrf(output: pd.Series, truth: pd.Series) -> pa.Array:
    from sacrebleu.metrics import CHRF

    score = CHRF().sentence_score
    return _over(lambda said, wanted: score(said, [wanted]).score / 100)(output, truth)


def _json_diff(output: pd.Series, truth: pd.Series) -> pa.Array:
    from rapidfuzz.distance import Levenshtein

    close = Levenshtein.normalized_similarity

    def same(a: Any, b: Any) -> float:
        if isinstance(a, dict) and isinstance(b, dict):
            keys = a.keys() | b.keys()
            there = (same(a[key], b[key]) for key in keys if key in a and key in b)
            return sum(there) / len(keys) if keys else 1.0
        if isinstance(a, list) and isinstance(b, list):
            longer = max(len(a), len(b))
            return sum(map(same, a, b)) / longer if longer else 1.0
        if isinstance(a, str) and isinstance(b, str):
            return close(a, b)
        if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            return float(a is b)
        return 1.0 if a == b else 1 - abs(a - b) / (abs(a) + abs(b))

    return _over(lambda said, wanted: same(json.loads(said), json.loads(wanted)))(output, truth)


def _tools(called: list[str], expected: list[str]) -> float:
    return sum((Counter(called) & Counter(expected)).values()) / len(expected)


def _precision(found: list[str], wanted: list[str]) -> float:
    relevant = set(wanted)
    return sum(document in relevant for document in found[:_K]) / _K


def _recall(found: list[str], wanted: list[str]) -> float:
    return len(set(wanted).intersection(found[:_K])) / len(set(wanted))


def _hit(found: list[str], wanted: list[str]) -> float:
    relevant = set(wanted)
    return float(any(document in relevant for document in found))


def _mrr(found: list[str], wanted: list[str]) -> float:
    relevant = set(wanted)
    return next((1 / rank for rank, d in enumerate(found, 1) if d in relevant), 0.0)


def _ndcg(found: list[str], wanted: list[str]) -> float:
    relevant = set(wanted)
    gains = [1 / math.log2(rank + 1) for rank, d in enumerate(found, 1) if d in relevant]
    return sum(gains) / sum(1 / math.log2(rank + 1) for rank in range(1, len(relevant) + 1))


def _ef() -> Any:
    import evalframe  # the yardsticks run without it

    return evalframe


_TEXTS = {"output": "answer", "dataset_output": "truth"}
_DOCS = {"retrieval_context": "retrieval_context", "context": "context"}

PAIRS: dict[str, Pair] = {
    "ExactMatch": Pair(lambda: _ef().ExactMatch(), _TEXTS, _exact, kernel=True),
    "Contains": Pair(lambda: _ef().Contains(_NEEDLE), {"output": "answer"}, _contains, kernel=True),
    "Regex": Pair(lambda: _ef().Regex(YEAR), {"output": "year"}, _regex, kernel=True),
    "NumericClose": Pair(
        lambda: _ef().NumericClose(),
        {"output": "measured", "dataset_output": "number"},
        _numeric,
        kernel=True,
    ),
    "OneOf": Pair(lambda: _ef().OneOf(["yes", "no"]), {"output": "answer"}, _one_of, kernel=True),
    "ValidJSON": Pair(lambda: _ef().ValidJSON(), {"output": "json_answer"}, _valid_json),
    "TokenF1": Pair(lambda: _ef().TokenF1(), _TEXTS, _over(_token_f1)),
    "Levenshtein": Pair(lambda: _ef().Levenshtein(), _TEXTS, _levenshtein),
    "Rouge rouge1": Pair(lambda: _ef().Rouge("rouge1"), _TEXTS, _rouge("rouge1")),
    "Rouge rouge2": Pair(lambda: _ef().Rouge("rouge2"), _TEXTS, _rouge("rouge2")),
    "Rouge rougeL": Pair(lambda: _ef().Rouge("rougeL"), _TEXTS, _rouge("rougeL")),
    "Bleu": Pair(lambda: _ef().Bleu(), _TEXTS, _bleu),
    "Chrf": Pair(lambda: _ef().Chrf(), _TEXTS, _chrf),
    "JsonDiff": Pair(
        lambda: _ef().JsonDiff(),
        {"output": "json_answer", "dataset_output": "json_truth"},
        _json_diff,
    ),
    "ToolCalls": Pair(
        lambda: _ef().ToolCalls(mode="set"),
        {"tools_called": "tools_called", "expected_tools": "expected_tools"},
        _over(_tools),
    ),
    "PrecisionAtK": Pair(lambda: _ef().PrecisionAtK(_K), _DOCS, _over(_precision)),
    "RecallAtK": Pair(lambda: _ef().RecallAtK(_K), _DOCS, _over(_recall)),
    "HitRate": Pair(lambda: _ef().HitRate(), _DOCS, _over(_hit)),
    "MRR": Pair(lambda: _ef().MRR(), _DOCS, _over(_mrr)),
    "NDCG": Pair(lambda: _ef().NDCG(), _DOCS, _over(_ndcg)),
}
