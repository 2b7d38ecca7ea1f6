"""Vectors by the key of their text: as numbers of one length, and on disk.

unit          vectors of length 1, as what all are kept
VectorTable   a table of vectors in a SQLite file
VectorStore   what one run has embedded, and what earlier runs have
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Vectors = np.ndarray[Any, np.dtype[np.float32]]

_AT_ONCE = 500
_MAKE = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, run INTEGER NOT NULL, "
    "vector BLOB NOT NULL)"
)
# What is left of a run's own file after a crash is of no use.
_SETTINGS = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-2048")


def unit(vectors: Any) -> Vectors:
    """The same directions with length 1.

    Args:
        vectors: Shape (n, dimensions), of any size.

    Returns:
        float32: half the size, and to seven digits the same cosines. A vector of zeros stays one;
        one with a number that is not finite is all NaN.
    """
    given = np.asarray(vectors, dtype=np.float64)
    with np.errstate(all="ignore"):
        # By the largest number first: squares of huge or tiny ones leave the range of floats.
        largest = np.abs(given).max(axis=1, keepdims=True, initial=0.0)
        scaled = np.divide(given, largest, out=np.zeros_like(given), where=largest != 0)
        length = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))[:, None]
        made = np.divide(scaled, length, out=np.zeros_like(scaled), where=length != 0)
    made[~np.isfinite(given).all(axis=1)] = np.nan
    return np.asarray(made, dtype=np.float32)


class VectorTable:
    """The table of vectors in a SQLite file; every call is one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Make the table where it is missing.

        Raises:
            sqlite3.Error: The file fails, as for every method.
        """
        self._db = db
        db.execute(_MAKE)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Key -> the run that stored it, and the vector's bytes; of those that are there."""
        found: dict[bytes, tuple[int, bytes]] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, run, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - marks only
            found |= {key: (run, blob) for key, run, blob in self._db.execute(query, some)}
        return found

    def put(self, run: int, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors, in the place of what is there under their keys."""
        rows = [(key, run, blob) for key, blob in vectors.items()]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


class Kept(NamedTuple):
    """A vector that was there.

    Attributes:
        vector: float32.
        earlier: Whether an earlier run stored it.
    """

    vector: Vectors
    earlier: bool


class VectorStore:
    """What a run has embedded, on disk: in memory it would outgrow the results.

    Vectors that later runs may use stand in the cache file, if there is one; the others in a
    private file that is gone with the run.
    """

    def __init__(
        self, cache: Callable[[], VectorTable | None], failed: Callable[[sqlite3.Error], None]
    ) -> None:
        """Start with nothing embedded.

        Args:
            cache: The cache's table; None without a cache, or where it has failed.
            failed: Told of a failure of the cache's file.
        """
        self._run = secrets.randbits(62)
        self._cache = cache
        self._failed = failed
        self._private: sqlite3.Connection | None = None
        self._usable = True

    def find(self, keys: Sequence[bytes], *, lasting: bool) -> dict[bytes, Kept]:
        """The vectors that are there.

        Args:
            keys: Of the texts.
            lasting: Whether those of other runs will do.
        """
        found: dict[bytes, tuple[int, bytes]] = {}
        if lasting:
            found = self._tried(lambda table: table.get(keys)) or {}
        if self._private is not None:
            missing = [key for key in keys if key not in found]
            try:
                found |= VectorTable(self._private).get(missing)
            except sqlite3.Error:
                self.close()
        kept = {key: (run, _read(blob)) for key, (run, blob) in found.items()}
        return {
            key: Kept(vector, run != self._run)
            for key, (run, vector) in kept.items()
            if vector is not None
        }

    def keep(self, vectors: Mapping[bytes, Vectors], *, lasting: bool) -> None:
        """Keep vectors; where no file can be written they are embedded anew when needed."""
        blobs = {key: vector.astype("<f4").tobytes() for key, vector in vectors.items()}
        if (lasting and self._cached(blobs)) or not self._usable:
            return
        try:
            if self._private is None:
                self._private = _opened()
            VectorTable(self._private).put(self._run, blobs)
        except sqlite3.Error:
            self.close()

    def _cached(self, blobs: Mapping[bytes, bytes]) -> bool:
        """Put vectors into the cache; whether it took them."""

        def put(table: VectorTable) -> bool:
            table.put(self._run, blobs)
            return True

        return self._tried(put) is True

    def _tried(self, use: Callable[[VectorTable], Any]) -> Any:
        """What `use` gives of the cache's table; None where there is none, or it fails."""
        try:
            table = self._cache()
            return None if table is None else use(table)
        except sqlite3.Error as exc:
            self._failed(exc)
            return None

    def close(self) -> None:
        """Let go of the private file."""
        self._usable = False
        if self._private is not None:
            self._private.close()
            self._private = None


def _read(blob: Any) -> Vectors | None:
    """The vector of these bytes; None if they are none."""
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return None
    vector: Vectors = np.frombuffer(blob, "<f4")
    return vector if np.isfinite(vector).all() else None


def _opened() -> sqlite3.Connection:
    made = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        for statement in _SETTINGS:
            made.execute(statement)
    except sqlite3.Error:
        made.close()
        raise
    return made
