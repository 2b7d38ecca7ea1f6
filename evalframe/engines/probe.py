"""Some requests of a run, sent ahead of it to see what they take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evalframe.core.records import CallError
from evalframe.engines.loop import loop_for_waiting
from evalframe.engines.requests import Asker, ToBeAsked
from evalframe.llm.cache import ReplyCache
from evalframe.llm.chat import ChatReply
from evalframe.llm.connect import Session

_AT_ONCE = 8

_Sample = Sequence[tuple[Asker, ToBeAsked]]


def probed(sample: _Sample, replies: ReplyCache | None) -> list[ChatReply | str]:
    """For each request the reply, or why there is none.

    Args:
        sample: Who asks, and what.
        replies: Takes in those that are valid.
    """
    if not sample:
        return []
    loop = loop_for_waiting("await asyncio.to_thread(ef.estimate, ...)")
    asking = asyncio.run_coroutine_threadsafe(_all(sample, replies), loop)
    try:
        return asking.result()
    except BaseException:
        asking.cancel()
        raise


async def _all(sample: _Sample, replies: ReplyCache | None) -> list[ChatReply | str]:
    session = Session(concurrency=_AT_ONCE, cache=replies)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(asker: Asker, asked: ToBeAsked) -> ChatReply | str:
        async with slots:
            return await _reply(session, asker, asked)

    try:
        return await asyncio.gather(*(one(*each) for each in sample))
    finally:
        await session.close()


async def _reply(session: Session, asker: Asker, asked: ToBeAsked) -> ChatReply | str:
    paid: list[ChatReply] = []
    try:
        answer = await session.ask(
            asker.who,
            asker.model,
            dict(asked.request.body),
            asked.accept,
            repetition=asked.request.repetition,
            occurrence=asked.request.occurrence,
            paid=paid,
        )
    except CallError as exc:
        # An invalid reply has used as many tokens as a valid one.
        return paid[0] if paid else f"the probe failed: {exc.kind}: {exc}"
    return answer.reply
