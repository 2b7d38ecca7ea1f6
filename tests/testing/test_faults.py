"""Faults come at their rates, the same in every run; the server runs as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import evalframe
from evalframe.testing import Faults, Request, embeddings


def request_for(n, occurrence=1):
    """The request of row n."""
    body = {"messages": [{"role": "user", "content": f"Row {n}"}]}
    return Request(path="/", headers={}, body=body, time=0.0, occurrence=occurrence)


def outcome(reply):
    """The status, or that the content is no JSON."""
    if reply.status != 200:
        return reply.status
    content = reply.body["choices"][0]["message"]["content"]
    return "malformed" if content.startswith("{") else 200


def outcomes(script, rows, occurrence=1):
    """Row -> what became of it."""
    return {n: outcome(script(request_for(n, occurrence))) for n in rows}


FAULTS = Faults(rate_429=0.05, rate_500=0.02, rate_malformed=0.01, retry_after=1.5)


def test_faults_come_at_their_rates():
    """Of many requests, about the share that was asked for fails, each in its way."""
    found = Counter(outcomes(FAULTS, range(20_000)).values())

    assert {kind: round(n / 20_000, 2) for kind, n in found.items()} == {
        200: 0.92,
        429: 0.05,
        500: 0.02,
        "malformed": 0.01,
    }


def test_requests_for_embeddings_meet_faults_of_their_own():
    """By their texts, as others by their messages."""
    script = Faults(rate_500=0.5, otherwise=embeddings(lambda text: [float(len(text))]))
    found = [
        script(Request(path="/", headers={}, body={"input": [f"text {n}"]}, time=0.0)).status
        for n in range(1_000)
    ]

    assert 400 < found.count(500) < 600
    assert found.count(200) + found.count(500) == 1_000


def test_faults_do_not_depend_on_the_order_of_requests():
    """A row meets its fault whenever it comes; a seed makes other rows meet them."""
    forwards = outcomes(FAULTS, range(500))

    assert outcomes(FAULTS, reversed(range(500))) == forwards
    assert outcomes(Faults(rate_429=0.05, seed=1), range(500)) != forwards


def test_request_that_comes_again_is_drawn_again():
    """A row that was refused is not refused for ever."""
    refused = [n for n, found in outcomes(FAULTS, range(500)).items() if found == 429]
    again = outcomes(FAULTS, refused, occurrence=2)

    assert refused
    assert sum(found == 429 for found in again.values()) < len(refused) / 2


def test_refusal_says_how_long_to_wait():
    """The header of a refusal is the number that was given."""
    assert Faults(rate_429=1.0, retry_after=1.5)(request_for(0)).headers == {"Retry-After": "1.5"}


@pytest.mark.skipif(sys.platform == "win32", reason="ends by a POSIX signal")
def test_server_runs_as_a_process():
    """It says where it listens, counts, and ends well when it is told to."""
    where = str(Path(evalframe.__file__).parents[1])
    command = [sys.executable, "-m", "evalframe.testing", "--rate-500", "1", "--latency", "0.001"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": where}
    ) as process:
        base_url = process.stdout.readline().strip()
        with pytest.raises(HTTPError, match="500") as raised:
            urlopen(f"{base_url}/chat/completions", b"{}")  # noqa: S310 - loopback
        raised.value.close()
        with urlopen(f"{base_url.removesuffix('/v1')}/stats") as response:  # noqa: S310
            counts = json.load(response)
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
    assert counts["outcomes"] == {"500": 1}
