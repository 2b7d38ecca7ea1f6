"""Requests over the openai client: the only place that knows it.

Its low-level `post` is used, with a plain response: the transforms and response models of
`chat.completions.create` cost more than the request itself. It retries nothing.
"""

from __future__ import annotations

import asyncio
import email.utils
import functools
import importlib.util
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalframe.core import schema
from evalframe.llm.chat import AnyReply, ChatError, ModelRequest
from evalframe.llm.model import Endpoint

_KEY_LIKE = re.compile(
    r"\b(?:(?:sk|pk|key|gsk|csk|xai|nvapi|pplx)[-_][\w*.-]{5,}[\w*-]|(?:hf|fw|tgp)_\w{6,}|AIza[\w-]{20,})"
    r"|(?<=Bearer )[^\s'\"]{6,}"
)
# A name and a password before the host, or whatever stands in the query.
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@|\?.*", re.DOTALL)
_OPENAI_KEY = "OPENAI_API_KEY"
_LONGEST_MESSAGE = 600
_TELEMETRY = tuple(
    f"X-Stainless-{what}"
    for what in ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
)
_STATUS_KINDS = {
    401: schema.AUTH,
    402: schema.QUOTA,
    403: schema.AUTH,
    408: schema.SERVER_ERROR,
    409: schema.SERVER_ERROR,
}
# llama.cpp and Ollama say this with status 500; no other attempt makes a text shorter.
_TOO_LONG = re.compile(
    r"\b(?:input|prompt)\b.{0,80}\b(?:too (?:large|long)|exceeds? (?:\w+ ){0,3}context)\b",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_FIRST_SERVER_ERROR = 500
_LONGEST_SHOWN = 2_000
_NO_KEY = "none"
_TOO_MANY = 429
_OUT_OF_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "quota_exceeded")


class OpenAIClient:
    """One endpoint. To be used, and closed, on one event loop."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float, connections: int, aiohttp: bool | None = None
    ) -> None:
        """Import and make the client; nothing is sent.

        Args:
            endpoint: Where to.
            timeout: Seconds for one request.
            connections: Most calls in flight.
            aiohttp: Whether over aiohttp, which is faster; where it is installed, if not given.
        """
        import httpx2
        import openai

        self._openai = openai
        self._timeout = timeout
        self._where = _CREDENTIALS.sub("", endpoint.base_url)
        self._response = httpx2.Response
        self._key = os.environ.get(endpoint.api_key_env or "", "").strip() or _NO_KEY
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        if aiohttp is None:
            aiohttp = importlib.util.find_spec("aiohttp") is not None
        tls = _tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        make = openai.DefaultAioHttpClient if aiohttp else openai.DefaultAsyncHttpxClient
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=endpoint.base_url,
            timeout=timeout,
            max_retries=0,
            http_client=make(limits=limits, verify=tls),
        )
        if endpoint.api_key_env != _OPENAI_KEY:
            # Taken from OPENAI_ORG_ID and the like, and what it tells of this machine: other
            # servers are not to see them.
            self._client.organization = self._client.project = None
            omitted: Any = dict.fromkeys(_TELEMETRY, openai.Omit())
            self._client._custom_headers = omitted  # noqa: SLF001 - there is no other way to them

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply.

        Raises:
            ChatError: There is none; keys are taken out of its message.
        """
        body = {"model": request.endpoint.model, **request.body}
        openai = self._openai
        started = time.monotonic()
        try:
            # The client's own timeout begins anew with every piece of the response.
            async with asyncio.timeout(self._timeout):
                response = await self._client.post(request.path, body=body, cast_to=self._response)
                content = response.content
        except openai.APIStatusError as exc:
            raise self._status_error(exc) from None
        except (openai.APITimeoutError, TimeoutError):
            # The aiohttp transport reports a connection that was closed as a timeout, too.
            if time.monotonic() - started < self._timeout:
                message = f"no connection to {self._where}: it cannot be reached, or closed it"
                raise ChatError(schema.CONNECTION, message, retryable=True) from None
            message = f"the server gave no answer within {self._timeout:g} s"
            raise ChatError(schema.TIMEOUT, message, retryable=True) from None
        except openai.APIConnectionError as exc:
            message = self._clean(f"{exc} {_cause(exc)} ({self._where})")
            raise ChatError(schema.CONNECTION, message, retryable=True) from None
        except openai.OpenAIError as exc:
            raise ChatError(schema.BAD_REQUEST, self._clean(str(exc))) from None
        except (TypeError, ValueError) as exc:
            message = self._clean(f"the request cannot be sent: {exc}")
            raise ChatError(schema.BAD_REQUEST, message) from None
        except Exception as exc:  # noqa: BLE001 - whatever the transport raises
            # A body that ends early is raised by the transport itself, under its own names.
            message = self._clean(f"{type(exc).__name__}: {exc}")
            raise ChatError(schema.CONNECTION, message, retryable=True) from None
        return self._reply(content, request, hold(response.headers))

    def _reply(
        self, content: bytes, request: ModelRequest[AnyReply], hold_s: float | None
    ) -> AnyReply:
        try:
            reply = request.read(content)
        except ValueError:
            # Cleaned before it is cut: half a key is no longer found.
            shown = self._clean(content[:_LONGEST_SHOWN].decode("utf-8", "replace"))[:200]
            message = f"the server answered what is no {request.expected}: {shown!r}"
            raise ChatError(schema.SERVER_ERROR, message, retryable=True) from None
        return replace(reply.cleaned(self._without_key), hold=hold_s)

    def _without_key(self, said: str) -> str:
        """A server may say back what it was sent."""
        return said if self._key == _NO_KEY else said.replace(self._key, "[key]")

    def _status_error(self, exc: Any) -> ChatError:
        status = exc.status_code
        inner = _error_of(exc.response)
        said = inner.get("message") or exc.response.text.strip() or exc.response.reason_phrase
        message = self._clean(f"HTTP {status}: {said}")
        quota = {str(inner.get("code")), str(inner.get("type"))} & set(_OUT_OF_QUOTA)
        if status == _TOO_MANY and not quota:
            headers = exc.response.headers
            after = retry_after(headers)
            after = hold(headers) if after is None else after
            return ChatError(
                schema.RATE_LIMIT, message, retryable=True, retry_after=after, status=status
            )
        if quota:
            return ChatError(schema.QUOTA, message, status=status)
        kind = _STATUS_KINDS.get(status)
        if status == _FIRST_SERVER_ERROR and _TOO_LONG.search(str(said)):
            kind = schema.BAD_REQUEST
        if kind is None:
            kind = schema.SERVER_ERROR if status >= _FIRST_SERVER_ERROR else schema.BAD_REQUEST
        retryable = kind == schema.SERVER_ERROR
        after = retry_after(exc.response.headers) if retryable else None
        return ChatError(kind, message, retryable=retryable, retry_after=after, status=status)

    def _clean(self, text: str) -> str:
        """The text without this client's key, nor anything that looks like one."""
        text = self._without_key(text)
        text = _KEY_LIKE.sub("[key]", " ".join(text.split()))
        return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


@functools.lru_cache(maxsize=4)
def _tls(*_files: str | None) -> Any:
    """The certificates to trust: to load them takes as long as a hundred requests.

    Args:
        _files: The variables of the environment that say where they are.
    """
    import httpx2

    return httpx2.create_ssl_context()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After`.

    The latter may be a date; a number that cannot be is taken for no word at all.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        until = email.utils.parsedate_to_datetime(headers["retry-after"])
        return max(until.timestamp() - time.time(), 0.0)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def hold(headers: Mapping[str, str]) -> float | None:
    """Seconds until the server takes a request again, where `x-ratelimit-*` says it is at its end.

    Durations are written as "1s", "6m0s", "120ms" or plain seconds.
    """
    waits = []
    for what in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{what}") == "0":
            text = headers.get(f"x-ratelimit-reset-{what}", "")
            parts = _DURATION.findall(text if text[-1:].isalpha() else f"{text}s")
            waits.append(sum(float(number) * _UNITS[unit] for number, unit in parts))
    return max(waits, default=None)


def _error_of(response: Any) -> dict[str, Any]:
    """The error object of a response, wherever the server put it; empty if it has none."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    found = found[0] if isinstance(found, list) and found else found
    found = found.get("error", found) if isinstance(found, dict) else found
    return found if isinstance(found, dict) else {}


def _cause(exc: BaseException) -> str:
    cause = exc.__cause__
    return f"{type(cause).__name__}: {cause}" if cause is not None else ""
