"""JSON text that gives Python values back exactly."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.json_text import decode, encode

BERLIN = ZoneInfo("Europe/Berlin")
PLUS_TWO = timezone(timedelta(hours=2))


def typed(value):
    """A value with the types of all its parts spelled out, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return (dict, [(key, typed(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [typed(item) for item in value])
    if isinstance(value, float):
        return (float, "nan") if math.isnan(value) else (float, value, math.copysign(1, value))
    if isinstance(value, Decimal):
        return (Decimal, str(value))
    if isinstance(value, (datetime, time)):
        return (type(value), value.isoformat(), str(value.tzinfo))
    return (type(value), value)


TAGS = st.sampled_from(
    ["$tuple", "$datetime", "$$tuple", "$$$int", "$decimal", "$", "$unknown", "$int", "$bytes"]
)
KEYS = st.one_of(st.text(max_size=4), TAGS)
ZONES = st.sampled_from([UTC, PLUS_TWO, BERLIN, timezone(timedelta(seconds=90))])
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.binary(max_size=6),
        st.dates(),
        st.times(timezones=st.one_of(st.none(), ZONES)),
        st.timedeltas(),
        st.datetimes(timezones=st.one_of(st.none(), ZONES)),
        st.decimals(),
        st.uuids(),
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(KEYS, parts, max_size=3),
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_every_plain_value_comes_back_equal_and_of_the_same_type(value):
    """At every level, key order included."""
    assert typed(decode(encode(value))) == typed(value)


@given(st.dictionaries(KEYS, ANYTHING, max_size=2))
def test_a_dict_that_looks_like_a_tag_is_still_a_dict(value):
    """The user's own "$" keys are theirs."""
    assert typed(decode(encode(value))) == typed(value)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
        lambda parts: st.one_of(
            st.lists(parts, max_size=3), st.dictionaries(st.text(max_size=4), parts, max_size=3)
        ),
        max_leaves=6,
    ).filter(lambda value: "$" not in repr(value))
)
def test_json_values_stand_as_json(value):
    """Any other reader understands the text of what JSON knows."""
    assert json.loads(encode(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"a": [1, None, True]}, '{"a": [1, null, true]}', id="json"),
        pytest.param("é 😀", '"é 😀"', id="text-is-not-escaped"),
        pytest.param(math.nan, "NaN", id="nan"),
        pytest.param(-math.inf, "-Infinity", id="infinity"),
        pytest.param((1, 2), '{"$tuple": [1, 2]}', id="tuple"),
        pytest.param({"$tuple": 1}, '{"$$tuple": 1}', id="own-dollar-key"),
        pytest.param(
            datetime(2024, 5, 1, 13, tzinfo=PLUS_TWO),
            '{"$datetime": ["2024-05-01T13:00:00+02:00", null]}',
            id="datetime",
        ),
        pytest.param(
            datetime(2024, 5, 1, 13, tzinfo=BERLIN),
            '{"$datetime": ["2024-05-01T13:00:00+02:00", "Europe/Berlin"]}',
            id="datetime-with-named-zone",
        ),
        pytest.param(date(2024, 5, 1), '{"$date": "2024-05-01"}', id="date"),
        pytest.param(time(1, 2), '{"$time": ["01:02:00", null]}', id="time"),
        pytest.param(timedelta(1, 2, 3), '{"$timedelta": [1, 2, 3]}', id="timedelta"),
        pytest.param(Decimal("1.50"), '{"$decimal": "1.50"}', id="decimal"),
        pytest.param(b"\x00\xff", '{"$bytes": "00ff"}', id="bytes"),
    ],
)
def test_the_spelling_of_each_type_is_fixed(value, text):
    """Files written today are read by later releases."""
    assert encode(value) == text


def test_integers_of_any_size_are_kept():
    """Also those that Python refuses to print in decimal."""
    value = -(7**20_000)

    assert decode(encode([value, 2**64])) == [value, 2**64]


@pytest.mark.parametrize("fold", [0, 1])
def test_the_hour_that_comes_twice_keeps_its_side(fold):
    """When clocks go back, the same wall time stands for two instants."""
    value = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold)

    back = decode(encode(value))

    assert (back.fold, back.utcoffset()) == (fold, value.utcoffset())


def test_a_zone_whose_rules_changed_keeps_the_instant():
    """A text whose offset the zone never has: the wall time gives way."""
    back = decode('{"$datetime": ["2024-05-01T13:00:00+05:00", "Europe/Berlin"]}')

    assert back.isoformat() == "2024-05-01T10:00:00+02:00"
    assert back.tzinfo == BERLIN


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j], ids=["set", "object", "complex"])
def test_a_value_that_is_not_plain_has_no_json_text(value):
    """Nothing is turned into its repr."""
    with pytest.raises(TypeError, match="has no JSON form"):
        encode([value])


def test_text_that_is_no_json_is_refused():
    """A torn file is not read as something else."""
    with pytest.raises(ValueError, match="Expecting"):
        decode('{"a": ')
