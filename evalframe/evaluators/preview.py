"""What a judge would send, without sending it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from evalframe.core import schema
from evalframe.core.columns import as_objects
from evalframe.core.errors import ExperimentError
from evalframe.core.mapping import RoleMapping
from evalframe.core.namespace import BindingError, Namespace, OutputSource
from evalframe.core.reading import source_values
from evalframe.core.records import Cell
from evalframe.core.run_info import remembered
from evalframe.data.dataset import Dataset
from evalframe.evaluators.normalize import text_of

if TYPE_CHECKING:
    from evalframe.evaluators.asking import Judge, Question


def preview(judge: Judge, dataset: Any, n: int, roles: dict[str, Any]) -> pd.DataFrame:
    """The first rows' messages and response schema, as `.preview` of a judge gives them.

    Raises:
        ExperimentError: A field of the prompt binds to nothing.
    """
    given = {role: column for role, column in roles.items() if column is not None}
    rows = Dataset(dataset, **given).head(n)
    # As in a run: a frame that was scored remembers which column is which.
    before = remembered(rows.attrs).role_mapping().within(rows.columns)
    mapping = RoleMapping.of(**{**before.given(), **rows.mapping.given()})
    namespace = Namespace(tuple(rows.columns), mapping)
    try:
        binding = judge.binding(namespace, what=f"judge {judge.name!r}")
    except BindingError as exc:
        raise ExperimentError(exc.problems) from None
    columns = [
        source_values(source, slice(0, len(rows)), len(rows), namespace.row_columns, rows.column)
        for source in binding.reads
        if not isinstance(source, OutputSource)
    ]
    call = binding.caller(judge.rendered)
    records = zip(*columns, strict=True) if columns else ((),) * len(rows)
    shown = [question_of(call, values) for values in records]
    made = {
        "messages": as_objects([_messages(judge, found) for found in shown]),
        "response_schema": as_objects(
            [
                judge.usual_schema if isinstance(found, Cell) else found.reading.schema
                for found in shown
            ]
        ),
        schema.ERROR: pd.array(
            [found.error if isinstance(found, Cell) else None for found in shown],
            dtype=pd.StringDtype("pyarrow"),
        ),
    }
    return pd.DataFrame(made, index=rows.index)


def question_of(call: Callable[..., Question | Cell], values: Sequence[Any]) -> Question | Cell:
    """The question about a row, or the cell of one that is not asked about."""
    try:
        return call(*values)
    except Exception as exc:  # noqa: BLE001 - a path that ends early, or a user's bound function
        message = text_of(f"{type(exc).__name__}: {exc}")
        return Cell(error=schema.error_text(schema.EXCEPTION, message))


def _messages(judge: Judge, found: Question | Cell) -> list[dict[str, str]] | None:
    """All that would be sent, what says the constraint included."""
    if isinstance(found, Cell):
        return None
    head, _ = judge.request(found.reading)
    return [*head, *found.messages]
