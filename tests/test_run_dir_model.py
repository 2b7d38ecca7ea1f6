"""What a second run in a run_dir calls again, against a model that counts contents.

A cell belongs to what was read and to its number among equals, so a run calls what it has more
of than the run before it: a difference of multisets, written down here in plain Python.
"""

import asyncio
import json
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import evalframe as ef

# Each run syncs its record; what a disk takes for that is no part of this.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108

NO_OUTPUT = "d"
NO_SCORE = "c"
PER_ROW = ("plain", "waits", "threaded")


class Seen:
    """What each part of a run was called with."""

    def __init__(self):
        self.task, self.whole = Counter(), []
        self.cells = {name: Counter() for name in PER_ROW}

    def calls(self):
        """All of it, by part."""
        return {"task": self.task, "whole": self.whole, **self.cells}

    def made(self, name, *content):
        """A verdict that tells what it is of; a failure for one of the texts."""
        self.cells[name][content] += 1
        if NO_SCORE in content[0]:
            message = f"no score for {content}"
            raise ValueError(message)
        return f"{name} of {content}", len(content[0]) / 10


class StopsAt(Seen):
    """Ctrl-C in one of the calls of evaluators."""

    def __init__(self, stop):
        super().__init__()
        self.left = stop

    def made(self, name, *content):
        self.left -= 1
        if self.left == 0:
            self.cells[name][content] += 1
            raise KeyboardInterrupt
        return super().made(name, *content)


def task_of(seen):
    """A task that fails on one text."""

    @ef.task(version="1")
    async def answer(input):
        seen.task[input,] += 1
        await asyncio.sleep(0)
        if input == NO_OUTPUT:
            raise LookupError(input)
        return f"out {input}"

    return answer


def evaluators_of(seen):
    """One of every kind, by name; `version` keeps the counts out of their fingerprints."""

    @ef.evaluator(version="1")
    def plain(output, n):
        return seen.made("plain", output, n)

    @ef.evaluator(version="1")
    async def waits(output):
        await asyncio.sleep(0)
        return seen.made("waits", output)

    @ef.evaluator(version="1", threads=2)
    def threaded(output):
        return seen.made("threaded", output)

    @ef.evaluator(version="1", vectorized=True)
    def whole(output):
        seen.whole.append(output.tolist())
        return [f"{value} of {len(output)}" for value in output]

    found = [plain, waits, threaded, whole, ef.SemanticSimilarity(vectors, name="similar")]
    return {evaluator.name: evaluator for evaluator in found}


def vectors(texts):
    """Vectors that tell texts apart."""
    return [[1.0, float(len(text)), float(ord(text[-1]))] for text in texts]


def contents(rows, *, has_task):
    """Part -> what it reads of each row, by the model; rows without an output are read by none."""
    inputs = [(text,) for text, _ in rows] if has_task else []
    ready = [(text, n) for text, n in rows if not (has_task and text == NO_OUTPUT)]
    outputs = [(f"out {text}" if has_task else text, n) for text, n in ready]
    by_output = [(text,) for text, _ in outputs]
    return {
        "task": inputs,
        "plain": outputs,
        **dict.fromkeys(("waits", "threaded", "whole", "similar"), by_output),
    }


def with_output(first, second, *, has_task):
    """The rows of a second run whose output the first has made: by their numbers among equals."""
    left = Counter(text for text, _ in first)
    found = []
    for text, n in second:
        if left[text] > 0 or not has_task:
            found.append((text, n))
        left[text] -= 1
    return found


def run(seen, rows, repetitions, names, *, has_task, data=None, **options):
    """A run of some evaluators, with the task or without, over these rows or a frame of them."""
    column = "input" if has_task else "output"
    frame = pd.DataFrame({
        column: pd.array([text for text, _ in rows], "string"),
        "n": pd.array([n for _, n in rows], "int64"),
        "dataset_output": pd.array(["same"] * len(rows), "string"),
    })  # fmt: skip
    made = evaluators_of(seen)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="run_dir=|.*is an object of")
        return ef.run_experiment(
            frame if data is None else data,
            task_of(seen) if has_task else None,
            [made[name] for name in names],
            repetitions=repetitions,
            **options,
        )


class Model:
    """What the second of two runs takes over, calls and refuses."""

    def __init__(self, first, second, names, *, has_task):
        self.before = contents(first, has_task=has_task)
        self.after = contents(second, has_task=has_task)
        known = contents(with_output(first, second, has_task=has_task), has_task=has_task)
        self.names = names
        self.reused = {
            part: Counter(self.before[part]) & Counter(known[part])
            for part in ("task", *names)
            if part != "whole"
        }
        self.is_alike = self.before["whole"] == self.after["whole"] == known["whole"]

    def calls(self):
        """Part -> what is called: all but what was made before."""
        more = {part: Counter() for part in ("task", *PER_ROW)}
        more |= {part: Counter(self.after[part]) - taken for part, taken in self.reused.items()}
        outputs = [text for (text,) in self.after["whole"]]
        again = "whole" in self.names and outputs and not self.is_alike
        return {part: more[part] for part in ("task", *PER_ROW)} | {
            "whole": [outputs] if again else []
        }

    def is_refused(self):
        """Whether there are results, and none for the second run."""
        there = any(self.before[part] for part in ("task", *self.names))
        whole = "whole" in self.names and self.before["whole"] and self.is_alike
        return there and not any(self.reused.values()) and not whole


ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 1)), max_size=6)
# Rows that are there already come often: reordered, dropped and doubled.
CHANGES = st.lists(st.integers(0, 5) | ROWS.filter(bool).map(lambda rows: rows[0]), max_size=7)
NAMES = st.lists(
    st.sampled_from([*PER_ROW, "whole", "similar"]), min_size=1, max_size=3, unique=True
)


@settings(max_examples=50)
@example(
    first=[("a", 0), ("a", 0)],
    changes=[0, 1, 0],
    repetitions=(1, 1),
    names=["plain"],
    has_task=True,
)
@example(
    first=[("a", 0), ("d", 0)],
    changes=[1, 0],
    repetitions=(2, 1),
    names=["whole", "waits"],
    has_task=True,
)
@example(
    first=[("a", 1)], changes=[("a", 0), 0], repetitions=(1, 1), names=["plain"], has_task=True
)
@given(
    first=ROWS,
    changes=CHANGES,
    repetitions=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    names=NAMES,
    has_task=st.booleans(),
)
def test_what_matches_by_content_and_number_is_taken_over_and_the_rest_runs(
    first, changes, repetitions, names, *, has_task
):
    """No score stands on the wrong row: the frame is that of a run that knows no run_dir."""
    changed = [first[x % len(first)] if isinstance(x, int) and first else x for x in changes]
    second = [row for row in changed if not isinstance(row, int)]
    whole = [[row for row in rows for _ in range(times)]
             for rows, times in zip((first, second), repetitions, strict=True)]  # fmt: skip
    model = Model(*whole, names, has_task=has_task)
    seen, rested = Seen(), Seen()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        options = {"has_task": has_task, "run_dir": folder}
        run(Seen(), first, repetitions[0], names, **options)
        if model.is_refused() and second:
            with pytest.raises(ef.RunDirError, match="none of them belongs to this run"):
                run(seen, second, repetitions[1], names, **options)
            assert seen.calls() == Seen().calls()
            return
        resumed = run(seen, second, repetitions[1], names, **options)
        record = json.loads((Path(folder) / "run.json").read_text("utf-8"))
        run(rested, second, repetitions[1], names, **options)

    assert seen.calls() == model.calls()
    assert rested.calls() == Seen().calls()
    parts = {**record["evaluators"], "task": record["task"] or {"counts": {"n_reused": 0}}}
    assert {part: parts[part]["counts"]["n_reused"] for part in model.reused} == {
        part: taken.total() for part, taken in model.reused.items()
    }
    plain = run(Seen(), second, repetitions[1], names, has_task=has_task)
    marks = [f"eval.{name}.fingerprint" for name in names]
    pd.testing.assert_frame_equal(resumed.drop(columns=marks), plain)


@settings(max_examples=40)
@given(
    rows=ROWS.filter(bool),
    stop=st.integers(1, 12),
    names=NAMES,
    has_task=st.booleans(),
    only=st.sampled_from([None, "missing"]),
)
def test_a_run_that_was_stopped_anywhere_ends_as_if_it_had_not_been(
    rows, stop, names, *, has_task, only
):
    """Whether it goes on from its rows, or from the frame so far as well."""
    seen = StopsAt(stop)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        options = {"has_task": has_task, "run_dir": folder, "concurrency": 2}
        try:
            there = run(seen, rows, 1, names, **options)
        except KeyboardInterrupt as exc:
            there = exc.partial
        more = {} if only is None else {"only": only, "data": there}
        whole = run(seen, rows, 1, names, **options, **more)

    plain = run(Seen(), rows, 1, names, has_task=has_task)
    marks = [f"eval.{name}.fingerprint" for name in names]
    pd.testing.assert_frame_equal(whole.drop(columns=marks), plain)
    model = contents(rows, has_task=has_task)
    for name in PER_ROW:
        due = len(model[name]) if name in names else 0
        # The stopped call, and what is in flight beside it, in each of two threads or calls.
        assert due <= seen.cells[name].total() <= due + 2
    assert len(model["task"]) <= seen.task.total() <= len(model["task"]) + 2
