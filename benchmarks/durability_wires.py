"""How many calls are in flight, exactly: of a client that stands still.

A call is in flight from its request until the client has read the reply. The server knows only
the middle of this: it has counted a reply as given while it still lies in the kernel's buffer
before the client. So the client is stopped first (SIGSTOP) and the server left to answer what it
has: then every call in flight is a reply that lies unread, and Linux tells of how many
connections that is so (https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html).
"""

from __future__ import annotations

import json
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

_CONNECTIONS = Path("/proc/net/tcp")
_ESTABLISHED = "01"
_SETTLE_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """Calls in flight at one moment.

    Attributes:
        unanswered: Those that the server had not answered, by its own count.
        total: These, and those whose request or reply was on its way.
        asked: Prompts that the server had seen since its counts began, each counted once.
    """

    unanswered: int
    total: int
    asked: int


class Counts:
    """The counts of a scripted server."""

    def __init__(self, url: str) -> None:
        self._address = url.removesuffix("/v1") + "/stats"
        self._port = urlsplit(url).port

    def read(self, *, reset: bool = False) -> dict[str, Any]:
        """Give the counts since they were last reset."""
        request = urllib.request.Request(  # noqa: S310 - the benchmark's own server
            self._address, method="POST" if reset else "GET"
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310
            found: dict[str, Any] = json.load(response)
        return found

    def settled(self) -> dict[str, Any]:
        """Give the counts when the server has answered, or seen the end of, all that it had.

        Raises:
            TimeoutError: It never has.
        """
        until = time.monotonic() + _SETTLE_SECONDS
        while (found := self.read())["in_flight"]:
            if time.monotonic() > until:
                message = f"{found['in_flight']} calls are still in flight"
                raise TimeoutError(message)
            Event().wait(0.005)
        return found

    def in_flight(self) -> InFlight:
        """Give what is in flight; the client stands still from before this until it is killed.

        Raises:
            TimeoutError: The server does not answer.
        """
        unanswered = self.read()["in_flight"]
        asked = self.settled()["unique_prompts"]
        return InFlight(unanswered=unanswered, total=self._unread(), asked=asked)

    def _unread(self) -> int:
        """Count the connections to the server whose client has something to read."""
        found = 0
        for line in _CONNECTIONS.read_text("ascii").splitlines()[1:]:
            _, _, remote, state, queues = line.split()[:5]
            to_server = int(remote.rpartition(":")[2], 16) == self._port
            found += to_server and state == _ESTABLISHED and int(queues.partition(":")[2], 16) > 0
        return found
