"""The frame that goes back to the user: the dataset's own columns, and those of a run.

assembled  result columns after its own
updated    result columns in the places they have
repeated   each row several times
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.columns import backed


def repeated(frame: pd.DataFrame, times: int) -> pd.DataFrame:
    """Each row so many times, with the column `repetition`, which counts from 1."""
    rows = np.repeat(np.arange(len(frame)), times)
    numbers = backed(pa.array(np.tile(np.arange(1, times + 1), len(frame))))
    return assembled(frame.iloc[rows], {schema.REPETITION: numbers}, ())


def _own(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - a user's object may refuse to be copied in any way
        return value


def assembled(
    frame: pd.DataFrame, columns: Mapping[str, Any], drop: Sequence[Hashable]
) -> pd.DataFrame:
    """A new frame: the given one without `drop`, then the columns; no value is copied.

    Args:
        frame: The dataset's rows; never changed.
        columns: Name -> pandas array or Series of the frame's length.
        drop: Columns of the frame that are made anew.
    """
    kept = frame.drop(columns=list(drop)) if drop else frame
    if not columns:
        return kept.copy(deep=False)
    made = pd.DataFrame(dict(columns), index=frame.index, copy=False)
    joined = pd.concat([kept, made], axis=1)
    joined.columns.names = frame.columns.names
    # An index and attrs of its own: renaming the one or filling the other reaches nobody else.
    joined.index = frame.index.view()
    joined.attrs = {key: _own(value) for key, value in frame.attrs.items()}
    return joined


def updated(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A new frame: the given one with these columns, made anew in place where it has them.

    Columns that it lacks follow those of their evaluator that it has, else come last. Those of
    their evaluators that are not among them go.

    Args:
        frame: The dataset's rows; never changed.
        columns: Name -> pandas array or Series of the frame's length.
    """
    owners = {_owner(name) for name in columns}
    gone = [name for name in frame.columns if _owner(name) in owners and name not in columns]
    kept = frame.drop(columns=gone) if gone else frame.copy(deep=False)
    places = {label: place for place, label in enumerate(kept.columns)}
    for name, values in columns.items():
        if name in places:
            kept.isetitem(places[name], getattr(values, "array", values))
    fresh = {name: values for name, values in columns.items() if name not in places}
    joined = assembled(kept, fresh, ())
    last = {_owner(label): place for label, place in places.items()}
    ends = [last.get(_owner(name), len(places)) for name in fresh]
    order = np.argsort([*range(len(places)), *ends], kind="stable")
    return joined if (np.diff(order) == 1).all() else joined.iloc[:, order]


def _owner(label: Hashable) -> Hashable:
    """Whose result a column is: an evaluator's name, or the task; None for the dataset's own."""
    if label in (schema.OUTPUT, schema.TASK_ERROR):
        return schema.TASK_ERROR
    return (schema.parse(label) or (None,))[0]
