"""One journal file: its end is always the end of a whole batch."""

import os

import pyarrow as pa
import pytest

from evalframe.results.journal_file import JournalFile
from evalframe.results.journal_format import Scan

COLUMNS = pa.schema([("n", pa.int64())])


def numbers(*values):
    """A batch of numbers."""
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=COLUMNS)


def content(path):
    """The batches of a file."""
    return [batch.column(0).to_pylist() for batch in Scan(path)]


@pytest.fixture
def file(tmp_path):
    """A new file with one batch."""
    made = JournalFile(tmp_path / "a.arrows", COLUMNS)
    made.append(numbers(1, 2))
    yield made
    made.close()


def test_a_torn_tail_is_cut_off_before_the_next_batch(file):
    """Otherwise the next batch would stand behind rubble, and be lost with it."""
    file.append(numbers(3))
    file.close()
    os.truncate(file.path, file.path.stat().st_size - 1)

    with_tail = JournalFile(file.path, COLUMNS)
    with_tail.append(numbers(4))
    with_tail.close()

    assert content(file.path) == [[1, 2], [4]]
    assert (with_tail.rows, with_tail.batches) == (3, 2)


def test_a_file_cut_off_in_its_schema_is_begun_again(tmp_path):
    """A process killed in its first moment leaves a file that can be used."""
    path = tmp_path / "a.arrows"
    path.write_bytes(b"\xff\xff\xff\xff\x20")

    file = JournalFile(path, COLUMNS)
    file.append(numbers(1))
    file.close()

    assert content(path) == [[1]]


def test_replacing_all_rows_leaves_one_whole_file(file):
    """The new rows are there, the old and unfinished files are not, and writing goes on."""
    file.replace([numbers(7), numbers(8)])
    file.append(numbers(9))

    assert content(file.path) == [[7], [8], [9]]
    assert [path.name for path in file.path.parent.iterdir()] == ["a.arrows"]
    assert (file.rows, file.batches) == (3, 3)


def test_a_replacement_that_fails_changes_nothing(file):
    """The old rows stay, no unfinished file is left, and writing goes on."""

    def failing():
        yield numbers(7)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        file.replace(failing())
    file.append(numbers(3))

    assert content(file.path) == [[1, 2], [3]]
    assert [path.name for path in file.path.parent.iterdir()] == ["a.arrows"]


def test_a_replacement_whose_file_cannot_take_its_name_changes_nothing(file, monkeypatch):
    """The file is closed for the exchange; when that fails it is opened again."""

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr("pathlib.Path.replace", refused)
    with pytest.raises(PermissionError, match="Permission denied"):
        file.replace([numbers(7)])
    file.append(numbers(3))

    assert content(file.path) == [[1, 2], [3]]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["nothing", "half", "all"])
def test_a_write_that_is_interrupted_leaves_no_trace(file, monkeypatch, share):
    """Ctrl-C may come when some of a batch is there, or all of it and nobody knows."""
    write = os.write

    def interrupted(descriptor, data):
        write(descriptor, data[: int(len(data) * share)])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.append(numbers(3))

    assert content(file.path) == [[1, 2]]
    file.append(numbers(4))
    assert content(file.path) == [[1, 2], [4]]


def test_a_batch_that_cannot_be_cut_off_at_once_is_cut_off_before_the_next(file, monkeypatch):
    """A disk that fails altogether and comes back leaves no rubble between batches."""
    write = os.write

    def half(descriptor, data):
        write(descriptor, data[: len(data) // 2])
        raise OSError(5, "Input/output error")

    def failing(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        patched.setattr(os, "ftruncate", failing)
        with pytest.raises(OSError, match="Input/output error"):
            file.append(numbers(3))

    assert content(file.path) == [[1, 2]]
    file.append(numbers(4))
    assert content(file.path) == [[1, 2], [4]]


def next_descriptor():
    """The lowest one that is free."""
    found = os.dup(0)
    os.close(found)
    return found


def test_a_file_whose_torn_tail_cannot_be_cut_off_is_not_left_open(tmp_path, monkeypatch):
    """Who was refused a journal holds nothing of it."""
    before = next_descriptor()

    def failing(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", failing)
        with pytest.raises(OSError, match="Input/output error"):
            JournalFile(tmp_path / "file.arrows", numbers(1).schema)

    assert next_descriptor() == before
