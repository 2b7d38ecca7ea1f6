"""Which column plays which role."""

import pytest

from evalframe.core.errors import ColumnNotFoundError
from evalframe.core.mapping import RoleMapping

COLUMNS = ["question", "answer", "topic", "level", ("a", "b")]


def test_only_given_roles_are_given():
    """A role that nobody named is not there, in the order of the roles."""
    mapping = RoleMapping.of(metadata="topic", input="question", output=None)

    assert list(mapping.given().items()) == [("input", "question"), ("metadata", "topic")]


def test_a_list_of_metadata_columns_is_kept_as_a_tuple():
    """The mapping stays hashable and cannot be changed from outside."""
    columns = ["topic", "level"]

    mapping = RoleMapping.of(metadata=columns)
    columns.append("answer")

    assert mapping.metadata == ("topic", "level")


def test_a_column_may_be_called_by_a_tuple():
    """Where a column has that tuple as its name, it is no list of columns."""
    RoleMapping.of(metadata=("a", "b")).check(COLUMNS)


def test_columns_that_are_there_pass():
    """Nothing is raised, whatever the number of metadata columns."""
    RoleMapping.of(input="question", output="answer", metadata=["topic", "level"]).check(COLUMNS)


def test_all_missing_columns_are_named_at_once():
    """One error, every role and every absent metadata column."""
    mapping = RoleMapping.of(input="qestion", output="answer", metadata=["topic", "levl", "x"])

    with pytest.raises(
        ColumnNotFoundError, match=r"'qestion' \(role: input\).*'levl' .*'x' \(role: metadata\)"
    ) as caught:
        mapping.check(COLUMNS)

    assert caught.value.missing == {"input": "qestion", "metadata": ("levl", "x")}


def test_a_remembered_mapping_keeps_only_what_is_still_there():
    """Columns may have been dropped or renamed since."""
    mapping = RoleMapping.of(input="question", output="gone", metadata=["topic", "gone"])

    assert mapping.within(COLUMNS) == RoleMapping(input="question")


def test_a_mapping_within_its_own_columns_stays_whole():
    """Nothing is lost when nothing is missing."""
    mapping = RoleMapping.of(input="question", metadata=["topic", "level"])

    assert mapping.within(COLUMNS) == mapping
