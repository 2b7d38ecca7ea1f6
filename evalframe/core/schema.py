"""Names and types of the result columns. No other module spells them.

Per evaluator, always: label, score, explanation, metadata, error; then its declared extras;
then, with details, latency_s and fingerprint. Per run with a task: output and task.error.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from evalframe.core.errors import listed
from evalframe.core.nested import has_surrogate

LABEL = "label"
SCORE = "score"
EXPLANATION = "explanation"
METADATA = "metadata"
ERROR = "error"
LATENCY = "latency_s"
FINGERPRINT = "fingerprint"

REPLY = "reply"
RAW_SCORE = "raw_score"
CONFIDENCE = "confidence"
COVERAGE = "coverage"
PROMPT_TOKENS = "prompt_tokens"
COMPLETION_TOKENS = "completion_tokens"
CACHED_TOKENS = "cached_tokens"
COST = "cost"
FROM_CACHE = "from_cache"

OUTPUT = "output"
TASK_ERROR = "task.error"
REPETITION = "repetition"

TEXT = pa.large_string()
NUMBER = pa.float64()

FIELDS: dict[str, pa.DataType] = {
    LABEL: TEXT,
    SCORE: NUMBER,
    EXPLANATION: TEXT,
    METADATA: TEXT,
    ERROR: TEXT,
}
DETAILS: dict[str, pa.DataType] = {LATENCY: NUMBER}
MARKS: dict[str, pa.DataType] = {FINGERPRINT: TEXT}
JUDGE_DETAILS: dict[str, pa.DataType] = {
    PROMPT_TOKENS: pa.int64(),
    COMPLETION_TOKENS: pa.int64(),
    CACHED_TOKENS: pa.int64(),
    COST: NUMBER,
    FROM_CACHE: pa.bool_(),
}

# Names that later columns of every evaluator have, or will have: no extra may take them.
RESERVED = frozenset(
    {
        *FIELDS,
        *DETAILS,
        *JUDGE_DETAILS,
        *MARKS,
        *(REPLY, RAW_SCORE, CONFIDENCE, COVERAGE),
    }
)

EXTRA_TYPES: dict[Any, pa.DataType] = {
    str: TEXT,
    float: NUMBER,
    int: pa.int64(),
    bool: pa.bool_(),
    "json": TEXT,
}

# Kinds of cell errors. The first two are neither failures nor valid.
SKIPPED = "skipped"
TASK_FAILED = "task_failed"
EXCEPTION = "exception"
TIMEOUT = "timeout"
INVALID_RESULT = "invalid_result"
RANGE = "range"
TEMPLATE = "template"
PARSE = "parse"
REFUSAL = "refusal"
TRUNCATED = "truncated"
CONTENT_FILTER = "content_filter"
RATE_LIMIT = "rate_limit"
QUOTA = "quota"
AUTH = "auth"
SERVER_ERROR = "server_error"
BAD_REQUEST = "bad_request"
CONNECTION = "connection"

NOT_RUN = f"{SKIPPED}: not run"
BUDGET = f"{SKIPPED}: budget"
DEADLINE = f"{SKIPPED}: deadline"
# Skips that are the run's and not the evaluator's: the cell is still to come.
PENDING = frozenset({NOT_RUN, BUDGET, DEADLINE})

# Failures where no answer came: nothing has been finished, and another call may end otherwise.
UNANSWERED = frozenset({TIMEOUT, RATE_LIMIT, QUOTA, AUTH, SERVER_ERROR, CONNECTION})

LONGEST_ERROR = 2_000

_COLUMN = re.compile(r"eval\.([^.`\n\r]+)\.([^.]+)", re.DOTALL)
_BAD_NAME = re.compile(r"[.`\n\r]")


def column(evaluator: str, field: str) -> str:
    """The name of a result column."""
    return f"eval.{evaluator}.{field}"


def parse(name: Hashable) -> tuple[str, str] | None:
    """Evaluator and field of a result column's name, None for any other column."""
    match = _COLUMN.fullmatch(name) if isinstance(name, str) else None
    return (match[1], match[2]) if match else None


def is_result(name: Hashable) -> bool:
    """Whether a column is a result of an earlier run, and no part of the dataset row."""
    return name == TASK_ERROR or parse(name) is not None


def evaluators_in(columns: Iterable[Hashable]) -> list[str]:
    """The evaluators whose error column is among these, in order."""
    found = (parse(name) for name in columns)
    return [pair[0] for pair in found if pair is not None and pair[1] == ERROR]


def check_name(name: Any) -> str | None:
    """What is wrong with an evaluator's name, or None."""
    if not isinstance(name, str) or not name.strip():
        return f"An evaluator's name must be text that is not empty, not {name!r}."
    if has_surrogate(name):
        return f"The evaluator name {name!r} holds a lone surrogate, which is no text."
    if _BAD_NAME.search(name):
        return (
            f"The evaluator name {name!r} holds a dot, a backtick or a line break, which result "
            "columns cannot. Choose another one with .named('...')."
        )
    return None


def check_extras(extras: Mapping[str, Any]) -> str | None:
    """What is wrong with a declaration of extras, or None."""
    for name, kind in extras.items():
        if not isinstance(name, str) or check_name(name) is not None:
            return f"The extra {name!r} needs a name without dots, backticks and line breaks."
        if name in RESERVED:
            return f"The extra {name!r} has the name of a column that every evaluator has."
        if kind not in EXTRA_TYPES:
            return f"The extra {name!r} must be str, float, int, bool or 'json', not {kind!r}."
    return None


def error_text(kind: str, message: str, *, place: str = "") -> str:
    """The text of an error cell, cut to its longest length; the place stays whole.

    Args:
        kind: One of the kinds above.
        message: What happened.
        place: Where, such as `(file.py:12)`.
    """
    tail = f" {place}" if place else ""
    head = f"{kind}: {message}"
    room = LONGEST_ERROR - len(tail)
    return (head if len(head) <= room else head[: room - 1] + "…") + tail


def error_kind(text: str) -> str:
    """The kind at the beginning of an error cell."""
    return text.partition(":")[0]


def is_failure(text: str) -> bool:
    """Whether an error cell is a failure: neither skipped nor left out for a failed task."""
    return error_kind(text) not in (SKIPPED, TASK_FAILED)


def is_unmade(text: str) -> bool:
    """Whether an error cell says that the evaluator was not called."""
    return text in PENDING or error_kind(text) == TASK_FAILED


def collision_problem(evaluator: str, names: list[str]) -> str:
    """What to say of result columns that are in the way."""
    return (
        f"The frame already has results of an evaluator named {evaluator!r} ({listed(names)}). "
        "Pass only='missing', 'failed' or 'stale' to run just those cells, overwrite=True to "
        f"replace them all, or rename one: .named('{evaluator}_2')."
    )
