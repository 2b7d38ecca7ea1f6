"""One row as an object: Example, and the ContextChunk in its retrieval context.

Owns   the fields, what fits into them, and the names under which they may be given.
Leaves rows <-> columns to example_rows.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from evalframe.core.namespace import BindingError, ColumnSource, Namespace
from evalframe.core.nested import is_null

# Field -> the name in names.py whose aliases it shares.
MEANINGS = {
    "input": "input",
    "actual_output": "output",
    "expected_output": "dataset_output",
    "retrieval_context": "retrieval_context",
    "additional_metadata": "metadata",
}


class ContextChunk(BaseModel):
    """A piece of information given to a model, and how well it matches the query.

    Evaluators get chunks as dicts with these two keys.

    Args:
        document: The text.
        relevance: How closely the document matches the query, from -1 to 1, as a vector
            database returns it; None where it is not known.

    Raises:
        ValueError: `document` is not text, or `relevance` is no number from -1 to 1
            (pydantic's ValidationError).

    Examples:
        >>> import evalframe as ef
        >>> ef.ContextChunk("Paris is the capital of France.", relevance=0.92)
        ContextChunk(document='Paris is the capital of France.', relevance=0.92)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    document: str
    relevance: float | None = Field(default=None, ge=-1, le=1, allow_inf_nan=False)

    def __init__(self, document: str, relevance: float | None = None, **unknown: Any) -> None:
        """Take the fields by position too."""
        super().__init__(document=document, relevance=relevance, **unknown)


class Example(BaseModel):
    """One row of a dataset as an object; every field may be left out.

    A field may also be given under its role or an alias of that (`output`, `query`,
    `reference`, `contexts`, `metadata`, ...). Any other field is kept as it is and becomes a
    column of its own in a Dataset; there, an absent one and a null one are the same.
    Tuples and NumPy arrays become lists. An Example is frozen: `example.model_copy(update=...)`
    makes a changed copy.

    Args:
        input: What the system was asked: text, or a dict of several inputs.
        actual_output: What the system gave.
        expected_output: What it should have given.
        retrieval_context: What was retrieved: texts, ContextChunks, or both.
        context: The ground truth that was supplied.
        tools_called: Names of the tools that were called.
        expected_tools: Names of the tools that should have been called.
        additional_metadata: Anything else, by name.

    Raises:
        ValueError: A value does not fit its field (pydantic's ValidationError).

    Examples:
        >>> import evalframe as ef
        >>> example = ef.Example(input="Is water healthy?", actual_output="Yes.", topic="food")
        >>> ef.Dataset([example]).columns
        ['input', 'actual_output', 'topic']
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    input: str | dict[str, Any] | None = None
    actual_output: str | list[str] | None = None
    expected_output: str | list[str] | None = None
    retrieval_context: list[str | ContextChunk] | None = None
    context: list[str] | None = None
    tools_called: list[str] | None = None
    expected_tools: list[str] | None = None
    additional_metadata: dict[str, Any] | None = None

    @field_validator("actual_output", "expected_output", mode="before")
    @classmethod
    def _settle_outputs(cls, value: Any) -> Any:
        return _as_list(value)

    @field_validator("context", "tools_called", "expected_tools", mode="before")
    @classmethod
    def _settle_lists(cls, value: Any) -> Any:
        return _as_list_not_text(value)

    @field_validator("retrieval_context", mode="before")
    @classmethod
    def _settle_chunks(cls, value: Any) -> Any:
        value = _as_list_not_text(value)
        if not isinstance(value, list):
            return value
        return [_as_chunk(item, place) for place, item in enumerate(value)]

    @model_validator(mode="before")
    @classmethod
    def _settle_names(cls, data: Any) -> Any:
        if not isinstance(data, dict) or cls.model_fields.keys() >= data.keys():
            return data
        named = dict(data)
        for field in MEANINGS:
            if field not in data and (name := column_for(field, tuple(data))) is not None:
                named[field] = named.pop(name)
        return {
            name: value
            for name, value in named.items()
            if name in cls.model_fields or not is_null(value)
        }


def _as_list(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _as_list_not_text(value: Any) -> Any:
    if isinstance(value, str):
        message = f"a list is needed, not a single text; write [{value[:40]!r}]"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports a ValueError only
    return _as_list(value)


def _as_chunk(item: Any, place: int) -> Any:
    if not isinstance(item, dict):
        return item
    try:
        return ContextChunk(**item)
    except ValidationError as exc:
        found = exc.errors(include_url=False)[0]
        why = f"{found['loc'][0]}: {found['msg']}"
    except TypeError as exc:
        why = f"{exc}"
    message = f"item {place} is no ContextChunk ({why})"
    raise ValueError(message)


def column_for(field: str, names: tuple[Any, ...]) -> Any:
    """The one of these names under which a field is given, None where there is none.

    Its own name comes first, then its role's, then an alias.

    Raises:
        ValueError: Two aliases are there.
    """
    if field in names:
        return field
    if field not in MEANINGS:
        return None
    try:
        found = Namespace(names).resolve(MEANINGS[field])
    except BindingError as exc:
        message = f"{field}: {exc}"
        raise ValueError(message) from None
    return found.label if isinstance(found, ColumnSource) else None
