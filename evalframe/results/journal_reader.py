"""The cells of a journal for who only looks: no file is made, and no torn tail cut off.

Needs no lock: a file grows by whole messages, of which one that is being written is left out, and
is replaced by another as a whole. What a run that is under way writes later is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from evalframe.core.errors import JournalError
from evalframe.results.journal_cells import JournalCells
from evalframe.results.journal_table import TASK_FIELDS, cells_in, fields_of, files_of


class JournalReader:
    """The tables of a journal as they are on disk.

    Examples:
        >>> from pathlib import Path
        >>> from evalframe.results.journal_reader import JournalReader
        >>> len(JournalReader(Path("none_yet"), {"exact": {}}).cells("exact"))
        0
    """

    def __init__(
        self,
        folder: Path,
        evaluators: Mapping[str, Mapping[str, pa.DataType]],
        *,
        details: bool = False,
    ) -> None:
        """Read nothing yet.

        Args:
            folder: Need not be there.
            evaluators: Name of each, and its columns beyond the five.
            details: Whether their latencies are wanted.
        """
        self._folder = folder
        self._fields = {
            name: fields_of(further, details=details) for name, further in evaluators.items()
        }

    def cells(self, name: str) -> JournalCells:
        """The evaluator's cells.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        return self._read(name, self._fields[name])

    def outputs(self) -> JournalCells:
        """The task's outputs and errors.

        Raises:
            JournalError: A file is damaged or cannot be read.
        """
        return self._read(None, TASK_FIELDS)

    def _read(self, name: str | None, fields: Mapping[str, pa.DataType]) -> JournalCells:
        try:
            files = files_of(self._folder, name)
        except FileNotFoundError:
            files = {}
        except OSError as exc:
            message = f"The journal {str(self._folder)!r} cannot be read: {exc.strerror or exc}."
            raise JournalError(message) from exc
        return cells_in(files.values(), fields)
