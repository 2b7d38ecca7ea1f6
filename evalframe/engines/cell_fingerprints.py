"""The fingerprints of cells: an evaluator's code, and what it reads of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evalframe.core.binding import Binding
from evalframe.core.columns import chunked
from evalframe.core.fingerprint import of_cell
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import PlannedEvaluator, Rows


def cell_fingerprints(binding: Binding, code: str, inputs: Inputs, rows: Rows) -> list[str]:
    """The fingerprints of these rows' cells.

    Args:
        binding: What the evaluator reads.
        code: The digest of the evaluator itself.
        inputs: The values.
        rows: Which rows; their outputs must be there if they are read.
    """
    numbers, found = np.asarray(rows, dtype=np.int64), list[str]()
    for chunk in chunked(len(numbers)):
        columns = [inputs.values(source, numbers[chunk]) for source in binding.reads]
        found += [of_cell(code, values) for values in zip(*columns, strict=True)]
    return found


class Fingerprints:
    """Those of the cells that a run makes."""

    def __init__(
        self, evaluators: Sequence[PlannedEvaluator], codes: Mapping[str, str], inputs: Inputs
    ) -> None:
        """Remember whose, by position; nothing is read yet.

        Args:
            evaluators: The evaluators of the run.
            codes: Name -> the digest of the evaluator itself.
            inputs: The values.
        """
        self._evaluators = evaluators
        self._codes = codes
        self._inputs = inputs

    def __call__(self, place: int, rows: Rows) -> list[str]:
        """The fingerprints of an evaluator's cells on these rows."""
        planned = self._evaluators[place]
        code = self._codes[planned.name]
        return cell_fingerprints(planned.call.binding, code, self._inputs, rows)
