"""Errors: what, why and what to do, built from facts and alive after a pickle."""

import pickle

import pytest

from evalframe.core.errors import (
    CellError,
    ColumnNotFoundError,
    DatasetError,
    EvalframeError,
    ExperimentError,
    JournalError,
    MissingExtraError,
    RunDirError,
    StuckCallsError,
    UnsupportedValueError,
    listed,
    nearest,
)

COLUMNS = ("id", "question", "answer")


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        pytest.param(DatasetError, (EvalframeError, ValueError), id="dataset"),
        pytest.param(ColumnNotFoundError, (DatasetError,), id="column"),
        pytest.param(UnsupportedValueError, (DatasetError, TypeError), id="value"),
        pytest.param(ExperimentError, (EvalframeError, ValueError), id="experiment"),
        pytest.param(CellError, (EvalframeError,), id="cell"),
        pytest.param(StuckCallsError, (EvalframeError,), id="stuck"),
        pytest.param(RunDirError, (EvalframeError, OSError), id="run-dir"),
        pytest.param(JournalError, (EvalframeError, OSError), id="journal"),
        pytest.param(MissingExtraError, (EvalframeError, ImportError), id="extra"),
    ],
)
def test_every_error_is_an_evalframe_error_and_what_python_calls_it(error, bases):
    """One `except` catches all of them; code that knows nothing of evalframe works too."""
    assert all(issubclass(error, base) for base in bases)


def test_missing_column_names_its_role_the_columns_and_the_nearest_one():
    """The message says what was asked for, what is there and which parameter to change."""
    error = ColumnNotFoundError({"dataset_output": "answr"}, COLUMNS)

    assert str(error) == (
        "Column 'answr' (role: dataset_output) is not in the data. Did you mean 'answer'? "
        "Pass dataset_output='answer'. It has: 'id', 'question', 'answer'."
    )


def test_all_missing_columns_stand_in_one_error():
    """Nobody mends a mapping one column per run."""
    error = ColumnNotFoundError({"input": "questoin", "metadata": ("topc", "zz")}, COLUMNS)

    assert str(error) == (
        "Column 'questoin' (role: input) is not in the data. Did you mean 'question'? "
        "Pass input='question'. Column 'topc' (role: metadata) is not in the data. "
        "Column 'zz' (role: metadata) is not in the data. It has: 'id', 'question', 'answer'."
    )
    assert error.missing == {"input": "questoin", "metadata": ("topc", "zz")}


def test_a_column_missing_for_anything_but_a_role_has_no_role():
    """`types=` and its like are named as they are, and no parameter is suggested."""
    error = ColumnNotFoundError({"types": "Answer"}, COLUMNS)

    assert str(error) == (
        "Column 'Answer' (types) is not in the data. Did you mean 'answer'? "
        "It has: 'id', 'question', 'answer'."
    )


def test_a_single_problem_stands_alone():
    """No list of one."""
    assert str(ExperimentError(["No evaluators."])) == "No evaluators."


def test_several_problems_are_numbered_in_one_error():
    """Every mistake is told at once, and each is reachable by itself."""
    error = ExperimentError(["First.", "Second."])

    assert str(error) == ("2 problems, found before anything was run:\n  1. First.\n  2. Second.")
    assert error.problems == ["First.", "Second."]


def test_missing_extra_says_what_to_install():
    """The way out is a line to paste."""
    error = MissingExtraError("ray", extra="ray", needed_by="RayEngine")

    assert str(error) == (
        "RayEngine needs ray, which is not installed. Run: pip install 'evalframe[ray]'"
    )


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(DatasetError("no"), id="plain"),
        pytest.param(ColumnNotFoundError({"input": "qestion"}, COLUMNS), id="column"),
        pytest.param(ExperimentError(["First.", "Second."]), id="experiment"),
        pytest.param(RunDirError("no"), id="run-dir"),
        pytest.param(JournalError("no", safe={None: 1, "judge": 2}), id="journal"),
        pytest.param(MissingExtraError("ray", extra="ray", needed_by="x"), id="extra"),
    ],
)
def test_errors_come_back_whole_from_a_pickle(error):
    """An error raised in another process has the same text and the same facts."""
    error.partial = "what was finished"

    back = pickle.loads(pickle.dumps(error))

    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("answr", "answer", id="letter-missing"),
        pytest.param("ANSWER", "answer", id="case"),
        pytest.param("zzz", None, id="nothing-close"),
        pytest.param(7, None, id="no-text"),
    ],
)
def test_nearest_is_the_closest_spelling_or_none(name, found):
    """A guess is only made when it is a good one."""
    assert nearest(name, [3, *COLUMNS]) == found


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param([], "nothing", id="none"),
        pytest.param(["a", 1], "'a', 1", id="two"),
        pytest.param(range(14), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more", id="many"),
    ],
)
def test_lists_of_names_are_quoted_and_cut(names, text):
    """A frame of a thousand columns does not fill the screen."""
    assert listed(names) == text
