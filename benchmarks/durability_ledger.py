"""The client's own count of its open calls, kept where it outlives the client.

A call is open from when the openai client begins it until the client hands over the reply, or
what went wrong. Both the task and the judge call through this client. The count is in a file
that is mapped into memory, so kill -9 leaves it as it was.

Ledger   the file
counted  lets the openai client of this process count there
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

_COUNTS = struct.Struct("<qq")


class Ledger:
    """How many calls were begun and ended.

    Only the process whose calls they are may count.
    """

    def __init__(self, path: str) -> None:
        """Begin anew."""
        Path(path).write_bytes(_COUNTS.pack(0, 0))
        with Path(path).open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _COUNTS.size)
        self._begun = self._ended = 0

    def begin(self) -> None:
        """Count a call that begins."""
        self._begun += 1
        self._write()

    def end(self) -> None:
        """Count a call that has ended."""
        self._ended += 1
        self._write()

    def _write(self) -> None:
        self._mapped[:] = _COUNTS.pack(self._begun, self._ended)


def open_calls(path: str) -> int:
    """Give how many calls are open in the process that counts, which stands still."""
    begun, ended = _COUNTS.unpack(Path(path).read_bytes())
    return int(begun - ended)


def counted(ledger: Ledger) -> None:
    """Let every call over the openai client in this process be counted, from now on."""
    import openai

    post = openai.AsyncOpenAI.post

    async def counting(self: openai.AsyncOpenAI, *given: Any, **named: Any) -> Any:
        ledger.begin()
        try:
            return await post(self, *given, **named)
        finally:
            ledger.end()

    # A method of a class in the place of another, which type checkers take for a slip.
    openai.AsyncOpenAI.post = counting  # type: ignore[assignment,method-assign]
