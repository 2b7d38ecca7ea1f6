"""The bytes of a journal: whole batches come back, and nothing else ever does."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core.errors import JournalError
from evalframe.results.journal_format import Scan, batch_message, columns_in, schema_message

COLUMNS = pa.schema(
    [
        pa.field("text", pa.large_string()),
        pa.field("number", pa.float64()),
        pa.field("key", pa.binary(16), nullable=False),
    ],
    metadata={"evalframe.evaluator": "judge"},
)
BATCHES = [
    [("yes", 1.0, b"a" * 16)],
    [("no", 0.0, b"b" * 16), (None, None, b"c" * 16)],
    [("\xff" * 9, float("inf"), b"\xff" * 16)],
]

ROWS = st.tuples(
    st.none() | st.text(),
    st.none() | st.floats(allow_nan=False),
    st.binary(min_size=16, max_size=16),
)


def batch(rows):
    """Rows as a batch of the columns above."""
    dicts = [dict(zip(COLUMNS.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(dicts, schema=COLUMNS)


def messages(batches):
    """The messages of a file with these batches."""
    return [schema_message(COLUMNS), *(batch_message(batch(rows)) for rows in batches)]


def rows_in(path):
    """The rows of each batch that can be read."""
    return [[tuple(row.values()) for row in found.to_pylist()] for found in Scan(path)]


def written(path, content):
    """The path, with this content."""
    path.write_bytes(content)
    return path


@given(st.lists(st.lists(ROWS, max_size=5), max_size=5))
def test_what_is_written_is_read(tmp_path_factory, batches):
    """Batch by batch, value by value, whatever stands in them."""
    path = written(tmp_path_factory.mktemp("j") / "a.arrows", b"".join(messages(batches)))

    assert rows_in(path) == batches


def test_any_arrow_reader_opens_a_journal(tmp_path):
    """The file is an Arrow IPC stream: nobody needs evalframe to read results."""
    path = written(tmp_path / "a.arrows", b"".join(messages(BATCHES)))

    with pa.ipc.open_stream(path) as stream:
        table = stream.read_all()

    assert table.to_pylist() == pa.Table.from_batches(map(batch, BATCHES)).to_pylist()


def test_the_file_says_whose_cells_it_holds(tmp_path):
    """Columns come back with their types, and the evaluator's name as metadata."""
    columns = columns_in(written(tmp_path / "a.arrows", schema_message(COLUMNS)))

    assert columns.equals(COLUMNS)
    assert columns.metadata[b"evalframe.evaluator"] == b"judge"


def test_a_file_cut_anywhere_reads_as_a_prefix_of_its_batches(tmp_path):
    """A process killed at any byte loses the batch it was writing, and no other."""
    parts = messages(BATCHES)
    content = b"".join(parts)
    ends = list(itertools.accumulate(map(len, parts)))

    for cut in range(len(content) + 1):
        scan = Scan(written(tmp_path / "a.arrows", content[:cut]))
        whole = sum(end <= cut for end in ends)

        assert len(list(scan)) == max(whole - 1, 0)
        assert scan.end == (ends[whole - 1] if whole else 0)
        assert (scan.schema is None) == (whole == 0)


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF], ids=["lowest-bit", "highest-bit", "all-bits"])
@pytest.mark.parametrize("damaged", [0, 1, 2], ids=["schema", "first-batch", "middle-batch"])
def test_a_changed_byte_before_the_last_batch_is_an_error(tmp_path, damaged, bits):
    """Whichever byte it is, nothing after it is dropped as a torn tail, or given changed."""
    parts = messages(BATCHES)
    start = sum(map(len, parts[:damaged]))
    content = bytearray(b"".join(parts))

    for at in range(start, start + len(parts[damaged])):
        content[at] ^= bits
        path = written(tmp_path / "a.arrows", content)
        content[at] ^= bits

        with pytest.raises(JournalError, match=r"damaged|newer|no journal"):
            rows_in(path)


def test_a_changed_byte_in_the_last_batch_never_gives_another_value(tmp_path):
    """It is an error, or, where the batch now seems to be longer than the file, a torn tail."""
    content = bytearray(b"".join(messages(BATCHES)))
    outcomes = set()

    for at in range(len(content) - len(messages(BATCHES)[-1]), len(content)):
        content[at] ^= 0x40
        try:
            outcomes.add(repr(rows_in(written(tmp_path / "a.arrows", content))))
        except JournalError:
            outcomes.add("error")
        content[at] ^= 0x40

    assert outcomes == {"error", repr(BATCHES[:-1])}


def test_damage_says_where_what_is_whole_and_what_to_do(tmp_path):
    """The message names the file, the byte, the cells before it, and two ways out."""
    parts = messages(BATCHES)
    content = bytearray(b"".join(parts))
    content[len(parts[0]) + len(parts[1]) + 300] ^= 1
    path = written(tmp_path / "a.arrows", content)

    with pytest.raises(JournalError, match="damaged") as caught:
        rows_in(path)

    assert str(caught.value) == (
        f"The journal {str(path)!r} is damaged at byte {len(parts[0]) + len(parts[1]):,}, after 1 "
        "whole cells: something else has changed the file, or the disk fails. Restore it from a "
        "backup, or move it away: its cells are run again, and replies that were paid for come "
        "from the run_dir's reply cache."
    )


@pytest.mark.parametrize("zeros", [1, 7, 8, 10_000], ids=str)
def test_zeros_at_the_end_are_a_torn_tail(tmp_path, zeros):
    """After a power failure a file may be longer than what was written into it."""
    content = b"".join(messages(BATCHES))
    path = written(tmp_path / "a.arrows", content + bytes(zeros))

    assert rows_in(path) == BATCHES


def test_a_newer_journal_says_to_upgrade(tmp_path):
    """A later format is never guessed at."""
    message = schema_message(COLUMNS).replace(b"format=0001", b"format=0002")

    with pytest.raises(JournalError, match="pip install --upgrade evalframe"):
        rows_in(written(tmp_path / "a.arrows", message))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"hi", id="short-text"),
        pytest.param(b"question,answer\n1,2\n" * 20, id="text"),
        pytest.param(b"ARROW1\0\0" + b"\xff\xff\xff\xff" * 8, id="arrow-file"),
        pytest.param(b"\xff\xff\xff\xff\x00\x00\x00\x00", id="end-of-an-arrow-stream"),
        pytest.param(batch(BATCHES[0]).schema.serialize().to_pybytes(), id="unsealed-arrow-stream"),
    ],
)
def test_another_file_is_no_journal(tmp_path, content):
    """What evalframe did not write is neither read nor taken for a torn beginning."""
    with pytest.raises(JournalError, match="is no journal of evalframe"):
        rows_in(written(tmp_path / "a.arrows", content))


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    """The system's own reason is told."""
    with pytest.raises(JournalError, match=r"cannot be read: Is a directory\."):
        rows_in(tmp_path)


def test_text_that_looks_like_a_seal_is_text(tmp_path):
    """What users write is never taken for what evalframe writes."""
    text = f"evalframe.journal format=0001 crc={0:08x} body={0:016x}"
    rows = [[(text, 1.0, b"\xff" * 16)]]
    path = written(tmp_path / "a.arrows", b"".join(messages(rows)))

    assert rows_in(path) == rows
