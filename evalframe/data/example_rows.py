"""Examples <-> the columns of a frame, without loss in either direction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from evalframe.core.columns import Column, chunked
from evalframe.core.errors import DatasetError
from evalframe.core.mapping import RoleMapping
from evalframe.core.schema import is_result
from evalframe.data.example import MEANINGS, Example, column_for

_SHOWN = 80


def fields_used(examples: Sequence[Example]) -> list[str]:
    """The fields that at least one example has set, even to None, in the model's order."""
    used: set[str] = set()
    for example in examples:
        used |= example.model_fields_set
    return [field for field in Example.model_fields if field in used]


def row_of(example: Example) -> dict[str, Any]:
    """Every field and extra of one example by name."""
    fields = {name: getattr(example, name) for name in Example.model_fields}
    return fields | (example.model_extra or {})


def examples_of(
    labels: Sequence[Hashable],
    mapping: RoleMapping,
    column: Callable[[Hashable], Column],
    length: int,
) -> list[Example]:
    """The rows of a dataset as Examples.

    Raises:
        DatasetError: A value does not fit its field, or two columns claim one field.
    """
    own = [label for label in labels if not is_result(label)]
    fields = _sources(own, mapping)
    taken = {label for given in fields.values() for label in _labels(given)}
    rest = _extra_names([label for label in own if label not in taken])
    examples = []
    for rows in chunked(length):
        read = {label: column(label).values(rows) for label in [*taken, *rest]}
        for place in range(len(range(*rows.indices(length)))):
            row = dict(_row(fields, rest, read, place))
            examples.append(_example(row, rows.start + place))
    return examples


_Given = Hashable | tuple[Hashable, ...]


class _Several(tuple[Hashable, ...]):
    """Columns whose values make one dict by column name."""

    __slots__ = ()


def _sources(labels: list[Hashable], mapping: RoleMapping) -> dict[str, _Given]:
    """Field -> its column, or the columns of its dict."""
    explicit = mapping.given()
    found: dict[str, _Given] = {}
    for field in Example.model_fields:
        given = explicit.get(MEANINGS.get(field, ""))
        if given is None:
            try:
                given = column_for(field, tuple(labels))
            except ValueError as exc:
                raise DatasetError(str(exc)) from None
        elif isinstance(given, tuple) and given not in labels:
            given = _Several(given)
        if given is not None:
            found[field] = given
    taken = {label for given in found.values() for label in _labels(given)}
    for field, given in found.items():
        if field in labels and field not in taken:
            message = (
                f"Columns {given!r} and {field!r} would both be the field {field!r} of an Example. "
                "Rename or drop one of them."
            )
            raise DatasetError(message)
    return found


def _labels(given: _Given) -> tuple[Hashable, ...]:
    return given if isinstance(given, _Several) else (given,)


def _extra_names(labels: list[Hashable]) -> list[str]:
    names = [label for label in labels if isinstance(label, str)]
    if len(names) < len(labels):
        odd = next(label for label in labels if not isinstance(label, str))
        message = (
            f"Column {odd!r} cannot be a field of an Example: its name is not text. Rename it."
        )
        raise DatasetError(message)
    return names


def _row(
    fields: Mapping[str, _Given], rest: list[str], read: Mapping[Hashable, list[Any]], place: int
) -> Iterator[tuple[str, Any]]:
    for field, given in fields.items():
        if isinstance(given, _Several):
            yield field, {str(label): read[label][place] for label in given}
        else:
            yield field, read[given][place]
    for name in rest:
        yield name, read[name][place]


def _example(row: dict[str, Any], position: int) -> Example:
    try:
        return Example.model_validate(row)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = first["loc"]
        field = str(where[0]) if where else "the row"
        shown = repr(row.get(field, first["input"]))
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
        advice = ""
        if field == "additional_metadata":
            advice = " Name the columns that make the dict: metadata=['topic']."
        message = f"Row {position}, field {field!r}: {shown} does not fit: {first['msg']}.{advice}"
        raise DatasetError(message) from None
