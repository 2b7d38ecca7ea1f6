"""What the questions of one run ended in, for those who ask the same later.

Replies are kept in a private file that no other process can open and that is gone with the run:
in memory they would outgrow the results. Failures are few, and stay in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import replace
from typing import Any, NamedTuple

from evalframe.llm.chat import ChatReply, Usage

_NO_USAGE = Usage()
# One transaction that is never committed: what is left of it after a crash is of no use.
_SETTINGS = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA cache_size=-256",
    "CREATE TABLE replies (key BLOB PRIMARY KEY, who TEXT, reply TEXT) WITHOUT ROWID",
    "BEGIN",
)


class Ended(NamedTuple):
    """How a question ended.

    Attributes:
        value: What was made of the reply; None after a failure, and where it was not kept.
        reply: The last reply, if there was one.
        replies: All that were paid for.
        error: Why there is no value.
        who: Evaluator that asked.
    """

    value: Any
    reply: ChatReply | None
    replies: tuple[ChatReply, ...]
    error: Exception | None
    who: str = ""


class EndedQuestions:
    """Ends by the key of their question; read and set as in a dict."""

    def __init__(self) -> None:
        """Start with none; the file is made with the first reply."""
        self._memory: dict[bytes, Ended] = {}
        self._db: sqlite3.Connection | None = None
        self._usable = True

    def get(self, key: str) -> Ended | None:
        """The end of a question, without its value and what was paid for it; None if unknown."""
        short = _short(key)
        if self._db is not None:
            try:
                query = "SELECT who, reply FROM replies WHERE key = ?"
                found = self._db.execute(query, (short,)).fetchone()
                if found is not None:
                    return Ended(None, ChatReply.from_json(found[1]), (), None, found[0])
            except (sqlite3.Error, ValueError):
                self.close()
        return self._memory.get(short)

    def __setitem__(self, key: str, ended: Ended) -> None:
        """Keep an end: a reply on disk, or in memory where there is no place for files."""
        short = _short(key)
        reply = ended.reply and replace(ended.reply, usage=_NO_USAGE, hold=None)
        if ended.error is None and reply is not None and self._usable:
            try:
                if self._db is None:
                    self._db = _opened()
                row = (short, ended.who, reply.to_json())
                self._db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
            except (sqlite3.Error, UnicodeError):
                self.close()
            else:
                return
        self._memory[short] = Ended(None, reply, (), ended.error, ended.who)

    def close(self) -> None:
        """Let go of the file; what is set from now on stays in memory."""
        self._usable = False
        if self._db is not None:
            self._db.close()
            self._db = None


def _short(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _opened() -> sqlite3.Connection:
    made = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        for statement in _SETTINGS:
            made.execute(statement)
    except sqlite3.Error:
        made.close()
        raise
    return made
