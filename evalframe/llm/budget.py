"""What one run may send: so many requests, so many dollars, and nothing once it is closed.

Owns   what was sent and spent, and what the calls in flight may still cost.
Leaves waiting for rates to rate_limit.py, and what becomes of a refused question to connect.py.

Budget           the numbers, shared by all models of a run
BudgetError      a request was not sent
BudgetedClient   outside the rate limit: who has no budget need not wait for a rate
OpenClient       inside it: what waited for its rate may be too late
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from evalframe.core import schema
from evalframe.core.call_info import current_call
from evalframe.llm.chat import AnyReply, ChatClient, ChatError, ModelRequest, Reply
from evalframe.llm.model import Model

# Sums of floats miss a round number by less.
_ROUNDING = 1 + 1e-9


class BudgetError(ChatError):
    """A request was not sent; the cell is skipped, and nothing has failed."""

    def __init__(self, cell: str) -> None:
        """Keep the reason.

        Args:
            cell: The error of the cell: "skipped: <reason>".
        """
        kind, _, reason = cell.partition(": ")
        super().__init__(kind, reason)


@dataclass(slots=True)
class _Calls:
    """Of one model: calls in flight, and the dearest answer."""

    in_flight: int = 0
    dearest: float | None = None


class Budget:
    """What a run may send, and what it has.

    For money, a request is sent only if what was spent, what the calls in flight may cost and
    what it may cost itself fit together. A call may cost as much as the dearest answer of its
    model so far, and at least its prompt by its length. Until a model has answered, its calls
    go one at a time: those that fail tell nothing of what an answer costs.

    Attributes:
        closed: The error of the cells of requests that are refused, once all are.
        sent: Requests so far.
        spent: Dollars so far.
    """

    def __init__(
        self,
        *,
        max_requests: int | None = None,
        max_cost: float | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start with nothing sent.

        Args:
            max_requests: Most requests, those that are sent again included.
            max_cost: Dollars; every model must then have its prices.
            note: Takes what the user is to be told.
        """
        self._max_requests = max_requests
        self._max_cost = max_cost
        self._note = note
        self.closed: str | None = None
        self.sent = 0
        self.spent = 0.0
        self._held = 0.0
        self._in_flight = 0
        self._calls: defaultdict[Model, _Calls] = defaultdict(_Calls)
        self._settled = asyncio.Event()
        self._ended = asyncio.Event()

    def close(self, cell: str) -> None:
        """Send nothing more; who asks from now on gets a cell with this error."""
        self.closed = self.closed or cell
        self._settled.set()
        self._ended.set()

    async def while_open(self, pause: Awaitable[None]) -> None:
        """Wait until a pause is over; what is held up by it is not sent when all is closed.

        Raises:
            BudgetError: It was closed before or meanwhile.
        """
        waits = {asyncio.ensure_future(pause), asyncio.ensure_future(self._ended.wait())}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        for wait in done:
            wait.result()
        if self.closed is not None:
            raise BudgetError(self.closed)

    def check(self) -> None:
        """See that something may be sent at all.

        Raises:
            BudgetError: Nothing may.
        """
        if self.closed is not None:
            raise BudgetError(self.closed)
        if self._max_requests is not None and self.sent >= self._max_requests:
            raise BudgetError(schema.BUDGET)

    async def take(self, model: Model, prompt_tokens: int) -> float:
        """Make room for one request: the dollars that are held for it.

        Raises:
            BudgetError: There is no room, and there will be none.
        """
        self.check()
        held = 0.0
        if self._max_cost is not None:
            # Waiting for others' calls counts in no timeout.
            with current_call().clock.paused():
                while (room := self._room(model, prompt_tokens, self._max_cost)) is None:
                    self._settled.clear()
                    await self._settled.wait()
                    self.check()
            held = room
        self.sent += 1
        self._in_flight += 1
        self._calls[model].in_flight += 1
        self._held += held
        return held

    def _room(self, model: Model, prompt_tokens: int, most: float) -> float | None:
        """The dollars to hold for a call; None if that is known when another call has ended."""
        calls = self._calls[model]
        if calls.dearest is None and calls.in_flight:
            return None
        may_cost = max(calls.dearest or 0.0, model.cost(prompt_tokens, 0, 0) or 0.0)
        if self.spent + self._held + may_cost <= most * _ROUNDING:
            return may_cost
        if self._in_flight:
            return None
        raise BudgetError(schema.BUDGET)

    def answered(self, model: Model, held: float, reply: Reply) -> None:
        """A call was answered."""
        usage = reply.usage
        cost = model.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        if cost is None and model.price is not None and not any(model.price.values()):
            cost = 0.0
        calls = self._calls[model]
        if cost is not None:
            calls.dearest = max(cost, calls.dearest or 0.0)
        elif self._max_cost is not None and calls.dearest is None:
            self._note(
                f"{model.name} counts no tokens, so max_cost= cannot be held to: nothing more was "
                "sent. Use max_requests= instead."
            )
            self._max_requests = 0
        # One answer without a count may have cost what was held for it.
        self._settle(model, held, held if cost is None else cost)

    def failed(self, model: Model, held: float, *, may_cost: bool) -> None:
        """A call ended without an answer; whether it may be charged for all the same."""
        self._settle(model, held, held if may_cost else 0.0)

    def unsent(self, model: Model, held: float) -> None:
        """A call was not sent after all."""
        self.sent -= 1
        self._settle(model, held, 0.0)

    def _settle(self, model: Model, held: float, cost: float) -> None:
        self._in_flight -= 1
        self._calls[model].in_flight -= 1
        self._held = self._held - held if self._in_flight else 0.0
        self.spent += cost
        self._settled.set()


class BudgetedClient:
    """Asks the client inside while the budget lasts."""

    def __init__(self, inner: ChatClient, budget: Budget, model: Model) -> None:
        """Wrap a client of one model."""
        self._inner = inner
        self._budget = budget
        self._model = model

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply.

        Raises:
            BudgetError: The request was not sent.
            ChatError: As the client inside.
        """
        budget = self._budget
        held = await budget.take(self._model, request.prompt_tokens)
        try:
            reply = await self._inner.complete(request)
        except BudgetError:
            budget.unsent(self._model, held)
            raise
        except ChatError as exc:
            # A server may charge for an answer that came too late, as for one that was cut off.
            budget.failed(self._model, held, may_cost=exc.kind == schema.TIMEOUT)
            raise
        except BaseException:
            budget.failed(self._model, held, may_cost=True)
            raise
        budget.answered(self._model, held, reply)
        return reply


class OpenClient:
    """Sends, unless the run has ended since."""

    def __init__(self, inner: ChatClient, budget: Budget) -> None:
        """Wrap what sends."""
        self._inner = inner
        self._budget = budget

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply.

        Raises:
            BudgetError: The request was not sent.
            ChatError: As the client inside.
        """
        if self._budget.closed is not None:
            raise BudgetError(self._budget.closed)
        return await self._inner.complete(request)
