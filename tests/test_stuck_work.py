"""Nothing is retried, waited for or held up for ever: what ends each, and what is said of it.

By a count, by the cell's timeout, by the run's deadline, and by the number of calls that
nothing can end.
"""

import asyncio
import threading
import time

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import ChatServer, error, hang_up, label, never

DEADLINE = "skipped: deadline"
LONG_S = 20.0
# Far less than what anything here waits for that is not ended: 5 s of grace, ten minutes.
PROMPT_S = 4.0
MANY = 10_000
YES = label("yes")


def model_of(server, **options):
    """A model behind the server."""
    return ef.Model("local/m", **{"base_url": server.base_url, **options})


def judge_of(server, **options):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        "j",
        model=model_of(server, **options),
        prompt="{{ item.output }}",
        choices=["yes"],
        explanation=False,
    )


def similarity_of(server, **options):
    """The same question to a model of vectors."""
    return ef.SemanticSimilarity(ef.Embedder(model_of(server, **options)), name="j")


def rows(count):
    """Rows that are all different."""
    return pd.DataFrame({"output": [f"text {n}" for n in range(count)], "dataset_output": "t"})


def errors(scored):
    """The error column, None where there is none."""
    return pa.array(scored["eval.j.error"]).to_pylist()


def refused(status, seconds):
    """The server wants to be asked again in so many seconds."""
    return error(status, "Not now.", headers={"Retry-After": str(seconds)})


def run_sync(*args, **options):
    """run_experiment, called from plain code."""
    return ef.run_experiment(*args, **options)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


BOTH_WAYS = pytest.mark.parametrize(
    "run", [pytest.param(run_sync, id="sync"), pytest.param(run_awaited, id="awaited")]
)


@pytest.fixture(autouse=True, scope="module")
def imports():
    """The first request of a process takes a while, which is no deadline's affair."""
    with ChatServer(YES) as server:
        ef.run_experiment(rows(1), evaluators=[judge_of(server)])


@pytest.fixture(autouse=True)
def promptly(imports):
    """Each test ends long before what it is about would have."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < PROMPT_S


@pytest.fixture
def released():
    """What calls that nothing can end wait for: the end of the test, and of their threads."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name == "evalframe-call":
            thread.join(LONG_S)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        pytest.param(refused(500, 0), "server_error", id="500"),
        pytest.param(hang_up(), "connection", id="hang-up"),
        pytest.param(never(), "timeout", id="never"),
    ],
)
def test_what_never_comes_through_is_asked_so_many_times(serve, failure, kind):
    """`max_retries` further requests for each row, and then the cell has failed."""
    server = serve(failure)
    scored = ef.run_experiment(rows(2), evaluators=[judge_of(server, max_retries=1, timeout=0.2)])

    assert [text.partition(":")[0] for text in errors(scored)] == [kind] * 2
    assert server.calls == 4


@pytest.mark.parametrize("seconds", [0.01, 600], ids=["asked-all-the-time", "held"])
@BOTH_WAYS
def test_retries_end_with_the_cells_timeout(serve, run, seconds):
    """However many there may be, and however long the server wants to be left alone."""
    server = serve(refused(503, seconds))
    scored = run(rows(2), evaluators=[judge_of(server, max_retries=MANY)], timeout=0.3)

    assert errors(scored) == ["timeout: no result within 0.3 s"] * 2


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit"), (503, "server_error")], ids=["429", "503"]
)
@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"deadline": 60}], ids=str)
def test_a_retry_after_of_an_hour_is_waited_for_by_nobody(serve, options, status, kind):
    """It is the answer, timeout and deadline or not: each row is asked once, and has failed."""
    server = serve(refused(status, 3600))
    scored = ef.run_experiment(rows(3), evaluators=[judge_of(server)], concurrency=1, **options)

    assert [text.partition(":")[0] for text in errors(scored)] == [kind] * 3
    assert server.calls == 3


@pytest.mark.parametrize(
    ("script", "options", "first"),
    [
        pytest.param(refused(429, 600), {}, DEADLINE, id="429"),
        pytest.param(refused(503, 600), {}, DEADLINE, id="503"),
        pytest.param(YES, {"rpm": 1}, None, id="rpm"),
        pytest.param(YES, {"tpm": 1}, None, id="tpm"),
    ],
)
@BOTH_WAYS
def test_a_deadline_ends_the_waiting_for_leave_to_ask(serve, run, script, options, first):
    """At once: what waits has cost nothing yet, and will not be sent."""
    server = serve(script)
    with pytest.warns(UserWarning, match="deadline"):
        scored = run(rows(3), evaluators=[judge_of(server, **options)], deadline=0.5, concurrency=1)

    assert errors(scored) == [first, DEADLINE, DEADLINE]
    assert server.calls == 1


@BOTH_WAYS
def test_a_deadline_ends_the_waiting_for_vectors(serve, run):
    """A request for many rows as one for each."""
    server = serve(refused(429, 600))
    with pytest.warns(UserWarning, match="deadline"):
        scored = run(rows(3), evaluators=[similarity_of(server)], deadline=0.5)

    assert errors(scored) == [DEADLINE] * 3


@BOTH_WAYS
def test_a_deadline_ends_retries(serve, run):
    """What is asked again and again is not asked after it."""
    server = serve(refused(503, 0.01))
    with pytest.warns(UserWarning, match="deadline"):
        scored = run(rows(2), evaluators=[judge_of(server, max_retries=MANY)], deadline=0.5)

    assert errors(scored) == [DEADLINE] * 2


@BOTH_WAYS
def test_ctrl_c_ends_the_waiting_for_leave_to_ask(serve, run):
    """The seconds of grace are for what has been sent."""
    asked = threading.Event()

    def script(request):
        asked.set()
        return refused(429, 600)

    def interrupts(output):
        assert asked.wait(LONG_S)
        threading.Event().wait(0.2)  # for the answer to arrive
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run(rows(2), evaluators=[judge_of(serve(script)), interrupts])

    assert errors(caught.value.partial) == ["skipped: not run"] * 2


def test_calls_that_nothing_ends_are_counted_by_whose_they_are(released):
    """In the error that ends the run: it is those functions that have to be mended."""

    def task(input):
        return input >= 5 or released.wait(LONG_S)

    def j(output):
        return released.wait(LONG_S)

    with pytest.raises(ef.StuckCallsError, match="8 timed-out calls") as caught:
        ef.run_experiment(
            pd.DataFrame({"input": range(8)}),
            task,
            [ef.evaluator(j, threads=8)],
            timeout=0.1,
            concurrency=8,
        )

    assert "5 of the task" in str(caught.value)
    assert "3 of evaluator 'j'" in str(caught.value)


def test_async_calls_that_nothing_ends_stop_a_run_as_well():
    """They swallow their cancellation: eight of them, and the run has what it has."""
    ends = []

    async def j(output):
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(ef.StuckCallsError, match="8 of evaluator 'j'") as caught:
        ef.run_experiment(rows(12), evaluators=[j], timeout=0.1, concurrency=8)
    for loop, end in ends:
        loop.call_soon_threadsafe(end.set)

    timed_out = [text for text in errors(caught.value.partial) if text.startswith("timeout:")]
    assert len(timed_out) == 8


@BOTH_WAYS
def test_a_blocked_task_is_left_behind_at_the_deadline(run, released, monkeypatch):
    """Its row has no output, and says why; the run does not wait for its thread."""
    for module in ("driver", "local"):
        monkeypatch.setattr(f"evalframe.engines.{module}.GRACE_S", 0.1)

    def task(input):
        return input == 0 or released.wait(LONG_S)

    with pytest.warns(UserWarning, match="deadline"):
        scored = run(pd.DataFrame({"input": range(3)}), task, deadline=0.3)

    assert pa.array(scored["task.error"]).to_pylist() == [None, DEADLINE, DEADLINE]


def test_a_call_that_blocks_the_loop_is_left_behind_after_the_deadline(released, monkeypatch):
    """With its loop: the run ends, says why, and the next one works."""
    for name in ("GRACE_S", "_STOP_SECONDS"):
        monkeypatch.setattr(f"evalframe.engines.local.{name}", 0.2)

    async def j(output):
        return released.wait(LONG_S)

    async def fine(output):
        return True

    with (
        pytest.warns(UserWarning, match="blocked the event loop"),
        pytest.warns(UserWarning, match="deadline"),
    ):
        scored = ef.run_experiment(rows(2), evaluators=[j], deadline=0.2)
    again = ef.run_experiment(rows(2), evaluators=[fine])

    assert errors(scored) == [DEADLINE] * 2
    assert again["eval.fine.score"].tolist() == [1.0, 1.0]
