"""Signals during a run: what is paid for comes into the frame, and the process does as told.

Each test is a process of its own, which sends itself the signals.
"""

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, signal, sys, threading, time
import evalframe as ef
from evalframe.testing import ChatServer, embeddings, label

way, number, times = sys.argv[1], getattr(signal, sys.argv[2]), int(sys.argv[3])
data = [{"output": f"text {n}", "dataset_output": "t", "input": n} for n in range(20)]
latency = 30 if times > 1 else 0.5
vectors = embeddings(lambda text: [1.0, float(len(text))])


def script(request):
    return vectors(request) if request.path.endswith("embeddings") else label("yes")


def send_signals(server):
    while server.most_in_flight < 1 or (way != "vectors" and server.most_in_flight < 4):
        time.sleep(0.01)
    for _ in range(times):
        os.kill(os.getpid(), number)
        time.sleep(0.3)


with ChatServer(script, latency=latency) as server:
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes"],
                        explanation=False)
    if way == "vectors":
        judge = ef.SemanticSimilarity(ef.Embedder(model, batch_size=100), name="j")
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    threading.Thread(target=send_signals, args=(server,), daemon=True).start()
    options = {"evaluators": [judge], "concurrency": 4}

    async def within():
        ef.run_experiment(data, **options)

    started = time.monotonic()
    try:
        if way == "awaited":
            asyncio.run(ef.arun_experiment(data, **options))
        elif way == "within":
            asyncio.run(within())
        else:
            ef.run_experiment(data, **options)
    except BaseException as exc:
        partial = getattr(exc, "partial", None)
        frame = ef.last_run()
        print(type(exc).__name__, getattr(exc, "code", None), partial is frame)
        print(frame["eval.j.score"].count() + frame["eval.j.label"].count(), server.calls)
        print(set(frame["eval.j.error"].dropna()))
        print(time.monotonic() - started < 10)
        print(before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)))
"""


def ended(way, number, times=1):
    """What the process said of its end."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, way, number, str(times)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


SKIPPED = "{'skipped: not run'}"


@pytest.mark.parametrize("way", ["sync", "within", "awaited"])
def test_calls_in_flight_at_ctrl_c_come_into_the_frame(way):
    """They have been paid for; nothing else is sent, and the handlers are those from before."""
    partial = "False" if way == "awaited" else "True"  # asyncio.run raises one of its own

    assert ended(way, "SIGINT") == [
        *(f"KeyboardInterrupt None {partial}", "4 4", SKIPPED, "True", "True")
    ]


@pytest.mark.parametrize("way", ["sync", "within", "awaited"])
def test_sigterm_ends_a_run_as_ctrl_c_does(way):
    """The process ends by SystemExit, with the usual status, and `.partial` is on it."""
    assert ended(way, "SIGTERM") == ["SystemExit 143 True", "4 4", SKIPPED, "True", "True"]


def test_vectors_in_flight_at_ctrl_c_come_into_the_frame():
    """A request for many rows is as good as one for each."""
    assert ended("vectors", "SIGINT")[:2] == ["KeyboardInterrupt None True", "20 1"]


@pytest.mark.parametrize("way", ["sync", "within", "awaited", "vectors"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_second_signal_ends_a_run_at_once(way, number):
    """Nobody waits for calls that take half a minute."""
    kind, scores, *rest = ended(way, number, times=2)

    assert kind.split()[0] == {"SIGINT": "KeyboardInterrupt", "SIGTERM": "SystemExit"}[number]
    assert scores.split()[0] == "0"
    assert rest == [SKIPPED, "True", "True"]


QUIET_LOOP = """
import asyncio, os, signal, threading
import evalframe as ef
from evalframe.engines import driver, local

driver.GRACE_S = local.GRACE_S = 0.1


async def waits(output):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    await asyncio.Event().wait()


async def main():
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signal.signal(signal.SIGINT, lambda *_: loop.call_soon(task.cancel))
    try:
        await ef.arun_experiment([{"output": "x"}], evaluators=[waits])
    except asyncio.CancelledError as exc:
        print(exc.partial["eval.waits.error"].tolist())


asyncio.run(main())
"""


def test_ctrl_c_wakes_a_loop_that_has_nothing_to_do():
    """A handler that leaves its work to the loop, as a notebook's does, is not left waiting."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET_LOOP],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("['skipped: not run']\n", "")
