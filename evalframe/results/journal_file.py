"""One file of a journal: continued at its end, and rewritten whole when it is compacted.

Owns   the file's end. A torn tail is cut off before anything is written, and what a failing
       disk took only in part is cut off again, so that the file can always be read.
Leaves the bytes of a message to journal_format.py, and errors to journal.py: here they are
       plain OSErrors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from evalframe.results.journal_format import Scan, batch_message, schema_message
from evalframe.results.whole_file import finished


class JournalFile:
    """A file that grows by whole batches.

    Attributes:
        rows: Rows in the file; a row that was written again counts again.
        batches: How many writes they took.
    """

    def __init__(self, path: Path, columns: pa.Schema) -> None:
        """Open or make the file.

        Args:
            path: Its folder is there.
            columns: A file that is there has these, or was cut off before it had any.

        Raises:
            JournalError: The file is damaged or a newer one.
            OSError: The disk fails.
        """
        self.path = path
        self.columns = columns
        scan = Scan(path)
        if path.exists():
            for _ in scan:
                pass
        self.rows = scan.rows
        self.batches = scan.batches
        self._end = scan.end
        self._torn = False
        self._descriptor = -1
        try:
            self._open()
            if self._end == 0:
                self._write(schema_message(columns))
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        self._cut()

    def _cut(self) -> None:
        os.ftruncate(self._descriptor, self._end)
        self._torn = False

    def append(self, rows: pa.RecordBatch) -> None:
        """Add a batch with one write, which a killed process survives; not a power failure.

        Raises:
            OSError: The disk does not take it; the file is as it was before.
        """
        self._write(batch_message(rows))
        self.rows += len(rows)
        self.batches += 1

    def _write(self, message: bytes) -> None:
        if self._torn:
            self._cut()
        self._torn = True
        try:
            rest = memoryview(message)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BaseException:
            # If even this fails, it is tried again before the next write; and a reader drops
            # a torn tail.
            with contextlib.suppress(OSError):
                self._cut()
            raise
        # Ctrl-C before the next line: the batch is cut off again, and its rows still wait.
        self._end += len(message)
        self._torn = False

    def replace(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Put other rows in the place of all that are there: all of them, or none.

        Raises:
            OSError: The disk fails; the file is as it was before.
        """
        rows = count = 0
        try:
            with finished(self.path, durable=True) as unfinished:
                with unfinished.open("xb") as file:
                    file.write(schema_message(self.columns))
                    for batch in batches:
                        file.write(batch_message(batch))
                        rows, count = rows + len(batch), count + 1
                # Some systems replace no file that is open.
                self.close()
            self.rows, self.batches = rows, count
        finally:
            if self._descriptor < 0:
                # Whichever of the two files is there now, it is whole.
                self._end = self.path.stat().st_size
                self._open()

    def close(self) -> None:
        """Let the file go; harmless when it is closed.

        Raises:
            OSError: A network disk says only now that it did not take what was written.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
