"""What is in a `run_dir` when a process is killed, or its disk is full."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

import evalframe as ef
from evalframe.results.journal_reader import JournalReader
from evalframe.testing import label

SCRIPT = """
import asyncio, os, sys, time
import evalframe as ef

folder, rows = sys.argv[1], int(sys.argv[2])


def said(*what):
    os.write(1, (" ".join(what) + "\\n").encode())  # whole, whichever thread says it


def task(input):
    time.sleep(0.005)
    said("task", input)
    return f"out {input}"


async def waits(output):
    await asyncio.sleep(0.005)
    said("waits", output)
    return f"label of {output}", len(output) / 100


@ef.evaluator(threads=2)
def threaded(output):
    time.sleep(0.002)
    said("threaded", output)
    if output.endswith("3"):
        raise ValueError(output)
    return output.endswith("7")


@ef.evaluator(vectorized=True)
def whole(output):
    return output.str.len() / len(output)


scored = ef.run_experiment([{"input": str(n)} for n in range(rows)], task,
                           [waits, threaded, whole], run_dir=folder, concurrency=4, progress=False)
scored.evals.to_parquet(folder + ".parquet")
"""


def process(*arguments):
    """A run in a process of its own, which says what it has finished."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def said_by(running, lines=None, number="SIGKILL"):
    """All that a process says, which gets a signal when it has said so many lines."""
    found = []
    for line in running.stdout:
        found.append(line.strip())
        if len(found) == lines:
            running.send_signal(getattr(signal, number))
    running.stdout.close()
    return found, running.wait()


def test_kill_9_costs_what_was_in_flight_and_no_more(tmp_path):
    """However often: the frame at the end is that of a run that nobody has disturbed."""
    said, folder, rows = [], tmp_path / "killed", 80
    for lines in (60, 100):
        found, status = said_by(process(folder, rows), lines)
        assert status != 0
        said += found
    last, status = said_by(process(folder, rows))
    said += last
    whole, _ = said_by(process(tmp_path / "whole", rows))

    frames = [ef.read_parquet(tmp_path / f"{name}.parquet") for name in ("killed", "whole")]
    assert status == 0
    assert set(said) == set(whole)
    # At each of the two kills, of each of three kinds, at most the calls at once.
    assert len(said) - len(set(said)) <= 2 * 3 * 4
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_that_leaves_time_costs_no_call_at_all(tmp_path, number):
    """What is in flight ends, and is on disk before the process does."""
    first, status = said_by(process(tmp_path / "run", 60), 40, number)
    rest, ended = said_by(process(tmp_path / "run", 60))

    kinds = [line.split()[0] for line in first + rest]
    assert status != 0
    assert ended == 0
    assert len(set(first + rest)) == len(first + rest)
    assert {kind: kinds.count(kind) for kind in kinds} == {"task": 60, "waits": 60, "threaded": 60}


def judge_of(server, *, explanation=False):
    """A judge of the server's with a price."""
    price = {"input": 1.0, "cached_input": 1.0, "output": 1.0}
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0, price=price)
    return ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes"],
                       explanation=explanation)  # fmt: skip


JUDGED = """
import sys
import evalframe as ef
price = {"input": 1.0, "cached_input": 1.0, "output": 1.0}
model = ef.Model("local/m", base_url=sys.argv[1], max_retries=0, price=price)
judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes"],
                    explanation=False)
ef.run_experiment([{"output": str(n)} for n in range(200)], evaluators=[judge],
                  run_dir=sys.argv[2], concurrency=2, progress=False)
"""


def when(condition):
    """Wait until it holds."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.01)


def record_of(folder):
    """What run.json says."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads((folder / "run.json").read_text("utf-8"))
    return {"usage": {}, "tracebacks": {}}


def test_what_a_killed_run_has_paid_is_counted_in_the_end(tmp_path, serve):
    """All but its last two seconds; no reply is asked for twice but those in flight."""
    server, folder = serve(label("yes"), latency=0.03), tmp_path / "run"
    running = subprocess.Popen([sys.executable, "-c", JUDGED, server.base_url, str(folder)])
    when(lambda: record_of(folder)["usage"])
    running.kill()
    running.wait()
    saved, asked = record_of(folder)["usage"]["j"]["calls"], server.calls
    data = pd.DataFrame({"output": [str(n) for n in range(200)]})
    with pytest.warns(UserWarning, match="finished before, and not run again"):
        scored = ef.run_experiment(data, evaluators=[judge_of(server)], run_dir=folder)

    spent, told = scored.evals.usage().iloc[0], scored.evals.explain("j")
    again = server.calls - asked
    assert saved > 0
    assert asked + again <= 200 + 2
    assert spent["calls"] == told["calls"] == saved + again
    assert spent["cost"] == pytest.approx(
        (spent["prompt_tokens"] + spent["completion_tokens"]) / 1e6
    )
    assert record_of(folder)["usage"]["j"]["calls"] == saved + again


FAILS = """
import sys, time
import evalframe as ef

def f(output):
    if output == 0:
        raise KeyError("x")
    time.sleep(0.02)
    return True

scored = ef.run_experiment([{"output": n} for n in range(int(sys.argv[2]))], evaluators=[f],
                           run_dir=sys.argv[1], progress=False)
print(scored.evals.failures()["traceback"].tolist())
"""


def test_h53_the_traceback_of_a_killed_run_is_reachable_in_the_end(tmp_path):
    """A run that asks no model saves it as well, and a second kill does not lose it."""
    folder = tmp_path / "run"
    script = [sys.executable, "-W", "ignore", "-c", FAILS, str(folder)]

    def killed(condition):
        running = subprocess.Popen([*script, "1000"])
        when(condition)
        running.kill()
        running.wait()

    killed(lambda: record_of(folder)["tracebacks"])
    began = record_of(folder)["started"]
    killed(lambda: record_of(folder)["started"] != began)
    done = subprocess.run([*script, "40"], check=True, capture_output=True, text=True)

    assert "line 7, in f" in done.stdout


@contextlib.contextmanager
def little_room(size):
    """No file can grow beyond so many bytes: to a program, a disk that is full."""
    resource = pytest.importorskip("resource", reason="needs resource limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


LONG = "e" * 2_000
ROWS = pd.DataFrame({"input": [str(n) for n in range(100)]})


def evaluator_of(lane, calls):
    """An evaluator with much to say."""

    def verdict(input):
        calls.append(input)
        return f"label of {input}", 0.5, LONG

    async def awaited(input):
        return verdict(input)

    options = {"name": "f", "version": "1"}
    if lane == "async":
        return ef.evaluator(awaited, **options)
    if lane == "vectorized":
        return ef.evaluator(lambda input: list(map(verdict, input)), vectorized=True, **options)
    return ef.evaluator(verdict, **options, threads=1 if lane == "threads" else None)


def awaited(*arguments, **options):
    """A run on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*arguments, **options))


@pytest.mark.parametrize("lane", ["by-row", "async", "threads"])
@pytest.mark.parametrize("run", [ef.run_experiment, awaited], ids=["sync", "awaited"])
@pytest.mark.filterwarnings("ignore:run_dir=.*finished before")
def test_a_full_disk_ends_a_run_and_names_what_is_safe(tmp_path, lane, run):
    """`.partial` has all that is finished; after room is made only what is not safe runs again."""
    calls = []
    options = {"evaluators": [evaluator_of(lane, calls)], "run_dir": tmp_path, "concurrency": 2}
    with little_room(100_000), pytest.raises(ef.JournalError, match="Make room") as caught:
        run(ROWS, **options)
    safe, partial, first = caught.value.safe["f"], caught.value.partial, len(calls)
    whole = run(ROWS, **options)

    made = partial["eval.f.score"].notna()
    assert len(partial) == 100
    assert 0 <= safe < 50
    assert safe <= made.sum() <= first
    assert set(partial["eval.f.error"][~made]) <= {"skipped: not run"}
    assert len(calls) - first == 100 - safe
    assert whole["eval.f.label"].tolist() == [f"label of {n}" for n in range(100)]


def test_a_task_on_a_full_disk_ends_with_its_calls(tmp_path):
    """What was paid for and safe is not paid for again."""
    calls = []

    @ef.task(version="1")
    async def task(input):
        calls.append(input)
        return input + LONG

    with little_room(100_000), pytest.raises(ef.JournalError, match="task ") as caught:
        ef.run_experiment(ROWS, task, run_dir=tmp_path, concurrency=2)
    safe, first = caught.value.safe[None], len(calls)
    with pytest.warns(UserWarning, match=f"not run again: {safe} of 100 task outputs"):
        whole = ef.run_experiment(ROWS, task, run_dir=tmp_path, concurrency=2)

    assert 0 < safe <= first < 100
    assert len(calls) - first == 100 - safe
    assert whole["output"].tolist() == [text + LONG for text in ROWS["input"]]


@pytest.mark.parametrize("lane", ["by-row", "vectorized"])
def test_a_disk_that_fails_at_the_very_end_costs_no_result(tmp_path, lane):
    """By row the frame is whole, and one warning says that the disk is not."""
    calls, few = [], ROWS.head(40)
    options = {"evaluators": [evaluator_of(lane, calls)], "run_dir": tmp_path}
    if lane == "by-row":
        with little_room(50_000), pytest.warns(UserWarning, match="whole in its frame, but not on"):
            scored = ef.run_experiment(few, **options)
    else:
        with little_room(50_000), pytest.raises(ef.JournalError, match="Make room") as caught:
            ef.run_experiment(few, **options)
        scored = caught.value.partial
    again = ef.run_experiment(few, **options)

    assert scored["eval.f.label"].tolist() == [f"label of {n}" for n in range(40)]
    pd.testing.assert_frame_equal(again, scored)
    assert len(calls) == 80


def test_a_folder_is_free_again_where_its_record_could_not_be_written(tmp_path):
    """The next call is not told that this process is still using it."""
    calls, few = [], ROWS.head(4)
    options = {"evaluators": [evaluator_of("by-row", calls)], "run_dir": tmp_path}
    with little_room(50_000), pytest.raises(ef.RunDirError, match="must be a folder that can"):
        ef.run_experiment(few, experiment_name="n" * 100_000, **options)
    assert calls == []
    ef.run_experiment(few, **options)

    assert len(calls) == 4


def test_a_record_that_cannot_be_saved_meanwhile_ends_nothing(tmp_path, caplog):
    """Results are worth more than what is told of them, and the record is whole in the end."""
    record = tmp_path / "run.json"

    @ef.evaluator(version="1")
    async def f(output):
        record.unlink()
        record.mkdir()
        await asyncio.sleep(3.2)  # two seconds after its start the run saves what it has cost
        record.rmdir()
        return True

    ef.run_experiment([{"output": "a"}], evaluators=[f], run_dir=tmp_path)

    assert caplog.records == []
    assert record_of(tmp_path)["evaluators"]["f"]["counts"]["n_valid"] == 1


def test_calls_in_flight_when_the_disk_fills_come_into_the_frame(tmp_path, serve):
    """They have been paid for; the reply cache, which is full as well, ends nothing."""

    def script(request):
        return label("yes", explanation=LONG, delay=1.0 if request.prompt == "0" else 0.0)

    server = serve(script)
    few = pd.DataFrame({"output": [str(n) for n in range(100)]})
    options = {"evaluators": [judge_of(server, explanation=True)], "run_dir": tmp_path}
    with little_room(60_000), pytest.raises(ef.JournalError) as caught:
        ef.run_experiment(few, concurrency=3, **options)
    partial, safe = caught.value.partial, caught.value.safe["j"]
    with pytest.warns(UserWarning, match=f"{safe} of 100 cells of 'j'"):
        ef.run_experiment(few, **options)

    assert partial["eval.j.label"][0] == "yes"
    assert 0 < safe <= partial["eval.j.label"].count() < 100
    assert server.calls <= 100 + partial["eval.j.label"].count() - safe


def test_the_cell_of_a_slow_function_does_not_wait_for_the_next_one(tmp_path):
    """Plain functions may be slow, too, and a kill is to cost only the call that was running."""
    there = []

    def slow(input):
        there.append(len(JournalReader(tmp_path / "journal", {"slow": {}}).cells("slow")))
        threading.Event().wait(0.06)
        return True

    evaluator = ef.evaluator(slow, version="1")
    ef.run_experiment(ROWS.head(4), evaluators=[evaluator], run_dir=tmp_path)

    assert there == [0, 1, 2, 3]
