"""What a run may send: counted where it is sent, and never more than was allowed."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.llm.budget import Budget, BudgetedClient, BudgetError, OpenClient
from evalframe.llm.chat import ChatError, ChatReply, ChatRequest, Usage
from evalframe.llm.model import Model

MODEL = Model("local/m", base_url="http://here/v1", price={"input": 1.0, "output": 1.0})
REQUEST = ChatRequest(MODEL.endpoint(), {"messages": [{"role": "user", "content": "?"}]})
PROMPT = REQUEST.prompt_tokens


def costs(tokens):
    """A reply that cost so many tokens, of a millionth of a dollar each."""
    return ChatReply("yes", usage=Usage(tokens - PROMPT, PROMPT, 0))


def asked(budget, outcomes, *, at_once=1):
    """What becomes of one request for each outcome; a number of tokens, a reply or an error."""

    class Client:
        sent = most = flying = 0

        async def complete(self, request):
            del request
            self.sent += 1
            self.flying += 1
            self.most = max(self.most, self.flying)
            outcome = next(left)
            for _ in range(3):
                await asyncio.sleep(0)
            self.flying -= 1
            if isinstance(outcome, BaseException):
                raise outcome
            return costs(outcome) if isinstance(outcome, int) else outcome

    client, left = Client(), iter(outcomes)

    async def main():
        stack = BudgetedClient(client, budget, MODEL)
        slots = asyncio.Semaphore(at_once)

        async def one():
            async with slots:
                return await stack.complete(REQUEST)

        return await asyncio.gather(*(one() for _ in outcomes), return_exceptions=True)

    return client, asyncio.run(main())


@pytest.mark.parametrize("at_once", [1, 7])
def test_no_more_requests_are_sent_than_allowed(at_once):
    """Also where many are about to be sent; those that failed have been sent."""
    outcomes = [ChatError("server_error", "no"), *[20] * 9]
    client, ended = asked(Budget(max_requests=4), outcomes, at_once=at_once)

    assert client.sent == 4
    assert [str(e) for e in ended if isinstance(e, BudgetError)] == ["budget"] * 6
    assert {e.kind for e in ended if isinstance(e, BudgetError)} == {"skipped"}


@given(
    costing=st.lists(st.integers(PROMPT * 2, 200), min_size=1, max_size=40),
    most=st.integers(PROMPT * 2, 2_000),
    at_once=st.integers(1, 8),
)
def test_money_is_overshot_by_what_is_dearer_than_before_and_no_more(costing, most, at_once):
    """Each call may exceed what was held for it by as much as the dearest exceeds the cheapest."""
    client, ended = asked(Budget(max_cost=most / 1e6), costing, at_once=at_once)
    spent = sum(costing[: client.sent])

    # The first call of a model is held to its prompt only.
    assert spent <= most + max(costing) + (max(costing) - min(costing)) * at_once
    assert client.sent + sum(isinstance(e, BudgetError) for e in ended) == len(costing)


@given(
    each=st.integers(PROMPT * 2, 200),
    count=st.integers(1, 40),
    most=st.integers(1, 2_000),
    at_once=st.integers(1, 8),
)
def test_calls_of_one_price_use_the_money_up_and_no_more(each, count, most, at_once):
    """As many are sent as can be paid for; the first one if its prompt alone can be."""
    client, _ = asked(Budget(max_cost=most / 1e6), [each] * count, at_once=at_once)
    first = 1 if most >= PROMPT else 0

    assert client.sent == min(count, max(first, most // each))


def test_calls_wait_for_the_first_answer_and_then_go_together():
    """Nothing is known of a model's price per call before; for one request it is found out."""
    client, _ = asked(Budget(max_cost=1.0), [20] * 9, at_once=8)
    assert client.most > 1

    client, _ = asked(Budget(max_cost=40 / 1e6), [20] * 9, at_once=8)
    assert client.sent == 2


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ChatError("server_error", "no"), id="failed"),
        pytest.param(ChatError("timeout", "no"), id="timed-out"),
        pytest.param(BudgetError("skipped: deadline"), id="unsent"),
        pytest.param(asyncio.CancelledError(), id="cut-off"),
    ],
)
def test_failures_let_no_further_call_of_unknown_cost_out(failure):
    """However many there were, the first answer is waited for; then calls go together."""
    alone, _ = asked(Budget(max_cost=1.0), [failure] * 9, at_once=8)
    assert (alone.sent, alone.most) == (9, 1)

    answered, _ = asked(Budget(max_cost=1.0), [*[failure] * 9, *[20] * 9], at_once=8)
    assert answered.sent == 18
    assert answered.most > 1


@pytest.mark.parametrize(
    ("failure", "left"),
    [
        pytest.param(ChatError("server_error", "no"), 3, id="nothing-to-charge-for"),
        pytest.param(ChatError("timeout", "no"), 2, id="may-be-charged"),
        pytest.param(asyncio.CancelledError(), 2, id="cut-off"),
    ],
)
def test_what_may_have_been_charged_counts(failure, left):
    """An answer that came too late, or was not waited for, is held to have cost as another."""
    budget = Budget(max_cost=80 / 1e6)
    _, ended = asked(budget, [20, failure, *[20] * 9])

    assert sum(isinstance(e, ChatReply) for e in ended) == 1 + left
    assert budget.spent == pytest.approx(80e-6)


def test_an_answer_without_a_count_costs_what_was_held_for_it():
    """One among others does not end the run."""
    _, ended = asked(Budget(max_cost=80 / 1e6), [20, ChatReply("yes"), *[20] * 9])

    assert sum(isinstance(e, ChatReply) for e in ended) == 4


def test_a_server_that_counts_nothing_is_asked_nothing_more():
    """A limit in dollars cannot be held to by guessing; the user is told why."""
    notes = []
    client, _ = asked(Budget(max_cost=1.0, note=notes.append), [ChatReply("yes")] * 5)

    assert client.sent == 1
    assert [note.split(",")[0] for note in notes] == ["local/m counts no tokens"]


def test_a_free_model_need_count_nothing():
    """No count of tokens changes what nothing costs."""
    free = Model("local/m", base_url="http://here/v1", price={"input": 0, "output": 0.0})
    budget = Budget(max_cost=1.0)

    class Client:
        async def complete(self, request):
            del request
            return ChatReply("yes")

    async def main():
        client = BudgetedClient(Client(), budget, free)
        return [await client.complete(REQUEST) for _ in range(3)]

    assert len(asyncio.run(main())) == 3
    assert (budget.sent, budget.spent) == (3, 0.0)


def test_nothing_is_sent_once_it_is_closed():
    """Who asks from then on gets the reason; the first one stays."""
    budget = Budget()
    budget.close("skipped: deadline")
    budget.close("skipped: not run")
    client, ended = asked(budget, [20, 20])

    assert client.sent == 0
    assert [(e.kind, str(e)) for e in ended] == [("skipped", "deadline")] * 2


def test_what_waited_for_its_rate_while_it_was_closed_is_not_sent():
    """It counts as not sent."""
    budget = Budget(max_requests=1, max_cost=1.0)

    class Rate:
        async def complete(self, request):
            budget.close("skipped: deadline")
            return await OpenClient(None, budget).complete(request)

    with pytest.raises(BudgetError, match="deadline"):
        asyncio.run(BudgetedClient(Rate(), budget, MODEL).complete(REQUEST))

    assert (budget.sent, budget.spent) == (0, 0.0)


def test_who_waits_for_room_is_let_go_when_it_is_closed():
    """A run does not hang on a budget."""
    budget = Budget(max_cost=1.0)

    async def main():
        await budget.take(MODEL, 1)
        waiting = asyncio.ensure_future(budget.take(MODEL, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.close("skipped: not run")
        await waiting

    with pytest.raises(BudgetError, match="not run"):
        asyncio.run(main())


def paused(budget, pause, *, meanwhile=lambda: None):
    """What becomes of a pause during which something happens."""

    async def main():
        asyncio.get_running_loop().call_soon(meanwhile)
        try:
            return await budget.while_open(pause)
        except Exception as exc:  # noqa: BLE001 - returned to be compared
            return exc

    return asyncio.run(main())


async def breaks():
    """A pause that fails."""
    raise LookupError


def test_a_pause_lasts_as_long_as_it_does():
    """Nothing is raised where nothing was closed."""
    assert paused(Budget(), asyncio.sleep(0.01)) is None


def test_a_pause_ends_when_the_budget_is_closed():
    """With the error of the cells, long before it would have been over."""
    budget = Budget()
    ended = paused(budget, asyncio.sleep(3600), meanwhile=lambda: budget.close("skipped: deadline"))

    assert (type(ended), ended.kind, str(ended)) == (BudgetError, "skipped", "deadline")


def test_no_pause_begins_once_the_budget_is_closed():
    """However short it would be."""
    budget = Budget()
    budget.close("skipped: not run")

    assert isinstance(paused(budget, asyncio.sleep(0)), BudgetError)


def test_a_pause_that_fails_fails_who_waits():
    """It is no end of a pause."""
    assert isinstance(paused(Budget(), breaks()), LookupError)
