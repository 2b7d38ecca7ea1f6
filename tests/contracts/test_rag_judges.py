"""Judged evaluators with scores of their own are evaluators and judges: what holds for those."""

import asyncio
import copy
import inspect
import pickle

import pandas as pd
import pytest

import evalframe as ef
from evalframe.core import schema
from evalframe.testing import ChatServer, obedient


def not_empty(output):
    """Whether there is something to judge."""
    return bool(output)


PROMPT = "{{ item.topic }}: {{ item.input }} {{ item.output }}"
TEMPLATE = "{output} of {input}"
VERDICTS = ["verdicts"]
STATEMENTS = ["statements"]
LISTS = ["true_positives", "false_positives", "false_negatives"]

# What makes it, its name, and its columns beyond those of every judge.
CASES = {
    "precision": (ef.ContextPrecision, {}, "context_precision", VERDICTS),
    "precision-named": (ef.ContextPrecision, {"name": "p", "threshold": 0.5}, "p", VERDICTS),
    "correctness": (ef.AnswerCorrectness, {"version": "2"}, "answer_correctness", LISTS),
    "faithfulness": (ef.Faithfulness, {"invalid_retries": 0}, "faithfulness", STATEMENTS),
    "faithfulness-strict": (ef.Faithfulness, {"strict": True}, "faithfulness", STATEMENTS),
    "relevancy": (ef.AnswerRelevancy, {"run_if": not_empty}, "answer_relevancy", STATEMENTS),
    "relevancy-prompt": (ef.AnswerRelevancy, {"prompt": PROMPT}, "answer_relevancy", STATEMENTS),
    "recall": (ef.ContextRecall, {"run_if": "item.output"}, "context_recall", STATEMENTS),
    "hallucination": (ef.Hallucination, {"threshold": 0.2}, "hallucination", VERDICTS),
    "hallucination-up": (ef.Hallucination, {"direction": "maximize"}, "hallucination", VERDICTS),
    "custom": (ef.CustomEval, {"prompt_template": TEMPLATE}, "custom_eval", []),
    "custom-mapping": (
        ef.CustomEval,
        {
            "prompt_template": TEMPLATE,
            "variables": {"output": "output", "input": "topic"},
            "system_prompt": "Judge {output}.",
            "inference_args": {"temperature": 0},
        },
        "custom_eval",
        [],
    ),
}
every_case = pytest.mark.parametrize(
    ("kind", "options", "name", "extras"), CASES.values(), ids=CASES
)

FRAME = pd.DataFrame(
    {
        "input": list("abcab"),
        "output": ["x", None, "y", "", "x"],
        "dataset_output": ["r", "r", None, "r", "r"],
        "retrieval_context": [["c"], ["c"], ["d"], [], ["c", "e"]],
        "context": [["c"], None, ["d"], ["e"], ["", "c"]],
        "topic": list("stuvw"),
    },
    index=[3, 1, 1, 0, 7],
)


@pytest.fixture(scope="module")
def server():
    """A server whose model does as it is told."""
    with ChatServer(obedient) as running:
        yield running


@pytest.fixture
def judge(server, kind, options):
    """An evaluator with these options."""
    return kind(model=ef.Model("local/m", base_url=server.base_url), **options)


@every_case
def test_its_fingerprint_is_that_of_every_equal_one(judge, name, extras):
    """Read in full, whatever it is called; bound otherwise it differs, but for a version."""
    found = judge.fingerprint()

    assert found.unread == ()
    assert pickle.loads(pickle.dumps(judge)).fingerprint() == found
    assert judge.named("other").fingerprint() == found
    assert (judge.bind(output="a.b").fingerprint() == found) == (judge.version is not None)


@every_case
def test_it_pickles_to_an_equal_one(judge, name, extras):
    """By its arguments, name and bindings included."""
    changed = judge.bind(output="a.b").named("other")

    assert pickle.loads(pickle.dumps(judge)) == judge
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert pickle.loads(pickle.dumps(changed)).bindings == {"output": "a.b"}


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(judge, way, name, extras):
    """The same requests, so the same cells."""
    first, second = (ef.run_experiment(FRAME, evaluators=[j]) for j in (judge, way(judge)))

    pd.testing.assert_frame_equal(first, second)


@every_case
def test_its_repr_makes_it_again(judge, kind, name, extras):
    """With the classes in scope; also of a renamed and bound copy."""
    if callable(judge.run_if):
        assert "run_if=<function not_empty" in repr(judge)
        return
    scope = {kind.__name__: kind, "Model": ef.Model}
    for made in (judge, judge.bind(output="a.b").named("other")):
        assert eval(repr(made), scope) == made  # noqa: S307 - our own text
        assert eval(repr(made), scope).name == made.name  # noqa: S307


@every_case
def test_it_equals_only_what_does_the_same(judge, name, extras):
    """Another name, other bindings or another prompt are unequal."""
    assert judge == copy.deepcopy(judge)
    assert hash(copy.deepcopy(judge)) == hash(judge)
    assert judge != judge.named("other")
    assert judge != judge.bind(output="a.b")
    prompt = judge.prompt + "!"
    assert judge != judge.with_prompt(prompt)
    assert judge.with_prompt(prompt) == judge.with_prompt(prompt)


def test_different_arguments_make_different_evaluators():
    """No two of the configurations are equal."""
    made = [kind(model="openai/x", **options) for kind, options, *_ in CASES.values()]

    assert [(a, b) for a in made for b in made if a == b and a is not b] == []


@every_case
def test_it_is_frozen(judge, name, extras):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match=r"is frozen, so 'threshold' cannot be set"):
        judge.threshold = 0.9


@every_case
def test_it_declares_what_evaluators_declare(judge, kind, options, name, extras):
    """Name, kind and the rest; and where it is from."""
    direction = "minimize" if kind is ef.Hallucination else "maximize"

    assert (judge.name, judge.kind, judge.score_range) == (name, "LLM", (0.0, 1.0))
    assert judge.threshold == options.get("threshold")
    assert judge.direction == options.get("direction", direction)
    assert judge.version == options.get("version")
    assert judge.extra_needed == ""
    assert "](https://" in judge.source


@every_case
def test_name_and_threshold_are_arguments_of_its_own(kind, options, name, extras):
    """For whoever looks at its signature."""
    assert {"name", "threshold"} <= inspect.signature(kind.__init__).parameters.keys()


@every_case
def test_the_frame_that_goes_in_comes_out(judge, name, extras):
    """Index, order and values as they were; the caller's own is not changed."""
    before = FRAME.copy(deep=True)
    scored = ef.run_experiment(FRAME, evaluators=[judge])

    pd.testing.assert_frame_equal(scored[list(FRAME)], before)
    pd.testing.assert_frame_equal(FRAME, before)


@every_case
@pytest.mark.parametrize("details", [False, True])
def test_its_columns_and_their_types_are_declared(judge, name, extras, details):
    """The five of every evaluator, its own, those of a judge, and details."""
    scored = ef.run_experiment(FRAME, evaluators=[judge], details=details)
    fields = [
        column.removeprefix(f"eval.{name}.") for column in scored.columns[len(FRAME.columns) :]
    ]
    more = ["latency_s", "fingerprint", *schema.JUDGE_DETAILS] if details else []

    assert sorted(fields) == sorted([*schema.FIELDS, *extras, "reply", *more])
    assert fields[:5] == [*schema.FIELDS]
    for field in (*extras, "reply", "explanation", "error"):
        assert scored[f"eval.{name}.{field}"].dtype == pd.StringDtype("pyarrow")


@every_case
def test_every_cell_is_valid_or_says_why_not(judge, name, extras):
    """Nothing fails here: rows are judged, or skipped with the reason."""
    scored = ef.run_experiment(FRAME, evaluators=[judge])
    (row,) = scored.evals.summary().to_dict("records")

    assert row["n"] == row["n_valid"] + row["n_skipped"]
    assert 0 < row["n_skipped"] < row["n"]
    errors = scored[f"eval.{name}.error"]
    assert errors.dropna().str.startswith("skipped: ").all()
    assert (scored[f"eval.{name}.score"].isna() == errors.notna()).all()
    assert scored[f"eval.{name}.score"].dropna().between(0, 1).all()


@every_case
def test_the_order_of_rows_changes_no_cell(judge, name, extras):
    """Each is judged by itself."""
    forth = ef.run_experiment(FRAME, evaluators=[judge]).evals[name]
    back = ef.run_experiment(FRAME[::-1], evaluators=[judge]).evals[name]

    pd.testing.assert_frame_equal(forth, back[::-1])


@every_case
def test_async_and_sync_runs_give_the_same(judge, name, extras):
    """It is one path."""
    sync = ef.run_experiment(FRAME, evaluators=[judge])
    found = asyncio.run(ef.arun_experiment(FRAME, evaluators=[judge]))

    pd.testing.assert_frame_equal(sync.evals[name], found.evals[name])


@every_case
def test_results_survive_a_file(judge, name, extras, tmp_path):
    """Every column with its type."""
    scored = ef.run_experiment(FRAME, evaluators=[judge], details=True)
    scored.evals.to_parquet(tmp_path / "scored.parquet")

    pd.testing.assert_frame_equal(ef.read_parquet(tmp_path / "scored.parquet"), scored)


def test_bound_they_read_other_columns(server):
    """By name; with them they are the same evaluators."""
    model = ef.Model("local/m", base_url=server.base_url)
    names = {"input": "i", "output": "o", "dataset_output": "d", "retrieval_context": "r"}
    for kind in (ef.ContextPrecision, ef.AnswerCorrectness, ef.ContextRecall, ef.AnswerRelevancy):
        judge = kind(model)
        reads = {field: names[field] for field in (*kind.reads, kind.contexts) if field}
        scored = ef.run_experiment(FRAME, evaluators=[judge])
        other = FRAME.rename(columns=names)
        bound = ef.run_experiment(other, evaluators=[judge.bind(**reads)])

        pd.testing.assert_frame_equal(bound.evals[judge.name], scored.evals[judge.name])
