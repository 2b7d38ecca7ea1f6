"""One file of replies: what comes back, who may use it at once, and what is no cache."""

import os
import sqlite3
import subprocess
import sys

import pytest

from evalframe.llm.cache import CacheError, ReplyCache
from evalframe.llm.chat import ChatReply, Usage

REPLY = ChatReply("é yes", finish_reason="stop", usage=Usage(3, 4, None), model="m")

WRITER = """
import sys
from evalframe.llm.cache import ReplyCache
from evalframe.llm.chat import ChatReply

path, who = sys.argv[1], sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
cache = ReplyCache(path)
for number in range(50):
    cache.put(f"own {who} {number}", ChatReply(who))
    cache.put(f"shared {number}", ChatReply(who))
    assert cache.get(f"own {who} {number}").text == who
cache.close()
"""


@pytest.fixture
def path(tmp_path):
    """Where a cache can be made."""
    return tmp_path / "replies.sqlite"


@pytest.fixture
def cache(path):
    """A new cache."""
    made = ReplyCache(path)
    yield made
    made.close()


def test_reply_comes_back_in_the_next_run(path):
    """Whole, from the file."""
    for _ in range(2):
        cache = ReplyCache(path)
        cache.put("a", REPLY)
        cache.close()

    cache = ReplyCache(str(path))
    found = cache.get("a"), cache.get("b")
    cache.close()

    assert found == (REPLY, None)


def test_first_reply_of_a_key_stays(cache):
    """What a run reported is what the next one finds, though another process asked as well."""
    cache.put("a", REPLY)
    cache.put("a", ChatReply("other"))

    assert cache.get("a") == REPLY


def test_reply_that_is_forgotten_makes_room(cache):
    """For one that is valid by newer rules."""
    cache.put("a", REPLY)
    cache.forget("a")
    cache.put("a", ChatReply("other"))

    assert cache.get("a") == ChatReply("other")


def test_reply_that_cannot_be_read_is_none(cache, path):
    """It is asked for again."""
    cache.put("a", REPLY)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE replies SET reply = '{\"text\": 1}'")
    other.close()

    assert cache.get("a") is None


def test_several_processes_use_one_file_at_once(path):
    """All of them make it, read and write at the same moment; nothing is lost, nobody fails."""
    command = [sys.executable, "-c", WRITER, str(path)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | {"text": True}
    writers = [subprocess.Popen([*command, str(who)], **pipes) for who in range(3)]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    failed = [writer.communicate(timeout=60)[1] for writer in writers]

    cache = ReplyCache(path)
    own = {(w, n): cache.get(f"own {w} {n}").text for w in range(3) for n in range(50)}
    shared = {cache.get(f"shared {n}").text for n in range(50)}
    cache.close()

    assert failed == [""] * 3
    assert own == {(w, n): str(w) for w in range(3) for n in range(50)}
    assert shared <= set("012")


def no_database(path):
    """A file of another kind."""
    path.write_text("id,answer\n1,yes\n" * 100)


def other_program(path):
    """A database with other tables."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE accounts (id INTEGER)")
    db.close()


def newer_format(path):
    """A cache of a version that is yet to come."""
    ReplyCache(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        pytest.param(no_database, "file is not a database", id="no-database"),
        pytest.param(other_program, "it is a database of another program", id="other-program"),
        pytest.param(newer_format, "a newer evalframe wrote it", id="newer-format"),
        pytest.param(lambda path: path.mkdir(), "it is a folder. Name a file", id="folder"),
    ],
)
def test_what_is_no_cache_is_refused_and_left_as_it_is(path, make, match):
    """The error names the path and says what is wrong with it."""
    make(path)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(CacheError, match=match) as caught:
        ReplyCache(path)

    assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_file_in_a_folder_that_is_not_there_is_refused(tmp_path):
    """No folder is made for a path that may be misspelt."""
    with pytest.raises(CacheError, match="its folder is not there"):
        ReplyCache(tmp_path / "no" / "replies.sqlite")


def test_file_that_fails_later_is_a_clear_error(cache, path):
    """Not one of sqlite's, which nobody expects here."""
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE replies")
    other.close()

    with pytest.raises(CacheError, match="no such table"):
        cache.get("a")
    with pytest.raises(CacheError, match="no such table"):
        cache.put("a", REPLY)


def test_home_folder_is_understood(tmp_path, monkeypatch):
    """As a shell would."""
    monkeypatch.setenv("HOME", str(tmp_path))
    ReplyCache("~/replies.sqlite").close()

    assert (tmp_path / "replies.sqlite").exists()


def files_in(folder):
    """Every file with its content."""
    return {found.name: found.read_bytes() for found in folder.iterdir()}


def only_read(path, *keys):
    """The texts of some replies; None where there is none."""
    cache = ReplyCache(path, reads_only=True)
    try:
        found = [cache.get(key) for key in keys]
    finally:
        cache.close()
    return [None if reply is None else reply.text for reply in found]


@pytest.mark.parametrize("may_write", [True, False], ids=["folder", "read-only-folder"])
def test_who_only_reads_leaves_a_closed_file_as_it_was(path, monkeypatch, may_write):
    """Byte for byte, and with nothing beside it."""
    cache = ReplyCache(path)
    cache.put("a", REPLY)
    cache.close()
    before = files_in(path.parent)
    # Not by chmod, which root may ignore.
    monkeypatch.setattr(os, "access", lambda *_: may_write)

    assert only_read(path, "a", "b") == [REPLY.text, None]
    assert files_in(path.parent) == before


def test_who_only_reads_sees_what_another_has_just_stored(cache, path):
    """A run that uses the file goes on writing it."""
    cache.put("a", REPLY)
    assert only_read(path, "a", "b") == [REPLY.text, None]
    cache.put("b", REPLY)

    assert only_read(path, "a", "b") == [REPLY.text, REPLY.text]


def test_who_only_reads_leaves_the_log_of_a_killed_process(cache, path, tmp_path):
    """It holds replies that were paid for, and is nobody's to take away who only looks."""
    cache.put("a", REPLY)
    left = tmp_path / "left"
    left.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        (left / name).write_bytes((path.parent / name).read_bytes())
    before = files_in(left)

    assert only_read(left / path.name, "a") == [REPLY.text]
    # Beside it SQLite may keep an index of the log, which holds no reply.
    after = files_in(left)
    after.pop(f"{path.name}-shm", None)
    assert after == before


def test_an_empty_file_has_no_replies_and_stays_empty(path):
    """As one that another process is just about to make."""
    path.write_bytes(b"")

    assert only_read(path, "a") == [None]
    assert files_in(path.parent) == {path.name: b""}


def test_who_only_reads_is_told_of_a_file_that_is_not_there_or_is_no_cache(path):
    """Neither is made into one."""
    with pytest.raises(CacheError, match="cannot be used"):
        only_read(path, "a")
    assert not path.exists()
    path.write_text("notes")
    with pytest.raises(CacheError, match="cannot be used"):
        only_read(path, "a")
    assert path.read_text() == "notes"


@pytest.mark.parametrize("name", ["50% off?.sqlite", "a#b c.sqlite"])
def test_who_only_reads_finds_a_file_of_any_name(tmp_path, name):
    """It is opened by its address, in which these characters mean something else."""
    cache = ReplyCache(tmp_path / name)
    cache.put("a", REPLY)
    cache.close()

    assert only_read(tmp_path / name, "a") == [REPLY.text]


def test_a_file_that_ctrl_c_kept_from_being_made_is_not_locked(path, monkeypatch):
    """The next run in this process makes it."""

    def interrupted(cache):
        cache._db.execute("BEGIN IMMEDIATE")  # noqa: SLF001 - as far as it came
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ReplyCache, "_make", interrupted)
        with pytest.raises(KeyboardInterrupt) as kept:
            ReplyCache(path)
    cache = ReplyCache(path)
    cache.put("key", REPLY)

    assert cache.get("key") == REPLY
    assert kept.traceback  # which in a notebook keeps the one that was not made
    cache.close()
