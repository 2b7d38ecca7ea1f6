"""A journal is read without a change, whatever it is just going through."""

import pytest

from evalframe.core.errors import JournalError
from evalframe.core.records import Cell
from evalframe.results.journal import Journal
from evalframe.results.journal_cells import Mark, packed
from evalframe.results.journal_reader import JournalReader

KEYS = [f"{number:032x}" for number in range(3)]


def put(journal, number):
    """A cell that is on disk."""
    journal.put("j", Mark(KEYS[number], 0, number), Cell(score=number / 10), paid=True)
    journal.flush()


def scores(folder):
    """By key; None where there is no cell."""
    cells = JournalReader(folder, {"j": {}}).cells("j")
    places = cells.find(packed(KEYS))
    found = cells.take(places[places >= 0]).arrays["score"].to_pylist()
    return [found.pop(0) if place >= 0 else None for place in places]


def files_in(folder):
    """Every file with its content."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_journal_is_read_while_it_grows_and_when_it_is_compacted(tmp_path):
    """Each look sees what is on disk then."""
    with Journal(tmp_path, {"j": {}}) as journal:
        assert scores(tmp_path) == [None, None, None]
        put(journal, 0)
        assert scores(tmp_path) == [0.0, None, None]
        put(journal, 1)
        journal.compact()
        put(journal, 2)
        assert scores(tmp_path) == [0.0, 0.1, 0.2]


@pytest.mark.parametrize("cut", [1, 20, 300])
def test_a_batch_that_is_being_written_is_left_out_and_left_alone(tmp_path, cut):
    """A run that goes on from here cuts it off; who only looks must not."""
    with Journal(tmp_path, {"j": {}}) as journal:
        put(journal, 0)
        put(journal, 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    before = files_in(tmp_path)

    assert scores(tmp_path) == [0.0, None, None]
    assert files_in(tmp_path) == before


def test_outputs_are_read_as_well(tmp_path):
    """As JSON text, with their errors."""
    with Journal(tmp_path, {}, task=True) as journal:
        journal.put_output(Mark(KEYS[0], 0, 0), '"x"', None)
    outputs = JournalReader(tmp_path, {}).outputs()

    assert outputs.take([0]).arrays["output"].to_pylist() == ['"x"']


def test_a_journal_that_is_not_there_has_no_cells_and_is_not_made(tmp_path):
    """Also where its folder is there, and has no file of the table."""
    assert scores(tmp_path) == scores(tmp_path / "none") == [None, None, None]
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    """As one that cannot be read."""
    (tmp_path / "journal").write_text("")
    with pytest.raises(JournalError, match="cannot be read: Not a directory"):
        scores(tmp_path / "journal")


def test_damage_is_refused(tmp_path):
    """A changed byte is no torn tail."""
    with Journal(tmp_path, {"j": {}}) as journal:
        put(journal, 0)
        put(journal, 1)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(JournalError, match="is damaged at byte"):
        scores(tmp_path)
