"""One process at a time on a run_dir.

Owns   the lock file: the system's lock on it, and its text, which says who holds it.

The system's lock (flock) ends with the process, however that ends, so a file left behind by
kill -9 is no obstacle. Where a file system or platform has none, the text decides: it names the
process, its host and that host's boot, so that one that is gone is told from one that runs.
Between two processes that start in the same instant only the system's lock decides.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_LONGEST_TEXT = 4_096


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        pid: Its number.
        host: Name of its machine.
        boot: What the machine calls its present boot; None where it has no name for it.
        born: When the process began, in the machine's own count; None where that is unknown.
        since: When it took the lock, ISO 8601.
    """

    pid: int
    host: str
    boot: str | None
    born: str | None
    since: str

    @classmethod
    def this_process(cls) -> Self:
        """The one that asks."""
        pid = os.getpid()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(pid, socket.gethostname(), _boot(), _born(pid), since)

    @classmethod
    def parsed(cls, text: str) -> Self | None:
        """The holder that a lock file names; None for one that is empty or torn."""
        try:
            raw = json.loads(text)
            found = cls(**raw)
        except (ValueError, TypeError, RecursionError):
            return None
        texts = all(part is None or isinstance(part, str) for part in (found.boot, found.born))
        named = isinstance(found.host, str) and isinstance(found.since, str)
        return found if type(found.pid) is int and found.pid > 0 and texts and named else None

    def runs(self) -> bool | None:
        """Whether the process still runs; None where that cannot be known from here."""
        if self.host != socket.gethostname():
            return None
        if self.boot != _boot():
            return False
        if os.name != "posix":
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        return self.born == _born(self.pid)  # else its number was given to another process


def _boot() -> str | None:
    with contextlib.suppress(OSError):
        return _BOOT.read_text("ascii").strip()
    return None


def _born(pid: int) -> str | None:
    """Field 22 of /proc/<pid>/stat: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    return None


class HeldError(Exception):
    """Another run has the lock."""

    def __init__(self, holder: Holder | None, *, certain: bool) -> None:
        """Keep who has it.

        Args:
            holder: None if the file does not say.
            certain: Whether the system says so; else only the file does.
        """
        super().__init__(holder)
        self.holder = holder
        self.certain = certain


def flock(descriptor: int) -> bool | None:
    """Take the system's lock on an open file: taken or not, None where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if exc.errno in _NO_LOCKS:
            return None
        raise
    return True


class RunLock:
    """A lock file that this process holds."""

    def __init__(self, path: Path, take: Callable[[int], bool | None] = flock) -> None:
        """Take the lock.

        Args:
            path: The file; it is made if it is not there, and stays.
            take: Takes the system's lock on an open file.

        Raises:
            HeldError: Another run has it.
            OSError: The file cannot be made or written.
        """
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o644)
        try:
            self._take(take)
        except BaseException:
            os.close(self._descriptor)
            raise
        _held.add(self)

    def _take(self, take: Callable[[int], bool | None]) -> None:
        taken = take(self._descriptor)
        holder = Holder.parsed(self._text())
        by_file = taken is None and holder is not None and holder.runs() is not False
        if taken is False or by_file:
            raise HeldError(holder, certain=taken is False)
        self._write(json.dumps(asdict(Holder.this_process())))

    def _text(self) -> str:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.read(self._descriptor, _LONGEST_TEXT).decode("utf-8", errors="replace")

    def _write(self, text: str) -> None:
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, text.encode())

    def release(self) -> None:
        """Let others in; harmless when it was done."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                # A full disk takes no text, but gives up some.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
            finally:
                # Also at a Ctrl-C: nobody else knows the descriptor any more.
                os.close(descriptor)

    def leave(self) -> None:
        """In a forked child: keep neither the lock nor the right to release it.

        Otherwise the workers of a killed run would hold its run_dir for as long as they live.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _leave_all() -> None:
    for lock in list(_held):
        lock.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
