"""Plain values, and the decision how a column keeps them."""

import collections
import dataclasses
import enum
import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evalframe.core.nested import (
    ATOMS,
    NotPlainError,
    Shape,
    arrow_type,
    is_null,
    plain,
    without_surrogates,
    zone_name,
)

PLUS_TWO = timezone(timedelta(hours=2))
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    """An enum without a plain base."""

    RED = 1


class Size(enum.IntEnum):
    """An enum that is a number."""

    BIG = 3


class Word(enum.StrEnum):
    """An enum that is a text."""

    HI = "hi"


class Tool(BaseModel):
    """Somebody's model."""

    name: str
    parts: tuple[int, ...] = ()
    inner: "Tool | None" = None


@dataclasses.dataclass
class Point:
    """Somebody's dataclass."""

    x: float
    tags: list


class Shouting(str):
    """A text that prints itself differently."""

    __slots__ = ()

    def __str__(self):
        return self.upper()


def typed(value):
    """A value with the types of all its parts spelled out, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return (dict, [(key, typed(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [typed(item) for item in value])
    if isinstance(value, float):
        return (float, "nan") if math.isnan(value) else (float, value, math.copysign(1, value))
    return (type(value), value)


def shape_of(values):
    """The facts about a whole column."""
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape


INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=5)
ATOM = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    st.binary(max_size=4),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, PLUS_TWO, BERLIN]), allow_imaginary=False),
    st.decimals(allow_nan=False),
    st.uuids(),
)


def nest(parts):
    """Lists, tuples and dicts of parts."""
    return st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(TEXTS, parts, max_size=3),
    )


ANYTHING = st.recursive(ATOM, nest, max_leaves=8)

# Columns in which a native type is likely: one kind of value, lists and records of it.
ONE_KIND = st.sampled_from(
    [
        INTEGERS,
        st.floats(),
        st.booleans(),
        TEXTS,
        st.binary(max_size=3),
        st.dates(),
        st.datetimes(),
        st.datetimes(timezones=st.just(BERLIN), allow_imaginary=False),
        st.timedeltas(),
        st.times(),
        st.integers(),
    ]
)
LAYERS = st.lists(st.sampled_from(["list", "record", "ragged", "tuple"]), max_size=2)


@st.composite
def columns(draw):
    """A column whose values share one form, nulls among them at any level."""
    part = st.one_of(draw(ONE_KIND), st.none())
    for layer in draw(LAYERS):
        inner = part
        part = st.one_of(
            {
                "list": st.lists(inner, max_size=3),
                "tuple": st.tuples(inner, inner),
                "record": st.fixed_dictionaries({"a": inner, "b": inner}),
                "ragged": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            }[layer],
            st.none(),
        )
    return draw(st.lists(part, min_size=1, max_size=4))


@given(ANYTHING)
def test_a_plain_value_stays_as_it_is(value):
    """Equal and of the same type at every level."""
    assert typed(plain(value)) == typed(value)


@given(ANYTHING)
def test_no_list_or_dict_is_shared_with_the_value_it_came_from(value):
    """What is done to the copy does not reach the value."""

    def containers(part):
        inner = part.values() if isinstance(part, dict) else part
        found = {id(part)} if isinstance(part, (list, dict)) else set()
        return found.union(*map(containers, inner)) if type(part) not in ATOMS else found

    assert not containers(plain(value)) & containers(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(np.int64(3), 3, id="numpy-int"),
        pytest.param(np.uint64(2**64 - 1), 2**64 - 1, id="numpy-uint64"),
        pytest.param(np.float64(0.5), 0.5, id="numpy-float64"),
        pytest.param(np.float32(0.5), 0.5, id="numpy-float32"),
        pytest.param(np.longdouble("0.5"), 0.5, id="numpy-longdouble"),
        pytest.param(np.bool_(1), True, id="numpy-bool"),
        pytest.param(np.str_("a"), "a", id="numpy-text"),
        pytest.param(np.bytes_(b"a"), b"a", id="numpy-bytes"),
        pytest.param(np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]], id="numpy-matrix"),
        pytest.param(np.array(5), 5, id="numpy-array-without-dimension"),
        pytest.param(np.array(None, dtype=object), None, id="numpy-object-without-dimension"),
        pytest.param(
            np.array([{"a": np.int8(1)}, None], dtype=object), [{"a": 1}, None], id="numpy-objects"
        ),
        pytest.param(np.datetime64("2024-05-01"), datetime(2024, 5, 1), id="numpy-time"),
        pytest.param(
            np.array(["2024-05-01", "NaT"], "M8[ns]"), [datetime(2024, 5, 1), None], id="times"
        ),
        pytest.param(np.timedelta64(3, "s"), timedelta(seconds=3), id="numpy-timedelta"),
        pytest.param(np.datetime64("NaT"), None, id="numpy-nat"),
        pytest.param(pd.NA, None, id="pandas-na"),
        pytest.param(pd.NaT, None, id="pandas-nat"),
        pytest.param(
            pd.Timestamp("2024-05-01", tz="UTC"), datetime(2024, 5, 1, tzinfo=UTC), id="timestamp"
        ),
        pytest.param(pd.Timedelta("3s"), timedelta(seconds=3), id="pandas-timedelta"),
        pytest.param(Size.BIG, 3, id="int-enum"),
        pytest.param(Word.HI, "hi", id="text-enum"),
        pytest.param(Shouting("hi"), "hi", id="text-subclass"),
        pytest.param(
            Tool(name="a", parts=(1,), inner=Tool(name="b")),
            {"name": "a", "parts": (1,), "inner": {"name": "b", "parts": (), "inner": None}},
            id="pydantic",
        ),
        pytest.param(collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}, id="ordered-dict"),
        pytest.param(collections.namedtuple("P", "x y")(1, 2), (1, 2), id="named-tuple"),  # noqa: PYI024
        pytest.param(type("L", (list,), {})([1]), [1], id="list-subclass"),
        pytest.param(type("D", (date,), {})(2024, 5, 1), date(2024, 5, 1), id="date-subclass"),
        pytest.param(
            type("T", (datetime,), {})(2024, 5, 1, tzinfo=UTC),
            datetime(2024, 5, 1, tzinfo=UTC),
            id="datetime-subclass",
        ),
        pytest.param(Point(1.0, ["a"]), {"x": 1.0, "tags": ["a"]}, id="dataclass"),
        pytest.param([None, pd.NA, (np.int8(1),)], [None, None, (1,)], id="nested"),
    ],
)
def test_other_types_become_python_s(value, expected):
    """NumPy, pandas, models and dataclasses: what a JSON reader would expect."""
    assert typed(plain(value)) == typed(expected)


@pytest.mark.parametrize(
    ("value", "where", "what"),
    [
        pytest.param({"a", "b"}, "", "a set", id="set"),
        pytest.param(object(), "", "an object", id="object"),
        pytest.param(Point, "", "a type", id="class"),
        pytest.param(Colour.RED, "", r"an enum member \(<Colour.RED: 1>\)", id="enum"),
        pytest.param(1j, "", "a complex", id="complex"),
        pytest.param(np.clongdouble(1j), "", "a clongdouble", id="long-complex"),
        pytest.param(np.datetime64("12000-01-01"), "", "beyond Python's dates", id="far-time"),
        pytest.param([{"a": [object()]}], "[].a[]", "an object", id="inside"),
        pytest.param({1: "x"}, "", "the key 1, which is no text", id="key"),
        pytest.param({"a": {None: 1}}, ".a", "the key None", id="inner-key"),
    ],
)
def test_a_value_without_a_plain_form_is_refused_with_its_path(value, where, what):
    """Before the run, and saying where in the cell it is."""
    with pytest.raises(NotPlainError, match=what) as caught:
        Shape().add(value)

    assert caught.value.where == where


def test_a_value_inside_itself_is_refused():
    """No recursion error reaches the user."""
    value = []
    value.append(value)

    with pytest.raises(NotPlainError, match="nested deeper than 100 levels, or inside itself"):
        Shape().add(value)


@pytest.mark.parametrize(
    "order", [pytest.param(1, id="aware-first"), pytest.param(-1, id="naive-first")]
)
def test_h17_a_naive_time_beside_an_aware_one_in_one_field_is_refused(order):
    """Arrow would drop the zone in silence; in different fields both are fine."""
    at = [datetime(2024, 5, 1, tzinfo=PLUS_TWO), datetime(2024, 5, 1)][::order]

    shape_of([{"a": at[0], "b": at[1]}] * 2)
    with pytest.raises(NotPlainError, match="without a zone") as caught:
        shape_of([{"at": moment} for moment in at])

    assert (caught.value.where, caught.value.advice) == (".at", "Give all of them a zone, or none.")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param([True, None], pa.bool_(), id="bool"),
        pytest.param([1, None], pa.int64(), id="int"),
        pytest.param([1.5], pa.float64(), id="float"),
        pytest.param(["a"], pa.large_string(), id="text"),
        pytest.param([b"a"], pa.large_binary(), id="bytes"),
        pytest.param([date(2024, 5, 1)], pa.date32(), id="date"),
        pytest.param([time(1)], pa.time64("us"), id="time"),
        pytest.param([timedelta(1)], pa.duration("us"), id="timedelta"),
        pytest.param([datetime(2024, 5, 1)], pa.timestamp("us"), id="naive"),
        pytest.param([datetime(2024, 5, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"), id="aware-utc"),
        pytest.param(
            [datetime(2024, 5, 1, tzinfo=BERLIN)], pa.timestamp("us", "Europe/Berlin"), id="zone"
        ),
        pytest.param(
            [datetime(2024, 5, 1, tzinfo=PLUS_TWO)], pa.timestamp("us", "+02:00"), id="offset"
        ),
        pytest.param([["a"], [], None], pa.list_(pa.large_string()), id="list"),
        pytest.param(
            [{"a": 1, "b": ["x"]}, {"a": None, "b": []}],
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.large_string())}),
            id="record",
        ),
        pytest.param([2**63 - 1, -(2**63)], pa.int64(), id="int64-bounds"),
    ],
)
def test_values_of_one_kind_are_stored_natively(values, kind):
    """The type that gives all of them back; nulls have a place in each."""
    assert arrow_type(shape_of(values)) == kind


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([], id="no-row"),
        pytest.param([None, None], id="nothing-but-nulls"),
        pytest.param([1, 1.0], id="int-and-float"),
        pytest.param([True, 1], id="bool-and-int"),
        pytest.param([2**63], id="beyond-64-bits"),
        pytest.param([Decimal("1.50")], id="decimal"),
        pytest.param([uuid.UUID(int=1)], id="uuid"),
        pytest.param([(1, 2)], id="tuple"),
        pytest.param([[1], (1,)], id="list-and-tuple"),
        pytest.param([[]], id="empty-lists"),
        pytest.param([[None]], id="lists-of-nulls"),
        pytest.param([{}], id="empty-dict"),
        pytest.param([{"run": {}}], id="inner-empty-dict"),
        pytest.param([{"a": 1}, {"a": 1, "b": 2}], id="keys-that-differ"),
        pytest.param([{"a": 1, "b": 2}, {"b": 2, "a": 1}], id="key-order"),
        pytest.param([{"a": 1}, {}], id="a-record-and-an-empty-one"),
        pytest.param([[1, "a"]], id="mixed-list"),
        pytest.param([[datetime(2024, 5, 1)]], id="time-inside"),
        pytest.param([{"at": timedelta(1)}], id="timedelta-inside"),
        pytest.param([time(1, tzinfo=UTC)], id="time-with-zone"),
        pytest.param([timedelta(days=200_000_000)], id="long-timedelta"),
        pytest.param(
            [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=BERLIN)], id="two-zones"
        ),
        pytest.param([datetime(1, 1, 1, tzinfo=PLUS_TWO)], id="before-the-first-day-in-utc"),
    ],
)
def test_what_no_single_arrow_type_gives_back_is_json_text(values):
    """Never a null type, never an empty struct, never a converted value."""
    assert arrow_type(shape_of(values)) is None


def test_h16_text_and_lists_in_one_column_need_json_text():
    """A chat input is sometimes a text and sometimes messages: that is no error."""
    values = ["hi", [{"role": "user", "content": "hi"}]]

    assert arrow_type(shape_of(values)) is None


def test_h18_a_field_that_is_null_everywhere_needs_json_text():
    """Arrow's null type inside a list of structs makes invalid arrays."""
    values = [[{"name": "a", "output": None}, {"name": "b", "output": None}], [{"name": "c"}]]

    assert arrow_type(shape_of(values)) is None
    assert arrow_type(shape_of([[{"output": None}]])) is None


def test_h20_dicts_with_different_keys_need_json_text():
    """A struct would pad each with the other's keys."""
    values = [
        [{"name": "search", "args": {"q": "x"}}],
        [{"name": "open", "args": {"id": 7}}],
    ]

    assert arrow_type(shape_of(values)) is None


def test_h21_a_dict_that_lacks_a_key_needs_json_text():
    """No null key is added, so no integer becomes a float."""
    assert arrow_type(shape_of([{"n": 3, "k": 1}, {"k": 2}])) is None


@given(columns())
def test_every_column_stored_natively_comes_back_from_arrow_unchanged(values):
    """Wherever a native type is chosen, it keeps value and type at every level."""
    kind = arrow_type(shape_of(values))
    back = values if kind is None else pa.array(values, kind).to_pylist()

    assert [typed(plain(value)) for value in back] == [typed(value) for value in values]


@given(columns())
def test_no_native_type_holds_a_null_type_or_an_empty_struct(values):
    """Parquet cannot write the one, and pandas has no operations for the other."""
    kind = arrow_type(shape_of(values))

    assert "null" not in str(kind)
    assert "struct<>" not in str(kind)


@given(st.lists(ATOM, max_size=4), st.randoms())
def test_the_decision_does_not_depend_on_the_order_of_rows(values, rng):
    """A shuffled frame is stored as it was before."""
    values = [value for value in values if not isinstance(value, datetime)]
    shuffled = rng.sample(values, len(values))

    assert arrow_type(shape_of(values)) == arrow_type(shape_of(shuffled))


@pytest.mark.parametrize(
    "value",
    [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT")],
    ids=repr,
)
def test_every_kind_of_null_is_null(value):
    """Evaluators get None for each of them."""
    assert is_null(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "", "nan", [], {}, [None], math.inf], ids=repr)
def test_falsy_values_are_no_nulls(value):
    """Nor are texts that spell one, or lists that hold one."""
    assert not is_null(value)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        pytest.param(None, None, id="naive"),
        pytest.param(UTC, "UTC", id="utc"),
        pytest.param(ZoneInfo("UTC"), "UTC", id="utc-by-name"),
        pytest.param(BERLIN, "Europe/Berlin", id="named"),
        pytest.param(PLUS_TWO, "+02:00", id="east"),
        pytest.param(timezone(-timedelta(hours=3, minutes=30)), "-03:30", id="west"),
    ],
)
def test_zones_are_named_as_arrow_spells_them(zone, name):
    """A name where there is one, else the offset."""
    assert zone_name(datetime(2024, 5, 1, tzinfo=zone)) == name


def test_lone_surrogates_are_found_at_every_level_and_replaced():
    """Text with them can be neither sent nor written."""
    value = {"a\ud800": ["b\udfff", ("ok", 1)]}
    shape = shape_of([value])

    assert shape.surrogates
    assert without_surrogates(value) == {"a\ufffd": ["b\ufffd", ("ok", 1)]}


@given(ANYTHING)
def test_text_without_lone_surrogates_stays_as_it_is(value):
    """Emoji and all other planes included."""
    assert typed(without_surrogates(value)) == typed(value)
