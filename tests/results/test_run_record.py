"""The record of a run: JSON for people that comes back as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.results.run_record import NewerRecordError, PartRecord, RunRecord

PARTS = st.builds(
    PartRecord,
    fingerprint=st.none() | st.text(),
    unread=st.lists(st.text(), max_size=2).map(tuple),
    kind=st.sampled_from(["CODE", "LLM", "HUMAN", "TASK"]),
    version=st.none() | st.text(),
    counts=st.dictionaries(st.text(), st.integers(), max_size=2),
)
RECORDS = st.builds(
    RunRecord,
    experiment_name=st.none() | st.text(),
    started=st.none() | st.text(),
    finished=st.none() | st.text(),
    rows=st.integers(0),
    mapping=st.dictionaries(st.text(), st.text() | st.lists(st.text(), max_size=2), max_size=2),
    evaluators=st.dictionaries(st.text(), PARTS, max_size=2),
    task=st.none() | PARTS,
    versions=st.dictionaries(st.text(), st.text(), max_size=2),
)


@given(RECORDS)
def test_a_record_comes_back_equal(record):
    """Through the text of the file."""
    assert RunRecord.from_json(record.to_json()) == record


def test_what_a_person_adds_is_passed_over():
    """A note in the file is no reason to refuse the run."""
    text = json.dumps({**json.loads(RunRecord(rows=3).to_json()), "note": "the good one"})

    assert RunRecord.from_json(text) == RunRecord(rows=3)


def test_a_later_format_is_told_from_a_damaged_file():
    """The one is mended by an upgrade, the other is not."""
    with pytest.raises(NewerRecordError, match="a newer evalframe wrote it"):
        RunRecord.from_json('{"evalframe_run": 2}')


def test_half_of_a_surrogate_pair_is_written_as_no_text():
    """A name that holds one does not cost the run its record."""
    text = RunRecord(experiment_name="a \ud800 b").to_json()

    assert RunRecord.from_json(text.encode().decode()).experiment_name == "a \ufffd b"
