"""What the driver posts to the pump."""

from __future__ import annotations

from typing import NamedTuple

from evalframe.core.records import Cell


class OutputDone(NamedTuple):
    """A task call ended; `error` is None if the row has its output."""

    row: int
    error: str | None
    failure: BaseException | None


class CellDone(NamedTuple):
    """A cell that ran apart from the caller's thread ended."""

    place: int
    row: int
    cell: Cell
    failure: BaseException | None
    seconds: float


class DriverDone(NamedTuple):
    """Nothing more will be posted; `failure` is what ended the run early."""

    failure: BaseException | None


Message = OutputDone | CellDone | DriverDone
