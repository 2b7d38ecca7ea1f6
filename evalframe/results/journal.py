"""The result table of a run, written early: what was paid for is on disk at once.

Owns   the tables of a run, one per evaluator and one for the task's outputs, and what to say
       when the disk fails.
Leaves the files of a table and what waits for them to journal_table.py, and finding cells again
       to journal_cells.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from evalframe.core.cells import CellColumns
from evalframe.core.errors import JournalError
from evalframe.core.records import Cell
from evalframe.results.journal_cells import JournalCells, Mark
from evalframe.results.journal_table import TASK_FIELDS, JournalTable, fields_of
from evalframe.results.whole_file import sweep


class Journal:
    """The tables of one run; one process at a time has a folder's journal.

    Examples:
        >>> from pathlib import Path
        >>> from evalframe.core.records import Cell
        >>> from evalframe.results.journal import Journal
        >>> from evalframe.results.journal_cells import Mark, packed
        >>> folder = Path("journal")
        >>> folder.mkdir()
        >>> mark = Mark(key="0" * 32, occurrence=0, row=0)
        >>> with Journal(folder, {"exact": {}}) as journal:
        ...     journal.put("exact", mark, Cell("True", 1.0), paid=True)
        ...     journal.tick(now=0.0)
        ...     cells = journal.cells("exact")
        >>> cells.take(cells.find(packed([mark.key]))).arrays["score"].to_pylist()
        [1.0]
    """

    def __init__(
        self,
        folder: Path,
        evaluators: Mapping[str, Mapping[str, pa.DataType]],
        *,
        task: bool = False,
        details: bool = False,
    ) -> None:
        """Open the tables, or make them; torn tails are cut off.

        Args:
            folder: Is there.
            evaluators: Name of each, and its columns beyond the five.
            task: Whether there is a table of task outputs.
            details: Whether evaluators have a latency.

        Raises:
            JournalError: A file is damaged, no journal or a newer one, or the disk fails.
        """
        self._folder = folder
        self._details = details
        self._lock = threading.RLock()
        self._failed: JournalError | None = None
        self._closed = False
        self._tables: dict[str | None, JournalTable] = {}
        try:
            with self._told():
                sweep(folder)
                if task:
                    self._tables[None] = JournalTable(folder, None, TASK_FIELDS)
                for name, further in evaluators.items():
                    fields = fields_of(further, details=details)
                    self._tables[name] = JournalTable(folder, name, fields)
        except BaseException:
            self._let_go()
            raise

    def __enter__(self) -> Self:
        """Nothing to do: it is open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what waits and close."""
        self.close()

    def put(
        self, name: str, mark: Mark, cell: Cell, seconds: float | None = None, *, paid: bool
    ) -> None:
        """One cell, to be written soon.

        Args:
            name: The evaluator's.
            mark: What the cell belongs to.
            cell: In its strict form.
            seconds: Its latency; kept with `details`.
            paid: Whether it is to be written at the next tick.
        """
        table = self._tables[name]
        none = (None,) * table.further
        latency = (seconds,) if self._details else ()
        self._put(table, mark, (*cell[:5], *(cell.extras or none), *latency), paid=paid)

    def put_output(self, mark: Mark, output: str | None, error: str | None) -> None:
        """One task output, to be written at the next tick.

        Args:
            mark: What the output belongs to.
            output: As JSON text; None if the task failed.
            error: The failure; None if there is an output.
        """
        self._put(self._tables[None], mark, (output, error), paid=True)

    def _put(self, table: JournalTable, mark: Mark, values: tuple[Any, ...], *, paid: bool) -> None:
        with self._lock:
            table.put(mark, values, paid=paid)

    def add(
        self,
        name: str,
        keys: Sequence[str],
        occurrences: Sequence[int],
        rows: Sequence[int],
        cells: CellColumns,
        *,
        paid: bool = False,
    ) -> None:
        """Cells of several rows that are Arrow columns already.

        Args:
            name: The evaluator's.
            keys: What each belongs to, as in `Mark`; so are the next two.
            occurrences: Numbers among equal rows.
            rows: Positions.
            cells: One per key; a latency that they lack is null.
            paid: Whether they are to be written at the next tick.
        """
        with self._lock:
            self._tables[name].add(keys, occurrences, rows, cells, paid=paid)

    def tick(self, now: float) -> None:
        """Write what is due; called once per turn of the loop.

        Args:
            now: Seconds on any clock that does not go back.

        Raises:
            JournalError: The disk fails.
        """
        due = [table for table in self._tables.values() if table.due(now)]
        if due:
            self._write(due)

    def flush(self) -> None:
        """Write all that waits.

        Raises:
            JournalError: The disk fails.
        """
        self._write(self._tables.values())

    def _write(self, tables: Iterable[JournalTable]) -> None:
        with self._lock, self._told():
            if not self._closed:
                for table in tables:
                    table.write()

    def cells(self, name: str) -> JournalCells:
        """The evaluator's cells that are on disk, from this run and earlier ones.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        with self._lock, self._told():
            return self._tables[name].cells()

    def outputs(self) -> JournalCells:
        """The task's outputs and errors that are on disk.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        with self._lock, self._told():
            return self._tables[None].cells()

    def compact(self) -> None:
        """Write all that waits, and each file anew: in large batches, replaced cells left out.

        A file takes the place of the old one when the disk has all of it.

        Raises:
            JournalError: The disk fails, or a file is damaged; what was written is still there.
        """
        self.flush()
        with self._lock, self._told():
            for table in self._tables.values():
                table.compact()

    def close(self) -> None:
        """Write all that waits, and let the files go; after a failure of the disk, only the latter.

        What is put afterwards, by a call that goes on after its run, is not written.

        Raises:
            JournalError: The disk fails.
        """
        try:
            if self._failed is None:
                self.flush()
        finally:
            with self._told():
                self._let_go()

    def _let_go(self) -> None:
        with self._lock, contextlib.ExitStack() as stack:
            for table in self._tables.values():
                stack.callback(table.file.close)
            self._closed = True

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A failure of the disk becomes an error that says what is safe."""
        try:
            yield
        except JournalError:
            raise
        except OSError as exc:
            self._failed = self._failure(exc)
            raise self._failed from exc

    def _failure(self, exc: OSError) -> JournalError:
        safe = {name: table.file.rows for name, table in self._tables.items()}
        counts = [
            f"{'task' if name is None else repr(name)} {rows:,}" for name, rows in safe.items()
        ]
        waiting = sum(table.waiting for table in self._tables.values())
        return JournalError(
            f"The disk of the journal {str(self._folder)!r} fails: {exc.strerror or exc}. "
            f"Cells that are safe in it: {', '.join(counts) or 'none yet'}. Finished, but not "
            f"written: {waiting:,}, and what calls in flight have given since; `.partial` has all "
            "of it. Make room, then call run_experiment again with the same run_dir: it goes on "
            "from there.",
            safe=safe,
        )
