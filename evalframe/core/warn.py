"""Warnings that point at the user's line, however deep they are found out."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def warn(message: str) -> None:
    """Warn at the innermost line that is neither evalframe's nor the standard library's."""
    depth = 1
    frame = sys._getframe(1)  # noqa: SLF001 - warnings itself counts frames this way
    library = str(Path(os.__file__).parent) + os.sep
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        installed = f"{os.sep}site-packages{os.sep}" in file
        if not file.startswith(_PACKAGE) and (installed or not file.startswith(library)):
            break
        frame = frame.f_back
        depth += 1
    warnings.warn(message, stacklevel=depth + 1)
