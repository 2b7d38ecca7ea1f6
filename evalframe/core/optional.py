"""Optional packages: imported where they are used, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from evalframe.core.errors import MissingExtraError


def optional(package: str, *, extra: str, needed_by: str) -> Any:
    """The module `package`, imported now.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as exc:
        raise MissingExtraError(package, extra=extra, needed_by=needed_by) from exc
