"""A run that goes on from its `run_dir`: what is called again, and what is told of it."""

import asyncio
import contextlib
import warnings

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.engines.run_store import RunStore
from evalframe.results.run_dir import RunFolder
from evalframe.results.run_record import RunRecord
from evalframe.testing import error, hang_up, label, never, obedient, reply

YES = label("yes")
NOT_RUN, BUDGET, DEADLINE = "skipped: not run", "skipped: budget", "skipped: deadline"


def rows(*texts, column="output"):
    """A plain frame of these texts."""
    return pd.DataFrame({column: list(texts)})


def listed(frame, column):
    """A column with None for NA."""
    return pa.array(frame[column]).to_pylist()


def judge_of(server, name="j", *, max_retries=0, prompt="{{ item.output }}", **options):
    """A judge that asks the server once for each text."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=max_retries, **options)
    return ef.LLMJudge(name, model=model, prompt=prompt, choices=["yes"], explanation=False,
                       invalid_retries=0)  # fmt: skip


def finished(*parts):
    """The one warning at the end of a run that has taken something over."""
    return pytest.warns(
        UserWarning, match=f"finished before, and not run again: {', '.join(parts)}"
    )


class Scores:
    """A score for each text, counting calls; it raises what it was told to, once for each text."""

    def __init__(self, **raises):
        self.seen, self.raises = [], raises

    def __call__(self, output):
        self.seen.append(output)
        if output in self.raises:
            raise self.raises.pop(output)
        return len(self.seen) / 100


def by_row(scores):
    """An evaluator of the caller's thread."""
    return ef.evaluator(scores, name="f", version="1")


def on_the_loop(scores):
    """An async one."""

    @ef.evaluator(name="f", version="1")
    async def f(output):
        return scores(output)

    return f


def in_threads(scores):
    """One with threads of its own."""
    return ef.evaluator(scores, name="f", version="1", threads=1)


LANES = pytest.mark.parametrize("kind", [by_row, on_the_loop, in_threads],
                                ids=["by-row", "async", "threads"])  # fmt: skip


@LANES
@pytest.mark.parametrize(
    ("what", "options"),
    [
        pytest.param(KeyboardInterrupt(), {}, id="ctrl-c"),
        pytest.param(SystemExit(3), {}, id="system-exit"),
        pytest.param(OSError("no"), {"errors": "raise"}, id="errors-raise"),
    ],
)
def test_what_was_finished_when_a_run_was_ended_is_not_run_again(tmp_path, kind, what, options):
    """It is in `.partial`, in `last_run()` and in the folder; the rest runs when called again."""
    scores, data = Scores(d=what), rows(*"abcdefg")
    with pytest.raises(type(what)) as caught:
        ef.run_experiment(
            data, evaluators=[kind(scores)], run_dir=tmp_path, concurrency=1, **options
        )
    partial = caught.value.partial
    with finished(". of 7 cells of 'f'"):
        whole = ef.run_experiment(data, evaluators=[kind(scores)], run_dir=tmp_path)

    assert ef.last_run() is whole
    assert listed(partial, "eval.f.score")[:3] == [0.01, 0.02, 0.03]
    assert listed(partial, "eval.f.error")[4:] == [NOT_RUN] * 3
    assert listed(whole, "eval.f.score")[:3] == [0.01, 0.02, 0.03]
    assert sorted(scores.seen[4:]) == list("efg" if options else "defg")


def test_a_failure_that_ended_a_run_is_finished_and_said(tmp_path):
    """The next call goes on behind it; only='failed' is what runs it again."""
    scores, data = Scores(b=OSError("no")), rows(*"abc")
    with pytest.raises(OSError, match="no"):
        ef.run_experiment(data, evaluators=[by_row(scores)], run_dir=tmp_path, errors="raise")
    with finished("2 of 3 cells of 'f'. 1 of them failed; only='failed' runs those again"):
        went_on = ef.run_experiment(data, evaluators=[by_row(scores)], run_dir=tmp_path)
    with finished("2 of 3 cells of 'f'"):
        mended = ef.run_experiment(
            data, evaluators=[by_row(scores)], run_dir=tmp_path, only="failed"
        )

    assert listed(went_on, "eval.f.score") == [0.01, None, 0.03]
    assert listed(mended, "eval.f.score") == [0.01, 0.04, 0.03]
    assert scores.seen == ["a", "b", "c", "b"]


@pytest.mark.parametrize("how", ["sync", "awaited"])
def test_an_awaited_run_goes_on_like_any_other(tmp_path, how):
    """Whichever of the two began."""
    scores = Scores()

    def run(data):
        arguments = {"evaluators": [by_row(scores), on_the_loop(scores).named("g")]}
        return ef.arun_experiment(data, **arguments, run_dir=tmp_path)

    asyncio.run(run(rows("a", "b")))
    options = {"evaluators": [by_row(scores), on_the_loop(scores).named("g")], "run_dir": tmp_path}
    with finished("2 of 3 cells of 'f', 2 of 3 cells of 'g'"):
        if how == "awaited":
            asyncio.run(run(rows(*"cab")))
        else:
            ef.run_experiment(rows(*"cab"), **options)

    assert sorted(scores.seen) == ["a", "a", "b", "b", "c", "c"]


def test_an_awaited_run_that_is_cancelled_keeps_what_it_has(tmp_path):
    """Calls in flight are cancelled; those that ended are there."""
    calls = []

    @ef.evaluator(version="1")
    async def f(output):
        calls.append(output)
        if output == "c":
            running[0].cancel()
            await asyncio.Event().wait()
        return output

    running = []

    async def cancelled():
        options = {"evaluators": [f], "run_dir": tmp_path, "concurrency": 1}
        running.append(asyncio.ensure_future(ef.arun_experiment(rows(*"abcd"), **options)))
        await running[0]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    partial = ef.last_run()
    with finished("2 of 2 cells of 'f'"):
        ef.run_experiment(rows(*"ba"), evaluators=[f], run_dir=tmp_path)

    assert listed(partial, "eval.f.error") == [None, None, NOT_RUN, NOT_RUN]
    assert calls == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("answer", "kind", "again"),
    [
        pytest.param(error(503, "Down."), "server_error", 2, id="server-error"),
        pytest.param(hang_up(), "connection", 2, id="connection"),
        pytest.param(error(401, "Who?"), "auth", 2, id="auth"),
        pytest.param(error(429, "Pay.", code="insufficient_quota"), "quota", 2, id="quota"),
        pytest.param(never(), "timeout", 2, id="timeout"),
        pytest.param(error(400, "No."), "bad_request", 0, id="bad-request"),
        pytest.param(reply("{"), "parse", 0, id="parse"),
    ],
)
def test_what_nobody_answered_is_not_finished(tmp_path, serve, answer, kind, again):
    """An API that was down is asked again when it is up; what it said of a row stays said."""
    answers, data = [answer], rows("a", "b", "a")
    server = serve(lambda request: answers[0])
    options = {"evaluators": [judge_of(server)], "run_dir": tmp_path, "timeout": 0.3}
    failed = ef.run_experiment(data, **options)
    answers[0], before = YES, server.calls
    said = contextlib.nullcontext() if again else finished("3 of 3 cells of 'j'. 3 of them failed")
    with said:
        after = ef.run_experiment(data, **options)

    assert [text.partition(":")[0] for text in failed["eval.j.error"]] == [kind] * 3
    assert server.calls - before == again
    assert listed(after, "eval.j.label") == ["yes" if again else None] * 3


def test_a_budget_is_gone_on_from(tmp_path, serve):
    """Cells that it left are not finished; those that were paid for are."""
    server, data = serve(YES), rows(*"abcd")
    options = {"evaluators": [judge_of(server)], "run_dir": tmp_path}
    with pytest.warns(UserWarning, match="2 cells"):
        part = ef.run_experiment(data, max_requests=2, **options)
    with finished("2 of 4 cells of 'j'"):
        whole = ef.run_experiment(data, **options)

    assert sorted(map(str, listed(part, "eval.j.error"))) == ["None"] * 2 + [BUDGET] * 2
    assert listed(whole, "eval.j.label") == ["yes"] * 4
    assert server.calls == 4
    assert whole.evals.usage()[["cells", "calls"]].iloc[0].tolist() == [4, 4]


def test_a_deadline_is_gone_on_from(tmp_path, serve):
    """The run that goes on pays for what was left only."""
    server, data = serve(YES, latency=0.05), rows(*map(str, range(40)))
    options = {"evaluators": [judge_of(server)], "run_dir": tmp_path}
    ef.run_experiment(data.head(1), evaluators=[judge_of(server)])  # what a first run imports
    server.reset()
    with pytest.warns(UserWarning, match="deadline"):
        part = ef.run_experiment(data, deadline=0.4, concurrency=2, **options)
    made = part["eval.j.error"].isna().sum()
    with finished(f"{made} of 40 cells of 'j'"):
        whole = ef.run_experiment(data, **options)

    assert 0 < made < 40
    assert set(part["eval.j.error"].dropna()) == {DEADLINE}
    assert listed(whole, "eval.j.label") == ["yes"] * 40
    assert server.calls == 40


@pytest.mark.parametrize("has_results", [True, False], ids=["its-frame", "the-bare-rows"])
@pytest.mark.parametrize(
    ("only", "again"), [("missing", ""), ("stale", ""), ("failed", "b"), ("all", "aabc")]
)
def test_only_says_what_is_run_again_of_what_is_there(tmp_path, only, again, has_results):
    """In the folder as in a frame; equal rows keep each their own."""
    scores = Scores(b=OSError("no"))
    data = rows(*"aabc")
    options = {"evaluators": [by_row(scores)], "run_dir": tmp_path}
    scored = ef.run_experiment(data, **options)
    before = listed(scored, "eval.f.score")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        after = ef.run_experiment(scored if has_results else data, only=only, **options)

    assert "".join(scores.seen[4:]) == again
    news = iter((0.05, 0.06, 0.07, 0.08))
    expected = [next(news) if text in again else old for text, old in
                zip("aabc", before, strict=True)]  # fmt: skip
    assert listed(after, "eval.f.score") == expected


@pytest.mark.parametrize(
    ("only", "what"), [("missing", KeyboardInterrupt()), ("failed", OSError("no"))]
)
def test_a_twin_does_not_get_what_the_frame_has_of_the_other(tmp_path, only, what):
    """Of two equal rows one is in the frame: its cell in the folder is its own."""
    calls = []

    @ef.evaluator(version="1")
    def f(output):
        calls.append(output)
        if len(calls) == 2:
            raise what
        return len(calls) / 10

    with contextlib.suppress(KeyboardInterrupt):
        ef.run_experiment(rows("x", "x"), evaluators=[f], run_dir=tmp_path)
    there = ef.last_run()
    after = ef.run_experiment(there, evaluators=[f], run_dir=tmp_path, only=only)

    assert listed(there, "eval.f.score") == [0.1, None]
    assert listed(after, "eval.f.score") == [0.1, 0.3]


def test_outputs_of_equal_rows_are_samples_of_their_own(tmp_path):
    """Also where the frame has one of them, and the folder knows it as well."""
    calls = []

    @ef.task(version="1", threads=1)
    def task(input):
        calls.append(input)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return f"{input} {len(calls)}"

    options = {"evaluators": {"e": lambda output: True}, "run_dir": tmp_path, "concurrency": 1}
    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(rows("x", "x", column="input"), task, **options)
    whole = ef.run_experiment(caught.value.partial, task, only="missing", **options)

    assert listed(whole, "output") == ["x 1", "x 3"]
    assert listed(whole, "eval.e.score") == [1.0, 1.0]


def test_a_failed_output_is_finished_and_its_cells_stay_left_out(tmp_path):
    """only='failed' makes it again, and then its cells."""
    scores, judged = Scores(b=OSError("no")), Scores()

    @ef.task(version="1")
    def task(input):
        return f"{scores(input):.2f}"

    data, options = rows(*"ab", column="input"), {"run_dir": tmp_path, "concurrency": 1}
    ef.run_experiment(data, task, [by_row(judged)], **options)
    with finished("2 of 2 task outputs, 1 of 2 cells of 'f'. 1 of them failed"):
        again = ef.run_experiment(data, task, [by_row(judged)], **options)
    with finished("1 of 2 task outputs, 1 of 2 cells of 'f'"):
        mended = ef.run_experiment(data, task, [by_row(judged)], only="failed", **options)

    assert listed(again, "task.error")[1].startswith("exception: OSError: no")
    assert listed(again, "eval.f.error") == [None, "task_failed: not run, the task failed"]
    assert listed(mended, "output") == ["0.01", "0.03"]
    assert (scores.seen, judged.seen) == (["a", "b", "b"], ["0.01", "0.03"])


def test_a_dry_run_is_the_beginning_of_the_whole(tmp_path):
    """What it has paid for is not paid for again."""
    scores, data = Scores(), rows(*"abcd")
    options = {"evaluators": [by_row(scores)], "run_dir": tmp_path}
    ef.run_experiment(data, dry_run=2, **options)
    with finished("2 of 4 cells of 'f'"):
        ef.run_experiment(data, **options)

    assert scores.seen == list("abcd")


def test_overwrite_replaces_columns_and_pays_for_nothing_twice(tmp_path):
    """The cells of the folder take the place of those in the frame."""
    scores = Scores()
    options = {"evaluators": [by_row(scores)], "run_dir": tmp_path}
    scored = ef.run_experiment(rows("a", "b"), **options)
    scored["eval.f.score"] = 0.5
    with finished("2 of 2 cells of 'f'"):
        again = ef.run_experiment(scored, overwrite=True, **options)

    assert listed(again, "eval.f.score") == [0.01, 0.02]
    assert scores.seen == ["a", "b"]


def test_details_come_and_go_and_no_cell_is_run_again_for_them(tmp_path, serve):
    """They are null where a cell was made without them, and come back where they were kept."""
    server, data = serve(YES), rows("a", "b")
    options = {"evaluators": [judge_of(server)], "run_dir": tmp_path}
    ef.run_experiment(data.head(1), details=True, **options)
    frames = {}
    for name, details in {"off": False, "on": True}.items():
        with finished("[12] of 2 cells of 'j'"):
            frames[name] = ef.run_experiment(data, details=details, **options)

    assert server.calls == 2
    assert "eval.j.latency_s" not in frames["off"]
    assert frames["on"]["eval.j.latency_s"].isna().tolist() == [False, True]
    assert listed(frames["on"], "eval.j.label") == ["yes"] * 2


def test_repetitions_are_numbered_like_equal_rows(tmp_path, serve):
    """A third one asks once for each text, and each has a request of its own."""
    server = serve(obedient)
    options = {"evaluators": [judge_of(server)], "run_dir": tmp_path}
    ef.run_experiment(rows("a", "b"), repetitions=2, **options)
    with finished("4 of 6 cells of 'j'"):
        scored = ef.run_experiment(rows("a", "b"), repetitions=3, **options)

    assert server.calls == 6
    assert scored["repetition"].tolist() == [1, 2, 3] * 2


class Stops:
    """What a frame carries; once it is armed, Ctrl-C comes when it is copied."""

    armed = False

    def __deepcopy__(self, memo):
        if self.armed:
            raise KeyboardInterrupt
        return self


def test_ctrl_c_while_the_frame_of_a_stopped_run_is_made_lets_the_folder_go(tmp_path):
    """The next run in this process goes on from there."""
    stops = Stops()

    def first(output):
        stops.armed = output == "b"
        if stops.armed:
            raise KeyboardInterrupt
        return True

    data = pd.DataFrame({"output": ["a", "b"]})
    data.attrs["mine"] = stops
    evaluator = ef.evaluator(first, version="1")
    with pytest.raises(KeyboardInterrupt):
        ef.run_experiment(data, evaluators=[evaluator], run_dir=tmp_path)

    with pytest.warns(UserWarning, match="1 of 2 cells of 'first'"):
        again = ef.run_experiment(
            pd.DataFrame({"output": ["a", "c"]}), evaluators=[evaluator], run_dir=tmp_path
        )
    assert again["eval.first.score"].tolist() == [1.0, 1.0]


def test_a_run_that_is_over_writes_no_record_into_a_folder_of_others(tmp_path):
    """A call that blocks its loop for long may still ask for it."""
    over = RunStore(tmp_path)
    over.write(RunRecord(rows=1))
    over.close()
    over.write(RunRecord(rows=2))

    assert RunFolder(tmp_path).record() == RunRecord(rows=1)
