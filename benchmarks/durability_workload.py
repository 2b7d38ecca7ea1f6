"""What the runs that are cut off do: a task and a judge that pay a server, and an evaluator.

The server is the scripted one of `evalframe.testing`. What it answers is a function of the
prompt, and no two prompts are alike, so an answer on a wrong row would be seen.

frame        the rows; 1 % of them are `tricky`
task, judge  what is paid for: one call each per row
careful      an evaluator that raises on tricky rows
strays       the rows of a result that do not hold what the server says to their own prompts
"""

from __future__ import annotations

import json
import random
import zlib
from typing import TYPE_CHECKING, Any

import openai
import pandas as pd
from judge_workload import CHOICES, table

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TEMPLATE = """Is this the right answer?

Question: {{ item.question }}
Answer: {{ item.output }}
Reference: {{ item.truth }}"""
EVALUATORS = ("verdict", "careful")
CALLS_PER_ROW = 2

_SEED = 5
_MOST = 2**32 - 1
_NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "integer", "minimum": 0, "maximum": _MOST}},
    "required": ["number"],
    "additionalProperties": False,
}
# Where errors="raise" ends a run: neither at its beginning nor at its end.
_TRICKY = (0.3, 0.8)


def frame(rows: int) -> pd.DataFrame:
    """Give question, truth and tricky; the index is in no order."""
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


def task(client: openai.AsyncOpenAI) -> Callable[[str], Awaitable[str]]:
    """Give a task that asks by a client of its own, of which evalframe knows nothing."""

    async def answer(question: str) -> str:
        reply = await client.chat.completions.create(
            model="answers",
            messages=[{"role": "user", "content": _asked(question)}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": _NUMBER},
            },
        )
        return f"It is number {json.loads(reply.choices[0].message.content or '')['number']}."

    return answer


def judge(url: str) -> ef.Evaluator:
    """Give the judge: it is asked about the task's output."""
    return ef.LLMJudge(
        "verdict",
        model=ef.Model("local/judge", base_url=url),
        prompt=TEMPLATE,
        choices=CHOICES,
    )


@ef.evaluator
def careful(output: str, tricky: bool) -> bool:  # noqa: FBT001 - bound by name to a column
    """Raise on 1 % of the rows."""
    if tricky:
        message = f"cannot read {output!r}"
        raise ValueError(message)
    return output.endswith(".")


def strays(result: pd.DataFrame) -> pd.DataFrame:
    """Give the rows whose output or verdict is another than what their own prompts get."""
    rows = zip(result["question"], result["truth"], strict=True)
    wanted = [_wanted(question, truth) for question, truth in rows]
    outputs, labels = (list(column) for column in zip(*wanted, strict=True))
    found = (result["output"] == outputs) & (result["eval.verdict.label"] == labels)
    return result[~found.fillna(value=False).to_numpy(bool)]


def _asked(question: str) -> str:
    return f"Answer with a number.\n{question}"


def _wanted(question: str, truth: str) -> tuple[str, str]:
    """Compute what `evalframe.testing.obedient` says: CRC-32 of the prompt and a key."""
    output = f"It is number {_checksum(_asked(question), 'number') % (_MOST + 1)}."
    prompt = (
        TEMPLATE.replace("{{ item.question }}", question)
        .replace("{{ item.output }}", output)
        .replace("{{ item.truth }}", truth)
    )
    names: list[Any] = [*CHOICES]
    return output, names[_checksum(prompt, "label") % len(names)]


def _checksum(prompt: str, key: str) -> int:
    return zlib.crc32(f"{prompt}{key}".encode())
