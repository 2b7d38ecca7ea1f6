"""What the columns of a dataset are in one run: its mapping, and rows that have no output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalframe.core import schema
from evalframe.core.errors import ColumnNotFoundError
from evalframe.core.mapping import RoleMapping
from evalframe.core.namespace import BindingError, ColumnSource, Namespace
from evalframe.core.run_info import remembered
from evalframe.data.dataset import Dataset


def role_mapping(
    dataset: Dataset, roles: dict[str, Any], *, is_dataset: bool, has_task: bool
) -> tuple[RoleMapping, list[str]]:
    """Which column plays which role, and what is wrong with how that was said.

    What is given now comes before the Dataset's own mapping, and that before what the frame
    remembers of an earlier run.

    Args:
        dataset: The rows.
        roles: Role -> column as given to the run, None where not.
        is_dataset: Whether the user gave a Dataset, which has a mapping of its own.
        has_task: Whether a task makes the output.
    """
    given = {role: column for role, column in roles.items() if column is not None}
    problems = []
    if has_task and schema.OUTPUT in given:
        problems.append(
            "output= names a column of the data, but a task makes the output: leave one out."
        )
    if is_dataset and given:
        problems.append(
            f"The Dataset has its mapping already: give {', '.join(given)} to Dataset(...)."
        )
        given = {}
    before = remembered(dataset.attrs).role_mapping().within(dataset.columns)
    both = {**before.given(), **dataset.mapping.given(), **given}
    return RoleMapping.of(**{**both, schema.OUTPUT: None} if has_task else both), problems


def namespace(
    dataset: Dataset, mapping: RoleMapping, *, has_task: bool, adds: str | None
) -> Namespace:
    """What names stand for.

    Args:
        dataset: The rows.
        mapping: The roles.
        has_task: Whether a task makes the output.
        adds: The word of a run that adds to the results of others, if it is one.
    """
    columns = tuple(dataset.columns)
    if adds is not None and has_task:
        # The task's own, which no call of the run that made it has seen in its row.
        columns = tuple(label for label in columns if label != schema.OUTPUT)
    return Namespace(columns, mapping, has_task=has_task)


def missing_columns(names: Namespace) -> ColumnNotFoundError | None:
    """The error of the roles whose column is not there, None if all are."""
    try:
        names.mapping.check(names.columns)
    except ColumnNotFoundError as exc:
        return exc
    return None


def rows_without_output(
    dataset: Dataset, names: Namespace, repetitions: int, *, adds: bool
) -> dict[int, str]:
    """Rows of the run that got no output in earlier ones -> the error of their task.

    They are left out by all evaluators, as in the run of the task, if the column `output` is
    what plays the role of the output.

    Args:
        dataset: The rows.
        names: What names stand for.
        repetitions: How often each row is run.
        adds: Whether the run adds to the results of others. Then a null output without an error
            is one that is still to be made.
    """
    if names.has_task or schema.TASK_ERROR not in names.columns:
        return {}
    try:
        source = names.resolve(schema.OUTPUT)
    except BindingError:
        return {}
    if source != ColumnSource(schema.OUTPUT) or schema.OUTPUT not in names.columns:
        return {}
    errors = dataset.column(schema.TASK_ERROR).series
    empty = dataset.column(schema.OUTPUT).series.isna().to_numpy()
    if adds:
        errors = errors.astype(object).where(errors.notna(), schema.NOT_RUN)
    rows = np.flatnonzero(errors.notna().to_numpy() & empty)
    texts = dict(zip(rows.tolist(), map(str, errors.iloc[rows]), strict=True))
    return {
        row * repetitions + repetition: text
        for row, text in texts.items()
        for repetition in range(repetitions)
    }


def repetition_numbers(dataset: Dataset) -> list[int] | None:
    """Which repetition each row is, where the data came from a run with repetitions; else None."""
    if schema.REPETITION not in dataset.columns:
        return None
    numbers = dataset.column(schema.REPETITION).series
    if not pd.api.types.is_integer_dtype(numbers.dtype) or numbers.isna().any():
        return None
    return [int(number) for number in numbers]
