"""What went wrong, cell by cell, and in print each error once.

Owns   the rows of failed cells and failed tasks, and how they are counted and shown.
Leaves the texts of errors to core.schema, tracebacks to core.run_info.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from evalframe.analysis.scores import cells, names
from evalframe.core import run_info, schema
from evalframe.core.columns import TEXT

TASK = "<task>"

_NO_FAILURES = frozenset({schema.SKIPPED, schema.TASK_FAILED})
_SHOWN_LINES = 10
_SHOWN_ROWS = 5
_SHOWN_TEXT = 200


def failures(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per failed cell, and one per failed task; skipped cells have not failed.

    Printed, it shows each distinct error once with its count and first rows. It is an
    ordinary frame all the same: whatever is taken from it (`.head()`, a filter, a column)
    prints as pandas does.

    Args:
        frame: A frame with results.

    Returns:
        Columns `position` (row number from 0), `index` (the row's label; a tuple for a
        MultiIndex), `evaluator` ("<task>" for a failed task), `kind`, `message` and
        `traceback` (of the first cell with that error; NA where there is none), by position,
        then in the evaluators' order.

    Raises:
        DatasetError: Several columns have the name of one result.

    Examples:
        >>> import evalframe as ef
        >>> def ratio(output):
        ...     return 1 / len(output)
        >>> scored = ef.run_experiment([{"output": ""}, {"output": "4"}], evaluators=[ratio])
        >>> ef.failures(scored)[["position", "evaluator", "kind"]].values.tolist()
        [[0, 'ratio', 'exception']]
    """
    tracebacks = run_info.remembered(frame.attrs).tracebacks
    found = _found(frame)
    texts = {text: _parts(text, tracebacks) for text in {item.text for item in found}}
    positions = np.array([item.position for item in found], dtype=np.int64)
    index = frame.index.take(positions)
    if isinstance(index, pd.MultiIndex):
        index = index.to_flat_index()
    return Failures(
        {
            "position": pd.Series(positions, dtype=np.int64),
            "index": pd.Series(index.array, dtype=index.dtype),
            "evaluator": _text([item.evaluator for item in found]),
            "kind": _text([texts[item.text][0] for item in found]),
            "message": _text([texts[item.text][1] for item in found]),
            "traceback": _text([texts[item.text][2] for item in found]),
        }
    )


class _Found(NamedTuple):
    position: int
    order: int
    evaluator: str
    text: str


def _found(frame: pd.DataFrame) -> list[_Found]:
    """Every failure in the frame, in order."""
    sources = [(TASK, schema.TASK_ERROR)]
    sources += [(name, schema.column(name, schema.ERROR)) for name in names(frame)]
    found = []
    for order, (evaluator, column) in enumerate(sources):
        errors = cells(frame, column, schema.TEXT)
        positions = np.flatnonzero(errors.is_valid().to_numpy()).tolist()
        found += [
            _Found(position, order, evaluator, text)
            for position, text in zip(positions, errors.drop_null().to_pylist(), strict=True)
            if schema.error_kind(text) not in _NO_FAILURES
        ]
    return sorted(found)


def _parts(text: str, tracebacks: dict[str, str]) -> tuple[str, str, str | None]:
    kind = schema.error_kind(text)
    return kind, text.removeprefix(kind).removeprefix(":").lstrip(), tracebacks.get(text)


def _text(values: list[str | None]) -> pd.Series:
    return pd.Series(values, dtype=TEXT)


class _Distinct(NamedTuple):
    """One error of one evaluator, on however many rows."""

    evaluator: str
    error: str
    times: int
    positions: list[int]

    @property
    def rows(self) -> str:
        shown = ", ".join(map(str, self.positions[:_SHOWN_ROWS]))
        return shown + (", ..." if self.times > _SHOWN_ROWS else "")


def _distinct(table: pd.DataFrame) -> list[_Distinct]:
    """The errors of a table of failures, the most frequent first."""
    positions: dict[tuple[str, str, str], list[int]] = {}
    columns = [table[name].tolist() for name in ("evaluator", "kind", "message", "position")]
    for evaluator, kind, message, position in zip(*columns, strict=True):
        positions.setdefault((evaluator, kind, message), []).append(position)
    errors = [
        _Distinct(evaluator, f"{kind}: {message}", len(rows), rows)
        for (evaluator, kind, message), rows in positions.items()
    ]
    return sorted(errors, key=lambda error: -error.times)


def failure_lines(frame: pd.DataFrame) -> list[str]:
    """One line per distinct error of an evaluator with its count, the most frequent first.

    At most ten, and then one that says how many more there are.
    """
    return _lines(_distinct(failures(frame)))


def _lines(errors: list[_Distinct]) -> list[str]:
    lines = [f"{error.times} x {error.evaluator}: {_short(error.error)}" for error in errors]
    return _capped(lines)


def _capped(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN_LINES
    return [*lines[:_SHOWN_LINES], f"... and {more} more"] if more > 0 else lines


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_TEXT else line[: _SHOWN_TEXT - 3] + "..."


_READ = frozenset({"position", "evaluator", "kind", "message"})
_HINT = "Row by row: .head(20). A traceback: ['traceback'].dropna().iloc[0]."


class Failures(pd.DataFrame):
    """A table of failures that prints each distinct error once."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        # What is taken from this table may lack its columns, and prints as pandas does.
        return pd.DataFrame

    @property
    def _whole(self) -> bool:
        """Whether nobody has taken a column away in place."""
        return _READ.issubset(self.columns)

    def __repr__(self) -> str:
        if not self._whole:
            return super().__repr__()
        errors = _distinct(self)
        if not errors:
            return "No failures."
        lines = [
            f"{error.times} x {error.evaluator}: {_short(error.error)}  [rows {error.rows}]"
            for error in errors
        ]
        return "\n".join([self._headline(errors), *_capped(lines), _HINT])

    def _repr_html_(self) -> str:
        if not self._whole:
            return str(pd.DataFrame(self).to_html(max_rows=20))
        errors = _distinct(self)
        if not errors:
            return "<p>No failures.</p>"
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells_) + "</tr>"
            for cells_ in (
                (str(error.times), error.evaluator, _short(error.error), error.rows)
                for error in errors[:_SHOWN_LINES]
            )
        )
        more = len(errors) - _SHOWN_LINES
        tail = f"<p>... and {more} more</p>" if more > 0 else ""
        head = "<tr><th>count</th><th>evaluator</th><th>error</th><th>rows</th></tr>"
        return (
            f"<p>{html.escape(self._headline(errors))}</p><table><thead>{head}</thead>"
            f"<tbody>{rows}</tbody></table>{tail}<p>{html.escape(_HINT)}</p>"
        )

    def _headline(self, errors: list[_Distinct]) -> str:
        failed = "1 failure" if len(self) == 1 else f"{len(self)} failures"
        return f"{failed}, {len(errors)} distinct:"
