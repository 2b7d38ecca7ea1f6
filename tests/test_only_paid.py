"""`only=` where calls cost something: tasks and judges.

What was paid for is not paid for again; what goes on from it is what one run would have given.
"""

import asyncio
import signal
import subprocess
import sys
import threading

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.testing import error, label, never, reply

NOT_RUN = "skipped: not run"


def listed(frame, column):
    """A column with None for NA."""
    return pa.array(frame[column]).to_pylist()


def numbered(count):
    """A plain frame whose inputs are "0", "1", ..."""
    return pd.DataFrame({"input": [str(n) for n in range(count)]})


class Calls:
    """Inside a task: what it was called with, and inputs on which it fails."""

    def __init__(self, *failing):
        self.failing = set(failing)
        self.seen = []

    def __call__(self, input):
        self.seen.append(input)
        if input in self.failing:
            message = f"no output for {input}"
            raise ValueError(message)
        return f"out {input}"


def in_threads(calls):
    """A sync task."""

    def task(input):
        return calls(input)

    return task


def on_the_loop(calls):
    """An async task."""

    async def task(input):
        await asyncio.sleep(0)
        return calls(input)

    return task


TASKS = pytest.mark.parametrize("kind", [in_threads, on_the_loop], ids=["sync", "async"])


def evaluators(seen):
    """One evaluator of every kind, each noting the outputs that it sees."""

    def plain(output):
        seen["plain"].append(output)
        return len(output) / 100

    async def waits(output, input):
        await asyncio.sleep(0)
        seen["waits"].append(output)
        return output.endswith(input)

    @ef.evaluator(vectorized=True)
    def whole(output):
        seen["whole"] += output.tolist()
        return output.str.len() > 4

    return [plain, waits, whole]


def size(output):
    """A score by the output's length."""
    return len(output) / 10


def nothing_seen():
    """What the evaluators have seen so far."""
    return {"plain": [], "waits": [], "whole": []}


@TASKS
@pytest.mark.parametrize("only", ["missing", "failed"])
def test_a_row_without_an_output_gets_one_and_all_its_cells_are_made(kind, only):
    """A failed task's row has judged nothing; the others are left alone."""
    scored = ef.run_experiment(
        numbered(4), kind(Calls("1", "3")), evaluators=evaluators(nothing_seen())
    )
    calls, seen = Calls(), nothing_seen()

    mended = ef.run_experiment(scored, kind(calls), evaluators=evaluators(seen), only=only)

    assert sorted(calls.seen) == ["1", "3"]
    assert [sorted(outputs) for outputs in seen.values()] == [["out 1", "out 3"]] * 3
    whole = ef.run_experiment(numbered(4), kind(Calls()), evaluators=evaluators(nothing_seen()))
    pd.testing.assert_frame_equal(mended, whole)


def test_h52_the_rows_of_failed_tasks_are_run_again_and_counted_anew():
    """Counts of task failures are those of the frame, before and after."""
    scored = ef.run_experiment(
        numbered(3), in_threads(Calls("1")), evaluators=evaluators(nothing_seen())
    )
    assert scored.evals.summary()["n_task_failed"].tolist() == [1, 1, 1]

    mended = ef.run_experiment(
        scored, in_threads(Calls()), evaluators=evaluators(nothing_seen()), only="failed"
    )

    assert mended.evals.summary()["n_task_failed"].tolist() == [0, 0, 0]
    assert listed(mended, "task.error") == [None] * 3


def test_a_task_that_fails_again_leaves_its_row_as_before():
    """Its cells are not run, and say why."""
    scored = ef.run_experiment(
        numbered(3), in_threads(Calls("1")), evaluators=evaluators(nothing_seen())
    )
    seen = nothing_seen()

    again = ef.run_experiment(
        scored, in_threads(Calls("1")), evaluators=evaluators(seen), only="failed"
    )

    assert seen == nothing_seen()
    pd.testing.assert_frame_equal(again, scored)


def test_outputs_that_are_there_are_read_and_not_made():
    """With failed cells only, no task is called: evaluators get the outputs of the frame."""

    def flaky(output):
        if output == "out 1":
            raise ValueError
        return True

    scored = ef.run_experiment(numbered(3), in_threads(Calls()), evaluators={"e": flaky})
    calls, seen = Calls(), []

    mended = ef.run_experiment(
        scored,
        in_threads(calls),
        evaluators={"e": lambda output: seen.append(output) or True},
        only="failed",
    )

    assert calls.seen == []
    assert seen == ["out 1"]
    assert listed(mended, "eval.e.error") == [None] * 3
    assert list(mended) == list(scored)


def test_failed_tasks_need_the_task():
    """Without it the run is refused before anything is called."""
    scored = ef.run_experiment(
        numbered(3), in_threads(Calls("1")), evaluators=evaluators(nothing_seen())
    )
    seen = nothing_seen()

    with pytest.raises(ef.ExperimentError, match="1 cell of 'plain' failed with the task"):
        ef.run_experiment(scored, evaluators=evaluators(seen), only="failed")
    assert seen == nothing_seen()


def test_a_new_evaluator_without_the_task_leaves_out_rows_without_output():
    """As in any run on such a frame; the cells there stay as they are."""
    scored = ef.run_experiment(numbered(2), in_threads(Calls("1")), evaluators={"e": size})

    both = ef.run_experiment(scored, evaluators={"e": size, "new": size}, only="missing")

    assert listed(both, "eval.new.error") == [None, "task_failed: not run, the task failed"]
    pd.testing.assert_frame_equal(both[list(scored)], scored)


def test_a_stopped_run_with_a_task_is_continued():
    """Rows that were not run get their output, and nothing is made twice."""
    first = Calls("3")
    with pytest.raises(ValueError, match="no output for 3") as caught:
        ef.run_experiment(
            numbered(6),
            in_threads(first),
            evaluators=evaluators(nothing_seen()),
            errors="raise",
            concurrency=1,
        )
    partial = caught.value.partial
    assert NOT_RUN in listed(partial, "task.error")
    second = Calls()

    whole = ef.run_experiment(
        partial, in_threads(second), evaluators=evaluators(nothing_seen()), only="missing"
    )

    had_output = {text[4:] for text in listed(partial, "output") if text is not None}
    assert set(second.seen) == {str(n) for n in range(6)} - had_output
    undisturbed = ef.run_experiment(
        numbered(6), in_threads(Calls()), evaluators=evaluators(nothing_seen())
    )
    pd.testing.assert_frame_equal(whole, undisturbed)


@pytest.mark.parametrize("only", ["missing", "stale"])
def test_without_the_task_rows_without_output_stay_as_they_are(only):
    """A cell that was not run is not said to have failed with a task that was not run either."""
    with pytest.raises(ValueError, match="no output for 2") as caught:
        ef.run_experiment(
            numbered(5),
            in_threads(Calls("2")),
            evaluators=evaluators(nothing_seen()),
            errors="raise",
            concurrency=1,
            details=True,
        )
    partial = caught.value.partial
    without = partial["output"].isna().to_numpy()
    assert NOT_RUN in listed(partial, "task.error")
    assert NOT_RUN in listed(partial, "eval.plain.error")
    seen = nothing_seen()

    again = ef.run_experiment(partial, evaluators=evaluators(seen), only=only)

    pd.testing.assert_frame_equal(again[without], partial[without])
    assert again.loc[~without, "eval.whole.error"].isna().all()
    assert set(seen["whole"]) == set(partial.loc[~without, "output"])


def test_verdicts_on_an_output_that_went_are_not_kept_by_a_stop():
    """The output is the new one; an evaluator that has not come to it says so."""

    @ef.evaluator(vectorized=True)
    def whole(output):
        return output.str.len() > 4

    @ef.evaluator(vectorized=True, name="whole")
    def stops(output):
        raise KeyboardInterrupt

    scored = ef.run_experiment(numbered(3), in_threads(Calls("1")), evaluators=[whole])
    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(scored, in_threads(Calls()), evaluators=[stops], only="failed")

    assert listed(caught.value.partial, "output") == ["out 0", "out 1", "out 2"]
    assert listed(caught.value.partial, "eval.whole.error") == [None, NOT_RUN, None]


def test_rows_that_were_added_get_an_output():
    """A row without output and without results has never been run."""
    scored = ef.run_experiment(numbered(2), in_threads(Calls()), evaluators={"e": size})
    more = pd.concat([scored, pd.DataFrame({"input": ["2"]})], ignore_index=True)
    calls = Calls()

    whole = ef.run_experiment(more, in_threads(calls), evaluators={"e": size}, only="missing")

    assert calls.seen == ["2"]
    assert listed(whole, "output") == ["out 0", "out 1", "out 2"]


def test_a_task_that_gave_none_is_asked_again():
    """Nothing tells its row from one whose output was never made."""
    calls = []

    def task(input):
        calls.append(input)

    judged = {"e": lambda output: output is None}
    scored = ef.run_experiment(numbered(2), task, evaluators=judged)
    calls.clear()

    again = ef.run_experiment(scored, task, evaluators=judged, only="missing")

    assert calls == ["0", "1"]
    pd.testing.assert_frame_equal(again, scored)


def test_all_makes_all_outputs_anew():
    """In their places."""
    scored = ef.run_experiment(numbered(2), in_threads(Calls()), evaluators={"e": size})
    calls = Calls()

    again = ef.run_experiment(
        scored, in_threads(calls), evaluators={"e": lambda output: 0.5}, only="all"
    )

    assert calls.seen == ["0", "1"]
    assert list(again) == list(scored)
    assert listed(again, "eval.e.score") == [0.5, 0.5]


def test_verdicts_on_outputs_that_go_are_in_the_way():
    """Of evaluators that are not given: they would stand beside an output they never saw."""
    scored = ef.run_experiment(numbered(2), in_threads(Calls()), evaluators={"a": size, "b": size})
    calls = Calls()

    with pytest.raises(ef.ExperimentError, match="results of 'b' for another output"):
        ef.run_experiment(scored, in_threads(calls), evaluators={"a": size}, only="all")
    assert calls.seen == []


def test_cells_that_saw_no_output_are_in_nobodys_way():
    """An evaluator that is not given keeps its columns, and can follow later without the task."""
    both = {"a": lambda output: True, "b": lambda output: True}
    scored = ef.run_experiment(numbered(2), in_threads(Calls("1")), evaluators=both)

    first = ef.run_experiment(
        scored, in_threads(Calls()), evaluators={"a": both["a"]}, only="failed"
    )
    second = ef.run_experiment(first, evaluators={"b": both["b"]}, only="failed")

    assert first["eval.b.error"].equals(scored["eval.b.error"])
    whole = ef.run_experiment(numbered(2), in_threads(Calls()), evaluators=both)
    pd.testing.assert_frame_equal(second, whole)


@pytest.mark.parametrize(
    ("declared", "values", "match"),
    [
        pytest.param(int, ["7", "x"], r"row 0: the task returned str.*is to be kept", id="type"),
        pytest.param(None, [{1, 2}, {3}], "a set", id="unsupported"),
    ],
)
def test_outputs_that_cannot_be_kept_are_refused(declared, values, match):
    """Before the task is called."""
    calls = Calls()
    task = ef.task(output=declared)(in_threads(calls))
    frame = numbered(3).assign(output=[*values, None])

    with pytest.raises(ef.ExperimentError, match=rf"(?s){match}.*only='all'"):
        ef.run_experiment(frame, task, evaluators={"e": lambda output: True}, only="missing")
    assert calls.seen == []


def test_the_row_of_a_task_and_its_evaluators_is_the_same_in_both_runs():
    """An output of before is no column of the dataset row."""

    def task(dataset_row):
        return sorted(dataset_row)

    def e(dataset_row):
        return ",".join(sorted(dataset_row))

    scored = ef.run_experiment(numbered(2).iloc[:1], task, evaluators=[e])
    more = pd.concat([scored, numbered(2).iloc[1:]])

    whole = ef.run_experiment(more, task, evaluators=[e], only="missing")

    pd.testing.assert_frame_equal(whole, ef.run_experiment(numbered(2), task, evaluators=[e]))


ROWS = st.integers(1, 8).flatmap(
    lambda count: st.tuples(st.just(count), *(st.sets(st.integers(0, count - 1)) for _ in range(3)))
)


@settings(max_examples=40)
@given(rows=ROWS, kind=st.sampled_from([in_threads, on_the_loop]))
def test_run_in_parts_a_task_and_its_evaluators_are_the_run_as_a_whole(rows, kind):
    """Rows that come later, tasks that fail, cells that fail: each is made up for, once."""
    count, later, task_fails, cell_fails = rows
    frame, broken = numbered(count), {f"out {n}" for n in cell_fails}

    def flaky(output):
        if output in broken:
            raise ValueError
        return 0.5

    first = frame.drop(index=list(later))
    scored = ef.run_experiment(
        first, kind(Calls(*map(str, task_fails))), evaluators={"e": flaky}, details=True
    )
    joined = frame.join(scored.drop(columns="input"))
    calls, seen = Calls(), []

    whole = ef.run_experiment(
        joined,
        kind(calls),
        evaluators={"e": lambda output: seen.append(output) or 0.5},
        only="failed",
    )

    made = set(range(count)) & (later | task_fails)
    assert sorted(calls.seen) == sorted(map(str, made))
    assert sorted(seen) == sorted(f"out {n}" for n in made | (cell_fails - later))
    undisturbed = ef.run_experiment(frame, kind(Calls()), evaluators={"e": lambda output: 0.5})
    pd.testing.assert_frame_equal(whole[list(undisturbed)], undisturbed)
    assert whole["eval.e.fingerprint"].notna().all()


def judge_of(server, name="j", **options):
    """A judge that asks the server."""
    options.setdefault("prompt", "{{ item.input }}")
    price = {"input": 1.0, "output": 1.0}
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0, price=price)
    return ef.LLMJudge(name, model=model, choices={"yes": 1.0, "no": 0.0}, **options)


def usage(frame, name="j"):
    """What an evaluator has cost."""
    return frame.evals.usage().set_index("evaluator").loc[name].to_dict()


def echo(request):
    """A verdict whose explanation is the prompt."""
    return label("yes", explanation=request.prompt)


def test_h55_a_judge_that_was_down_is_asked_again_about_its_failures_alone(serve):
    """Its columns are all null but for the error, and then all there."""
    server = serve(lambda request: echo(request) if request.prompt < "2" else error(500, "down"))
    scored = ef.run_experiment(numbered(4), evaluators=[judge_of(server), len_of_input])
    assert listed(scored, "eval.j.label") == ["yes", "yes", None, None]
    repaired = serve(echo)

    mended = ef.run_experiment(scored, evaluators=[judge_of(repaired), len_of_input], only="failed")

    assert repaired.calls == 2
    whole = ef.run_experiment(numbered(4), evaluators=[judge_of(serve(echo)), len_of_input])
    pd.testing.assert_frame_equal(mended, whole)


def len_of_input(input):
    """A code evaluator beside the judge."""
    return len(input) / 10


def test_h53_an_evaluator_that_raised_is_run_again_and_its_traceback_goes(serve):
    """The judge beside it, which was paid for, is not asked again."""
    server = serve(echo)

    def breaks(input):
        return {}["x"] if input == "1" else True

    scored = ef.run_experiment(numbered(3), evaluators=[judge_of(server), breaks])
    assert server.calls == 3

    mended = ef.run_experiment(
        scored,
        evaluators={"j": judge_of(server), "breaks": lambda input: True},
        only="failed",
    )

    assert server.calls == 3
    assert listed(mended, "eval.breaks.error") == [None] * 3
    assert ef.core.run_info.remembered(mended.attrs).tracebacks == {}


def test_a_judge_is_asked_about_what_is_missing_alone(serve, tmp_path):
    """Also from a file, and with a task whose outputs are there."""
    server = serve(echo)
    calls = Calls()
    judge = judge_of(server, prompt="{{ item.output }}")
    scored = ef.run_experiment(numbered(3), in_threads(calls), evaluators=[judge])
    more = pd.concat([scored, numbered(5).iloc[3:]])
    more.attrs = scored.attrs
    ef.to_parquet(more, tmp_path / "more.parquet")

    whole = ef.read_parquet(tmp_path / "more.parquet").pipe(
        ef.run_experiment, in_threads(calls), evaluators=[judge], only="missing"
    )

    assert (len(calls.seen), server.calls) == (5, 5)
    assert listed(whole, "eval.j.explanation") == [f"out {n}" for n in range(5)]


def test_with_nothing_to_do_no_model_is_asked(serve):
    """No request, and nothing is opened."""
    server = serve(echo)
    scored = ef.run_experiment(numbered(3), evaluators=[judge_of(server)], details=True)
    server.reset()

    again = ef.run_experiment(scored, evaluators=[judge_of(server)], only="failed")

    assert server.calls == 0
    pd.testing.assert_frame_equal(again, scored)


IDLE = """
import sys
import evalframe as ef

model = ef.Model("local/m", base_url="http://127.0.0.1:9/v1")
judge = ef.LLMJudge("j", model=model, prompt="{{ item.input }}", choices={"yes": 1.0, "no": 0.0})
frame = ef.read_parquet(sys.argv[1])
assert ef.run_experiment(frame, evaluators=[judge], only="failed").equals(frame)
assert "openai" not in sys.modules
"""


def test_with_nothing_to_do_no_client_is_made(serve, tmp_path):
    """Not even its package is imported, which takes longer than all the rest."""
    path = tmp_path / "scored.parquet"
    ef.to_parquet(ef.run_experiment(numbered(3), evaluators=[judge_of(serve(echo))]), path)

    subprocess.run([sys.executable, "-c", IDLE, str(path)], check=True, timeout=60)


def test_usage_adds_up_what_the_results_have_cost(serve):
    """All runs that added to them; nothing to do costs nothing; all anew begins again."""
    server = serve(lambda request: echo(request) if request.prompt != "1" else error(500, "down"))
    scored = ef.run_experiment(numbered(3), evaluators=[judge_of(server)])
    repaired = judge_of(serve(echo))

    mended = ef.run_experiment(scored, evaluators=[repaired], only="failed")
    idle = ef.run_experiment(mended, evaluators=[repaired], only="failed")
    anew = ef.run_experiment(idle, evaluators=[repaired], only="all")

    assert [usage(frame)["calls"] for frame in (scored, mended, idle, anew)] == [2, 3, 3, 3]
    assert usage(mended)["cells"] == 4
    assert usage(mended)["cost"] > usage(scored)["cost"]
    assert usage(anew)["cells"] == 3


def test_usage_of_a_task_adds_up_as_well(serve):
    """Under its own name."""
    server = serve(lambda request: error(500, "down") if request.prompt == "1" else reply("fine"))
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0)
    task = ef.ChatTask(model, prompt="{{ item.input }}")
    scored = ef.run_experiment(numbered(3), task)
    repaired = ef.ChatTask(
        ef.Model("local/m", base_url=serve(reply("fine")).base_url), prompt="{{ item.input }}"
    )

    mended = ef.run_experiment(scored, repaired, only="failed")

    assert [usage(frame, "<task>")["calls"] for frame in (scored, mended)] == [2, 3]
    assert listed(mended, "output") == ["fine"] * 3


def test_repetitions_stay_questions_of_their_own(serve):
    """A frame of repetitions says which each row is: equal rows are not answered once for all."""
    down = serve(error(500, "down"))
    scored = ef.run_experiment(numbered(2), evaluators=[judge_of(down)], repetitions=3)
    server = serve(echo)

    mended = ef.run_experiment(scored, evaluators=[judge_of(server)], only="failed")

    assert server.calls == 6
    assert listed(mended, "repetition") == [1, 2, 3, 1, 2, 3]


def test_details_of_kept_verdicts_stay(serve):
    """Tokens and cost of those that are asked again are theirs."""
    server = serve(lambda request: echo(request) if request.prompt != "1" else error(500, "down"))
    scored = ef.run_experiment(numbered(3), evaluators=[judge_of(server)], details=True)

    mended = ef.run_experiment(scored, evaluators=[judge_of(serve(echo))], only="failed")

    assert list(mended) == list(scored)
    pd.testing.assert_frame_equal(mended.drop(index=1), scored.drop(index=1))
    assert listed(mended, "eval.j.prompt_tokens")[1] is not None


@pytest.mark.usefixtures("short_grace")
def test_ctrl_c_in_the_middle_keeps_what_was_paid_for(serve):
    """In an incremental run as in the first: the same call goes on where it was."""
    interrupted = []

    def script(request):
        if request.prompt == "3" and not interrupted:
            interrupted.append(request)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return never()
        return echo(request)

    scored = ef.run_experiment(numbered(2), evaluators=[judge_of(serve(echo))])
    more = pd.concat([scored, numbered(6).iloc[2:]])
    server = serve(script)
    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(more, evaluators=[judge_of(server)], only="missing", concurrency=1)
    partial = caught.value.partial
    assert listed(partial, "eval.j.explanation") == ["0", "1", "2", None, None, None]
    assert listed(partial, "eval.j.error")[3:] == [NOT_RUN] * 3
    server.reset()

    whole = ef.run_experiment(partial, evaluators=[judge_of(server)], only="missing")

    assert server.calls == 3
    pd.testing.assert_frame_equal(
        whole, ef.run_experiment(numbered(6), evaluators=[judge_of(serve(echo))])
    )
