"""Which row is which among those that are equal in what a task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from evalframe.core.binding import Binding
from evalframe.core.call_info import Occurrence
from evalframe.core.columns import chunked
from evalframe.core.fingerprint import of_values
from evalframe.engines.inputs import Inputs


class Occurrences:
    """The occurrence of each row of a run, in the order of the rows.

    It is a fact of the row: whichever rows a run makes, and in whatever order, each has the
    number that it has among all of them. They are read once, by the chunk, and 24 bytes a row
    are kept.

    Examples:
        >>> import pandas as pd
        >>> from evalframe.core.binding import Binding
        >>> from evalframe.core.columns import Column
        >>> from evalframe.core.namespace import ColumnSource
        >>> from evalframe.engines.inputs import Inputs
        >>> from evalframe.engines.occurrences import Occurrences
        >>> frame = pd.DataFrame({"q": ["a", "b", "a"]})
        >>> inputs = Inputs(lambda name: Column(name, frame[name]), ["q"], frame.index, 1)
        >>> occurrences = Occurrences(Binding((ColumnSource("q"),), ()), inputs, None)
        >>> [occurrences[row].number for row in range(3)]
        [1, 1, 2]
    """

    def __init__(
        self, binding: Binding, inputs: Inputs, repetition_of: Sequence[int] | None
    ) -> None:
        """Read the rows.

        Args:
            binding: What the task reads.
            inputs: The values.
            repetition_of: As in `Plan`.
        """
        # Rows that are repeated are equal in each repetition: one of them is read.
        self._repetitions = inputs.repetitions
        self._digests = np.frombuffer(b"".join(_digests(binding, inputs)), "<u8").reshape(-1, 2)
        keys = pd.DataFrame({"first": self._digests[:, 0], "second": self._digests[:, 1]})
        if repetition_of is not None:
            keys["repetition"] = repetition_of
        self._numbers = keys.groupby([*keys], sort=False).cumcount().to_numpy() + 1

    def __getitem__(self, row: int) -> Occurrence:
        """That of a row of the result."""
        place = row // self._repetitions
        return Occurrence(self._digests[place].tobytes().hex(), int(self._numbers[place]))


def _digests(binding: Binding, inputs: Inputs) -> Iterator[bytes]:
    """What stands for the values of each row of the dataset, a chunk's in one piece."""
    each = inputs.repetitions
    for rows in chunked(len(inputs.index) // each):
        numbers = np.arange(rows.start, rows.stop) * each
        columns = [inputs.values(source, numbers) for source in binding.reads]
        records = zip(*columns, strict=True) if columns else ((),) * len(numbers)
        yield bytes.fromhex("".join(map(of_values, records)))
