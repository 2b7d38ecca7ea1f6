"""Which column plays which role, as the user gave it.

A role that is not given here is found by name when something reads it (see binding.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from evalframe.core.errors import ColumnNotFoundError, DatasetError
from evalframe.core.names import ROLES


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """Role -> column, None where not given; `metadata` may be several columns (a tuple)."""

    input: Hashable = None
    output: Hashable = None
    dataset_output: Hashable = None
    metadata: Hashable | tuple[Hashable, ...] = None

    @classmethod
    def of(cls, **roles: Any) -> RoleMapping:
        """The mapping from keyword arguments; a list of metadata columns becomes a tuple."""
        for role, column in roles.items():
            parts = column if isinstance(column, (list, tuple)) else [column]
            if not all(map(_is_label, parts)):
                kind = type(column).__name__
                message = (
                    f"{role}= takes the name of a column, not a {kind}; metadata= also a list."
                )
                raise DatasetError(message)
        metadata = roles.get("metadata")
        if isinstance(metadata, list):
            roles["metadata"] = tuple(metadata)
        return cls(**roles)

    def given(self) -> dict[str, Any]:
        """The roles that have a column, in the order of the roles."""
        pairs = ((role, getattr(self, role)) for role in ROLES)
        return {role: column for role, column in pairs if column is not None}

    def check(self, columns: Sequence[Hashable]) -> None:
        """See that every column is there.

        Raises:
            ColumnNotFoundError: Some are not; all of them are named.
        """
        missing: dict[str, Hashable] = {}
        for role, column in self.given().items():
            if role == "metadata" and isinstance(column, tuple) and column not in columns:
                absent = [part for part in column if part not in columns]
                if absent:
                    missing[role] = absent[0] if len(absent) == 1 else tuple(absent)
            elif column not in columns:
                missing[role] = column
        if missing:
            raise ColumnNotFoundError(missing, columns)

    def within(self, columns: Sequence[Hashable]) -> RoleMapping:
        """The part of this mapping whose columns are there (a remembered mapping may be old)."""
        kept = {}
        for role, column in self.given().items():
            parts = column if isinstance(column, tuple) and column not in columns else (column,)
            if all(part in columns for part in parts):
                kept[role] = column
        return RoleMapping(**kept)


def _is_label(column: Any) -> bool:
    """Whether it could be a column's name; a Series says that it is hashable, and is not."""
    try:
        hash(column)
    except TypeError:
        return False
    return True
