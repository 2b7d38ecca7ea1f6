"""What a task may give, and the column it becomes."""

import math
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evalframe.core.columns import TEXT, Column
from evalframe.tasks.output import InvalidOutputError, checked_output, output_column

INDEX = pd.Index([5, 5])


@pytest.mark.parametrize("null", [None, math.nan, pd.NA, pd.NaT, np.float32("nan")], ids=repr)
@pytest.mark.parametrize("declared", [None, str, int, "json"])
def test_a_null_is_a_legal_output(null, declared):
    """Whatever type is declared."""
    assert checked_output(null, declared) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("hi", "hi", id="text"),
        pytest.param("", "", id="empty-text"),
        pytest.param(0, 0, id="zero"),
        pytest.param(np.int64(3), 3, id="numpy"),
        pytest.param({"a": [np.float64(0.5)]}, {"a": [0.5]}, id="nested"),
        pytest.param((1, 2), (1, 2), id="tuple"),
        pytest.param("a\ud800", "a\ufffd", id="lone-surrogate"),
    ],
)
def test_an_output_is_kept_as_a_plain_python_value(given, kept):
    """As the same value of a dataset is."""
    found = checked_output(given, None)

    assert (found, type(found)) == (kept, type(kept))


def test_the_run_keeps_an_output_of_its_own():
    """A task that goes on changing what it returned changes no result."""
    given = {"steps": [1]}

    kept = checked_output(given, None)
    given["steps"].append(2)

    assert kept == {"steps": [1]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(object(), "^the task returned an object, which cannot be kept", id="object"),
        pytest.param({"a": [{1}]}, r"^the task returned a set at \.a\[\], which", id="inside"),
        pytest.param({1: "a"}, "the key 1, which is no text", id="key"),
        pytest.param(
            [datetime(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)], "without a zone", id="zones"
        ),
    ],
)
def test_an_output_that_cannot_be_kept_is_refused_with_its_place(given, message):
    """It is a failed task of that row."""
    with pytest.raises(InvalidOutputError, match=message):
        checked_output(given, None)


def test_an_awaitable_from_a_plain_function_is_told_how_to_be_awaited():
    """It is closed, so that Python does not warn of it later."""

    async def answer():
        return "hi"

    with pytest.raises(InvalidOutputError, match="returned an awaitable from a plain function"):
        checked_output(answer(), None)


@pytest.mark.parametrize(
    ("given", "declared", "kept"),
    [
        pytest.param("hi", str, "hi", id="text"),
        pytest.param(3, int, 3, id="int"),
        pytest.param(np.int64(3), int, 3, id="numpy-int"),
        pytest.param(0.5, float, 0.5, id="float"),
        pytest.param(3, float, 3.0, id="int-as-float"),
        pytest.param(False, bool, False, id="bool"),
        pytest.param([1, {"a": None}], "json", [1, {"a": None}], id="json"),
    ],
)
def test_an_output_of_the_declared_type_is_kept(given, declared, kept):
    """An integer is a float."""
    found = checked_output(given, declared)

    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("given", "declared", "message"),
    [
        pytest.param(3, str, "returned int, but declares output=str", id="int-for-text"),
        pytest.param("3", int, "returned str, but declares output=int", id="text-for-int"),
        pytest.param(3.0, int, "returned float, but declares output=int", id="float-for-int"),
        pytest.param(True, int, "returned bool, but declares output=int", id="bool-for-int"),
        pytest.param(True, float, "returned bool, but declares output=float", id="bool-for-float"),
        pytest.param(1, bool, "returned int, but declares output=bool", id="int-for-bool"),
        pytest.param(2**63, int, "returned int, but declares output=int", id="beyond-64-bits"),
        pytest.param(10**400, float, "but declares output=float", id="beyond-doubles"),
        pytest.param([1], str, "returned list, but declares output=str", id="list-for-text"),
    ],
)
def test_an_output_of_another_type_is_refused(given, declared, message):
    """Never converted."""
    with pytest.raises(InvalidOutputError, match=message):
        checked_output(given, declared)


@pytest.mark.parametrize(
    ("outputs", "dtype"),
    [
        pytest.param(["a", None], TEXT, id="text"),
        pytest.param([1, None], pd.ArrowDtype(pa.int64()), id="int"),
        pytest.param([0.5, None], pd.ArrowDtype(pa.float64()), id="float"),
        pytest.param([True, None], pd.ArrowDtype(pa.bool_()), id="bool"),
        pytest.param([["a"], []], pd.ArrowDtype(pa.list_(pa.large_string())), id="list"),
        pytest.param([1, "a"], np.dtype(object), id="mixed"),
        pytest.param([{"a": 1}, {}], np.dtype(object), id="records"),
        pytest.param([None, None], TEXT, id="nothing-but-nulls"),
    ],
)
def test_the_type_of_the_column_is_decided_by_its_values(outputs, dtype):
    """One type that keeps all of them, else Python objects; text where there is nothing."""
    found = output_column(outputs, INDEX, None)

    assert found.dtype == dtype
    assert Column("output", found).values(slice(None)) == outputs
    assert (found.name, list(found.index)) == ("output", [5, 5])


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        pytest.param(str, TEXT, id="text"),
        pytest.param(int, pd.ArrowDtype(pa.int64()), id="int"),
        pytest.param(float, pd.ArrowDtype(pa.float64()), id="float"),
        pytest.param(bool, pd.ArrowDtype(pa.bool_()), id="bool"),
        pytest.param("json", np.dtype(object), id="json"),
    ],
)
@pytest.mark.parametrize("outputs", [[None, None], []], ids=["nulls", "empty"])
def test_a_declared_type_holds_even_without_a_value(outputs, declared, dtype):
    """Every task failed, or there was no row."""
    assert output_column(outputs, pd.RangeIndex(len(outputs)), declared).dtype == dtype


def test_json_outputs_stay_python_values():
    """Also where one Arrow type would do."""
    outputs = [{"a": 1}, {"a": 2}]

    assert output_column(outputs, INDEX, "json").tolist() == outputs
