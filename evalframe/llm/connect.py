"""The stack of one run, put together: cache, sharing, retry, budget, rate limit, client.

    Session.ask -> ReplyCache -> Sharing -> [ask again if invalid] -> RetryingClient
                -> BudgetedClient -> LimitedClient -> OpenClient -> OpenAIClient
    Session.embeddings -> VectorStore -> [halves if refused] -> RetryingClient -> ...

A session belongs to one event loop and is closed at the end of its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from evalframe.core import schema
from evalframe.core.call_info import Occurrence
from evalframe.core.records import CallError
from evalframe.llm.budget import Budget, BudgetError
from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.llm.chat import (
    AnyReply,
    ChatClient,
    ChatError,
    ChatReply,
    ChatRequest,
    ModelRequest,
)
from evalframe.llm.connections import Connections
from evalframe.llm.embedder import Embedder, InThread, source_of, unread_note
from evalframe.llm.embeddings import Embeddings
from evalframe.llm.ended import Ended, EndedQuestions
from evalframe.llm.model import Endpoint, Model
from evalframe.llm.share import Sharing
from evalframe.llm.spent import Spent
from evalframe.llm.vectors import VectorStore, VectorTable


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


def _reraised(exc: BaseException) -> str:
    raise exc


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
        failure: Callable[[BaseException], str] = _reraised,
        in_thread: InThread = asyncio.to_thread,
        ends_at_failure: bool = False,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """Start with nothing connected.

        Args:
            concurrency: Most calls in flight.
            cache: Replies of earlier runs.
            clock: Seconds.
            sleep: Waits so many seconds.
            rng: For the jitter of retries.
            client: Makes what sends; the openai client if not given.
            failure: The error cell of what a user's embedder raised; raised again if not given.
            in_thread: Calls a plain embedder of the user's beside the loop.
            ends_at_failure: Whether the first failed cell ends the run.
            max_requests: Most requests of the run.
            max_cost: Dollars that it may spend.
        """
        self._concurrency = concurrency
        self._cache = cache
        self.budget = Budget(max_requests=max_requests, max_cost=max_cost, note=self.note)
        self._connections = Connections(
            concurrency=concurrency,
            clock=clock,
            sleep=sleep,
            rng=rng,
            client=client,
            budget=self.budget,
        )
        self._ended = EndedQuestions()
        self._sharing = Sharing(self._ended)
        self._store_of_vectors = VectorStore(self._vector_table, self._without_vectors)
        self._embeddings: dict[Any, Embeddings] = {}
        self._failure = failure
        self._in_thread = in_thread
        self.ends_at_failure = ends_at_failure
        self.spent: dict[str, Spent] = {}
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        """Something that the user is told once, at the end of the run."""
        self.notes.setdefault(text)

    def connect(self, model: Model) -> None:
        """Make what asks a model, ahead of its first question: the import alone takes a while."""
        self._connections.to(model)

    async def ask(
        self,
        who: str,
        model: Model,
        body: dict[str, Any],
        accept: Callable[[ChatReply], Any],
        *,
        repetition: int = 1,
        invalid_retries: int = 0,
        occurrence: Occurrence | None = None,
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
            occurrence: The row that it is about, where each row is to be answered apart.
            paid: Takes in the replies that this call was paid for, also where it fails.

        Raises:
            ChatError: There is no reply.
            InvalidReplyError: There is no valid one.
        """
        endpoint, client = self._connections.to(model)
        request = ChatRequest(endpoint, body, repetition, occurrence)
        spent = self._spent(who, model)
        spent.cells += 1
        stored = self._stored(request.key, accept)
        if stored is not None:
            spent.cached += 1
            spent.models |= {stored.reply.model} if stored.reply.model else set()
            return stored

        async def asked() -> Ended:
            ended = await self._asked(client, request, accept, invalid_retries, count)
            return ended._replace(who=who)

        count = functools.partial(spent.add, model)
        # By whom, too: what one judge cannot take another may, by rules that are not sent.
        terms = f"{request.key}|{model!r}|{invalid_retries}"
        # A row that is answered apart has a key of its own: what it ends in is kept for nobody.
        alone = occurrence is not None
        ended, first = (await asked(), True) if alone else await self._sharing.ask(terms, asked)
        if not first:
            of_another = ended.who != who and ended.reply is not None
            ended = _taken(ended, who, accept)
            if of_another and ended.error is not None:
                ended, first = await self._sharing.ask(f"{terms}|{who}", asked)
                ended = ended if first else _taken(ended, who, accept)
        if isinstance(ended.error, BudgetError):
            spent.cells -= 1
        elif not first:
            spent.shared += 1
        return _answer(ended if first else ended._replace(replies=()), paid)

    def _spent(self, who: str, model: Model) -> Spent:
        return self.spent.setdefault(who, Spent.on(model))

    async def _asked(
        self,
        client: ChatClient,
        request: ChatRequest,
        accept: Callable[[ChatReply], Any],
        invalid_retries: int,
        count: Callable[[ChatReply, int], None],
    ) -> Ended:
        """Ask, and ask again while the reply is invalid; never the same after a truncation.

        An invalid reply that there is no budget to ask about again is what the question ended in.
        """
        replies: list[ChatReply] = []
        invalid: Ended | None = None
        asking: ChatRequest = request
        while True:
            try:
                reply = await self._connections.send(client, asking)
            except BudgetError as exc:
                return invalid or Ended(None, None, (), exc)
            except ChatError as exc:
                return Ended(None, None, tuple(replies), exc)
            replies.append(reply)
            count(reply, len(replies))
            try:
                value = accept(reply)
            except InvalidReplyError as exc:
                longer = asking.longer() if exc.kind == schema.TRUNCATED else asking
                invalid = Ended(None, reply, tuple(replies), exc)
                if not exc.ask_again or longer is None or len(replies) > invalid_retries:
                    return invalid
                asking = longer
                continue
            self._store(request.key, reply)
            return Ended(value, reply, tuple(replies), None)

    async def send(
        self, who: str, model: Model, make: Callable[[Endpoint], ModelRequest[AnyReply]]
    ) -> AnyReply:
        """The reply to one request that is neither stored nor shared here.

        Args:
            who: Evaluator that asks, for what was spent.
            model: Which model.
            make: Makes the request.

        Raises:
            ChatError: There is no reply.
        """
        endpoint, client = self._connections.to(model)
        reply = await self._connections.send(client, make(endpoint))
        self._spent(who, model).add(model, reply)
        return reply

    def embeddings(self, embedder: Embedder) -> Embeddings:
        """What embeds for this run; the same for equal embedders.

        Raises:
            MissingExtraError: It is the local model, which is not installed.
        """
        model = embedder.served
        # A function by identity: it may be neither hashable nor comparable.
        key = (model or id(embedder.model), embedder.batch_size, embedder.dimensions)
        if key not in self._embeddings:
            if model is not None:
                self.connect(model)
            self._embeddings[key] = Embeddings(
                source_of(
                    embedder,
                    send=self.send,
                    concurrency=self._concurrency,
                    in_thread=self._in_thread,
                ),
                self._store_of_vectors,
                counts=lambda who: None if model is None else self._spent(who, model),
                failure=self._failure,
                ends_at_failure=self.ends_at_failure,
            )
        return self._embeddings[key]

    def _vector_table(self) -> VectorTable | None:
        return None if self._cache is None else self._cache.vectors()

    def _without_vectors(self, exc: sqlite3.Error) -> None:
        if self._cache is not None:
            self._without_cache(self._cache.unusable(exc))

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

    async def close(self) -> None:
        """End what is still being asked, and close all connections, also where it is cancelled."""
        unread = set().union(*(made.unread for made in self._embeddings.values()))
        if unread:
            self.note(unread_note(len(unread)))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._connections.close)
            stack.callback(self._store_of_vectors.close)
            stack.callback(self._ended.close)
            await self._sharing.close()
