"""Interrupting a notebook's cell: what is paid for is there in the next one, and the kernel lives.

Each test has a kernel of its own, as Jupyter starts it, whose cells ask a server in the test's
process. The server says when the calls are in flight, and the test then interrupts the kernel.

Rows 0-3 are answered at once; rows 4-7 are those in flight, of which each test says what
becomes of them; later rows, and all that are asked again, are answered at once.
"""

import json
import os
import threading
import time
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

import evalframe
from evalframe.testing import label, never

pytestmark = pytest.mark.notebook

ROWS = 20
IN_FLIGHT = range(4, 8)
GRACE_S = 5.0
WAIT_S = 60.0
NOT_RUN = "skipped: not run"

FIRST_CELL = """
import asyncio, json, signal
import evalframe as ef

judge = ef.LLMJudge(
    "j",
    model=ef.Model("local/m", base_url={address!r}, max_retries=0),
    prompt="{{{{ item.output }}}}",
    choices=["yes"],
    explanation=False,
)
data = [{{"output": f"text {{n}}"}} for n in range({rows})]
handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def columns(frame):
    cells = frame[["eval.j.label", "eval.j.error"]].astype(object)
    return cells.where(cells.notna(), None).T.to_numpy().tolist()
"""

KEEPING = """
try:
    {run}
except BaseException as exc:
    stopped = exc
    raise
"""
SYNC = KEEPING.format(run="ef.run_experiment(data, evaluators=[judge], concurrency=4)")
AWAITED = KEEPING.format(run="await ef.arun_experiment(data, evaluators=[judge], concurrency=4)")

# What stops an async cell is ipykernel, by cancelling it.
EVERY_WAY = pytest.mark.parametrize(
    ("cell", "raised"),
    [
        pytest.param(SYNC, "KeyboardInterrupt", id="sync"),
        pytest.param(AWAITED, "CancelledError", id="awaited"),
        pytest.param(f"await asyncio.sleep(0)\n{SYNC}", "KeyboardInterrupt", id="sync-in-async"),
    ],
)


class Notebook:
    """A kernel: cells go in, what they print and what they raise comes out."""

    def __init__(self, manager, client):
        self.manager = manager
        self.client = client

    def begin(self, cell):
        """Start a cell; what `end` is to be given."""
        return self.client.execute(cell)

    def end(self, cell):
        """(printed, name of the exception or None) of a cell, once it has ended."""
        printed, raised = "", None
        while True:
            message = self.client.get_iopub_msg(timeout=WAIT_S)
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                printed += content["text"]
            elif kind == "error":
                raised = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, raised

    def value(self, cell, expression):
        """What the expression is after the lines of a cell that raises nothing."""
        printed, raised = self.end(self.begin(f"{cell}\nprint(json.dumps({expression}))"))
        assert raised is None
        return json.loads(printed)


@pytest.fixture
def notebook(tmp_path):
    """A notebook in which nothing has run; the kernel imports the suite's own package."""
    path = [str(Path(evalframe.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path).rstrip(os.pathsep)},
    )
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT_S)
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def interrupted(notebook, serve):
    """Interrupt a cell when rows 4-7 are in flight; (server, what it raised, seconds to its end).

    `interrupted(cell, replies, times=1)`: the replies are those to rows 4-7.
    """

    def interrupt(cell, replies, times=1):
        arrived, begun = set(), threading.Event()

        def script(request):
            row = int(request.prompt.split()[1])
            if request.occurrence > 1 or row not in IN_FLIGHT:
                return label("yes")
            arrived.add(row)
            if len(arrived) == len(IN_FLIGHT):
                begun.set()
            return replies[row - IN_FLIGHT.start]

        server = serve(script)
        notebook.end(notebook.begin(FIRST_CELL.format(address=server.base_url, rows=ROWS)))
        running = notebook.begin(cell)
        assert begun.wait(WAIT_S)
        notebook.manager.interrupt_kernel()
        for _ in range(times - 1):
            threading.Event().wait(0.5)  # two signals at once may arrive as one
            notebook.manager.interrupt_kernel()
        started = time.monotonic()
        _, raised = notebook.end(running)
        return server, raised, time.monotonic() - started

    return interrupt


def finished(count):
    """Label and error column where the first so many rows are finished, and no other is."""
    labels = ["yes"] * count + [None] * (ROWS - count)
    return [labels, [None] * count + [NOT_RUN] * (ROWS - count)]


SOON = label("yes", delay=1.0)


@EVERY_WAY
def test_an_interrupted_cell_keeps_what_was_in_flight(notebook, interrupted, cell, raised):
    """It has been paid for; nothing more is sent, and the frame is there in the next cell."""
    server, stopped_by, _ = interrupted(cell, [SOON] * 4)

    assert stopped_by == raised
    assert server.calls == 8
    assert notebook.value("", "[stopped.partial is ef.last_run(), columns(ef.last_run())]") == [
        *(True, finished(8))
    ]


@pytest.mark.parametrize("cell", [SYNC, AWAITED], ids=["sync", "awaited"])
def test_an_interrupted_cell_waits_for_five_seconds_only(notebook, interrupted, cell):
    """What has not been answered in them is not run; what was answered is kept."""
    _, _, seconds = interrupted(cell, [SOON, SOON, SOON, never()])

    assert GRACE_S - 0.5 < seconds < 2 * GRACE_S
    assert notebook.value("", "columns(ef.last_run())") == finished(7)


@EVERY_WAY
def test_a_second_interrupt_ends_a_cell_at_once(notebook, interrupted, cell, raised):
    """What was finished before is kept, and the kernel has its own signal handlers again."""
    _, stopped_by, seconds = interrupted(cell, [never()] * 4, times=2)
    now = "[signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]"

    assert stopped_by == raised
    assert seconds < GRACE_S / 2
    assert notebook.value("", f"[columns(ef.last_run()), handlers == {now}]") == [finished(4), True]


@EVERY_WAY
def test_the_next_cell_runs_what_the_interrupt_has_left(notebook, interrupted, cell, raised):
    """No row is paid for twice; and both ways to run work in the kernel as before."""
    server, _, _ = interrupted(cell, [SOON] * 4)
    rest = "rest = ef.last_run().pipe(ef.run_experiment, evaluators=[judge], only='missing')"
    anew = "anew = await ef.arun_experiment(data, evaluators=[judge])"

    assert notebook.value(rest, "columns(rest)") == finished(ROWS)
    assert server.calls == ROWS
    assert notebook.value(anew, "columns(anew)") == finished(ROWS)
