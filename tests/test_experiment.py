"""run_experiment: what goes in, what comes out, and what is refused before the first call.

Concurrency, timeouts and stops are in test_concurrency.py, tasks in test_tasks.py.
"""

import asyncio
import copy
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

TEXT = pd.StringDtype("pyarrow")
NUMBER = pd.ArrowDtype(pa.float64())
FIVE = ("label", "score", "explanation", "metadata", "error")

INDEXES = [
    pytest.param(pd.RangeIndex(3), id="range"),
    pytest.param(pd.RangeIndex(9, 3, -2, name="down"), id="range-with-step"),
    pytest.param(pd.Index([0.5, 2.0, 9.9]), id="float"),
    pytest.param(pd.Index([7, 7, 1], name="id"), id="duplicates"),
    pytest.param(pd.Index(["b", "a", None]), id="text-with-null"),
    pytest.param(pd.date_range("2024-01-01", periods=3, tz="Europe/Paris"), id="datetime-tz"),
    pytest.param(pd.period_range("2024-01", periods=3, freq="M"), id="period"),
    pytest.param(pd.CategoricalIndex(["x", "y", "x"]), id="categorical"),
    pytest.param(
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["k", None]), id="multi"
    ),
]


@ef.evaluator
def short(output):
    """A bool for each text."""
    return len(output) < 3


@ef.evaluator
async def polite(output):
    """An async verdict with all three parts."""
    return "yes", 1.0, f"read {output}"


@ef.evaluator(vectorized=True)
def long(output):
    """A whole column of bools."""
    return output.str.len() > 3


KINDS = [short, polite, long]


class Recorder:
    """Remembers what it was called with."""

    def __init__(self):
        self.seen = []

    def __call__(self, output):
        self.seen.append(output)
        return True


def never(output):
    """Fails the test when called: nothing may run."""
    pytest.fail("an evaluator was called")


def columns_of(*names):
    """The result columns of evaluators, in order."""
    return [f"eval.{name}.{field}" for name in names for field in FIVE]


def rich_frame(index):
    """A frame with a column of every common dtype."""
    frame = pd.DataFrame(
        {
            "input": ["q1", "q2", None],
            "output": ["a", "bbb", "cccc"],
            "nested": [{"k": [1, {"z": None}]}, [1, "x"], None],
            "whole": [1, 2, 3],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "real": [0.5, np.nan, np.inf],
            "yes": [True, False, True],
            "kind": pd.Categorical(["u", "v", "u"], categories=["v", "u"], ordered=True),
            "when": pd.date_range("2024-05-01", periods=3, tz="Asia/Tokyo"),
            "took": pd.to_timedelta([1, 2, None], unit="s"),
            "lists": pd.array([["x"], [], None], dtype=pd.ArrowDtype(pa.list_(pa.string()))),
            "sparse": pd.arrays.SparseArray([0, 0, 1]),
            3: [np.float32(1), np.float32(2), np.float32(3)],
        },
    )
    frame.index = index
    frame.columns.name = "fields"
    frame.attrs = {"note": {"by": ["me"]}}
    return frame


@pytest.mark.parametrize("index", INDEXES)
def test_the_frame_that_went_in_comes_out(index):
    """Length, order, index, columns, dtypes and values are the caller's, results come after."""
    frame = rich_frame(index)

    scored = ef.run_experiment(frame, evaluators=KINDS)

    own = scored.iloc[:, : frame.shape[1]]
    pd.testing.assert_frame_equal(own, frame, check_index_type="exact", check_column_type="exact")
    assert scored.index.identical(frame.index)
    assert list(scored.columns[frame.shape[1] :]) == columns_of("short", "polite", "long")
    assert scored["eval.short.score"].tolist() == [1.0, 0.0, 0.0]
    assert scored["eval.polite.score"].tolist() == [1.0, 1.0, 1.0]
    assert scored["eval.long.score"].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("index", INDEXES)
def test_the_callers_frame_is_left_alone(index):
    """A run changes neither the caller's frame, nor a value in it, nor its attrs."""
    frame = rich_frame(index)
    before, attrs = copy.deepcopy(frame), copy.deepcopy(frame.attrs)

    ef.run_experiment(frame, lambda input: f"<{input}>", [short], overwrite=True, repetitions=2)

    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == attrs


def test_writing_into_the_result_does_not_reach_the_callers_frame():
    """The result shares memory with the caller's frame only until one of them is written."""
    frame = rich_frame(pd.RangeIndex(3))
    before = copy.deepcopy(frame)

    scored = ef.run_experiment(frame, evaluators=[short])
    scored.loc[0, "whole"] = 99
    scored.loc[1, "output"] = "changed"

    pd.testing.assert_frame_equal(frame, before)


def test_the_users_attrs_stay_on_the_result():
    """The result carries the caller's attrs beside one JSON text of evalframe's own."""
    frame = pd.DataFrame({"output": ["a"]})
    frame.attrs = {"note": "mine", 1: object}

    scored = ef.run_experiment(frame, evaluators=[short], experiment_name="first")

    assert set(scored.attrs) == {"note", 1, "evalframe"}
    assert json.loads(scored.attrs["evalframe"])["experiment_name"] == "first"
    assert set(frame.attrs) == {"note", 1}


def test_a_column_that_nobody_reads_may_hold_anything():
    """What cannot be stored stays in the frame as long as no evaluator reads it."""
    things = [object(), {1, 2}]
    frame = pd.DataFrame({"output": ["a", "b"], "things": things})

    scored = ef.run_experiment(frame, evaluators=[short])

    assert [kept is thing for kept, thing in zip(scored["things"], things, strict=True)] == [1, 1]


ROWS = [{"input": "q1", "output": "a", "n": 1}, {"input": "q2", "output": None, "n": None}]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda _: ROWS, id="list-of-dicts"),
        pytest.param(lambda _: pa.Table.from_pylist(ROWS), id="arrow"),
        pytest.param(lambda _: ef.Dataset(ROWS), id="dataset"),
        pytest.param(lambda _: ef.Dataset(pd.DataFrame(ROWS).astype({"n": "Int64"})), id="wrapped"),
        pytest.param(lambda folder: written(folder / "rows.jsonl"), id="jsonl"),
    ],
)
def test_any_source_but_pandas_gives_an_arrow_backed_frame(source, tmp_path):
    """Text is string[pyarrow] and numbers are ArrowDtype, whatever was read."""
    scored = ef.run_experiment(source(tmp_path), evaluators={"there": lambda output: output == "a"})

    expected = pd.DataFrame(
        {
            "input": pd.array(["q1", "q2"], dtype=TEXT),
            "output": pd.array(["a", None], dtype=TEXT),
            "n": pd.array([1, None], dtype=pd.ArrowDtype(pa.int64())),
            "eval.there.label": pd.array(["True", "False"], dtype=TEXT),
            "eval.there.score": pd.array([1.0, 0.0], dtype=NUMBER),
            "eval.there.explanation": pd.array([None, None], dtype=TEXT),
            "eval.there.metadata": pd.array([None, None], dtype=TEXT),
            "eval.there.error": pd.array([None, None], dtype=TEXT),
        }
    )
    pd.testing.assert_frame_equal(scored, expected)


def written(path):
    """The rows as JSON Lines, and the file's path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def everything(dataset, **options):
    """A run with a task, every kind of evaluator, extras, details and repetitions."""

    @ef.evaluator(extras={"words": int, "share": float, "why": str, "good": bool, "spans": "json"})
    def extra(output):
        return {"score": 1, "words": 2, "share": 0.5, "why": "w", "good": True, "spans": [1]}

    return ef.run_experiment(
        dataset,
        ef.task(output=str)(lambda input: f"re {input}"),
        [short, polite, long, extra],
        repetitions=2,
        details=True,
        **options,
    )


def test_result_columns_stand_in_their_order_and_have_their_types():
    """The dataset's columns, repetition, output, task.error, then each evaluator's."""
    dtypes = everything(pd.DataFrame({"input": ["q"]})).dtypes

    evals = {"label": TEXT, "score": NUMBER, **dict.fromkeys(FIVE[2:], TEXT)}
    extras = {
        "words": pd.ArrowDtype(pa.int64()),
        "share": NUMBER,
        "why": TEXT,
        "good": pd.ArrowDtype(pa.bool_()),
        "spans": TEXT,
    }
    expected = {"input": pd.Series(["q"]).dtype, "repetition": pd.ArrowDtype(pa.int64())}
    expected |= {"output": TEXT, "task.error": TEXT}
    for name in ("short", "polite", "long", "extra"):
        details = {"latency_s": NUMBER, "fingerprint": TEXT}
        fields = {**evals, **(extras if name == "extra" else {}), **details}
        expected |= {f"eval.{name}.{field}": dtype for field, dtype in fields.items()}
    assert dtypes.to_dict() == expected
    assert list(dtypes.index) == list(expected)


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(pd.DataFrame({"input": ["q"]}).iloc[:0], id="pandas"),
        pytest.param(ef.Dataset(pd.DataFrame({"input": ["q"]})).head(0), id="dataset"),
        pytest.param(pa.table({"input": pa.array([], pa.string())}), id="arrow"),
    ],
)
def test_an_empty_dataset_gives_an_empty_frame_with_every_column_typed(empty):
    """No rows is no special case: the same columns with the same types, and a summary."""
    full = everything(pd.DataFrame({"input": ["q"]}))

    scored = everything(empty)

    assert len(scored) == 0
    made = full.columns[1:]
    pd.testing.assert_series_equal(scored.dtypes[made], full.dtypes[made])
    assert scored.evals.summary()["n"].tolist() == [0, 0, 0, 0]


def test_nothing_is_called_for_an_empty_dataset():
    """Also a vectorized evaluator has nothing to see when there are no rows."""
    frame = pd.DataFrame({"output": pd.Series([], dtype="str")})

    scored = ef.run_experiment(
        frame, evaluators=[never, ef.evaluator(never, name="column", vectorized=True)]
    )

    assert list(scored.columns) == ["output", *columns_of("never", "column")]


QA = pd.DataFrame(
    {"question": ["1+1", "2+2"], "answer": ["2", "5"], "truth": ["2", "4"], "topic": ["m", "n"]}
)


def agrees(input, output, dataset_output, metadata):
    """Everything that a row's roles say, as the explanation."""
    return output == dataset_output, json.dumps([input, metadata])


def test_roles_are_given_by_keyword():
    """Each role is the column that was named for it; several metadata columns are a dict."""
    scored = ef.run_experiment(
        QA,
        evaluators=agrees,
        input="question",
        output="answer",
        dataset_output="truth",
        metadata=["topic", "truth"],
    )

    assert scored["eval.agrees.score"].tolist() == [1.0, 0.0]
    assert scored["eval.agrees.explanation"].tolist() == [
        '["1+1", {"topic": "m", "truth": "2"}]',
        '["2+2", {"topic": "n", "truth": "4"}]',
    ]


def test_one_metadata_column_gives_its_own_value():
    """A single name is the column's value, not a dict."""
    scored = ef.run_experiment(
        QA, evaluators={"m": lambda metadata: metadata}, metadata="topic", output="answer"
    )

    assert scored["eval.m.label"].tolist() == ["m", "n"]


@pytest.mark.parametrize(
    ("role", "alias"),
    [
        ("dataset_output", "expected"),
        ("dataset_output", "expected_output"),
        ("dataset_output", "reference"),
        ("dataset_output", "attributes.output.value"),
        ("output", "actual_output"),
        ("output", "generated_output"),
        ("output", "experiment_output"),
        ("input", "query"),
        ("input", "attributes.input.value"),
        ("metadata", "additional_metadata"),
        ("metadata", "attributes.metadata"),
    ],
)
def test_a_column_named_like_an_alias_plays_the_role(role, alias):
    """Without a mapping the role is taken from the alias; the column keeps its name."""
    frame = pd.DataFrame({alias: ["here"]})
    reads = {
        "input": lambda input: input,
        "output": lambda output: output,
        "dataset_output": lambda dataset_output: dataset_output,
        "metadata": lambda metadata: metadata,
    }

    scored = ef.run_experiment(frame, evaluators={"read": reads[role]})

    assert scored["eval.read.label"].tolist() == ["here"]
    assert scored.columns[0] == alias


def test_two_columns_for_a_role_are_an_error_only_when_it_is_read():
    """Aliases that compete do no harm until something asks for the role."""
    frame = pd.DataFrame({"output": ["a"], "expected": ["x"], "reference": ["y"]})

    ef.run_experiment(frame, evaluators=[short])

    with pytest.raises(ef.ExperimentError, match=r"'expected', 'reference'.*dataset_output="):
        ef.run_experiment(frame, evaluators=[lambda_named("e", lambda dataset_output: True)])


def lambda_named(name, function):
    """A lambda as an evaluator."""
    return ef.evaluator(function, name=name)


def test_the_mapping_of_an_earlier_run_is_remembered():
    """A scored frame can be scored again without naming the roles again."""
    first = ef.run_experiment(QA, evaluators=[short], output="answer", dataset_output="truth")

    second = ef.run_experiment(first, evaluators=[ef.ExactMatch()])
    third = ef.run_experiment(first, evaluators=[ef.ExactMatch()], dataset_output="topic")

    assert second["eval.exact_match.score"].tolist() == [1.0, 0.0]
    assert third["eval.exact_match.score"].tolist() == [0.0, 0.0]


def test_a_remembered_column_that_is_gone_is_forgotten():
    """A mapping from attrs is a convenience, never a reason to fail."""
    first = ef.run_experiment(QA, evaluators=[short], output="answer")
    renamed = first.rename(columns={"answer": "output"})

    second = ef.run_experiment(renamed, evaluators=[short], overwrite=True)

    assert second["eval.short.score"].tolist() == [1.0, 1.0]


def test_a_dataset_brings_its_mapping():
    """The roles of a Dataset hold, for pandas and any other data in it."""
    scored = ef.run_experiment(
        ef.Dataset(QA, output="answer", dataset_output="truth"), evaluators=[ef.ExactMatch()]
    )

    assert scored["eval.exact_match.score"].tolist() == [1.0, 0.0]


def test_a_dataset_has_its_mapping_already():
    """Naming roles of a Dataset again is refused, since one of the two would be ignored."""
    dataset = ef.Dataset(QA, output="answer")

    with pytest.raises(ef.ExperimentError, match=r"mapping already.*output.*Dataset"):
        ef.run_experiment(dataset, evaluators=[never], output="truth")


def test_all_missing_columns_are_named_at_once():
    """One error names each column that is not there, with the nearest name."""
    with pytest.raises(ef.ColumnNotFoundError, match=r"'answr'.*'answer'.*'truht'.*'truth'"):
        ef.run_experiment(QA, evaluators=[never], output="answr", dataset_output="truht")


def test_every_mistake_is_found_before_the_first_call():
    """One error lists mistakes of options, columns, evaluators and collisions; nothing ran."""
    calls = []
    frame = ef.run_experiment(QA, evaluators=[short], output="answer").drop(columns="topic")

    def task(input):
        calls.append(input)

    def misspelt(output, dataset_ouptut):
        calls.append(output)

    with pytest.raises(ef.ExperimentError, match="problems, found before anything") as caught:
        ef.run_experiment(
            frame,
            task,
            [misspelt, short, short, lambda output: True, 7, lambda_named("n", lambda a, b: 1)],
            input="question",
            dataset_output="truht",
            concurrency=0,
            timeout=-1,
        )

    found = "\n".join(caught.value.problems)
    for text in (
        "concurrency must be",
        "timeout must be",
        "'truht'",
        "'dataset_ouptut'",
        "Two evaluators are named 'short'",
        "lambda has no name",
        "7 is no evaluator",
        "parameter 'a' binds to nothing",
        "parameter 'b' binds to nothing",
        "already has results of an evaluator named 'short'",
    ):
        assert text in found
    assert calls == []


def generator(output):
    """A generator function."""
    yield True


async def async_generator(output):
    """An async generator function."""
    yield True


@pytest.mark.parametrize(
    ("evaluators", "match"),
    [
        pytest.param([lambda output, grund_truth: 1], "lambda has no name", id="lambda"),
        pytest.param({"g": lambda output, truht: 1}, "'truht'.*'truth'", id="misspelt"),
        pytest.param({"g": lambda ouptut: 1}, "Did you mean 'output'", id="sole-misspelt"),
        pytest.param({"g": lambda: 1}, "no parameters", id="no-parameters"),
        pytest.param([short, short], "Two evaluators are named 'short'", id="duplicate"),
        pytest.param([42], "42 is no evaluator", id="not-callable"),
        pytest.param(["exact"], "'exact' is no evaluator", id="text"),
        pytest.param([ef.ExactMatch], "ExactMatch is a class", id="class"),
        pytest.param([generator], "generator", id="generator-function"),
        pytest.param([async_generator], "generator", id="async-generator-function"),
        pytest.param({"a.b": short}, "dot", id="dotted-name"),
        pytest.param([ef.task(lambda input: 1)], "is a task", id="task-as-evaluator"),
        pytest.param([], "nothing to run", id="nothing"),
        pytest.param({"g": lambda output: 1}, "no column is the output", id="no-such-role"),
        pytest.param(
            [ef.ExactMatch().bind(output="number", dataset_output="truth")],
            "text.*number|number.*text",
            id="text-with-number",
        ),
        pytest.param(
            [ef.evaluator(lambda x: 1, name="b").bind(x="anwser")], "'anwser'", id="bind-no-column"
        ),
        pytest.param(
            [ef.evaluator(lambda x: 1, name="b").bind(y="answer")],
            "no parameter 'y'",
            id="bind-no-parameter",
        ),
        pytest.param({"g": lambda things: 1}, "'things', row 1", id="unsupported-value"),
    ],
)
def test_a_mistake_in_the_evaluators_is_an_error_that_names_it(evaluators, match):
    """What cannot run is refused before the first call, saying what and why."""
    frame = QA.assign(number=[1, 2], things=[1, {1, 2}])

    with pytest.raises(ef.ExperimentError, match=match):
        ef.run_experiment(frame, evaluators=evaluators)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, not 0"),
        ({"concurrency": 1.5}, "concurrency .* not 1.5"),
        ({"concurrency": True}, "concurrency .* not True"),
        ({"repetitions": 0}, "repetitions must be a whole number of at least 1"),
        ({"timeout": 0}, "timeout must be seconds above 0"),
        ({"timeout": float("nan")}, "timeout .* not nan"),
        ({"timeout": "1"}, "timeout .* not '1'"),
        ({"errors": "ignore"}, "errors must be 'record' or 'raise', not 'ignore'"),
        ({"dry_run": -1}, "dry_run must be .* not -1"),
        ({"dry_run": 0}, "dry_run must be .* not 0"),
        ({"dry_run": "yes"}, "dry_run must be .* not 'yes'"),
        ({"experiment_name": 3}, "experiment_name must be text, not 3"),
        ({"overwrite": "yes"}, "overwrite must be True or False"),
        ({"details": 1}, "details must be True or False"),
        ({"progress": None}, "progress must be True or False"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_an_option_out_of_its_domain_is_refused(options, match):
    """Options are checked by value and type; nothing is rounded or taken for something else."""
    with pytest.raises(ef.ExperimentError, match=match):
        ef.run_experiment(QA, evaluators=[never], output="answer", **options)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([short], id="list"),
        pytest.param([lambda output: 1], id="list-of-functions"),
        pytest.param({"s": short}, id="mapping"),
        pytest.param(short, id="evaluator"),
    ],
)
def test_evaluators_given_as_the_task_are_recognised(given):
    """The commonest slip, evaluators as second argument, is told apart from a bad task."""
    with pytest.raises(ef.ExperimentError, match=r"given as the task.*evaluators=\[\.\.\.\]"):
        QA.pipe(ef.run_experiment, given)


@pytest.mark.parametrize(
    ("evaluators", "names"),
    [
        pytest.param(short, ["short"], id="one"),
        pytest.param((short, polite), ["short", "polite"], id="tuple"),
        pytest.param({"x": short, "y": short}, ["x", "y"], id="mapping"),
        pytest.param({"four": lambda output: True}, ["four"], id="lambda-in-mapping"),
        pytest.param([short, short.named("again")], ["short", "again"], id="named-copy"),
        pytest.param([ef.Contains("a"), short], ["contains", "short"], id="built-in"),
    ],
)
def test_evaluators_come_in_any_of_these_forms(evaluators, names):
    """A callable, an Evaluator, a sequence, or a mapping of names to them."""
    scored = ef.run_experiment(QA, evaluators=evaluators, output="answer")

    assert scored.evals.names == names


def test_results_in_the_way_are_refused():
    """A second run of the same evaluator never writes over the first one unasked."""
    first = ef.run_experiment(QA, evaluators=[short], output="answer")

    with pytest.raises(ef.ExperimentError, match=r"already has results.*'short'.*overwrite=True"):
        ef.run_experiment(first, evaluators=[ef.evaluator(never, name="short")])


def test_overwrite_replaces_the_results_of_that_evaluator_only():
    """All columns of the old results go, extras of before included; others stay."""
    old = ef.evaluator(lambda output: {"score": 0, "words": 1}, name="mine", extras={"words": int})
    first = ef.run_experiment(QA, evaluators=[old, short], output="answer")

    second = ef.run_experiment(first, evaluators={"mine": lambda output: 1.0}, overwrite=True)

    assert list(second.columns) == [*QA.columns, *columns_of("short", "mine")]
    assert second["eval.mine.score"].tolist() == [1.0, 1.0]
    assert first["eval.mine.score"].tolist() == [0.0, 0.0]


def test_a_scored_frame_takes_further_evaluators():
    """Later runs add columns, keep those of before, and know about all evaluators."""
    first = ef.run_experiment(
        QA, evaluators=[short], output="answer", dataset_output="truth", experiment_name="one"
    )

    second = first.pipe(
        ef.run_experiment,
        evaluators=[ef.ExactMatch(threshold=1.0)],
        experiment_name="two",
    )

    assert second.evals.names == ["short", "exact_match"]
    assert second.evals.passed["exact_match"].tolist() == [True, False]
    info = json.loads(second.attrs["evalframe"])
    assert info["experiment_name"] == "two"
    assert set(info["evaluators"]) == {"short", "exact_match"}


def test_result_columns_are_no_part_of_the_row():
    """dataset_row and **kwargs show the dataset's own columns, never results of before."""
    first = ef.run_experiment(QA, evaluators=[short], output="answer")
    seen = []

    def row(dataset_row):
        seen.append(sorted(dataset_row))
        return True

    def rest(output, **others):
        seen.append(sorted(others))
        return True

    ef.run_experiment(first, evaluators=[row, rest])

    own = ["answer", "question", "topic", "truth"]
    others = ["question", "topic", "truth"]
    assert sorted(seen) == sorted([own, own, others, others])


def test_a_result_of_an_earlier_run_is_read_by_bind():
    """`.bind(x="eval.a.label")` is the way to judge a judge."""
    first = ef.run_experiment(QA, evaluators=[short], output="answer")

    second = ef.run_experiment(
        first, evaluators=[lambda_named("copy", lambda x: x).bind(x="eval.short.label")]
    )

    assert second["eval.copy.label"].tolist() == ["True", "True"]


@pytest.mark.parametrize(
    ("dry_run", "rows"),
    [(True, 10), (3, 3), (1, 1), (99, 12), (False, 12)],
    ids=["true", "three", "one", "more-than-there-are", "false"],
)
def test_a_dry_run_takes_the_first_rows(dry_run, rows):
    """True is ten rows, a number that many; their index stays."""
    frame = pd.DataFrame({"output": list("abcdefghijkl")}, index=range(100, 112))
    recorder = Recorder()

    scored = ef.run_experiment(frame, evaluators={"r": recorder}, dry_run=dry_run)

    assert recorder.seen == frame["output"].tolist()[:rows]
    pd.testing.assert_frame_equal(scored[["output"]], frame.head(rows))


def test_a_dry_run_of_a_dataset_takes_the_first_rows():
    """Rows of a Dataset are cut like those of a frame."""
    scored = ef.run_experiment(ef.Dataset(QA, output="answer"), evaluators=[short], dry_run=1)

    assert scored["question"].tolist() == ["1+1"]


def test_repetitions_stand_together_and_are_numbered():
    """Row 1 n times, then row 2; the index repeats, `repetition` counts from 1."""
    frame = pd.DataFrame({"output": ["a", "b"]}, index=pd.Index([5, 9], name="id"))
    recorder = Recorder()

    scored = ef.run_experiment(frame, evaluators={"r": recorder}, repetitions=3)

    expected = pd.DataFrame(
        {
            "output": ["a", "a", "a", "b", "b", "b"],
            "repetition": pd.array([1, 2, 3, 1, 2, 3], dtype=pd.ArrowDtype(pa.int64())),
        },
        index=pd.Index([5, 5, 5, 9, 9, 9], name="id"),
    )
    pd.testing.assert_frame_equal(scored[["output", "repetition"]], expected)
    assert recorder.seen == ["a", "a", "a", "b", "b", "b"]


def test_repetitions_reach_every_kind_of_evaluator():
    """Sync, async and vectorized evaluators see each repetition of each row."""
    frame = pd.DataFrame({"output": ["a", "bbbb"]})

    scored = ef.run_experiment(frame, evaluators=KINDS, repetitions=2)

    assert scored["eval.short.score"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert scored["eval.long.score"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert scored["eval.polite.explanation"].tolist() == [*["read a"] * 2, *["read bbbb"] * 2]


def test_repetitions_need_their_column_name():
    """A column called `repetition` is never overwritten."""
    frame = pd.DataFrame({"output": ["a"], "repetition": [4]})

    with pytest.raises(ef.ExperimentError, match=r"'repetition'.*rename"):
        ef.run_experiment(frame, evaluators=[never], repetitions=2)


def test_details_add_a_latency_per_cell():
    """Every cell that was called has seconds; one whose task failed has none."""

    def task(input):
        return {"ok": "a"}[input]

    scored = ef.run_experiment(
        pd.DataFrame({"input": ["ok", "bad"]}), task, [short, polite, long], details=True
    )

    for name in ("short", "polite", "long"):
        seconds = scored[f"eval.{name}.latency_s"]
        assert seconds.isna().tolist() == [False, True]
        assert 0 <= seconds[0] < 5


def test_without_details_there_is_no_latency():
    """Five columns per evaluator are the rule."""
    scored = ef.run_experiment(QA, evaluators=[short], output="answer")

    assert list(scored.columns) == [*QA.columns, *columns_of("short")]


def test_attrs_tell_of_the_run():
    """Mapping, evaluators with their declarations and counts, and tracebacks, as JSON."""

    @ef.evaluator(threshold=0.5, direction="minimize", version="v7", kind="HUMAN")
    def inverse(output):
        return 1 / int(output)

    scored = ef.run_experiment(
        pd.DataFrame({"answer": ["2", "0"]}), evaluators=[inverse], output="answer"
    )

    info = json.loads(scored.attrs["evalframe"])
    assert info["mapping"] == {"output": "answer"}
    assert info["rows"] == 2
    assert info["partial"] is False
    known = info["evaluators"]["inverse"]
    assert (known["kind"], known["direction"], known["version"]) == ("HUMAN", "minimize", "v7")
    assert known["threshold"] == 0.5
    assert known["counts"] == {"valid": 1, "failed": 1, "task_failed": 0, "skipped": 0}
    (trace,) = info["tracebacks"].values()
    assert "return 1 / int(output)" in trace


def test_the_name_of_an_experiment_is_the_time_unless_given():
    """Every run can be told apart."""
    scored = ef.run_experiment(QA, evaluators=[short], output="answer")

    assert json.loads(scored.attrs["evalframe"])["experiment_name"].startswith("20")


def test_last_run_is_the_newest_frame():
    """The result is not lost when nobody kept it."""
    scored = ef.run_experiment(QA, evaluators=[short], output="answer")

    assert ef.last_run() is scored


def test_a_failure_is_a_fact_of_its_cell():
    """An exception is NA, its kind and text, and the user's own file and line."""

    def picky(output):
        if output == "5":
            raise KeyError(*"x")
        return 1.0

    scored = ef.run_experiment(QA, evaluators=[picky], output="answer")

    error = scored["eval.picky.error"]
    assert error.isna().tolist() == [True, False]
    assert error[1].startswith("exception: KeyError: 'x' (test_experiment.py:")
    assert scored["eval.picky.score"].isna().tolist() == [False, True]


def test_errors_raise_gives_the_users_own_exception():
    """The very object that user code raised arrives, with the frame so far on it."""
    mine = LookupError("mine")

    def picky(output):
        if output == "c":
            raise mine
        return 1.0

    frame = pd.DataFrame({"output": list("abcdef")})
    with pytest.raises(LookupError, match="mine") as caught:
        ef.run_experiment(frame, evaluators=[picky, short], errors="raise")

    assert caught.value is mine
    partial = mine.partial
    assert ef.last_run() is partial
    pd.testing.assert_frame_equal(partial[["output"]], frame)
    assert partial["eval.picky.score"].tolist()[:2] == [1.0, 1.0]
    assert partial["eval.picky.error"][2].startswith("exception: LookupError: mine")
    assert partial["eval.picky.error"].tolist()[3:] == ["skipped: not run"] * 3
    assert json.loads(partial.attrs["evalframe"])["partial"] is True


def test_every_cell_that_ran_is_in_the_partial_frame():
    """A stop loses nothing: as many cells are valid as calls returned."""
    calls, mine = [], LookupError("mine")

    def picky(output):
        if output == 700:
            raise mine
        calls.append(output)
        return 1.0

    with pytest.raises(LookupError, match="mine") as caught:
        ef.run_experiment(pd.DataFrame({"output": range(1000)}), evaluators=[picky], errors="raise")

    scores = caught.value.partial["eval.picky.score"]
    assert scores.notna().sum() == len(calls) == 700


@pytest.mark.parametrize("returned", [97.0, "x" * 3, [1], float("nan")], ids=repr)
def test_errors_raise_names_evaluator_and_row_of_a_bad_result(returned):
    """A failure without an exception of its own is a CellError."""
    evaluator = ef.evaluator(lambda output: (returned,), name="odd")

    with pytest.raises(ef.CellError, match="Evaluator 'odd', row 0: invalid_result"):
        ef.run_experiment(QA, evaluators=[evaluator], output="answer", errors="raise")


def test_errors_raise_lets_skips_pass():
    """What was skipped has not failed."""
    scored = ef.run_experiment(
        QA, evaluators={"s": lambda output: ef.skip("why")}, output="answer", errors="raise"
    )

    assert scored["eval.s.error"].tolist() == ["skipped: why"] * 2


def test_errors_raise_stops_a_vectorized_evaluator_too():
    """Its own exception arrives; results of evaluators before it are kept."""
    mine = LookupError("column")

    @ef.evaluator(vectorized=True)
    def broken(output):
        raise mine

    with pytest.raises(LookupError, match="column") as caught:
        ef.run_experiment(QA, evaluators=[short, broken], output="answer", errors="raise")

    partial = caught.value.partial
    assert partial["eval.short.score"].tolist() == [1.0, 1.0]
    assert partial["eval.broken.error"][0].startswith("exception: LookupError: column")


class ClosedError(Exception):
    """An exception that takes no attributes."""

    def __setattr__(self, name, value):
        raise TypeError(name)


def test_an_exception_that_takes_no_attributes_is_still_the_one_that_arrives():
    """Putting `.partial` on it must not hide what user code raised."""

    def fails(output):
        raise ClosedError(7)

    with pytest.raises(ClosedError, match="7"):
        ef.run_experiment(QA, evaluators=[fails], output="answer", errors="raise")

    assert ef.last_run()["eval.fails.error"][1] == "skipped: not run"


def test_both_entry_points_give_the_same_frame():
    """run_experiment and arun_experiment differ in the loop, in nothing else."""
    frame = pd.DataFrame({"input": ["q", "qq"]})
    options = {"experiment_name": "same", "repetitions": 2}

    sync = ef.run_experiment(frame, lambda input: input * 2, KINDS, **options)
    awaited = asyncio.run(ef.arun_experiment(frame, lambda input: input * 2, KINDS, **options))

    pd.testing.assert_frame_equal(awaited, sync)


def test_arun_refuses_the_same_mistakes():
    """The checks are the same, and come before the first call."""
    with pytest.raises(ef.ExperimentError, match="concurrency"):
        asyncio.run(ef.arun_experiment(QA, evaluators=[never], output="answer", concurrency=0))


def test_a_failed_task_of_an_earlier_run_is_not_evaluated():
    """Such a row has no output to judge; it stays out of every number."""

    def task(input):
        return {"good": "fine"}[input]

    first = ef.run_experiment(pd.DataFrame({"input": ["bad", "good"]}), task)
    recorder = Recorder()

    second = ef.run_experiment(first, evaluators=[lambda_named("r", recorder.__call__), long])

    assert recorder.seen == ["fine"]
    for name in ("r", "long"):
        assert second[f"eval.{name}.error"][0].startswith("task_failed:")
    assert second.evals.summary()["n_task_failed"].tolist() == [1, 1]


def test_a_chain_of_methods_is_enough():
    """Filter, run, filter by score and read: plain pandas before and after."""
    hard = (
        QA.query("topic == 'n'")
        .pipe(
            ef.run_experiment, evaluators=[ef.ExactMatch()], output="answer", dataset_output="truth"
        )
        .query("`eval.exact_match.score` < 1")
    )

    assert hard["question"].tolist() == ["2+2"]
    assert hard.index.tolist() == [1]


def test_a_dataset_of_a_scored_frame_brings_the_mapping(tmp_path):
    """The mapping of an earlier run is remembered in a Dataset, and in a file, as in a frame."""
    rows = [{"question": "1+1", "answer": "2", "truth": "2"}]
    roles = {"input": "question", "output": "answer", "dataset_output": "truth"}
    scored = ef.run_experiment(rows, evaluators=[ef.ExactMatch()], **roles)
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    for source in (ef.Dataset(scored), tmp_path / "scored.parquet"):
        again = ef.run_experiment(source, evaluators=[ef.ExactMatch(name="again")])

        assert again["eval.again.score"].tolist() == [1.0]
