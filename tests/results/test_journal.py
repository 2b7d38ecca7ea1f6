"""The journal of a run: what was finished is found again, whatever happened in between."""

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.cells import CellColumns
from evalframe.core.errors import JournalError
from evalframe.core.records import Cell
from evalframe.results.journal import Journal
from evalframe.results.journal_cells import Mark, packed
from evalframe.results.journal_format import Scan

NAME = "judge"
EXTRAS = {"tokens": pa.int64(), "note": pa.large_string()}


def key(number):
    """A key, as a fingerprint is one."""
    return f"{number:032x}"


def mark(number, occurrence=0, row=0):
    """A mark whose key is a number."""
    return Mark(key(number), occurrence, row)


def scores(cells, *numbers):
    """The scores of some keys; a key that is not there has "none"."""
    found = cells.find(packed([key(number) for number in numbers]))
    taken = iter(cells.take(found[found >= 0]).arrays["score"].to_pylist())
    return [next(taken) if position >= 0 else "none" for position in found]


def on_disk(journal, name=NAME):
    """How many of an evaluator's cells are on disk."""
    return len(journal.cells(name))


CELLS = st.builds(
    Cell,
    label=st.none() | st.text(max_size=5),
    score=st.none() | st.floats(0, 1),
    explanation=st.none() | st.text(max_size=5),
    metadata=st.none() | st.just('{"a": 1}'),
    error=st.none() | st.text(max_size=5),
    extras=st.just(()) | st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=3)),
)
STEPS = st.tuples(st.integers(0, 3), st.integers(0, 2), CELLS, st.booleans(), st.booleans())


@given(st.lists(STEPS, max_size=40), st.booleans())
def test_the_newest_cell_of_every_mark_comes_back(tmp_path_factory, steps, compact):
    """Whatever was put, in whatever batches it was written, compacted or not."""
    folder = tmp_path_factory.mktemp("journal")
    expected = {}
    with Journal(folder, {NAME: EXTRAS}) as journal:
        for number, occurrence, cell, paid, tick in steps:
            journal.put(NAME, mark(number, occurrence), cell, paid=paid)
            expected[key(number), occurrence] = (*cell[:5], *(cell.extras or (None, None)))
            if tick:
                journal.tick(now=0.0)
        if compact:
            journal.compact()

    with Journal(folder, {NAME: EXTRAS}) as again:
        cells = again.cells(NAME)

    marks = sorted(expected)
    positions = cells.find(packed([key for key, _ in marks]))
    columns = cells.take(positions).arrays.values()
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    assert dict(zip(marks, rows, strict=True)) == expected
    assert len(cells.newest()) == len(expected)


def test_cells_are_found_by_content_and_not_by_row(tmp_path):
    """Rows that were reordered, dropped or added find their own cells, and no other."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for row, number in enumerate([5, 6, 7]):
            journal.put(NAME, mark(number, row=row), Cell(score=number / 10), paid=True)
        journal.flush()

        assert scores(journal.cells(NAME), 7, 99, 5) == [0.7, "none", 0.5]


def test_equal_rows_have_a_cell_each(tmp_path):
    """In the order of their rows, not in that of their coming; a third one is a new row."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(5, occurrence=7), Cell(score=1.0), paid=True)
        journal.put(NAME, mark(5, occurrence=2), Cell(score=0.0), paid=True)
        journal.flush()
        cells = journal.cells(NAME)
        found = cells.find(packed([key(5)] * 3))

    assert found.tolist() == [1, 0, -1]
    assert cells.occurrences(found[:2]).tolist() == [2, 7]
    assert cells.next_occurrence() == 8


def test_columns_of_cells_are_written_like_single_ones(tmp_path):
    """What a vectorized evaluator gives is in one order with what was put before and after."""
    columns = CellColumns.of([Cell(score=0.2), Cell(score=0.3)], {})
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(1), Cell(score=0.1), paid=False)
        journal.put(NAME, mark(2), Cell(score=0.9), paid=False)
        journal.add(NAME, [key(2), key(3)], [0, 0], [1, 2], columns)
        journal.put(NAME, mark(3), Cell(score=0.4), paid=False)
        journal.flush()

        assert scores(journal.cells(NAME), 1, 2, 3) == [0.1, 0.2, 0.4]


def test_columns_of_many_cells_are_written_in_several_batches(tmp_path):
    """A whole frame at once is not one message that a single bad byte makes unreadable."""
    count = 70_000
    columns = CellColumns.of([Cell(score=n / count) for n in range(count)], {})
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.add(NAME, list(map(key, range(count))), [0] * count, range(count), columns)
        journal.tick(now=0.0)
        (path,) = tmp_path.iterdir()
        cells = journal.cells(NAME)

    assert [len(batch) for batch in Scan(path)] == [65_536, 4_464]
    assert scores(cells, 0, 69_999, 70_000) == [0.0, 69_999 / count, "none"]


def test_no_columns_are_nothing_to_write(tmp_path):
    """A call that had no rows leaves no batch."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.add(NAME, [], [], [], CellColumns.of([], {}), paid=True)
        journal.flush()

        assert on_disk(journal) == 0


def test_task_outputs_come_back_as_they_were_put(tmp_path):
    """JSON text or a failure; an output of None is the text null."""
    with Journal(tmp_path, {}, task=True) as journal:
        journal.put_output(mark(1), "null", None)
        journal.put_output(mark(2), None, "exception: no")
        journal.tick(now=0.0)
        found = journal.outputs()

    taken = found.take(found.find(packed([key(1), key(2)]))).arrays
    assert {name: column.to_pylist() for name, column in taken.items()} == {
        "output": ["null", None],
        "error": [None, "exception: no"],
    }


def test_paid_cells_are_written_at_the_next_tick_in_one_batch(tmp_path):
    """All that finished in one turn of the loop is one write."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for number in range(3):
            journal.put(NAME, mark(number), Cell(score=1.0), paid=True)
        journal.tick(now=0.0)
        (path,) = tmp_path.iterdir()

        assert [len(batch) for batch in Scan(path)] == [3]


@pytest.mark.parametrize(
    ("cells", "ticks", "written"),
    [
        pytest.param(63, [0.0, 0.9], 0, id="few-for-a-short-time"),
        pytest.param(64, [0.0], 64, id="as-many-as-a-batch"),
        pytest.param(1, [5.0, 5.9], 0, id="counted-from-the-first-tick"),
        pytest.param(1, [5.0, 6.0], 1, id="a-second"),
    ],
)
def test_cheap_cells_wait_for_a_batch_or_a_second(tmp_path, cells, ticks, written):
    """A write for each of them would cost more than they do."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for number in range(cells):
            journal.put(NAME, mark(number), Cell(score=1.0), paid=False)
        for now in ticks:
            journal.tick(now)

        assert on_disk(journal) == written


def test_the_second_begins_anew_after_a_write(tmp_path):
    """A cell that comes after a write waits for its own second."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(1), Cell(score=1.0), paid=False)
        journal.tick(now=0.0)
        journal.tick(now=1.0)
        journal.put(NAME, mark(2), Cell(score=1.0), paid=False)
        journal.tick(now=1.5)

        assert on_disk(journal) == 1


def test_cheap_cells_of_another_evaluator_do_not_hurry(tmp_path):
    """A paid cell makes its own table due, and no other."""
    with Journal(tmp_path, {NAME: {}, "exact": {}}) as journal:
        journal.put("exact", mark(1), Cell(score=1.0), paid=False)
        journal.put(NAME, mark(1), Cell(score=1.0), paid=True)
        journal.tick(now=0.0)

        assert (on_disk(journal), on_disk(journal, "exact")) == (1, 0)


def test_what_waits_is_written_when_the_journal_is_closed(tmp_path):
    """The last cheap cells of a run are not lost."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(1), Cell(score=0.5), paid=False)

    with Journal(tmp_path, {NAME: {}}) as again:
        assert scores(again.cells(NAME), 1) == [0.5]


def test_cells_of_several_threads_are_all_written(tmp_path):
    """Threads put cells while the loop ticks; none is lost, none is there twice."""
    with Journal(tmp_path, {NAME: {}}) as journal, ThreadPoolExecutor(4) as threads:

        def put(number):
            journal.put(NAME, mark(number), Cell(label=str(number)), paid=number % 3 == 0)
            journal.tick(now=float(number))

        list(threads.map(put, range(500)))
        journal.flush()
        taken = journal.cells(NAME).take(range(500)).arrays

    assert sorted(map(int, taken["label"].to_pylist())) == list(range(500))


def test_a_call_that_outlives_its_run_disturbs_nothing(tmp_path):
    """What is put after the end is not written, and is no error in a thread left behind."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        pass
    journal.put(NAME, mark(1), Cell(score=1.0), paid=True)
    journal.tick(now=0.0)
    journal.close()

    with Journal(tmp_path, {NAME: {}}) as again:
        assert on_disk(again) == 0


def test_a_run_without_details_serves_one_with_them(tmp_path):
    """A latency that was not kept is null; the verdict was paid for, and is used."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(1), Cell(score=0.5), paid=True)
    with Journal(tmp_path, {NAME: {}}, details=True) as journal:
        journal.put(NAME, mark(2), Cell(score=0.6), 1.5, paid=True)
        journal.flush()
        cells = journal.cells(NAME)

    taken = cells.take(cells.find(packed([key(1), key(2)]))).arrays
    assert taken["score"].to_pylist() == [0.5, 0.6]
    assert taken["latency_s"].to_pylist() == [None, 1.5]


def test_a_run_with_details_serves_one_without_them(tmp_path):
    """Columns that nobody asks for are left out; going to and fro, the newest cell counts."""
    for details, score in [(True, 0.1), (False, 0.2), (True, 0.3)]:
        with Journal(tmp_path, {NAME: {}}, details=details) as journal:
            journal.put(NAME, mark(1), Cell(score=score), paid=True)

    with Journal(tmp_path, {NAME: {}}) as journal:
        cells = journal.cells(NAME)

    assert scores(cells, 1) == [0.3]
    assert "latency_s" not in cells.take([0]).arrays


@pytest.mark.parametrize(
    "further",
    [
        pytest.param({**EXTRAS, "more": pa.bool_()}, id="one-more"),
        pytest.param({**EXTRAS, "tokens": pa.float64()}, id="another-type"),
    ],
)
def test_cells_without_a_declared_column_are_not_given(tmp_path, further):
    """An evaluator that declares other extras under the same version gets no half cells."""
    with Journal(tmp_path, {NAME: EXTRAS}) as journal:
        journal.put(NAME, mark(1), Cell(score=0.5, extras=(1, "a")), paid=True)
    with Journal(tmp_path, {NAME: further}) as journal:
        cells = journal.cells(NAME)

    assert (scores(cells, 1), cells.unfit) == (["none"], 1)


def test_going_back_to_earlier_columns_finds_the_earlier_cells(tmp_path):
    """Nothing is thrown away for an edit that is undone."""
    for further in (EXTRAS, {}, EXTRAS):
        with Journal(tmp_path, {NAME: further}) as journal:
            number = len(list(tmp_path.iterdir()))
            journal.put(NAME, mark(number), Cell(score=number / 10), paid=True)
    with Journal(tmp_path, {NAME: EXTRAS}) as journal:
        cells = journal.cells(NAME)

    assert scores(cells, 1, 2, 3) == [0.1, "none", 0.3]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["a/b", "a\\b", "a_b"], id="separators"),
        pytest.param(["..", ".", " "], id="folders"),
        pytest.param(["A", "a"], id="case"),
        pytest.param(["é", "e\u0301", "ß", "评"], id="unicode"),
        pytest.param(["x" * 300, "x" * 301], id="long"),
        pytest.param(["task", "CON", "nul"], id="taken-names"),
        pytest.param(["a*", "[a]", "a?"], id="patterns"),
    ],
)
def test_every_name_has_its_own_table(tmp_path, names):
    """An evaluator's name is any text; the folder stays flat, and files are told apart anywhere."""
    with Journal(tmp_path, {name: {} for name in names}, task=True) as journal:
        for number, name in enumerate(names):
            journal.put(name, mark(1), Cell(score=number / 10), paid=True)
        journal.flush()

        assert [scores(journal.cells(name), 1) for name in names] == [
            [number / 10] for number in range(len(names))
        ]
    assert len({path.name.casefold() for path in tmp_path.iterdir()}) == len(names) + 1


@pytest.mark.parametrize("count", [1, 100], ids=["few", "many"])
def test_a_lone_surrogate_becomes_a_replacement_character(tmp_path, count):
    """Text on its way to a file is text."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for number in range(count):
            journal.put(NAME, mark(number), Cell(label="a\ud800"), paid=True)
        journal.flush()
        taken = journal.cells(NAME).take([0]).arrays

    assert taken["label"].to_pylist() == ["a\ufffd"]


@pytest.mark.parametrize("bad", ["", "12", "g" * 32, "0" * 31, "0" * 34], ids=repr)
def test_a_key_that_is_no_fingerprint_is_refused_at_once(tmp_path, bad):
    """Not when it is written, where it would take other cells with it."""
    with (
        Journal(tmp_path, {NAME: {}}) as journal,
        pytest.raises(ValueError, match=r"32 hex letters|hexadecimal|non-hex"),
    ):
        journal.put(NAME, Mark(bad, 0, 0), Cell(score=1.0), paid=True)


def test_compacting_leaves_out_what_was_replaced_and_joins_the_rest(tmp_path):
    """Many small batches become one; of a cell that was run again only the newest stays."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for number in [1, 2, 1, 3]:
            journal.put(NAME, mark(number), Cell(score=number / 10), paid=True)
            journal.tick(now=0.0)
        (path,) = tmp_path.iterdir()
        before = path.stat().st_size
        journal.compact()

        assert [len(batch) for batch in Scan(path)] == [3]
        assert scores(journal.cells(NAME), 1, 2, 3) == [0.1, 0.2, 0.3]
        assert path.stat().st_size < before


def test_a_compact_journal_is_not_written_again(tmp_path):
    """A run that found everything done rewrites nothing."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.put(NAME, mark(1), Cell(score=1.0), paid=True)
        journal.compact()
    (path,) = tmp_path.iterdir()
    before = path.stat().st_ino

    with Journal(tmp_path, {NAME: {}}) as journal:
        journal.compact()

    assert path.stat().st_ino == before


def test_compacting_an_empty_journal_leaves_it_empty(tmp_path):
    """A run that was stopped before its first cell ends in order."""
    with Journal(tmp_path, {NAME: {}}, task=True) as journal:
        journal.compact()

        assert (on_disk(journal), len(journal.outputs())) == (0, 0)


def test_files_left_by_a_killed_compaction_are_removed(tmp_path):
    """They are of no use to anybody, and would fill the disk."""
    (tmp_path / ".judge.1.arrows.0123.tmp").write_bytes(b"half")

    with Journal(tmp_path, {NAME: {}}):
        assert [path.suffix for path in tmp_path.iterdir()] == [".arrows"]


def test_damage_is_found_when_the_journal_is_opened(tmp_path):
    """Before anything is run or paid for; the file is left as it is."""
    with Journal(tmp_path, {NAME: {}}) as journal:
        for number in range(3):
            journal.put(NAME, mark(number), Cell(score=1.0), paid=True)
            journal.flush()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(JournalError, match="is damaged at byte"):
        Journal(tmp_path, {"exact": {}, NAME: {}})
    assert path.read_bytes() == content


def python(script, *arguments):
    """A process that runs a script with the names of this file's imports."""
    head = """
        import resource, sys
        from pathlib import Path
        from evalframe.core.errors import JournalError
        from evalframe.core.records import Cell
        from evalframe.results.journal import Journal
        from evalframe.results.journal_cells import Mark, packed
    """
    source = textwrap.dedent(head) + textwrap.dedent(script)
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("after", [1, 50, 400], ids=str)
def test_a_killed_process_loses_no_cell_that_it_had_written(tmp_path, after):
    """Everything up to its last tick is there, each cell with its own values."""
    script = """
        with Journal(Path(sys.argv[1]), {"judge": {}}) as journal:
            for number in range(10**9):
                cell = Cell(label=str(number), score=number % 7 / 7)
                journal.put("judge", Mark(f"{number:032x}", 0, number), cell, paid=True)
                journal.tick(now=0.0)
                print(number, flush=True)
    """
    with python(script, tmp_path) as process:
        for _ in range(after):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        last = max([last, *map(int, process.stdout.read().split("\n")[:-1])])
    assert process.returncode == -signal.SIGKILL

    with Journal(tmp_path, {NAME: {}}) as journal:
        cells = journal.cells(NAME)
    found = cells.find(packed([key(number) for number in range(last + 1)]))
    taken = cells.take(found).arrays
    assert taken["label"].to_pylist() == [str(number) for number in range(last + 1)]
    assert taken["score"].to_pylist() == [number % 7 / 7 for number in range(last + 1)]


# A limit on the size of files is a full disk that needs no rights: the write that crosses it is
# taken in part, and the next one fails.
FULL_DISK = """
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = Journal(folder, {"judge": {}, "exact": {}}, task=True)
    journal.put_output(Mark("0" * 32, 0, 0), '"out"', None)
    journal.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        for number in range(10**6):
            journal.put("judge", Mark(f"{number:032x}", 0, number), Cell(score=1.0), paid=True)
            journal.tick(now=0.0)
    except JournalError as exc:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        journal.close()
        print(exc)
        print(exc.safe)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
@pytest.mark.parametrize("size", range(20_000, 20_800, 200), ids=str)
def test_a_full_disk_is_an_error_that_names_what_is_safe(tmp_path, size):
    """All that was written before can be read, and writing goes on when there is room."""
    with python(FULL_DISK, tmp_path, size) as process:
        message, safe = process.stdout.read().splitlines()
    with Journal(tmp_path, {NAME: {}}, task=True) as journal:
        count = on_disk(journal)
        journal.put(NAME, mark(count), Cell(score=1.0), paid=True)
        journal.flush()
        after = on_disk(journal)

    assert process.returncode == 0
    assert count > 10
    assert after == count + 1
    assert safe == str({None: 1, "judge": count, "exact": 0})
    assert message == (
        f"The disk of the journal {str(tmp_path)!r} fails: File too large. Cells that are safe in "
        f"it: task 1, 'judge' {count}, 'exact' 0. Finished, but not written: 1, and what calls in "
        "flight have given since; `.partial` has all of it. Make room, then call run_experiment "
        "again with the same run_dir: it goes on from there."
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_disk_too_full_to_compact_keeps_the_old_file(tmp_path):
    """Nothing that was written is lost, and no half file stays."""
    script = """
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        journal = Journal(Path(sys.argv[1]), {"judge": {}})
        for number in range(50):
            journal.put("judge", Mark(f"{number:032x}", 0, number), Cell(score=1.0), paid=True)
            journal.tick(now=0.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))
        try:
            journal.compact()
        except JournalError as exc:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            journal.close()
            print(exc.safe)
    """
    with python(script, tmp_path) as process:
        safe = process.stdout.read()
    with Journal(tmp_path, {NAME: {}}) as journal:
        assert on_disk(journal) == 50

    assert safe == "{'judge': 50}\n"
    assert len(list(tmp_path.iterdir())) == 1
