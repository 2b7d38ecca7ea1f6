"""What the names of one run stand for: roles, columns, aliases, the row, the task's output.

Source      one thing to read per row: ColumnSource, RecordSource, RowSource, OutputSource
Namespace   name -> Source, the same for parameters and for templates
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from evalframe.core.errors import listed
from evalframe.core.mapping import RoleMapping
from evalframe.core.names import ALIASES, ROLES, ROW, canonical
from evalframe.core.schema import is_result


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The value of a column."""

    label: Hashable


@dataclass(frozen=True, slots=True)
class RecordSource:
    """Several columns as a dict by column name."""

    labels: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class RowSource:
    """The dataset row: every column that is no result, as a dict."""


@dataclass(frozen=True, slots=True)
class OutputSource:
    """What the task gave for the row."""


Source = ColumnSource | RecordSource | RowSource | OutputSource


class BindingError(ValueError):
    """A function cannot be bound; `problems` holds every reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep the reasons."""
        super().__init__(" ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Namespace:
    """What names can stand for in one run.

    Attributes:
        columns: All columns of the dataset, results of earlier runs included.
        mapping: The roles that the user gave.
        has_task: Whether a task makes the output.
    """

    columns: tuple[Hashable, ...]
    mapping: RoleMapping = field(default_factory=RoleMapping)
    has_task: bool = False

    @property
    def row_columns(self) -> tuple[Hashable, ...]:
        """The dataset's own columns, without results."""
        return tuple(label for label in self.columns if not is_result(label))

    def resolve(self, name: str) -> Source | None:
        """What a name stands for; None when it stands for nothing.

        Raises:
            BindingError: Two columns could play the role, and none was chosen.
        """
        if name in ROLES and (source := self._role(name)) is not None:
            return source
        if name in self.columns and not is_result(name):
            return ColumnSource(name)
        meant = canonical(name)
        if meant in ROLES:
            return self._role(meant)
        if meant == ROW:
            return RowSource()
        return self._renamed_column(meant) if meant in ALIASES else None

    def _role(self, role: str) -> Source | None:
        if role == "output" and self.has_task:
            return OutputSource()
        given = self.mapping.given().get(role)
        if given is not None:
            several = isinstance(given, tuple) and given not in self.columns
            return RecordSource(given) if several else ColumnSource(given)
        return self._renamed_column(role)

    def _renamed_column(self, name: str) -> Source | None:
        if name in self.columns:
            return ColumnSource(name)
        found = [alias for alias in ALIASES[name] if alias in self.columns]
        if len(found) > 1:
            hint = f"Pass {name}=..." if name in ROLES else "Rename one of them"
            raise BindingError([f"{name!r} could be column {listed(found)}. {hint} to choose one."])
        return ColumnSource(found[0]) if found else None

    def known(self) -> list[str]:
        """Every name that stands for something, for messages and misspellings."""
        names = [*ROLES, *(alias for group in ALIASES.values() for alias in group)]
        names += [label for label in self.row_columns if isinstance(label, str)]
        names += ["retrieval_context", ROW]
        return [name for name in dict.fromkeys(names) if self._stands(name)]

    def offered(self) -> list[str]:
        """The names to tell a user of: roles, columns and the row, without aliases."""
        aliases = {alias for group in ALIASES.values() for alias in group}
        return [name for name in self.known() if name in self.columns or name not in aliases]

    def _stands(self, name: str) -> bool:
        try:
            return self.resolve(name) is not None
        except BindingError:
            return True

    def located(self, text: Hashable) -> tuple[Source, tuple[str, ...]] | None:
        """What `.bind(x=text)` names: a column or role, and the keys of a path into it."""
        if text in self.columns:
            return self._column(text), ()
        if not isinstance(text, str):
            return None
        parts = text.split(".")
        for size in range(len(parts), 0, -1):
            head = ".".join(parts[:size])
            source = self._column(head) if head in self.columns else self.resolve(head)
            if source is not None:
                return source, tuple(parts[size:])
        return None

    def _column(self, label: Hashable) -> Source:
        # A task's output takes the place of a column of that name.
        return OutputSource() if self.has_task and label == "output" else ColumnSource(label)
