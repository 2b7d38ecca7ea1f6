"""The stack of one run, put together: cache, sharing, retry, rate limit, client.

    Session.ask -> ReplyCache -> Sharing -> [ask again if invalid] -> RetryingClient
                -> LimitedClient -> OpenAIClient

A session belongs to one event loop and is closed at the end of its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evalframe.core import schema
from evalframe.core.records import CallError
from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.llm.chat import ChatClient, ChatError, ChatReply, ChatRequest
from evalframe.llm.ended import Ended, EndedQuestions
from evalframe.llm.model import Endpoint, Model
from evalframe.llm.openai import OpenAIClient
from evalframe.llm.rate_limit import LimitedClient, Limits
from evalframe.llm.retry import RetryingClient
from evalframe.llm.share import Sharing

_MOST_MODELS = 10


class InvalidReplyError(CallError):
    """A reply that is no verdict.

    Attributes:
        kind: `parse`, `range`, `refusal`, `truncated` or `content_filter`.
        reply: What the model said.
        ask_again: Whether the same question may be answered better.
    """

    def __init__(self, kind: str, message: str, reply: str | None, *, ask_again: bool) -> None:
        """Keep kind and reply."""
        super().__init__(kind, message)
        self.reply = reply
        self.ask_again = ask_again


def check_whole(reply: ChatReply) -> None:
    """See that a reply is an answer, and all of it.

    Raises:
        InvalidReplyError: It was refused, filtered or cut off.
    """
    if reply.refusal:
        raise InvalidReplyError(schema.REFUSAL, reply.refusal, reply.refusal, ask_again=False)
    if reply.finish_reason == "content_filter":
        message = "the provider's content filter withheld the reply"
        raise InvalidReplyError(schema.CONTENT_FILTER, message, reply.text, ask_again=False)
    if reply.finish_reason == "length":
        message = "the reply was cut off at its token limit; raise max_tokens in inference_args"
        raise InvalidReplyError(schema.TRUNCATED, message, reply.text, ask_again=True)


@dataclass(slots=True)
class Spent:
    """What one evaluator's cells have cost so far.

    Attributes:
        calls: Requests answered by the server.
        cached: Cells answered from the cache.
        shared: Cells answered by another cell's request.
        reasked: Requests that were sent because a reply was invalid.
        cost: Dollars; None without a price, or where a reply came without a count.
    """

    cells: int = 0
    calls: int = 0
    cached: int = 0
    shared: int = 0
    reasked: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    models: set[str] = field(default_factory=set)


class Answer(NamedTuple):
    """How a question ended well.

    Attributes:
        value: What `accept` made of the reply.
        reply: The reply.
        replies: All replies that were paid for by this call; none if cached or shared.
        from_cache: Whether it was on disk.
    """

    value: Any
    reply: ChatReply
    replies: tuple[ChatReply, ...]
    from_cache: bool


def _taken(ended: Ended, who: str, accept: Callable[[ChatReply], Any]) -> Ended:
    """The end of a question that was asked before, by the rules of who asks it now."""
    read = ended.value is not None or ended.error is not None
    if ended.reply is None or (ended.who == who and read):
        return ended
    try:
        return ended._replace(value=accept(ended.reply), error=None)
    except InvalidReplyError as exc:
        return ended._replace(value=None, error=exc)


def _answer(ended: Ended, paid: list[ChatReply] | None) -> Answer:
    """The answer of who was paid for; its replies are noted also where it is none."""
    if paid is not None:
        paid += ended.replies
    if ended.error is not None:
        raise ended.error
    assert ended.reply is not None  # noqa: S101 - where there is no error
    return Answer(ended.value, ended.reply, ended.replies, from_cache=False)


class Session:
    """Asks models for one run."""

    def __init__(
        self,
        *,
        concurrency: int,
        cache: ReplyCache | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        client: Callable[[Model, Endpoint], ChatClient] | None = None,
    ) -> None:
        """Start with nothing connected.

        Args:
            concurrency: Most calls in flight.
            cache: Replies of earlier runs.
            clock: Seconds.
            sleep: Waits so many seconds.
            rng: For the jitter of retries.
            client: Makes what sends; the openai client if not given.
        """
        self._concurrency = concurrency
        self._cache = cache
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._make = client or self._openai
        self._clients: dict[Model, tuple[Endpoint, ChatClient]] = {}
        self._opened: list[OpenAIClient] = []
        self._limits: dict[tuple[str, str], Limits] = {}
        self._ended = EndedQuestions()
        self._sharing = Sharing(self._ended)
        self._closed: dict[Endpoint, ChatError] = {}
        self._occurrences: Counter[str] = Counter()
        self.spent: dict[str, Spent] = {}
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        """Something that the user is told once, at the end of the run."""
        self.notes.setdefault(text)

    def _openai(self, model: Model, endpoint: Endpoint) -> ChatClient:
        client = OpenAIClient(endpoint, timeout=model.timeout, connections=self._concurrency)
        self._opened.append(client)
        return client

    def connect(self, model: Model) -> None:
        """Make what asks a model, ahead of its first question: the import alone takes a while."""
        self._connected(model)

    def _connected(self, model: Model) -> tuple[Endpoint, ChatClient]:
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
                    sleep=self._sleep,
                )
            limits.tighten(rpm=model.rpm, tpm=model.tpm)
            inner = self._make(model, endpoint)
            limited = LimitedClient(inner, limits, self._clock)
            stack = RetryingClient(
                limited,
                max_retries=model.max_retries,
                clock=self._clock,
                sleep=self._sleep,
                rng=self._rng,
            )
            self._clients[model] = (endpoint, stack)
        return self._clients[model]

    async def ask(
        self,
        who: str,
        model: Model,
        body: dict[str, Any],
        accept: Callable[[ChatReply], Any],
        *,
        repetition: int = 1,
        invalid_retries: int = 0,
        apart: bool = False,
        paid: list[ChatReply] | None = None,
    ) -> Answer:
        """The model's answer to one question, from wherever it can be had.

        Args:
            who: Evaluator or task that asks, for what was spent.
            model: Which model.
            body: Request body without the model's name.
            accept: Makes a value of a reply, or raises InvalidReplyError.
            repetition: Which repetition of the row it is.
            invalid_retries: How often an invalid reply is asked again.
            apart: Whether equal questions of one repetition are answered apart.
            paid: Takes in the replies that this call was paid for, also where it fails.

        Raises:
            ChatError: There is no reply.
            InvalidReplyError: There is no valid one.
        """
        endpoint, client = self._connected(model)
        request = ChatRequest(endpoint, body, repetition)
        if apart:
            self._occurrences[request.key] += 1
            request = ChatRequest(endpoint, body, repetition, self._occurrences[request.key])
        start = None if model.price is None else 0.0
        spent = self.spent.setdefault(who, Spent(cost=start))
        spent.cells += 1
        stored = self._stored(request.key, accept)
        if stored is not None:
            spent.cached += 1
            spent.models |= {stored.reply.model} if stored.reply.model else set()
            return stored

        async def asked() -> Ended:
            ended = await self._asked(client, request, accept, invalid_retries, count)
            return ended._replace(who=who)

        count = functools.partial(self._count, spent, model)
        if apart:
            return _answer(await asked(), paid)
        # By whom, too: what one judge cannot take another may, by rules that are not sent.
        terms = f"{request.key}|{model!r}|{invalid_retries}"
        ended, first = await self._sharing.ask(terms, asked)
        if not first:
            of_another = ended.who != who and ended.reply is not None
            ended = _taken(ended, who, accept)
            if of_another and ended.error is not None:
                ended, first = await self._sharing.ask(f"{terms}|{who}", asked)
                ended = ended if first else _taken(ended, who, accept)
        if not first:
            spent.shared += 1
            ended = ended._replace(replies=())
        return _answer(ended, paid)

    async def _asked(
        self,
        client: ChatClient,
        request: ChatRequest,
        accept: Callable[[ChatReply], Any],
        invalid_retries: int,
        count: Callable[[ChatReply, int], None],
    ) -> Ended:
        """Ask, and ask again while the reply is invalid; never the same after a truncation."""
        replies: list[ChatReply] = []
        asking: ChatRequest = request
        while True:
            if request.endpoint in self._closed:
                return Ended(None, None, tuple(replies), self._closed[request.endpoint])
            try:
                reply = await client.complete(asking)
            except ChatError as exc:
                if exc.kind in (schema.AUTH, schema.QUOTA):
                    # It will be so for every row: nothing more is sent there in this run.
                    self._closed[request.endpoint] = exc
                return Ended(None, None, tuple(replies), exc)
            replies.append(reply)
            count(reply, len(replies))
            try:
                value = accept(reply)
            except InvalidReplyError as exc:
                longer = asking.longer() if exc.kind == schema.TRUNCATED else asking
                if not exc.ask_again or longer is None or len(replies) > invalid_retries:
                    return Ended(None, reply, tuple(replies), exc)
                asking = longer
                continue
            self._store(request.key, reply)
            return Ended(value, reply, tuple(replies), None)

    def _stored(self, key: str, accept: Callable[[ChatReply], Any]) -> Answer | None:
        """The answer on disk, if it is one by today's rules: not all of them are in the key."""
        if self._cache is None:
            return None
        try:
            reply = self._cache.get(key)
            if reply is None:
                return None
            try:
                return Answer(accept(reply), reply, (), from_cache=True)
            except InvalidReplyError:
                self._cache.forget(key)
        except CacheError as exc:
            self._without_cache(exc)
        return None

    def _without_cache(self, exc: CacheError) -> None:
        """Go on without a file that fails: to wait for it again at each row helps nobody."""
        self.note(str(exc))
        self._cache = None

    def _store(self, key: str, reply: ChatReply) -> None:
        """Keep a reply for later runs; a file that fails does not cost this one its answer."""
        if self._cache is None:
            return
        try:
            self._cache.put(key, reply)
        except CacheError as exc:
            self._without_cache(exc)

    @staticmethod
    def _count(spent: Spent, model: Model, reply: ChatReply, attempt: int) -> None:
        """Count a reply when it comes: whoever asked may be gone when the question ends."""
        usage = reply.usage
        spent.calls += 1
        spent.reasked += attempt > 1
        spent.prompt_tokens += usage.prompt_tokens or 0
        spent.completion_tokens += usage.completion_tokens or 0
        spent.cached_tokens += usage.cached_tokens or 0
        cost = model.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        spent.cost = None if cost is None or spent.cost is None else spent.cost + cost
        if reply.model and len(spent.models) < _MOST_MODELS:
            spent.models.add(reply.model)

    async def close(self) -> None:
        """End what is still being asked, and close all connections."""
        await self._sharing.close()
        self._ended.close()
        for client in self._opened:
            with contextlib.suppress(Exception):  # one that fails must not keep the others open
                await client.close()
