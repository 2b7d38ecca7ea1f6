"""A metric task as configuration: the same evaluator as in code, or an error that names the key."""

import pytest

import evalframe as ef
from evalframe.evaluators.config import from_config

TASK = {
    "task_type": "metric",
    "alias": "overlap",
    "configuration": {"type": "f1", "candidate": "item.output", "reference": "item.truth"},
}
ROWS = [
    {"output": "the cat sat", "truth": "the cat sat"},
    {"output": "a dog", "truth": "the cat sat"},
    {"output": "the cat", "truth": None},
]


def task_of(without=(), **changes):
    """The task with other keys in its configuration."""
    inner = {**TASK["configuration"], **changes}
    return {**TASK, "configuration": {k: v for k, v in inner.items() if k not in without}}


def run(task, rows=ROWS):
    """The scored frame of one task."""
    return ef.load_experiment({"name": "Example", "data": rows, "tasks": [task]})


@pytest.mark.parametrize(
    ("kind", "evaluator"),
    [
        ("bleu", ef.Bleu(name="overlap")),
        ("rouge1", ef.Rouge("rouge1", name="overlap")),
        ("rouge2", ef.Rouge("rouge2", name="overlap")),
        ("rougeL", ef.Rouge("rougeL", name="overlap")),
        ("f1", ef.TokenF1(name="overlap")),
    ],
)
def test_a_task_gives_what_the_evaluator_gives(kind, evaluator):
    """Every type is the evaluator of its name, on the two columns."""
    bound = evaluator.bind(output="output", dataset_output="truth")

    by_hand = ef.run_experiment(ROWS, evaluators=bound)

    assert run(task_of(type=kind)).equals(by_hand)
    assert by_hand["eval.overlap.score"][0] == pytest.approx(1.0)
    assert by_hand["eval.overlap.error"][2] == "skipped: no reference"


def test_cosine_similarity_is_semantic_similarity():
    """With the embedder that the configuration names, or the local one."""
    named = task_of(type="cosine_similarity", embedder="openai/text-embedding-3-small")

    assert from_config(named) == ef.SemanticSimilarity(
        "openai/text-embedding-3-small", name="overlap"
    ).bind(output="output", dataset_output="truth")
    assert from_config(task_of(type="cosine_similarity")) == ef.SemanticSimilarity(
        name="overlap"
    ).bind(output="output", dataset_output="truth")


def test_the_alias_is_the_type_where_none_is_given():
    """As in the source system."""
    scored = run({key: value for key, value in TASK.items() if key != "alias"})

    assert scored.evals.names == ["f1"]


def test_a_locator_may_be_a_path():
    """Keys behind the column's name."""
    rows = [{"output": {"final": {"text": "a cat"}}, "truth": "a cat"}]

    scored = run(task_of(candidate="item.output.final.text"), rows)

    assert scored["eval.overlap.score"].tolist() == [1.0]


def test_a_threshold_makes_rows_pass():
    """Options of every evaluator may stand in the configuration."""
    scored = run(task_of(threshold=0.5))

    assert scored.evals.passed["overlap"].tolist()[:2] == [True, False]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        pytest.param(task_of(type="meteor"), "'meteor' is not known; known are 'bleu'", id="type"),
        pytest.param(task_of(without=["type"]), "type None is not known", id="no-type"),
        pytest.param(task_of(type=["f1"]), "is not known", id="type-list"),
        pytest.param(task_of(candidate="output"), "candidate must name a column", id="no-item"),
        pytest.param(task_of(reference="{{item.x}}"), "reference must name", id="template"),
        pytest.param(task_of(reference="item.{{x}}"), "reference must name", id="inner-template"),
        pytest.param(task_of(without=["reference"]), "reference must name", id="no-reference"),
        pytest.param(task_of(treshold=1), "unknown key 'treshold'. Did you mean", id="misspelt"),
        pytest.param(task_of(embedder="a/b"), "unknown key 'embedder'", id="not-of-f1"),
        pytest.param(task_of(threshold=7), r"'overlap'.*threshold must be", id="threshold"),
        pytest.param({**TASK, "configuration": 1}, "configuration must be", id="configuration"),
    ],
)
def test_what_cannot_be_used_is_named(task, message):
    """Before anything runs."""
    with pytest.raises(ef.ConfigError, match=message):
        run(task)


def test_a_column_that_is_not_there_is_named():
    """As for every evaluator that is bound."""
    with pytest.raises(ef.ExperimentError, match=r"names no column.*Did you mean 'truth'"):
        run(task_of(reference="item.trut"))
