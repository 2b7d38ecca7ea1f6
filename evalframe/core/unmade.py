"""Cells that nothing has been made of: rows that the user added to a frame with results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalframe.core import schema


def unmade_cells(frame: pd.DataFrame, evaluator: str) -> np.ndarray[Any, Any]:
    """For each row whether all columns of an evaluator are null.

    A cell that was made has an error, a label, a score or something in a column of its own.
    Where a frame has kept the error column only, nothing tells the two apart: then no cell is
    called unmade.
    """
    unmade = np.ones(len(frame), bool)
    fields = {pair[1]: label for label in frame if (pair := _field(label, evaluator))}
    if not fields.keys() - {schema.ERROR}:
        return np.zeros(len(frame), bool)
    # Scores first: mostly they are all there, and then no other column is looked at.
    for field in sorted(fields, key=lambda field: field != schema.SCORE):
        if not unmade.any():
            break
        unmade &= frame[fields[field]].isna().to_numpy(dtype=bool)
    return unmade


def _field(label: Any, evaluator: str) -> tuple[str, str] | None:
    pair = schema.parse(label)
    return pair if pair is not None and pair[0] == evaluator else None
