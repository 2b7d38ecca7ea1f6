"""The cells that a journal has, found by the content that they belong to.

Owns   the columns of a journal file, which of its rows count, and the way to find them.

Mark          what a cell belongs to, and where its row stood
packed        keys as they are searched for
columns_of    the columns of a table's files
read          the rows of one file
JournalCells  cells of a table, by key and occurrence number

A cell belongs to a key (the fingerprint of the evaluator and of what it read); a number tells the
cells of equal rows apart. Of cells with the same mark the newest counts. A million of them cost
their Arrow columns and 40 bytes each, no Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns, nulls
from evalframe.results.journal_format import Scan

# With a dot, which no field of an evaluator has.
KEY = "cell.key"
OCCURRENCE = "cell.occurrence"
ROW = "cell.row"

_KEY_BYTES = 16
_MARKS: dict[str, pa.DataType] = {
    KEY: pa.binary(_KEY_BYTES),
    OCCURRENCE: pa.int64(),
    ROW: pa.int64(),
}
_EVALUATOR = "evalframe.evaluator"

# What `details=True` adds: no part of a verdict, so cells of a run without it serve one with it.
_DETAILS = frozenset({*schema.DETAILS, *schema.JUDGE_DETAILS})

# Batches of single rows are joined as they are read; each would cost 2 KB as it is.
_JOINED_ROWS = 8_192
# Odd, and its bits in no order (2**64 over the golden ratio): neighbours end far apart.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

# Keys as two numbers each: shape (n, 2).
Words = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Mark(NamedTuple):
    """What a cell belongs to.

    Attributes:
        key: 32 hex letters: the evaluator's code and what it read of the row.
        occurrence: Tells cells of one key apart; they are in the order of their rows.
        row: Position of the row in the run that made the cell; for people, not for finding it.
    """

    key: str
    occurrence: int
    row: int


def columns_of(name: str | None, fields: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of a table's files.

    Args:
        name: The evaluator's, None for the task.
        fields: The result columns.
    """
    marks = [pa.field(field, kind, nullable=False) for field, kind in _MARKS.items()]
    return pa.schema(
        [*marks, *fields.items()], metadata=None if name is None else {_EVALUATOR: name}
    )


def keys_of(keys: Sequence[str]) -> bytes:
    """Keys, one behind the other.

    Raises:
        ValueError: One of them is not 32 hex letters.
    """
    packed = bytes.fromhex("".join(keys))
    if len(packed) != _KEY_BYTES * len(keys) or any(len(key) != 2 * _KEY_BYTES for key in keys):
        message = f"a key has {2 * _KEY_BYTES} hex letters"
        raise ValueError(message)
    return packed


def packed(keys: Sequence[str]) -> Words:
    """Keys as they are searched for.

    Raises:
        ValueError: One of them is not 32 hex letters.
    """
    return np.frombuffer(keys_of(keys), "<u8").reshape(-1, 2)


def marks_of(
    keys: Sequence[str], occurrences: Sequence[int], rows: Sequence[int]
) -> list[pa.Array]:
    """The columns that say what cells belong to.

    Raises:
        ValueError: A key is not 32 hex letters.
    """
    packed = pa.py_buffer(keys_of(keys))
    return [
        pa.Array.from_buffers(_MARKS[KEY], len(keys), [None, packed]),
        pa.array(occurrences, _MARKS[OCCURRENCE]),
        pa.array(rows, _MARKS[ROW]),
    ]


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema as one; there is at least one."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def read(path: Path) -> tuple[pa.Schema | None, list[pa.RecordBatch]]:
    """Columns and rows of a file; small batches are joined.

    Raises:
        JournalError: The file is damaged, is no journal or a newer one, or cannot be read.
    """
    scan = Scan(path)
    groups = list(_groups(scan))
    return scan.schema, groups


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += len(batch)
        if rows >= _JOINED_ROWS:
            yield joined(group)
            group, rows = [], 0
    if rows:
        yield joined(group)


class JournalCells:
    """Cells of one table, in the order in which they were written."""

    def __init__(self, fields: Mapping[str, pa.DataType]) -> None:
        """Start with none.

        Args:
            fields: The result columns that are wanted.
        """
        self._fields = dict(fields)
        self._wanted = columns_of(None, fields)
        self._batches: list[pa.RecordBatch] = []
        self._both: tuple[Words, Numbers] | None = None
        self._ranked: tuple[Numbers, _Index] | None = None
        self.unfit = 0

    def add(self, columns: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
        """Rows of one file, newer than all before.

        A file with other types, or without one of the columns that are wanted, has no cell that
        could be given: its rows are counted in `unfit`. Details that it lacks are null.
        """
        types = dict(zip(columns.names, columns.types, strict=True))
        lacking = {field.name for field in self._wanted if types.get(field.name) != field.type}
        if any(name in types or name not in _DETAILS for name in lacking):
            self.unfit += sum(map(len, batches))
            return
        self._both = self._ranked = None
        for batch in batches:
            arrays = [
                nulls(len(batch), field.type) if field.name in lacking else batch[field.name]
                for field in self._wanted
            ]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._wanted))

    def __len__(self) -> int:
        """Number of cells, those that were replaced by newer ones included."""
        return sum(map(len, self._batches))

    def find(self, keys: Words) -> Numbers:
        """Where the cells of some rows are, for `take`; -1 where there is none.

        Of rows with equal keys the first gets the cell with the lowest occurrence number, the
        next one the next, for as long as there are any.

        Args:
            keys: One of each row, in the order of the rows, as `packed` gives them.
        """
        if self._ranked is None:
            order = self.newest()
            order = order[np.argsort(self._marks()[1][order], kind="stable")]
            theirs = self._marks()[0][order]
            self._ranked = order, _Index(theirs, _ranks(theirs))
        order, index = self._ranked
        found = index.find(keys, _ranks(keys))
        there = found >= 0
        found[there] = order[found[there]]
        return found

    def newest(self) -> Numbers:
        """The cells that no newer one has replaced, in the order of writing."""
        keys, occurrences = self._marks()
        found = _Index(keys, occurrences).find(keys, occurrences)
        return np.flatnonzero(found == np.arange(len(found)))

    def occurrences(self, positions: Numbers) -> Numbers:
        """The occurrence numbers of the cells at some positions."""
        return self._marks()[1][positions]

    def next_occurrence(self) -> int:
        """A number above those of all cells."""
        numbers = self._marks()[1]
        return int(numbers.max()) + 1 if len(numbers) else 0

    def take(self, positions: Sequence[int] | np.ndarray[Any, Any]) -> CellColumns:
        """The cells at positions that `find` gave, in that order; ask for all of them at once."""
        table = pa.Table.from_batches(self._batches, self._wanted).select(list(self._fields))
        taken = table.take(pa.array(positions, pa.int64()))
        return CellColumns({name: taken[name].combine_chunks() for name in self._fields})

    def marked(self, positions: Sequence[int] | np.ndarray[Any, Any]) -> pa.Table:
        """The cells at some positions, which ascend, together with their marks."""
        table = pa.Table.from_batches(self._batches, self._wanted)
        if len(positions) == len(table):
            return table  # where nothing was replaced, a copy would double the memory of a run
        return table.take(pa.array(positions, pa.int64()))

    def _marks(self) -> tuple[Words, Numbers]:
        """Key and occurrence number of each cell."""
        if self._both is None:
            keys = [_key_words(batch[KEY]) for batch in self._batches]
            numbers = [batch[OCCURRENCE].to_numpy() for batch in self._batches]
            self._both = (
                np.concatenate(keys) if keys else np.empty((0, 2), "<u8"),
                np.concatenate(numbers) if keys else np.empty(0, "int64"),
            )
        return self._both


class _Index:
    """Marks by their hashes, and the place that each has."""

    def __init__(self, keys: Words, numbers: Numbers) -> None:
        self._keys = keys
        self._numbers = numbers
        hashes = _hashes(keys, numbers)
        # From the last to the first, and stable: the newest of equal ones stands first.
        backwards = np.argsort(hashes[::-1], kind="stable")
        self._rows = len(hashes) - 1 - backwards
        self._hashes = hashes[self._rows]

    def find(self, keys: Words, numbers: Numbers) -> Numbers:
        """The last place of each mark, -1 where there is none."""
        wanted = _hashes(keys, numbers)
        at = np.searchsorted(self._hashes, wanted)
        found = np.full(len(wanted), -1, "int64")
        still = np.flatnonzero(at < len(self._hashes))
        while len(still):
            still = still[self._hashes[at[still]] == wanted[still]]
            rows = self._rows[at[still]]
            same = (self._keys[rows] == keys[still]).all(axis=1)
            same &= self._numbers[rows] == numbers[still]
            found[still[same]] = rows[same]
            # Another mark with the same hash: the next one may be it.
            still = still[~same]
            at[still] += 1
            still = still[at[still] < len(self._hashes)]
        return found


def _ranks(keys: Words) -> Numbers:
    """The number of each key among the equal ones before it."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    there = keys[order]
    places = np.arange(len(keys))
    first = np.ones(len(keys), bool)
    first[1:] = (there[1:] != there[:-1]).any(axis=1)
    ranks = np.empty(len(keys), "int64")
    ranks[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return ranks


def _key_words(keys: pa.Array) -> Words:
    words = np.frombuffer(keys.buffers()[1], "<u8").reshape(-1, 2)
    return words[keys.offset : keys.offset + len(keys)]


def _hashes(keys: Words, numbers: Numbers) -> np.ndarray[Any, Any]:
    low, high = keys[:, 0], keys[:, 1]
    mixed: np.ndarray[Any, Any] = low + (high ^ (numbers.astype("uint64") * _SPREAD)) * _SPREAD
    return mixed
