"""`only=`: a run that adds to the results that a frame has already.

What is there stays as it is, to the bit, in its place; what is to be made is made as in a run
of its own, and nothing else is called.
"""

import asyncio
import os
import signal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef

NOT_RUN = "skipped: not run"
RESULTS = ("label", "score", "explanation", "metadata", "error")


def numbered(count, index=None):
    """A plain frame whose inputs are 0, 1, 2, ..."""
    return pd.DataFrame({"input": range(count)}, index=index)


def listed(frame, field, name="e"):
    """A result column with None for NA."""
    return pa.array(frame[f"eval.{name}.{field}"]).to_pylist()


def columns_of(name):
    """The five columns of an evaluator."""
    return [f"eval.{name}.{field}" for field in RESULTS]


class Recorder:
    """An evaluator's inside: what it was called with, and inputs on which it fails."""

    def __init__(self, *failing):
        self.failing = set(failing)
        self.seen = []

    def __call__(self, input):
        self.seen.append(input)
        if input in self.failing:
            message = f"no verdict on {input}"
            raise ValueError(message)
        return (input / 10_000, f"label {input}", f"why {input}")


def in_the_thread(inner):
    """A plain evaluator."""

    def evaluate(input):
        return inner(input)

    return ef.evaluator(evaluate, name="e")


def awaited(inner):
    """An async evaluator."""

    async def evaluate(input):
        await asyncio.sleep(0)
        return inner(input)

    return ef.evaluator(evaluate, name="e")


def threaded(inner):
    """An evaluator that runs in threads."""

    def evaluate(input):
        return inner(input)

    return ef.evaluator(evaluate, name="e", threads=1)


def vectorized(inner):
    """An evaluator that sees columns; a row that fails is a cell of its own."""

    def evaluate(input):
        results = []
        for value in input:
            try:
                score, label, why = inner(value)
                results.append({"score": score, "label": label, "explanation": why})
            except ValueError:
                results.append({"score": 97.0})
        return results

    return ef.evaluator(evaluate, name="e", vectorized=True)


LANES = pytest.mark.parametrize(
    "lane",
    [in_the_thread, awaited, threaded, vectorized],
    ids=["in-the-thread", "async", "threaded", "vectorized"],
)


def run_sync(*args, **options):
    """run_experiment, called from plain code."""
    return ef.run_experiment(*args, **options)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


BOTH_WAYS = pytest.mark.parametrize(
    "run", [pytest.param(run_sync, id="sync"), pytest.param(run_awaited, id="awaited")]
)


@BOTH_WAYS
@LANES
def test_only_failed_cells_are_called_again_and_the_rest_stays(run, lane):
    """After a flaky evaluator the frame is that of a run in which nothing failed."""
    flaky, steady = Recorder(1, 4), Recorder()
    scored = ef.run_experiment(numbered(6), evaluators=[lane(flaky)])

    mended = run(scored, evaluators=[lane(steady)], only="failed")

    assert sorted(steady.seen) == [1, 4]
    undisturbed = ef.run_experiment(numbered(6), evaluators=[lane(Recorder())])
    pd.testing.assert_frame_equal(mended, undisturbed)


@LANES
def test_rows_that_were_added_are_missing(lane):
    """Cells that are null in all their columns have not been run."""
    first = ef.run_experiment(numbered(3), evaluators=[lane(Recorder())])
    more = pd.concat([first, pd.DataFrame({"input": [3, 4]})], ignore_index=True)
    recorder = Recorder()

    both = ef.run_experiment(more, evaluators=[lane(recorder)], only="missing")

    assert recorder.seen == [3, 4]
    whole = ef.run_experiment(numbered(5), evaluators=[lane(Recorder())])
    pd.testing.assert_frame_equal(both, whole)


@pytest.mark.parametrize("error", [NOT_RUN, "skipped: budget", "skipped: deadline"])
def test_what_the_run_left_out_is_missing(error):
    """A skip of the run's own is a cell that is still to come."""
    scored = ef.run_experiment(numbered(3), evaluators=[in_the_thread(Recorder())])
    for field in RESULTS:
        scored.loc[1, f"eval.e.{field}"] = error if field == "error" else pd.NA
    recorder = Recorder()

    whole = ef.run_experiment(scored, evaluators=[in_the_thread(recorder)], only="missing")

    assert recorder.seen == [1]
    assert listed(whole, "error") == [None] * 3


@pytest.mark.parametrize("only", ["missing", "failed"])
def test_an_evaluators_own_skip_is_neither_missing_nor_failed(only):
    """It has said that it has no verdict, and is not asked again."""
    calls = []

    def e(input):
        calls.append(input)
        return ef.skip("not for me")

    scored = ef.run_experiment(numbered(2), evaluators=[e])
    calls.clear()

    again = ef.run_experiment(scored, evaluators=[e], only=only)

    assert calls == []
    pd.testing.assert_frame_equal(again, scored)


def test_missing_leaves_failures_and_failed_leaves_what_is_missing():
    """Each of the two is asked for by its own word."""
    scored = ef.run_experiment(numbered(4), evaluators=[in_the_thread(Recorder(1))])
    more = pd.concat([scored, pd.DataFrame({"input": [4]})], ignore_index=True)
    missing, failed = Recorder(), Recorder()

    without_gap = ef.run_experiment(more, evaluators=[in_the_thread(missing)], only="missing")
    without_failure = ef.run_experiment(more, evaluators=[in_the_thread(failed)], only="failed")

    assert (missing.seen, failed.seen) == ([4], [1])
    assert listed(without_gap, "error")[1].startswith("exception: ValueError: no verdict on 1")
    # Not "not run" either: what was not asked for stays as it was.
    assert without_failure.loc[4, columns_of("e")].isna().all()


def test_all_makes_every_cell_anew_in_the_places_that_the_columns_have():
    """As overwrite=True, but the frame keeps its shape, and other evaluators' columns stay."""
    scored = ef.run_experiment(
        numbered(3), evaluators={"e": Recorder(), "other": lambda input: input > 1}
    )
    calls = Recorder()

    again = ef.run_experiment(scored, evaluators={"e": calls}, only="all")

    assert calls.seen == [0, 1, 2]
    pd.testing.assert_frame_equal(again, scored)


def test_all_drops_the_extras_that_are_no_longer_declared():
    """New columns stand beside the old ones of their evaluator."""
    old = ef.evaluator(lambda input: {"score": 1.0, "hits": input}, name="e", extras={"hits": int})
    new = ef.evaluator(
        lambda input: {"score": 0.5, "note": str(input)}, name="e", extras={"note": str}
    )
    frame = numbered(2).assign(name="x")
    scored = ef.run_experiment(frame, evaluators=[old, ef.OneOf(["x"]).bind(output="name")])

    again = ef.run_experiment(scored, evaluators=[new], only="all")

    own = ["input", "name"]
    assert list(again) == [*own, *columns_of("e"), "eval.e.note", *columns_of("one_of")]
    assert listed(again, "score") == [0.5, 0.5]


@pytest.mark.parametrize("only", ["missing", "failed", "all"])
def test_new_evaluators_are_added_next_to_old_ones(only):
    """Whatever is asked for, an evaluator without columns is run on every row."""
    old, new = Recorder(), Recorder()
    scored = ef.run_experiment(numbered(3), evaluators={"old": old})

    both = ef.run_experiment(scored, evaluators={"new": new}, only=only)

    assert list(both) == ["input", *columns_of("old"), *columns_of("new")]
    assert new.seen == [0, 1, 2]
    pd.testing.assert_frame_equal(both[scored.columns.tolist()], scored)


def test_columns_keep_their_places_among_the_users_own():
    """Those that are run again stay where they were put."""
    scored = ef.run_experiment(numbered(2), evaluators=[in_the_thread(Recorder(1))])
    order = ["eval.e.error", "eval.e.score", "input", "eval.e.label"]
    order += [name for name in scored if name not in order]
    shuffled = scored[order].assign(mine=["a", "b"])

    mended = ef.run_experiment(shuffled, evaluators=[in_the_thread(Recorder())], only="failed")

    assert list(mended) == [*order, "mine"]
    assert mended.dtypes.to_dict() == shuffled.dtypes.to_dict()


def test_kept_cells_keep_their_extras_and_metadata_to_the_bit():
    """Also where the evaluator would give something else by now."""
    extras = {"hits": int, "spans": "json", "note": str, "sure": bool, "part": float}

    def first(input):
        if input == 2:
            raise ValueError
        values = {"hits": 2**62 + input, "spans": [input], "note": "é", "sure": True}
        return {"label": "kept", "metadata": {"n": input}, "part": 0.1 + 0.2, **values}

    def second(input):
        return {"score": 0.25, "hits": 7, "metadata": {"n": "new"}}

    scored = ef.run_experiment(
        numbered(3), evaluators=[ef.evaluator(first, name="e", extras=extras)]
    )
    mended = ef.run_experiment(
        scored, evaluators=[ef.evaluator(second, name="e", extras=extras)], only="failed"
    )

    names = [name for name in scored if name.startswith("eval.")]
    pd.testing.assert_frame_equal(mended.loc[:1, names], scored.loc[:1, names])
    assert mended.loc[2, "eval.e.metadata"] == '{"n": "new"}'
    assert listed(mended, "hits") == [2**62, 2**62 + 1, 7]
    assert listed(mended, "sure") == [True, True, None]


def test_extras_that_differ_from_the_columns_are_refused():
    """Before anything is called, and with the ways out."""
    scored = ef.run_experiment(numbered(2), evaluators=[in_the_thread(Recorder())])
    recorder = Recorder()
    extra = ef.evaluator(recorder, name="e", extras={"hits": int})

    with pytest.raises(ef.ExperimentError, match=r"there is no 'hits'.*only='all'.*\.named"):
        ef.run_experiment(scored, evaluators=[extra], only="missing")
    with pytest.raises(ef.ExperimentError, match=r"'hits' is none of its fields.*only='all'"):
        ef.run_experiment(
            scored.assign(**{"eval.e.hits": 1}),
            evaluators=[in_the_thread(Recorder())],
            only="missing",
        )
    assert recorder.seen == []


def test_columns_that_hold_no_results_are_refused():
    """A column of that name may be the user's own."""
    scored = ef.run_experiment(numbered(2), evaluators=[in_the_thread(Recorder())])
    scored["eval.e.score"] = ["high", "low"]

    with pytest.raises(ef.ExperimentError, match=r"'eval\.e\.score' should hold results"):
        ef.run_experiment(scored, evaluators=[in_the_thread(Recorder())], only="failed")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param({"only": "broken"}, r"^only must be 'missing'.*not 'broken'", id="unknown"),
        pytest.param({"only": ["failed"]}, r"^only must be .*not \['failed'\]", id="no-text"),
        pytest.param({"only": "all", "overwrite": True}, "contradict", id="overwrite"),
        pytest.param({"only": "missing", "repetitions": 2}, "leave one out", id="repetitions"),
        pytest.param({}, r"Pass only='missing'.*overwrite=True", id="neither"),
    ],
)
def test_mistakes_are_found_before_the_run(options, match):
    """Nothing has been called when the error comes."""
    recorder = Recorder()
    scored = ef.run_experiment(numbered(2), evaluators=[in_the_thread(Recorder(1))])

    with pytest.raises(ef.ExperimentError, match=match):
        ef.run_experiment(scored, evaluators=[in_the_thread(recorder)], **options)
    assert recorder.seen == []


@pytest.mark.parametrize("only", ["missing", "failed"])
def test_with_nothing_to_do_the_frame_comes_back_as_it_is(only):
    """A new frame, equal to the one that went in: also in dtypes that results never have."""
    scored = ef.run_experiment(numbered(3), evaluators=[in_the_thread(Recorder())], details=True)
    plain = scored.astype({"eval.e.score": "float64", "eval.e.error": object})
    recorder = Recorder()

    again = ef.run_experiment(plain, evaluators=[in_the_thread(recorder)], only=only)

    assert recorder.seen == []
    assert again is not plain
    pd.testing.assert_frame_equal(again, plain)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frame: frame.astype({"eval.e.score": "float64"}), id="numpy-score"),
        pytest.param(
            lambda frame: frame.astype({f"eval.e.{f}": object for f in RESULTS}), id="objects"
        ),
        pytest.param(
            lambda frame: frame.astype({f"eval.e.{f}": "str" for f in RESULTS if f != "score"}),
            id="str",
        ),
        pytest.param(lambda frame: frame.astype({"eval.e.label": "category"}), id="category"),
    ],
)
def test_results_are_read_in_whatever_dtype_they_are_by_now(change):
    """What is added to has the types of results again."""
    scored = change(ef.run_experiment(numbered(4), evaluators=[in_the_thread(Recorder(2))]))

    mended = ef.run_experiment(scored, evaluators=[in_the_thread(Recorder())], only="failed")

    whole = ef.run_experiment(numbered(4), evaluators=[in_the_thread(Recorder())])
    pd.testing.assert_frame_equal(mended, whole)


INDEXES = {
    "duplicate": pd.Index([7, 7, 7, 1], name="id"),
    "multi": pd.MultiIndex.from_tuples([("a", 1), ("a", 1), ("b", 2), ("b", 3)], names=["k", "n"]),
    "dates": pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin"),
    "falling": pd.RangeIndex(3, -1, -1),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("backed", [False, True], ids=["plain", "arrow"])
@LANES
def test_the_frame_that_went_in_comes_out(index, backed, lane):
    """Same index, rows, dtypes and values; the caller's frame is not changed."""
    frame = numbered(4, index).assign(tags=[["a"], [], None, ["b"]])
    frame = frame.convert_dtypes(dtype_backend="pyarrow") if backed else frame
    scored = ef.run_experiment(frame, evaluators=[lane(Recorder(0, 3))])
    before = scored.copy(deep=True)

    mended = ef.run_experiment(scored, evaluators=[lane(Recorder())], only="failed")

    pd.testing.assert_frame_equal(scored, before)
    whole = ef.run_experiment(frame, evaluators=[lane(Recorder())])
    pd.testing.assert_frame_equal(mended, whole)
    mended.index.name = "changed"
    assert scored.index.name == before.index.name


def test_a_vectorized_evaluator_is_given_the_rows_to_do_under_their_labels():
    """One call, on these rows alone."""
    given = []

    def e(input):
        given.append(input)
        return input / 10_000

    scored = ef.run_experiment(numbered(4, list("abcd")), evaluators=[vectorized(Recorder(1, 3))])

    ef.run_experiment(scored, evaluators=[ef.evaluator(e, vectorized=True)], only="failed")

    (rows,) = given
    assert rows.to_dict() == {"b": 1, "d": 3}


@pytest.mark.parametrize("name", ["scored.parquet"])
def test_it_goes_on_from_a_file(tmp_path, name):
    """A parquet file remembers the mapping and all results."""

    def e(output, dataset_output):
        return output == dataset_output

    def breaks(output, dataset_output):
        if output == "5":
            raise ValueError
        return e(output, dataset_output)

    rows = [{"answer": "4", "truth": "4"}, {"answer": "5", "truth": "4"}]
    mapping = {"output": "answer", "dataset_output": "truth"}
    scored = ef.run_experiment(rows, evaluators={"e": breaks}, **mapping)
    scored.evals.to_parquet(tmp_path / name)

    mended = ef.read_parquet(tmp_path / name).pipe(ef.run_experiment, evaluators=[e], only="failed")
    by_path = ef.run_experiment(tmp_path / name, evaluators=[e], only="failed")

    whole = ef.run_experiment(rows, evaluators=[e], **mapping)
    pd.testing.assert_frame_equal(mended, whole)
    pd.testing.assert_frame_equal(by_path, whole)


def test_counts_and_tracebacks_in_the_attrs_are_those_of_the_frame():
    """What was mended is no longer counted, nor is its traceback kept."""
    scored = ef.run_experiment(numbered(4), evaluators=[in_the_thread(Recorder(1, 2))])

    mended = ef.run_experiment(scored, evaluators=[in_the_thread(Recorder(2))], only="failed")

    summary = mended.evals.summary().set_index("evaluator").loc["e"]
    assert summary[["n", "n_valid", "n_failed"]].tolist() == [4, 3, 1]
    info = ef.core.run_info.remembered(mended.attrs)
    assert info.evaluators["e"].counts == {
        "valid": 3,
        "failed": 1,
        "task_failed": 0,
        "skipped": 0,
    }
    (kept,) = info.tracebacks
    assert "no verdict on 2" in kept


def test_details_go_on_where_the_frame_has_them():
    """Cells that are kept keep their latency; those made now have one, asked for or not."""
    scored = ef.run_experiment(numbered(3), evaluators=[in_the_thread(Recorder(1))], details=True)

    mended = ef.run_experiment(scored, evaluators=[in_the_thread(Recorder())], only="failed")

    before, after = scored["eval.e.latency_s"], mended["eval.e.latency_s"]
    assert after.drop(1).equals(before.drop(1))
    assert after[1] != before[1]
    assert after.notna().all()


def test_details_that_are_new_stand_beside_the_results_they_belong_to():
    """What was not measured then is null."""
    scored = ef.run_experiment(
        numbered(3), evaluators={"e": Recorder(1), "last": lambda input: True}
    )

    mended = ef.run_experiment(scored, evaluators={"e": Recorder()}, only="failed", details=True)

    names = [name for name in mended if name.startswith("eval.e.")]
    assert names[:5] == columns_of("e")
    assert "eval.e.latency_s" in names
    assert list(mended)[-5:] == columns_of("last")
    assert mended["eval.e.latency_s"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize("only", ["missing", "failed", "stale", "all"])
@pytest.mark.parametrize("dry_run", [True, 3])
def test_a_dry_run_that_would_drop_the_results_of_other_rows_is_refused(only, dry_run):
    """Before anything is called: the result would be the first rows alone."""
    scored = ef.run_experiment(numbered(6), evaluators=[in_the_thread(Recorder(1, 4))])
    recorder = Recorder()

    with pytest.raises(ef.ExperimentError, match="dry_run= gives the first rows alone"):
        ef.run_experiment(scored, evaluators=[in_the_thread(recorder)], only=only, dry_run=dry_run)

    assert recorder.seen == []


@BOTH_WAYS
@LANES
def test_errors_raise_keeps_what_is_there(run, lane):
    """Cells that were not reached stay as they were, so that the same call goes on."""
    scored = ef.run_experiment(numbered(6), evaluators=[lane(Recorder(1, 3, 5))])

    with pytest.raises((ValueError, ef.EvalframeError), match=r"no verdict on 3|97") as caught:
        run(scored, evaluators=[lane(Recorder(3))], only="failed", errors="raise", concurrency=1)

    partial = caught.value.partial
    assert partial.index.equals(scored.index)
    kept = [0, 2, 4, 5]
    if lane is vectorized:
        kept = [0, 2, 4]
    pd.testing.assert_frame_equal(partial.loc[kept], scored.loc[kept])
    recorder = Recorder()
    whole = run(partial, evaluators=[lane(recorder)], only="failed")
    assert 3 in recorder.seen
    assert listed(whole, "error") == [None] * 6


@LANES
def test_ctrl_c_keeps_what_is_there(lane):
    """Also where it comes in the middle of the cells to do."""

    class Interrupting(Recorder):
        def __call__(self, input):
            if input == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__call__(input)

    scored = ef.run_experiment(numbered(6), evaluators=[lane(Recorder(1, 3))])

    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(scored, evaluators=[lane(Interrupting())], only="failed", concurrency=1)

    kept = [0, 2, 4, 5]
    pd.testing.assert_frame_equal(caught.value.partial.loc[kept], scored.loc[kept])
    assert ef.last_run() is caught.value.partial
    whole = ef.run_experiment(caught.value.partial, evaluators=[lane(Recorder())], only="failed")
    undisturbed = ef.run_experiment(numbered(6), evaluators=[lane(Recorder())])
    pd.testing.assert_frame_equal(whole, undisturbed)


def test_bound_results_of_an_earlier_run_can_be_read():
    """`.bind` reads a column of the frame, whoever made it."""
    scored = ef.run_experiment(numbered(3), evaluators=[in_the_thread(Recorder())])
    reader = ef.evaluator(lambda x: x == "label 1", name="reads").bind(x="eval.e.label")

    both = ef.run_experiment(scored, evaluators=[reader], only="missing")

    assert listed(both, "score", "reads") == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("count", [0, 1])
def test_small_frames_have_no_corners(count):
    """No rows, or one."""
    scored = ef.run_experiment(numbered(count), evaluators=[in_the_thread(Recorder())])

    for only in ("missing", "failed", "all"):
        again = ef.run_experiment(scored, evaluators=[in_the_thread(Recorder())], only=only)
        pd.testing.assert_frame_equal(again, scored)


def test_many_rows_to_do_between_kept_ones_are_in_their_places():
    """More than a chunk of cells, every other one."""
    count = 5_000
    scored = ef.run_experiment(
        numbered(count), evaluators=[in_the_thread(Recorder(*range(0, count, 2)))]
    )

    for lane in (in_the_thread, awaited, vectorized):
        mended = ef.run_experiment(scored, evaluators=[lane(Recorder())], only="failed")
        scores = mended["eval.e.score"].to_numpy(dtype=float)
        np.testing.assert_array_equal(scores, np.arange(count) / 10_000)


MASKS = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.lists(st.booleans(), min_size=count, max_size=count),
    )
)


@settings(max_examples=40)
@given(masks=MASKS, lane=st.sampled_from([in_the_thread, awaited, vectorized]))
def test_run_in_parts_it_is_the_run_as_a_whole(masks, lane):
    """Some rows at first, with failures; then those that are missing; then those that failed."""
    run_first, fail_first = (np.flatnonzero(mask) for mask in masks)
    frame = numbered(len(masks[0]))
    part = ef.run_experiment(
        frame.iloc[run_first], evaluators=[lane(Recorder(*map(int, fail_first)))]
    )
    joined = frame.join(part.drop(columns="input"))
    joined.attrs = part.attrs
    missing, failed = Recorder(), Recorder()

    filled = ef.run_experiment(joined, evaluators=[lane(missing)], only="missing")
    mended = ef.run_experiment(filled, evaluators=[lane(failed)], only="failed")

    ran, broke = set(run_first), set(fail_first)
    assert set(missing.seen) == set(range(len(frame))) - ran
    assert set(failed.seen) == ran & broke
    pd.testing.assert_frame_equal(mended, ef.run_experiment(frame, evaluators=[lane(Recorder())]))
