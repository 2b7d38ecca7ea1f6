"""What a frame remembers of its runs."""

import json
import math

import pytest

from evalframe.core.mapping import RoleMapping
from evalframe.core.run_info import (
    KEY,
    EvaluatorInfo,
    RunInfo,
    mapping_for_attrs,
    remembered,
)

WHOLE = RunInfo(
    experiment_name="nightly",
    started="2026-01-01T00:00:00+00:00",
    finished="2026-01-01T00:01:00+00:00",
    rows=3,
    mapping={"input": "question", "metadata": ["topic", "level"]},
    evaluators={
        "exact": EvaluatorInfo(counts={"valid": 2, "failed": 1}),
        "judge": EvaluatorInfo(
            kind="LLM",
            direction="minimize",
            threshold=2.5,
            score_range=(1.0, 5.0),
            version="3",
            class_name="LLMJudge",
            fingerprint="0" * 32,
            unread=["client: Client"],
            prompt="{{ item.output }}",
            model="local/m",
            parameters="LLMJudge('judge')",
            started="2026-05-01T12:00:00+00:00",
            finished="2026-05-01T12:01:00+00:00",
        ),
    },
    tracebacks={"exception: KeyError: 'x'": "Traceback ..."},
    task="answer",
    partial=True,
    versions={"python": "3.11.1"},
)


def test_a_run_comes_back_equal_from_attrs():
    """Nothing of it is lost in the JSON text, tuples included."""
    assert remembered({KEY: WHOLE.to_json()}) == WHOLE


def test_the_attrs_hold_one_json_text():
    """Copying a frame copies a string, and parquet writers accept it."""
    text = WHOLE.to_json()

    assert isinstance(text, str)
    assert json.loads(text)["experiment_name"] == "nightly"


def test_a_mapping_comes_back_with_its_metadata_columns_as_a_tuple():
    """JSON has no tuples; the mapping has."""
    assert WHOLE.role_mapping() == RoleMapping(input="question", metadata=("topic", "level"))


@pytest.mark.parametrize(
    "attrs",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"other": "x"}, id="someone-elses"),
        pytest.param({KEY: 3}, id="no-text"),
        pytest.param({KEY: "{torn"}, id="no-json"),
        pytest.param({KEY: "[1]"}, id="no-object"),
        pytest.param({KEY: '{"evaluators": 3}'}, id="evaluators-no-object"),
        pytest.param({KEY: '{"evaluators": {"a": {"colour": 1}}}'}, id="unknown-evaluator-fact"),
    ],
)
def test_unreadable_attrs_are_as_good_as_none(attrs):
    """A frame is never unusable for what is written in its attrs."""
    assert remembered(attrs) == RunInfo()


def test_facts_of_a_newer_release_are_left_out():
    """A frame from a later evalframe opens; what is not known here is ignored."""
    raw = {**json.loads(WHOLE.to_json()), "colour": "red"}

    assert remembered({KEY: json.dumps(raw)}) == WHOLE


def test_facts_of_an_earlier_release_are_read():
    """What it did not know of an evaluator is not known here either."""
    old = {"kind": "LLM", "score_range": [0.0, 1.0], "counts": {"valid": 1}}
    info = EvaluatorInfo(kind="LLM", counts={"valid": 1})

    assert remembered({KEY: json.dumps({"evaluators": {"a": old}})}).evaluators == {"a": info}


def test_an_open_score_range_survives():
    """A bound may be infinite."""
    info = RunInfo(evaluators={"length": EvaluatorInfo(score_range=(0.0, math.inf))})

    assert remembered({KEY: info.to_json()}) == info


def test_only_roles_that_json_can_name_are_remembered():
    """A column named by a number would come back as another one."""
    mapping = RoleMapping(input="question", output=3, metadata=("topic", 4))

    assert mapping_for_attrs(mapping) == {"input": "question"}
    assert mapping_for_attrs(RoleMapping(metadata=("topic", "level"))) == {
        "metadata": ["topic", "level"]
    }
