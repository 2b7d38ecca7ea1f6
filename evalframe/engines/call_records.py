"""When what calls end in is written: what ends in one turn of the loop, at the end of that turn.

CallRecord   one call
CallRecords  makes those of a run, and has them written
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from evalframe.core.errors import JournalError
from evalframe.core.records import Cell
from evalframe.engines.recorder import Recorder

_BEAT_S = 1.0


class CallRecord:
    """One call: when it began, and what it ended in, which is kept only once.

    A call that took too long may give something all the same, and its cell has ended by then.
    """

    __slots__ = ("_puts", "_started")

    def __init__(self, put: Callable[..., None] | None = None) -> None:
        """A call that has not begun.

        Args:
            put: Keeps what is given to `keep`; None if nothing is to be kept.
        """
        self._puts = [] if put is None else [put]
        self._started = time.monotonic()

    def begin(self) -> None:
        """Count its seconds from now."""
        self._started = time.monotonic()

    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._started

    def keep(self, *ended: Any) -> None:
        """Keep what it ended in, unless that was done; from any thread."""
        try:
            put = self._puts.pop()  # in one step, so that of two threads one has it
        except IndexError:
            return
        put(*ended)


class CallRecords:
    """The records of a run's calls; of a run that keeps nothing they only count seconds."""

    def __init__(self, recorder: Recorder | None, failed: Callable[[JournalError], None]) -> None:
        """Nothing is written yet.

        Args:
            recorder: What writes; None if nothing does.
            failed: Is told when the disk fails.
        """
        self._recorder = recorder
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: asyncio.Handle | None = None
        self._beat: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Write from now on, every second also what waits; on the loop of the calls."""
        if self._recorder is not None:
            self._loop = asyncio.get_running_loop()
            self._beat = self._loop.call_later(_BEAT_S, self._beaten, self._recorder)

    def stop(self) -> None:
        """Write no more from here."""
        for handle in (self._soon, self._beat):
            if handle is not None:
                handle.cancel()

    def _beaten(self, recorder: Recorder) -> None:
        self._write()
        recorder.save()
        if self._loop is not None:
            self._beat = self._loop.call_later(_BEAT_S, self._beaten, recorder)

    def _written(self) -> None:
        """Have written what was put: when this turn of the loop ends, or in a thread at once."""
        if asyncio._get_running_loop() is not self._loop:  # noqa: SLF001 - None elsewhere
            self._write()
        elif self._soon is None and self._loop is not None:
            self._soon = self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._soon = None
        assert self._recorder is not None  # noqa: S101 - else nothing was put
        try:
            self._recorder.tick()
        except JournalError as exc:
            self._failed(exc)

    def of_output(self, row: int, values: list[Any], number: int | None) -> CallRecord:
        """Keeps an output and its error; to be made before the call, which may change its values.

        Args:
            row: The output's row.
            values: What the task reads.
            number: The row's among equal ones; None where the task asks no model.
        """
        recorder = self._recorder
        if recorder is None:
            return CallRecord()
        key = recorder.task_key(row, values, number)

        def put(output: Any, error: str | None = None) -> None:
            recorder.put_output(row, key, output, error)
            self._written()

        return CallRecord(put)

    def of_cell(self, place: int, row: int, values: list[Any]) -> CallRecord:
        """Keeps a cell; to be made before the call, which may change its values.

        Args:
            place: The evaluator's.
            row: The cell's row.
            values: What the evaluator reads.
        """
        recorder = self._recorder
        if recorder is None:
            return CallRecord()
        key = recorder.key(place, row, values)

        def put(cell: Cell) -> None:
            recorder.put(place, row, key, cell, record.seconds(), paid=True)
            self._written()

        record = CallRecord(put)
        return record
