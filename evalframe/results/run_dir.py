"""The folder of a run: where it is, that it can be used, and what lies in it.

journal/          results as they come (journal.py)
replies.sqlite    replies of models, for the reply cache
run.json          what ran, when, with which counts (run_record.py)
lock              who uses it now (run_lock.py)

RunFolder   for who only looks into it
RunDir      for the run that writes it
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from evalframe.core.errors import RunDirError, listed
from evalframe.results.run_lock import HeldError, Holder, RunLock, flock
from evalframe.results.run_record import NewerRecordError, RunRecord
from evalframe.results.whole_file import finished, sweep

_RECORD = "run.json"
_JOURNAL = "journal"
_REPLIES = "replies.sqlite"
_LOCK = "lock"

_ANOTHER = "Name another run_dir."


class RunFolder:
    """The folder as it is: nothing in it is changed, and it need not be there.

    Attributes:
        shown: The argument as the user wrote it.
        path: The folder.
        journal: The folder of the journal.
        replies: The file for the reply cache.

    Examples:
        >>> from evalframe.results.run_dir import RunFolder
        >>> folder = RunFolder("runs/none_yet")
        >>> folder.check()
        >>> folder.record() is None, folder.path.exists()
        (True, False)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Look at nothing yet.

        Args:
            path: The folder.
        """
        self.shown = f"run_dir={os.fspath(path)!r}"
        self.path = Path(path).expanduser().absolute()
        self.journal = self.path / _JOURNAL
        self.replies = self.path / _REPLIES

    def check(self) -> None:
        """See that a run could use it, as far as that is known without writing.

        Raises:
            RunDirError: It is a file, holds something else, cannot be read, or a newer evalframe
                wrote it.
        """
        try:
            self._check_content()
        except FileNotFoundError:
            return
        except OSError as exc:
            self._refuse_for(exc)
        except ValueError as exc:
            self._refuse(f"{exc}. It must be the path of a folder.")

    def make(self) -> None:
        """Make the folder if it is not there, its parents too.

        Raises:
            RunDirError: It cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            self._refuse_for(exc)
        except ValueError as exc:  # a null byte, or half of a surrogate pair
            self._refuse(f"{exc}. It must be the path of a folder.")

    def record(self) -> RunRecord | None:
        """What the newest run has written; None before the first.

        Raises:
            RunDirError: `run.json` is not ours, is damaged, or a newer evalframe wrote it.
        """
        file = self.path / _RECORD
        try:
            return RunRecord.from_json(file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except NewerRecordError:
            self._refuse(
                "a newer evalframe wrote its run.json. Run: pip install --upgrade evalframe, or "
                "name another run_dir."
            )
        except (ValueError, RecursionError) as exc:
            self._refuse(
                f"its run.json cannot be read: {exc}. If this is the folder of a run, delete "
                f"{str(file)!r}: results are in the journal. Otherwise name another run_dir."
            )
        except OSError as exc:
            self._refuse_for(exc)

    def _refuse(self, why: str) -> NoReturn:
        message = f"{self.shown} cannot be used: {why}"
        raise RunDirError(message)

    def _refuse_for(self, exc: OSError) -> NoReturn:
        """Say what the system said; an error of ours is told as it is."""
        if isinstance(exc, RunDirError):
            raise exc
        if exc.errno in (errno.EEXIST, errno.ENOTDIR):
            places = (self.journal, self.path, *self.path.parents)
            file = next((place for place in places if place.is_file()), self.path)
            self._refuse(f"{str(file)!r} is a file. {_ANOTHER}")
        self._refuse(f"{exc.strerror or exc}. It must be a folder that can be written.")

    def _check_content(self) -> None:
        """Refuse a folder that is somebody else's: nothing of it could be told from ours."""
        if (self.path / _RECORD).exists():
            self.record()
            return
        # Hidden files are those of file managers and git; our own unfinished ones are hidden too.
        others = sorted(
            name
            for name in os.listdir(self.path)  # noqa: PTH208 - names are all that is wanted
            if not name.startswith((".", _REPLIES)) and name not in (_JOURNAL, _LOCK)
        )
        if others:
            self._refuse(f"it holds other files: {listed(others)}. Name a new or an empty folder.")


class RunDir(RunFolder):
    """A folder that one run has to itself, until it is closed.

    Attributes:
        path: The folder.
        journal: The folder of the journal; it is there.
        replies: The file for the reply cache.

    Examples:
        >>> from evalframe.results.run_dir import RunDir
        >>> from evalframe.results.run_record import RunRecord
        >>> with RunDir("runs/qa") as run_dir:
        ...     run_dir.write(RunRecord(rows=3))
        ...     run_dir.record().rows
        3
    """

    def __init__(
        self, path: str | os.PathLike[str], *, take: Callable[[int], bool | None] = flock
    ) -> None:
        """Make the folder if it is not there, its parents too, and take its lock.

        Args:
            path: The folder: a new one, an empty one, or one of an earlier run.
            take: Takes the system's lock on an open file.

        Raises:
            RunDirError: It is a file, holds something else, cannot be written, is in use by
                another run, or a newer evalframe wrote it. Nothing in it was changed.
        """
        super().__init__(path)
        self.make()
        try:
            self._check_content()
            self._check_writable()
            self._lock = RunLock(self.path / _LOCK, take)
        except HeldError as exc:
            self._refuse(self._held(exc.holder, certain=exc.certain))
        except OSError as exc:
            self._refuse_for(exc)
        try:
            self.journal.mkdir(exist_ok=True)
            sweep(self.path)
        except OSError as exc:
            self.close()
            self._refuse_for(exc)
        except BaseException:
            self.close()
            raise

    def _check_writable(self) -> None:
        with tempfile.TemporaryFile(dir=self.path):
            pass

    def _held(self, holder: Holder | None, *, certain: bool) -> str:
        if holder is None:
            return f"another process is using it. Wait until it has ended. {_ANOTHER}"
        who = f"process {holder.pid} on {holder.host!r}, since {holder.since}"
        if not certain:
            return (
                f"{who}, is using it, by its lock file. Wait until it has ended; if it is gone, "
                f"delete {str(self.path / _LOCK)!r}."
            )
        if holder.runs() is False:
            return (
                f"{who}, is gone, but a process that it started still holds the lock. End that "
                f"one. {_ANOTHER}"
            )
        if holder.pid == os.getpid():
            return f"another run of this process has been using it since {holder.since}. {_ANOTHER}"
        return (
            f"{who}, is using it; two runs at once would pay twice. Wait until it has ended, or "
            "name another run_dir."
        )

    def write(self, record: RunRecord) -> None:
        """Put the record in the place of the one before, whole or not at all.

        Raises:
            RunDirError: The disk fails; the record before is still there.
        """
        try:
            with finished(self.path / _RECORD, durable=True) as unfinished:
                unfinished.write_text(record.to_json(), "utf-8")
        except OSError as exc:
            self._refuse_for(exc)

    def close(self) -> None:
        """Let others use it; harmless when it was done."""
        self._lock.release()

    def __enter__(self) -> Self:
        """Nothing to do: it is taken."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let others use it."""
        self.close()
