"""How sure a model was of the label it chose, from the log probabilities of its tokens.

The probabilities are of the raw distribution, before any grammar masked it, so they are
renormalised over the labels; `coverage` says how much of the raw mass the labels held. Tokens
need not add up to the text of the reply (a server may take a code fence off), so the label is
found in the tokens themselves.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_KEY = re.compile(r'"label"\s*:\s*"')


class Confidence(NamedTuple):
    """How sure a model was.

    Attributes:
        confidence: Probability of the chosen label among the labels, in [0, 1].
        coverage: Raw probability of all labels together, up to where they first differ.
    """

    confidence: float
    coverage: float


_ROUNDING = 1e-6


class _Token(NamedTuple):
    text: str
    masses: dict[str, float]
    """The probabilities of the likeliest tokens and of the one that was chosen, raw."""
    forced: bool
    """Whether the chosen one is not among the likeliest."""


def confidence_of(
    label: str, labels: Sequence[str], logprobs: Sequence[dict[str, Any]] | None
) -> Confidence | None:
    """The confidence in a label; None where the tokens do not tell.

    At each token of the label, the mass of the tokens that go on like the label is set
    against that of the tokens that go on like any label still possible; the product of these
    ratios is the label's probability among the labels.

    Args:
        label: The chosen one.
        labels: All of them.
        logprobs: `choices[0].logprobs.content` of a chat completion, with `top_logprobs`.
    """
    try:
        tokens = [_token(entry) for entry in logprobs or ()]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    found = _found("".join(token.text for token in tokens), label)
    if found is None:
        return None
    at, end = found
    # Inside JSON a label is over where its closing quote is: so none is the beginning of another.
    options = [_escaped(other) + end for other in labels]
    chosen = _escaped(label) + end
    if sum(option.startswith(chosen) for option in options) > 1:
        return None
    for number, token in enumerate(tokens):
        if at < len(token.text):
            return _walked(tokens[number:], at, chosen, options)
        at -= len(token.text)
    return None


def _token(entry: dict[str, Any]) -> _Token:
    logs = {str(top["token"]): float(top["logprob"]) for top in entry["top_logprobs"]}
    text = str(entry["token"])
    if any(log > _ROUNDING for log in (*logs.values(), float(entry["logprob"]))):
        message = "no probability is above 1"
        raise ValueError(message)
    forced = text not in logs
    if logs:
        # A grammar may have forced a token that is not among the most probable ones.
        logs.setdefault(text, float(entry["logprob"]))
    return _Token(text, {token: math.exp(log) for token, log in logs.items()}, forced)


def _found(text: str, label: str) -> tuple[int, str] | None:
    """Where the label's value begins, and what ends it."""
    # Inside a text of the object quotes are escaped: what matches is the key.
    keys = list(_KEY.finditer(text))
    if len(keys) == 1 and text.startswith(_escaped(label) + '"', keys[0].end()):
        return keys[0].end(), '"'
    if not keys and text.strip() == label:
        return len(text) - len(text.lstrip()), ""
    return None


def _escaped(label: str) -> str:
    return json.dumps(label, ensure_ascii=False)[1:-1]


def _walked(
    tokens: Sequence[_Token], skip: int, chosen: str, options: Sequence[str]
) -> Confidence | None:
    """Multiply over the tokens of the label; `skip` letters of the first one are before it."""
    written, confidence, coverage = "", 1.0, 1.0
    alive, differ = list(options), False
    for token in tokens:
        head = token.text[:skip]
        goes_on = {
            written + text[skip:]: mass
            for text, mass in token.masses.items()
            if text.startswith(head) and len(text) > skip
        }
        every = sum(m for text, m in goes_on.items() if any(_fits(text, o) for o in alive))
        mine = sum(m for text, m in goes_on.items() if _fits(text, chosen))
        if mine <= 0:
            return None
        if token.forced and not all(any(_fits(text, o) for text in goes_on) for o in alive):
            return None  # what the others had is less than the least shown, and unknown
        confidence *= mine / every
        written += token.text[skip:]
        skip = 0
        left = [option for option in alive if _fits(written, option)]
        coverage *= 1.0 if differ else every
        differ |= len(left) < len(alive)
        alive = left
        if len(alive) <= 1:
            return Confidence(min(confidence, 1.0), min(coverage, 1.0)) if differ else None
    return None


def _fits(text: str, option: str) -> bool:
    """Whether a text is the beginning of an option, or goes on behind its end."""
    behind = text[len(option) :]
    over = option.endswith('"') or not behind[:1].isalnum()
    return option.startswith(text) or (text.startswith(option) and over)
