"""Where calls run, how many at once, when they are given up, and how a run is stopped.

Nothing here sleeps: calls wait for events and barriers, so that what is claimed about
concurrency either happens or ends in a timeout.
"""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pandas as pd
import pytest

import evalframe as ef

LONG_S = 10.0
SHORT_S = 0.05

LETTERS = pd.DataFrame({"input": list("abcdefgh"), "output": list("abcdefgh")})


def rows(count):
    """A frame whose outputs are 0, 1, 2, ..."""
    return pd.DataFrame({"output": range(count)})


def run_sync(*args, **options):
    """run_experiment, called from plain code."""
    return ef.run_experiment(*args, **options)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


def calls_in_threads(run):
    """Thread and value of each call of a sync evaluator by row and of a vectorized one."""
    seen = []

    def by_row(output):
        seen.append((threading.current_thread(), output))
        return True

    @ef.evaluator(vectorized=True)
    def column(output):
        seen.append((threading.current_thread(), "column"))
        return output >= 0

    run(rows(300), evaluators=[by_row, column])
    return seen


def run_in_a_loop(*args, **options):
    """run_experiment called while this thread's loop is running, as a notebook does."""

    async def cell():
        return ef.run_experiment(*args, **options)

    return asyncio.run(cell())


EVERY_WAY = pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_sync, id="sync"),
        pytest.param(run_awaited, id="awaited"),
        pytest.param(run_in_a_loop, id="inside-a-running-loop"),
    ],
)


class Gate:
    """An async call that lets nobody through until `width` calls stand before it."""

    def __init__(self, width):
        self.width = width
        self.now = self.most = 0
        self.full = asyncio.Event()

    async def __call__(self, output):
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self.width:
            self.full.set()
        await asyncio.wait_for(self.full.wait(), LONG_S)
        for _ in range(5):  # room for calls that should not be there
            await asyncio.sleep(0)
        self.now -= 1
        return True


class Turnstile:
    """A blocking call that lets people through in groups of exactly `width`."""

    def __init__(self, width):
        self.barrier = threading.Barrier(width)
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, value):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(LONG_S)
        with self.lock:
            self.now -= 1
        return True


@EVERY_WAY
@pytest.mark.parametrize("concurrency", [1, 3, 32])
def test_as_many_async_evaluators_run_at_once_as_asked_for(run, concurrency):
    """`concurrency` is reached, and never passed."""
    gate = Gate(concurrency)

    scored = run(rows(3 * concurrency), evaluators={"gate": gate}, concurrency=concurrency)

    assert scored["eval.gate.score"].tolist() == [1.0] * (3 * concurrency)
    assert gate.most == concurrency


def test_concurrency_is_one_number_for_the_whole_run():
    """Task calls and cells of several async evaluators share the slots."""
    now = most = 0

    async def counted(value):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        now -= 1
        return "done"

    evaluators = dict.fromkeys("xyz", counted)
    frame = pd.DataFrame({"input": range(40)})

    scored = ef.run_experiment(frame, counted, evaluators, concurrency=4)

    assert scored["eval.z.label"].tolist() == ["done"] * 40
    assert most == 4


@EVERY_WAY
def test_a_sync_task_runs_in_that_many_threads(run):
    """A blocking task fills `concurrency` threads, none more."""
    turnstile = Turnstile(4)

    scored = run(pd.DataFrame({"input": range(12)}), turnstile, concurrency=4)

    assert scored["output"].tolist() == [True] * 12
    assert turnstile.most == 4


def test_a_task_that_is_not_thread_safe_runs_in_one_thread():
    """`@ef.task(threads=1)` holds whatever `concurrency` says."""
    threads = set()
    turnstile = Turnstile(1)

    @ef.task(threads=1)
    def task(input):
        threads.add(threading.current_thread())
        return turnstile(input)

    ef.run_experiment(pd.DataFrame({"input": range(6)}), task, concurrency=8)

    assert turnstile.most == 1
    assert len(threads) == 1


@EVERY_WAY
def test_an_evaluator_with_threads_runs_in_that_many(run):
    """`@ef.evaluator(threads=n)` fills n threads, whatever `concurrency` says."""
    turnstile = Turnstile(5)
    evaluator = ef.evaluator(turnstile, name="t", threads=5)

    scored = run(rows(10), evaluators=[evaluator], concurrency=2)

    assert scored["eval.t.score"].tolist() == [1.0] * 10
    assert turnstile.most == 5


def test_async_tasks_and_evaluators_overlap():
    """A row's cells run as soon as its output is there, beside tasks of other rows."""
    judged = asyncio.Event()

    async def task(input):
        if input == "b":
            await asyncio.wait_for(judged.wait(), LONG_S)
        return input

    async def judge(output):
        if output == "a":
            judged.set()
        return True

    scored = ef.run_experiment(pd.DataFrame({"input": ["b", "a"]}), task, [judge])

    assert scored["output"].tolist() == ["b", "a"]
    assert scored["task.error"].isna().all()


def test_sync_evaluators_do_not_wait_for_the_last_task():
    """Also in the caller's thread, cells run as rows become ready."""
    judged = threading.Event()

    def task(input):
        return judged.wait(LONG_S) if input == "b" else False

    def judge(output):
        judged.set()
        return output

    scored = ef.run_experiment(pd.DataFrame({"input": ["b", "a"]}), task, [judge])

    assert scored["eval.judge.score"].tolist() == [1.0, 0.0]


def test_cells_of_one_row_overlap():
    """Several async evaluators of a row wait side by side, not one after the other."""
    first, second = asyncio.Event(), asyncio.Event()

    async def one(output):
        first.set()
        await asyncio.wait_for(second.wait(), LONG_S)
        return True

    async def two(output):
        second.set()
        await asyncio.wait_for(first.wait(), LONG_S)
        return True

    scored = ef.run_experiment(rows(1), evaluators=[one, two])

    assert scored[["eval.one.score", "eval.two.score"]].to_numpy().tolist() == [[1.0, 1.0]]


def test_sync_evaluators_run_in_the_callers_own_thread():
    """Row by row and vectorized alike, so that what is bound to a thread works."""
    seen = calls_in_threads(ef.run_experiment)

    assert seen == [(threading.current_thread(), row) for row in [*range(300), "column"]]


def test_awaited_sync_evaluators_run_in_one_worker_thread():
    """They neither block the caller's loop nor run beside each other, and keep row order."""
    seen = calls_in_threads(run_awaited)

    (worker,) = {thread for thread, _ in seen}
    assert worker is not threading.current_thread()
    assert [what for _, what in seen] == [*range(300), "column"]


def test_an_awaited_run_leaves_the_loop_free():
    """While a sync evaluator blocks, other coroutines of the loop go on."""
    released = threading.Event()

    def blocks(output):
        return released.wait(LONG_S)

    async def main():
        run = asyncio.ensure_future(ef.arun_experiment(rows(1), evaluators=[blocks]))
        await asyncio.sleep(0)
        released.set()
        return await run

    assert asyncio.run(main())["eval.blocks.score"].tolist() == [1.0]


@pytest.mark.parametrize("timeout", [None, LONG_S], ids=["caller-thread", "with-timeout"])
def test_sync_evaluators_keep_row_order(timeout):
    """Without a task they are called in row order, with a timeout too."""
    seen = []

    ef.run_experiment(rows(50), evaluators={"append": seen.append}, timeout=timeout)

    assert seen == list(range(50))


def test_a_client_made_for_one_run_works_in_the_next():
    """All runs share one loop: a lock bound to it by use in run 1 can be used in run 2."""
    lock = asyncio.Lock()
    loops = set()

    async def locked(output):
        async with lock:
            loops.add(asyncio.get_running_loop())
            await asyncio.sleep(0)
        return True

    for _ in range(2):
        scored = ef.run_experiment(rows(4), evaluators=[locked])
        assert scored["eval.locked.score"].tolist() == [1.0] * 4

    assert len(loops) == 1


def test_two_threads_may_run_experiments_at_once():
    """Runs of different threads share the background loop and nothing else."""
    frames = {}

    def work(name):
        evaluator = Gate(2)
        frames[name] = ef.run_experiment(rows(6), evaluators={name: evaluator}, concurrency=2)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)

    assert {name: frame.evals.names for name, frame in frames.items()} == {
        "one": ["one"],
        "two": ["two"],
    }


def test_a_sync_evaluator_may_run_an_experiment_of_its_own():
    """Runs nest in plain functions, async evaluators in the inner run included."""

    async def inner(output):
        return output == 1

    def outer(output):
        frame = pd.DataFrame({"output": [output]})
        return ef.run_experiment(frame, evaluators=[inner])["eval.inner.score"][0]

    scored = ef.run_experiment(rows(3), evaluators=[outer])

    assert scored["eval.outer.score"].tolist() == [0.0, 1.0, 0.0]


def test_an_async_evaluator_awaits_an_experiment_of_its_own():
    """Runs nest in async functions by arun_experiment."""

    async def inner(output):
        return output == 1

    async def outer(output):
        frame = pd.DataFrame({"output": [output]})
        inside = await ef.arun_experiment(frame, evaluators=[inner])
        return inside["eval.inner.score"][0]

    scored = ef.run_experiment(rows(3), evaluators=[outer])

    assert scored["eval.outer.score"].tolist() == [0.0, 1.0, 0.0]


def test_an_async_evaluator_that_would_wait_for_itself_is_told():
    """run_experiment on the very loop that it needs fails at once, instead of for ever."""

    async def inner(output):
        return True

    async def outer(output):
        return ef.run_experiment(rows(1), evaluators=[inner]) is not None

    scored = ef.run_experiment(rows(1), evaluators=[outer])

    assert "await ef.arun_experiment" in scored["eval.outer.error"][0]


VARIABLE = contextvars.ContextVar("variable", default="unset")


@EVERY_WAY
def test_context_variables_of_the_caller_are_visible_everywhere(run):
    """In tasks, sync, async, threaded and vectorized evaluators of either form."""

    def said(name):
        return {"label": name, "explanation": VARIABLE.get()}

    def in_thread(output):
        return said("thread")

    def plain(output):
        return said("plain")

    async def awaited(output):
        await asyncio.sleep(0)
        return said("async")

    def column(output):
        return {"label": ["column"] * len(output), "explanation": [VARIABLE.get()] * len(output)}

    async def async_column(output):
        await asyncio.sleep(0)
        return column(output)

    evaluators = [
        plain,
        awaited,
        ef.evaluator(in_thread, threads=2),
        ef.evaluator(column, vectorized=True),
        ef.evaluator(async_column, vectorized=True),
    ]
    frame = pd.DataFrame({"input": range(5)})
    token = VARIABLE.set("exp-1")
    try:
        scored = run(frame, lambda input: VARIABLE.get(), evaluators, concurrency=4)
    finally:
        VARIABLE.reset(token)

    assert scored["output"].tolist() == ["exp-1"] * 5
    for name in scored.evals.names:
        assert scored[f"eval.{name}.explanation"].tolist() == ["exp-1"] * 5


@EVERY_WAY
def test_a_context_variable_set_by_a_call_leaks_to_nobody(run):
    """Each call has a context of its own: neither other rows nor the caller see changes."""

    def change():
        before = VARIABLE.get()
        VARIABLE.set("changed")
        return True, before

    async def awaited(output):
        return change()

    async def async_task(input):
        return change()[1]

    evaluators = [
        awaited,
        ef.evaluator(lambda output: change(), name="plain"),
        ef.evaluator(lambda output: change(), name="threaded", threads=1),
    ]
    scored = run(pd.DataFrame({"input": range(4)}), async_task, evaluators, concurrency=1)

    assert scored["output"].tolist() == ["unset"] * 4
    for name in scored.evals.names:
        assert scored[f"eval.{name}.explanation"].tolist() == ["unset"] * 4
    assert VARIABLE.get() == "unset"


@EVERY_WAY
def test_an_async_call_that_takes_too_long_is_cancelled(run):
    """Its cell is a timeout, the call is really ended, and all other cells are scored."""
    cancelled = []

    async def slow(output):
        if output in (3, 8):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(output)
                raise
        return True

    scored = run(rows(20), evaluators=[slow], concurrency=5, timeout=SHORT_S)

    errors = scored["eval.slow.error"].dropna()
    assert errors.to_dict() == dict.fromkeys((3, 8), "timeout: no result within 0.05 s")
    assert scored["eval.slow.score"].count() == 18
    assert sorted(cancelled) == [3, 8]


@EVERY_WAY
def test_a_sync_call_that_takes_too_long_is_left_behind(run):
    """Its cell is a timeout, and what it returns later is dropped."""
    released = threading.Event()
    late = []

    def slow(output):
        if output == 1:
            released.wait(LONG_S)
            late.append(output)
        return True

    try:
        scored = run(rows(4), evaluators=[slow], timeout=SHORT_S)
    finally:
        released.set()
        join_calls()

    assert scored["eval.slow.error"].tolist() == [
        pd.NA,
        "timeout: no result within 0.05 s",
        pd.NA,
        pd.NA,
    ]
    assert scored["eval.slow.score"].isna().tolist() == [False, True, False, False]
    assert late == [1]


def join_calls():
    """Wait for all threads of calls; fail if one stays."""
    threads = [thread for thread in threading.enumerate() if thread.name == "evalframe-call"]
    for thread in threads:
        thread.join(LONG_S)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_task_call_that_takes_too_long_is_a_failed_task(kind):
    """The row has no output, its cells are task_failed, other rows go on."""
    released = threading.Event()

    async def slow(input):
        if input == "b":
            await asyncio.Event().wait()
        return input

    def blocking(input):
        if input == "b":
            released.wait(LONG_S)
        return input

    task = {"async": slow, "sync": blocking}[kind]
    try:
        scored = ef.run_experiment(
            LETTERS[["input"]], task, {"there": lambda output: True}, timeout=SHORT_S
        )
    finally:
        released.set()
        join_calls()

    assert scored["task.error"].dropna().to_dict() == {1: "timeout: no result within 0.05 s"}
    assert scored["output"].isna().tolist() == [row == 1 for row in range(8)]
    assert scored["eval.there.error"].dropna().to_dict() == {
        1: "task_failed: not run, the task failed"
    }


def test_the_timeout_begins_with_the_slot():
    """Waiting for a slot is not counted: the last of many rows is not late."""
    calls = 0

    async def step(output):
        nonlocal calls
        calls += 1
        await asyncio.wait_for(asyncio.Event().wait(), 0.02) if calls <= 6 else None
        return True

    async def patient(output):
        try:
            return await step(output)
        except TimeoutError:
            return True

    scored = ef.run_experiment(rows(6), evaluators=[patient], concurrency=1, timeout=0.1)

    assert scored["eval.patient.score"].tolist() == [1.0] * 6


def test_a_timeout_with_errors_raise_is_a_timeout_error():
    """A call that is given up has no exception of its own; TimeoutError stands for it."""

    async def slow(output):
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"no result within 0.05 s") as caught:
        ef.run_experiment(rows(2), evaluators=[slow], timeout=SHORT_S, errors="raise")

    assert caught.value.partial["eval.slow.error"][0].startswith("timeout:")


@EVERY_WAY
def test_a_few_stuck_calls_do_not_stop_the_run(run):
    """Seven calls that never end are seven failed cells."""
    released = threading.Event()

    def slow(output):
        return output >= 7 or released.wait(LONG_S)

    try:
        scored = run(rows(20), evaluators=[ef.evaluator(slow, threads=4)], timeout=SHORT_S)
    finally:
        released.set()
        join_calls()

    assert scored["eval.slow.score"].isna().sum() == 7


@EVERY_WAY
def test_eight_stuck_calls_stop_the_run(run):
    """Threads are not collected without end: the run stops, with what it has."""
    released = threading.Event()

    def slow(output):
        return output < 3 or released.wait(LONG_S)

    try:
        with pytest.raises(ef.StuckCallsError, match="8 timed-out calls are still") as caught:
            run(rows(20), evaluators=[ef.evaluator(slow, threads=12)], timeout=SHORT_S)
    finally:
        released.set()
        join_calls()

    partial = caught.value.partial
    assert partial is ef.last_run()
    assert partial["eval.slow.score"].count() == 3
    assert partial["eval.slow.error"].eq("skipped: not run").sum() > 0


def test_a_late_call_that_has_ended_since_is_no_stuck_one():
    """Only calls that are still running count: any number may be late one after the other."""
    gates = [threading.Event() for _ in range(20)]

    def slow(output):
        if output:
            gates[output - 1].set()
        return gates[output].wait(LONG_S)

    try:
        scored = ef.run_experiment(rows(20), evaluators=[slow], timeout=0.01)
    finally:
        gates[-1].set()
        join_calls()

    assert scored["eval.slow.error"].str.startswith("timeout").tolist() == [True] * 20


def test_an_async_call_that_swallows_its_cancellation_is_left_behind():
    """After a grace period the run goes on without it."""
    release = []

    async def stubborn(output):
        if output:
            return True
        done = asyncio.Event()
        release.append((asyncio.get_running_loop(), done))
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue
        return True

    scored = ef.run_experiment(rows(3), evaluators=[stubborn], timeout=SHORT_S)
    ((loop, done),) = release
    loop.call_soon_threadsafe(done.set)

    assert scored["eval.stubborn.error"].notna().tolist() == [True, False, False]


@EVERY_WAY
def test_no_thread_stays_when_a_run_is_over(run):
    """Threads of calls and of evaluators end with their run; only the loop's own is kept."""
    evaluators = [
        ef.evaluator(lambda output: True, name="threaded", threads=3),
        ef.evaluator(lambda output: True, name="plain"),
    ]

    run(pd.DataFrame({"input": range(10)}), lambda input: input, evaluators)

    join_calls()
    mine = {thread.name for thread in threading.enumerate() if "evalframe" in thread.name}
    assert mine <= {"evalframe-loop", "evalframe-evaluators"}


def test_a_run_of_plain_functions_starts_no_thread():
    """The background loop is made when something has to be waited for, not before."""
    code = """
import threading
import evalframe as ef
ef.run_experiment([{"output": 1}], evaluators={"x": lambda output: True})
print(threading.active_count())
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "1\n"
    )


def test_runs_work_in_a_forked_child():
    """A child made by fork has no background thread, so it starts its own."""
    code = """
import os, warnings
import evalframe as ef
warnings.simplefilter("ignore", DeprecationWarning)
async def fine(output):
    return True
def run():
    return ef.run_experiment([{"output": 1}], evaluators=[fine])["eval.fine.score"].tolist()
assert run() == [1.0]
child = os.fork()
if not child:
    os._exit(0 if run() == [1.0] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
