"""Vectors of one length, and the files in which they are kept."""

import math
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evalframe.llm.cache import ReplyCache
from evalframe.llm.vectors import VectorStore, unit

KEY, OTHER = b"k" * 20, b"o" * 20
ONE = np.array([0.6, 0.8], np.float32)


@given(arrays.arrays(np.float64, (3, 4), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_unit_vectors_have_length_one(given_vectors):
    """Whatever length they had, from the smallest to the largest floats; only zeros stay zeros."""
    made = unit(given_vectors)

    for row, found in zip(given_vectors, made, strict=True):
        length = math.sqrt(math.fsum(float(x) ** 2 for x in found))
        assert length == pytest.approx(1.0 if row.any() else 0.0, abs=1e-6)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_vector_with_a_number_that_is_not_finite_is_nan(odd):
    """It has no direction; the others keep theirs."""
    made = unit([[odd, 1.0], [3.0, 4.0]])

    assert np.isnan(made[0]).all()
    np.testing.assert_allclose(made[1], ONE)


@pytest.fixture
def cache(tmp_path):
    """A cache of its own file."""
    made = ReplyCache(tmp_path / "cache.sqlite")
    yield made
    made.close()


def store_on(cache, failures=()):
    """The store of a run on a cache, or on none."""
    table = cache.vectors if cache is not None else lambda: None
    return VectorStore(table, failures.append if failures != () else pytest.fail)


def values_of(found):
    """Key -> the numbers, and whether an earlier run stored them."""
    return {key: (kept.vector.tolist(), kept.earlier) for key, kept in found.items()}


def test_what_was_kept_is_found_again(cache):
    """In this run as its own, in the next one as an earlier run's."""
    first = store_on(cache)
    first.keep({KEY: ONE}, lasting=True)

    assert values_of(first.find([KEY, OTHER], lasting=True)) == {KEY: (ONE.tolist(), False)}
    assert values_of(store_on(cache).find([KEY], lasting=True)) == {KEY: (ONE.tolist(), True)}


def test_vector_takes_four_bytes_for_each_number(cache):
    """No JSON."""
    store_on(cache).keep({KEY: ONE}, lasting=True)

    with sqlite3.connect(cache.path) as db:
        assert db.execute("SELECT key, vector FROM vectors").fetchall() == [(KEY, ONE.tobytes())]
    db.close()


@pytest.mark.parametrize("with_cache", [True, False])
def test_what_is_not_to_last_is_gone_with_the_run(cache, with_cache):
    """A function's vectors never reach the file."""
    first, second = (store_on(cache if with_cache else None) for _ in range(2))
    first.keep({KEY: ONE}, lasting=False)

    assert values_of(first.find([KEY], lasting=False)) == {KEY: (ONE.tolist(), False)}
    assert second.find([KEY], lasting=True) == {}


def test_more_keys_than_one_query_takes_are_found(cache):
    """In several queries."""
    store = store_on(cache)
    keys = [number.to_bytes(20) for number in range(1201)]
    store.keep(dict.fromkeys(keys, ONE), lasting=True)

    assert list(values_of(store.find(keys, lasting=True))) == keys


@pytest.mark.parametrize(
    "blob",
    [b"", b"abc", "text", 3, np.array([math.nan], "<f4").tobytes()],
    ids=["empty", "torn", "text", "number", "nan"],
)
def test_bytes_that_are_no_vector_are_not_found(cache, blob):
    """They make room for the next one."""
    store = store_on(cache)
    cache.vectors()
    with sqlite3.connect(cache.path) as db:
        db.execute("INSERT INTO vectors VALUES (?, 1, ?)", (KEY, blob))
    db.close()

    assert store.find([KEY], lasting=True) == {}
    store.keep({KEY: ONE}, lasting=True)
    assert list(store.find([KEY], lasting=True)) == [KEY]


def test_cache_that_fails_is_told_of_and_done_without(cache):
    """The run goes on with a file of its own."""
    failures = []
    store = VectorStore(cache.vectors, failures.append)
    store.keep({KEY: ONE}, lasting=True)
    cache.close()

    store.keep({OTHER: ONE}, lasting=True)

    assert list(store.find([KEY, OTHER], lasting=True)) == [OTHER]
    assert all(isinstance(failure, sqlite3.Error) for failure in failures)
    assert failures


def test_cache_of_an_older_version_gets_the_table(tmp_path):
    """Its replies stay."""
    path = tmp_path / "old.sqlite"
    ReplyCache(path).close()
    with sqlite3.connect(path) as db:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
    db.close()
    assert names == ["replies"]

    cache = ReplyCache(path)
    store_on(cache).keep({KEY: ONE}, lasting=True)

    assert list(store_on(cache).find([KEY], lasting=True)) == [KEY]
    cache.close()


def test_closed_store_keeps_nothing_and_finds_nothing():
    """What comes late does no harm."""
    store = store_on(None)
    store.keep({KEY: ONE}, lasting=True)
    store.close()
    store.keep({OTHER: ONE}, lasting=True)

    assert store.find([KEY, OTHER], lasting=True) == {}


def test_vectors_are_stored_all_or_none(cache):
    """A write that fails leaves no transaction behind that would block the next."""
    table = cache.vectors()

    with pytest.raises(sqlite3.IntegrityError):
        table.put(1, {KEY: ONE.tobytes(), OTHER: None})

    assert table.get([KEY, OTHER]) == {}
    table.put(1, {KEY: ONE.tobytes()})
    assert table.get([KEY]) == {KEY: (1, ONE.tobytes())}


def test_where_no_file_can_be_written_nothing_is_kept(monkeypatch):
    """The run goes on, and embeds again what it needs again."""

    def fail(*_, **__):
        message = "disk full"
        raise sqlite3.OperationalError(message)

    store = store_on(None)
    monkeypatch.setattr(sqlite3, "connect", fail)

    store.keep({KEY: ONE}, lasting=True)

    assert store.find([KEY], lasting=True) == {}
