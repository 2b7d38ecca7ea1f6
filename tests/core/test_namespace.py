"""What names stand for."""

import pytest

from evalframe.core.mapping import RoleMapping
from evalframe.core.namespace import (
    BindingError,
    ColumnSource,
    Namespace,
    OutputSource,
    RecordSource,
    RowSource,
)

PAIRS = [
    *(("input", alias) for alias in ("query", "attributes.input.value")),
    *(("output", alias) for alias in ("actual_output", "generated_output", "experiment_output")),
    *(
        ("dataset_output", alias)
        for alias in ("expected", "expected_output", "reference", "attributes.output.value")
    ),
    *(("metadata", alias) for alias in ("additional_metadata", "attributes.metadata")),
    ("retrieval_context", "contexts"),
]


def namespace(*columns, has_task=False, **roles):
    """The names of a run over these columns."""
    return Namespace(columns, RoleMapping.of(**roles), has_task)


def test_a_role_comes_before_a_column_of_that_name():
    """What the user said the output is, is the output."""
    names = namespace("output", "answer", output="answer")

    assert names.resolve("output") == ColumnSource("answer")


def test_a_column_comes_before_an_alias():
    """A column `expected` is meant by `expected`, whatever plays dataset_output."""
    names = namespace("expected", "truth", dataset_output="truth")

    assert names.resolve("expected") == ColumnSource("expected")
    assert names.resolve("reference") == ColumnSource("truth")


def test_a_column_comes_before_the_dataset_row():
    """A column that is called `row` or `dataset_row` is that column."""
    names = namespace("row", "dataset_row")

    assert names.resolve("row") == ColumnSource("row")
    assert names.resolve("dataset_row") == ColumnSource("dataset_row")


@pytest.mark.parametrize("name", ["dataset_row", "row"])
def test_the_dataset_row_is_there_under_both_names(name):
    """It needs no column."""
    assert namespace("x").resolve(name) == RowSource()


@pytest.mark.parametrize(("name", "alias"), PAIRS)
def test_a_role_not_given_is_found_under_each_alias(name, alias):
    """The column may have any of the names other tools use."""
    assert namespace("x", alias).resolve(name) == ColumnSource(alias)


@pytest.mark.parametrize(("name", "alias"), PAIRS)
def test_an_alias_finds_the_column_of_the_role_s_own_name(name, alias):
    """Aliases work both ways."""
    assert namespace("x", name).resolve(alias) == ColumnSource(name)


def test_one_alias_finds_the_column_of_another():
    """Both stand for the same role."""
    assert namespace("expected_output").resolve("reference") == ColumnSource("expected_output")


def test_a_column_of_the_role_s_own_name_comes_before_aliases():
    """No error of ambiguity where one name is exact."""
    assert namespace("expected", "dataset_output").resolve("dataset_output") == ColumnSource(
        "dataset_output"
    )


def test_two_candidates_are_an_error_only_when_something_reads_the_role():
    """The message names both and the parameter that chooses."""
    names = namespace("expected", "reference", "output")

    assert names.resolve("output") == ColumnSource("output")
    with pytest.raises(
        BindingError,
        match=r"^'dataset_output' could be column 'expected', 'reference'\. "
        r"Pass dataset_output=\.\.\. to choose one\.$",
    ):
        names.resolve("dataset_output")


def test_a_given_role_ends_the_doubt():
    """Then both candidates are columns like any other."""
    names = namespace("expected", "reference", dataset_output="reference")

    assert names.resolve("dataset_output") == ColumnSource("reference")
    assert names.resolve("expected") == ColumnSource("expected")


def test_metadata_is_a_column_or_a_record_of_columns():
    """One column gives its value, a list a dict by column name."""
    assert namespace("a", "b", metadata="a").resolve("metadata") == ColumnSource("a")
    assert namespace("a", "b", metadata=["a"]).resolve("metadata") == RecordSource(("a",))
    assert namespace("a", "b", metadata=["b", "a"]).resolve("metadata") == RecordSource(("b", "a"))


@pytest.mark.parametrize("name", ["output", "actual_output", "generated_output"])
def test_h24_with_a_task_the_output_is_the_task_s(name):
    """Not a column of that name, and not what a mapping said before."""
    assert namespace("output", has_task=True).resolve(name) == OutputSource()
    assert namespace("old", has_task=True, output="old").resolve(name) == OutputSource()


def test_h24_without_a_task_the_output_is_the_column():
    """Existing outputs are scored."""
    assert namespace("output").resolve("output") == ColumnSource("output")


def test_results_of_earlier_runs_are_not_in_the_dataset_row():
    """They are columns, but nothing binds to them by accident."""
    names = namespace("input", "eval.a.score", "task.error")

    assert names.row_columns == ("input",)
    assert names.resolve("eval.a.score") is None
    assert names.resolve("task.error") is None


@pytest.mark.parametrize("name", ["nothing", "output", "retrieval_context", "contexts"])
def test_a_name_may_stand_for_nothing(name):
    """Roles without a column as well as unknown names."""
    assert namespace("input").resolve(name) is None


def test_known_are_all_names_that_stand_for_something():
    """Misspellings are looked for among these; ambiguous roles count."""
    names = namespace("question", "expected", "reference", 3, input="question")

    assert set(names.known()) == {
        *("input", "query", "attributes.input.value", "question"),
        *("dataset_output", "expected", "expected_output", "reference", "attributes.output.value"),
        *("dataset_row", "row"),
    }


def test_offered_are_the_names_to_tell_a_user_of():
    """Roles, columns and the row; aliases only where they are columns."""
    names = namespace("question", "reference", input="question")

    assert names.offered() == ["input", "dataset_output", "reference", "question", "dataset_row"]


@pytest.mark.parametrize(
    ("text", "source", "keys"),
    [
        pytest.param("docs", ColumnSource("docs"), (), id="column"),
        pytest.param("eval.a.label", ColumnSource("eval.a.label"), (), id="earlier-result"),
        pytest.param("docs.0.text", ColumnSource("docs"), ("0", "text"), id="path"),
        pytest.param("a.b", ColumnSource("a.b"), (), id="dotted-column"),
        pytest.param("a.b.c", ColumnSource("a.b"), ("c",), id="longest-column"),
        pytest.param("a.c", ColumnSource("a"), ("c",), id="shorter-column"),
        pytest.param("output.final.text", ColumnSource("said"), ("final", "text"), id="role"),
        pytest.param("actual_output.x", ColumnSource("said"), ("x",), id="alias"),
        pytest.param("dataset_row.docs", RowSource(), ("docs",), id="row"),
        pytest.param(3, ColumnSource(3), (), id="column-named-by-a-number"),
    ],
)
def test_a_bound_text_is_the_longest_column_or_role_and_a_path_into_it(text, source, keys):
    """Columns with dots in their names are found before paths."""
    names = namespace("docs", "eval.a.label", "a.b", "a", "said", 3, output="said")

    assert names.located(text) == (source, keys)


@pytest.mark.parametrize("text", ["nothing", "nothing.at.all", 4, ""])
def test_a_bound_text_may_name_nothing(text):
    """Then the caller says so."""
    assert namespace("docs").located(text) is None


def test_h24_with_a_task_a_bound_output_is_the_task_s():
    """A column that is overwritten is not what the path leads into."""
    names = namespace("output", has_task=True)

    assert names.located("output") == (OutputSource(), ())
    assert names.located("output.final.text") == (OutputSource(), ("final", "text"))
