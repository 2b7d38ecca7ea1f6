"""A chat completion's body as a reply.

A body that says two things at once (several choices, several tool calls, a call that nobody
asked for) is no answer: its text is then the list of what it says, which no judge accepts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalframe.core.nested import without_surrogates
from evalframe.llm.chat import ChatReply, Usage

_MOST_TOKENS = 1 << 40  # what a server counts beyond is no count, and fits in no column


def reply_of(content: bytes, body: Mapping[str, Any]) -> ChatReply:
    """The reply in a response.

    Args:
        content: The response's body.
        body: The request's, which says whether a tool call was asked for.

    Raises:
        ValueError: It is no chat completion.
    """
    try:
        raw = json.loads(content)
        choices = raw["choices"]
        reply = _reply(choices[0], _tool_in(body))
        if len(choices) > 1:
            reply = replace(reply, text=json.dumps([c["message"] for c in choices]))
        return replace(reply, usage=_usage(raw.get("usage")), model=_text(raw.get("model")))
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as exc:
        message = f"no chat completion: {type(exc).__name__}"
        raise ValueError(message) from None


def _reply(choice: Mapping[str, Any], tool: str | None) -> ChatReply:
    message = choice["message"]
    said = choice.get("logprobs")
    tokens = said.get("content") if isinstance(said, dict) else None
    good = isinstance(tokens, list) and all(isinstance(token, dict) for token in tokens)
    refusal = message.get("refusal")
    return ChatReply(
        text=_answer(message, tool),
        refusal=_text(refusal) if isinstance(refusal, str) else None,
        finish_reason=_text(choice.get("finish_reason")),
        logprobs=tokens if good else None,
    )


def _tool_in(body: Mapping[str, Any]) -> str | None:
    chosen = body.get("tool_choice")
    function = chosen.get("function") if isinstance(chosen, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def _answer(message: Mapping[str, Any], tool: str | None) -> str | None:
    calls = message.get("tool_calls") or []
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if calls and (tool is None or len(calls) > 1 or calls[0]["function"].get("name") != tool):
        return json.dumps([content, *calls] if content else calls)
    text = calls[0]["function"]["arguments"] if calls else content
    return str(without_surrogates(text)) if isinstance(text, str) else None


def _text(value: Any) -> str | None:
    """One object for each text that comes again and again: a model's name, a reason."""
    return sys.intern(str(without_surrogates(value))) if isinstance(value, str) else None


def _usage(raw: Any) -> Usage:
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt, completion = count_of(raw.get("prompt_tokens")), count_of(raw.get("completion_tokens"))
    cached = count_of(cached)
    if cached is not None and prompt is not None:
        cached = min(cached, prompt)  # more than all of them cannot have been cached
    return Usage(prompt, completion, cached)


def count_of(value: Any) -> int | None:
    """A count of tokens as the server gave it; None for what cannot be one."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
