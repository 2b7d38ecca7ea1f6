"""Failures: a row per failed cell, and in print each error once."""

import numpy as np
import pandas as pd
import pytest

from evalframe.analysis.failures import failure_lines, failures

KEY_ERROR = "exception: KeyError: 'x' (a.py:3)"
TRACEBACK = "Traceback (most recent call last):\n  File a.py, line 3\nKeyError: 'x'"
TEXT = pd.StringDtype("pyarrow")


def table(*rows, index=None):
    """The expected rows, typed."""
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 6
    texts = dict(zip(("evaluator", "kind", "message", "traceback"), columns[2:], strict=True))
    return pd.DataFrame(
        {
            "position": np.array(columns[0], dtype="int64"),
            "index": pd.Series(list(columns[1])) if index is None else index,
            **{name: pd.Series(list(values), dtype=TEXT) for name, values in texts.items()},
        }
    )


def test_failures_are_a_row_per_failed_cell_and_task(results):
    """By position, then evaluator; skipped cells and those of a failed task are not failures."""
    frame = results(
        index=pd.Index([10, 20, 30], name="id"),
        task_errors=[None, "exception: ValueError: no (t.py:9)", None],
        b=[{"error": KEY_ERROR}, {"error": "task_failed: no"}, {"error": "skipped: returned None"}],
        a=[{"error": "range: 7.0 is not in [0, 1]"}, {"error": "task_failed: no"}, {"score": 1.0}],
        tracebacks={KEY_ERROR: TRACEBACK},
    )

    pd.testing.assert_frame_equal(
        failures(frame),
        table(
            (0, 10, "b", "exception", "KeyError: 'x' (a.py:3)", TRACEBACK),
            (0, 10, "a", "range", "7.0 is not in [0, 1]", None),
            (1, 20, "<task>", "exception", "ValueError: no (t.py:9)", None),
        ),
        check_frame_type=False,
    )


@pytest.mark.parametrize(
    ("index", "label"),
    [
        pytest.param(pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]), (2, "b"), id="multi"),
        pytest.param(
            pd.date_range("2024", periods=2, tz="UTC"),
            pd.Timestamp("2024-01-02", tz="UTC"),
            id="time",
        ),
        pytest.param(pd.Index([0.5, 0.5]), 0.5, id="duplicate-float"),
    ],
)
def test_failure_names_its_row_by_label(results, index, label):
    """The label is the index's own value, a tuple for several levels."""
    frame = results(index=index, a=[{"score": 1.0}, {"error": "timeout: 1 s"}])

    assert failures(frame)[["position", "index"]].to_numpy().tolist() == [[1, label]]


def test_error_without_a_message_has_only_a_kind(results):
    """Any text in the error column is read."""
    made = failures(results(a=[{"error": "timeout"}]))

    assert made[["kind", "message"]].to_numpy().tolist() == [["timeout", ""]]


def test_same_error_on_many_rows_is_printed_once_with_its_count(results):
    """Print shows each distinct error, how often, where first, and how to see more."""
    many = [{"error": KEY_ERROR}] * 7
    frame = results(a=[*many, {"error": "timeout: 1 s"}, {"score": 1.0}])

    assert repr(failures(frame)) == (
        "8 failures, 2 distinct:\n"
        "7 x a: exception: KeyError: 'x' (a.py:3)  [rows 0, 1, 2, 3, 4, ...]\n"
        "1 x a: timeout: 1 s  [rows 7]\n"
        "Row by row: .head(20). A traceback: ['traceback'].dropna().iloc[0]."
    )


def test_html_shows_the_same_and_escapes_what_users_wrote(results):
    """A message with markup is text in a notebook."""
    frame = results(a=[{"error": "exception: ValueError: <script>alert(1)</script> & more"}])
    page = failures(frame)._repr_html_()

    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "<td>1</td><td>a</td>" in page


def test_print_is_capped_at_ten_errors(results):
    """Many different errors do not fill the screen, in text or HTML."""
    made = failures(results(a=[{"error": f"exception: E{row}"} for row in range(13)]))

    assert repr(made).splitlines()[-2] == "... and 3 more"
    assert len(repr(made).splitlines()) == 13
    assert made._repr_html_().count("<tr>") == 11
    assert "... and 3 more" in made._repr_html_()


def test_long_error_is_cut_in_print_and_whole_in_the_table(results):
    """One line per error, however long or broken its text."""
    error = "exception: ValueError: " + "line\n" * 200
    made = failures(results(a=[{"error": error}]))

    assert len(repr(made).splitlines()) == 3
    assert made["message"][0] == error.removeprefix("exception: ")


def test_no_failures_say_so(results):
    """An empty table has all columns, typed, and prints a sentence."""
    made = failures(results(a=[{"score": 1.0}]))

    assert (repr(made), made._repr_html_()) == ("No failures.", "<p>No failures.</p>")
    assert made.dtypes.tolist() == [np.dtype("int64"), np.dtype("int64"), TEXT, TEXT, TEXT, TEXT]


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda made: made.head(1), id="head"),
        pytest.param(lambda made: made[made["kind"] == "exception"], id="filter"),
        pytest.param(lambda made: made[["kind", "message"]], id="columns"),
        pytest.param(lambda made: made.copy(), id="copy"),
    ],
)
def test_what_is_taken_from_the_table_is_an_ordinary_frame(results, take):
    """Its parts print row by row, as pandas does."""
    assert type(take(failures(results(a=[{"error": KEY_ERROR}])))) is pd.DataFrame


def test_table_that_lost_a_column_in_place_prints_as_pandas_does(results):
    """Print never fails for what a user did to the table."""
    made = failures(results(a=[{"error": KEY_ERROR}]))
    del made["kind"]

    assert repr(made) == repr(pd.DataFrame(made))
    assert "<table" in made._repr_html_()


def test_failure_lines_are_the_errors_by_frequency(results):
    """One line per evaluator and error, with the count."""
    frame = results(
        a=[{"error": "timeout: 1 s"}, {"error": KEY_ERROR}, {"error": KEY_ERROR}],
        b=[{"error": KEY_ERROR}, {"score": 1.0}, {"error": "skipped: no"}],
    )

    assert failure_lines(frame) == [
        "2 x a: exception: KeyError: 'x' (a.py:3)",
        "1 x a: timeout: 1 s",
        "1 x b: exception: KeyError: 'x' (a.py:3)",
    ]


def test_failure_lines_end_with_how_many_more(results):
    """At most ten lines, and a last one."""
    lines = failure_lines(results(a=[{"error": f"exception: E{row}"} for row in range(12)]))

    assert (len(lines), lines[0], lines[-1]) == (11, "1 x a: exception: E0", "... and 2 more")


def test_no_failures_are_no_lines(results):
    """Nothing failed, nothing to say."""
    assert failure_lines(results(a=[{"score": 1.0}])) == []
