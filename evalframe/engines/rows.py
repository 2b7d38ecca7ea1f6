"""Arguments of one row at a time, decoded by the chunk behind the scenes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from evalframe.core.namespace import OutputSource
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Call

# Rows may end out of order: a few chunks stay decoded, an older one is decoded again.
_OPEN_CHUNKS = 4
_CHUNK_ROWS = 256  # fewer than elsewhere: they are held as Python objects


class RowReader:
    """Reads the values of calls, row by row; one reader per thread."""

    def __init__(self, inputs: Inputs) -> None:
        """Read from these inputs; nothing is decoded yet."""
        self._inputs = inputs
        self._chunks: OrderedDict[int, dict[int, list[list[Any] | None]]] = OrderedDict()

    def values(self, call: Call, row: int) -> list[Any]:
        """The values of the call's reads on a row; the row's output must be there if read."""
        start = row - row % _CHUNK_ROWS
        columns = self._columns(call, start)
        return [
            self._inputs.output(row) if column is None else column[row - start]
            for column in columns
        ]

    def _columns(self, call: Call, start: int) -> list[list[Any] | None]:
        if start not in self._chunks:
            self._chunks[start] = {}
            if len(self._chunks) > _OPEN_CHUNKS:
                self._chunks.popitem(last=False)
        decoded = self._chunks[start]
        # By identity: each call has lists and dicts of its own, no other call sees them.
        if id(call) not in decoded:
            rows = slice(start, min(start + _CHUNK_ROWS, len(self._inputs.index)))
            decoded[id(call)] = [
                None if isinstance(source, OutputSource) else self._inputs.values(source, rows)
                for source in call.binding.reads
            ]
        return decoded[id(call)]
