"""A script that fails at given rates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from evalframe.testing.obedient import obedient
from evalframe.testing.replies import Reply, error, reply
from evalframe.testing.request import Request

_WHOLE = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Refuses, breaks and garbles some requests; the rest is answered by another script.

    What happens to a request follows from the seed, its texts and how often they came, so a run
    meets the same faults whatever the order in which its requests arrive.

    Examples:
        >>> from evalframe import testing
        >>> with testing.ChatServer(testing.Faults(rate_500=1.0)) as server:
        ...     server.calls
        0
    """

    rate_429: float = 0.0
    """The share of requests that is refused."""
    retry_after: float = 1.0
    """Seconds, in the header of a refusal."""
    rate_500: float = 0.0
    rate_malformed: float = 0.0
    """The share of replies that are no JSON."""
    seed: int = 0
    otherwise: Callable[[Request], Reply] = obedient

    def __call__(self, request: Request) -> Reply:
        """The reply to this request."""
        drawn = self._draw(request)
        if drawn < self.rate_429:
            wait = {"Retry-After": f"{self.retry_after:g}"}
            return error(429, "Rate limit reached.", code="rate_limit_exceeded", headers=wait)
        drawn -= self.rate_429
        if drawn < self.rate_500:
            return error(500, "The server had an error.", kind="server_error")
        drawn -= self.rate_500
        if drawn < self.rate_malformed:
            return reply('{"explanation": "Well, "label" ')
        return self.otherwise(request)

    def _draw(self, request: Request) -> float:
        said = request.text_of() or "\n".join(request.texts)
        text = f"{self.seed}\0{request.occurrence}\0{said}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest) / _WHOLE
