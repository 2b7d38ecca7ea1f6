"""The lock of a run_dir: one process has it, and one that is gone has it no more."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from evalframe.results.run_lock import HeldError, Holder, RunLock

HOLDING = """
import sys
from pathlib import Path
from evalframe.results.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""

needs_flock = pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def no_locks(_):
    """A file system without locks: neither taken nor refused."""


@pytest.fixture
def path(tmp_path):
    """Where the lock is."""
    return tmp_path / "lock"


@pytest.fixture
def other(path):
    """Another process that has the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@needs_flock
def test_a_second_process_is_refused_and_told_who_has_it(path, other):
    """Its number and host are in the error."""
    with pytest.raises(HeldError) as caught:
        RunLock(path)

    assert caught.value.certain
    assert (caught.value.holder.pid, caught.value.holder.host) == (other.pid, socket.gethostname())


@needs_flock
def test_a_second_run_in_the_same_process_is_refused(path):
    """Two threads, or two cells of a notebook, are as bad as two processes."""
    lock = RunLock(path)

    with pytest.raises(HeldError) as caught:
        RunLock(path)
    lock.release()

    assert caught.value.holder.pid == os.getpid()


@needs_flock
def test_the_lock_of_a_killed_process_is_taken_over(path, other):
    """Its file is still there, with its name in it."""
    other.send_signal(signal.SIGKILL)
    other.wait()

    assert Holder.parsed(path.read_text()).pid == other.pid
    RunLock(path).release()


def test_a_released_lock_can_be_taken_again_and_names_nobody(path):
    """Releasing twice is harmless."""
    lock = RunLock(path)
    lock.release()
    lock.release()

    assert path.read_text() == ""
    RunLock(path).release()


@needs_fork
@needs_flock
def test_a_forked_child_does_not_keep_the_lock(path):
    """A worker that outlives a killed run does not hold its run_dir."""
    lock = RunLock(path)
    ready, tell = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
    os.read(ready, 1)
    named = Holder.parsed(path.read_text())
    lock.release()
    try:
        RunLock(path).release()
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)
        for descriptor in (ready, tell, wait, end):
            os.close(descriptor)

    assert named.pid == os.getpid()


THIS = Holder.this_process()
GONE = replace(THIS, pid=2**22 + 1)


@pytest.mark.parametrize(
    ("holder", "runs"),
    [
        pytest.param(THIS, True, id="this-process"),
        pytest.param(replace(THIS, pid=1, born="another"), False, id="number-given-again"),
        pytest.param(GONE, False, id="gone"),
        pytest.param(replace(THIS, pid=10**30), False, id="no-such-number"),
        pytest.param(replace(THIS, boot="another"), False, id="before-the-last-boot"),
        pytest.param(replace(THIS, host="another"), None, id="another-host"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_holder_that_is_gone_is_told_from_one_that_runs(holder, runs):
    """By host, boot, number, and when the process with that number began."""
    assert holder.runs() is runs


@pytest.mark.parametrize("holder", [THIS, replace(THIS, host="another")], ids=["runs", "unknown"])
def test_without_locks_the_file_decides(path, holder):
    """Where it cannot be known whether the holder is gone, it has the lock."""
    path.write_text(json.dumps(asdict(holder)))

    with pytest.raises(HeldError) as caught:
        RunLock(path, no_locks)

    assert (caught.value.holder, caught.value.certain) == (holder, False)
    assert Holder.parsed(path.read_text()) == holder


@pytest.mark.skipif(os.name != "posix", reason="needs process numbers")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="released"),
        pytest.param(json.dumps(asdict(GONE)), id="gone"),
        pytest.param(json.dumps(asdict(THIS))[:-5], id="torn"),
        pytest.param('{"pid": 1}', id="incomplete"),
        pytest.param("[" * 4_000, id="deep"),
        pytest.param(json.dumps({**asdict(THIS), "pid": "1"}), id="pid-is-text"),
        pytest.param(json.dumps({**asdict(THIS), "pid": -1}), id="pid-is-a-group"),
        pytest.param(json.dumps({**asdict(THIS), "host": None}), id="no-host"),
        pytest.param("\xff\x00", id="no-json"),
    ],
)
def test_without_locks_a_file_that_names_nobody_who_runs_is_taken_over(path, text):
    """After kill -9, a full disk, or a reboot the next run needs no help."""
    path.write_text(text, "latin-1")

    lock = RunLock(path, no_locks)
    holder = Holder.parsed(path.read_text())
    lock.release()

    assert holder.pid == os.getpid()


def test_a_release_that_ctrl_c_ends_lets_others_in_all_the_same(path, monkeypatch):
    """Nobody could release it any more."""
    lock = RunLock(path)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.release()

    RunLock(path).release()
