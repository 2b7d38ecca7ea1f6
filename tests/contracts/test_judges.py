"""A judge is an evaluator: what holds for those holds for it, in several configurations."""

import copy
import pickle

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import ChatServer, obedient

SCHEMA = {
    "type": "object",
    "properties": {
        "quality": {"type": "integer", "minimum": 1, "maximum": 5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "reason": {"type": "string"},
    },
    "required": ["quality"],
}
MESSAGES = [
    {"role": "user", "content": "{{ item.input }}"},
    {"role": "assistant", "content": "{{ item.output }}"},
]


def not_empty(output):
    """Whether there is something to judge."""
    return bool(output)


BASE = ["label", "score", "explanation", "metadata", "error"]
CASES = {
    "choices": {"choices": ["yes", "no"]},
    "scores": {"choices": {"yes": 1.0, "no": 0.0}, "threshold": 0.5, "version": "2"},
    "no-explanation": {"choices": ("a", "b"), "explanation": False, "confidence": True},
    "range": {"choices": {"a": -1, "b": 5}, "score_range": (-1, 5), "direction": "minimize"},
    "format": {"response_format": SCHEMA, "fields": {"score": "quality"}, "invalid_retries": 0},
    "messages": {"choices": ["a", "b"], "prompt": MESSAGES, "system_prompt": "Judge."},
    "expression": {"choices": ["a", "b"], "run_if": "item.output | length > 0"},
    "function": {"choices": ["a", "b"], "run_if": not_empty, "inference_args": {"seed": 1}},
}
every_case = pytest.mark.parametrize("options", CASES.values(), ids=CASES)

FRAME = pd.DataFrame({"input": list("abca"), "output": ["x", None, "y", ""]}, index=[3, 1, 1, 0])


@pytest.fixture(scope="module")
def server():
    """A server whose model does as it is told."""
    with ChatServer(obedient) as running:
        yield running


@pytest.fixture
def judge(server, options):
    """A judge with these options."""
    model = ef.Model("local/m", base_url=server.base_url)
    return ef.LLMJudge("j", model=model, **{"prompt": "{{ item.output }}", **options})


@every_case
def test_its_fingerprint_is_that_of_every_equal_one(judge):
    """Read in full, whatever it is called; bound otherwise it differs, but for a version."""
    found = judge.fingerprint()

    assert found.unread == ()
    assert pickle.loads(pickle.dumps(judge)).fingerprint() == found
    assert judge.named("other").fingerprint() == found
    assert (judge.bind(output="a.b").fingerprint() == found) == (judge.version is not None)


@every_case
def test_it_pickles_to_an_equal_one(judge):
    """By its arguments, name and bindings included."""
    changed = judge.bind(output="a.b").named("other")

    assert pickle.loads(pickle.dumps(judge)) == judge
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert pickle.loads(pickle.dumps(changed)).bindings == {"output": "a.b"}


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(judge, way):
    """The same requests, so the same cells."""
    first, second = (ef.run_experiment(FRAME, evaluators=[j]) for j in (judge, way(judge)))

    pd.testing.assert_frame_equal(first, second)


@every_case
def test_its_repr_makes_it_again(judge):
    """With the classes in scope; also of a renamed and bound copy."""
    scope = {"LLMJudge": ef.LLMJudge, "Model": ef.Model}
    if callable(judge.run_if):
        assert "run_if=<function not_empty" in repr(judge)
        return
    for made in (judge, judge.bind(output="a.b").named("other"), judge.named("llm_judge")):
        assert eval(repr(made), scope) == made  # noqa: S307 - our own text
        assert eval(repr(made), scope).name == made.name  # noqa: S307


@every_case
def test_it_equals_only_what_does_the_same(judge, server):
    """Another name, other bindings, another model or prompt are unequal."""
    assert judge == copy.deepcopy(judge)
    assert judge != judge.named("other")
    assert judge != judge.bind(output="a.b")
    assert judge.named(judge.name) == judge
    assert hash(copy.deepcopy(judge)) == hash(judge)


def test_different_arguments_make_different_judges(server):
    """No two of the configurations are equal."""
    model = ef.Model("local/m", base_url=server.base_url)
    made = [
        ef.LLMJudge("j", model=model, **{"prompt": "{{ item.output }}", **options})
        for options in CASES.values()
    ]

    assert [(a, b) for a in made for b in made if a == b and a is not b] == []


@every_case
def test_it_is_frozen(judge):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match=r"is frozen, so 'threshold' cannot be set"):
        judge.threshold = 0.9


@every_case
def test_it_declares_what_evaluators_declare(judge, options):
    """A judge's kind is LLM; the rest is as given."""
    assert judge.kind == "LLM"
    assert judge.threshold == options.get("threshold")
    assert judge.direction == options.get("direction", "maximize")
    assert judge.score_range == options.get("score_range", (0.0, 1.0))
    assert judge.version == options.get("version")


@every_case
def test_the_frame_that_goes_in_comes_out(judge):
    """Index, order and values as they were; the caller's own is not changed."""
    before = FRAME.copy(deep=True)
    scored = ef.run_experiment(FRAME, evaluators=[judge])

    pd.testing.assert_frame_equal(scored[["input", "output"]], before)
    pd.testing.assert_frame_equal(FRAME, before)
    fields = [name.removeprefix("eval.j.") for name in scored.columns[2:]]
    assert fields[:5] == BASE
    assert fields[5:] == list(judge.result_fields(details=False))


@every_case
def test_every_cell_is_valid_or_says_why_not(judge):
    """A null that the prompt would print is skipped; everything else is a verdict here."""
    scored = ef.run_experiment(FRAME, evaluators=[judge])
    (row,) = scored.evals.summary().to_dict("records")

    assert row["n"] == row["n_valid"] + row["n_failed"] + row["n_task_failed"] + row["n_skipped"]
    assert row["n_failed"] == 0
    assert scored["eval.j.error"].iloc[1].startswith("skipped: ")


@every_case
def test_bound_it_reads_other_columns(judge):
    """By name; with them it is the same judge."""
    other = FRAME.rename(columns={"output": "answer"})
    scored = ef.run_experiment(FRAME, evaluators=[judge])
    if callable(judge.run_if):
        other["output"] = FRAME["output"]
    bound = ef.run_experiment(other, evaluators=[judge.bind(output="answer")])

    pd.testing.assert_frame_equal(bound.evals["j"], scored.evals["j"])


@every_case
def test_results_survive_a_file(judge, tmp_path):
    """Every column with its type."""
    scored = ef.run_experiment(FRAME, evaluators=[judge], details=True)
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    pd.testing.assert_frame_equal(ef.read_parquet(tmp_path / "scored.parquet"), scored)


def test_a_field_that_is_not_read_cannot_be_bound(server):
    """It would change nothing."""
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["a", "b"])

    with pytest.raises(ef.ExperimentError, match="reads no 'input'; it reads 'output'"):
        ef.run_experiment(FRAME, evaluators=[judge.bind(input="output")])
