"""Signals during a run: what is paid for comes into the frame, and the process does as told.

For each signal, once and twice, there is a process, which sends it to itself in one run after the
other.
"""

import functools
import json
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, json, os, signal, sys, threading, time
import evalframe as ef
from evalframe.testing import ChatServer, embeddings, label

number, times = getattr(signal, sys.argv[1]), int(sys.argv[2])
data = [{"output": f"text {n}", "dataset_output": "t", "input": n} for n in range(20)]
latency = 30 if times > 1 else 0.8
vectors = embeddings(lambda text: [1.0, float(len(text))])


def script(request):
    return vectors(request) if request.path.endswith("embeddings") else label("yes")


def send_signals(server, way, sent):
    while server.most_in_flight < 1 or (way != "vectors" and server.most_in_flight < 4):
        time.sleep(0.01)
    for _ in range(times):
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)
        time.sleep(0.3)


def run(server, way):
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes"],
                        explanation=False)
    if way == "vectors":
        judge = ef.SemanticSimilarity(ef.Embedder(model, batch_size=100), name="j")
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    sent = []
    sender = threading.Thread(target=send_signals, args=(server, way, sent))
    sender.start()
    options = {"evaluators": [judge], "concurrency": 4}

    async def within():
        ef.run_experiment(data, **options)

    try:
        if way == "awaited":
            asyncio.run(ef.arun_experiment(data, **options))
        elif way == "within":
            asyncio.run(within())
        else:
            ef.run_experiment(data, **options)
    except BaseException as exc:
        ended = time.monotonic()
        sender.join()
        partial = getattr(exc, "partial", None)
        frame = ef.last_run()
        return [
            [type(exc).__name__, getattr(exc, "code", None), partial is frame],
            [int(frame["eval.j.score"].count() + frame["eval.j.label"].count()), server.calls],
            sorted(set(frame["eval.j.error"].dropna())),
            ended - sent[-1] < 10,
            before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)),
        ]


found = {}
for way in ("sync", "within", "awaited", "vectors"):
    with ChatServer(script, latency=latency) as server:
        found[way] = run(server, way)
print(json.dumps(found))
"""


@functools.cache
def ended(number, times=1):
    """What a process said of the end of its runs: of the way in which each was made."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, number, str(times)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


SKIPPED = ["skipped: not run"]


@pytest.mark.parametrize("way", ["sync", "within", "awaited"])
def test_calls_in_flight_at_ctrl_c_come_into_the_frame(way):
    """They have been paid for; nothing else is sent, and the handlers are those from before."""
    partial = way != "awaited"  # asyncio.run raises one of its own

    assert ended("SIGINT")[way] == [
        *(["KeyboardInterrupt", None, partial], [4, 4], SKIPPED, True, True)
    ]


@pytest.mark.parametrize("way", ["sync", "within", "awaited"])
def test_sigterm_ends_a_run_as_ctrl_c_does(way):
    """The process ends by SystemExit, with the usual status, and `.partial` is on it."""
    assert ended("SIGTERM")[way] == [["SystemExit", 143, True], [4, 4], SKIPPED, True, True]


def test_vectors_in_flight_at_ctrl_c_come_into_the_frame():
    """A request for many rows is as good as one for each."""
    assert ended("SIGINT")["vectors"][:2] == [["KeyboardInterrupt", None, True], [20, 1]]


@pytest.mark.parametrize("way", ["sync", "within", "awaited", "vectors"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_second_signal_ends_a_run_at_once(way, number):
    """Nobody waits for calls that take half a minute."""
    kind, scores, *rest = ended(number, times=2)[way]

    assert kind[0] == {"SIGINT": "KeyboardInterrupt", "SIGTERM": "SystemExit"}[number]
    assert scores[0] == 0
    assert rest == [SKIPPED, True, True]


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
