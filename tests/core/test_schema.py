"""Names and types of result columns."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core import schema

FAILURES = ("exception", "timeout", "invalid_result", "range")


def test_an_evaluator_always_has_these_five_columns():
    """Name, order and type are fixed before the first row runs."""
    assert dict(schema.FIELDS) == {
        "label": pa.large_string(),
        "score": pa.float64(),
        "explanation": pa.large_string(),
        "metadata": pa.large_string(),
        "error": pa.large_string(),
    }
    assert list(schema.FIELDS) == ["label", "score", "explanation", "metadata", "error"]


def test_extras_have_the_types_they_are_declared_with():
    """JSON extras are text, all others what their Python type is in Arrow."""
    assert dict(schema.EXTRA_TYPES) == {
        str: pa.large_string(),
        float: pa.float64(),
        int: pa.int64(),
        bool: pa.bool_(),
        "json": pa.large_string(),
    }


def test_a_result_column_is_eval_name_field():
    """The spelling is part of the contract."""
    assert schema.column("exact", "score") == "eval.exact.score"


@given(
    st.text(min_size=1).filter(lambda name: schema.check_name(name) is None),
    st.sampled_from([*schema.FIELDS, "latency_s", "precision"]),
)
def test_every_legal_name_comes_back_from_its_column(name, field):
    """Parsing is the inverse of naming, for any name that is let in."""
    assert schema.parse(schema.column(name, field)) == (name, field)


@pytest.mark.parametrize(
    "name", ["eval.exact", "eval.a.b.c", "xeval.a.score", "output", "task.error", 3, ("a", "b")]
)
def test_other_columns_are_no_results_of_an_evaluator(name):
    """Only eval.<name>.<field> is."""
    assert schema.parse(name) is None


@pytest.mark.parametrize(
    ("name", "is_result"),
    [("eval.exact.score", True), ("task.error", True), ("output", False), (3, False)],
)
def test_results_of_earlier_runs_are_told_from_the_dataset(name, is_result):
    """The dataset row is what is left."""
    assert schema.is_result(name) is is_result


def test_evaluators_are_found_by_their_error_columns_in_order():
    """A frame that lost its attrs still says whose results it holds."""
    columns = ["eval.b.error", "x", "eval.a.score", "eval.a.error", "eval.c.score"]

    assert schema.evaluators_in(columns) == ["b", "a"]


@pytest.mark.parametrize("name", ["exact", "F1 (macro)", "größe", "a-b", "x y"])
def test_ordinary_names_are_accepted(name):
    """Only what breaks a column name is refused."""
    assert schema.check_name(name) is None


@pytest.mark.parametrize("name", ["a.b", "a`b", "a\nb", "a\rb"])
def test_a_name_holds_no_dot_backtick_or_line_break(name):
    """The message names it and says how to choose another."""
    assert schema.check_name(name) == (
        f"The evaluator name {name!r} holds a dot, a backtick or a line break, which result "
        "columns cannot. Choose another one with .named('...')."
    )


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_name_is_text_that_is_not_empty(name):
    """Nothing else names a column."""
    assert schema.check_name(name) == (
        f"An evaluator's name must be text that is not empty, not {name!r}."
    )


@pytest.mark.parametrize(
    ("extras", "problem"),
    [
        pytest.param({"precision": float, "spans": "json"}, None, id="legal"),
        pytest.param({"a.b": float}, "The extra 'a.b' needs a name without dots", id="dot"),
        pytest.param({3: float}, "The extra 3 needs a name without dots", id="no-text"),
        pytest.param({"x": list}, "The extra 'x' must be str, float, int, bool or", id="type"),
    ],
)
def test_declared_extras_need_names_and_types_of_columns(extras, problem):
    """The declaration is the type of a column."""
    found = schema.check_extras(extras)

    assert found is problem if problem is None else found.startswith(problem)


@pytest.mark.parametrize(
    "name",
    [
        *("label", "score", "explanation", "metadata", "error", "latency_s", "fingerprint"),
        *("prompt_tokens", "completion_tokens", "cached_tokens", "cost", "from_cache"),
        *("reply", "raw_score", "confidence", "coverage"),
    ],
)
def test_no_extra_takes_the_name_of_a_column_of_every_evaluator(name):
    """Columns that come later are kept free too."""
    assert schema.check_extras({name: str}) == (
        f"The extra {name!r} has the name of a column that every evaluator has."
    )


def test_an_error_cell_is_kind_and_message():
    """The kind comes first, so that it can be cut off."""
    text = schema.error_text("exception", "KeyError: 'x'", place="(file.py:12)")

    assert text == "exception: KeyError: 'x' (file.py:12)"
    assert schema.error_kind(text) == "exception"


@pytest.mark.parametrize("place", ["", "(file.py:12)"])
def test_an_error_cell_is_cut_at_2000_characters_and_keeps_its_place(place):
    """The user's line is worth more than the end of a long message."""
    text = schema.error_text("exception", "x" * 5_000, place=place)

    assert len(text) == 2_000
    assert text.endswith(f"x… {place}" if place else "x…")


def test_an_error_cell_of_2000_characters_is_whole():
    """The limit itself is not over it."""
    message = "x" * (2_000 - len("range: "))

    assert schema.error_text("range", message) == f"range: {message}"


@pytest.mark.parametrize(
    ("kind", "failed"),
    [*((kind, True) for kind in FAILURES), ("skipped", False), ("task_failed", False)],
)
def test_skipped_and_task_failed_are_no_failures(kind, failed):
    """They are counted by themselves."""
    assert schema.is_failure(f"{kind}: reason") is failed


def test_columns_in_the_way_are_named_with_every_way_out():
    """Overwrite them or rename the evaluator."""
    assert schema.collision_problem("a", ["eval.a.score"]) == (
        "The frame already has results of an evaluator named 'a' ('eval.a.score'). "
        "Pass only='missing', 'failed' or 'stale' to run just those cells, overwrite=True to "
        "replace them all, or rename one: .named('a_2')."
    )
