"""Cells into result columns.

Owns   which cell stands where, and gaps (not run).
Leaves the frame that goes back to the user to frame.py.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.columns import backed
from evalframe.core.records import Cell

_CHUNK_ROWS = 1024  # cells are held as Python objects until theirs is full
_MOST_CHUNKS = 128


Rows = range | np.ndarray[Any, Any]
_Part = tuple[Rows, CellColumns]


class Builder:
    """Collects the cells of a run.

    Attributes:
        stayed: Why so many cells that were to be made anew are still those of before.
        staying: Evaluators of which cells of before stand in the result.
    """

    def __init__(
        self,
        evaluators: Sequence[tuple[str, Mapping[str, pa.DataType]]],
        rows: int,
        *,
        details: bool,
        fingerprints: Callable[[int, Rows], Sequence[str]] | None = None,
    ) -> None:
        """Start with no cell run.

        Args:
            evaluators: Name of each, and its columns beyond the five.
            rows: Rows of the result.
            details: Whether there are latencies.
            fingerprints: Place of an evaluator and rows -> the fingerprints of their cells;
                None for no such column.
        """
        self._evaluators = list(evaluators)
        self._rows = rows
        self._details = details
        self._fingerprints = fingerprints
        self._parts: list[list[_Part]] = [[] for _ in evaluators]
        self._kept: list[_Part | None] = [None for _ in evaluators]
        self._todo: list[np.ndarray[Any, Any] | None] = [None for _ in evaluators]
        self._empty: dict[pa.DataType, pa.Array] = {}
        self._open: list[dict[int, _OpenChunk]] = [{} for _ in evaluators]
        self._full: list[set[int]] = [set() for _ in evaluators]
        # A pump that a user's call still holds may go on while the frame is made without it.
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        self.stayed: Counter[str] = Counter()
        self.staying: set[str] = set()

    def keep(
        self,
        place: int,
        rows: np.ndarray[Any, Any],
        cells: CellColumns,
        todo: np.ndarray[Any, Any],
    ) -> None:
        """Cells that are there already; they stay until the run has come to make them anew.

        Args:
            place: Whose they are.
            rows: Their rows.
            cells: The cells.
            todo: For each row of the result, whether its cell is to be made.
        """
        self._kept[place] = (rows, cells)
        self._todo[place] = todo

    def restore(
        self, place: int, rows: Rows, cells: CellColumns, todo: np.ndarray[Any, Any]
    ) -> None:
        """Cells that an earlier run has made, in the place of whatever else was kept.

        Args:
            place: Whose they are.
            rows: Their rows.
            cells: The cells.
            todo: For each row of the result, whether its cell is to be made.
        """
        self.add(place, rows, cells)
        self._todo[place] = todo

    def add(self, place: int, rows: int | Rows, cells: CellColumns) -> None:
        """Cells that have been made, none of which was made before.

        Args:
            place: Whose they are.
            rows: Their rows; a number: consecutive rows from this one on.
            cells: The cells.
        """
        if isinstance(rows, int):
            rows = range(rows, rows + len(cells))
        if len(cells):
            with self._lock:
                self._parts[place].append((rows, cells))

    def put(self, place: int, row: int, cell: Cell, seconds: float | None) -> None:
        """One cell; kept as it is until its chunk is full. To put it again changes nothing."""
        start = row - row % _CHUNK_ROWS
        with self._lock:
            chunks = self._open[place]
            if start in self._full[place]:
                return
            if start not in chunks:
                chunks[start] = self._opened(place, start)
            chunk = chunks[start]
            chunk.put(row - start, cell, seconds)
            if chunk.left == 0:
                self._flush(place, start)

    def _opened(self, place: int, start: int) -> _OpenChunk:
        length, todo = min(_CHUNK_ROWS, self._rows - start), self._todo[place]
        due = length if todo is None else int(todo[start : start + length].sum())
        return _OpenChunk(length, due)

    def _flush(self, place: int, start: int) -> None:
        chunk = self._open[place][start]
        further = self._evaluators[place][1]
        for offset, cells, seconds in chunk.runs():
            made = CellColumns.of(cells, further)
            self.add(place, start + offset, made.with_latency(seconds) if self._details else made)
        # Last: if Ctrl-C comes before it, the chunk is in place twice, which is harmless.
        self._full[place].add(start)
        del self._open[place][start]

    def columns(
        self, left_out: str = schema.NOT_RUN, renewed: np.ndarray[Any, Any] | None = None
    ) -> dict[str, Any]:
        """The result columns as pandas arrays, in order.

        Can be called again when Ctrl-C has ended it: evaluators that were finished stay so.

        Args:
            left_out: The error of cells that never ran, where none was kept.
            renewed: For each row whether its output is another than before; cells that were
                kept have nothing to say of it, and go. None: there is no such row.
        """
        for place, (name, further) in enumerate(self._evaluators):
            if schema.column(name, schema.ERROR) in self._made:
                continue
            made: dict[str, Any] = {}
            for start in list(self._open[place]):
                self._flush(place, start)
            self._let_go(place, renewed)
            self._put_back(place, left_out)
            fields = {**schema.FIELDS, **further, **(schema.DETAILS if self._details else {})}
            marks = self._marks(place)
            whole = self._whole(place, fields, left_out)
            sizes, parts = [len(cells) for cells in whole], [dict(cells.arrays) for cells in whole]
            del whole
            self._parts[place] = []
            for field, kind in fields.items():
                # Popped, so that a part is let go as soon as it is used.
                arrays = [part.pop(field, None) for part in parts]
                made[schema.column(name, field)] = backed(self._joined(arrays, sizes, kind))
            if marks is not None:
                made[schema.column(name, schema.FINGERPRINT)] = backed(marks)
            self._made |= made
        return self._made

    def _let_go(self, place: int, renewed: np.ndarray[Any, Any] | None) -> None:
        """Drop the cells that were kept in these rows."""
        kept = self._kept[place]
        if kept is None or renewed is None or not renewed[kept[0]].any():
            return
        rest = np.flatnonzero(~renewed[kept[0]])
        self._kept[place] = (np.asarray(kept[0])[rest], kept[1].take(pa.array(rest)))

    def _put_back(self, place: int, left_out: str) -> None:
        """Let kept cells stay where nothing was made that could take their place."""
        kept, todo = self._kept[place], self._todo[place]
        if kept is None or todo is None:
            return
        held = np.zeros(self._rows, dtype=bool)
        held[kept[0]] = todo[kept[0]]
        unseen, parts = held.copy(), list[_Part]()
        for rows, cells in self._parts[place]:
            numbers, texts = np.asarray(rows), cells.errors.to_numpy(zero_copy_only=False)
            back = held[numbers] & np.fromiter((x in schema.PENDING for x in texts), bool)
            unseen[numbers] = False
            self.stayed.update(texts[back])
            fresh = np.flatnonzero(~back)
            if len(fresh) == len(cells):
                parts.append((rows, cells))
            elif len(fresh):
                parts.append((numbers[fresh], cells.take(pa.array(fresh))))
        self._parts[place] = parts
        self.stayed[left_out] += int(unseen.sum())
        replaced = np.zeros(self._rows, dtype=bool)
        for rows, _ in parts:
            replaced[np.asarray(rows)] = True
        if not replaced[kept[0]].all():
            self.staying.add(self._evaluators[place][0])

    def _marks(self, place: int) -> pa.Array | None:
        """The fingerprints of all rows: those of cells that were kept, and of those made now."""
        if self._fingerprints is None:
            return None
        marks = np.full(self._rows, None, dtype=object)
        kept = self._kept[place]
        if kept is not None and schema.FINGERPRINT in kept[1].arrays:
            marks[kept[0]] = kept[1].arrays[schema.FINGERPRINT].to_pylist()
        for rows, cells in self._parts[place]:
            errors = cells.errors.to_pylist()
            called = [text is None or not schema.is_unmade(text) for text in errors]
            numbers = np.asarray(rows)
            # What was kept of before said nothing of the cell that has taken its place.
            marks[numbers] = None
            marks[numbers[called]] = self._fingerprints(place, numbers[called])
        return pa.array(marks, schema.TEXT)

    def _joined(
        self, arrays: list[pa.Array | None], sizes: list[int], kind: pa.DataType
    ) -> pa.Array | pa.ChunkedArray:
        """One field of all parts, in at most so many chunks; columns of nulls share one array."""
        if all(array is None or array.null_count == len(array) for array in arrays):
            if kind not in self._empty:
                # To fill one anew takes longer than a usual comparison of two columns.
                only = arrays[0] if len(arrays) == 1 else None
                self._empty[kind] = pa.nulls(self._rows, kind) if only is None else only
            return self._empty[kind]
        whole = [
            pa.nulls(size, kind) if array is None else array
            for array, size in zip(arrays, sizes, strict=True)
        ]
        del arrays
        # Not in one piece: that would hold each column twice for a moment.
        together = -(-len(whole) // _MOST_CHUNKS)
        chunks = []
        while whole:
            group, whole = whole[:together], whole[together:]
            chunks.append(group[0] if together == 1 else pa.concat_arrays(group))
        return pa.chunked_array(chunks, type=kind)

    def _whole(
        self, place: int, fields: Mapping[str, pa.DataType], left_out: str
    ) -> list[CellColumns]:
        """The cells in row order, with the gaps filled."""
        further = self._evaluators[place][1]
        parts, kept = self._parts[place], self._kept[place]
        if kept is not None or any(not isinstance(rows, range) for rows, _ in parts):
            found = [*([] if kept is None else [kept]), *parts]
            return [self._scattered(found, fields, left_out)]
        whole: list[CellColumns] = []
        at = 0
        for rows, cells in sorted(parts, key=lambda part: part[0][0]):
            start = int(rows[0])
            if start + len(cells) <= at:
                continue
            if start > at:
                whole.append(CellColumns.all_alike(start - at, left_out, further))
            whole.append(cells)
            at = start + len(cells)
        if at < self._rows:
            whole.append(CellColumns.all_alike(self._rows - at, left_out, further))
        return whole

    def _scattered(
        self, parts: Sequence[_Part], fields: Mapping[str, pa.DataType], left_out: str
    ) -> CellColumns:
        """Parts whose rows lie between each other; a later one has the last word."""
        source = np.full(self._rows, sum(len(cells) for _, cells in parts))
        at = 0
        for rows, cells in parts:
            source[slice(rows.start, rows.stop) if isinstance(rows, range) else rows] = np.arange(
                at, at + len(cells)
            )
            at += len(cells)
        gap = CellColumns.all_alike(1, left_out, {})
        pieces = [*(cells for _, cells in parts), gap]
        taken = pa.array(source)
        arrays = {}
        for field, kind in fields.items():
            found = [piece.arrays.get(field) for piece in pieces]
            if field == schema.ERROR or any(a is not None and a.null_count < len(a) for a in found):
                whole = [
                    pa.nulls(len(piece), kind) if array is None else array
                    for piece, array in zip(pieces, found, strict=True)
                ]
                arrays[field] = pa.concat_arrays(whole).take(taken)
        return CellColumns(arrays)


class _OpenChunk:
    """Rows of which some have their cell."""

    def __init__(self, length: int, due: int) -> None:
        self.cells: list[Cell | None] = [None] * length
        self.seconds: list[float | None] = [None] * length
        self.left = due

    def put(self, offset: int, cell: Cell, seconds: float | None) -> None:
        fresh = self.cells[offset] is None
        self.cells[offset] = cell
        self.left -= fresh
        self.seconds[offset] = seconds

    def runs(self) -> list[tuple[int, list[Cell], list[float | None]]]:
        """Stretches of rows that have a cell."""
        found: list[tuple[int, list[Cell], list[float | None]]] = []
        for offset, cell in enumerate(self.cells):
            if cell is None:
                continue
            if not found or found[-1][0] + len(found[-1][1]) != offset:
                found.append((offset, [], []))
            found[-1][1].append(cell)
            found[-1][2].append(self.seconds[offset])
        return found
