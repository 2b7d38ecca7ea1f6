"""What to say of an exception that user code raised.

The text goes into the error cell; the traceback is kept once per distinct text.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from evalframe.core import schema
from evalframe.evaluators.normalize import text_of

# With a separator at its end: a neighbour's name may begin like ours.
_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_DEMO = _PACKAGE + "demo.py"
_LIBRARIES = tuple(
    path
    for key in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(key))
)
_LONGEST_TRACEBACK = 10_000
_MOST_TRACEBACKS = 100


def own_failure(exc: BaseException) -> Exception:
    """The exception that stands for one that user code raised; mostly that itself.

    CancelledError, which user code may raise about calls of its own, would end the run and
    whoever awaits it.
    """
    return exc if isinstance(exc, Exception) else stand_in(exc)


def stand_in(exc: BaseException) -> RuntimeError:
    """An exception that may pass where StopIteration and CancelledError would do harm."""
    failure = RuntimeError(f"the call raised {exception_message(exc)}")
    failure.__cause__ = exc
    return failure


def exception_text(exc: BaseException) -> str:
    """The error cell of an exception: kind, type, message, and the user's innermost line."""
    return schema.error_text(schema.EXCEPTION, exception_message(exc), place=_place(exc))


def exception_message(exc: BaseException) -> str:
    """Type and message of an exception; never fails."""
    try:
        message = str(exc)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        message = "(its message cannot be read)"
    return text_of(f"{type(exc).__name__}: {message}" if message else type(exc).__name__)


def _place(exc: BaseException) -> str:
    files = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(exc.__traceback__)]
    own = [(file, line) for file, line in files if not _is_ours(file)]
    mine = [(f, line) for f, line in own if not f.startswith(_LIBRARIES) or f == _DEMO] or own
    if not mine:
        return _place(exc.__cause__) if exc.__cause__ is not None else ""
    file, line = mine[-1]
    return f"({Path(file).name}:{line})"


def _is_ours(file: str) -> bool:
    """Whether a file is evalframe's own; the demo counts as a user's, as which it is written."""
    return file.startswith(_PACKAGE) and file != _DEMO


class Tracebacks:
    """The first traceback behind each distinct error text."""

    def __init__(self) -> None:
        """Start empty."""
        self.texts: dict[str, str] = {}

    def record(self, exc: BaseException) -> str:
        """Keep the traceback if the error is a new one; return the error cell."""
        error = exception_text(exc)
        if error not in self.texts and len(self.texts) < _MOST_TRACEBACKS:
            trace = _users_part(exc.__traceback__)
            lines = traceback.format_exception(type(exc), exc, trace)
            self.texts[error] = text_of("".join(lines))[-_LONGEST_TRACEBACK:]
        return error


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is not evalframe's."""
    found = trace
    while found is not None and _is_ours(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found
