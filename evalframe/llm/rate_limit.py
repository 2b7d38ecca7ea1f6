"""Rate limits for model calls.

Owns   requests per minute, tokens per minute, and how many calls may be in flight.
Leaves retrying to retry.py: a refused call is raised, not repeated, here.

Bucket          pure arithmetic on a clock; no waiting
AdaptiveLimit   grows while used, cuts once per refusal episode
Limits          the two above for one model, shared by all judges of a run
LimitedClient   Limits around a ChatClient
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from evalframe.core import schema
from evalframe.core.call_info import current_call
from evalframe.llm.chat import AnyReply, ChatClient, ChatError, ModelRequest

# A refusal without Retry-After: wait this long, doubled at each further one in a row.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
# Nothing is held for longer, whatever the server says: what is sent then fails by itself.
LONGEST_HOLD_S = 900.0
_CLOSE_ENOUGH = 1e-6
# One refusal in so many calls is no reason to send fewer at once.
_USUAL_SHARE = 10
_BURST_S = 1.0


class Bucket:
    """So many units per minute, evenly; one second's worth may come at once.

    An amount may be taken when the level holds it. One that is larger than a burst may be taken
    when the bucket is full, and brings the level below zero: those after it wait for it.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        """Start with one burst."""
        self.per_minute = per_minute
        self.per_minute = per_minute
        self._rate = per_minute / 60.0
        self._most = max(1.0, self._rate * _BURST_S)
        self._level = self._most
        self._clock = clock
        self._at = clock()

    def delay(self, amount: float) -> float:
        """Seconds until an amount can be taken."""
        self._refill()
        missing = min(amount, self._most) - self._level
        # A clock far from zero cannot tell the last bit, and would be waited for for ever.
        return 0.0 if missing <= self._most * _CLOSE_ENOUGH else missing / self._rate

    def take(self, amount: float) -> None:
        """Take an amount; a negative one gives back."""
        self._refill()
        self._level = min(self._level - amount, self._most)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(self._level + (now - self._at) * self._rate, self._most)
        self._at = now


class AdaptiveLimit:
    """How many calls may be in flight.

    It starts at the most, is cut once per refusal episode, and grows by one whenever a full
    round of calls went well while all of it was in use. An episode is every refusal of a call
    that was sent before the last cut; it costs one place for each call refused beyond one in
    ten, at least one and at most half of all: fewer calls do not help with a server that
    refuses a few of many.
    """

    def __init__(self, most: int) -> None:
        """Start at the most."""
        self.most = most
        self.limit = most
        self.episodes = 0
        self._good = 0
        self._before = most
        self._refused = 0
        self._cut_at = float("-inf")

    def succeeded(self, in_flight: int) -> None:
        """A call went well while so many were in flight."""
        if in_flight < self.limit or self.limit >= self.most:
            return
        self._good += 1
        if self._good >= self.limit:
            self._good = 0
            self.limit += 1

    def refused(self, sent_at: float, now: float) -> bool:
        """A call sent then was refused now; whether that begins an episode."""
        begins = sent_at > self._cut_at
        if begins:
            self._cut_at = now
            self._good = self._refused = 0
            self._before = self.limit
            self.episodes += 1
        self._refused += 1
        beyond = max(1, self._refused - self._before // _USUAL_SHARE)
        self.limit = max(1, self._before // 2, self._before - beyond)
        return begins


class Limits:
    """What one model of a run may be asked, by the user's limits and the server's."""

    def __init__(
        self,
        *,
        rpm: int | None,
        tpm: int | None,
        concurrency: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Start with nothing in flight.

        Args:
            rpm: Requests per minute.
            tpm: Tokens per minute.
            concurrency: Most calls in flight.
            clock: Seconds.
            sleep: Waits so many seconds; raises where the run ends meanwhile.
        """
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self.adaptive = AdaptiveLimit(concurrency)
        self._clock = clock
        self._sleep = sleep
        self._gate = asyncio.Lock()
        self._freed = asyncio.Event()
        self._in_flight = 0
        self._paused_until = float("-inf")
        self._pauses_in_a_row = 0
        self.tighten(rpm=rpm, tpm=tpm)

    def tighten(self, *, rpm: int | None, tpm: int | None) -> None:
        """Keep these limits, too, where they are stricter than those so far."""
        self._requests = self._stricter(self._requests, rpm)
        self._tokens = self._stricter(self._tokens, tpm)

    def _stricter(self, bucket: Bucket | None, per_minute: int | None) -> Bucket | None:
        if per_minute is None or (bucket is not None and bucket.per_minute <= per_minute):
            return bucket
        return Bucket(per_minute, self._clock)

    async def enter(self, tokens: int) -> None:
        """Wait until a call of about so many tokens may be sent; first come, first served."""
        async with self._gate:
            while True:
                wait = self._wait(tokens)
                if wait > 0:
                    await self._sleep(wait)
                elif self._in_flight >= self.adaptive.limit:
                    self._freed.clear()
                    await self._freed.wait()
                else:
                    break
            self._in_flight += 1
            if self._requests is not None:
                self._requests.take(1)
            if self._tokens is not None:
                self._tokens.take(tokens)

    def _wait(self, tokens: int) -> float:
        waits = [self._paused_until - self._clock()]
        wanted = ((self._requests, 1), (self._tokens, tokens))
        waits += [bucket.delay(amount) for bucket, amount in wanted if bucket is not None]
        return max(waits)

    def leave(self, *, guessed: int, counted: int | None) -> None:
        """A call ended; the tokens it took are corrected by the server's count."""
        if self._tokens is not None and counted is not None:
            # Bounded: a count that cannot be must not hold the run for hours.
            self._tokens.take(min(counted - guessed, self._tokens.per_minute))
        self._in_flight -= 1
        self._freed.set()

    def succeeded(self) -> None:
        """A call was answered."""
        self._pauses_in_a_row = 0
        self.adaptive.succeeded(self._in_flight)

    def refused(self, sent_at: float, retry_after: float | None) -> None:
        """A call was refused for its rate: hold everything for as long as was asked."""
        now = self._clock()
        first = self.adaptive.refused(sent_at, now)
        # "In 0 seconds" is no time to wait: the server would be asked in a tight loop.
        if not retry_after and first:
            retry_after = min(FIRST_PAUSE_S * 2**self._pauses_in_a_row, LONGEST_PAUSE_S)
            self._pauses_in_a_row += 1
        if retry_after is not None:
            self.pause(retry_after)

    def pause(self, seconds: float) -> None:
        """Send nothing for so many seconds, unless nobody would wait that long."""
        if seconds > LONGEST_HOLD_S:
            return
        self._paused_until = max(self._paused_until, self._clock() + seconds)


class LimitedClient:
    """Sends when the limits allow it."""

    def __init__(self, inner: ChatClient, limits: Limits, clock: Callable[[], float]) -> None:
        """Wrap a client.

        Args:
            inner: What sends.
            limits: Shared by all clients of the same model.
            clock: Seconds.
        """
        self._inner = inner
        self._limits = limits
        self._clock = clock

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply, after waiting for the limits; the wait counts in no timeout.

        Raises:
            ChatError: As the client inside.
        """
        limits = self._limits
        tokens = request.tokens
        with current_call().clock.paused():
            await limits.enter(tokens)
        sent_at = self._clock()
        counted: int | None = None
        try:
            reply = await self._inner.complete(request)
            usage = reply.usage
            if usage.prompt_tokens is not None and usage.completion_tokens is not None:
                counted = usage.prompt_tokens + usage.completion_tokens
        except ChatError as exc:
            if exc.kind == schema.RATE_LIMIT:
                limits.refused(sent_at, exc.retry_after)
            raise
        else:
            limits.succeeded()
            if reply.hold is not None:
                limits.pause(reply.hold)
            return reply
        finally:
            limits.leave(guessed=tokens, counted=counted)
