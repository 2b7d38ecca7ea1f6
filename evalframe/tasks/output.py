"""What a task may give, and the column it becomes."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.columns import TEXT, Column, as_objects, backed
from evalframe.core.nested import NotPlainError, Shape, is_null, plain, without_surrogates


class InvalidOutputError(ValueError):
    """A task gave something that cannot be an output."""


def checked_output(value: Any, declared: Any) -> Any:
    """The output as a plain Python value of the run's own.

    Args:
        value: What the task returned; None and NaN are null, and legal.
        declared: The task's declared type, or None.

    Raises:
        InvalidOutputError: It cannot be kept, or is not of the declared type.
    """
    if is_null(value):
        return None
    shape = Shape()
    try:
        shape.add(value)
    except NotPlainError as exc:
        if inspect.isawaitable(value):
            raise InvalidOutputError(_unawaited(value)) from None
        where = f" at {exc.where}" if exc.where else ""
        message = f"the task returned {exc.what}{where}, which cannot be kept. {exc.advice}"
        raise InvalidOutputError(message) from None
    found = plain(value)
    if shape.surrogates:
        found = without_surrogates(found)
    return found if declared in (None, "json") else _declared(found, declared)


def _unawaited(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()
    return "the task returned an awaitable from a plain function; define it with 'async def'"


def _declared(value: Any, declared: Any) -> Any:
    is_bool = isinstance(value, bool)
    fits = isinstance(value, declared) and is_bool == (declared is bool)
    if declared is float and isinstance(value, int) and not is_bool:
        with contextlib.suppress(OverflowError):
            return float(value)
    if not fits or (declared is int and not -(2**63) <= value < 2**63):
        message = (
            f"the task returned {type(value).__name__}, but declares output={declared.__name__}"
        )
        raise InvalidOutputError(message)
    return value


def output_column(outputs: list[Any], index: pd.Index, declared: Any) -> pd.Series:
    """The column `output`: of the declared type, else Arrow-backed if one type keeps all."""
    name = schema.OUTPUT
    if declared not in (None, "json"):
        array = pa.array(outputs, type=schema.EXTRA_TYPES[declared])
        return pd.Series(backed(array), index=index, name=name)
    objects = pd.Series(as_objects(outputs), index=index, name=name, dtype=object)
    if declared == "json":
        return objects
    if not any(value is not None for value in outputs):
        return pd.Series(np.full(len(outputs), None), index=index, name=name).astype(TEXT)
    return Column(name, objects).arrow_backed()
