"""The rows of the runs that are cut off, and what the server says about each.

No two prompts are alike, and an answer is a function of its prompt, so one on a wrong row would
be seen. Needs no evalframe.

frame     question, truth, tricky
asked     the prompt of a row's task
TEMPLATE  the judge's
strays    the rows of a result that do not hold what the server says to their own prompts
"""

from __future__ import annotations

import random
import zlib

import pandas as pd
from judge_workload import CHOICES, table

TEMPLATE = """Is this the right answer?

Question: {{ item.question }}
Answer: {{ item.output }}
Reference: {{ item.truth }}"""
CALLS_PER_ROW = 2
MOST = 2**32 - 1

_SEED = 5
# Where errors="raise" ends a run: neither at its beginning nor at its end.
_TRICKY = (0.3, 0.8)


def frame(rows: int) -> pd.DataFrame:
    """Give the rows, 1 % of them tricky; the index is in no order."""
    given = table(rows)
    rng = random.Random(_SEED)
    low, high = (round(rows * share) for share in _TRICKY)
    tricky = set(rng.sample(range(low, high), max(1, rows // 100)))
    return pd.DataFrame(
        {
            "question": given["question"],
            "truth": given["truth"],
            "tricky": [row in tricky for row in range(rows)],
        },
        index=pd.Index(rng.sample(range(10 * rows), rows), name="id"),
    )


def asked(question: str) -> str:
    """Give the task's prompt; it is answered with a number up to MOST."""
    return f"Answer with a number.\n{question}"


def strays(result: pd.DataFrame) -> pd.DataFrame:
    """Give the rows whose output or verdict is another than what their own prompts get."""
    rows = zip(result["question"], result["truth"], strict=True)
    wanted = [_wanted(question, truth) for question, truth in rows]
    outputs, labels = (list(column) for column in zip(*wanted, strict=True))
    found = (result["output"] == outputs) & (result["eval.verdict.label"] == labels)
    return result[~found.fillna(value=False).to_numpy(bool)]


def _wanted(question: str, truth: str) -> tuple[str, str]:
    """Compute what `evalframe.testing.obedient` says: CRC-32 of the prompt and a key."""
    output = f"It is number {_checksum(asked(question), 'number') % (MOST + 1)}."
    prompt = (
        TEMPLATE.replace("{{ item.question }}", question)
        .replace("{{ item.output }}", output)
        .replace("{{ item.truth }}", truth)
    )
    names = [*CHOICES]
    return output, names[_checksum(prompt, "label") % len(names)]


def _checksum(prompt: str, key: str) -> int:
    return zlib.crc32(f"{prompt}{key}".encode())
