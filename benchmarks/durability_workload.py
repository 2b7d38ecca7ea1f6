"""What the runs that are cut off do, for each row: a task, a judge, and an evaluator.

task, judge  what is paid for: one call each
careful      an evaluator that raises on the tricky rows
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai
from durability_rows import MOST, TEMPLATE, asked
from judge_workload import CHOICES

import evalframe as ef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "integer", "minimum": 0, "maximum": MOST}},
    "required": ["number"],
    "additionalProperties": False,
}


def task(client: openai.AsyncOpenAI) -> Callable[[str], Awaitable[str]]:
    """Give a task that asks by a client of its own, of which evalframe knows nothing."""

    async def answer(question: str) -> str:
        reply = await client.chat.completions.create(
            model="answers",
            messages=[{"role": "user", "content": asked(question)}],
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
