"""Equal rows of a ChatTask are independent samples, and each keeps its own.

Which one a row has is a fact of the row: it does not go by which rows a run makes, how many at
once, or which of them end first.
"""

import asyncio
import itertools

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.core.binding import Binding
from evalframe.core.columns import Column
from evalframe.core.namespace import ColumnSource, RecordSource, RowSource
from evalframe.engines.inputs import Inputs
from evalframe.engines.occurrences import Occurrences
from evalframe.testing import error, label, reply

NOT_RUN = "skipped: not run"
FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
CONCURRENCY = pytest.mark.parametrize("concurrency", [1, 32])
INPUTS = st.lists(st.sampled_from("aab"), min_size=1, max_size=7)


def occurrences_of(frame, *, repetitions=1, repetition_of=None, reads=None):
    """Those of all rows of a run on the frame."""
    rows = len(frame) * repetitions
    inputs = Inputs(
        lambda label: Column(label, frame[label]),
        frame.columns.tolist(),
        pd.RangeIndex(rows),
        repetitions,
    )
    sources = [ColumnSource(label) for label in frame] if reads is None else reads
    found = Occurrences(Binding(tuple(sources), ()), inputs, repetition_of)
    return [found[row] for row in range(rows)]


def numbers_of(frame, **given):
    """The numbers of all rows of a run on the frame."""
    return [found.number for found in occurrences_of(frame, **given)]


def as_objects(values):
    """A column of these very values."""
    column = pd.Series([None] * len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def by_comparing(rows):
    """For each row how many before it are equal, itself included: by every pair."""
    return [sum(one == other for one in rows[: place + 1]) for place, other in enumerate(rows)]


# As text of type and value: 1 == True, and these are different values.
VALUES = st.sampled_from([1, 1.0, True, "1", None, [1], [True], {"x": 1, "y": 2}, {"y": 2, "x": 1}])


@given(rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12), data=st.data())
def test_the_number_of_a_row_counts_those_before_it_that_are_equal(rows, data):
    """In value and type of all that is read, and of the same repetition if that is known."""
    frame = pd.DataFrame({"p": as_objects([p for p, _ in rows])})
    frame["q"] = as_objects([q for _, q in rows])
    repetition_of = data.draw(
        st.none() | st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))
    )
    found = occurrences_of(frame, repetition_of=repetition_of)
    read = [repr([(type(value), value) for value in row]) for row in rows]
    known = read if repetition_of is None else list(zip(read, repetition_of, strict=True))

    assert [each.number for each in found] == by_comparing(known)
    assert by_comparing([each.read for each in found]) == by_comparing(read)


@given(texts=INPUTS, repetitions=st.integers(1, 4))
def test_repetitions_of_a_row_all_have_its_number(texts, repetitions):
    """They are told apart by the repetition."""
    each = numbers_of(pd.DataFrame({"input": texts}), repetitions=repetitions)

    assert each == [number for number in by_comparing(texts) for _ in range(repetitions)]


def test_only_what_is_read_makes_rows_equal():
    """A column that the prompt leaves out tells no rows apart; the whole row has them all."""
    frame = pd.DataFrame({"input": ["a", "a", "a"], "id": [1, 1, 2]})

    assert numbers_of(frame, reads=[ColumnSource("input")]) == [1, 2, 3]
    assert numbers_of(frame, reads=[RowSource()]) == [1, 2, 1]
    assert numbers_of(frame, reads=[RecordSource(("id",))]) == [1, 2, 1]
    assert numbers_of(frame, reads=[]) == [1, 2, 3]


def test_numbers_go_on_from_one_chunk_of_rows_to_the_next():
    """Also where rows are repeated, and are not read as often."""
    frame = pd.DataFrame({"input": ["a", "b"] * 5_000})

    assert numbers_of(frame)[-2:] == [5_000, 5_000]
    assert numbers_of(frame, repetitions=2)[-4:] == [5_000] * 4
    assert len(set(numbers_of(frame))) == 5_000


def test_no_rows_have_no_numbers():
    """A frame without rows is one like any other."""
    assert numbers_of(pd.DataFrame({"input": pd.Series([], dtype="string")})) == []


def test_a_task_that_asks_no_model_reads_no_rows_but_those_around_the_ones_it_makes(monkeypatch):
    """Nobody needs to know which of the equal rows they are."""
    frame = pd.DataFrame({"input": ["a"] * 3_000, "output": ["b"] * 2_999 + [None]})
    whole_read, read = Column.values, []

    def values(column, rows):
        found = whole_read(column, rows)
        read.extend(found if column.name == "input" else ())
        return found

    monkeypatch.setattr(Column, "values", values)
    ef.run_experiment(frame, lambda input: input * 2, only="missing")

    assert 0 < len(read) <= 256


class Samples:
    """A server's script: each reply is a sample that nobody else has.

    The first `failing` requests fail.
    """

    def __init__(self, failing=()):
        self.failing = set(failing)
        self._count = itertools.count(1)

    def __call__(self, request):
        number = next(self._count)
        return error(400, "No.") if number in self.failing else reply(f"sample {number}")


def task_of(server, prompt="{{ item.input }}"):
    """A task that asks the server."""
    return ef.ChatTask(ef.Model("local/m", base_url=server.base_url, max_retries=0), prompt)


def rows_of(*texts):
    """A frame of these inputs."""
    return pd.DataFrame({"input": texts})


def outputs(frame):
    """The outputs, None where there is none."""
    return pa.array(frame["output"]).to_pylist()


def without(frame, rows):
    """The frame of a run that has not come to these rows."""
    is_left = [row in rows for row in range(len(frame))]
    output, why = frame["output"].mask(is_left), frame["task.error"].mask(is_left, NOT_RUN)
    return frame.assign(**{"output": output, "task.error": why})


@CONCURRENCY
def test_the_third_of_three_equal_rows_has_a_sample_of_its_own(serve, tmp_path, concurrency):
    """Also where only it is missing: the cache has no answer for it, and it is asked once."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    two = ef.run_experiment(rows_of("a", "a"), task_of(server), cache=cache)
    three = pd.concat([two, rows_of("a")], ignore_index=True)
    server.reset()

    whole = ef.run_experiment(
        three, task_of(server), only="missing", cache=cache, concurrency=concurrency
    )

    assert server.calls == 1
    assert outputs(whole) == [*outputs(two), "sample 3"]


@FEW
@given(texts=INPUTS, repetitions=st.integers(1, 3), data=st.data())
def test_a_row_that_is_run_alone_has_the_sample_that_it_has_in_a_whole_run(
    serve, tmp_path_factory, texts, repetitions, data
):
    """Whichever rows a run makes, and however many at once."""
    server = serve(Samples())
    options = {"cache": tmp_path_factory.mktemp("replies") / "replies.sqlite"}
    whole = ef.run_experiment(rows_of(*texts), task_of(server), repetitions=repetitions, **options)
    lost = data.draw(st.sets(st.integers(0, len(whole) - 1)))
    concurrency = data.draw(st.sampled_from([1, 32]))
    server.reset()

    again = ef.run_experiment(
        without(whole, lost), task_of(server), only="missing", concurrency=concurrency, **options
    )

    assert outputs(again) == outputs(whole)
    assert len(set(outputs(whole))) == len(whole)
    assert server.calls == 0


@CONCURRENCY
def test_samples_that_failed_are_made_in_their_own_place(serve, tmp_path, concurrency):
    """A run of the failed rows fills the places that a whole run finds them in."""
    cache, frame = tmp_path / "replies.sqlite", rows_of(*"aabaa")
    server = serve(Samples(failing=[2, 4]))
    first = ef.run_experiment(frame, task_of(server), cache=cache, concurrency=concurrency)
    assert first["task.error"].notna().sum() == 2

    mended = ef.run_experiment(
        first, task_of(server), only="failed", cache=cache, concurrency=concurrency
    )
    server.reset()
    whole = ef.run_experiment(frame, task_of(server), cache=cache, concurrency=33 - concurrency)

    assert server.calls == 0
    assert outputs(whole) == outputs(mended)
    assert len(set(outputs(whole))) == 5


@CONCURRENCY
def test_a_run_that_goes_on_after_its_budget_gives_no_sample_twice(serve, tmp_path, concurrency):
    """What was made stays where it is, and the rest is asked for; so it is in the cache."""
    cache, frame = tmp_path / "replies.sqlite", rows_of(*"aaaaa")
    server = serve(Samples())
    with pytest.warns(UserWarning, match="max_requests"):
        first = ef.run_experiment(
            frame, task_of(server), cache=cache, max_requests=2, concurrency=concurrency
        )
    whole = ef.run_experiment(
        first, task_of(server), only="missing", cache=cache, concurrency=concurrency
    )
    cached = ef.run_experiment(frame, task_of(server), cache=cache, concurrency=33 - concurrency)

    assert server.calls == 5
    assert sorted(outputs(whole)) == [f"sample {n}" for n in range(1, 6)]
    assert whole[first["output"].notna()].equals(first[first["output"].notna()])
    assert outputs(cached) == outputs(whole)


def test_equal_rows_of_a_frame_of_repetitions_are_counted_by_repetition(serve, tmp_path):
    """One that is missing is the second of its own repetition, whatever stands between."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    whole = ef.run_experiment(rows_of("a", "a"), task_of(server), repetitions=2, cache=cache)
    shuffled = without(whole, [3]).iloc[[0, 2, 1, 3]]

    again = ef.run_experiment(shuffled, task_of(server), only="missing", cache=cache)

    assert again["repetition"].tolist() == [1, 1, 2, 2]
    assert outputs(again) == [outputs(whole)[row] for row in (0, 2, 1, 3)]
    assert server.calls == 4


def test_rows_that_differ_share_no_sample_where_the_prompt_is_the_same(serve, tmp_path):
    """They are different rows: each has its own, and keeps it when the other one goes."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    task = task_of(server, "{{ item.input | upper }}")
    both = ef.run_experiment(rows_of("a", "A", "a"), task, cache=cache)
    one = ef.run_experiment(rows_of("A"), task, cache=cache)

    assert [request.prompt for request in server.requests] == ["A"] * 3
    assert len(set(outputs(both))) == 3
    assert outputs(one) == outputs(both)[1:2]


def test_a_row_keeps_its_sample_when_others_are_added_and_reordered(serve, tmp_path):
    """It goes by content: a row that is not equal to it moves nothing."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    first = ef.run_experiment(rows_of("a", "b", "a"), task_of(server), cache=cache)
    second = ef.run_experiment(rows_of("c", "a", "a", "b"), task_of(server), cache=cache)
    a, b, also_a = outputs(first)

    assert outputs(second)[1:] == [a, also_a, b]
    assert server.calls == 4


def test_a_row_that_cannot_be_asked_about_has_its_number_all_the_same(serve, tmp_path):
    """Each of two equal rows has one, whatever the prompt makes of them."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    frame = pd.DataFrame({"input": ["a", None, None, "a"]})
    first = ef.run_experiment(frame, task_of(server), cache=cache)
    again = ef.run_experiment(without(first, [3]), task_of(server), only="missing", cache=cache)

    assert outputs(again) == outputs(first)
    assert server.calls == 2


@pytest.mark.parametrize("label", [0, (1, 2), None], ids=["number", "tuple", "none"])
def test_labels_that_are_no_text_are_in_no_one_s_way(serve, tmp_path, label):
    """A prompt may read the whole row of any frame."""
    server, cache = serve(Samples()), tmp_path / "replies.sqlite"
    frame = pd.DataFrame([["a"], ["a"], ["b"]], columns=pd.Index([label], tupleize_cols=False))
    task = task_of(server, "{% for name in item %}{{ item[name] }}{% endfor %}")
    first = ef.run_experiment(frame, task, cache=cache)
    again = ef.run_experiment(frame, task, cache=cache)

    assert len(set(outputs(first))) == 3
    assert outputs(again) == outputs(first)
    assert server.calls == 3


@FEW
@given(
    texts=INPUTS,
    before=st.lists(st.sampled_from("aabA"), max_size=5),
    repetitions=st.integers(1, 3),
)
@example(texts=["a", "a"], before=["A", "a"], repetitions=1)
def test_what_is_estimated_as_cached_is_what_a_run_takes_from_the_cache(
    serve, tmp_path_factory, texts, before, repetitions
):
    """With equal rows, rows of one prompt, repetitions, and replies of a probe, and of a run."""
    server = serve(Samples())
    cache = tmp_path_factory.mktemp("replies") / "replies.sqlite"
    task = task_of(server, "{{ item.input | upper }}")
    if before:
        ef.run_experiment(rows_of(*before), task, cache=cache)
    ef.estimate(rows_of(*texts), task, cache=cache, probe=2)
    server.reset()

    costs = ef.estimate(rows_of(*texts), task, repetitions=repetitions, cache=cache).iloc[0]
    scored = ef.run_experiment(rows_of(*texts), task, repetitions=repetitions, cache=cache)

    assert costs["cells"] == costs["unique"] == len(texts) * repetitions
    assert server.calls == costs["requests"]
    assert scored.evals.usage().iloc[0]["cached"] == costs["cached"]


class Holding:
    """A server's script: one request is held, and each of the others gets its own reply."""

    def __init__(self, held, made):
        self.answered = 0
        self._held = held
        self._made = made
        self._count = itertools.count(1)

    def __call__(self, request):
        number = next(self._count)
        if number == self._held:
            return self._made(number, delay=60)
        self.answered += 1
        return self._made(number, delay=0)

    async def end(self, input):
        """An evaluator that ends the run when all requests but the one that is held are over."""
        while self.answered < 2:  # noqa: ASYNC110 - the server is in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        message = "enough"
        raise ValueError(message)


def sample_of(number, delay):
    """A reply that nobody else has."""
    return reply(f"sample {number}", delay=delay)


def verdict_of(number, delay):
    """A verdict with an explanation that nobody else has."""
    return label("yes", explanation=f"sample {number}", delay=delay)


@pytest.mark.parametrize("held", [1, 2, 3])
def test_a_row_that_a_stop_left_out_does_not_get_the_sample_of_its_equal(serve, tmp_path, held):
    """Whichever of three equal rows it is: what the others have is in the cache, too."""
    script = Holding(held, sample_of)
    server = serve(script)
    with pytest.raises(ValueError, match="enough"):
        ef.run_experiment(
            rows_of(*"aaa"), task_of(server), [script.end], errors="raise", run_dir=tmp_path
        )

    with pytest.warns(UserWarning, match="not run again"):
        whole = ef.run_experiment(rows_of(*"aaa"), task_of(server), run_dir=tmp_path)

    assert len(set(outputs(whole))) == 3


@pytest.mark.parametrize("held", [1, 2, 3])
def test_a_repetition_that_a_stop_left_out_does_not_get_the_verdict_of_another(
    serve, tmp_path, held
):
    """Each of a judge's has its own, whichever of them ended first."""
    script = Holding(held, verdict_of)
    model = ef.Model("local/m", base_url=serve(script).base_url)
    judge = ef.LLMJudge("ok", model=model, prompt="{{ item.input }}", choices=["yes"])
    options = {"repetitions": 3, "run_dir": tmp_path}
    with pytest.raises(ValueError, match="enough"):
        ef.run_experiment(rows_of("a"), evaluators=[judge, script.end], errors="raise", **options)

    with pytest.warns(UserWarning, match="not run again"):
        whole = ef.run_experiment(rows_of("a"), evaluators=[judge], **options)

    assert whole["eval.ok.explanation"].nunique() == 3
