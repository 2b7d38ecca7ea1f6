"""Dataset: columns, an index, and which column plays which role.

Owns   what a user can do with data before a run.
Leaves reading it to readers.py, choosing rows to selection.py, Examples to example_rows.py.
"""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping
from typing import Any, NoReturn, Self

import pandas as pd
import pyarrow as pa

from evalframe.core.columns import Column
from evalframe.core.errors import (
    ColumnNotFoundError,
    DatasetError,
    UnsupportedValueError,
    listed,
)
from evalframe.core.mapping import RoleMapping
from evalframe.core.warn import warn
from evalframe.data.casting import cast
from evalframe.data.example import Example
from evalframe.data.example_rows import examples_of
from evalframe.data.readers import read
from evalframe.data.selection import kept, positions
from evalframe.data.tables import assembled, table_from

_SHOWN_ROWS = 5


class Dataset:
    """Rows with named columns, some of which play a role: input, output, dataset_output, metadata.

    A dataset is frozen: what makes another choice of rows gives another Dataset. The data of a
    pandas frame is neither copied nor converted until something reads it; other sources are
    held as Arrow columns. In files, text stays text: JSON strings become no dates, and CSV
    columns are text unless `types` says else, where an empty field without quotes is null.

    Args:
        data: A pandas, pyarrow, polars, DuckDB or Hugging Face table, or anything with
            `__arrow_c_stream__`; a list of dicts or of Examples; the path or glob of Parquet,
            Arrow, CSV, JSON or JSON Lines files (also `.gz`, `.zst`), several of them read
            in the order of their names; another Dataset.
        input: Column that plays this role; where it is not given, a column of that name or of
            one of the role's aliases plays it.
        output: As `input`.
        dataset_output: As `input`: what the output should have been.
        metadata: A column, or a list of columns (then its value is a dict by column name).
        types: Column -> type to cast it to: `str`, `int`, `float`, `bool`, `datetime`, `date`,
            an Arrow type, or the name of one.

    Raises:
        DatasetError: The source cannot be read, or a value not be cast.
        ColumnNotFoundError: Columns of the roles or of `types` are not there.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"question": "1+1", "answer": "2"}, {"question": "2+2", "answer": "5"}]
        >>> ef.Dataset(rows, input="question", output="answer")
        Dataset(2 rows, columns: 'question', 'answer'; input='question', output='answer')
    """

    __slots__ = ("_columns", "_frame", "mapping")

    mapping: RoleMapping
    _frame: pd.DataFrame
    _columns: dict[Hashable, Column]

    def __init__(
        self,
        data: Any,
        *,
        input: Hashable = None,
        output: Hashable = None,
        dataset_output: Hashable = None,
        metadata: Hashable | list[Hashable] = None,
        types: Mapping[Hashable, Any] | None = None,
    ) -> None:
        """Read the source and check the roles."""
        mapping = RoleMapping.of(
            input=input, output=output, dataset_output=dataset_output, metadata=metadata
        )
        if isinstance(data, Dataset):
            frame = data._frame  # noqa: SLF001 - of this very class
            mapping = _joined(data.mapping, mapping)
        else:
            frame = read(data)
        mapping.check(list(frame.columns))
        self._set(_typed(frame, types or {}), mapping)

    def _set(self, frame: pd.DataFrame, mapping: RoleMapping) -> None:
        object.__setattr__(self, "_frame", frame)
        object.__setattr__(self, "mapping", mapping)
        object.__setattr__(self, "_columns", {})

    def _with_rows(self, frame: pd.DataFrame) -> Self:
        """A dataset of some of the rows, with the same roles."""
        new = object.__new__(type(self))
        new._set(frame, self.mapping)
        return new

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        message = f"A Dataset is frozen: {name!r} cannot be set. Make another Dataset."
        raise AttributeError(message)

    def __delattr__(self, name: str) -> NoReturn:
        message = f"A Dataset is frozen: {name!r} cannot be deleted."
        raise AttributeError(message)

    def __getstate__(self) -> tuple[pd.DataFrame, RoleMapping]:
        return self._frame, self.mapping

    def __setstate__(self, state: tuple[pd.DataFrame, RoleMapping]) -> None:
        self._set(*state)

    def __len__(self) -> int:
        return len(self._frame)

    def __repr__(self) -> str:
        roles = "".join(f", {role}={column!r}" for role, column in self.mapping.given().items())
        roles = f"; {roles[2:]}" if roles else ""
        return f"Dataset({self._counted_rows()}, columns: {listed(self.columns)}{roles})"

    def _counted_rows(self) -> str:
        return f"{len(self):,} row{'' if len(self) == 1 else 's'}"

    def _repr_html_(self) -> str:
        """The first rows as a table, under a line with the numbers and the roles."""
        roles = [f"{role}: {column!r}" for role, column in self.mapping.given().items()]
        count = len(self.columns)
        facts = [self._counted_rows(), f"{count} column{'' if count == 1 else 's'}", *roles]
        rows = self._frame.head(_SHOWN_ROWS).to_html(escape=True, border=0)
        return f"<div><p>Dataset: {html.escape(', '.join(facts))}</p>\n{rows}</div>"

    @property
    def columns(self) -> list[Hashable]:
        """The columns' labels, in order."""
        return list(self._frame.columns)

    @property
    def index(self) -> pd.Index:
        """The rows' index: the source's own, or 0, 1, 2, ... where it had none."""
        return self._frame.index

    @property
    def attrs(self) -> dict[Hashable, Any]:
        """The attrs of the source's frame; of a scored one, what it remembers of its runs."""
        return dict(self._frame.attrs)

    def column(self, label: Hashable) -> Column:
        """One column, for reading.

        Args:
            label: Its name.

        Raises:
            ColumnNotFoundError: There is no such column.

        Examples:
            >>> import evalframe as ef
            >>> ef.Dataset([{"tags": ["a"]}, {"tags": None}]).column("tags").values(slice(None))
            [['a'], None]
        """
        found = self._columns.get(label)
        if found is None:
            if label not in self.columns:
                raise ColumnNotFoundError({"column": label}, self.columns)
            found = self._columns[label] = Column(label, self._frame[label])
        return found

    def to_pandas(self) -> pd.DataFrame:
        """The data as an Arrow-backed frame with its index and attrs.

        Columns that Arrow cannot keep exactly are object columns of Python values. A column
        that evaluators and files cannot be given stays as it is, with one warning that names
        all such columns.

        Returns:
            A new frame; changing it changes nothing here.

        Examples:
            >>> import evalframe as ef
            >>> ef.Dataset([{"n": 1}, {"n": None}]).to_pandas()["n"].dtype
            int64[pyarrow]
        """
        columns, unstorable = [], []
        for label in self.columns:
            try:
                series = self.column(label).arrow_backed()
            except UnsupportedValueError as exc:
                series = self._frame[label]
                unstorable.append(str(exc))
            columns.append((label, series))
        if unstorable:
            reasons = " ".join(unstorable)
            message = f"Columns that cannot be stored stay as they are in the frame. {reasons}"
            warn(message)
        return assembled(columns, self.index, self._frame.attrs)

    def to_arrow(self) -> pa.Table:
        """The data as an Arrow table.

        A column that Arrow cannot keep exactly is JSON text, and its field has the metadata
        `{"evalframe": "json"}`; Dataset reads it back to the same values. An index that is not
        0, 1, 2, ... follows the columns, noted so that pandas and Dataset make it the index.

        Raises:
            UnsupportedValueError: A value cannot be stored; names column and row.
            DatasetError: The index, or the names of the columns, have no Arrow form.

        Examples:
            >>> import evalframe as ef
            >>> calls = ef.Dataset([{"args": {"q": "x"}}, {"args": {"id": 7}}])
            >>> calls.to_arrow()["args"].to_pylist()
            ['{"q": "x"}', '{"id": 7}']
        """
        columns = [self.column(label) for label in self.columns]
        return table_from(columns, self.index, self._frame.attrs)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The data for any library that reads Arrow streams, as `to_arrow` gives it."""
        table: Any = self.to_arrow()
        return table.__arrow_c_stream__(requested_schema)

    def to_examples(self) -> list[Example]:
        """The rows as Examples.

        Each field is taken from the column that was named for its role, else from a column of
        the field's name, of its role's, or of an alias. Other columns become extra fields,
        result columns of earlier runs none. The index is not part of an Example.

        Raises:
            DatasetError: A value does not fit its field (names row and field), or two columns
                claim one field.

        Examples:
            >>> import evalframe as ef
            >>> rows = [{"question": "1+1", "answer": "2"}]
            >>> ef.Dataset(rows, output="answer").to_examples()[0].actual_output
            '2'
        """
        return examples_of(self.columns, self.mapping, self.column, len(self))

    def head(self, n: int = 5) -> Self:
        """The first rows.

        Args:
            n: How many; all of them where there are fewer.

        Raises:
            DatasetError: `n` is no whole number, or below 0.

        Examples:
            >>> import evalframe as ef
            >>> len(ef.Dataset([{"x": 1}, {"x": 2}, {"x": 3}]).head(2))
            2
        """
        return self._with_rows(self._frame.iloc[: _count(n, "head")])

    def sample(self, n: int, seed: int = 0) -> Self:
        """A random choice of rows, in the order that they have here.

        The same seed gives the same rows, and a larger sample of it contains the smaller ones.

        Args:
            n: How many; all of them where there are fewer.
            seed: Of the random choice.

        Raises:
            DatasetError: `n` is no whole number, or below 0.

        Examples:
            >>> import evalframe as ef
            >>> rows = ef.Dataset([{"x": i} for i in range(1000)])
            >>> len(rows.sample(10)), list(rows.sample(10).index) == sorted(rows.sample(10).index)
            (10, True)
        """
        return self._with_rows(self._frame.iloc[positions(len(self), _count(n, "sample"), seed)])

    def filter(self, predicate: Any) -> Self:
        """The rows for which a condition holds.

        Args:
            predicate: True or False per row, by position (a null counts as False); or a
                function that says so, whose parameters are bound like an evaluator's: roles,
                columns, or a sole parameter of another name for the row as a dict.

        Raises:
            DatasetError: It has another length or index, holds other values than bools, or
                a parameter binds to nothing.

        Examples:
            >>> import evalframe as ef
            >>> numbers = ef.Dataset([{"n": 1}, {"n": 2}, {"n": 3}])
            >>> len(numbers.filter(lambda row: row["n"] > 1))
            2
            >>> len(numbers.filter([True, False, False]))
            1
        """
        mask = kept(predicate, self.columns, self.mapping, self.column, self.index)
        return self._with_rows(self._frame.loc[mask])


def _count(n: Any, what: str) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        message = f"{what}() needs a number of rows, 0 or more, not {n!r}."
        raise DatasetError(message)
    return n


def _joined(old: RoleMapping, new: RoleMapping) -> RoleMapping:
    """Both mappings, which must not disagree."""
    for role, column in new.given().items():
        before = old.given().get(role, column)
        if before != column:
            message = (
                f"This Dataset has {before!r} as its {role}, and {role}={column!r} was given too. "
                "Make a Dataset of the data itself to choose again."
            )
            raise DatasetError(message)
    return RoleMapping(**{**old.given(), **new.given()})


def _typed(frame: pd.DataFrame, types: Mapping[Hashable, Any]) -> pd.DataFrame:
    labels: list[Hashable] = list(frame.columns)
    missing = tuple(label for label in types if label not in labels)
    if missing:
        raise ColumnNotFoundError({"types": missing}, labels)
    if not types:
        return frame
    frame = frame.copy(deep=False)
    for label, wanted in types.items():
        place = labels.index(label)
        series: Any = cast(Column(label, frame.iloc[:, place]), wanted)
        frame.isetitem(place, series)
    return frame
