"""One column: fresh Python values, a Series for vectorized evaluators, Arrow for files."""

import math
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.columns import (
    CHUNK_ROWS,
    TEXT,
    Column,
    as_objects,
    backed,
    chunked,
    from_arrow,
    series_of,
)
from evalframe.core.errors import UnsupportedValueError

BERLIN = ZoneInfo("Europe/Berlin")
PLUS_TWO = timezone(timedelta(hours=2))
EVERYTHING = slice(None)


def typed(value):
    """A value with the types of all its parts spelled out, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return (dict, [(key, typed(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [typed(item) for item in value])
    if isinstance(value, float):
        return (float, "nan" if math.isnan(value) else value)
    return (type(value), value)


def objects(*values):
    """A column of Python objects."""
    return Column("x", pd.Series(as_objects(list(values)), dtype=object))


def arrow(values, kind):
    """A column with an Arrow dtype."""
    return Column("x", pd.Series(values, dtype=pd.ArrowDtype(kind)))


ATOM = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(BERLIN), allow_imaginary=False).map(
        lambda value: {"zoned": value}
    ),
    st.decimals(allow_nan=False),
)
CELLS = st.recursive(
    ATOM,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=2).map(tuple),
        st.fixed_dictionaries({"a": parts, "b": parts}),
        st.dictionaries(st.text(max_size=2), parts, max_size=2),
    ),
    max_leaves=5,
)
# Either anything at all, or one kind of value, which is stored natively.
COLUMNS = st.one_of(
    st.lists(CELLS, max_size=4),
    *(
        st.lists(st.one_of(st.none(), kind), max_size=4)
        for kind in (
            st.integers(-(2**63), 2**63 - 1),
            st.text(max_size=4),
            st.lists(st.text(max_size=2), max_size=2),
            st.fixed_dictionaries({"a": st.floats(), "b": st.lists(st.booleans(), max_size=2)}),
            st.datetimes(timezones=st.just(UTC)),
        )
    ),
)


@given(COLUMNS)
def test_any_column_of_values_comes_back_from_its_file_form_unchanged(values):
    """Natively or as JSON text: equal, and of the same type at every level."""
    column = objects(*values)

    stored = column.stored()
    back = Column("x", from_arrow("x", stored.array, json=stored.json))

    assert [typed(value) for value in back.values(EVERYTHING)] == [typed(value) for value in values]


@given(COLUMNS)
def test_an_arrow_backed_column_gives_the_same_values(values):
    """What `run_experiment` hands back of a Dataset reads like what went in."""
    back = Column("x", objects(*values).arrow_backed())

    assert [typed(value) for value in back.values(EVERYTHING)] == [typed(value) for value in values]


@given(COLUMNS, st.data())
def test_any_rows_of_a_column_are_read_alone(values, data):
    """A slice or positions, in any order, repeated or not."""
    column = objects(*values)
    places = data.draw(
        st.lists(st.sampled_from(range(len(values))), max_size=4) if values else st.just([])
    )

    found = column.values(np.array(places, dtype=np.int64))

    assert [typed(value) for value in found] == [typed(values[place]) for place in places]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        pytest.param(pd.Series(["a", None]), ["a", None], id="str"),
        pytest.param(pd.Series(["a", None], dtype="string"), ["a", None], id="string"),
        pytest.param(pd.Series(["a", None], dtype=TEXT), ["a", None], id="string-pyarrow"),
        pytest.param(pd.Series([1, 2]), [1, 2], id="int64"),
        pytest.param(pd.Series([1, None], dtype="Int64"), [1, None], id="nullable-int"),
        pytest.param(pd.Series([0.5, math.nan]), [0.5, None], id="float-nan"),
        pytest.param(pd.Series([0.5, math.nan], dtype="float32"), [0.5, None], id="float32-nan"),
        pytest.param(pd.Series([0.5, 2.0], dtype="float16"), [0.5, 2.0], id="float16"),
        pytest.param(pd.Series([0.5, None], dtype="Float64"), [0.5, None], id="nullable-float"),
        pytest.param(pd.Series([True, False]), [True, False], id="bool"),
        pytest.param(pd.Series([True, None], dtype="boolean"), [True, None], id="nullable-bool"),
        pytest.param(
            pd.Series(pd.to_datetime(["2024-05-01", None])), [datetime(2024, 5, 1), None], id="time"
        ),
        pytest.param(
            pd.Series(pd.to_datetime(["2024-05-01 00:00:00.123456789"])),
            [datetime(2024, 5, 1, microsecond=123456)],
            id="nanoseconds-are-cut",
        ),
        pytest.param(
            pd.Series(pd.to_timedelta(["3s", None])), [timedelta(seconds=3), None], id="timedelta"
        ),
        pytest.param(pd.Series(["a", None], dtype="category"), ["a", None], id="category"),
        pytest.param(
            pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
            [[1], None],
            id="list",
        ),
        pytest.param(
            pd.Series([Decimal("1.5")], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
            [Decimal("1.50")],
            id="decimal",
        ),
        pytest.param(
            pd.Series([date(2024, 5, 1)], dtype=pd.ArrowDtype(pa.date32())),
            [date(2024, 5, 1)],
            id="date",
        ),
        pytest.param(
            pd.Series(pd.arrays.ArrowExtensionArray(pa.array(["a", "b"]).dictionary_encode())),
            ["a", "b"],
            id="arrow-dictionary",
        ),
        pytest.param(
            pd.Series(
                pd.arrays.ArrowExtensionArray(
                    pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8()))
                )
            ),
            [{"k": 1}],
            id="map",
        ),
    ],
)
def test_every_dtype_gives_plain_python_values_and_none_for_null(series, expected):
    """Never NaN, pd.NA, NaT, arrays or NumPy scalars."""
    found = Column("x", series).values(EVERYTHING)

    assert [typed(value) for value in found] == [typed(value) for value in expected]


@pytest.mark.parametrize(
    "null", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr
)
@pytest.mark.parametrize("beside", [{"answer": "4"}, "text", 3, 0.5, [1]], ids=repr)
def test_h07_every_kind_of_null_among_objects_is_none(null, beside):
    """Exactly None, whatever stands beside it; the neighbour is untouched."""
    found = objects(beside, null).values(EVERYTHING)

    assert [typed(value) for value in found] == [typed(beside), typed(None)]


def test_nan_inside_a_value_is_a_float():
    """Only a whole cell is missing; what is in a list is the user's."""
    assert typed(objects([math.nan, None]).values(EVERYTHING)) == typed([[math.nan, None]])
    nested = pa.array([[math.nan, None]], pa.list_(pa.float64()))
    column = Column("x", pd.Series(pd.arrays.ArrowExtensionArray(nested)))
    assert typed(column.values(EVERYTHING)) == typed([[math.nan, None]])


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(objects({"tags": ["x"]}), id="objects"),
        pytest.param(
            arrow([{"tags": ["x"]}], pa.struct({"tags": pa.list_(pa.string())})), id="arrow"
        ),
    ],
)
def test_every_reading_gives_values_of_its_own(column):
    """What one reader does to a value reaches neither the next nor the frame."""
    column.values(EVERYTHING)[0]["tags"].append("changed")

    assert column.values(EVERYTHING) == [{"tags": ["x"]}]
    assert column.mutable


@pytest.mark.parametrize(
    "column",
    [objects("a", None), objects(1, "a"), arrow(["a"], pa.string())],
    ids=["text", "mixed", "arrow"],
)
def test_columns_of_immutable_values_may_be_shared(column):
    """They are decoded once for all readers."""
    assert not column.mutable


def test_h16_text_and_message_lists_in_one_column_keep_their_types():
    """One is stored beside the other, as JSON text."""
    values = ["hi", [{"role": "user", "content": "hi"}]]
    stored = objects(*values).stored()

    assert stored.json
    assert from_arrow("x", stored.array, json=True).tolist() == values


def test_h17_times_keep_their_zone_at_the_top_and_inside():
    """Aware stays aware, the instant stays the instant."""
    at = datetime(2024, 5, 1, 13, tzinfo=PLUS_TWO)
    columns = [objects(at), objects({"at": at})]

    stored = [column.stored() for column in columns]
    top, inside = (
        Column("x", from_arrow("x", kept.array, json=kept.json)).values(EVERYTHING)[0]
        for kept in stored
    )

    assert top == inside["at"] == datetime(2024, 5, 1, 11, tzinfo=UTC)
    assert top.utcoffset() == inside["at"].utcoffset() == timedelta(hours=2)


def test_h17_a_naive_time_beside_an_aware_one_names_column_and_row():
    """An error before the run, not a reinterpretation."""
    column = objects({"at": datetime(2024, 5, 1, tzinfo=UTC)}, {"at": datetime(2024, 5, 1)})

    with pytest.raises(
        UnsupportedValueError,
        match=r"^Column 'x', row 1, at \.at: a datetime without a zone .*Give all of them a zone",
    ):
        column.check()


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(
            [
                [{"name": "a", "output": None}, {"name": "b", "output": None}],
                [{"name": "c", "output": None}],
            ],
            id="beside-a-name",
        ),
        pytest.param([[{"output": None}, {"output": None}], [{"output": None}]], id="alone"),
    ],
)
def test_h18_structs_with_a_field_that_is_always_null_stay_valid(values):
    """Lengths and names are right at each step: stored, sliced, read."""
    column = objects(*values)

    stored = column.stored()
    stored.array.validate(full=True)
    table = pa.table({"x": stored.array}).slice(1)
    table.validate(full=True)

    assert from_arrow("x", table["x"], json=stored.json).tolist() == values[1:]
    assert column.arrow_backed().tolist() == values


def test_h18_an_arrow_column_with_a_null_type_inside_becomes_python_objects():
    """Arrow cannot cast it even to its own type."""
    array = pa.array([[{"b": None}, {"b": None}], [{"b": None}]])
    series = from_arrow("x", array)

    assert series.dtype == object
    assert series.tolist() == [[{"b": None}, {"b": None}], [{"b": None}]]
    assert Column("x", series).stored().json


def test_h20_dicts_with_different_keys_are_not_padded():
    """Evaluators and files see the keys that were given."""
    values = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    column = objects(*values)

    stored = column.stored()

    assert column.values(EVERYTHING) == values
    assert column.arrow_backed().tolist() == values
    assert from_arrow("x", stored.array, json=stored.json).tolist() == values


def test_h21_integers_in_dicts_stay_integers_and_no_key_is_added():
    """3 and not 3.0; no 'n' where there was none."""
    values = [{"n": 3, "k": 1}, {"k": 2}]
    stored = objects(*values).stored()

    back = from_arrow("x", stored.array, json=stored.json).tolist()

    assert typed(back) == typed(values)


@pytest.mark.parametrize(
    "values", [[{}, {}], [{"run": {}}, {"run": {}}], [[{"name": "now", "args": {}}], []]], ids=repr
)
def test_empty_dicts_are_stored_as_text(values):
    """Arrow cannot write an empty struct; `{}` is not None."""
    stored = objects(*values).stored()

    assert stored.json
    assert from_arrow("x", stored.array, json=True).tolist() == values


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        pytest.param(objects("a"), pa.large_string(), id="text"),
        pytest.param(objects(1, None), pa.int64(), id="int"),
        pytest.param(objects(None), None, id="nulls"),
        pytest.param(arrow([1], pa.int8()), pa.int8(), id="arrow-int8"),
        pytest.param(arrow([None], pa.null()), None, id="arrow-null"),
        pytest.param(Column("x", pd.Series([1], dtype="category")), pa.int64(), id="category"),
        pytest.param(Column("x", pd.Series([0.5])), pa.float64(), id="numpy"),
    ],
)
def test_a_column_knows_the_type_that_keeps_it(column, kind):
    """None is JSON text; Arrow's null type is never used."""
    assert column.arrow_type == kind
    assert column.stored().array.type == (kind or pa.large_string())
    assert column.stored().json is (kind is None)


def test_a_value_that_cannot_be_given_to_evaluators_names_column_and_row():
    """And where in the cell it is, and what to use instead."""
    with pytest.raises(
        UnsupportedValueError,
        match=r"^Column 'x', row 2, at \.tags\[\]: a set cannot be given to evaluators or kept in "
        r"a file\. Use None, bool",
    ):
        objects(None, {"tags": []}, {"tags": [{1}]}).check()


@pytest.mark.parametrize(
    "series",
    [
        pytest.param(
            pd.Series(np.array(["2024-05-01", "NaT", "12000-01-01"], "M8[s]")), id="datetime"
        ),
        pytest.param(pd.Series(np.array([1, 2, 2**62], "m8[s]")), id="timedelta"),
        pytest.param(pd.Series([1, None, 2**31 - 1], dtype=pd.ArrowDtype(pa.date32())), id="date"),
        pytest.param(
            pd.Series([1, None, 2**55], dtype=pd.ArrowDtype(pa.timestamp("ms"))), id="arrow"
        ),
    ],
)
def test_a_time_that_python_cannot_hold_is_refused_with_its_row(series):
    """Before the run, not in the middle of it, and never wrapped around."""
    with pytest.raises(
        UnsupportedValueError, match=r"^Column 'x', row 2: a time beyond Python's, such as one"
    ):
        Column("x", series).check()


@pytest.mark.parametrize(
    "value",
    [
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        timedelta(days=100_000_000),
    ],
    ids=str,
)
def test_the_first_and_the_last_day_are_values_like_any_other(value):
    """They are often used for "never"."""
    column = Column("x", pd.Series([value, None]))

    column.check()

    assert column.values(EVERYTHING) == [value, None]


def test_lone_surrogates_are_replaced_with_one_warning_that_counts_rows():
    """Text with them can be neither sent nor written."""
    column = objects("a\ud800", {"k": "\udfff"}, "fine", None)

    with pytest.warns(
        UserWarning, match=r"^Column 'x' holds lone surrogates in 2 of 4 rows; .* U\+FFFD\.$"
    ):
        found = column.values(EVERYTHING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = column.values(EVERYTHING)

    assert found == again == ["a\ufffd", {"k": "\ufffd"}, "fine", None]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        pytest.param(Column("x", pd.Series(["a", None])), TEXT, id="str"),
        pytest.param(objects("a", None), TEXT, id="objects"),
        pytest.param(arrow(["a", None], pa.string()), TEXT, id="arrow-text"),
        pytest.param(Column("x", pd.Series([1, 2])), pd.ArrowDtype(pa.int64()), id="int"),
        pytest.param(Column("x", pd.Series([0.5])), pd.ArrowDtype(pa.float64()), id="float"),
        pytest.param(objects(True, None), pd.ArrowDtype(pa.bool_()), id="bool"),
        pytest.param(objects([1], None), np.dtype(object), id="list"),
        pytest.param(arrow([[1]], pa.list_(pa.int64())), np.dtype(object), id="arrow-list"),
        pytest.param(objects(1, "a"), np.dtype(object), id="mixed"),
        pytest.param(objects(None, None), np.dtype(object), id="nulls"),
    ],
)
def test_vectorized_evaluators_see_text_as_string_and_the_rest_with_na(column, dtype):
    """Never `str`, in which a null equals nothing and is unequal to everything."""
    assert column.vector().dtype == dtype


def test_a_null_is_na_in_a_comparison():
    """Neither equal nor unequal to anything."""
    found = Column("x", pd.Series(["a", None])).vector() == "a"

    assert found.tolist() == [True, pd.NA]


def test_nan_is_na_for_a_vectorized_evaluator():
    """A missing number has one form."""
    assert Column("x", pd.Series([0.5, math.nan])).vector().tolist() == [0.5, pd.NA]


@pytest.mark.parametrize("kind", ["vector", "arrow_backed"])
def test_the_frame_s_index_and_the_column_s_name_are_kept(kind):
    """Whatever they are."""
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 1)])
    found = getattr(Column("x", pd.Series(["t", [1]], index=index, dtype=object)), kind)()

    pd.testing.assert_index_equal(found.index, index)
    assert found.name == "x"


def test_a_vector_of_lists_has_lists_of_its_own():
    """A vectorized evaluator may change them."""
    column = objects([1], [2])
    column.vector()[0].append("changed")

    assert column.values(EVERYTHING) == [[1], [2]]


def test_a_sparse_column_gives_its_values():
    """Arrow does not read it; Python does."""
    series = pd.Series(pd.arrays.SparseArray([1, 0, 2]))

    assert typed(Column("x", series).values(EVERYTHING)) == typed([1, 0, 2])


@pytest.mark.parametrize(
    ("series", "what"),
    [
        pytest.param(pd.Series([1j, 2j]), "a complex", id="complex"),
        pytest.param(
            pd.Series(pd.period_range("2024", periods=2, freq="D")), "a Period", id="period"
        ),
        pytest.param(pd.Series(pd.interval_range(0, 2)), "an Interval", id="interval"),
    ],
)
def test_a_dtype_without_plain_values_is_refused_when_read_and_stays_in_the_frame(series, what):
    """It is the user's column; only an evaluator cannot have it."""
    column = Column("x", series)

    with pytest.raises(UnsupportedValueError, match=f"^Column 'x', row 0: {what} cannot be given"):
        column.check()
    assert column.arrow_backed() is series


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.time32("s"), pa.date64()], ids=str)
def test_times_that_are_always_python_s_are_accepted(kind):
    """They have no year to be out of range."""
    arrow([None, time(1)] if "time" in str(kind) else [None, date(2024, 5, 1)], kind).check()


def test_an_arrow_column_of_empty_structs_becomes_python_objects():
    """Parquet cannot write an empty struct."""
    series = from_arrow("x", pa.array([{}, None, {}]))

    assert series.tolist() == [{}, None, {}]
    assert Column("x", series).stored().json


def test_making_a_column_reads_nothing():
    """A column that cannot be used is no error until it is read."""
    assert objects({1, 2}).name == "x"


def test_text_is_backed_by_pandas_own_string_dtype():
    """It concatenates with pandas' own text and is not bound to 2 GB."""
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert backed(pa.array(["a"], kind)).dtype == TEXT
    assert backed(pa.array([1])).dtype == pd.ArrowDtype(pa.int64())


def test_arrow_dictionaries_and_extension_types_lose_only_their_wrapping():
    """Their values are what counts."""
    assert from_arrow("x", pa.array(["a", "a"]).dictionary_encode()).dtype == TEXT
    assert from_arrow(
        "x", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))
    ).tolist() == [b"x" * 16]


def test_python_values_become_a_vector():
    """As a column of the frame does."""
    found = series_of(["a", None], pd.Index([5, 7]), "output")

    pd.testing.assert_series_equal(
        found, pd.Series(["a", None], index=[5, 7], name="output", dtype=TEXT)
    )


@pytest.mark.parametrize(
    ("length", "sizes"),
    [(0, [0]), (3, [3]), (CHUNK_ROWS, [CHUNK_ROWS]), (CHUNK_ROWS + 1, [CHUNK_ROWS, 1])],
    ids=["none", "few", "full", "one-more"],
)
def test_chunks_cover_every_row_once(length, sizes):
    """An empty column has one empty chunk."""
    rows = chunked(length)

    assert [part.stop - part.start for part in rows] == sizes
    assert [row for part in rows for row in range(part.start, part.stop)] == list(range(length))


def test_a_long_column_is_stored_in_chunks():
    """Rows keep their order over the borders."""
    values = [str(row) for row in range(10_000)]

    stored = objects(*values).stored()

    assert stored.array.num_chunks > 1
    assert stored.array.to_pylist() == values
    assert objects(time(1)).stored().array.type == pa.time64("us")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param([["a", "é"], None, []], pa.list_(pa.large_string()), id="texts"),
        pytest.param([["a"], [None]], pa.list_(pa.large_string()), id="texts-and-null"),
        pytest.param([[], []], None, id="empty"),
        pytest.param([["a"], [1]], None, id="mixed"),
        pytest.param([["a"], ("a",)], None, id="tuple"),
        pytest.param([[math.nan], [1.0]], pa.list_(pa.float64()), id="nan"),
        pytest.param([[["a"]], None], pa.list_(pa.list_(pa.large_string())), id="nested"),
    ],
)
def test_lists_are_stored_by_what_is_in_them_and_read_as_they_are(values, kind):
    """Columns of lists of texts have a way of their own, which must come to the same."""
    column = objects(*values)

    assert column.arrow_type == kind
    assert typed(column.values(EVERYTHING)) == typed(values)
    assert typed(column.vector(shared=True).tolist()) == typed(values)


def test_a_text_of_another_type_in_a_list_becomes_plain():
    """NumPy's text is a subclass of Python's."""
    column = objects(["a", np.str_("b")])

    assert typed(column.values(EVERYTHING)) == typed([["a", "b"]])
    assert typed(column.vector(shared=True).tolist()) == typed([["a", "b"]])


def test_lone_surrogates_in_lists_are_counted_by_row_and_replaced():
    """Beyond the rows that are looked at together, too; the frame keeps its own."""
    rows = [["fine", "é"], None, ["\ud800", "\udfff"], ["a"], []] * 200
    column = objects(*rows)

    with pytest.warns(UserWarning, match=r"lone surrogates in 200 of 1000 rows"):
        column.check()

    assert column.values(slice(2, 3)) == column.vector(shared=True).tolist()[2:3] == [["�", "�"]]
    assert column.series[2] == ["\ud800", "\udfff"]


def test_a_reader_that_changes_nothing_may_have_the_frame_s_own_lists():
    """But never its column: what it assigns stays with it."""
    column = objects(["a"], None)

    vector = column.vector(shared=True)
    vector.iloc[1] = ["b"]

    assert vector.iloc[0] is column.series.iloc[0]
    assert column.series.iloc[1] is None
