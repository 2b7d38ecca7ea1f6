"""The connections of one run: for each model a client behind retries, budget and limits.

Models at one address share their limits; one that has refused the key, or has no quota left, is
asked nothing more.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable

from evalframe.core import schema
from evalframe.llm.budget import Budget, BudgetedClient, OpenClient
from evalframe.llm.chat import AnyReply, ChatClient, ChatError, ModelRequest
from evalframe.llm.model import Endpoint, Model
from evalframe.llm.openai import OpenAIClient
from evalframe.llm.rate_limit import LimitedClient, Limits
from evalframe.llm.retry import RetryingClient


class Connections:
    """Clients by model; to be used, and closed, on one event loop."""

    def __init__(
        self,
        *,
        concurrency: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random | None,
        client: Callable[[Model, Endpoint], ChatClient] | None,
        budget: Budget,
    ) -> None:
        """Start with nothing connected.

        Args:
            concurrency: Most calls in flight.
            clock: Seconds.
            sleep: Waits so many seconds.
            rng: For the jitter of retries.
            client: Makes what sends; the openai client if not given.
            budget: What may be sent.
        """
        self._budget = budget
        self._concurrency = concurrency
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._make = client or self._openai
        self._clients: dict[Model, tuple[Endpoint, ChatClient]] = {}
        self._opened: list[OpenAIClient] = []
        self._limits: dict[tuple[str, str], Limits] = {}
        self._closed: dict[Endpoint, ChatError] = {}

    async def _pause(self, seconds: float) -> None:
        """Wait for a server or a limit, but not beyond the end of the run.

        Raises:
            BudgetError: The run has ended.
        """
        await self._budget.while_open(self._sleep(seconds))

    def _openai(self, model: Model, endpoint: Endpoint) -> ChatClient:
        client = OpenAIClient(endpoint, timeout=model.timeout, connections=self._concurrency)
        self._opened.append(client)
        return client

    def to(self, model: Model) -> tuple[Endpoint, ChatClient]:
        """Where a model is, and what asks it.

        Raises:
            ModelError: Its provider is unknown, or an address or key is missing.
        """
        if model not in self._clients:
            endpoint = model.endpoint()
            address = (endpoint.base_url, endpoint.model)
            limits = self._limits.get(address)
            if limits is None:
                limits = self._limits[address] = Limits(
                    rpm=model.rpm,
                    tpm=model.tpm,
                    concurrency=self._concurrency,
                    clock=self._clock,
                    sleep=self._pause,
                )
            limits.tighten(rpm=model.rpm, tpm=model.tpm)
            inner = OpenClient(self._make(model, endpoint), self._budget)
            limited = LimitedClient(inner, limits, self._clock)
            stack = RetryingClient(
                BudgetedClient(limited, self._budget, model),
                max_retries=model.max_retries,
                clock=self._clock,
                sleep=self._pause,
                rng=self._rng,
            )
            self._clients[model] = (endpoint, stack)
        return self._clients[model]

    async def send(self, client: ChatClient, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply to a request, unless its endpoint takes none any more.

        Raises:
            ChatError: There is none.
        """
        if request.endpoint in self._closed:
            raise self._closed[request.endpoint]
        try:
            return await client.complete(request)
        except ChatError as exc:
            if exc.kind in (schema.AUTH, schema.QUOTA):
                # It will be so for every row: nothing more is sent there in this run.
                self._closed[request.endpoint] = exc
            raise

    async def close(self) -> None:
        """Close all connections: one that fails, or is cancelled, does not keep others open."""
        with contextlib.suppress(Exception):
            async with contextlib.AsyncExitStack() as stack:
                for client in self._opened:
                    stack.push_async_callback(client.close)
