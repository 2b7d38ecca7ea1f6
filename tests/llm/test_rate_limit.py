"""Rates that are never exceeded, a concurrency that adapts, and waits that are fair."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.call_info import CallClock, CallInfo, enter_call
from evalframe.llm.chat import ChatError, ChatReply, ChatRequest, Usage
from evalframe.llm.model import Endpoint
from evalframe.llm.rate_limit import (
    FIRST_PAUSE_S,
    LONGEST_HOLD_S,
    LONGEST_PAUSE_S,
    AdaptiveLimit,
    Bucket,
    LimitedClient,
    Limits,
)

HERE = Endpoint("http://here/v1", "m", None, "tool")


class Clock:
    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def request(number=0, **body):
    """A request unlike those with other numbers."""
    return ChatRequest(HERE, {"messages": [], "n": number, **body})


def refusal(retry_after=None):
    """The server's 429."""
    return ChatError("rate_limit", "slow down", retryable=True, retry_after=retry_after)


def now():
    """The time of the running loop."""
    return asyncio.get_running_loop().time()


def limits(*, rpm=None, tpm=None, concurrency=4):
    """Limits on the running loop's time."""
    return Limits(rpm=rpm, tpm=tpm, concurrency=concurrency, clock=now, sleep=asyncio.sleep)


def limited(inner, shared):
    """A client behind limits."""
    return LimitedClient(inner, shared, now)


async def all_of(client, count):
    """Complete so many requests at once."""
    return await asyncio.gather(*(client.complete(request(n)) for n in range(count)))


@given(
    per_minute=st.floats(1, 1e6),
    asked=st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 1e5)), min_size=1, max_size=40),
    start=st.sampled_from([0.0, 1e6]),
)
def test_bucket_never_gives_more_than_its_rate_and_a_burst(per_minute, asked, start):
    """In no window of any length: only the last amount may be larger than a burst."""
    clock = Clock(start)
    bucket = Bucket(per_minute, clock)
    taken = []
    for pause, amount in asked:
        clock.now += pause
        clock.now += bucket.delay(amount)
        assert bucket.delay(amount) == 0.0
        bucket.take(amount)
        taken.append((clock.now, amount))

    rate, burst = per_minute / 60, max(1.0, per_minute / 60)
    for first, (begin, _) in enumerate(taken):
        total = 0.0
        for end, amount in taken[first:]:
            total += amount
            allowed = burst + rate * (end - begin) + max(0.0, amount - burst)
            assert total <= allowed + 1e-4 * burst + 1e-6 * total


def test_bucket_begins_with_a_second_of_its_rate():
    """600 per minute: ten at once, then one every tenth of a second."""
    clock = Clock()
    bucket = Bucket(600, clock)
    for _ in range(10):
        assert bucket.delay(1) == 0.0
        bucket.take(1)

    assert bucket.delay(1) == pytest.approx(0.1)


def test_large_request_passes_and_leaves_a_debt():
    """What is larger than a burst is taken when the bucket is full; the next waits for it all."""
    clock = Clock()
    bucket = Bucket(60, clock)

    assert bucket.delay(30) == 0.0
    bucket.take(30)
    assert bucket.delay(1) == pytest.approx(30.0)
    clock.now += 30.0
    assert bucket.delay(1) == 0.0


def test_what_is_given_back_can_be_taken_but_not_hoarded():
    """A guess that was too high shortens the wait; the bucket never holds more than a burst."""
    clock = Clock()
    bucket = Bucket(60, clock)
    bucket.take(31)
    bucket.take(-20)

    assert bucket.delay(1) == pytest.approx(11.0)
    bucket.take(-500)
    bucket.take(1)
    assert bucket.delay(1) == pytest.approx(1.0)


def test_adaptive_limit_starts_at_the_most_and_never_goes_above():
    """Success at full use changes nothing there."""
    limit = AdaptiveLimit(3)
    for _ in range(100):
        limit.succeeded(3)

    assert limit.limit == 3


def test_adaptive_limit_is_cut_once_per_episode():
    """Refusals of calls that were sent before the cut are of the same episode."""
    limit = AdaptiveLimit(32)

    begins = [limit.refused(sent_at, now=10.0) for sent_at in (1.0, 2.0, 10.0)]
    later = limit.refused(10.5, now=11.0)

    assert (begins, later, limit.limit, limit.episodes) == ([True, False, False], True, 30, 2)


@pytest.mark.parametrize(
    ("refused", "left"), [(1, 63), (7, 63), (8, 62), (30, 40), (64, 32)], ids=str
)
def test_adaptive_limit_is_cut_by_what_was_refused_beyond_one_in_ten(refused, left):
    """A server that takes nine of ten is not helped by fewer calls; half is the most at once."""
    limit = AdaptiveLimit(64)
    for _ in range(refused):
        limit.refused(1.0, now=2.0)

    assert limit.limit == left


def test_adaptive_limit_grows_by_one_per_round_of_full_use():
    """Only while all of it is used: idle success says nothing about the server."""
    limit = AdaptiveLimit(32)
    for _ in range(32):
        limit.refused(1.0, now=2.0)
    for _ in range(1000):
        limit.succeeded(15)
    idle = limit.limit
    for _ in range(16):
        limit.succeeded(16)

    assert (idle, limit.limit) == (16, 17)


@given(
    most=st.integers(1, 64),
    events=st.lists(st.tuples(st.booleans(), st.integers(1, 64)), max_size=200),
)
def test_adaptive_limit_stays_between_one_and_the_most(most, events):
    """Whatever happens, something may be sent, and never more than was allowed."""
    limit = AdaptiveLimit(most)
    for time, (good, in_flight) in enumerate(events):
        if good:
            limit.succeeded(in_flight)
        else:
            limit.refused(time, now=time)
        assert 1 <= limit.limit <= most


def test_no_more_calls_are_in_flight_than_allowed(run, scripted):
    """The others wait."""
    inner = scripted("yes", seconds=1.0)

    async def main():
        await all_of(limited(inner, limits(concurrency=3)), 10)
        return now()

    assert (run(main()), inner.most) == (4.0, 3)


def test_requests_per_minute_are_kept_by_all_clients_together(run, scripted):
    """Two judges of one model share its rate."""
    one, other = scripted("yes"), scripted("yes")

    async def main():
        shared = limits(rpm=60, concurrency=50)
        await asyncio.gather(all_of(limited(one, shared), 5), all_of(limited(other, shared), 5))

    run(main())

    assert sorted(one.times + other.times) == pytest.approx(range(10), abs=0.01)


def test_tokens_per_minute_are_corrected_by_the_servers_count(run, scripted):
    """The guess counts until the server has counted; a high guess is given back."""
    inner = scripted(ChatReply("yes", usage=Usage(30, 30)))

    async def main():
        client = limited(inner, limits(tpm=60))
        for number in range(3):
            await client.complete(request(number, max_tokens=6000))

    run(main())

    assert inner.times == pytest.approx([0.0, 60.0, 120.0], abs=0.1)


def test_tokens_that_are_not_counted_stay_guessed(run, scripted):
    """A call that failed, or an uncounted one, cost what it was thought to."""
    inner = scripted(ChatError("server_error", "no"), "yes", "yes")

    async def main():
        client = limited(inner, limits(tpm=60))
        with pytest.raises(ChatError, match="no"):
            await client.complete(request(max_tokens=10))
        for number in range(2):
            await client.complete(request(number, max_tokens=10))

    run(main())

    assert inner.times == pytest.approx([0.0, 10.0, 20.0], abs=0.1)


def test_first_come_is_first_served(run, scripted):
    """Also behind a limit: no row waits for ever while later ones pass it."""
    inner = scripted("yes", seconds=0.5)

    async def main():
        await all_of(limited(inner, limits(rpm=60, concurrency=2)), 8)

    run(main())

    assert [asked.body["n"] for asked in inner.requests] == list(range(8))


def test_refusal_holds_everything_for_as_long_as_the_server_asked(run, scripted):
    """Not only the refused call: the next one would be refused as well."""
    inner = scripted(refusal(7.0), "yes")

    async def main():
        client = limited(inner, limits())
        with pytest.raises(ChatError, match="slow down"):
            await client.complete(request())
        await client.complete(request(1))

    run(main())

    assert inner.times == [0.0, 7.0]


@pytest.mark.parametrize("said", [None, 0.0], ids=["nothing", "zero"])
def test_refusals_without_a_time_wait_longer_and_longer(run, scripted, said):
    """Doubling up to a minute, until one call goes well; "in 0 seconds" is no time either."""
    inner = scripted(*[refusal(said)] * 8, "yes", refusal(said), "yes")

    async def main():
        client = limited(inner, limits())
        for _ in range(11):
            await asyncio.gather(client.complete(request()), return_exceptions=True)

    run(main())

    waits = [b - a for a, b in zip(inner.times, inner.times[1:], strict=False)]
    doubling = [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(8)]
    assert waits == [*doubling, 0.0, FIRST_PAUSE_S]


def test_many_refusals_at_once_are_one_pause(run, scripted):
    """Thirty calls that were in flight together do not add up to thirty pauses."""
    inner = scripted(*[refusal()] * 4, "yes", seconds=1.0)

    async def main():
        shared = limits()
        client = limited(inner, shared)
        calls = (client.complete(request(n)) for n in range(4))
        await asyncio.gather(*calls, return_exceptions=True)
        await client.complete(request(4))
        return shared.adaptive

    adaptive = run(main())

    assert (inner.times[-1], adaptive.episodes, adaptive.limit) == (1.0 + FIRST_PAUSE_S, 1, 2)


def test_other_failures_pause_nothing(run, scripted):
    """A server error is no word about the rate."""
    inner = scripted(ChatError("server_error", "no", retryable=True, retry_after=9.0), "yes")

    async def main():
        shared = limits()
        client = limited(inner, shared)
        await asyncio.gather(client.complete(request()), return_exceptions=True)
        await client.complete(request(1))
        return shared.adaptive.episodes

    assert (run(main()), inner.times) == (0, [0.0, 0.0])


def test_hold_of_a_reply_is_kept(run, scripted):
    """A server that says it will take nothing for a while is not asked meanwhile."""
    inner = scripted(ChatReply("yes", hold=3.0), "yes")

    async def main():
        client = limited(inner, limits())
        await client.complete(request())
        await client.complete(request(1))

    run(main())

    assert inner.times == [0.0, 3.0]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(ChatReply("yes", hold=LONGEST_HOLD_S + 1), id="hold"),
        pytest.param(refusal(86_400.0), id="refusal"),
    ],
)
def test_nothing_is_held_for_a_day(run, scripted, first):
    """A quota that comes back tomorrow fails the next calls by itself; no run hangs on it."""
    inner = scripted(first, "yes")

    async def main():
        client = limited(inner, limits())
        await asyncio.gather(client.complete(request()), return_exceptions=True)
        await client.complete(request(1))

    run(main())

    assert inner.times[1] < 10.0


def test_call_that_is_cancelled_gives_its_place_back(run, scripted):
    """Whether it waited for its turn or for its answer."""
    inner = scripted("yes", seconds=5.0)

    async def main():
        client = limited(inner, limits(concurrency=1))
        sent, waiting = (asyncio.ensure_future(client.complete(request(n))) for n in range(2))
        await asyncio.sleep(1.0)
        waiting.cancel()
        sent.cancel()
        await asyncio.gather(sent, waiting, return_exceptions=True)
        await client.complete(request(2))

    run(main())

    assert ([asked.body["n"] for asked in inner.requests], inner.times) == ([0, 2], [0.0, 1.0])


def test_wait_for_a_limit_does_not_count_in_the_calls_time(run, scripted):
    """A timeout is for the server, not for the place in the queue."""
    inner = scripted("yes", seconds=2.0)

    async def main():
        client = limited(inner, limits(rpm=1, concurrency=1))
        await client.complete(request())
        info = CallInfo(clock=CallClock(now))
        enter_call(info)
        await client.complete(request(1))
        return info.clock.seconds(), now()

    assert run(main()) == pytest.approx((2.0, 62.0), abs=0.01)
