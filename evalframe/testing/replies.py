"""Replies of the scripted server: what a model says, and what goes wrong on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evalframe.testing.request import Request

Logprobs = Sequence[tuple[str, Mapping[str, float]]]

_COMPLETION = "chat.completion"
_CREATED = 1_700_000_000
LETTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the server, or the lack of one. The functions beside it make them.

    Examples:
        >>> from evalframe import testing
        >>> testing.error(429, "Slow down.", headers={"Retry-After": "1"}).status
        429
    """

    status: int = 200
    body: bytes | Mapping[str, Any] = b""
    """Bytes as they are, or a JSON object."""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before it is sent."""
    ending: Literal["whole", "torn", "hang_up", "never"] = "whole"

    def encoded(self, request: Request) -> bytes:
        """The body as it is sent: a completion names the request's model and counts tokens."""
        if isinstance(self.body, bytes):
            return self.body
        body = self.body
        if body.get("object") == _COMPLETION:
            body = {"id": "chatcmpl-scripted", "created": _CREATED, "model": request.model, **body}
            body["usage"] = _usage(body, request)
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def reply(
    content: object,
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, Any] | None = None,
    logprobs: Logprobs | None = None,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Reply:
    """What a model says.

    Args:
        content: The text; anything but a str is sent as JSON text.
        finish_reason: Why the model stopped.
        usage: As the API spells it: `prompt_tokens`, `completion_tokens`, ...; what is missing is
            a token for every four letters.
        logprobs: For each token of the reply, in order: the token, and the log probabilities of
            the alternatives to it, itself among them.
        headers: Response headers, such as `x-ratelimit-remaining-requests`.
        delay: Seconds before it is sent.

    Examples:
        >>> from evalframe import testing
        >>> given = testing.reply({"score": 3}, usage={"prompt_tokens": 20})
        >>> given.body["choices"][0]["message"]["content"]
        '{"score": 3}'
    """
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    message = {"content": text}
    return _completion(message, finish_reason, usage, logprobs, headers=headers, delay=delay)


def label(
    name: object,
    *,
    explanation: str | None = None,
    usage: Mapping[str, Any] | None = None,
    logprobs: Logprobs | None = None,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Reply:
    """A judge's verdict: the object that a judge with `choices` asks for.

    Args:
        name: The label.
        explanation: Comes before the label; None for a judge with `explanation=False`.
        usage: As in `reply`.
        logprobs: As in `reply`.
        headers: Response headers.
        delay: Seconds before it is sent.

    Examples:
        >>> from evalframe import testing
        >>> testing.label("yes", explanation="It is.").body["choices"][0]["message"]["content"]
        '{"explanation": "It is.", "label": "yes"}'
    """
    first = {} if explanation is None else {"explanation": explanation}
    verdict = {**first, "label": name}
    return reply(verdict, usage=usage, logprobs=logprobs, headers=headers, delay=delay)


def tool_call(
    name: str,
    arguments: object,
    *,
    usage: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Reply:
    """A call of a tool; arguments that are no str are sent as JSON text.

    Args:
        name: The tool's name.
        arguments: What it is called with.
        usage: As in `reply`.
        headers: Response headers.
        delay: Seconds before it is sent.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
    message = {"content": None, "tool_calls": [call]}
    return _completion(message, "tool_calls", usage, headers=headers, delay=delay)


def refusal(text: str, *, delay: float = 0.0) -> Reply:
    """The model declines: no content, and the reason in `refusal`."""
    return _completion({"content": None, "refusal": text}, "stop", delay=delay)


def content_filter(text: str = "", *, delay: float = 0.0) -> Reply:
    """The provider's filter cut the reply off after `text`."""
    return reply(text, finish_reason="content_filter", delay=delay)


def truncated(text: str = '{"explanation": "', *, delay: float = 0.0) -> Reply:
    """The reply reached the token limit after `text`."""
    return reply(text, finish_reason="length", delay=delay)


def error(
    status: int,
    message: str = "",
    *,
    code: str | None = None,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Reply:
    """An HTTP error with the API's body.

    Args:
        status: The HTTP status.
        message: What the server says.
        code: The error's `code`, such as "insufficient_quota".
        kind: The error's `type`.
        headers: Response headers, such as `{"Retry-After": "1"}`.
        delay: Seconds before it is sent.
    """
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Reply(status=status, body=body, headers=headers or {}, delay=delay)


def garbage(body: bytes = b"<html>Bad gateway</html>", *, delay: float = 0.0) -> Reply:
    """A response whose body is these bytes, said to be JSON, under status 200."""
    return Reply(body=body, delay=delay)


def torn(content: object = "torn", *, delay: float = 0.0) -> Reply:
    """A response whose connection is closed in the middle of the body."""
    whole = reply(content, delay=delay)
    return Reply(body=whole.body, delay=delay, ending="torn")


def hang_up(*, delay: float = 0.0) -> Reply:
    """The connection is closed without a response."""
    return Reply(delay=delay, ending="hang_up")


def never() -> Reply:
    """No response, for as long as the client waits."""
    return Reply(ending="never")


def _completion(
    message: Mapping[str, Any],
    finish_reason: str,
    usage: Mapping[str, Any] | None = None,
    logprobs: Logprobs | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    delay: float,
) -> Reply:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "refusal": None, **message},
        "logprobs": None if logprobs is None else {"content": [_token(*pair) for pair in logprobs]},
        "finish_reason": finish_reason,
    }
    body = {"object": _COMPLETION, "choices": [choice], "usage": dict(usage or {})}
    return Reply(body=body, headers=headers or {}, delay=delay)


def _token(token: str, alternatives: Mapping[str, float]) -> dict[str, Any]:
    ranked = sorted(alternatives.items(), key=lambda pair: -pair[1])
    top = [{"token": text, "logprob": value, "bytes": None} for text, value in ranked]
    # As servers do when the token they were made to choose is not among the likeliest.
    own = alternatives.get(token, -9999.0)
    return {"token": token, "logprob": own, "bytes": None, "top_logprobs": top}


def _usage(body: Mapping[str, Any], request: Request) -> dict[str, Any]:
    message = json.dumps(body["choices"][0]["message"], ensure_ascii=False)
    counted = {
        "prompt_tokens": 1 + len(request.text_of()) // LETTERS_PER_TOKEN,
        "completion_tokens": 1 + len(message) // LETTERS_PER_TOKEN,
        **body["usage"],
    }
    return {"total_tokens": counted["prompt_tokens"] + counted["completion_tokens"], **counted}
