"""The stack of a run: what is asked, what is kept, what is shared, and what it cost."""

import asyncio
import random
import sqlite3

import pytest

from evalframe.core.call_info import Occurrence
from evalframe.llm.cache import ReplyCache
from evalframe.llm.chat import ChatError, ChatReply, Usage
from evalframe.llm.connect import InvalidReplyError, Session
from evalframe.llm.model import Model
from evalframe.testing import never, reply

MODEL = Model("mine/m", base_url="http://here/v1")
ASKED = {"messages": [{"role": "user", "content": "Is 1+1 two?"}]}
INVALID = {
    "nonsense": InvalidReplyError("parse", "no", "x", ask_again=True),
    "too much": InvalidReplyError("range", "no", "x", ask_again=True),
    "cut": InvalidReplyError("truncated", "no", "x", ask_again=True),
    "filtered": InvalidReplyError("content_filter", "no", "x", ask_again=False),
    "refused": InvalidReplyError("refusal", "no", "x", ask_again=False),
}


def accept(reply):
    """The text in capitals; some texts are invalid in their ways."""
    if reply.text in INVALID:
        raise INVALID[reply.text]
    return reply.text.upper()


@pytest.fixture
def cache(tmp_path):
    """A cache of its own file."""
    made = ReplyCache(tmp_path / "replies.sqlite")
    yield made
    made.close()


@pytest.fixture
def asked(run):
    """A function: what a session of clients came to.

    It takes what is to be done with the session, and the client that all models share.
    """

    def ended(do, client, **given):
        async def main():
            session = Session(
                concurrency=8,
                clock=asyncio.get_running_loop().time,
                rng=random.Random(0),  # noqa: S311 - jitter is no secret
                client=lambda *_: client,
                **given,
            )
            try:
                return await do(session)
            finally:
                await session.close()

        return run(main())

    return ended


def ask(session, body=ASKED, *, who="judge", model=MODEL, accept=accept, **given):
    """Ask a question."""
    return session.ask(who, model, body, accept, **given)


def test_answer_is_what_accept_makes_of_the_reply(asked, scripted):
    """With the reply it was paid for."""
    reply = ChatReply("yes", usage=Usage(3, 4, 1), model="m-1")

    answer = asked(ask, scripted(reply))

    assert answer == ("YES", reply, (reply,), False)


def test_valid_reply_is_stored_and_found_again(asked, scripted, cache):
    """The second run sends nothing, and pays nothing."""
    client = scripted("yes")
    asked(ask, client, cache=cache)

    answer = asked(ask, client, cache=cache)

    assert (answer.value, answer.replies, answer.from_cache) == ("YES", (), True)
    assert len(client.requests) == 1


@pytest.mark.parametrize("said", INVALID)
def test_invalid_reply_is_never_stored(asked, scripted, cache, said):
    """It is asked for again in the next run."""
    for client in (scripted(said), scripted("yes")):
        answers = [
            asked(lambda s: asyncio.gather(ask(s), return_exceptions=True), client, cache=cache)
        ]

    assert (answers[0][0].value, answers[0][0].from_cache) == ("YES", False)


@pytest.mark.parametrize("kind", ["auth", "quota", "bad_request", "server_error"])
def test_error_is_never_stored(asked, scripted, cache, kind):
    """A failure is of its day."""

    async def failing(session):
        with pytest.raises(ChatError, match="no"):
            await ask(session)

    asked(failing, scripted(ChatError(kind, "no")), cache=cache)

    assert asked(ask, scripted("yes"), cache=cache).from_cache is False


def test_stored_reply_that_is_no_longer_valid_is_asked_for_again(asked, scripted, cache):
    """Rules that are not sent are not in the key: by new ones an old reply may be invalid."""
    client = scripted("old", "new")

    def stricter(reply):
        if reply.text == "old":
            raise INVALID["nonsense"]
        return reply.text

    asked(ask, client, cache=cache)
    answers = [asked(lambda s: ask(s, accept=stricter), client, cache=cache) for _ in range(2)]

    assert [(a.value, a.from_cache) for a in answers] == [("new", False), ("new", True)]


def test_cache_that_fails_costs_no_answer(asked, scripted, cache):
    """What was paid for is given; that it is not kept is said once."""
    with sqlite3.connect(cache.path) as other:
        other.execute("DROP TABLE replies")
    other.close()

    async def two(session):
        answers = [await ask(session), await ask(session, ASKED | {"seed": 1})]
        return [answer.value for answer in answers], list(session.notes)

    values, notes = asked(two, scripted("yes"), cache=cache)

    assert values == ["YES", "YES"]
    assert ["no such table" in note for note in notes] == [True]


def test_equal_questions_are_one_request(asked, scripted):
    """For all judges of the run; who did not ask it paid for nothing."""
    client = scripted(ChatReply("yes", usage=Usage(10, 1)), seconds=1.0)

    async def twice(session):
        answers = await asyncio.gather(ask(session), ask(session, who="other"))
        return answers, session.spent

    answers, spent = asked(twice, client)

    assert [(a.value, len(a.replies)) for a in answers] == [("YES", 1), ("YES", 0)]
    assert [(s.cells, s.calls, s.shared, s.prompt_tokens) for s in spent.values()] == [
        (1, 1, 0, 10),
        (1, 0, 1, 0),
    ]


@pytest.mark.parametrize(
    "given",
    [
        [{"repetition": number} for number in (1, 2)],
        [{"occurrence": Occurrence("ab", number)} for number in (1, 2)],
        [{"occurrence": Occurrence(read, 1)} for read in ("ab", "cd")],
    ],
    ids=["repetition", "equal-rows", "rows-of-one-prompt"],
)
def test_repetitions_and_samples_are_questions_of_their_own(asked, scripted, cache, given):
    """They are asked apart, and found apart in the next run."""
    client = scripted("one", "two")

    async def all_of(session):
        return [(await ask(session, **each)).value for each in given]

    first = asked(all_of, client, cache=cache)
    second = asked(all_of, client, cache=cache)

    assert (first, second, len(client.requests)) == (["ONE", "TWO"], ["ONE", "TWO"], 2)


def test_failure_is_shared_with_its_message(asked, scripted):
    """One request for all rows with that question, whatever it ended in."""
    client = scripted("nonsense", seconds=1.0)

    async def three(session):
        calls = (ask(session) for _ in range(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    errors = asked(three, client)

    assert [(type(e), e.kind) for e in errors] == [(InvalidReplyError, "parse")] * 3
    assert len(client.requests) == 1


def test_invalid_reply_is_asked_for_again_past_cache_and_sharing(asked, scripted, cache):
    """And the valid one is stored under the first question's key."""
    client = scripted("nonsense", "too much", "yes")

    answer = asked(lambda s: ask(s, invalid_retries=2), client, cache=cache)
    again = asked(ask, scripted("other"), cache=cache)

    assert (answer.value, [r.text for r in answer.replies]) == (
        "YES",
        ["nonsense", "too much", "yes"],
    )
    assert (again.value, again.from_cache) == ("YES", True)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_invalid_reply_is_asked_for_again_so_many_times(asked, scripted, retries):
    """Then the last one is the failure."""
    client = scripted("nonsense")

    async def failing(session):
        with pytest.raises(InvalidReplyError, match="no"):
            await ask(session, invalid_retries=retries)
        return session.spent["judge"]

    spent = asked(failing, client)

    assert (len(client.requests), spent.calls, spent.reasked) == (retries + 1, retries + 1, retries)


@pytest.mark.parametrize("said", ["filtered", "refused"])
def test_what_asking_again_cannot_mend_is_asked_once(asked, scripted, said):
    """A refusal is the model's word."""
    client = scripted(said)

    async def failing(session):
        with pytest.raises(InvalidReplyError, match="no"):
            await ask(session, invalid_retries=3)

    asked(failing, client)

    assert len(client.requests) == 1


def test_truncated_reply_is_asked_for_with_twice_the_room(asked, scripted, cache):
    """Never the identical request; the answer is stored under the first question's key."""
    client = scripted("cut", "cut", "yes")
    body = ASKED | {"max_tokens": 10}

    asked(lambda s: ask(s, body, invalid_retries=3), client, cache=cache)
    again = asked(lambda s: ask(s, body), scripted("other"), cache=cache)

    assert [r.body["max_tokens"] for r in client.requests] == [10, 20, 40]
    assert again.from_cache
    assert body == ASKED | {"max_tokens": 10}


def test_truncated_reply_without_a_limit_fails_at_once(asked, scripted):
    """There is nothing to raise, so the next reply would be cut as well."""
    client = scripted("cut")

    async def failing(session):
        with pytest.raises(InvalidReplyError, match="no") as caught:
            await ask(session, invalid_retries=3)
        return caught.value.kind

    assert (asked(failing, client), len(client.requests)) == ("truncated", 1)


def test_no_question_after_a_truncation_is_one_that_was_cut(asked, scripted):
    """A parse failure in between is asked again with the room it had."""
    client = scripted("cut", "nonsense", "cut", "yes")

    asked(lambda s: ask(s, ASKED | {"max_tokens": 1}, invalid_retries=5), client)

    assert [r.body["max_tokens"] for r in client.requests] == [1, 2, 2, 4]


def test_failure_in_a_second_asking_is_the_failure(asked, scripted):
    """What was paid for before it is counted."""
    client = scripted(ChatReply("nonsense", usage=Usage(5, 5)), ChatError("auth", "wrong key"))
    paid = []

    async def failing(session):
        with pytest.raises(ChatError, match="wrong key"):
            await ask(session, invalid_retries=1, paid=paid)
        return session.spent["judge"].prompt_tokens

    assert (asked(failing, client), [reply.text for reply in paid]) == (5, ["nonsense"])


def test_call_that_nobody_waits_for_any_more_is_counted_when_it_was_answered(asked, scripted):
    """The first reply was paid for, though its cell timed out during the second."""
    client = scripted(ChatReply("nonsense", usage=Usage(5, 5)), seconds=1.0)

    async def cancelled(session):
        call = asyncio.ensure_future(ask(session, invalid_retries=9))
        await asyncio.sleep(1.5)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return session.spent["judge"]

    spent = asked(cancelled, client)

    assert (spent.calls, spent.prompt_tokens) == (1, 5)


def test_cancelled_leader_leaves_answer_and_cost_to_its_followers(asked, scripted):
    """The request goes on, and is counted once."""
    client = scripted(ChatReply("yes", usage=Usage(7, 1)), seconds=2.0)

    async def main(session):
        leader, follower = (asyncio.ensure_future(ask(session)) for _ in range(2))
        await asyncio.sleep(1.0)
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        return (await follower).value, session.spent["judge"]

    value, spent = asked(main, client)

    assert (value, spent.calls, spent.prompt_tokens) == ("YES", 1, 7)


def test_spending_is_summed_with_its_cost(asked, scripted, cache):
    """Of the price that the user gave; cached cells are counted apart."""
    model = Model("mine/m", base_url="http://here/v1", price={"input": 1.0, "output": 2.0})
    client = scripted(ChatReply("yes", usage=Usage(1000, 500, 100), model="m-1"))

    async def three(session):
        for seed in (1, 2, 2):
            await ask(session, ASKED | {"seed": seed}, model=model)
        return session.spent["judge"]

    first = asked(three, client, cache=cache)
    second = asked(three, client, cache=cache)

    assert (first.cells, first.calls, first.shared, first.cached) == (3, 2, 0, 1)
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens) == (2000, 1000, 200)
    assert (first.cost, first.models) == (pytest.approx(0.004), {"m-1"})
    assert (second.calls, second.cached, second.cost, second.models) == (0, 3, 0.0, {"m-1"})


def test_reply_without_a_count_makes_the_cost_unknown(asked, scripted):
    """A sum of some of the replies would be too low, and look like the whole."""
    model = Model("mine/m", base_url="http://here/v1", price={"input": 1.0, "output": 2.0})
    client = scripted(ChatReply("yes", usage=Usage(5, 5)), ChatReply("yes"), ChatReply("yes"))

    async def two(session):
        for seed in (1, 2):
            await ask(session, ASKED | {"seed": seed}, model=model)
        return session.spent["judge"].cost

    assert asked(two, client) is None


def test_judges_of_one_address_share_its_limits(asked, scripted):
    """Two descriptions of one model at one address are one rate."""
    client = scripted("yes")
    models = [
        Model("mine/m", base_url="http://here/v1", rpm=60),
        Model("mine/m", base_url="http://here/v1/", rpm=60, max_retries=1),
    ]

    async def four(session):
        await asyncio.gather(
            *(ask(session, ASKED | {"seed": n}, model=models[n % 2]) for n in range(4))
        )

    asked(four, client)

    assert client.times == pytest.approx([0, 1, 2, 3], abs=0.01)


def test_strictest_limit_of_one_address_holds_for_all(asked, scripted):
    """Whoever connects first; a judge without a limit does not lift another's."""
    client = scripted("yes")
    models = [
        Model("mine/m", base_url="http://here/v1", rpm=600),
        Model("mine/m", base_url="http://here/v1", rpm=60),
        Model("mine/m", base_url="http://here/v1"),
    ]

    async def many(session):
        for number in range(30):
            await ask(session, ASKED | {"seed": number}, model=models[number % 3])

    asked(many, client)

    assert client.times[-1] == pytest.approx(29, abs=2)


def test_models_of_different_names_have_limits_of_their_own(asked, scripted):
    """One slow model holds up no other."""
    client = scripted("yes")
    models = [Model(f"mine/{name}", base_url="http://here/v1", rpm=60) for name in "ab"]

    async def two(session):
        await asyncio.gather(*(ask(session, model=model) for model in models))

    asked(two, client)

    assert client.times == [0.0, 0.0]


def test_refusals_use_up_no_retry_and_hold_all(asked, scripted):
    """The stack as a whole: a 429 with a time is waited for, and the answer comes."""
    refusal = ChatError("rate_limit", "slow", retryable=True, retry_after=3.0)
    client = scripted(refusal, refusal, refusal, "yes")
    model = Model("mine/m", base_url="http://here/v1", max_retries=0)

    answer = asked(lambda s: ask(s, model=model), client)

    assert (answer.value, client.times) == ("YES", [0.0, 3.0, 6.0, 9.0])


def test_server_error_is_retried_below_and_not_asked_for_twice_above(asked, scripted):
    """One call, as far as re-asking and spending go."""
    error = ChatError("server_error", "no", retryable=True)
    client = scripted(error, error, "yes")

    async def main(session):
        return (await ask(session)).value, session.spent["judge"].calls

    assert asked(main, client) == ("YES", 1)
    assert len(client.requests) == 3


def test_notes_are_said_once(asked, scripted):
    """However many rows have the same to say, in the order of their first word."""

    async def main(session):
        for text in ("b", "a", "b"):
            session.note(text)
        return list(session.notes)

    assert asked(main, scripted("yes")) == ["b", "a"]


def test_session_that_closes_ends_what_is_still_asked(asked, scripted):
    """Ctrl-C leaves no request behind."""
    client = scripted("yes", seconds=1e9)

    async def main(session):
        call = asyncio.ensure_future(ask(session))
        await asyncio.sleep(1.0)
        await session.close()
        await asyncio.gather(call, return_exceptions=True)
        return call.cancelled(), asyncio.get_running_loop().time()

    assert asked(main, client) == (True, 1.0)


async def until(holds):
    """Wait until a server in its own thread has got so far."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came to hold")


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("hanging", [True, False], ids=["asking", "idle"])
def test_session_whose_close_is_cancelled_leaves_no_connection(serve, hanging, turns):
    """A second Ctrl-C may come at any turn of it; it is passed on, once all are closed."""
    servers = [serve([reply("yes"), never()]) for _ in range(3)]
    models = [Model("mine/m", base_url=server.base_url) for server in servers]

    async def main():
        session = Session(concurrency=4)
        await asyncio.gather(*(ask(session, model=model) for model in models))
        other = ASKED | {"seed": 1}
        calls = [asyncio.ensure_future(ask(session, other, model=models[0]))] * hanging
        await until(lambda: servers[0].calls == 1 + hanging)
        closing = asyncio.ensure_future(session.close())
        for _ in range(1 + turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing, *calls])
        await until(lambda: not any(server.connections for server in servers))
        return closing.cancelled()

    assert asyncio.run(main())
