"""How fast it can be: 64 tasks that take rows from one list, and nothing but the requests.

Each calls the server with the same body, reads the JSON of the answer into a list, and does
nothing else: no retry, no check, no cache, no frame.

aiohttp_loop           over aiohttp
openai_loop            over AsyncOpenAI on its default transport: the yardstick
openai_aiohttp_loop    over AsyncOpenAI on aiohttp
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aiohttp
import openai
from judge_workload import CONCURRENCY, LIMITS, body, prompts

if TYPE_CHECKING:
    from collections.abc import Awaitable

Table = dict[str, list[str]]
Verdicts = list[dict[str, str]]


def aiohttp_loop(table: Table, url: str) -> Verdicts:
    """Post with aiohttp."""

    async def run() -> Verdicts:
        connector = aiohttp.TCPConnector(limit=CONCURRENCY)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(request: dict[str, Any]) -> str:
                async with session.post(f"{url}/chat/completions", json=request) as response:
                    reply = await response.json()
                return str(reply["choices"][0]["message"]["content"])

            return await _all(table, ask)

    return asyncio.run(run())


def openai_loop(table: Table, url: str) -> Verdicts:
    """Create completions with the client as it comes."""
    return asyncio.run(_with_client(table, url, None))


def openai_aiohttp_loop(table: Table, url: str) -> Verdicts:
    """Create completions with the client on aiohttp."""
    return asyncio.run(_with_client(table, url, openai.DefaultAioHttpClient))


async def _with_client(table: Table, url: str, http: Callable[[], Any] | None) -> Verdicts:
    made = None if http is None else http()
    async with openai.AsyncOpenAI(
        api_key="none", base_url=url, max_retries=0, http_client=made
    ) as client:

        async def ask(request: dict[str, Any]) -> str:
            reply = await client.chat.completions.create(**request)
            return str(reply.choices[0].message.content)

        return await _all(table, ask)


async def _all(table: Table, ask: Callable[[dict[str, Any]], Awaitable[str]]) -> Verdicts:
    asked = prompts(table)
    verdicts: Verdicts = [{}] * len(asked)
    rows = iter(enumerate(asked))

    async def work() -> None:
        for row, prompt in rows:
            verdicts[row] = json.loads(await ask(body(prompt)))

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return verdicts


LOOPS: dict[str, Callable[[Table, str], Verdicts]] = dict(
    zip(LIMITS, (aiohttp_loop, openai_loop, openai_aiohttp_loop), strict=True)
)
