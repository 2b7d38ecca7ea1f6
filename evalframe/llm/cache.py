"""Replies and vectors on disk, so that no question is paid for twice.

One SQLite file, safe with several processes. Only valid replies are stored: no errors, and
nothing truncated, filtered or refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from evalframe.llm.chat import ChatReply
from evalframe.llm.vectors import VectorTable

_FORMAT = 1
_WAIT_S = 5.0
_APPLICATION_ID = 0x65766C66  # "evlf": another program's database is not ours to write into


class CacheError(OSError):
    """The file cannot be used as a cache."""


class ReplyCache:
    """Replies by the key of their request."""

    def __init__(self, path: str | os.PathLike[str], *, reads_only: bool = False) -> None:
        """Open or make the file.

        Args:
            path: The file; its folder must be there.
            reads_only: The file must be there, and stays as it is.

        Raises:
            CacheError: It is no cache of evalframe, is a newer one's, or cannot be opened.
        """
        self._torn: set[str] = set()
        self._vectors: VectorTable | None = None
        self.path = Path(path).expanduser()
        if self.path.is_dir() or not self.path.parent.is_dir():
            what = "it is a folder" if self.path.is_dir() else "its folder is not there"
            message = f"cache={str(path)!r} cannot be used: {what}. Name a file: 'replies.sqlite'."
            raise CacheError(message)
        try:
            self._db = sqlite3.connect(
                _for_reading(self.path) if reads_only else self.path,
                timeout=_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
                uri=reads_only,
            )
        except sqlite3.Error as exc:
            raise self.unusable(exc) from exc
        try:
            self._open(reads_only=reads_only)
        except BaseException as exc:
            # Also at a Ctrl-C, after which the file would stay locked for this very process.
            self._db.close()
            if isinstance(exc, sqlite3.Error):
                raise self.unusable(exc) from exc
            raise

    def unusable(self, exc: sqlite3.Error) -> CacheError:
        """What to say of a failure of the file."""
        return CacheError(
            f"cache={str(self.path)!r} cannot be used: {exc}. Name another file, or delete this "
            "one if it is no longer needed."
        )

    def _open(self, *, reads_only: bool) -> None:
        # Each look at the file is one transaction: another process may be making it.
        self._db.execute("BEGIN")
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        self._db.execute("COMMIT")
        if application != _APPLICATION_ID and tables:
            message = "it is a database of another program"
            raise sqlite3.DatabaseError(message)
        if version > _FORMAT:
            message = "a newer evalframe wrote it; run pip install --upgrade evalframe"
            raise sqlite3.DatabaseError(message)
        self._is_empty = not tables
        if reads_only:
            return
        # Not every file system can share memory, and another process may be switching: then
        # DELETE stays in force, which is as safe.
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        if self._is_empty:
            self._make()

    def _make(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, "
            "stored TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
        )
        self._db.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        self._db.execute(f"PRAGMA user_version={_FORMAT}")
        self._db.execute("COMMIT")
        self._is_empty = False

    def get(self, key: str) -> ChatReply | None:
        """The stored reply, None if there is none that can be read.

        Raises:
            CacheError: The file fails.
        """
        if self._is_empty:
            return None
        try:
            found = self._run("SELECT reply FROM replies WHERE key = ?", key).fetchone()
            return None if found is None else ChatReply.from_json(found[0])
        except (ValueError, sqlite3.Error):
            self._torn.add(key)  # it makes room for the next one
            return None

    def put(self, key: str, reply: ChatReply) -> None:
        """Store a reply; the first one of a key stays.

        Raises:
            CacheError: The file fails.
        """
        if key in self._torn:
            self.forget(key)
        self._run("INSERT OR IGNORE INTO replies (key, reply) VALUES (?, ?)", key, reply.to_json())

    def forget(self, key: str) -> None:
        """Make room for another reply.

        Raises:
            CacheError: The file fails.
        """
        self._run("DELETE FROM replies WHERE key = ?", key)

    def vectors(self) -> VectorTable:
        """The table of embedded texts, made at its first use.

        Raises:
            sqlite3.Error: The file fails, here as for every method of the table.
        """
        if self._vectors is None:
            self._vectors = VectorTable(self._db)
        return self._vectors

    def _run(self, statement: str, *values: str) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as exc:
            raise self.unusable(exc) from exc

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _for_reading(path: Path) -> str:
    """The address that opens a file and leaves it, and what lies beside it, as they are.

    SQLite's own mode for reading makes a log beside a file that has none, and leaves it there
    (https://www.sqlite.org/wal.html#read_only_databases); its usual mode takes it away again.
    Where there is a log, of a run that is under way or was killed, it is the other way round.
    """
    if Path(f"{path}-wal").exists():
        how = "mode=ro"
    elif os.access(path.parent, os.W_OK):
        how = "mode=rw"
    else:
        how = "mode=ro&immutable=1"
    return f"{path.absolute().as_uri()}?{how}"
