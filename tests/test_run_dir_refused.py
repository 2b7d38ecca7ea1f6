"""A `run_dir` that cannot be used is refused before anything is called, and says what to do."""

import json
import os
import subprocess
import sys
import threading
import warnings

import pandas as pd
import pytest

import evalframe as ef

DATA = pd.DataFrame({"output": ["a", "b", "c"]})


@pytest.fixture
def calls():
    """What the evaluator was called with."""
    return []


@pytest.fixture
def run(calls):
    """A run of one evaluator over three rows."""

    @ef.evaluator(version="1")
    def f(output):
        calls.append(output)
        return f"label of {output}", 0.5, "e" * 2_000

    def run(run_dir, data=DATA, **options):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="run_dir=.*finished before")
            options.setdefault("evaluators", [f])
            return ef.run_experiment(data, run_dir=run_dir, **options)

    return run


def names_in(folder):
    """What lies in it."""
    return [path.name for path in folder.iterdir()]


class BytesPath:
    """A path of bytes, which no folder of ours has."""

    def __fspath__(self):
        return b"runs"

    def __repr__(self):
        return "BytesPath()"


@pytest.mark.parametrize("path", ["", 3, b"runs", True, ["runs"], BytesPath()], ids=repr)
def test_what_is_no_path_is_named_with_all_other_mistakes(run, calls, path):
    """One error lists them."""
    with pytest.raises(ef.ExperimentError) as caught:
        run(path, concurrency=0)

    assert f"run_dir must be the path of a folder, not {path!r}." in caught.value.problems
    assert len(caught.value.problems) == 2
    assert calls == []


@pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=["null-byte", "lone-surrogate"])
def test_a_path_that_no_system_takes_is_refused(run, calls, path):
    """It says so, instead of an error from below."""
    with pytest.raises(ef.RunDirError, match="It must be the path of a folder"):
        run(path)

    assert calls == []


@pytest.mark.parametrize("below", ["", "deeper"], ids=["itself", "its-parent"])
def test_a_file_is_refused(tmp_path, run, calls, below):
    """It is named, and stays as it was."""
    file = tmp_path / "file"
    file.write_text("mine")

    with pytest.raises(ef.RunDirError, match=r"is a file\. Name another run_dir"):
        run(file / below)

    assert (calls, file.read_text()) == ([], "mine")


def test_a_folder_of_somebody_else_is_refused(tmp_path, run, calls):
    """Nothing is put beside what lies in it."""
    (tmp_path / "thesis.tex").write_text("mine")

    with pytest.raises(ef.RunDirError, match=r"holds other files: 'thesis.tex'. Name a new"):
        run(tmp_path)

    assert (calls, names_in(tmp_path)) == ([], ["thesis.tex"])


@pytest.mark.skipif(os.name != "posix", reason="needs users and rights on folders")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, run, calls):
    """Also for a user who otherwise may do everything."""
    folder = tmp_path / "mine"
    folder.mkdir(0o555)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65_534)
        with pytest.raises(ef.RunDirError, match="It must be a folder that can be written"):
            run(folder)
    finally:
        os.seteuid(user)

    assert (calls, names_in(folder)) == ([], [])


@pytest.mark.parametrize("others", ["rows", "evaluators"])
def test_a_folder_in_which_nothing_belongs_to_the_run_is_refused(tmp_path, run, calls, others):
    """It may be a slip; what is in it is found again by whoever it belongs to."""
    run(tmp_path)
    before = calls.copy()
    given = {"rows": {"data": DATA.map(str.upper)}, "evaluators": {"evaluators": {"g": len}}}
    with pytest.raises(ef.RunDirError, match=r"none of them belongs to this run.*delete this"):
        run(tmp_path, **given[others])
    again = run(tmp_path)

    assert calls == before
    assert again["eval.f.label"].tolist() == ["label of a", "label of b", "label of c"]


def journal_of(folder):
    """The one file of its journal."""
    (file,) = (folder / "journal").iterdir()
    return file


def test_a_damaged_journal_is_an_error_and_never_another_score(tmp_path, run, calls):
    """Whichever byte it is, no cell is called and the file stays as it is for who can mend it."""
    run(tmp_path)
    file, before = journal_of(tmp_path), calls.copy()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x40
    file.write_bytes(content)

    with pytest.raises(ef.JournalError, match="damaged"):
        run(tmp_path)

    assert (calls, file.read_bytes()) == (before, bytes(content))


def test_the_torn_tail_of_a_killed_process_is_dropped(tmp_path, run):
    """Only what it held is run again."""
    calls = []

    @ef.evaluator(version="1")
    async def f(output):
        calls.append(output)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return f"label of {output}"

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, evaluators=[f], concurrency=1)
    file = journal_of(tmp_path)
    os.truncate(file, file.stat().st_size - 10)
    again = run(tmp_path, evaluators=[f], concurrency=1)

    assert calls == ["a", "b", "c", "b", "c"]
    assert again["eval.f.label"].tolist() == ["label of a", "label of b", "label of c"]


@pytest.mark.parametrize("part", ["journal", "run.json"])
def test_a_folder_of_a_newer_version_says_to_upgrade(tmp_path, run, calls, part):
    """A later format is never guessed at."""
    run(tmp_path)
    before = calls.copy()
    if part == "journal":
        file = journal_of(tmp_path)
        file.write_bytes(file.read_bytes().replace(b"format=0001", b"format=0002"))
    else:
        file = tmp_path / "run.json"
        file.write_text(file.read_text().replace('"evalframe_run": 1', '"evalframe_run": 2'))

    with pytest.raises((ef.JournalError, ef.RunDirError), match="pip install --upgrade evalframe"):
        run(tmp_path)

    assert calls == before


def test_a_torn_run_json_says_what_to_delete(tmp_path, run, calls):
    """The results are in the journal, and are there when it is gone."""
    run(tmp_path)
    record = tmp_path / "run.json"
    record.write_text(record.read_text()[:-20])
    calls.clear()
    with pytest.raises(ef.RunDirError, match=r"delete .*run\.json.*results are in the journal"):
        run(tmp_path)
    record.unlink()
    run(tmp_path)

    assert calls == []


def test_a_second_thread_is_refused_while_the_first_runs_to_its_end(tmp_path, run):
    """Two runs at once would pay twice."""
    began, refused, ended = threading.Event(), threading.Event(), []

    @ef.evaluator(version="1")
    def waits(output):
        began.set()
        refused.wait(30)
        return True

    first = threading.Thread(target=lambda: ended.append(run(tmp_path, evaluators=[waits])))
    first.start()
    assert began.wait(30)
    try:
        with pytest.raises(ef.RunDirError, match="another run of this process has been using it"):
            run(tmp_path, evaluators=[waits])
    finally:
        refused.set()
        first.join()

    assert ended[0]["eval.waits.score"].tolist() == [1.0] * 3


HOLDING = """
import sys
import evalframe as ef
def f(output):
    print("began", flush=True)
    sys.stdin.readline()
    return True
ef.run_experiment([{"output": "a"}], evaluators=[f], run_dir=sys.argv[1])
"""


def test_a_second_process_is_refused_and_told_who_runs(tmp_path, run, calls):
    """Until that one has ended, here by kill -9: its lock is no obstacle then."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "began\n"
        with pytest.raises(ef.RunDirError, match=f"process {process.pid} on .* is using it"):
            run(tmp_path)
        process.kill()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == process.pid
    assert calls == []
    run(tmp_path)

    assert calls == ["a", "b", "c"]
    assert (tmp_path / "lock").read_text() == ""


def uncounted(folder):
    """Take the counts out of a record, as in one of a run that was killed."""
    record = json.loads((folder / "run.json").read_text("utf-8"))
    record["evaluators"]["f"]["counts"] = {}
    (folder / "run.json").write_text(json.dumps(record), "utf-8")


def test_a_killed_run_that_has_made_nothing_is_in_nobodys_way(tmp_path, run):
    """There is nothing that anybody could find again."""
    run(tmp_path, data=DATA[:0])
    uncounted(tmp_path)
    scored = run(tmp_path, evaluators={"g": lambda output: output == "a"})

    assert scored["eval.g.label"].tolist() == ["True", "False", "False"]


def test_a_killed_run_that_has_made_something_is_not_mixed_with_others(tmp_path, run):
    """Its results are in the journal, whatever its record says."""
    run(tmp_path)
    uncounted(tmp_path)

    with pytest.raises(ef.RunDirError, match="none of them belongs to this run"):
        run(tmp_path, evaluators={"g": lambda output: output == "a"})
