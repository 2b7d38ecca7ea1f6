"""However a run is put together, every cell is there once, in its place.

Sync, async, threaded and vectorized evaluators are mixed at random, with and without a task,
and what comes out is compared with a plain loop.
"""

import asyncio

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef

# What an evaluator returns, and the label, score and explanation that it stands for.
VERDICTS = [
    (True, ("True", 1.0, None)),
    (0.5, (None, 0.5, None)),
    ("text", ("text", None, None)),
    ((0.25, "why"), (None, 0.25, "why")),
    (("bad", 0), ("bad", 0.0, None)),
    ({"score": 1, "explanation": "e"}, (None, 1.0, "e")),
    (None, "skipped"),
    (ef.skip("no"), "skipped"),
    (7.0, "range"),
    ([1], "invalid_result"),
    (KeyError("k"), "exception"),
]


def verdict(number, shift):
    """The verdict of a row: depends on the row and the evaluator."""
    return VERDICTS[(number * 7 + shift) % len(VERDICTS)]


def returned(number, shift):
    """What the evaluator returns, or raises."""
    value = verdict(number, shift)[0]
    if isinstance(value, Exception):
        raise value
    return value


def in_thread_order(shift):
    """A plain function, called in the caller's thread."""
    return lambda output: returned(output, shift)


def awaited(shift):
    """An async function that gives way a few times."""

    async def evaluator(output):
        for _ in range((output + shift) % 3):
            await asyncio.sleep(0)
        return returned(output, shift)

    return evaluator


def threaded(shift):
    """A plain function, called in threads."""
    return ef.evaluator(lambda output: returned(output, shift), name="t", threads=2)


def bound(shift):
    """A plain function that is given what another function makes of the row."""
    evaluator = ef.evaluator(lambda value: returned(value, shift), name="b")
    return evaluator.bind(value=lambda output: output)


def vectorized(shift):
    """Whole columns; NaN stands for the row that would have raised."""

    def evaluator(output):
        values = [verdict(number, shift)[0] for number in output.tolist()]
        return [float("nan") if isinstance(value, Exception) else value for value in values]

    return ef.evaluator(evaluator, name="v", vectorized=True)


LANES = [in_thread_order, awaited, threaded, bound, vectorized]


def sync_task(input):
    """The input itself, but for every fifth."""
    if input % 5 == 4:
        raise ValueError(input)
    return input


async def async_task(input):
    """The same, in another order."""
    for _ in range(input % 4):
        await asyncio.sleep(0)
    return sync_task(input)


def run_awaited(*args, **options):
    """arun_experiment on a loop of its own."""
    return asyncio.run(ef.arun_experiment(*args, **options))


@settings(max_examples=60)
@given(
    run=st.sampled_from([ef.run_experiment, run_awaited]),
    rows=st.sampled_from([0, 1, 2, 9, 40]),
    task=st.sampled_from([None, sync_task, async_task]),
    lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=5),
    concurrency=st.integers(1, 5),
    repetitions=st.integers(1, 3),
    timeout=st.sampled_from([None, 60]),
)
def test_every_cell_is_there_once(*, run, rows, task, lanes, concurrency, repetitions, timeout):
    """Lanes share rows, slots and chunks, but never a cell."""
    frame = pd.DataFrame({"input" if task else "output": range(rows)})
    evaluators = {f"e{shift}": lane(shift) for shift, lane in enumerate(lanes)}

    scored = run(
        frame,
        task,
        evaluators,
        concurrency=concurrency,
        repetitions=repetitions,
        timeout=timeout,
        details=True,
    )

    numbers = [number for number in range(rows) for _ in range(repetitions)]
    for shift, name in enumerate(evaluators):
        cells = scored.evals[name][["label", "score", "explanation", "error"]]
        found = [outcome(cell) for cell in cells.astype(object).to_numpy().tolist()]
        assert found == [expected(number, shift, task, lanes[shift]) for number in numbers]


def outcome(cell):
    """Label, score and explanation of a valid cell; the kind of any other."""
    *parts, error = [None if pd.isna(part) else part for part in cell]
    return tuple(parts) if error is None else error.partition(":")[0]


def expected(number, shift, task, lane):
    """What a plain loop would say of the row."""
    if task and number % 5 == 4:
        return "task_failed"
    said = verdict(number, shift)[1]
    return "invalid_result" if lane is vectorized and said == "exception" else said
