"""What every judge is asked: is the answer of a row the truth, with a label as the verdict.

Standard library only, so that the peers' environments can import it too.

TEMPLATE, prompts   the question about each row, as a Jinja template and as finished text
body                the fields of a request beside its messages: a strict JSON schema
LIMITS              the names of the bare loops in judge_limits.py
labels              what the scripted server answers to these prompts
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from workload import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

CONCURRENCY = 64
MODEL = "judge"
LIMITS = ("bare aiohttp", "bare AsyncOpenAI", "bare AsyncOpenAI on aiohttp")
CHOICES = {"correct": 1.0, "incorrect": 0.0}
TEMPLATE = """Does the answer say the same as the reference? Judge the meaning, not the words.

Question: {{ item.question }}
Answer: {{ item.answer }}
Reference: {{ item.truth }}"""

_SCHEMA = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string"},
        "label": {"type": "string", "enum": [*CHOICES]},
    },
    "required": ["explanation", "label"],
    "additionalProperties": False,
}


def table(rows: int) -> dict[str, list[str]]:
    """Give the texts of every row, no two rows alike."""
    made = columns(rows)
    made["question"] = [f"{text} ({row})" for row, text in enumerate(made["question"])]
    return made


def prompts(given: dict[str, list[str]]) -> list[str]:
    """Give the user message of every row."""
    rows = zip(given["question"], given["answer"], given["truth"], strict=True)
    return [
        TEMPLATE.replace("{{ item.question }}", question)
        .replace("{{ item.answer }}", answer)
        .replace("{{ item.truth }}", truth)
        for question, answer, truth in rows
    ]


def body(prompt: str) -> dict[str, Any]:
    """Give the request for one prompt."""
    constraint = {"name": "verdict", "strict": True, "schema": _SCHEMA}
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        "response_format": {"type": "json_schema", "json_schema": constraint},
    }


def labels(asked: Sequence[str]) -> list[str]:
    """Give what the server's script, `evalframe.testing.obedient`, answers to these prompts."""
    names = [*CHOICES]
    return [names[zlib.crc32(f"{prompt}label".encode()) % len(names)] for prompt in asked]
