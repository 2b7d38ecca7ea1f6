"""`only="stale"`: the cells that would read something else today, or be made by other code.

What a cell was made of is the column `eval.<name>.fingerprint`, of every run with details.
"""

import asyncio
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef
from evalframe.testing import label

MARK = "eval.e.fingerprint"


def listed(frame, column):
    """A column with None for NA."""
    return pa.array(frame[column]).to_pylist()


def numbered(count):
    """A plain frame whose inputs are 0, 1, 2, ..."""
    return pd.DataFrame({"input": range(count)})


class Recorder(ef.Evaluator):
    """An evaluator that notes elsewhere what it was called with; `mark` is its only argument."""

    mark: str = "first"

    def evaluate(self, input):
        SEEN.append(input)
        return f"{self.mark} {input}"


class Vectorized(Recorder):
    """The same by the column."""

    vectorized = True

    def evaluate(self, input):
        SEEN.extend(input.tolist())
        return [f"{self.mark} {value}" for value in input]


class Awaited(Recorder):
    """The same on the loop."""

    async def evaluate(self, input):
        await asyncio.sleep(0)
        SEEN.append(input)
        return f"{self.mark} {input}"


SEEN = []
LANES = pytest.mark.parametrize("kind", [Recorder, Vectorized, Awaited])


def scored_by(evaluator, frame, **options):
    """A run with details, and nothing noted of it."""
    made = ef.run_experiment(frame, evaluators=[evaluator], details=True, **options)
    SEEN.clear()
    return made


def run_stale(frame, evaluator, *more, **options):
    """The frame of a run of what is stale, and the inputs it called on."""
    SEEN.clear()
    made = ef.run_experiment(frame, *more, evaluators=[evaluator], only="stale", **options)
    return made, list(SEEN)


def without_times(frame):
    """Latencies are of their own run."""
    return frame.drop(columns=[name for name in frame if name.endswith(".latency_s")])


@LANES
def test_only_edited_rows_are_run_again(kind):
    """And the frame is that of a run on the edited rows."""
    scored = scored_by(kind(name="e"), numbered(6))
    scored.loc[[1, 4], "input"] = [10, 40]

    fresh, seen = run_stale(scored, kind(name="e"))

    assert seen == [10, 40]
    whole = scored_by(kind(name="e"), pd.DataFrame({"input": [0, 10, 2, 3, 40, 5]}))
    pd.testing.assert_frame_equal(without_times(fresh), without_times(whole))
    assert fresh["eval.e.latency_s"].drop([1, 4]).equals(scored["eval.e.latency_s"].drop([1, 4]))
    assert run_stale(fresh, kind(name="e"))[1] == []


@LANES
def test_an_evaluator_with_other_arguments_makes_all_its_cells_stale(kind):
    """Its name does not count, its arguments do."""
    scored = scored_by(kind("first", name="e"), numbered(3))

    fresh, seen = run_stale(scored, kind("second", name="e"))

    assert seen == [0, 1, 2]
    assert {text.split()[0] for text in listed(fresh, "eval.e.label")} == {"second"}


def test_a_function_that_was_edited_is_other_code():
    """By its source; the same source elsewhere is the same code."""

    def first():
        def e(input):
            return input > 1

        return e

    def second():
        def e(input):
            return input > 2

        return e

    scored = ef.run_experiment(numbered(4), evaluators=[first()], details=True)

    same = ef.run_experiment(scored, evaluators=[first()], only="stale")
    edited = ef.run_experiment(scored, evaluators=[second()], only="stale")

    pd.testing.assert_frame_equal(same, scored)
    assert listed(edited, "eval.e.score") == [0.0, 0.0, 0.0, 1.0]


def test_a_version_takes_the_place_of_arguments():
    """The same one: nothing is stale; another: everything is."""
    scored = scored_by(Recorder("first", name="e", version="1"), numbered(3))

    assert run_stale(scored, Recorder("second", name="e", version="1"))[1] == []
    assert run_stale(scored, Recorder("second", name="e", version="2"))[1] == [0, 1, 2]


def test_without_the_column_there_is_nothing_to_go_by():
    """The error says how to get it."""
    scored = ef.run_experiment(numbered(2), evaluators=[Recorder(name="e")])

    with pytest.raises(ef.ExperimentError, match=r"'eval\.e\.fingerprint'.*details=True"):
        run_stale(scored, Recorder(name="e"))
    assert SEEN == []


def test_a_cell_of_unknown_making_is_stale():
    """Its fingerprint is null, though it has a verdict."""
    scored = scored_by(Recorder(name="e"), numbered(3))
    scored.loc[1, MARK] = pd.NA

    assert run_stale(scored, Recorder(name="e"))[1] == [1]


def test_what_is_missing_is_made_as_well():
    """Rows that were added, and cells that were not run."""
    scored = scored_by(Recorder(name="e"), numbered(3))
    scored.loc[0, [name for name in scored if name.startswith("eval.")]] = pd.NA
    scored.loc[0, "eval.e.error"] = "skipped: not run"
    more = pd.concat([scored, pd.DataFrame({"input": [3]})], ignore_index=True)

    assert run_stale(more, Recorder(name="e"))[1] == [0, 3]


def test_failures_and_skips_are_results_like_others():
    """They would end as they did: only a change makes them stale."""

    def e(input):
        return {0: 97.0, 1: ef.skip("not this one")}.get(input, True)

    scored = ef.run_experiment(numbered(3), evaluators=[e], details=True)

    again = ef.run_experiment(scored, evaluators=[e], only="stale")

    pd.testing.assert_frame_equal(again, scored)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frame: frame.iloc[::-1], id="reordered"),
        pytest.param(lambda frame: frame.drop(index=[0, 2]), id="dropped"),
        pytest.param(lambda frame: pd.concat([frame, frame]), id="duplicated"),
        pytest.param(lambda frame: frame.assign(mine=1), id="another-column"),
        pytest.param(lambda frame: frame.set_index("note"), id="indexed"),
        pytest.param(
            lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"), id="arrow-backed"
        ),
        pytest.param(lambda frame: frame.astype({"input": object}), id="objects"),
        pytest.param(
            lambda frame: ef.run_experiment(frame, evaluators={"f": lambda input: True}),
            id="further-results",
        ),
    ],
)
def test_what_a_cell_does_not_read_makes_nothing_stale(change):
    """It goes by content: neither by place, nor by dtype, nor by what stands beside it."""
    scored = scored_by(Recorder(name="e"), numbered(4).assign(note=list("abcd")))

    assert run_stale(change(scored), Recorder(name="e"))[1] == []


def test_another_type_of_an_equal_value_is_another_value():
    """1 is not 1.0: the evaluator can tell them apart."""
    scored = scored_by(Recorder(name="e"), numbered(2))

    assert run_stale(scored.astype({"input": float}), Recorder(name="e"))[1] == [0.0, 1.0]


class OfTheRow(ef.Evaluator):
    """Reads the dataset row."""

    def evaluate(self, dataset_row):
        SEEN.append(dataset_row["input"])
        return len(dataset_row) > 0


def test_results_are_no_part_of_the_row_and_other_columns_are():
    """Whoever reads the row reads all of the user's columns, and no result."""
    scored = scored_by(OfTheRow(name="e"), numbered(2))
    more = ef.run_experiment(scored, evaluators={"f": lambda input: input > 0}, details=True)

    assert run_stale(more, OfTheRow(name="e"))[1] == []
    assert run_stale(more.assign(mine=["a", "b"]), OfTheRow(name="e"))[1] == [0, 1]


class OfTwo(ef.Evaluator):
    """Reads the input and something that is bound."""

    def evaluate(self, input, other):
        SEEN.append(input)
        return other is None


def test_results_that_are_bound_are_read():
    """By whoever binds them, and as values like any other."""
    base = ef.run_experiment(numbered(3), evaluators={"f": lambda input: input > 1})
    reader = OfTwo(name="e").bind(other="eval.f.label")
    scored = scored_by(reader, base)
    scored.loc[0, "eval.f.label"] = "changed"

    assert run_stale(scored, reader)[1] == [0]
    assert run_stale(scored, OfTwo(name="e").bind(other="eval.f.score"))[1] == [0, 1, 2]


def test_fingerprints_are_of_cells_that_were_made():
    """Equal rows have equal ones; a cell whose task failed has none."""

    def task(input):
        if input == 2:
            raise ValueError
        return "same"

    def e(output):
        return True

    scored = ef.run_experiment(numbered(4), task, evaluators=[e], details=True)

    first, second, third, fourth = listed(scored, MARK)
    assert first == second == fourth
    assert len(first) == 32
    assert third is None


def test_cells_that_were_made_again_are_recorded_anew():
    """By any run that adds to a frame with fingerprints, so that nothing is stale after it."""
    scored = scored_by(Recorder(name="e"), numbered(3))
    scored.loc[1, "eval.e.error"] = "timeout: no result within 1 s"
    scored.loc[1, "input"] = 7

    mended = ef.run_experiment(scored, evaluators=[Recorder(name="e")], only="failed")

    assert mended.loc[1, MARK] != scored.loc[1, MARK]
    assert run_stale(mended, Recorder(name="e"))[1] == []


def test_stale_cells_that_were_not_reached_are_stale_still():
    """A stop leaves the verdict of before, and its fingerprint."""

    class Stops(Recorder):
        def evaluate(self, input):
            if input == 20:
                raise KeyboardInterrupt
            return super().evaluate(input)

    scored = scored_by(Stops(name="e"), numbered(4))
    scored.loc[[1, 2, 3], "input"] = [10, 20, 30]

    with pytest.raises(KeyboardInterrupt) as caught:
        run_stale(scored, Stops(name="e"))

    partial = caught.value.partial
    assert listed(partial, "eval.e.label") == ["first 0", "first 10", "first 2", "first 3"]
    before, now = listed(scored, MARK), listed(partial, MARK)
    assert [a == b for a, b in zip(before, now, strict=True)] == [True, False, True, True]


def test_outputs_that_were_edited_make_cells_stale_with_and_without_the_task():
    """The outputs stay as they were put; the task is not called."""
    called = []

    def task(input):
        called.append(input)
        return f"out {input}"

    class OfOutput(ef.Evaluator):
        def evaluate(self, output):
            SEEN.append(output)
            return "x" in output

    scored = ef.run_experiment(numbered(3), task, evaluators=[OfOutput(name="e")], details=True)
    called.clear()
    scored.loc[1, "output"] = "mine"

    for more in ((task,), ()):
        fresh, seen = run_stale(scored, OfOutput(name="e"), *more)
        assert (seen, called) == (["mine"], [])
        assert listed(fresh, "output") == ["out 0", "mine", "out 2"]


def judge_of(server, name, prompt):
    """A judge that asks the server."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0)
    return ef.LLMJudge(name, model=model, prompt=prompt, choices={"yes": 1.0, "no": 0.0})


def test_one_edited_prompt_and_three_edited_rows_are_asked_about_and_nothing_else(serve, tmp_path):
    """All rows of the one judge, three of the other; from a file, by the server's own count."""
    server = serve(lambda request: label("yes", explanation=request.prompt))
    edited = judge_of(server, "edited", "Is it right? {{ item.input }}")
    same = judge_of(server, "same", "Is it short? {{ item.input }}")
    scored = ef.run_experiment(numbered(10), evaluators=[edited, same], details=True)
    assert server.calls == 20
    scored.evals.to_parquet(tmp_path / "scored.parquet")
    frame = ef.read_parquet(tmp_path / "scored.parquet")
    frame.loc[[2, 5, 7], "input"] = [200, 500, 700]
    edited = judge_of(server, "edited", "Is it really right? {{ item.input }}")
    server.reset()

    fresh = frame.pipe(ef.run_experiment, evaluators=[edited, same], only="stale")

    assert server.calls == 10 + 3
    whole = ef.run_experiment(fresh[["input"]], evaluators=[edited, same], details=True)
    pd.testing.assert_frame_equal(without_times(fresh), without_times(whole))


ELSEWHERE = """
import sys
import evalframe as ef

def e(input, note, topic="none"):
    return topic in ("a", "b") and len(note) > 1

mapping = {"input": "n"}
if sys.argv[1] == "make":
    rows = [{"n": n, "note": {"k": [n, None]}, "topic": "a"} for n in range(3)]
    ef.run_experiment(rows, evaluators=[e], details=True, **mapping).evals.to_parquet(sys.argv[2])
else:
    frame = ef.read_parquet(sys.argv[2])
    again = ef.run_experiment(frame, evaluators=[e], only="stale")
    assert again.equals(frame)
    frame.loc[1, "topic"] = "b"
    again = ef.run_experiment(frame, evaluators=[e], only="stale")
    print((again["eval.e.fingerprint"] != frame["eval.e.fingerprint"]).tolist())
"""


def test_another_process_takes_up_the_same_fingerprints(tmp_path):
    """Whatever the hash seed, the line, and the way that the rows came."""
    path = str(tmp_path / "scored.parquet")
    printed = [
        subprocess.run(
            [sys.executable, "-c", "\n" * lines + ELSEWHERE, what, path],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            timeout=60,
        ).stdout
        for what, seed, lines in (("make", "1", 0), ("take", "2", 7))
    ]

    assert printed == ["", "[False, True, False]\n"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


@given(data=st.data(), values=st.lists(VALUES, min_size=1, max_size=6))
def test_what_is_stale_is_what_differs(data, values):
    """Whatever the values: after some were replaced by a text, those rows, and no others."""
    frame = pd.DataFrame({"input": pd.Series(values, dtype=object)})
    rows = data.draw(st.sets(st.integers(0, len(values) - 1)))
    scored = ef.run_experiment(frame, evaluators=[Steady(name="e")], details=True)
    new = ["an edited text" if row in rows else value for row, value in enumerate(values)]
    edited = scored.assign(input=pd.Series(new, dtype=object))

    fresh = ef.run_experiment(edited, evaluators=[Steady(name="e")], only="stale")

    changed = (fresh[MARK] != scored[MARK]).to_numpy(dtype=bool)
    assert set(changed.nonzero()[0]) == rows


class Steady(ef.Evaluator):
    """Has a verdict on anything."""

    def evaluate(self, input):
        return True
