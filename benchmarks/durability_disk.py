"""A disk with little room: a tmpfs where one can be mounted, else a limit for every file."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENOUGH = "256m"
# Task, judge and the replies have a file each.
_FILES = 3


@dataclass(frozen=True)
class SmallDisk:
    """A folder with little room.

    Attributes:
        path: The folder.
        file_limit: What the worker must not let its files exceed; None on a disk of its own.
    """

    path: Path
    file_limit: int | None

    def make_room(self) -> None:
        """Let there be enough; for a limit of files the worker has only not to be given any."""
        if self.file_limit is None:
            _mount("-o", f"remount,size={_ENOUGH}", str(self.path))

    def __str__(self) -> str:
        return "a tmpfs" if self.file_limit is None else "a limit for files (RLIMIT_FSIZE)"


@contextmanager
def small_disk(path: Path, room: int) -> Iterator[SmallDisk]:
    """Give a new folder with so many bytes; it is taken away again."""
    path.mkdir()
    if not _mounted(path, room):
        yield SmallDisk(path, room // _FILES)
        return
    try:
        yield SmallDisk(path, None)
    finally:
        subprocess.run([_program("umount"), str(path)], check=True)


def _mounted(path: Path, room: int) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    try:
        _mount("-t", "tmpfs", "-o", f"size={room}", "evalframe", str(path))
    except subprocess.CalledProcessError:
        return False  # root in a container may lack the right
    return True


def _mount(*arguments: str) -> None:
    subprocess.run([_program("mount"), *arguments], check=True, capture_output=True)


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None
    return found
