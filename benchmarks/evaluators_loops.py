"""The loops and kernels that the code evaluators are measured against, as a user would write them.

exact, contains, regex, numeric, one_of                    a `pyarrow.compute` kernel: bools
valid_json, token_f1, levenshtein, rouge, bleu, chrf       a loop over a library: the score
json_diff, tool_calls, ranking                             a loop over none: every column filled

A loop reads columns of Python values and catches nothing. Where a library does the work, it gives
the score alone. Where there is none, the columns beside the score are the better part of the
work, and it gives them too: label, explanation and extras, as Arrow arrays of the same values.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from workload import YEAR

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

NEEDLE = "the"
K = 5

_WORD = re.compile(r"\w+")
_TEXT = pa.large_string()


def over(function: Callable[[Any, Any], float]) -> Callable[[pd.Series, pd.Series], pa.Array]:
    """Make the loop that calls a function of two values."""

    def loop(first: pd.Series, second: pd.Series) -> pa.Array:
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return pa.array([function(a, b) for a, b in pairs], pa.float64())

    return loop


def exact(output: pd.Series, truth: pd.Series) -> pa.Array:
    """Are the texts equal?"""
    return pc.equal(pa.array(output), pa.array(truth))


def contains(output: pd.Series) -> pa.Array:
    """Is the needle in the text?"""
    return pc.match_substring(pa.array(output), NEEDLE)


def regex(output: pd.Series) -> pa.Array:
    """Is a year in the text?"""
    return pc.match_substring_regex(pa.array(output), YEAR)


def numeric(output: pd.Series, truth: pd.Series) -> pa.Array:
    """Are the numbers close?"""
    a, b = pa.array(output), pa.array(truth)
    room = pc.multiply(pc.max_element_wise(pc.abs(a), pc.abs(b)), 1e-9)
    return pc.less_equal(pc.abs(pc.subtract(a, b)), room)


def one_of(output: pd.Series) -> pa.Array:
    """Is the text a choice?"""
    return pc.is_in(pa.array(output), pa.array(["yes", "no"], _TEXT))


def valid_json(output: pd.Series) -> pa.Array:
    """Is the text JSON?"""
    scores = []
    for text in output.tolist():
        try:
            json.loads(text)
        except ValueError:
            scores.append(0.0)
        else:
            scores.append(1.0)
    return pa.array(scores, pa.float64())


def token_f1(output: str, truth: str) -> float:
    """Words in common."""
    said, wanted = _WORD.findall(output.lower()), _WORD.findall(truth.lower())
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted))


def levenshtein(output: pd.Series, truth: pd.Series) -> pa.Array:
    """By rapidfuzz."""
    from rapidfuzz.distance import Levenshtein

    return over(Levenshtein.normalized_similarity)(output, truth)


def rouge(kind: str) -> Callable[[pd.Series, pd.Series], pa.Array]:
    """By rouge-score."""

    def loop(output: pd.Series, truth: pd.Series) -> pa.Array:
        from rouge_score.rouge_scorer import RougeScorer

        score = RougeScorer([kind], use_stemmer=False).score
        return over(lambda said, wanted: score(wanted, said)[kind].fmeasure)(output, truth)

    return loop


def bleu(output: pd.Series, truth: pd.Series) -> pa.Array:
    """By sacrebleu."""
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score
    return over(lambda said, wanted: score(said, [wanted]).score / 100)(output, truth)


def chrf(output: pd.Series, truth: pd.Series) -> pa.Array:
    """By sacrebleu."""
    from sacrebleu.metrics import CHRF

    score = CHRF().sentence_score
    return over(lambda said, wanted: score(said, [wanted]).score / 100)(output, truth)


def json_diff(output: pd.Series, truth: pd.Series) -> dict[str, pa.Array]:
    """Compare key by key: the score, that of each key, and what differs."""
    from rapidfuzz.distance import Levenshtein

    close = Levenshtein.normalized_similarity
    levels: list[dict[str, float]]
    told: list[str]

    def same(a: Any, b: Any, path: str, depth: int) -> float:
        if isinstance(a, dict) and isinstance(b, dict):
            if depth == len(levels):
                levels.append({})
            level, prefix = levels[depth], f"{path}." if path else ""
            total = 0.0
            keys = a.keys() | b.keys()
            for key in b:
                here = prefix + key
                level[here] = score = same(a[key], b[key], here, depth + 1)
                total += score
            return total / len(keys) if keys else 1.0
        if isinstance(a, list) and isinstance(b, list):
            pairs = enumerate(zip(a, b, strict=True))
            total = sum(same(x, y, f"{path}[{place}]", depth) for place, (x, y) in pairs)
            return total / len(b) if b else 1.0
        if isinstance(a, str) and isinstance(b, str):
            score = close(a, b)
        elif isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            score = float(a is b)
        else:
            score = 1.0 if a == b else 1 - abs(a - b) / (abs(a) + abs(b))
        if score < 1:
            told.append(f"$.{path}: {a!r} is not {b!r}" + (f" ({score:.4g})" if score else ""))
        return score

    scores, explanations, by_key = [], [], []
    for said, wanted in zip(output.tolist(), truth.tolist(), strict=True):
        levels, told = [], []
        scores.append(same(json.loads(said), json.loads(wanted), "", 0))
        explanations.append("; ".join(told) or None)
        by_key.append(json.dumps({path: s for level in levels for path, s in level.items()}))
    return {
        "score": pa.array(scores, pa.float64()),
        "explanation": pa.array(explanations, _TEXT),
        "by_key": pa.array(by_key, _TEXT),
    }


def tool_calls(called: pd.Series, expected: pd.Series) -> dict[str, pa.Array]:
    """Count the expected tools that were called, whatever the order; name the others."""
    scores, explanations, missing_names, extra_names = [], [], [], []
    for made, wanted in zip(called.tolist(), expected.tolist(), strict=True):
        extra, missing = list(made), []
        for tool in wanted:
            if tool in extra:
                extra.remove(tool)
            else:
                missing.append(tool)
        scores.append(1 - len(missing) / len(wanted))
        parts = [f"missing: {', '.join(map(repr, missing))}"] if missing else []
        parts += [f"extra: {', '.join(map(repr, extra))}"] if extra else []
        explanations.append("; ".join(parts) or None)
        missing_names.append(json.dumps(missing))
        extra_names.append(json.dumps(extra))
    return {
        "score": pa.array(scores, pa.float64()),
        "explanation": pa.array(explanations, _TEXT),
        "missing": pa.array(missing_names, _TEXT),
        "extra": pa.array(extra_names, _TEXT),
        "out_of_order": pa.repeat(pa.scalar("[]", _TEXT), len(scores)),
    }


def ranking(
    score: Callable[[list[int], int], float], *, k: int | None = None, label: bool = False
) -> Callable[[pd.Series, pd.Series], dict[str, pa.Array]]:
    """Make the loop over the ranks of relevant documents.

    Args:
        score: Ranks of the relevant ones, and how many are relevant in all -> the score.
        k: Ranks that count.
        label: Whether there is a label, "True" or "False".
    """

    def loop(retrieved: pd.Series, context: pd.Series) -> dict[str, pa.Array]:
        scores, explanations = [], []
        for found, wanted in zip(retrieved.tolist(), context.tolist(), strict=True):
            relevant = set(wanted)
            ranks = [rank for rank, text in enumerate(found[:k], 1) if text in relevant]
            scores.append(score(ranks, len(relevant)))
            if ranks:
                where = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
                explanations.append(f"{len(ranks)} of {len(relevant)} relevant at {where}")
            else:
                seen = len(found[:k])
                explanations.append(f"none of {len(relevant)} relevant among the first {seen}")
        columns = {
            "score": pa.array(scores, pa.float64()),
            "explanation": pa.array(explanations, _TEXT),
        }
        if label:
            columns["label"] = pa.array([str(score > 0) for score in scores], _TEXT)
        return columns

    return loop


precision = ranking(lambda ranks, _: len(ranks) / K, k=K)
recall = ranking(lambda ranks, relevant: len(ranks) / relevant, k=K)
hit = ranking(lambda ranks, _: 1.0 if ranks else 0.0, label=True)
mrr = ranking(lambda ranks, _: 1 / ranks[0] if ranks else 0.0)
ndcg = ranking(
    lambda ranks, relevant: (
        sum(1 / math.log2(rank + 1) for rank in ranks)
        / sum(1 / math.log2(rank + 1) for rank in range(1, relevant + 1))
    )
)
