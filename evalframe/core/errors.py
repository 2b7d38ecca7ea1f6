"""Every error that evalframe raises on its own account.

EvalframeError
├── DatasetError             the data cannot be read or used as it is
│   ├── ColumnNotFoundError  a column that was asked for is not there
│   └── UnsupportedValueError  a value that evaluators cannot be given
├── ExperimentError          what was asked for cannot run; raised before the first call
├── CellError                a cell failed without an exception of its own (errors="raise")
├── StuckCallsError          too many timed-out calls are still running
├── MissingExtraError        an optional package is needed
└── UnknownEvaluatorError    the frame has no results of an evaluator of that name
├── RunDirError              a folder cannot be the run_dir of this run
├── JournalError             the journal of a run cannot be written or read
└── MissingExtraError        an optional package is needed
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from evalframe.core.names import ROLES

_SHOWN_COLUMNS = 12


class EvalframeError(Exception):
    """Base of all errors raised by evalframe.

    Examples:
        >>> import evalframe as ef
        >>> issubclass(ef.ExperimentError, ef.EvalframeError)
        True
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state: the constructors take facts, not the finished message."""
        return _restore, (type(self), self.args, self.__dict__)


class DatasetError(EvalframeError, ValueError):
    """The data cannot be read, or not be used as it is.

    Examples:
        >>> import evalframe as ef
        >>> ef.Dataset("answers.docx")
        Traceback (most recent call last):
        ...
        evalframe.core.errors.DatasetError: Cannot read 'answers.docx': ...
    """


class ColumnNotFoundError(DatasetError):
    """Columns that were asked for are not in the data; all of them are named at once.

    Examples:
        >>> import evalframe as ef
        >>> ef.Dataset([{"question": "1+1", "answer": "2"}], input="question", output="answr")
        Traceback (most recent call last):
        ...
        evalframe.core.errors.ColumnNotFoundError: Column 'answr' (role: output) is not in ...
    """

    def __init__(self, missing: Mapping[str, Hashable], columns: Sequence[Hashable]) -> None:
        """Build the message from facts.

        Args:
            missing: What asked for it (`"input"`, `"metadata"`, `"types"`) -> the absent column's
                name, or a tuple of names.
            columns: The columns that are there.
        """
        lines = []
        for asker, names in missing.items():
            role = f"role: {asker}" if asker in ROLES else asker
            for column in names if isinstance(names, tuple) else (names,):
                near = nearest(column, columns)
                hint = f" Did you mean {near!r}?" if near is not None else ""
                if hint and asker in ROLES and not isinstance(names, tuple):
                    hint += f" Pass {asker}={near!r}."
                lines.append(f"Column {column!r} ({role}) is not in the data.{hint}")
        lines.append(f"It has: {listed(columns)}.")
        super().__init__(" ".join(lines))
        self.missing = dict(missing)


class UnsupportedValueError(DatasetError, TypeError):
    """A value that evaluators cannot be given and files cannot keep.

    Examples:
        >>> import evalframe as ef
        >>> ef.Dataset([{"input": {"tags": {"a", "b"}}}]).to_arrow()
        Traceback (most recent call last):
        ...
        evalframe.core.errors.UnsupportedValueError: Column 'input', row 0, at .tags: a set ...
    """


class ExperimentError(EvalframeError, ValueError):
    """What was asked for cannot run. Raised before the first call of anything.

    `problems` holds every mistake that was found, so that they can be mended in one go.

    Examples:
        >>> import evalframe as ef
        >>> ef.run_experiment([{"input": "1+1", "output": "2"}], evaluators=[])
        Traceback (most recent call last):
        ...
        evalframe.core.errors.ExperimentError: There is nothing to run: ...
    """

    def __init__(self, problems: Sequence[str]) -> None:
        """Join the problems; a single one stands alone, several are numbered."""
        self.problems = list(problems)
        if len(problems) == 1:
            message = problems[0]
        else:
            numbered = "\n".join(f"  {i}. {text}" for i, text in enumerate(problems, start=1))
            message = f"{len(problems)} problems, found before anything was run:\n{numbered}"
        super().__init__(message)


class CellError(EvalframeError):
    """A cell failed without an exception of its own, and `errors="raise"` was asked for.

    Examples:
        >>> import evalframe as ef
        >>> def percent(output): return 97.0
        >>> ef.run_experiment([{"output": "x"}], evaluators=[percent], errors="raise")
        Traceback (most recent call last):
        ...
        evalframe.core.errors.CellError: Evaluator 'percent', row 0: range: ...
    """


class StuckCallsError(EvalframeError):
    """Too many calls went on running after their timeout, so the run was stopped.

    What was finished is `.partial` on this exception, and `evalframe.last_run()`.

    Examples:
        >>> import evalframe as ef
        >>> issubclass(ef.StuckCallsError, ef.EvalframeError)
        True
    """


class RunDirError(EvalframeError, OSError):
    """A folder cannot be the `run_dir` of this run. Raised before the first call.

    Examples:
        >>> import evalframe as ef
        >>> issubclass(ef.RunDirError, ef.EvalframeError)
        True
    """


class JournalError(EvalframeError, OSError):
    """The journal of a run cannot be written, or not be read.

    `safe` holds how many cells the journal has of each evaluator, and under None how many task
    outputs, where that is known.

    Examples:
        >>> import evalframe as ef
        >>> issubclass(ef.JournalError, ef.EvalframeError)
        True
    """

    def __init__(self, message: str, *, safe: Mapping[str | None, int] | None = None) -> None:
        """Keep what is safe."""
        super().__init__(message)
        self.safe = dict(safe or {})


class MissingExtraError(EvalframeError, ImportError):
    """An optional package is needed; the message says what to install.

    Examples:
        >>> import evalframe as ef
        >>> raise ef.MissingExtraError("matplotlib", extra="plot", needed_by="plots")
        Traceback (most recent call last):
        ...
        evalframe.core.errors.MissingExtraError: plots needs matplotlib, which is not ...
    """

    def __init__(self, package: str, *, extra: str, needed_by: str) -> None:
        """Say what needs which package and how to get it."""
        super().__init__(
            f"{needed_by} needs {package}, which is not installed. "
            f"Run: pip install 'evalframe[{extra}]'"
        )


class UnknownEvaluatorError(EvalframeError, KeyError):
    """The frame has no results of an evaluator of that name; the message has the nearest."""

    def __init__(self, name: Any, known: Sequence[str]) -> None:
        """Say which evaluators there are."""
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near is not None else ""
        super().__init__(
            f"The frame has no results of an evaluator {name!r}.{hint} It has: {listed(known)}."
        )

    # KeyError would print the message as a Python literal.
    __str__ = Exception.__str__


def _restore(cls: type[EvalframeError], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def nearest(name: Hashable, options: Iterable[Hashable]) -> Hashable | None:
    """The option whose spelling is closest to `name`, or None when none is close."""
    if not isinstance(name, str):
        return None
    texts = [option for option in options if isinstance(option, str)]
    lowered = {option.casefold(): option for option in texts}
    if name.casefold() in lowered:
        return lowered[name.casefold()]
    found = difflib.get_close_matches(name, texts, n=1, cutoff=0.6)
    return found[0] if found else None


def listed(names: Iterable[Hashable]) -> str:
    """Names in quotes, cut after a dozen, for an error message."""
    shown = [repr(name) for name in names]
    if not shown:
        return "nothing"
    more = len(shown) - _SHOWN_COLUMNS
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(shown[:_SHOWN_COLUMNS]) + tail


def counted(count: int, what: str) -> str:
    """A number and what it counts, for a message: "1 cell", "1,200 cells"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
