"""A file that is whole or not there: it takes its name when all of it is written."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNFINISHED = ".tmp"


@contextmanager
def finished(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """A path beside the target that takes its place at the end, or vanishes.

    Args:
        target: The file to be; one of that name stays until then.
        durable: Whether the disk must have it before the old file goes, so that one of the
            two is there after a power failure.
    """
    unfinished = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}{_UNFINISHED}")
    try:
        yield unfinished
        if durable:
            _sync(unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    if durable:
        # Not every system opens folders; the file itself is safe already.
        with contextlib.suppress(OSError):
            _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what a killed process left unfinished; only for a folder that nobody else uses."""
    for left in folder.glob(f".*{_UNFINISHED}"):
        left.unlink(missing_ok=True)
