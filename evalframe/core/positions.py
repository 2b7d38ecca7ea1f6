"""Whether an index is a count of rows or holds labels."""

from __future__ import annotations

import pandas as pd


def is_counting(index: pd.Index) -> bool:
    """Whether the index is 0, 1, 2, ... of type RangeIndex; an int64 Index holds labels."""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
