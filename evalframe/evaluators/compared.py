"""What the built-in evaluators have in common: columns in, verdicts with their skips out.

arrow, values        a column as an Arrow array, and as Python values
types                what an Arrow type is, and which two cannot be compared
references           the references of a row, of which there may be several
verdicts, one_by_one bools of whole columns, or a verdict for each row
unlike, not_text     the failed cells of single rows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evalframe.core import schema
from evalframe.core.records import Cell
from evalframe.evaluators.normalize import describe

NO_REFERENCE = "no reference"

# .bind(...=str) would make the text "None" of a null; a cast of the column keeps nulls.
_AS_TEXT = "the column's .astype('string')"


def arrow(series: pd.Series) -> pa.Array | pa.ChunkedArray | None:
    """The Arrow array of a column, without a copy; None for objects."""
    return None if series.dtype == object else pa.array(series.array)


def values(series: pd.Series) -> list[Any]:
    """The Python values of a column; None for null."""
    array = arrow(series)
    return list(series.tolist() if array is None else array.to_pylist())


def is_text(kind: pa.DataType | None) -> bool:
    """Whether an Arrow type is text."""
    tests = (pa.types.is_large_string, pa.types.is_string, pa.types.is_string_view)
    return kind is not None and any(test(kind) for test in tests)


def is_number(kind: pa.DataType | None) -> bool:
    """Whether an Arrow type is a number; a bool is not."""
    return kind is not None and (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def is_list(kind: pa.DataType | None) -> bool:
    """Whether an Arrow type is a list."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind is not None and any(test(kind) for test in tests)


def item_type(kind: pa.DataType | None) -> pa.DataType | None:
    """The type of one item: of a list that of its items, of dictionary codes that of the values."""
    if kind is not None and is_list(kind):
        kind = kind.value_type
    return kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind


def text_against_other(output: pa.DataType | None, reference: pa.DataType | None) -> str | None:
    """What to say when one of two types is text and the other can never equal a text."""
    if output is None or reference is None or is_text(output) == is_text(reference):
        return None
    other = reference if is_text(output) else output
    if pa.types.is_nested(other):
        return None
    if is_number(other):
        return (
            f"it compares text with numbers: output is {output}, dataset_output is {reference}. "
            f"Make them alike first: pd.to_numeric of the text, {_AS_TEXT} for the numbers, or "
            "types= in ef.Dataset."
        )
    what = "bools" if pa.types.is_boolean(other) else f"{other}"
    return (
        f"it compares text with {what}: output is {output}, dataset_output is {reference}. "
        f"Make them alike first: {_AS_TEXT} for what is no text, or types= in ef.Dataset."
    )


def needs_text(name: str, types: Mapping[str, pa.DataType | None]) -> str | None:
    """What to say when a column that must be text is of another type."""
    kind = types.get(name)
    if kind is None or is_text(kind):
        return None
    if pa.types.is_nested(kind):
        path = f"the path to the text in it, .bind({name}='{name}.<key>')"
        return f"it needs text, but {name} is {kind}. Give {path}."
    return f"it needs text, but {name} is {kind}. Give {_AS_TEXT}, or types= in ef.Dataset."


def needs_texts(types: Mapping[str, pa.DataType | None]) -> str | None:
    """What to say where an output must be text, and a reference text or a list of texts."""
    reference = {"dataset_output": item_type(types.get("dataset_output"))}
    return needs_text("output", types) or needs_text("dataset_output", reference)


def references(value: Any) -> list[Any]:
    """The references of a row: the items of a list, or the one; nulls are none."""
    several = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in several if one is not None]


def verdicts(matches: Any, reference: pa.Array | pa.ChunkedArray | None = None) -> Any:
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


def one_by_one(
    output: pd.Series,
    dataset_output: pd.Series,
    verdict: Callable[[Any, Any], bool | Cell],
    *,
    several: bool = False,
) -> list[Any]:
    """A verdict for each pair of which neither is null.

    Args:
        output: The outputs.
        dataset_output: The references.
        verdict: Output and reference -> bool, or the cell of a row that cannot be judged.
        several: Whether a list as reference of an output that is none holds several, so that one
            of nothing but nulls is no reference.
    """
    missing = Cell(error=f"{schema.SKIPPED}: {NO_REFERENCE}")
    pairs = zip(values(output), values(dataset_output), strict=True)
    return [
        missing
        if wanted is None or (several and _without_answer(found, wanted))
        else False
        if found is None
        else verdict(found, wanted)
        for found, wanted in pairs
    ]


def _without_answer(found: Any, wanted: Any) -> bool:
    lists = (list, tuple)
    if not isinstance(wanted, lists) or isinstance(found, lists):
        return False
    return all(answer is None for answer in wanted)


def failed(message: str) -> Cell:
    """The cell of a row that cannot be judged."""
    return Cell(error=schema.error_text(schema.INVALID_RESULT, message))


def not_text(what: str, value: Any) -> Cell:
    """The cell of a row whose value is no text."""
    return failed(f"{what} is {describe(value)}, not text")


def unlike(found: Any, wanted: Any) -> Cell:
    """The cell of a row on which text meets a value that is none."""
    return failed(
        f"text is not compared with other values: output is {describe(found)}, dataset_output "
        f"is {describe(wanted)}"
    )
