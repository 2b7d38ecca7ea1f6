"""What the built-in evaluators have in common: columns in, verdicts with their skips out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.normalize import describe

NO_REFERENCE = "no reference"


def arrow(series: pd.Series) -> pa.Array | None:
    """The Arrow array of a column, without a copy where it is one piece; None for objects."""
    if series.dtype == object:
        return None
    array = pa.array(series.array)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def is_text(kind: pa.DataType | None) -> bool:
    """Whether an Arrow type is text."""
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType | None) -> bool:
    """Whether an Arrow type is a number; a bool is not."""
    return kind is not None and (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def text_against_number(types: Mapping[str, pa.DataType | None]) -> str | None:
    """What to say when one of `output` and `dataset_output` is text and the other is not."""
    output, reference = types.get("output"), types.get("dataset_output")
    for text, other, name in (
        (output, reference, "dataset_output"),
        (reference, output, "output"),
    ):
        if is_text(text) and (
            is_number(other) or (other is not None and pa.types.is_boolean(other))
        ):
            pair = "text with numbers" if is_number(other) else "text with bools"
            return (
                f"it compares {pair}: output is {output}, dataset_output is {reference}. Make them "
                f"alike: .bind({name}=lambda {name}: str({name})), or types= in ef.Dataset."
            )
    return None


def needs_text(name: str, types: Mapping[str, pa.DataType | None]) -> str | None:
    """What to say when a column that must be text is of another type."""
    kind = types.get(name)
    if kind is None or is_text(kind) or pa.types.is_nested(kind):
        return None
    return f"it needs text, but {name} is {kind}. Use .bind({name}=lambda {name}: str({name}))."


def verdicts(matches: pa.Array, reference: pa.Array | None = None) -> Any:
    """Bools as a result: a null match is False, a null reference is skipped.

    Args:
        matches: Bool, null where the output was null.
        reference: The references, if each row needs one.
    """
    if matches.null_count:
        matches = pc.fill_null(matches, fill_value=False)
    if reference is None or not reference.null_count:
        return matches
    there = reference.is_valid()
    return {
        schema.SCORE: pc.if_else(there, matches, pa.scalar(None, pa.bool_())),
        schema.EXPLANATION: pc.if_else(
            there, pa.scalar(None, schema.TEXT), pa.scalar(NO_REFERENCE, schema.TEXT)
        ),
    }


def no_reference() -> Cell:
    """The cell of a row without a reference."""
    return Cell(error=f"{schema.SKIPPED}: {NO_REFERENCE}")


def not_text(what: str, value: Any) -> Cell:
    """The cell of a row whose value is no text."""
    message = f"{what} is {describe(value)}, not text"
    return Cell(error=schema.error_text(schema.INVALID_RESULT, message))
