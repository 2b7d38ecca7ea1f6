"""One table of a journal: the cells of an evaluator, or the outputs of the task.

Owns   which file is written, the rows that wait for it, and for how long.
Leaves bytes and torn tails to journal_file.py.

    <evaluator>-<digest of its name>.<n>.arrows     task.<n>.arrows

A file has one schema. Where an evaluator has other columns than before (another extra, or
`details`), its next file is begun; older ones stay and are read.

Two speeds: rows that were paid for are due at once, cheap ones when there are 64 of them or
when they have waited for a second.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns, nulls
from evalframe.core.nested import without_surrogates
from evalframe.results.journal_cells import (
    JournalCells,
    Mark,
    columns_of,
    joined,
    keys_of,
    marks_of,
    read,
)
from evalframe.results.journal_file import JournalFile
from evalframe.results.journal_format import columns_in

_WAITING_ROWS = 64
_WAITING_SECONDS = 1.0
_FEW_ROWS = 8

# The largest batch: what a writer holds twice, and what one damaged byte makes unreadable.
_BATCH_ROWS = 65_536
_BATCH_BYTES = 64 * 2**20

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_STEM = 60

TASK_FIELDS: dict[str, pa.DataType] = {schema.OUTPUT: schema.TEXT, schema.ERROR: schema.TEXT}

_Row = tuple[Any, ...]  # the values of all columns


def fields_of(further: Mapping[str, pa.DataType], *, details: bool) -> dict[str, pa.DataType]:
    """The result columns of an evaluator's table.

    Args:
        further: Its columns beyond the five.
        details: Whether there is a latency.
    """
    return {**schema.FIELDS, **further, **(schema.DETAILS if details else {})}


def files_of(folder: Path, name: str | None) -> dict[int, Path]:
    """A table's files by number, oldest first.

    Args:
        folder: Is there.
        name: The evaluator's, None for the task.

    Raises:
        OSError: The disk fails.
    """
    pattern = re.compile(re.escape(_stem(name)) + r"\.([0-9]+)\.arrows")
    found = ((pattern.fullmatch(path.name), path) for path in folder.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in found if match))


def cells_in(files: Iterable[Path], fields: Mapping[str, pa.DataType]) -> JournalCells:
    """The cells of some files of one table, the oldest first.

    Raises:
        JournalError: A file is damaged or cannot be read.
    """
    found = JournalCells(fields)
    for path in files:
        columns, batches = read(path)
        if columns is not None:
            found.add(columns, batches)
    return found


class JournalTable:
    """A table that is written now and then.

    Attributes:
        file: Its newest file.
        further: Number of an evaluator's columns beyond the five and the latency.
        waiting: Rows that are not written yet.
    """

    def __init__(self, folder: Path, name: str | None, fields: Mapping[str, pa.DataType]) -> None:
        """Open the newest file, or make it.

        Args:
            folder: Is there.
            name: The evaluator's, None for the task.
            fields: The result columns.

        Raises:
            JournalError: The file is damaged, no journal or a newer one.
            OSError: The disk fails.
        """
        self._folder = folder
        self._name = name
        self._fields = dict(fields)
        self._columns = columns_of(name, fields)
        self._row_type = pa.struct(list(self._columns))
        self.further = len(set(fields) - set(schema.FIELDS) - set(schema.DETAILS))
        self.file = JournalFile(self._newest(), self._columns)
        self.waiting = 0
        self._rows: list[_Row | pa.RecordBatch] = []
        self._paid = False
        self._since: float | None = None
        self._grown = False

    def _newest(self) -> Path:
        """The last file if it has these columns, else the one after it."""
        files = files_of(self._folder, self._name)
        last = max(files, default=0)
        if last:
            columns = columns_in(files[last])
            if columns is None or columns.equals(self._columns):
                return files[last]
        return self._folder / f"{_stem(self._name)}.{last + 1}.arrows"

    def put(self, mark: Mark, values: tuple[Any, ...], *, paid: bool) -> None:
        """One row waits, its values in the order of the fields.

        Raises:
            ValueError: The key is not 32 hex letters.
        """
        self._rows.append((keys_of([mark.key]), mark.occurrence, mark.row, *values))
        self.waiting += 1
        self._paid = self._paid or paid

    def add(
        self,
        keys: Sequence[str],
        occurrences: Sequence[int],
        rows: Sequence[int],
        cells: CellColumns,
        *,
        paid: bool,
    ) -> None:
        """Several rows wait; a column that the cells lack is null."""
        if not keys:
            return
        values = [
            cells.arrays[name] if name in cells.arrays else nulls(len(keys), kind)
            for name, kind in self._fields.items()
        ]
        arrays = [*marks_of(keys, occurrences, rows), *values]
        self._rows.append(pa.RecordBatch.from_arrays(arrays, schema=self._columns))
        self.waiting += len(keys)
        self._paid = self._paid or paid

    def due(self, now: float) -> bool:
        """Whether what waits is to be written.

        Args:
            now: Seconds on any clock that does not go back.
        """
        if not self.waiting:
            return False
        if self._paid or self.waiting >= _WAITING_ROWS:
            return True
        if self._since is None:
            self._since = now
        return now - self._since >= _WAITING_SECONDS

    def write(self) -> None:
        """Write all that waits.

        Raises:
            OSError: The disk fails; the rows go on waiting.
        """
        count = len(self._rows)
        if not count:
            return
        waiting = self._rows[:count]
        few = [row for row in waiting if isinstance(row, tuple)] if count <= _FEW_ROWS else []
        # Mostly it is a row or two, and the rest of this would take longer than they.
        batch = self._batch(few) if len(few) == count else joined(list(self._batches(waiting)))
        self._grown = True
        if len(batch) <= _BATCH_ROWS:
            self.file.append(batch)
        else:
            for start in range(0, len(batch), _BATCH_ROWS):
                self.file.append(batch.slice(start, _BATCH_ROWS))
        # Last: if Ctrl-C comes before it, the rows are written twice, which is harmless.
        del self._rows[:count]
        self.waiting -= len(batch)
        self._paid = False
        self._since = None

    def _batches(self, waiting: Sequence[_Row | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What waits, in its order: of two cells of one mark the later one counts."""
        for single, items in itertools.groupby(waiting, lambda item: isinstance(item, tuple)):
            if single:
                yield self._batch(list(items))
            else:
                yield from items

    def _batch(self, rows: list[_Row]) -> pa.RecordBatch:
        try:
            return self._few(rows) if len(rows) <= _FEW_ROWS else self._many(rows)
        except UnicodeEncodeError:
            return self._many([tuple(map(_clean, row)) for row in rows])

    def _few(self, rows: list[_Row]) -> pa.RecordBatch:
        """Rows as one array of structs: half the price of an array per column, for one row."""
        return pa.RecordBatch.from_struct_array(pa.array(rows, self._row_type))

    def _many(self, rows: list[_Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [
            nulls(len(rows), kind) if column.count(None) == len(rows) else pa.array(column, kind)
            for column, kind in zip(columns, self._columns.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def cells(self) -> JournalCells:
        """What is on disk.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        return cells_in(files_of(self._folder, self._name).values(), self._fields)

    def compact(self) -> None:
        """Write the newest file anew, in large batches and without replaced rows.

        Raises:
            JournalError: The file is damaged.
            OSError: The disk fails; the file is as it was before.
        """
        size = _batch_rows(self.file.rows, self.file.path.stat().st_size)
        if not self._grown and self.file.batches * size <= 2 * max(self.file.rows, size):
            return
        cells = cells_in([self.file.path], self._fields)
        table = cells.marked(cells.newest())
        size = _batch_rows(len(table), table.nbytes)
        self.file.replace(
            joined(table.slice(start, size).to_batches()) for start in range(0, len(table), size)
        )
        self._grown = False


def _batch_rows(rows: int, size: int) -> int:
    """Rows of a batch, of a table with so many rows and bytes."""
    per_row = max(size // max(rows, 1), 1)
    return max(min(_BATCH_ROWS, _BATCH_BYTES // per_row), 1)


def _clean(value: Any) -> Any:
    return without_surrogates(value) if isinstance(value, str) else value


def _stem(name: str | None) -> str:
    """The beginning of the file names: readable, safe anywhere, and another for every name."""
    if name is None:
        return "task"
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{_UNSAFE.sub('_', name)[:_LONGEST_STEM]}-{digest}"
