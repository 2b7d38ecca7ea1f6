"""What holds for every built-in evaluator holds for those that embed, in several configurations.

Vectors are those of a function of this file, but for one configuration on a server.
"""

import asyncio
import copy
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.testing import ChatServer, embeddings

FIELDS = ["label", "score", "explanation", "metadata", "error"]
TEXT, NUMBER = pd.StringDtype("pyarrow"), pd.ArrowDtype(pa.float64())
TYPES = {"cosine": NUMBER, "precision": NUMBER, "recall": NUMBER, "f1": NUMBER, "missing": TEXT}


def letters(texts):
    """How often each of four letters is there, and one number that never is 0."""
    return [[*(text.casefold().count(letter) for letter in "aest"), 0.5] for text in texts]


async def awaited(texts):
    """The same, to be awaited."""
    return letters(texts)


CASES = {
    "similarity": ef.SemanticSimilarity(letters),
    "similarity-async": ef.SemanticSimilarity(awaited, name="meaning", threshold=0.5),
    "similarity-batches": ef.SemanticSimilarity(
        ef.Embedder(letters, batch_size=2), direction="minimize", version="2"
    ),
    "words": ef.BertScore(letters),
    "words-strict": ef.BertScore(letters, presence_threshold=1.0, threshold=0.9),
    "sentences": ef.BertScore(letters, level="sentence", name="sentences"),
}
every_case = pytest.mark.parametrize("evaluator", CASES.values(), ids=CASES)

OUTPUTS = ["A tea. East!", "set", None, "", "Straße", "tea"]
REFERENCES = ["a seat", "A", "a", "a", "STRASSE", None]
ERRORS = [None, None, None, "skipped: empty text", None, "skipped: no reference"]


def toy(dtype="string"):
    """Six rows, with nulls and empty text."""
    return pd.DataFrame({"output": OUTPUTS, "dataset_output": REFERENCES}, dtype=dtype)


def run(evaluator, frame=None, **options):
    """The frame with the results."""
    frame = toy() if frame is None else frame
    return ef.run_experiment(frame, evaluators=[evaluator], progress=False, **options)


def cells(evaluator, frame=None, **options):
    """All results, by field; None for null."""
    found = run(evaluator, frame, **options).evals[evaluator.name]
    return {name: pa.array(found[name].array).to_pylist() for name in found}


@every_case
def test_its_fingerprint_is_that_of_every_equal_one(evaluator):
    """Read in full, whatever it is called; bound otherwise it differs, but for a version."""
    found = evaluator.fingerprint()

    assert found.unread == ()
    assert pickle.loads(pickle.dumps(evaluator)).fingerprint() == found
    assert evaluator.named("other").fingerprint() == found
    assert (evaluator.bind(output="a.b").fingerprint() == found) == (evaluator.version is not None)


@every_case
def test_it_pickles_to_an_equal_one(evaluator):
    """By its arguments, name and bindings included."""
    changed = evaluator.bind(output="a.b").named("other")

    assert pickle.loads(pickle.dumps(evaluator)) == evaluator
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert pickle.loads(pickle.dumps(changed)).bindings == {"output": "a.b"}


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(evaluator, way):
    """What is copied is what it does."""
    assert cells(way(evaluator)) == cells(evaluator)


@pytest.mark.parametrize("made", [ef.SemanticSimilarity, ef.BertScore])
@pytest.mark.parametrize(
    "embedder",
    [
        None,
        "openai/text-embedding-3-small",
        ef.Model("local/m", base_url="http://here/v1", rpm=10),
        ef.Embedder("openai/text-embedding-3-small", dimensions=8),
    ],
    ids=["local", "name", "model", "embedder"],
)
def test_its_repr_makes_it_again(made, embedder):
    """With the classes in scope; also of a renamed and bound copy."""
    scope = {cls.__name__: cls for cls in (made, ef.Model, ef.Embedder)}
    evaluator = made(embedder)

    for changed in (evaluator, evaluator.bind(output="a.b").named("other")):
        assert eval(repr(changed), scope) == changed  # noqa: S307 - our own text


@every_case
def test_it_equals_only_what_does_the_same(evaluator):
    """Other arguments, another name, other bindings or another class are unequal."""
    others = [other for other in CASES.values() if other is not evaluator]

    assert [other for other in others if other == evaluator] == []
    assert evaluator != evaluator.named("other")
    assert evaluator != evaluator.bind(output="a.b")
    assert evaluator.named(evaluator.name) == evaluator
    assert hash(copy.deepcopy(evaluator)) == hash(evaluator)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(ef.SemanticSimilarity, "semantic_similarity", id="similarity"),
        pytest.param(ef.BertScore, "bert_score", id="bert-score"),
    ],
)
def test_it_takes_name_and_threshold(made, name):
    """The name is the class in snake_case unless one is given."""
    given = made(name="mine", threshold=0.5)

    assert made().name == name
    assert (given.name, given.threshold) == ("mine", 0.5)
    assert (made().threshold, made().kind, made().score_range) == (None, "CODE", (0.0, 1.0))
    assert made(direction="minimize", version="2").direction == "minimize"
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0\.0, 1\.0\], not 2"):
        made(threshold=2)
    with pytest.raises(ValueError, match="dot"):
        made(name="a.b")


@pytest.mark.parametrize("made", [ef.SemanticSimilarity, ef.BertScore])
def test_it_says_where_its_formula_is_from_and_what_it_needs(made):
    """A link, and the extra of the local model."""
    assert made.source.endswith(")")
    assert "](https://arxiv.org/abs/" in made.source
    assert made.extra_needed == "local"


@every_case
def test_it_is_frozen(evaluator):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match=r"is frozen, so 'name' cannot be set.*\.named\(\)"):
        evaluator.name = "other"


@every_case
def test_it_returns_the_columns_it_declares(evaluator):
    """Five columns of fixed types and its extras after the frame's own, whatever the rows say."""
    scored = run(evaluator)

    fields = [*FIELDS, *evaluator.extras]
    assert list(scored) == [*toy(), *(f"eval.{evaluator.name}.{field}" for field in fields)]
    kinds = [TEXT, NUMBER, TEXT, TEXT, TEXT, *(TYPES[name] for name in evaluator.extras)]
    assert scored.evals[evaluator.name].dtypes.tolist() == kinds


@every_case
def test_nulls_and_empty_texts_are_as_for_all_built_ins(evaluator):
    """A null reference is skipped, a null output scores 0.0, an empty text is skipped."""
    found = cells(evaluator)

    assert found["error"] == ERRORS
    assert found["score"][2] == 0.0
    assert [score is None for score in found["score"]] == [why is not None for why in ERRORS]
    assert all(0.0 <= score <= 1.0 for score in found["score"] if score is not None)
    assert found["label"] == found["metadata"] == [None] * 6


@every_case
def test_it_does_not_change_its_input(evaluator):
    """The caller's frame, and its columns in the result, are what they were."""
    frame = toy()
    before = frame.copy(deep=True)

    scored = run(evaluator, frame)

    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(scored[list(frame)], before)


@every_case
def test_no_rows_give_typed_columns(evaluator):
    """As with rows."""
    scored = run(evaluator, toy().iloc[:0])

    assert scored.empty
    pd.testing.assert_series_equal(scored.dtypes, run(evaluator).dtypes)


@every_case
@pytest.mark.parametrize("dtype", ["object", "float64", "Int64", "str", "string", "datetime64[ns]"])
def test_a_column_of_nothing_but_nulls_is_nulls(evaluator, dtype):
    """Whatever type pandas gave it."""
    nulls = pd.Series([None] * 6, dtype=dtype)

    found = cells(evaluator, toy().assign(output=nulls))["score"]
    assert found == [0.0] * 5 + [None]
    both = cells(evaluator, pd.DataFrame({"output": nulls, "dataset_output": nulls}))
    assert both["error"] == ["skipped: no reference"] * 6


@every_case
def test_a_row_alone_gets_the_cell_it_gets_among_others(evaluator):
    """One row at a time."""
    alone = [cells(evaluator, toy().iloc[[row]]) for row in range(6)]

    together = cells(evaluator)
    assert {name: [row[name][0] for row in alone] for name in together} == together


INDEXES = {
    "duplicates": pd.Index([7, 7, 7, 1, 1, 0]),
    "reversed": pd.Index([5, 4, 3, 2, 1, 0]),
    "float": pd.Index([0.5, float("nan"), 1.5, 2.0, 2.0, -1.0]),
    "multi": pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]),
}


@every_case
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_results_stand_on_their_rows_whatever_the_index(evaluator, index):
    """By position; the index comes out as it went in."""
    frame = toy().set_axis(index)

    assert cells(evaluator, frame) == cells(evaluator)
    pd.testing.assert_index_equal(run(evaluator, frame).index, index)


@every_case
def test_rows_in_another_order_have_their_own_cells(evaluator):
    """What stands before or after a row does not count."""
    order = [3, 0, 5, 4, 2, 1]
    shuffled = cells(evaluator, toy().iloc[order])

    assert shuffled == {name: [v[row] for row in order] for name, v in cells(evaluator).items()}


@every_case
def test_repetitions_are_judged_alike(evaluator):
    """Row 1 twice, then row 2: a text has one vector."""
    found = cells(evaluator, repetitions=2)

    expected = {name: [v[row // 2] for row in range(12)] for name, v in cells(evaluator).items()}
    assert found == expected


@every_case
def test_it_judges_the_same_under_a_loop_that_runs(evaluator):
    """As in a notebook."""
    scored = asyncio.run(ef.arun_experiment(toy(), evaluators=[evaluator], progress=False))

    pd.testing.assert_frame_equal(
        scored.evals[evaluator.name], run(evaluator).evals[evaluator.name]
    )


@every_case
def test_it_judges_the_output_of_a_task(evaluator):
    """Rows whose task failed are left out."""
    outputs = dict(enumerate(OUTPUTS))

    def answer(input):
        if input == 1:
            message = "no answer"
            raise ValueError(message)
        return outputs[input]

    frame = pd.DataFrame({"input": range(6), "dataset_output": REFERENCES})
    scored = ef.run_experiment(frame, answer, evaluators=[evaluator], progress=False)

    errors = pa.array(scored[f"eval.{evaluator.name}.error"].array).to_pylist()
    assert errors == [*ERRORS[:1], "task_failed: not run, the task failed", *ERRORS[2:]]


@every_case
def test_bound_it_reads_other_columns(evaluator):
    """Also a path into one."""
    frame = toy().rename(columns={"output": "answer"})
    nested = pd.DataFrame(
        {"output": [{"text": text} for text in OUTPUTS], "dataset_output": REFERENCES}
    )

    assert cells(evaluator.bind(output="answer"), frame) == cells(evaluator)
    assert cells(evaluator.bind(output="output.text"), nested) == cells(evaluator)


@every_case
def test_results_survive_a_file(evaluator, tmp_path):
    """Every column with its type."""
    scored = run(evaluator, details=True)
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    pd.testing.assert_frame_equal(ef.read_parquet(tmp_path / "scored.parquet"), scored)


def test_json_extra_is_json_text():
    """A list of [start, end)."""
    found = cells(ef.BertScore(letters))["missing"]

    assert [json.loads(text) for text in found if text is not None]


@pytest.mark.parametrize("made", [ef.SemanticSimilarity, ef.BertScore])
def test_it_judges_the_same_whoever_embeds(made):
    """A server's vectors of these texts are those of the function, to seven digits."""
    with ChatServer(embeddings(lambda text: letters([text])[0])) as server:
        found = cells(made(ef.Model("local/m", base_url=server.base_url)))

    expected = cells(made(letters))
    assert found["error"] == expected["error"]
    numbers = [[np.nan if n is None else n for n in side["score"]] for side in (found, expected)]
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-6)


@every_case
def test_it_cannot_be_called_alone(evaluator):
    """It has nothing to embed with: a run opens it."""
    column = pd.Series(["a"])

    with pytest.raises(TypeError, match="runs inside run_experiment"):
        asyncio.run(evaluator.evaluate(column, column))
