"""What user code may raise, and what is left when a run is ended before its end.

Whatever ends it, the frame with everything that is finished is `.partial` on the exception
and `ef.last_run()`; and no stop leaves a warning of asyncio's behind.
"""

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading

import pandas as pd
import pytest

import evalframe as ef

LONG_S = 10.0
NOT_RUN = "skipped: not run"
MINE = ("mine",)


def rows(count):
    """A frame whose inputs are 0, 1, 2, ..."""
    return pd.DataFrame({"input": range(count)})


def run_sync(*args, **options):
    """run_experiment, called from plain code."""
    return ef.run_experiment(*args, **options)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


BOTH_WAYS = pytest.mark.parametrize(
    "run", [pytest.param(run_sync, id="sync"), pytest.param(run_awaited, id="awaited")]
)


def sync(function):
    """A plain evaluator, called in row order."""

    def evaluator(input):
        return function(input)

    return ef.evaluator(evaluator, name="e")


def awaited(function):
    """An async evaluator."""

    async def evaluator(input):
        await asyncio.sleep(0)
        return function(input)

    return ef.evaluator(evaluator, name="e")


def threaded(function):
    """An evaluator whose calls run in threads."""
    return ef.evaluator(lambda input: function(input), name="e", threads=1)  # noqa: PLW0108


LANES = pytest.mark.parametrize(
    "lane", [sync, awaited, threaded], ids=["in-the-thread", "async", "threaded"]
)


@pytest.fixture(autouse=True, scope="module")
def quick_collection():
    """What is there before these tests need not be searched for garbage after each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_word_from_asyncio(caplog):
    """No 'exception was never retrieved', no 'was destroyed but it is pending'."""
    yield
    gc.collect()
    assert [r.getMessage() for r in caplog.records if r.name == "asyncio"] == []


class OddError(Exception):
    """An exception whose own text cannot be had."""

    def __str__(self):
        raise ValueError(self)


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        pytest.param(KeyError("x"), "exception: KeyError: 'x' ", id="key-error"),
        pytest.param(ValueError(), "exception: ValueError ", id="no-message"),
        pytest.param(AssertionError("no"), "exception: AssertionError: no ", id="assertion"),
        pytest.param(TimeoutError("own"), "exception: TimeoutError: own ", id="own-timeout"),
        pytest.param(OddError(), "exception: OddError: (its message cannot", id="no-str"),
        pytest.param(StopIteration("end"), "StopIteration", id="stop-iteration"),
        pytest.param(StopAsyncIteration(), "StopAsyncIteration", id="stop-async-iteration"),
        pytest.param(asyncio.CancelledError("own"), "CancelledError", id="cancelled"),
        pytest.param(ExceptionGroup("g", [ValueError("v")]), "ExceptionGroup: g", id="group"),
    ],
)
@LANES
@BOTH_WAYS
def test_whatever_user_code_raises_is_a_failed_cell(run, lane, exc, text):
    """One bad row fails one cell; the others are scored, and the run ends as it should."""

    def picky(input):
        if input == 1:
            raise exc
        return 1.0

    scored = run(rows(4), evaluators=[lane(picky)])

    assert text in scored["eval.e.error"][1]
    assert scored["eval.e.error"][1].startswith("exception: ")
    assert scored["eval.e.error"][1].endswith(")")
    assert "(test_stopping.py:" in scored["eval.e.error"][1]
    assert scored["eval.e.score"].isna().tolist() == [False, True, False, False]


class Abort(BaseException):
    """Something that is no Exception, and so no failure of a cell."""


@pytest.mark.parametrize(
    "exc",
    [
        pytest.param(KeyboardInterrupt("mine"), id="keyboard-interrupt"),
        pytest.param(SystemExit("mine"), id="system-exit"),
        pytest.param(Abort("mine"), id="own-base-exception"),
    ],
)
@LANES
@BOTH_WAYS
def test_what_is_no_error_ends_the_run(run, lane, exc):
    """KeyboardInterrupt, SystemExit and their like arrive as they are, with `.partial`."""

    def picky(input):
        if input == 3:
            raise exc
        return 1.0

    with pytest.raises(type(exc), match="mine") as caught:
        run(rows(50), evaluators=[lane(picky)], concurrency=1)

    assert caught.value is exc
    partial = exc.partial
    assert partial is ef.last_run()
    assert len(partial) == 50
    assert partial["eval.e.score"].tolist()[:3] == [1.0] * 3
    assert partial["eval.e.error"].tolist()[3:] == [NOT_RUN] * 47


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit, Abort])
@BOTH_WAYS
def test_the_loop_outlives_what_tasks_raise(run, exc, kind):
    """After such an end the next run works: the background loop is still there."""

    def fails(input):
        raise exc(*MINE)

    async def async_fails(input):
        raise exc(*MINE)

    task = {"sync": fails, "async": async_fails}[kind]
    with pytest.raises(exc, match="mine") as caught:
        run(rows(3), task, {"one": lambda output: True})
    scored = run(rows(3), task=lambda input: input, evaluators=[awaited(lambda _: True)])

    partial = caught.value.partial
    assert partial["task.error"].tolist() == [NOT_RUN] * 3
    assert partial["eval.one.error"].tolist() == [NOT_RUN] * 3
    assert scored["eval.e.score"].tolist() == [1.0] * 3


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit])
def test_the_loop_outlives_what_a_users_own_tasks_raise(exc):
    """Also an exception in a task that user code started does not end the loop."""

    async def part():
        raise exc(*MINE)

    async def whole(input):
        await asyncio.gather(part(), asyncio.sleep(0))

    with pytest.raises(exc, match="mine"):
        ef.run_experiment(rows(1), evaluators=[whole])
    scored = ef.run_experiment(rows(1), evaluators=[awaited(lambda _: True)])

    assert scored["eval.e.score"].tolist() == [1.0]


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit, Abort])
@BOTH_WAYS
def test_an_async_vectorized_evaluator_ends_a_run_too(run, exc):
    """It arrives as it is, and the next run works."""

    @ef.evaluator(vectorized=True)
    async def column(input):
        raise exc(*MINE)

    with pytest.raises(exc, match="mine") as caught:
        run(rows(2), evaluators=[sync(lambda _: True), column])
    again = run(rows(1), evaluators=[awaited(lambda _: True)])

    assert caught.value.partial["eval.e.score"].tolist() == [1.0, 1.0]
    assert caught.value.partial["eval.column.error"].tolist() == [NOT_RUN] * 2
    assert again["eval.e.score"].tolist() == [1.0]


@pytest.mark.parametrize("exc", [ValueError("v"), asyncio.CancelledError(), StopIteration()])
@BOTH_WAYS
def test_a_vectorized_evaluator_that_raises_fails_all_its_cells(run, exc):
    """Its columns stay, NA with the reason; other evaluators are not touched."""

    @ef.evaluator(vectorized=True)
    async def awaited_column(input):
        raise exc

    @ef.evaluator(vectorized=True)
    def column(input):
        raise exc

    scored = run(rows(2), evaluators=[column, awaited_column, sync(lambda _: True)])

    for name in ("column", "awaited_column"):
        assert scored[f"eval.{name}.error"].str.startswith("exception: ").tolist() == [True, True]
    assert scored["eval.e.score"].tolist() == [1.0, 1.0]


@LANES
@BOTH_WAYS
def test_errors_raise_gives_the_users_own_exception(run, lane):
    """The very object arrives, from any lane, with the failed cell told in `.partial`."""
    mine = LookupError("mine")

    def picky(input):
        if input == 3:
            raise mine
        return 1.0

    with pytest.raises(LookupError, match="mine") as caught:
        run(rows(100), evaluators=[lane(picky)], errors="raise", concurrency=1)

    assert caught.value is mine
    errors = mine.partial["eval.e.error"]
    assert errors[3].startswith("exception: LookupError: mine (test_stopping.py:")
    assert errors.isna().tolist()[:3] == [True] * 3
    assert set(errors[10:]) == {NOT_RUN}


@pytest.mark.parametrize("kind", ["sync", "async"])
@BOTH_WAYS
def test_errors_raise_gives_the_tasks_own_exception(run, kind):
    """A failed task ends the run like a failed cell."""
    mine = LookupError("mine")

    def task(input):
        if input == 2:
            raise mine
        return input

    async def async_task(input):
        return task(input)

    with pytest.raises(LookupError, match="mine") as caught:
        run(
            rows(50),
            {"sync": task, "async": async_task}[kind],
            [sync(lambda _: True)],
            errors="raise",
            concurrency=1,
        )

    assert caught.value is mine
    partial = mine.partial
    assert partial["output"].tolist()[:2] == [0, 1]
    assert partial["task.error"][2].startswith("exception: LookupError: mine")
    assert partial["eval.e.error"][2].startswith("task_failed:")
    assert partial["task.error"].tolist()[-1] == NOT_RUN
    assert partial["output"].isna().tolist()[-1]


def test_errors_raise_stops_at_once():
    """Calls in flight are cancelled, not waited for, and no further one is made."""
    started, cancelled = [], []

    async def waits(input):
        started.append(input)
        if input == 5:
            raise LookupError(input)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(input)
            raise

    with pytest.raises(LookupError, match="5"):
        ef.run_experiment(rows(100), evaluators=[waits], errors="raise", concurrency=6)

    assert started == [0, 1, 2, 3, 4, 5]
    assert sorted(cancelled) == [0, 1, 2, 3, 4]


@BOTH_WAYS
def test_a_stop_before_the_loop_has_begun_is_prompt(run):
    """A failure of the first sync cell ends a run whose async side has hardly started."""

    def fails(input):
        raise LookupError(input)

    async def waits(input):
        await asyncio.Event().wait()

    started = asyncio.new_event_loop()
    before = started.time()
    for _ in range(20):
        with pytest.raises(LookupError, match="0"):
            run(rows(3), evaluators=[fails, waits], errors="raise")
    seconds = started.time() - before
    started.close()

    assert seconds < 4


def test_a_stop_does_not_wait_for_blocked_threads():
    """What cannot be ended is left in its daemon thread."""
    released = threading.Event()
    entered = threading.Event()

    def blocks(input):
        entered.set()
        return released.wait(LONG_S)

    def fails(input):
        entered.wait(LONG_S)
        raise LookupError(input)

    try:
        with pytest.raises(LookupError, match="0"):
            ef.run_experiment(
                rows(3), evaluators=[ef.evaluator(blocks, threads=1), fails], errors="raise"
            )
        assert not released.is_set()
    finally:
        released.set()


def test_finished_async_cells_are_in_the_partial_frame():
    """Nothing that is done is lost, though the stop comes before it was looked at."""
    done = threading.Event()
    ended = []

    async def quick(input):
        ended.append(input)
        if len(ended) == 20:
            # After the others' results are on their way.
            for _ in range(20):
                await asyncio.sleep(0)
            done.set()
            await asyncio.Event().wait()
        return True

    def fails(input):
        done.wait(LONG_S)
        raise LookupError(input)

    with pytest.raises(LookupError, match="0") as caught:
        ef.run_experiment(rows(20), evaluators=[quick, fails], errors="raise")

    assert caught.value.partial["eval.quick.score"].count() == 19


def test_an_awaited_run_can_be_cancelled():
    """The way of asyncio to stop: `.partial` is on the CancelledError, calls are cancelled."""
    cancelled = []

    async def waits(input):
        if input < 5:
            return True
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(input)
            raise

    async def main():
        run = asyncio.ensure_future(ef.arun_experiment(rows(20), evaluators=[waits], concurrency=8))
        for _ in range(200):
            await asyncio.sleep(0)
        run.cancel("enough")
        try:
            await run
        except asyncio.CancelledError as exc:
            return exc

    exc = asyncio.run(main())

    assert exc.partial is ef.last_run()
    assert exc.partial["eval.waits.score"].count() == 5
    assert sorted(cancelled) == list(range(5, 13))


def test_an_awaited_run_ends_with_its_timeout():
    """`asyncio.timeout` around a run works as around anything else."""

    async def waits(input):
        await asyncio.Event().wait()

    async def main():
        async with asyncio.timeout(0.05):
            await ef.arun_experiment(rows(3), evaluators=[waits])

    with pytest.raises(TimeoutError, match=r"^$"):
        asyncio.run(main())

    assert ef.last_run()["eval.waits.error"].tolist() == [NOT_RUN] * 3


def test_an_awaited_vectorized_evaluator_is_cancelled_with_its_run():
    """The worker thread does not wait for what will never come."""

    @ef.evaluator(vectorized=True)
    async def column(input):
        await asyncio.Event().wait()

    async def main():
        async with asyncio.timeout(0.05):
            await ef.arun_experiment(rows(3), evaluators=[column])

    with pytest.raises(TimeoutError, match=r"^$"):
        asyncio.run(main())

    assert ef.last_run()["eval.column.error"].tolist() == [NOT_RUN] * 3
    workers = [thread for thread in threading.enumerate() if thread.name == "evalframe-evaluators"]
    for worker in workers:
        worker.join(LONG_S)
    assert not any(worker.is_alive() for worker in workers)


def test_cancelling_everything_on_the_loop_ends_the_run():
    """Code that cancels all tasks it can find cannot make a run look finished."""

    async def rude(input):
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return True

    with pytest.raises(asyncio.CancelledError) as caught:
        ef.run_experiment(rows(5), evaluators=[rude], concurrency=2)

    assert len(caught.value.partial) == 5
    assert NOT_RUN in caught.value.partial["eval.rude.error"].tolist()


SIGINT = """
import asyncio, os, signal, sys
import evalframe as ef
from evalframe.engines import driver, local

driver.GRACE_S = local.GRACE_S = 0.1
waiting = 0

async def judge(input):
    global waiting
    if input < 5:
        return True
    waiting += 1
    if waiting == 3:
        for _ in range(20):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

def plain(input):
    return True

def run():
    return ef.run_experiment([{"input": n} for n in range(20)], evaluators=[judge, plain],
                             concurrency=3)

async def arun():
    return await ef.arun_experiment([{"input": n} for n in range(20)], evaluators=[judge, plain],
                                    concurrency=3)

try:
    run() if sys.argv[1] == "sync" else asyncio.run(arun())
except KeyboardInterrupt as exc:
    frame = ef.last_run()
    if sys.argv[1] == "sync":
        assert exc.partial is frame
    print(len(frame), frame["eval.judge.score"].count())
    print(set(frame["eval.judge.error"].dropna()))
"""


@pytest.mark.parametrize("way", ["sync", "awaited"])
def test_ctrl_c_leaves_everything_that_is_finished(way):
    """A real SIGINT while calls are in flight: the whole frame, and a quiet end."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIGINT, way],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout == f"20 5\n{{'{NOT_RUN}'}}\n"
    assert done.stderr == ""


def test_a_run_is_quiet_under_asyncio_debug():
    """No exception is left unretrieved and no coroutine unawaited, in a run of all kinds."""
    code = """
import asyncio, logging, threading
import evalframe as ef

# That the machine is busy is no news.
logging.getLogger("asyncio").addFilter(lambda record: "took" not in record.getMessage())

async def waits(input):
    if input == 1:
        await asyncio.Event().wait()
    if input == 2:
        raise ValueError(input)
    if input == 3:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError(input) from None
    return True

event = threading.Event()

def blocks(input):
    return event.wait(10) if input == 1 else True

rows = [{"input": n} for n in range(6)]
ef.run_experiment(rows, waits, evaluators=[waits, blocks], timeout=0.05)
asyncio.run(ef.arun_experiment(rows, waits, evaluators=[waits, blocks], timeout=0.05))
event.set()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONASYNCIODEBUG": "1"},
    )

    assert (done.stderr, done.returncode) == ("", 0)


def test_log_capture_works(caplog):
    """The fixture above would see what asyncio has to say."""
    logging.getLogger("asyncio").debug("seen")
    with caplog.at_level(logging.DEBUG, "asyncio"):
        logging.getLogger("asyncio").debug("seen")
    assert [r.name for r in caplog.records] == ["asyncio"]
    caplog.clear()
