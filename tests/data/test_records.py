"""Lists of dicts: what goes in comes out, each value equal and of its own type."""

import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evalframe.core.errors import DatasetError, UnsupportedValueError
from evalframe.data import Dataset, Example

BERLIN_SUMMER = timezone(timedelta(hours=2))


class Turn(BaseModel):
    """A row in somebody's own model."""


def typed(value):
    """A value with the types of all its parts spelled out, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return (dict, [(typed(key), typed(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [typed(item) for item in value])
    if isinstance(value, float) and math.isnan(value):
        return (float, "nan")
    return (type(value), value)


def values(dataset, label):
    """All values of a column as an evaluator gets them."""
    return dataset.column(label).values(slice(None))


def rows_of(dataset):
    """The dataset as dicts."""
    columns = [values(dataset, label) for label in dataset.columns]
    return [dict(zip(dataset.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
)
TREES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(), inner), st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["input", "output", "é", "a.b"])
ROWS = st.lists(st.dictionaries(KEYS, TREES), max_size=6)
# Columns of one type each, which become native Arrow columns.
UNIFORM = st.one_of(
    *(
        st.lists(st.fixed_dictionaries({"x": st.none() | kind}), min_size=1, max_size=6)
        for kind in (
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
            st.booleans(),
            st.text(),
            st.binary(),
            st.dates(),
            st.datetimes(),
            st.times(),
            st.lists(st.text()),
            st.lists(st.lists(st.integers(-5, 5))),
            st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.none() | st.text()}),
            st.lists(st.fixed_dictionaries({"n": st.text(), "o": st.none()})),
        )
    )
)


@given(st.one_of(ROWS, UNIFORM))
def test_rows_come_back_equal_and_of_the_same_types(rows):
    """Rows -> Dataset -> rows: nothing changes but absent cells and NaN cells, which are None."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[row.get(column) for column in columns] for row in rows]
    expected = [
        [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in row]
        for row in cells
    ]

    dataset = Dataset(rows)

    assert dataset.columns == columns
    assert len(dataset) == len(rows)
    assert [typed(list(row.values())) for row in rows_of(dataset)] == [
        typed(row) for row in (expected if columns else [])
    ]


@given(st.one_of(ROWS, UNIFORM))
def test_rows_survive_arrow_and_pandas(rows):
    """Rows -> Dataset -> Arrow table or frame -> Dataset gives the same values and types."""
    dataset = Dataset(rows)
    expected = typed(rows_of(dataset))

    assert typed(rows_of(Dataset(dataset.to_arrow()))) == expected
    assert typed(rows_of(Dataset(dataset.to_pandas()))) == expected


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        pytest.param(["a", None], "string", id="text"),
        pytest.param([1, None], "int64[pyarrow]", id="whole-numbers-stay-whole-beside-null"),
        pytest.param([1.5, math.nan], "double[pyarrow]", id="floats"),
        pytest.param([True, None], "bool[pyarrow]", id="bools"),
        pytest.param([["x"], []], "list<item: large_string>[pyarrow]", id="lists"),
        pytest.param([{"k": 1}, {"k": 2}], "struct<k: int64>[pyarrow]", id="dicts-with-equal-keys"),
        pytest.param([1, 1.5], "object", id="whole-numbers-beside-floats"),
        pytest.param([{"k": 1}, {"j": 2}], "object", id="dicts-with-other-keys"),
        pytest.param([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "object", id="keys-in-another-order"),
        pytest.param([{}, {}], "object", id="empty-dicts"),
        pytest.param([None, None], "object", id="nothing-but-nulls"),
        pytest.param([2**70, 1], "object", id="whole-numbers-beyond-64-bits"),
        pytest.param([(1,), (2,)], "object", id="tuples"),
    ],
)
def test_column_is_native_arrow_exactly_where_that_keeps_every_value(cells, dtype):
    """The frame of a list of dicts is Arrow-backed, but for columns that only JSON can keep."""
    frame = Dataset([{"x": cell} for cell in cells]).to_pandas()

    assert str(frame["x"].dtype) == dtype


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(datetime(2024, 5, 1, 13, tzinfo=BERLIN_SUMMER), id="zoned-datetime"),
        pytest.param(datetime(2024, 5, 1, 13), id="naive-datetime"),
        pytest.param(date(2024, 5, 1), id="date"),
        pytest.param(time(13, 30), id="time"),
        pytest.param(timedelta(days=-3), id="timedelta"),
        pytest.param(Decimal("1.50"), id="decimal"),
        pytest.param(uuid.UUID(int=7), id="uuid"),
        pytest.param({"at": datetime(2024, 5, 1, 13, tzinfo=UTC)}, id="datetime-in-a-dict"),
    ],
)
def test_other_types_survive_a_table(value):
    """Times, decimals and identifiers come back from an Arrow table as what they were."""
    back = values(Dataset(Dataset([{"x": value}, {"x": None}]).to_arrow()), "x")

    assert typed(back) == typed([value, None])


def test_columns_are_the_union_of_keys_in_first_seen_order():
    """A key that a row lacks is null there, before and after its first appearance."""
    dataset = Dataset([{"b": 1}, {"a": "x"}, {"b": 2, "c": [0]}])

    assert dataset.columns == ["b", "a", "c"]
    assert [values(dataset, label) for label in "bac"] == [
        [1, None, 2],
        [None, "x", None],
        [None, None, [0]],
    ]


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        pytest.param([], (0, 0), id="no-rows"),
        pytest.param((), (0, 0), id="empty-tuple"),
        pytest.param([{}, {}], (2, 0), id="rows-without-columns"),
    ],
)
def test_nothing_is_a_dataset_too(rows, shape):
    """An empty list has no rows and no columns; empty dicts are rows."""
    dataset = Dataset(rows)

    assert (len(dataset), len(dataset.columns)) == shape
    assert dataset.to_pandas().shape == shape
    assert dataset.to_arrow().shape == shape


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param([{"a": 1}, Example()], "Row 1 is an Example, and other rows", id="mixed"),
        pytest.param(
            [Example(), {"a": 1}], "Row 0 is an Example, and other rows", id="mixed-other"
        ),
        pytest.param([{"a": 1}, None], "Row 1 is a NoneType", id="null-row"),
        pytest.param([[1, 2]], r"Row 0 is a list\. Name the columns", id="lists"),
        pytest.param([Turn()], r"Row 0 is a Turn\..*model_dump", id="models"),
        pytest.param(["a", "b"], r"Row 0 is a str\. Name the column", id="texts"),
    ],
)
def test_row_that_is_no_dict_is_named(rows, message):
    """What is no row is refused with its position and a way out."""
    with pytest.raises(DatasetError, match=message):
        Dataset(rows)


def test_rows_are_not_changed_and_not_shared():
    """What a caller does to the rows afterwards does not reach the dataset."""
    rows = [{"input": {"q": "a"}, "tags": ["x"]}, {"input": {"p": 1}, "tags": []}]
    dataset = Dataset(rows)

    rows[0]["input"]["q"] = "changed"
    rows[0]["tags"].append("changed")

    assert values(dataset, "input") == [{"q": "a"}, {"p": 1}]
    assert values(dataset, "tags") == [["x"], []]


def test_value_of_no_plain_kind_is_refused_only_when_it_is_read():
    """A set may stay in a column that nothing reads."""
    dataset = Dataset([{"output": "x", "seen": {1}}])

    assert values(dataset, "output") == ["x"]
    with pytest.raises(UnsupportedValueError, match="Column 'seen', row 0: a set cannot"):
        values(dataset, "seen")


def test_h16_text_beside_message_lists_keeps_both():
    """A column that is sometimes text and sometimes a list keeps each value's own type."""
    cells = ["hi", [{"role": "user", "content": "hi"}]]
    dataset = Dataset([{"input": cell} for cell in cells])

    assert values(dataset, "input") == cells
    assert values(Dataset(dataset.to_arrow()), "input") == cells


def test_h13_empty_dicts_stay_empty_dicts():
    """An empty dict is no null, at any depth."""
    rows = [
        {
            "metadata": {},
            "additional_metadata": {"run": {}},
            "tools_called": [{"name": "now", "args": {}}],
        },
        {"metadata": {}, "additional_metadata": {"run": {}}, "tools_called": []},
    ]

    assert rows_of(Dataset(Dataset(rows).to_arrow())) == rows


def test_h17_instants_keep_their_zone_inside_dicts_and_at_the_top():
    """An aware datetime stays aware, and names the same instant."""
    at = datetime(2024, 5, 1, 13, tzinfo=BERLIN_SUMMER)
    dataset = Dataset([{"metadata": {"at": at}, "at": at}])
    back = rows_of(Dataset(dataset.to_arrow()))[0]

    assert back["metadata"]["at"] == back["at"] == datetime(2024, 5, 1, 11, tzinfo=UTC)
    assert back["at"].tzinfo is not None


def test_h17_naive_beside_aware_is_refused():
    """A naive datetime next to an aware one in the same field is no silent reinterpretation."""
    cells = [{"at": datetime(2024, 5, 1, tzinfo=UTC)}, {"at": datetime(2024, 5, 1)}]
    dataset = Dataset([{"metadata": cell} for cell in cells])

    with pytest.raises(
        UnsupportedValueError, match=r"'metadata', row 1, at \.at: a datetime without"
    ):
        values(dataset, "metadata")


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(
            [
                [{"name": "a", "output": None}, {"name": "b", "output": None}],
                [{"name": "c", "output": None}],
            ],
            id="one-field-null-everywhere",
        ),
        pytest.param([[{"output": None}, {"output": None}], [{"output": None}]], id="only-null"),
    ],
)
def test_h18_lists_of_dicts_with_a_null_field_stay_valid(calls):
    """Lengths and names hold through building, copying, slicing and an Arrow table."""
    dataset = Dataset([{"tools_called": call} for call in calls])
    table = dataset.to_arrow()
    table.validate(full=True)

    assert values(dataset, "tools_called") == calls
    assert values(Dataset(dataset.to_pandas().copy()), "tools_called") == calls
    assert values(Dataset(dataset.to_pandas().iloc[1:]), "tools_called") == calls[1:]
    assert values(Dataset(table), "tools_called") == calls


def test_h20_dicts_with_different_keys_are_not_padded():
    """Each dict has exactly the keys it came with."""
    calls = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    dataset = Dataset([{"tools_called": call} for call in calls])

    assert values(dataset, "tools_called") == calls
    assert values(Dataset(dataset.to_arrow()), "tools_called") == calls


def test_h21_whole_numbers_in_dicts_stay_whole():
    """3 does not become 3.0, and an absent key does not become a null one."""
    cells = [{"n": 3, "k": 1}, {"k": 2}]
    back = values(Dataset(Dataset([{"metadata": cell} for cell in cells]).to_arrow()), "metadata")

    assert typed(back) == typed(cells)


def test_numpy_values_become_python_values():
    """Evaluators never get an array, a NumPy number or pandas' NA."""
    cells = [np.array(["x", "y"], dtype=object), np.array([], dtype=object), pd.NA]
    dataset = Dataset([{"docs": cell, "n": np.int64(3)} for cell in cells])

    assert typed(values(dataset, "docs")) == typed([["x", "y"], [], None])
    assert typed(values(dataset, "n")) == typed([3, 3, 3])


def test_lone_surrogate_is_replaced_with_one_warning():
    """Half a character becomes U+FFFD, and the warning names column and count."""
    with pytest.warns(UserWarning, match="Column 'output' holds lone surrogates in 1 of 2 rows"):
        dataset = Dataset([{"output": "\ud800!"}, {"output": "fine"}])

    assert values(dataset, "output") == ["�!", "fine"]
