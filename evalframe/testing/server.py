"""A chat completions server on loopback that does what a script says.

ChatServer    starts and ends it: a thread with an event loop of its own, standard library only
_Connection   HTTP/1.1 as far as clients of this API need it: keep-alive, bodies with a length

A reply that waits is a timer, not a thread or a task: thousands may wait at once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from evalframe.testing.counts import Counts
from evalframe.testing.obedient import obedient
from evalframe.testing.replies import Reply, error
from evalframe.testing.request import Request

Script = Reply | Sequence[Reply] | Callable[[Request], Reply]

_ENDPOINTS = ("/chat/completions", "/embeddings")
_BACKLOG = 4096
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class ScriptError(Exception):
    """The script of a ChatServer raised, or gave something that is no Reply.

    The request was answered with status 400. This is raised where the `with` block ends; what
    the script raised is its cause.

    Examples:
        >>> from evalframe import testing
        >>> issubclass(testing.ScriptError, Exception)
        True
    """


class ChatServer:
    """A chat completions server on 127.0.0.1, for as long as its `with` block runs.

    Examples:
        >>> import json
        >>> from urllib.request import urlopen
        >>> from evalframe import testing
        >>> asked = {"model": "any", "messages": [{"role": "user", "content": "Is 1+1 two?"}]}
        >>> with testing.ChatServer(testing.label("yes", explanation="It is.")) as server:
        ...     url = f"{server.base_url}/chat/completions"
        ...     with urlopen(url, json.dumps(asked).encode()) as response:
        ...         completion = json.load(response)
        >>> completion["choices"][0]["message"]["content"]
        '{"explanation": "It is.", "label": "yes"}'
        >>> server.calls, server.requests[0].prompt
        (1, 'Is 1+1 two?')
    """

    def __init__(
        self,
        script: Script = obedient,
        *,
        port: int = 0,
        latency: float = 0.0,
        record: bool = True,
    ) -> None:
        """Set it up; it listens from the start of the `with` block.

        Args:
            script: A reply to everything; replies to give in turn, over and over; or a function
                from a request to its reply, called in the server's thread.
            port: 0 for any free one.
            latency: Seconds before every reply, on top of the reply's own delay.
            record: Whether `requests` keeps every request; the counts are kept anyway.

        Raises:
            ValueError: The script is an empty sequence.
        """
        self._script = _as_function(script)
        self._port = port
        self.latency = latency
        self._record = record
        self._requests: list[Request] = []
        self._connections: set[_Connection] = set()
        self._failure: BaseException | None = None
        self._counts = Counts()

    @property
    def base_url(self) -> str:
        """The address to give to a client; it ends with "/v1"."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order in which they came."""
        return list(self._requests)

    @property
    def calls(self) -> int:
        """How many requests came so far."""
        return self._counts.requests

    @property
    def most_in_flight(self) -> int:
        """How many requests waited for their reply at once, at most."""
        return self._counts.most_in_flight

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._connections)

    def stats(self) -> dict[str, Any]:
        """The counts, as under the address /stats: GET reads them, POST resets them after."""
        return self._counts.as_dict()

    def reset(self) -> None:
        """Forget the requests and start the counts anew; what is in flight stays in flight."""
        asyncio.run_coroutine_threadsafe(self._reset(), self._loop).result()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        name = "evalframe-chat-server"
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        finally:
            self._end()
        if self._failure is None:
            return
        message = f"The server's script failed: {self._failure!r}"
        if raised is not None:
            raised.add_note(message)
            return
        raise ScriptError(message) from self._failure

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self._port, backlog=_BACKLOG
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _reset(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._requests.clear()
        self._counts = Counts(self._counts.in_flight)

    async def _close(self) -> None:
        # asyncio takes on each connection in a task, and drops it where the server is closed by
        # then: no further ones first, then those that are under way.
        self._loop.remove_reader(self._server.sockets[0].fileno())
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        if under_way:
            await asyncio.wait(under_way)
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        # So that the loop tells every connection that it is lost.
        await asyncio.sleep(0)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _arrived(
        self, path: str, headers: dict[str, str], raw: bytes, now: float
    ) -> tuple[Request, Reply]:
        body = _parsed(raw)
        request = Request(path=path, headers=headers, body=body, time=now)
        occurrence = self._counts.arrived(request.text_of() or raw.decode("latin-1"))
        if occurrence > 1:
            request = replace(request, occurrence=occurrence)
        if self._record:
            self._requests.append(request)
        if not path.partition("?")[0].endswith(_ENDPOINTS):
            return request, error(404, f"There is nothing at {path}.")
        return request, self._reply_to(request)

    def _reply_to(self, request: Request) -> Reply:
        try:
            reply = self._script(request)
            if not isinstance(reply, Reply):
                message = f"a script gives a Reply, not {reply!r}"
                raise TypeError(message)  # noqa: TRY301 - on its way with what the script raises
        except Exception as exc:  # noqa: BLE001 - raised where the `with` block ends
            self._failure = self._failure or exc
            return error(400, f"The server's script failed: {exc!r}")
        return reply

    def _control(self, method: str) -> Reply:
        body = self.stats()
        if method == "POST":
            self._forget()
        return Reply(body=body)


def _as_function(script: Script) -> Callable[[Request], Reply]:
    if isinstance(script, Reply):
        always = script
        return lambda _: always
    if callable(script):
        return script
    if not script:
        message = "script must hold at least one reply."
        raise ValueError(message)
    turns = itertools.cycle(script)
    return lambda _: next(turns)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


class _Connection(asyncio.Protocol):
    """One client; answers its requests one after the other."""

    def __init__(self, server: ChatServer) -> None:
        self._server = server
        self._loop = server._loop  # noqa: SLF001 - two halves of one thing
        self._open = server._connections  # noqa: SLF001
        self._buffer = bytearray()
        self._waiting = False
        self._counted = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_server gives
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._counted:
            self._counted = False
            self._server._counts.gave_up()  # noqa: SLF001

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _next(self) -> None:
        while not self._waiting and not self._transport.is_closing():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers or not length.isdigit():
                self._send(error(411, "A body needs a Content-Length."), b"", keep=False)
                return
            whole = end + 4 + int(length)
            if len(self._buffer) < whole:
                return
            raw = bytes(self._buffer[end + 4 : whole])
            del self._buffer[:whole]
            self._handle(first, headers, raw)

    def _handle(self, first: str, headers: dict[str, str], raw: bytes) -> None:
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0]
        keep = headers.get("connection", "").lower() != "close"
        server = self._server
        if path == "/stats":
            reply = server._control(method)  # noqa: SLF001
            self._send(reply, json.dumps(reply.body).encode(), keep=keep)
            return
        request, reply = server._arrived(path, headers, raw, time.monotonic())  # noqa: SLF001
        self._counted = self._waiting = True
        if reply.ending == "never":
            return
        delay = server.latency + reply.delay
        if delay > 0:
            self._timer = self._loop.call_later(delay, self._answer, request, reply, keep)
        else:
            self._answer(request, reply, keep)

    def _answer(self, request: Request, reply: Reply, keep: bool) -> None:  # noqa: FBT001 - a callback's
        self._counted = False
        self._server._counts.answered(reply, time.monotonic())  # noqa: SLF001
        if reply.ending == "hang_up":
            self._transport.close()
            return
        self._send(reply, reply.encoded(request), keep=keep)
        self._waiting = False
        if self._timer is not None:
            self._timer = None
            self._next()

    def _send(self, reply: Reply, body: bytes, *, keep: bool) -> None:
        reason = _REASONS.get(reply.status, "Unknown")
        lines = [
            f"HTTP/1.1 {reply.status} {reason}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
        ]
        if not keep:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        is_torn = reply.ending == "torn"
        self._transport.write(head + (body[: len(body) // 2] if is_torn else body))
        if is_torn or not keep:
            self._transport.close()
