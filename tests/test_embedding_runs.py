"""Runs that embed: what is sent, what is kept, what it cost, and what becomes of failures.

The servers are real ones on loopback; a text's vector is that of VECTORS unless said otherwise.
"""

import asyncio
import contextvars
import math
import sqlite3
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import Faults, embeddings, error, garbage, hang_up, label, torn

# Room for differences of float32 only.
CLOSE = 1e-6


def vector_of(text):
    """Equal for equal texts only, and of no particular length."""
    return [float(ord(text[0])), float(len(text)), float(sum(map(ord, text)))]


VECTORS = embeddings(vector_of)


def cosine(a, b):
    """By its definition, in plain Python."""
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(math.fsum(x * x for x in a)) / math.sqrt(math.fsum(y * y for y in b))


def similar(server, *, name=None, batch_size=None, dimensions=None, **options):
    """The evaluator on a server's model."""
    model = ef.Model("local/m", base_url=server.base_url, **{"max_retries": 0, **options})
    embedder = ef.Embedder(model, batch_size=batch_size, dimensions=dimensions)
    return ef.SemanticSimilarity(embedder, name=name)


def frame(outputs, references):
    """One row for each pair."""
    return pd.DataFrame({"output": outputs, "dataset_output": references}, dtype=object)


def scores_and_errors(scored, name="semantic_similarity"):
    """Per row the score, or the error."""
    cells = scored.evals[name][["score", "error"]].to_numpy(dtype=object)
    return [score if pd.isna(why) else why for score, why in cells]


def sent(server):
    """All texts, in the order in which they came."""
    return [text for request in server.requests for text in request.texts]


def usage_of(scored, name="semantic_similarity"):
    """What the evaluator has cost."""
    return scored.evals.usage().set_index("evaluator").loc[name].to_dict()


def test_h49_blank_text_is_skipped_and_never_sent(serve):
    """A server that refuses a batch for one blank text costs no row its score."""

    def script(request):
        blank = any(not text.strip() for text in request.texts)
        return error(400, "input cannot be blank") if blank else VECTORS(request)

    server = serve(script)
    rows = frame(["hello", "", "   "], ["hello"] * 3)

    scored = ef.run_experiment(rows, evaluators=[similar(server)])

    assert scores_and_errors(scored) == [1.0, "skipped: empty text", "skipped: empty text"]
    assert sent(server) == ["hello"]


def test_h50_vectors_of_any_length_are_compared_by_direction(serve):
    """Never outside [0, 1]; the extra `cosine` is not clipped; a zero vector is skipped."""
    given = [((3, 4), (6, 8)), ((1, 0), (0, 5)), ((2, 0), (-7, 0)), ((0, 0), (1, 0))]
    table = {
        f"{side}{row}": pair[i] for row, pair in enumerate(given) for i, side in enumerate("ab")
    }
    server = serve(embeddings(table))
    rows = frame([f"a{row}" for row in range(4)], [f"b{row}" for row in range(4)])

    scored = ef.run_experiment(rows, evaluators=[similar(server)])

    skipped = "skipped: zero vector: it has no direction to compare"
    assert scores_and_errors(scored) == [1.0, 0.0, 0.0, skipped]
    assert scored["eval.semantic_similarity.cosine"].tolist()[:3] == [1.0, 0.0, -1.0]


def test_scores_are_the_cosines_of_the_servers_vectors(serve):
    """Against the definition; sent as base64 or as numbers."""
    pairs = [("apple", "pear"), ("a", "zebra"), ("x", "x"), ("long " * 50, "short")]
    expected = [cosine(vector_of(a), vector_of(b)) for a, b in pairs]

    for script in (VECTORS, embeddings(vector_of, as_numbers=True)):
        scored = ef.run_experiment(
            frame(*zip(*pairs, strict=True)), evaluators=[similar(serve(script))]
        )
        assert scores_and_errors(scored) == pytest.approx(expected, abs=CLOSE)


def test_each_text_is_sent_once(serve):
    """Over rows, sides, references and evaluators of one run."""
    server = serve(VECTORS)
    rows = frame(["a", "b", "a", "c"], ["b", "b", ["a", "d"], "c"])

    scored = ef.run_experiment(
        rows, evaluators=[similar(server), similar(server, name="again", batch_size=3)]
    )

    assert sorted(sent(server)) == ["a", "b", "c", "d"]
    assert usage_of(scored)["cells"] == usage_of(scored, "again")["cells"] == 4
    assert (usage_of(scored)["calls"], usage_of(scored, "again")["calls"]) == (1, 0)
    # The third row needed "d", the first "a" and "b", the fourth "c".
    assert (usage_of(scored)["shared"], usage_of(scored, "again")["shared"]) == (1, 4)


@pytest.mark.parametrize("batch_size", [1, 4, 7])
def test_batches_hold_no_more_texts_than_was_said(serve, batch_size):
    """And no fewer, but for the last."""
    server = serve(VECTORS)
    texts = [f"text {number}" for number in range(10)]

    ef.run_experiment(frame(texts, texts), evaluators=[similar(server, batch_size=batch_size)])

    sizes = sorted((len(request.texts) for request in server.requests), reverse=True)
    full, rest = divmod(10, batch_size)
    assert sizes == [batch_size] * full + ([rest] if rest else [])


def test_long_texts_get_requests_of_their_own(serve):
    """A request holds at most some 16,000 tokens, or one text."""
    server = serve(VECTORS)
    texts = [letter * 40_000 for letter in "abc"] + ["d" * 90_000, "e"]

    ef.run_experiment(frame(texts, texts), evaluators=[similar(server)])

    assert sorted(len(request.texts) for request in server.requests) == [1, 1, 1, 2]


def test_batches_are_in_flight_together_up_to_the_concurrency(serve):
    """Of the run."""
    server = serve(VECTORS, latency=0.05)
    texts = [f"text {number}" for number in range(12)]

    ef.run_experiment(
        frame(texts, texts), evaluators=[similar(server, batch_size=1)], concurrency=4
    )

    assert server.most_in_flight == 4


def test_more_texts_than_a_block_holds_are_all_compared(serve):
    """In blocks of bounded size; a text of an earlier block is not sent again."""
    server = serve(VECTORS)
    texts = [f"text {number}" for number in range(9_000)]
    references = [f"reference {number % 3}" for number in range(9_000)]

    scored = ef.run_experiment(frame(texts, references), evaluators=[similar(server)])

    expected = [cosine(vector_of(a), vector_of(b)) for a, b in zip(texts, references, strict=True)]
    assert scores_and_errors(scored) == pytest.approx(expected, abs=CLOSE)
    assert len(sent(server)) == 9_003
    assert usage_of(scored)["shared"] == 0


def test_vectors_of_a_long_run_are_not_all_in_memory():
    """80 MB of them here, of which no more than two blocks' are held at once."""
    numbers = np.random.default_rng(0).normal(size=(128, 1024)).astype(np.float32)
    texts = [f"text {number}" for number in range(20_000)]
    rows = pd.DataFrame({"output": texts, "dataset_output": "reference"})
    similarity = ef.SemanticSimilarity(lambda batch: numbers[: len(batch)])

    tracemalloc.start()
    try:
        scored = ef.run_experiment(rows, evaluators=[similarity])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert scored["eval.semantic_similarity.score"].count() == 20_000
    assert peak < 60e6


def test_dimensions_are_asked_for(serve):
    """Only where they were given."""
    server = serve(VECTORS)
    rows = frame(["a"], ["b"])

    ef.run_experiment(rows, evaluators=[similar(server), similar(server, name="n", dimensions=3)])

    assert [request.body.get("dimensions") for request in server.requests] == [None, 3]


@pytest.mark.parametrize(
    ("price", "cost"), [(None, None), ({"input": 2.0}, 40e-6)], ids=["no-price", "price"]
)
def test_usage_counts_tokens_and_cost(serve, price, cost):
    """As the server counted them; an embedding has no completion."""
    server = serve(embeddings(vector_of, usage={"prompt_tokens": 10}))
    rows = frame(["a", "b", None, "", "a"], ["c", "d", "c", "c", "c"])

    scored = ef.run_experiment(rows, evaluators=[similar(server, batch_size=2, price=price)])

    found = usage_of(scored)
    assert found.pop("cost") == pytest.approx(cost) if price else pd.isna(found.pop("cost"))
    assert found == {
        "cells": 3,
        "calls": 2,
        "cached": 0,
        "shared": 1,
        "reasked": 0,
        "prompt_tokens": 20,
        "completion_tokens": 0,
        "cached_tokens": 0,
        "models": "m",
    }


def test_details_add_the_latency_and_no_share_of_the_cost(serve):
    """What a request cost belongs to no single row."""
    scored = ef.run_experiment(
        frame(["a"], ["b"]), evaluators=[similar(serve(VECTORS))], details=True
    )

    own = [name.rpartition(".")[2] for name in scored.columns[2:]]
    five = ["label", "score", "explanation", "metadata", "error"]
    assert own == [*five, "cosine", "latency_s", "fingerprint"]


def test_second_run_takes_all_from_the_cache(serve, tmp_path):
    """No request, the same scores."""
    server, cache = serve(VECTORS), tmp_path / "cache.sqlite"
    rows = frame(["a", "b", "a"], ["c", "d", "c"])

    first = ef.run_experiment(rows, evaluators=[similar(server)], cache=cache)
    calls = server.calls
    second = ef.run_experiment(rows, evaluators=[similar(server)], cache=cache)

    assert server.calls == calls == 1
    assert scores_and_errors(second) == scores_and_errors(first)
    assert usage_of(second) | {"cells": 3, "cached": 3, "shared": 0, "calls": 0} == usage_of(second)
    assert usage_of(first)["cached"] == 0


def test_cached_vectors_are_those_of_the_same_model_and_dimensions(serve, tmp_path):
    """Another model's say nothing about this one."""
    server, cache = serve(VECTORS), tmp_path / "cache.sqlite"
    rows = frame(["a"], ["b"])
    other = ef.Model("local/other", base_url=server.base_url)

    for evaluator in (
        similar(server),
        similar(server, dimensions=3),
        ef.SemanticSimilarity(other),
        similar(server, batch_size=1, timeout=5.0),
    ):
        ef.run_experiment(rows, evaluators=[evaluator], cache=cache)

    assert server.calls == 3


def test_what_is_in_the_cache_is_there_when_the_server_is_not(serve, tmp_path):
    """A row whose texts are both known has its score, also in a run that a failure ends."""
    failing = threading.Event()

    def script(request):
        return error(401, "no") if failing.is_set() else VECTORS(request)

    server, cache = serve(script), tmp_path / "cache.sqlite"
    ef.run_experiment(frame(["a"], ["b"]), evaluators=[similar(server)], cache=cache)
    failing.set()

    with pytest.raises(ef.CellError, match="auth: HTTP 401: no"):
        ef.run_experiment(
            frame(["a", "x"], ["b", "b"]),
            evaluators=[similar(server)],
            cache=cache,
            errors="raise",
        )

    assert scores_and_errors(ef.last_run())[0] == pytest.approx(
        cosine(vector_of("a"), vector_of("b")), abs=CLOSE
    )


def test_cache_that_fails_costs_no_row(serve, tmp_path):
    """It is told of once; the run goes on without it."""
    server, cache = serve(VECTORS), tmp_path / "cache.sqlite"
    ef.run_experiment(frame(["a"], ["b"]), evaluators=[similar(server)], cache=cache)
    with sqlite3.connect(cache) as db:
        db.execute("DROP TABLE vectors")
        db.execute("CREATE TABLE vectors (other TEXT)")
    db.close()

    with pytest.warns(UserWarning, match="cannot be used") as told:
        scored = ef.run_experiment(frame(["a"], ["a"]), evaluators=[similar(server)], cache=cache)

    assert scores_and_errors(scored) == [1.0]
    assert len(told) == 1


# Failures.


@pytest.mark.parametrize(
    ("script", "match"),
    [
        pytest.param(error(500, "oh"), "server_error: HTTP 500: oh", id="500"),
        pytest.param(garbage(), "server_error: the server answered what is no list", id="garbage"),
        pytest.param(torn(), "connection: ", id="torn"),
        pytest.param(hang_up(), "connection: ", id="hang-up"),
        pytest.param(error(404, "no such model"), "bad_request: HTTP 404: no such", id="404"),
    ],
)
def test_failed_batch_fails_its_rows_with_the_kind_of_the_failure(serve, script, match):
    """And no others."""

    def answer(request):
        return script if "bad" in request.texts else VECTORS(request)

    server = serve(answer)
    rows = frame(["a", "bad", "c"], ["a", "b", "c"])

    scored = ef.run_experiment(rows, evaluators=[similar(server, batch_size=1)], concurrency=1)

    found = scores_and_errors(scored)
    assert found[1].startswith(match)
    assert [found[0], found[2]] == [1.0, 1.0]


@pytest.mark.parametrize("status", [429, 500])
def test_failure_that_passes_costs_no_row(serve, status):
    """It is asked again, as for judges."""
    headers = {"Retry-After": "0.01"}
    server = serve(
        lambda request: (
            error(status, "later", headers=headers) if request.occurrence == 1 else VECTORS(request)
        )
    )

    scored = ef.run_experiment(frame(["a"], ["b"]), evaluators=[similar(server, max_retries=1)])

    assert scores_and_errors(scored) == pytest.approx([cosine(vector_of("a"), vector_of("b"))])
    assert server.calls == 2


def test_faults_that_pass_leave_every_row_scored(serve):
    """Refusals and errors of a bad day, on many batches at once."""
    # By this seed no batch meets two errors, after which it would wait for seconds.
    faults = Faults(rate_429=0.3, rate_500=0.2, retry_after=0.01, seed=14, otherwise=VECTORS)
    server = serve(faults)
    texts = [f"text {number}" for number in range(40)]

    scored = ef.run_experiment(
        frame(texts, texts), evaluators=[similar(server, batch_size=2, max_retries=20)]
    )

    assert scores_and_errors(scored) == [1.0] * 40
    assert set(server.stats()["outcomes"]) == {"200", "429", "500"}
    assert usage_of(scored)["calls"] == 20


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        pytest.param(error(401, "wrong key"), "auth: HTTP 401: wrong key", id="auth"),
        pytest.param(
            error(429, "empty", code="insufficient_quota"), "quota: HTTP 429: empty", id="quota"
        ),
    ],
)
def test_refusal_of_a_key_is_heard_once(serve, refusal, expected):
    """All further batches fail without a request."""
    server = serve(refusal)
    texts = [f"text {number}" for number in range(20)]

    scored = ef.run_experiment(
        frame(texts, texts), evaluators=[similar(server, batch_size=1)], concurrency=1
    )

    assert set(scores_and_errors(scored)) == {expected}
    assert server.calls == 1


def test_failed_text_is_not_asked_for_again(serve):
    """Every row that needs it shares what became of it."""
    server = serve(error(500, "oh"))
    rows = frame(["a", "a"], ["b", "b"])

    scored = ef.run_experiment(rows, evaluators=[similar(server), similar(server, name="again")])

    assert set(scores_and_errors(scored)) == set(scores_and_errors(scored, "again"))
    assert server.calls == 1


def test_one_text_that_is_refused_costs_no_other(serve):
    """A refused batch is sent in halves until the text stands alone."""

    def script(request):
        return error(400, "too long") if "bad" in request.texts else VECTORS(request)

    server = serve(script)
    texts = [f"text {number}" for number in range(31)]

    scored = ef.run_experiment(
        frame([*texts, "bad"], [*texts, texts[0]]), evaluators=[similar(server)]
    )

    assert scores_and_errors(scored) == [1.0] * 31 + ["bad_request: HTTP 400: too long"]
    assert server.calls == 11


def test_server_that_takes_fewer_texts_at_once_is_given_fewer(serve):
    """Some take no more than 32, and refuse the others whole."""

    def script(request):
        return error(413, "batch size > 8") if len(request.texts) > 8 else VECTORS(request)

    server = serve(script)
    texts = [f"text {number}" for number in range(32)]

    scored = ef.run_experiment(frame(texts, texts), evaluators=[similar(server)])

    assert scores_and_errors(scored) == [1.0] * 32
    assert server.stats()["outcomes"] == {"200": 4, "413": 3}


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("concurrency", [1, 32])
def test_server_that_refuses_everything_is_asked_nineteen_times(serve, status, concurrency):
    """One batch down to eight texts that are refused alone; nothing more, however many rows."""
    server = serve(error(status, "no"), latency=0.01)
    texts = [f"text {number}" for number in range(12_000)]

    scored = ef.run_experiment(
        frame(texts, texts), evaluators=[similar(server)], concurrency=concurrency
    )

    assert set(scores_and_errors(scored)) == {f"bad_request: HTTP {status}: no"}
    assert server.calls == 19
    assert server.most_in_flight == 1


@pytest.mark.parametrize("status", [404, 405, 410])
def test_model_that_is_not_there_is_never_asked_in_halves(serve, status):
    """It is due to no text: eight batches are sent, whole."""
    server = serve(error(status, "no such model"), latency=0.01)
    texts = [f"text {number:04}" for number in range(2_000)]

    scored = ef.run_experiment(frame(texts, texts), evaluators=[similar(server)])

    assert set(scores_and_errors(scored)) == {f"bad_request: HTTP {status}: no such model"}
    assert [len(request.texts) for request in server.requests] == [128] * 8


def test_refusals_before_the_first_answer_cost_no_other_text(serve):
    """Seven short texts that are refused alone are no sign that all will be."""

    def script(request):
        bad = any(len(text) == 1 for text in request.texts)
        return error(400, "too short") if bad else VECTORS(request)

    texts = [*"abcdefg", *(f"text {number}" for number in range(300))]
    scored = ef.run_experiment(frame(texts, texts), evaluators=[similar(serve(script))])

    refused = ["bad_request: HTTP 400: too short"] * 7
    assert scores_and_errors(scored) == [*refused, *[1.0] * 300]


@pytest.mark.parametrize("failing", [error(500, "oh"), torn()], ids=["500", "torn"])
def test_server_that_fails_otherwise_is_asked_by_many_at_once(serve, failing):
    """Only refusals are waited for: failures that may pass would else be asked one by one."""
    server = serve(failing, latency=0.05)
    texts = [f"text {number}" for number in range(20)]

    ef.run_experiment(frame(texts, texts), evaluators=[similar(server, batch_size=1)])

    assert server.calls == 20
    assert server.most_in_flight > 1


@pytest.mark.parametrize("cached", [False, True])
def test_vectors_of_another_length_than_was_asked_for_fail(serve, tmp_path, cached):
    """A server that does not know `dimensions`; both lengths are said."""
    server = serve(VECTORS)
    options = {"cache": tmp_path / "cache.sqlite"} if cached else {}

    for _ in range(2):
        scored = ef.run_experiment(
            frame(["a"], ["a"]), evaluators=[similar(server, dimensions=7)], **options
        )

        (found,) = scores_and_errors(scored)
        assert found == (
            "server_error: dimensions=7 was asked for, and vectors of 3 numbers came: the model "
            "cannot choose. Leave dimensions= out, or take a model that can"
        )


def test_vector_that_is_not_finite_fails_its_text_only(serve):
    """JSON knows no NaN, but servers send it."""
    server = serve(
        embeddings(lambda text: [math.nan, 1.0] if text == "bad" else [1.0, 2.0], as_numbers=True)
    )

    scored = ef.run_experiment(frame(["a", "bad"], ["b", "b"]), evaluators=[similar(server)])

    assert scores_and_errors(scored) == [1.0, "server_error: its vector is not finite"]


def test_response_with_too_few_vectors_is_no_answer(serve):
    """No text gets another's vector."""
    server = serve(
        lambda request: embeddings(vector_of)(
            type(request)(path="", headers={}, time=0.0, body={"input": request.texts[1:]})
        )
    )

    scored = ef.run_experiment(frame(["a"], ["b"]), evaluators=[similar(server)])

    (found,) = scores_and_errors(scored)
    assert found.startswith("server_error: the server answered what is no list of 2 embeddings")


def test_vectors_that_change_their_length_fail(serve):
    """They cannot be compared; what came first stands."""
    server = serve(embeddings(lambda text: [1.0] * len(text)))

    scored = ef.run_experiment(
        frame(["a", "bb"], ["c", "c"]), evaluators=[similar(server, batch_size=1)], concurrency=1
    )

    found = scores_and_errors(scored)
    assert found[0] == 1.0
    assert found[1].startswith("server_error: vectors of 2 numbers came, and of 1 before")


def test_key_never_stands_in_a_result(serve, monkeypatch):
    """A server may say it back."""
    monkeypatch.setenv("MY_KEY", "sk-very-secret-indeed")
    server = serve(lambda request: error(401, request.headers["authorization"]))

    scored = ef.run_experiment(
        frame(["a"], ["b"]), evaluators=[similar(server, api_key_env="MY_KEY")]
    )

    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret-indeed"
    assert "secret" not in scored.to_json() + str(scored.attrs)


def test_first_failure_ends_the_run_if_it_is_to(serve):
    """What was scored stands in `.partial`."""
    server = serve(error(500, "oh"))
    plain = ef.evaluator(lambda output: True, name="plain")

    with pytest.raises(ef.CellError, match="'semantic_similarity', row 0: server_error") as caught:
        ef.run_experiment(frame(["a"], ["b"]), evaluators=[plain, similar(server)], errors="raise")

    assert caught.value.partial["eval.plain.score"].tolist() == [1.0]


def test_nothing_is_sent_after_the_block_with_the_failure_that_ends_the_run(serve):
    """Its rows have their cells; those of later blocks are not run."""
    server = serve(lambda request: error(500, "oh") if "bad" in request.texts else VECTORS(request))
    texts = ["bad", *(f"text {number}" for number in range(20_000))]

    with pytest.raises(ef.CellError, match="row 0: server_error") as caught:
        ef.run_experiment(frame(texts, texts), evaluators=[similar(server)], errors="raise")

    cells = scores_and_errors(caught.value.partial)
    # The batch of the 128 shortest texts failed.
    assert cells[:128] == ["server_error: HTTP 500: oh"] * 128
    assert cells[128:4000] == [1.0] * 3872
    assert cells[-10_000:] == ["skipped: not run"] * 10_000
    assert len(sent(server)) < 10_000


# Functions.


def letters(texts):
    """Vectors of two numbers."""
    return [[text.count("a"), text.count("b")] for text in texts]


async def awaited(texts):
    """The same, after a moment."""
    await asyncio.sleep(0)
    return letters(texts)


class Lettered:
    """The same, as an object."""

    def __call__(self, texts):
        return letters(texts)


FUNCTIONS = pytest.mark.parametrize(
    "function",
    [letters, awaited, Lettered(), lambda texts: awaited(texts)],  # noqa: PLW0108 - a plain one
    ids=["plain", "async", "object", "plain-that-gives-an-awaitable"],
)


@FUNCTIONS
def test_function_embeds(function):
    """Sync or async; it counts as no model."""
    rows = frame(["a", "ab", "zz"], ["aaa", ["b", "aabb"], "a"])

    scored = ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity(function)])

    found = scores_and_errors(scored)
    assert found == [1.0, 1.0, "skipped: zero vector: it has no direction to compare"]
    assert scored.evals.usage().empty


@FUNCTIONS
def test_function_embeds_under_a_loop_that_runs(function):
    """As in a notebook."""
    rows = frame(["a"], ["aa"])
    run = ef.arun_experiment(rows, evaluators=[ef.SemanticSimilarity(function)])

    assert scores_and_errors(asyncio.run(run)) == [1.0]


def test_plain_function_is_called_by_one_thread_at_a_time():
    """Encoders are rarely made for more."""
    inside, most = [], []

    def encode(texts):
        inside.append(1)
        most.append(len(inside))
        found = letters(texts)
        inside.pop()
        return found

    texts = [f"a{number}" for number in range(50)]
    embedder = ef.Embedder(encode, batch_size=5)

    ef.run_experiment(frame(texts, texts), evaluators=[ef.SemanticSimilarity(embedder)])

    assert most == [1] * 10


def test_functions_vectors_are_never_in_the_cache(tmp_path):
    """Nobody can tell whether it is the same function tomorrow."""
    calls = []

    def encode(texts):
        calls.append(len(texts))
        return letters(texts)

    rows = frame(["a", "a"], ["ab", "ab"])
    for _ in range(2):
        ef.run_experiment(
            rows, evaluators=[ef.SemanticSimilarity(encode)], cache=tmp_path / "cache.sqlite"
        )

    assert calls == [2, 2]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        pytest.param([[1.0]], "an array of shape (1, 1) for 2 texts", id="too-few"),
        pytest.param([1.0, 2.0], "an array of shape (2,) for 2 texts", id="flat"),
        pytest.param([[], []], "an array of shape (2, 0) for 2 texts", id="empty"),
        pytest.param([["1"], ["2"]], "an array of <U1; it must be of numbers", id="texts"),
        pytest.param([[1j], [2j]], "an array of complex128; it must be of numbers", id="complex"),
        pytest.param([[1.0], [1.0, 2.0]], "no array of numbers (list: setting", id="ragged"),
        pytest.param(None, "an array of object; it must be of numbers", id="none"),
        pytest.param(1.0, "an array of shape () for 2 texts", id="number"),
        pytest.param([[10**400], [1]], "an array of object; it must be of numbers", id="huge"),
    ],
)
def test_what_is_no_array_of_vectors_fails_its_rows(returned, message):
    """And says what came and what would do."""
    scored = ef.run_experiment(
        frame(["a"], ["b"]), evaluators=[ef.SemanticSimilarity(lambda _: returned)]
    )

    (found,) = scores_and_errors(scored)
    assert found.startswith(f"invalid_result: the embedder gave {message}")


def test_what_a_function_raises_fails_the_rows_of_its_batch():
    """With the line where it stands, and its traceback."""

    def encode(texts):
        if "bad" in texts:
            message = "no such word"
            raise LookupError(message)
        return letters(texts)

    embedder = ef.Embedder(encode, batch_size=1)
    scored = ef.run_experiment(
        frame(["a", "bad"], ["a", "a"]), evaluators=[ef.SemanticSimilarity(embedder)]
    )

    found = scores_and_errors(scored)
    assert found[0] == 1.0
    assert found[1].startswith("exception: LookupError: no such word (test_embedding_runs.py:")
    assert "raise LookupError" in str(scored.attrs)


def test_what_a_function_raises_ends_the_run_if_it_is_to():
    """As the user's own exception; what was scored stands in `.partial`."""
    raised = LookupError("no such word")

    def encode(texts):
        if "bad" in texts:
            raise raised
        return letters(texts)

    similarity = ef.SemanticSimilarity(ef.Embedder(encode, batch_size=1))
    with pytest.raises(LookupError, match="no such word") as failure:
        ef.run_experiment(
            frame(["a", "bad", None], ["a", "a", "a"]), evaluators=[similarity], errors="raise"
        )

    assert failure.value is raised
    found = scores_and_errors(failure.value.partial)
    assert [found[0], found[2]] == [1.0, 0.0]
    assert found[1].startswith("exception: LookupError: no such word (test_embedding_runs.py:")


def test_nothing_is_embedded_after_the_failure_that_ends_the_run():
    """Rows that would need it are not run."""
    seen = []

    def encode(texts):
        seen.extend(texts)
        raise LookupError

    similarity = ef.SemanticSimilarity(ef.Embedder(encode, batch_size=1))
    with pytest.raises(LookupError) as failure:
        ef.run_experiment(
            frame(["a", "bb", "ccc"], ["a", "bb", "ccc"]), evaluators=[similarity], errors="raise"
        )

    assert seen == ["a"]
    found = scores_and_errors(failure.value.partial)
    assert found[0].startswith("exception: LookupError")
    assert found[1:] == ["skipped: not run"] * 2


def _stop(texts):
    raise StopIteration(texts[0])


def _cancel(texts):
    raise asyncio.CancelledError(texts[0])


async def _stop_awaited(texts):
    raise StopIteration(texts[0])


async def _cancel_awaited(texts):
    raise asyncio.CancelledError(texts[0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(_stop, "the call raised StopIteration: a", id="stop"),
        pytest.param(_stop_awaited, "coroutine raised StopIteration", id="stop-awaited"),
        pytest.param(_cancel, "the call raised CancelledError: a", id="cancel"),
        pytest.param(_cancel_awaited, "the call raised CancelledError: a", id="cancel-awaited"),
    ],
)
def test_what_means_something_to_a_loop_is_a_failure_as_any_other(function, message):
    """The run neither hangs nor ends; rows that need no vector have their cells."""
    scored = ef.run_experiment(
        frame(["a", None], ["a", "a"]), evaluators=[ef.SemanticSimilarity(function)]
    )

    found = scores_and_errors(scored)
    assert found[0].startswith(f"exception: RuntimeError: {message} (test_embedding_runs.py:")
    assert found[1] == 0.0


def test_function_sees_the_callers_context():
    """As tasks and evaluators do."""
    colour = contextvars.ContextVar("colour", default="none")
    seen = []

    def encode(texts):
        seen.append(colour.get())
        return letters(texts)

    colour.set("red")
    ef.run_experiment(frame(["a"], ["a"]), evaluators=[ef.SemanticSimilarity(encode)])

    assert seen == ["red"]


def test_function_may_change_the_list_it_is_given():
    """It is its own."""

    def encode(texts):
        found = letters(texts)
        texts.clear()
        return found

    scored = ef.run_experiment(frame(["a"], ["ab"]), evaluators=[ef.SemanticSimilarity(encode)])

    assert scores_and_errors(scored) == pytest.approx([1 / math.sqrt(2)])


SIGINT = """
import os, signal, threading
import evalframe as ef
from evalframe.engines import driver, local
from evalframe.testing import ChatServer, never

driver.GRACE_S = local.GRACE_S = 0.1

def script(request):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return never()

plain = ef.evaluator(lambda output: True, name="plain")
with ChatServer(script) as server:
    similar = ef.SemanticSimilarity(ef.Model("local/m", base_url=server.base_url))
    try:
        ef.run_experiment([{"output": "a", "dataset_output": "b"}], evaluators=[similar, plain])
    except KeyboardInterrupt as exc:
        frame = exc.partial
        print(frame["eval.plain.score"][0], frame["eval.semantic_similarity.error"][0])
        print(threading.active_count() < 6)
"""


def test_ctrl_c_ends_a_run_that_embeds():
    """What is finished stands in `.partial`, and nothing is heard of the open request."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIGINT],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("1.0 skipped: not run\nTrue\n", "")


BLOCKED = """
import os, signal, threading
import evalframe as ef
from evalframe.engines import driver, local

driver.GRACE_S = local.GRACE_S = 0.1

def encode(texts):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Event().wait()

rows = [{"output": "a", "dataset_output": "b"}]
try:
    ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity(encode)])
except KeyboardInterrupt as exc:
    print(exc.partial["eval.semantic_similarity.error"][0])
"""


def test_function_that_never_returns_does_not_keep_the_process():
    """Ctrl-C ends the run, and what is left of it ends with the process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (done.stdout, done.stderr) == ("skipped: not run\n", "")


def test_judges_and_embedders_share_a_run(serve):
    """And its session, which is open until both have ended."""
    verdict = label("yes", explanation="It is.")
    server = serve(lambda request: VECTORS(request) if request.texts else verdict)
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"])

    scored = ef.run_experiment(frame(["a"], ["a"]), evaluators=[judge, similar(server)])

    assert scored["eval.j.label"].tolist() == ["yes"]
    assert scores_and_errors(scored) == [1.0]
    assert scored.evals.usage()["evaluator"].tolist() == ["j", "semantic_similarity"]
