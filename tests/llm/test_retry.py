"""Which failures are asked again, how often, and after how long."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.llm.chat import ChatError, ChatReply, ChatRequest
from evalframe.llm.model import Endpoint
from evalframe.llm.retry import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    LONGEST_REFUSED_S,
    MOST_REFUSALS,
    RetryingClient,
)

REQUEST = ChatRequest(Endpoint("http://here/v1", "m", None, "tool"), {"messages": []})


def failure(kind="server_error", *, retry_after=None):
    """An error that asking again may mend."""
    return ChatError(kind, "no", retryable=True, retry_after=retry_after)


class Waits:
    """A clock and a sleep that only takes down for how long it was called."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Inner:
    """Raises the errors in turn, the last one again and again; None is a reply."""

    def __init__(self, *outcomes, then=lambda: None):
        self.outcomes = outcomes
        self.then = then
        self.calls = 0

    async def complete(self, request):
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        self.then()
        if outcome is not None:
            raise outcome
        return ChatReply("yes")


def ended(inner, *, max_retries=5, seed=0, waits=None):
    """(reply or error, seconds slept) of one request."""
    waits = waits or Waits()
    client = RetryingClient(
        inner,
        max_retries=max_retries,
        clock=waits.clock,
        sleep=waits.sleep,
        rng=random.Random(seed),  # noqa: S311 - jitter is no secret
    )
    try:
        return asyncio.run(client.complete(REQUEST)), waits.slept
    except ChatError as exc:
        return exc, waits.slept


@pytest.mark.parametrize("kind", ["server_error", "connection", "timeout", "rate_limit"])
def test_what_may_pass_is_asked_again(kind):
    """A reply that comes later is the reply."""
    inner = Inner(failure(kind), failure(kind), None)

    reply, _ = ended(inner)

    assert (reply, inner.calls) == (ChatReply("yes"), 3)


@pytest.mark.parametrize("kind", ["quota", "auth", "bad_request"])
def test_what_is_final_is_asked_once(kind):
    """It is raised as it came, without waiting."""
    inner = Inner(ChatError(kind, "no"))

    error, slept = ended(inner)

    assert (error.kind, inner.calls, slept) == (kind, 1, [])


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_failure_is_asked_again_so_many_times(max_retries):
    """One request, and `max_retries` further ones; the last error is raised."""
    inner = Inner(failure())

    error, slept = ended(inner, max_retries=max_retries)

    assert (error.kind, inner.calls, len(slept)) == ("server_error", max_retries + 1, max_retries)


@given(seed=st.integers(0, 10_000))
def test_waits_double_within_their_jitter(seed):
    """The n-th wait is between a half and the whole of what doubles from wait to wait."""
    _, slept = ended(Inner(failure()), max_retries=10, seed=seed)

    longest = [min(FIRST_DELAY_S * 2**n, LONGEST_DELAY_S) for n in range(10)]
    assert [most / 2 <= wait <= most for wait, most in zip(slept, longest, strict=True)] == [
        True
    ] * 10


def test_waits_differ_from_client_to_client():
    """A hundred calls that failed at once do not come back at once."""
    waits = {ended(Inner(failure(), None), seed=seed)[1][0] for seed in range(100)}

    assert len(waits) == 100


@pytest.mark.parametrize("seconds", [0.0, 0.25, 7.0, 120.0])
def test_time_that_the_server_asked_for_is_waited(seconds):
    """Neither more nor less, in place of the backoff."""
    _, slept = ended(Inner(failure(retry_after=seconds), None))

    assert slept == [seconds]


def test_refusal_for_the_rate_uses_up_no_attempt():
    """The limits wait for it below; so nothing is slept here, and retries are kept."""
    refusals = [failure("rate_limit")] * 50
    inner = Inner(*refusals, failure(), failure(), None)

    reply, slept = ended(inner, max_retries=2)

    assert (reply.text, inner.calls, len(slept)) == ("yes", 53, 2)


def test_nothing_is_refused_for_ever():
    """After so many refusals the last one is raised."""
    inner = Inner(failure("rate_limit"))

    error, _ = ended(inner)

    assert (error.kind, inner.calls) == ("rate_limit", MOST_REFUSALS + 1)


def test_refusals_end_after_a_time():
    """However few they are: a server that refuses every few minutes is given up."""
    waits = Waits()

    def minutes_later():
        waits.now += 300.0

    inner = Inner(failure("rate_limit"), then=minutes_later)

    error, _ = ended(inner, waits=waits)

    assert (error.kind, inner.calls) == ("rate_limit", 1 + LONGEST_REFUSED_S // 300 + 1)


@pytest.mark.parametrize("kind", ["rate_limit", "server_error"])
def test_longer_than_anybody_waits_is_final(kind):
    """To be told "come back tomorrow" is an answer of today."""
    inner = Inner(failure(kind, retry_after=86_400.0))

    error, slept = ended(inner)

    assert (error.kind, inner.calls, slept) == (kind, 1, [])
