"""Asking again: which failures, how often, and how long to wait.

Connection errors, 408, 409 and 5xx are asked again `max_retries` times, with exponential
backoff and jitter, or after the time the server asked for. A refusal for the rate (429) uses
up no attempt: the rate limiter holds everything until the server is ready; but after
`LONGEST_REFUSED_S` seconds of refusals a request fails. Everything else is final at once.

Source: exponential backoff with full jitter, AWS Architecture Blog, "Exponential Backoff And
Jitter" (2015).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from evalframe.core import schema
from evalframe.llm.chat import AnyReply, ChatClient, ChatError, ModelRequest

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
LONGEST_REFUSED_S = 900.0
MOST_REFUSALS = 10_000


class RetryingClient:
    """Asks the client inside again where that can help."""

    def __init__(
        self,
        inner: ChatClient,
        *,
        max_retries: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        """Wrap a client.

        Args:
            inner: What is asked.
            max_retries: How often a failure is asked again.
            clock: Seconds.
            sleep: Waits so many seconds; raises where the run ends meanwhile.
            rng: For the jitter.
        """
        self._inner = inner
        self._max_retries = max_retries
        self._clock = clock
        self._sleep = sleep
        self._rng = rng

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply, at the first attempt that gives one.

        Raises:
            ChatError: The last failure.
        """
        failures = refusals = 0
        refused_since: float | None = None
        while True:
            try:
                return await self._inner.complete(request)
            except ChatError as exc:
                if not exc.retryable:
                    raise
                if (exc.retry_after or 0.0) > LONGEST_REFUSED_S:
                    raise  # nobody waits that long for a row
                if exc.kind == schema.RATE_LIMIT:
                    refusals += 1
                    refused_since = self._clock() if refused_since is None else refused_since
                    if refusals > MOST_REFUSALS or self._too_long(refused_since):
                        raise
                    continue
                failures += 1
                if failures > self._max_retries:
                    raise
                await self._sleep(self._delay(failures, exc.retry_after))

    def _too_long(self, since: float) -> bool:
        return self._clock() - since > LONGEST_REFUSED_S

    def _delay(self, failures: int, asked: float | None) -> float:
        if asked is not None:
            return asked
        longest: float = min(FIRST_DELAY_S * 2.0 ** (failures - 1), LONGEST_DELAY_S)
        return longest * (0.5 + self._rng.random() / 2)
