"""The run_dir: it is ours, it can be written, and one run has it."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from evalframe.core.errors import RunDirError
from evalframe.results.run_dir import RunDir, RunFolder
from evalframe.results.run_lock import Holder
from evalframe.results.run_record import PartRecord, RunRecord

RECORD = RunRecord(
    experiment_name="é",
    started="2026-11-30T20:00:00+00:00",
    rows=3,
    mapping={"input": "question", "metadata": ["a", "b"]},
    evaluators={
        "judge": PartRecord(
            fingerprint="0" * 32, unread=("Client",), kind="LLM", version="2", counts={"n": 3}
        ),
    },
    task=PartRecord(kind="TASK", fingerprint="1" * 32),
    versions={"evalframe": "0.1.0"},
)


def content(folder):
    """Everything below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    """`run_dir="runs/qa"` works in an empty project."""
    with RunDir(tmp_path / "runs" / "qa") as run_dir:
        assert run_dir.journal.is_dir()
        assert run_dir.replies.parent == run_dir.path == tmp_path / "runs" / "qa"
        assert run_dir.record() is None


def test_the_home_folder_is_found(tmp_path, monkeypatch):
    """A path may begin with ~."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))

    with RunDir("~/runs") as run_dir:
        assert run_dir.path == tmp_path / "runs"


def test_a_run_dir_stays_where_it_was_when_the_program_goes_elsewhere(tmp_path, monkeypatch):
    """User code may change the working folder in the middle of a run."""
    monkeypatch.chdir(tmp_path)
    with RunDir("run") as run_dir:
        monkeypatch.chdir("/")
        run_dir.write(RECORD)

    assert (tmp_path / "run" / "run.json").is_file()


def test_the_record_comes_back_and_is_replaced_whole(tmp_path):
    """Equal to what was written, in the next run too; nothing unfinished stays."""
    with RunDir(tmp_path) as run_dir:
        run_dir.write(RunRecord())
        run_dir.write(RECORD)
    with RunDir(tmp_path) as run_dir:
        assert run_dir.record() == RECORD

    assert sorted(content(tmp_path)) == ["journal", "lock", "run.json"]


@pytest.mark.parametrize("inside", ["", "sub", "sub/sub"], ids=["itself", "above", "far-above"])
def test_a_file_is_refused(tmp_path, inside):
    """Also where one stands in the place of a folder above."""
    (tmp_path / "scored.parquet").write_bytes(b"mine")
    path = tmp_path / "scored.parquet" / inside

    with pytest.raises(RunDirError, match=r"scored\.parquet' is a file\. Name another run_dir\."):
        RunDir(path)
    assert (tmp_path / "scored.parquet").read_bytes() == b"mine"


def test_a_file_in_the_place_of_the_journal_is_refused_and_the_lock_let_go(tmp_path):
    """It is named, and the folder can be used when it is gone."""
    (tmp_path / "journal").write_bytes(b"mine")
    with pytest.raises(RunDirError, match="journal' is a file"):
        RunDir(tmp_path)

    (tmp_path / "journal").unlink()
    RunDir(tmp_path).close()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        pytest.param(["data.csv", ".git"], r"'data\.csv'", id="a-project"),
        pytest.param(["lock", "package.json"], r"'package\.json'", id="with-a-lock-of-its-own"),
        pytest.param([f"{n:02}" for n in range(20)], "'00', .* and 8 more", id="many"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused_untouched(tmp_path, files, named):
    """Nothing is written into a folder that is somebody's."""
    for name in files:
        (tmp_path / name).write_text("mine")
    before = content(tmp_path)

    with pytest.raises(RunDirError, match=f"holds other files: {named}.*Name a new or an empty"):
        RunDir(tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([".DS_Store", ".gitignore"], id="hidden-files"),
        pytest.param(["lock", ".run.json.0123.tmp"], id="killed-before-its-record"),
        pytest.param(["lock", "replies.sqlite", "replies.sqlite-wal"], id="killed-with-replies"),
    ],
)
def test_a_folder_without_a_record_is_taken_if_nothing_else_is_in_it(tmp_path, files):
    """A run that was killed in its first moments can be begun again."""
    for name in files:
        (tmp_path / name).write_text("")

    with RunDir(tmp_path) as run_dir:
        assert run_dir.record() is None


def test_files_of_the_user_beside_a_run_are_left_alone(tmp_path):
    """Notes and results may be kept in the folder of the run that they belong to."""
    with RunDir(tmp_path) as run_dir:
        run_dir.write(RECORD)
    (tmp_path / "scored.parquet").write_bytes(b"mine")

    with RunDir(tmp_path) as run_dir:
        assert run_dir.record() == RECORD
    assert (tmp_path / "scored.parquet").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param('{"scripts": {}}', "not the run.json of an evalframe run", id="another-json"),
        pytest.param("[]", "not the run.json of an evalframe run", id="a-list"),
        pytest.param('{"evalframe_run": true}', "not the run.json of an evalframe", id="no-number"),
        pytest.param("", "Expecting value", id="empty"),
        pytest.param("[" * 200_000, "cannot be read", id="deep"),
        pytest.param('{"evalframe_run": 1, "evaluators": 5}', "does not hold", id="wrong-type"),
        pytest.param(
            '{"evalframe_run": 1, "task": {"colour": 1}}', "does not hold", id="unknown-field"
        ),
    ],
)
def test_a_run_json_that_is_not_ours_is_refused(tmp_path, text, why):
    """It says what is wrong, and that the journal is enough."""
    (tmp_path / "run.json").write_text(text)

    with pytest.raises(RunDirError, match=f"{why}(?s:.*)delete (?s:.*)Otherwise name another"):
        RunDir(tmp_path)
    assert sorted(content(tmp_path)) == ["run.json"]


def test_a_run_dir_of_a_newer_evalframe_says_to_upgrade(tmp_path):
    """A later format is never guessed at."""
    (tmp_path / "run.json").write_text('{"evalframe_run": 2, "new": 1}')

    with pytest.raises(RunDirError, match="pip install --upgrade evalframe"):
        RunDir(tmp_path)


def test_a_run_dir_in_use_is_refused_until_it_is_closed(tmp_path):
    """The message names who has it."""
    with (
        RunDir(tmp_path),
        pytest.raises(RunDirError, match="another run of this process has been using it since"),
    ):
        RunDir(tmp_path)

    RunDir(tmp_path).close()


def test_a_run_dir_used_by_another_process_names_it(tmp_path):
    """Its number and its host are what is needed to find it."""
    script = """
        import sys
        from evalframe.results.run_dir import RunDir, RunFolder
        run_dir = RunDir(sys.argv[1])
        print("held", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        with pytest.raises(RunDirError, match=rf"process {process.pid} on '.*two runs at once"):
            RunDir(tmp_path)
        process.kill()
    RunDir(tmp_path).close()


OTHER = replace(Holder.this_process(), host="other.example")


@pytest.mark.parametrize(
    ("text", "taken", "why"),
    [
        pytest.param(
            Holder.this_process(), None, "by its lock file.*delete '.*lock'", id="by-the-file"
        ),
        pytest.param(OTHER, None, "on 'other.example'.*delete '.*lock'", id="on-another-host"),
        pytest.param(
            replace(OTHER, host=Holder.this_process().host, pid=2**22 + 1),
            False,
            "is gone, but a process that it started still holds the lock",
            id="held-by-a-child",
            marks=pytest.mark.skipif(os.name != "posix", reason="needs process numbers"),
        ),
    ],
)
def test_a_lock_that_is_not_sure_says_what_to_do(tmp_path, text, taken, why):
    """The way out is named: a file to delete, or a process to end."""
    (tmp_path / "lock").write_text(json.dumps(asdict(text)))

    with pytest.raises(RunDirError, match=why):
        RunDir(tmp_path, take=lambda _: taken)


def test_a_lock_held_by_nobody_known_is_refused(tmp_path):
    """A holder that has not written its name yet has it all the same."""
    with pytest.raises(RunDirError, match="another process is using it"):
        RunDir(tmp_path, take=lambda _: False)


READ_ONLY = """
    import os, sys
    from evalframe.core.errors import RunDirError
    from evalframe.results.run_dir import RunDir, RunFolder
    if os.getuid() == 0:
        os.setuid(65534)  # rights are none of root's concern
    try:
        RunDir(sys.argv[1])
    except RunDirError as exc:
        print(exc)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs rights on folders")
@pytest.mark.parametrize("below", ["", "new"], ids=["itself", "a-new-one-in-it"])
def test_a_read_only_folder_is_refused_before_anything_is_run(tmp_path, below):
    """It says so in the system's words."""
    # Not in tmp_path, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(READ_ONLY), str(Path(folder, below))],
            capture_output=True,
            text=True,
            check=True,
        )

    assert result.stdout.endswith(
        "cannot be used: Permission denied. It must be a folder that can be written.\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_record_that_the_disk_does_not_take_leaves_the_one_before(tmp_path):
    """The error is ours, and nothing unfinished stays."""
    script = """
        import resource, sys
        from evalframe.core.errors import RunDirError
        from evalframe.results.run_dir import RunDir, RunFolder
        from evalframe.results.run_record import RunRecord
        run_dir = RunDir(sys.argv[1])
        run_dir.write(RunRecord(rows=1))
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
        try:
            run_dir.write(RunRecord(rows=2))
        except RunDirError as exc:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            print(exc)
            print(run_dir.record().rows)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.endswith(
        "cannot be used: File too large. It must be a folder that can be written.\n1\n"
    )
    assert sorted(content(tmp_path)) == ["journal", "lock", "run.json"]


def test_who_only_looks_makes_no_folder(tmp_path):
    """It may be one that the first run will make."""
    folder = RunFolder(tmp_path / "runs" / "qa")
    folder.check()

    assert folder.record() is None
    assert not list(tmp_path.iterdir())


def test_who_only_looks_may_do_so_while_a_run_has_the_folder(tmp_path):
    """And changes nothing in it."""
    with RunDir(tmp_path) as run_dir:
        run_dir.write(RECORD)
        before = content(tmp_path)
        folder = RunFolder(tmp_path)
        folder.check()

        assert folder.record() == RECORD
        assert content(tmp_path) == before


@pytest.mark.parametrize("inside", [False, True], ids=["itself", "a-folder-above"])
def test_who_only_looks_is_told_of_a_file(tmp_path, inside):
    """In the words that a run would hear."""
    file = tmp_path / "qa"
    file.write_text("text")
    path = file / "below" if inside else file
    told = []
    for take in (RunDir, lambda path: RunFolder(path).check()):
        with pytest.raises(RunDirError, match=f"{str(file)!r} is a file") as caught:
            take(path)
        told.append(str(caught.value))

    assert told[0] == told[1]
