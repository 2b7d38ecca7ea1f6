"""What holds for built-in evaluators that score shares of JSON values and of lists of calls.

A new one is added to CASES with four rows and what it says of them. The third row has a null
output, the fourth a null reference.
"""

import asyncio
import copy
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

FIELDS = ["label", "score", "explanation", "metadata", "error"]


@dataclass(frozen=True)
class Case:
    """An evaluator, its columns and extras, four rows, and the scores of the first two."""

    evaluator: ef.Evaluator
    columns: tuple[str, str]
    extras: tuple[str, ...]
    outputs: tuple
    references: tuple
    scores: tuple
    skipped: str
    label: bool = False

    @property
    def expected(self):
        """What it says of each row: a score, or the error."""
        return [*self.scores, 0.0, self.skipped]

    @property
    def fields(self):
        """Its result columns, in order."""
        return [*FIELDS, *self.extras]


JSON = {
    "columns": ("output", "dataset_output"),
    "extras": ("by_key",),
    "outputs": ({"a": 1, "b": ["x", None]}, '{"a": 2, "b": ["x"]}', None, {"a": 1}),
    "references": ({"a": 1, "b": ["x", None]}, {"a": 1, "b": ["x", "y"]}, {"a": 1}, None),
    "skipped": "skipped: no reference",
}
TOOLS = {
    "columns": ("tools_called", "expected_tools"),
    "extras": ("missing", "extra", "out_of_order"),
    "outputs": (["f"], ["g", {"name": "f", "args": {"q": 1}}], None, ["f"]),
    "references": (["f"], [{"name": "f", "args": {"q": 1}}, "g"], ["f"], None),
    "skipped": "skipped: no expected tools",
}
CASES = {
    "json": Case(ef.JsonDiff(), scores=(1.0, (2 / 3 + 0.5) / 2), **JSON),
    "json-exact": Case(
        ef.JsonDiff(
            {"a": 0.5, "b": 1},
            strings="exact",
            numbers="exact",
            lists="zip",
            nested_weight="one",
            name="same",
            threshold=0.5,
        ),
        scores=(1.0, 1 / 1.5),
        **JSON,
    ),
    "tools": Case(ef.ToolCalls(), scores=(1.0, 0.0), label=True, **TOOLS),
    "tools-ordered": Case(ef.ToolCalls("ordered", arguments=True), scores=(1.0, 0.5), **TOOLS),
    "tools-set": Case(
        ef.ToolCalls("set", name="called", threshold=1.0), scores=(1.0, 1.0), **TOOLS
    ),
}

# Of rows that are looked at alone, some lack a key that has a weight.
without_key = pytest.mark.filterwarnings("ignore:JsonDiff 'same' has weights")
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def objects(values):
    """A column of Python values, of which pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = copy.deepcopy(values)
    return pd.Series(cells, dtype=object)


def toy(case, rows=(0, 1, 2, 3)):
    """The case's rows, or some of them."""
    sides = zip(case.columns, (case.outputs, case.references), strict=True)
    return pd.DataFrame({name: objects([side[row] for row in rows]) for name, side in sides})


def run(case, frame, evaluator=None, **options):
    """The frame with the results."""
    return ef.run_experiment(
        frame, evaluators=[evaluator or case.evaluator], progress=False, **options
    )


def outcomes(scored, name):
    """The score of each row, or its error."""
    parts = [pa.array(scored[f"eval.{name}.{part}"]).to_pylist() for part in ("score", "error")]
    return [score if error is None else error for score, error in zip(*parts, strict=True)]


def judged(case, frame, evaluator=None, **options):
    """The outcomes of a run."""
    evaluator = evaluator or case.evaluator
    return outcomes(run(case, frame, evaluator, **options), evaluator.name)


@every_case
def test_it_pickles_to_an_equal_one(case):
    """By its arguments, name and bindings included."""
    changed = case.evaluator.bind(**{case.columns[0]: "a.b"}).named("other")

    assert pickle.loads(pickle.dumps(case.evaluator)) == case.evaluator
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert pickle.loads(pickle.dumps(changed)).bindings == {case.columns[0]: "a.b"}


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(case, way):
    """What is copied is what it does."""
    assert judged(case, toy(case), way(case.evaluator)) == pytest.approx(case.expected)


@every_case
def test_its_repr_makes_it_again(case):
    """With the class in scope; also of a renamed and bound copy."""
    scope = {type(case.evaluator).__name__: type(case.evaluator)}
    changed = case.evaluator.bind(**{case.columns[0]: "a.b"}).named("other")

    assert eval(repr(case.evaluator), scope) == case.evaluator  # noqa: S307 - our own text
    assert eval(repr(changed), scope) == changed  # noqa: S307


@every_case
def test_it_equals_only_what_does_the_same(case):
    """Other arguments, another name or another class are unequal."""
    others = [other.evaluator for other in CASES.values() if other is not case]

    assert [other for other in others if other == case.evaluator] == []
    assert case.evaluator != case.evaluator.named("other")
    assert hash(copy.deepcopy(case.evaluator)) == hash(case.evaluator)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(ef.JsonDiff, "json_diff", id="json"),
        pytest.param(ef.ToolCalls, "tool_calls", id="tools"),
    ],
)
def test_it_takes_name_and_threshold(made, name):
    """The name is the class in snake_case unless one is given; it says where it is from."""
    given = made(name="mine", threshold=0.5)

    assert made().name == name
    assert (given.name, given.threshold) == ("mine", 0.5)
    assert (made().threshold, made().kind, made().score_range) == (None, "CODE", (0.0, 1.0))
    assert made(direction="minimize", version="2").direction == "minimize"
    assert "](https://" in made.source
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0\.0, 1\.0\], not 2"):
        made(threshold=2)


@every_case
def test_it_is_frozen(case):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match="is frozen, so 'name' cannot be set"):
        case.evaluator.name = "other"


@every_case
def test_it_returns_the_columns_it_declares(case):
    """Fixed types after the frame's own, whatever the rows say; its extras are JSON."""
    frame, name = toy(case), case.evaluator.name

    scored = run(case, frame)

    assert list(scored) == [*frame, *(f"eval.{name}.{field}" for field in case.fields)]
    text = pd.StringDtype("pyarrow")
    assert scored.evals[name][case.fields].dtypes.tolist() == [
        pd.ArrowDtype(pa.float64()) if field == "score" else text for field in case.fields
    ]
    for extra in case.extras:
        assert isinstance(json.loads(scored[f"eval.{name}.{extra}"][0]), (dict, list))


@every_case
def test_its_scores_are_those_of_the_rows(case):
    """A null reference is skipped, a null output scores 0.0; only a yes or no has a label."""
    scored = run(case, toy(case))

    assert outcomes(scored, case.evaluator.name) == pytest.approx(case.expected)
    labels = pa.array(scored[f"eval.{case.evaluator.name}.label"]).to_pylist()
    assert labels == (["True", "False", "False", None] if case.label else [None] * 4)


@every_case
def test_it_does_not_change_its_input(case):
    """The caller's frame, and its columns in the result, are what they were."""
    frame, before = toy(case), toy(case)

    scored = run(case, frame)

    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(scored[list(frame)], before)


@every_case
def test_no_rows_give_typed_columns(case):
    """As with rows."""
    scored = run(case, toy(case).iloc[:0])

    assert scored.empty
    pd.testing.assert_series_equal(scored.dtypes, run(case, toy(case)).dtypes)


@every_case
@pytest.mark.parametrize("dtype", ["object", "float64", "Int64", "string", "datetime64[ns]"])
def test_a_column_of_nothing_but_nulls_is_nulls(case, dtype):
    """Whatever type pandas gave it."""
    nulls = pd.Series([None, None], dtype=dtype)
    frame = toy(case).iloc[:2]

    assert judged(case, frame.assign(**{case.columns[0]: nulls})) == [0.0, 0.0]
    assert judged(case, frame.assign(**{case.columns[1]: nulls})) == [case.skipped] * 2


@without_key
@every_case
def test_a_row_alone_gets_the_score_it_gets_among_others(case):
    """One row at a time, in each of its places, and in any order."""
    alone = [judged(case, toy(case, [row]))[0] for row in range(4)]

    assert alone == pytest.approx(case.expected)
    assert judged(case, toy(case, [3, 1, 0, 0, 2])) == pytest.approx(
        [case.expected[row] for row in (3, 1, 0, 0, 2)]
    )


INDEXES = {
    "duplicates": pd.Index([7, 7, 1, 1]),
    "reversed": pd.Index([3, 2, 1, 0]),
    "float": pd.Index([0.5, float("nan"), 2.0, 2.0]),
    "times": pd.date_range("2024-05-01", periods=4, freq="h"),
    "multi": pd.MultiIndex.from_product([["x", "y"], [1, 2]]),
}


@every_case
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_results_stand_on_their_rows_whatever_the_index(case, index):
    """By position; the index comes out as it went in."""
    scored = run(case, toy(case).set_axis(index))

    assert outcomes(scored, case.evaluator.name) == pytest.approx(case.expected)
    pd.testing.assert_index_equal(scored.index, index)


@every_case
def test_an_asynchronous_run_gives_the_same(case):
    """Cell by cell."""
    running = ef.arun_experiment(toy(case), evaluators=[case.evaluator], progress=False)

    found = asyncio.run(running)

    ours = [name for name in found if name.startswith("eval.")]
    pd.testing.assert_frame_equal(found[ours], run(case, toy(case))[ours])


@every_case
def test_repetitions_and_details_leave_the_scores_alone(case):
    """Row 1 twice, then row 2; each cell has its share of the time."""
    scored = run(case, toy(case), repetitions=2, details=True)

    assert outcomes(scored, case.evaluator.name) == pytest.approx(
        [outcome for outcome in case.expected for _ in range(2)]
    )
    assert scored[f"eval.{case.evaluator.name}.latency_s"].notna().all()


ODD = [
    *("a", "", "{", "[]", '{"a": 1}', "\x00", "😀"),
    *(None, 1, -2.5, True, 10**400, float("inf"), float("nan")),
    *([], [None], ["a", None], [1, [2]], ("a",), {}, {"a": {"b": float("nan")}}, [{"name": "a"}]),
    *(b"a", pd.Timestamp("2024-05-01").to_pydatetime(), {"": {}, ".": [[]]}),
]


@without_key
@every_case
def test_odd_values_are_judged_or_fail_for_themselves(case):
    """Every kind of value against every other: no exception, and never a cell of its neighbour."""
    pairs = [(output, reference) for output in ODD for reference in ODD]
    columns = [objects([pair[side] for pair in pairs]) for side in (0, 1)]

    def called(rows):
        cells = case.evaluator.function(*(column.iloc[rows] for column in columns))
        assert list(cells.arrays) == case.fields
        return list(zip(*(array.to_pylist() for array in cells.arrays.values()), strict=True))

    together = called(slice(None))

    assert together == [called([row])[0] for row in range(len(pairs))]
    scores, errors = ([cell[place] for cell in together] for place in (1, 4))
    assert all(
        (score is None) != (error is None) for score, error in zip(scores, errors, strict=True)
    )
    assert all(score is None or 0 <= score <= 1 for score in scores)
    assert {(error or "valid").partition(":")[0] for error in errors} == {
        "valid",
        "skipped",
        "invalid_result",
    }
