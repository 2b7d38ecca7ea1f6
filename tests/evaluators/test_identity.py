"""Which arguments of evaluators and tasks are in their fingerprints, and which are beside them."""

import pickle
import warnings

import pytest
from pydantic import BaseModel, field_validator

import evalframe as ef
from evalframe.evaluators.identity import unread_note


def judge(**options):
    """A judge with these options in place of its own."""
    own = {"model": "openai/gpt-5-mini", "prompt": "{{ item.output }}?", "choices": ["yes", "no"]}
    return ef.LLMJudge(**{"name": "j", **own, **options})


def custom(**options):
    """A judge of a user's template."""
    own = {"model": "openai/gpt-5-mini", "prompt_template": "{output} of {question}"}
    return ef.CustomEval(**{**own, **options})


def long_text(output):
    """A function that is given as an evaluator."""
    return len(output) > 10


class Longer(ef.Evaluator):
    """A user's class that reads none of what is declared."""

    size: int

    def evaluate(self, output):
        return len(output) > self.size


class Near(ef.Evaluator):
    """A user's class whose threshold is in its scores."""

    def __init__(self, *, threshold=0.5):
        self.threshold = threshold

    def evaluate(self, output):
        return output > self.threshold


class Cites(ef.Evaluator):
    """A user's class with an argument that is called like a declaration."""

    def __init__(self, source):
        self._lower = source.lower()

    def evaluate(self, output):
        return self._lower in output


class Grade(BaseModel):
    """A grade."""

    score: bool


class StrictGrade(BaseModel):
    """A grade."""

    score: bool

    @field_validator("score")
    @classmethod
    def _true(cls, value):
        return value or None


SERVER = "http://127.0.0.1:1/v1"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def local(**options):
    """A model at an address."""
    return ef.Model(**{"name": "local/m", "base_url": SERVER, **options})


def doubled(texts):
    """A function that embeds."""
    return [[2.0] for _ in texts]


def single(texts):
    """Another one."""
    return [[1.0] for _ in texts]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(ef.Contains("a"), ef.Contains("b"), id="argument"),
        pytest.param(ef.Contains("a"), ef.Contains("a", ignore_case=True), id="option"),
        pytest.param(ef.Bleu(), ef.Chrf(), id="class"),
        pytest.param(
            ef.ExactMatch(), ef.ExactMatch().bind(output=lambda output: output), id="bound-function"
        ),
        pytest.param(ef.ExactMatch(), ef.ExactMatch().bind(output="a.b"), id="bound-path"),
        pytest.param(Longer(1), Longer(2), id="field"),
        pytest.param(Longer(1), Longer(1, score_range=(0, 2)), id="score-range"),
        pytest.param(Cites("a"), Cites("b"), id="argument-named-like-a-declaration"),
        pytest.param(Near(threshold=0.1), Near(threshold=0.2), id="threshold-that-is-read"),
        pytest.param(
            ef.evaluator(long_text), ef.evaluator(long_text, extras={"a": int}), id="extras"
        ),
        pytest.param(
            ef.evaluator(long_text), ef.evaluator(long_text, vectorized=True), id="vectorized"
        ),
        pytest.param(judge(), judge(prompt="{{ item.output }}!"), id="prompt"),
        pytest.param(judge(), judge(system_prompt="Be just."), id="system-prompt"),
        pytest.param(judge(), judge(model="openai/gpt-5"), id="model"),
        pytest.param(judge(model=local()), judge(model=local(base_url=SERVER + "1")), id="address"),
        pytest.param(
            judge(model=local()), judge(model=local(structured="tool")), id="structured-form"
        ),
        pytest.param(judge(), judge(inference_args={"temperature": 0}), id="inference-args"),
        pytest.param(judge(), judge(choices=["no", "yes"]), id="order-of-choices"),
        pytest.param(judge(), judge(choices={"yes": 1.0, "no": 0.0}), id="scores-of-choices"),
        pytest.param(judge(), judge(explanation=False), id="explanation"),
        pytest.param(judge(), judge(confidence=True), id="confidence"),
        pytest.param(judge(), judge(run_if="item.output"), id="condition"),
        pytest.param(
            judge(run_if=lambda output: output),
            judge(run_if=lambda output: not output),
            id="condition-function",
        ),
        pytest.param(judge(), judge(choices=None, response_format=SCHEMA), id="schema"),
        pytest.param(
            judge(choices=None, response_format=Grade),
            judge(choices=None, response_format=StrictGrade),
            id="validator-of-a-model-class",
        ),
        pytest.param(custom(), custom(prompt_template="{output}: {question}"), id="template"),
        pytest.param(
            custom(), custom(variables={"output": "output", "question": "q"}), id="variables"
        ),
        pytest.param(
            ef.Faithfulness("openai/gpt-5"),
            ef.Faithfulness(
                "openai/gpt-5",
                prompt="{{ item.input }}{{ item.output }}{{ item.retrieval_context }}",
            ),
            id="prompt-of-a-built-in-judge",
        ),
        pytest.param(
            ef.SemanticSimilarity("openai/a"), ef.SemanticSimilarity("openai/b"), id="embedder"
        ),
        pytest.param(
            ef.SemanticSimilarity(single), ef.SemanticSimilarity(doubled), id="embedding-function"
        ),
        pytest.param(
            ef.SemanticSimilarity("openai/a"),
            ef.SemanticSimilarity(ef.Embedder("openai/a", dimensions=8)),
            id="dimensions",
        ),
        pytest.param(ef.task(str.upper), ef.task(str.lower), id="task"),
        pytest.param(ef.task(str.upper), ef.task(str.upper, output=str), id="type-of-a-task"),
        pytest.param(
            ef.ChatTask("openai/a", "{{ item.input }}"),
            ef.ChatTask("openai/a", "{{ item.input }}", system_prompt="Hi"),
            id="chat-task",
        ),
        pytest.param(ef.Contains("a", version="1"), ef.Contains("a", version="2"), id="version"),
        pytest.param(ef.Contains("a", version="1"), ef.Contains("a"), id="no-version"),
    ],
)
def test_what_changes_cells_changes_the_fingerprint(one, other):
    """Arguments, bindings, prompts, schemas, models, code."""
    assert one.fingerprint().digest != other.fingerprint().digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(ef.Contains("a"), ef.Contains("a", name="b"), id="name"),
        pytest.param(ef.Contains("a"), ef.Contains("a").named("b"), id="named"),
        pytest.param(ef.Contains("a"), ef.Contains(text="a"), id="by-keyword"),
        pytest.param(ef.Contains("a"), ef.Contains("a", ignore_case=False), id="default"),
        pytest.param(ef.Contains("a"), ef.Contains("a", threshold=0.5), id="threshold"),
        pytest.param(Longer(1), Longer(1, threshold=0.5, direction="minimize"), id="declared"),
        pytest.param(Longer(1), Longer(1, score_range=(0.0, 1.0)), id="default-range"),
        pytest.param(
            ef.ExactMatch().bind(output="a", dataset_output="b"),
            ef.ExactMatch().bind(dataset_output="b").bind(output="a"),
            id="order-of-bindings",
        ),
        pytest.param(
            ef.evaluator(long_text),
            ef.evaluator(long_text, name="b", kind="HUMAN", threads=2, threshold=0.1),
            id="options-of-a-function",
        ),
        pytest.param(
            judge(model=local()),
            judge(model=local(rpm=9, tpm=9, max_retries=1, timeout=1, api_key_env="KEY")),
            id="how-a-model-is-asked",
        ),
        pytest.param(
            judge(model=local()),
            judge(model=local(base_url=SERVER + "/", price={"input": 1})),
            id="price",
        ),
        pytest.param(judge(), judge(model=ef.Model("openai/gpt-5-mini")), id="model-by-name"),
        pytest.param(judge(), judge(invalid_retries=3, threshold=1.0, name="k"), id="retries"),
        pytest.param(
            judge(inference_args={"temperature": 0, "seed": 1}),
            judge(inference_args={"extra_body": {"seed": 1}, "temperature": 0}),
            id="order-of-inference-args",
        ),
        pytest.param(
            ef.SemanticSimilarity("openai/a"),
            ef.SemanticSimilarity(ef.Embedder("openai/a", batch_size=2)),
            id="batch-size",
        ),
        pytest.param(ef.task(str.upper), ef.task(str.upper, name="b", threads=1), id="task"),
        pytest.param(
            ef.Contains("a", version="1"), ef.Contains("b", version="1"), id="same-version"
        ),
        pytest.param(judge(version="1"), judge(prompt="{{ item.a }}", version="1"), id="of-judges"),
        pytest.param(
            ef.SemanticSimilarity("openai/a", version="1"),
            ef.SemanticSimilarity("openai/b", version="1"),
            id="of-embedders",
        ),
        pytest.param(
            ef.ChatTask("openai/a", "{{ item.input }}", version="1"),
            ef.ChatTask("openai/b", "{{ item.input }}", version="1"),
            id="of-tasks",
        ),
    ],
)
def test_what_is_beside_the_cells_is_not_in_the_fingerprint(one, other):
    """Names, thresholds, rates, retries, keys; with a version, everything but that."""
    assert one.fingerprint() == other.fingerprint()


def made_class(body):
    """A user's class of that name."""
    return type("Made", (ef.Evaluator,), {"evaluate": body, "__module__": __name__})


def test_a_users_class_counts_with_its_code():
    """Another method of the same name, another fingerprint."""
    one = made_class(lambda self, output: output == 1)
    other = made_class(lambda self, output: output == 2)

    assert one().fingerprint() != other().fingerprint()


class Half(ef.Evaluator):
    """Declares what says nothing of its cells."""

    threshold = 0.5
    kind = "HUMAN"

    def evaluate(self, output):
        return self._half(output)

    def _half(self, output):
        return output / 2


def test_what_a_class_declares_beside_its_cells_does_not_count():
    """A threshold in the class as one in a call."""
    before = Half().fingerprint()
    Half.threshold, Half.kind = 0.6, "CODE"

    assert Half().fingerprint() == before


@pytest.mark.parametrize(
    "made",
    [ef.Contains("a"), Longer(3), judge(), custom(), ef.SemanticSimilarity("openai/a")],
    ids=lambda made: type(made).__name__,
)
def test_a_pickled_evaluator_keeps_its_fingerprint(made):
    """It is the same evaluator in another process."""
    assert pickle.loads(pickle.dumps(made)).fingerprint() == made.fingerprint()


def test_an_evaluator_that_calls_another_counts_with_it():
    """The other's function is the user's own code."""

    def calling(other):
        def both(output):
            return other(output)

        return ef.evaluator(both)

    one = calling(ef.evaluator(lambda output: output > 1, name="a"))
    other = calling(ef.evaluator(lambda output: output > 2, name="a"))

    assert one.fingerprint() != other.fingerprint()
    assert one.fingerprint().unread == ()


def test_an_argument_that_cannot_be_read_is_named_by_its_parameter():
    """So that it can be found."""

    class Asking(ef.Evaluator):
        client: object

        def evaluate(self, output):
            return self.client is not None

    found = Asking(object()).fingerprint()

    assert found.unread == ("client: object",)
    assert found == Asking(object()).fingerprint()


def asking(output, client=object()):  # noqa: B008 - a client that is made once
    """A function with something that cannot be read."""
    return client is not None


def test_a_run_that_keeps_details_says_what_fingerprints_cannot_see():
    """Once, at its end; other runs say nothing."""
    with pytest.warns(UserWarning, match=r"fingerprint of 'asking' cannot see into .*: object"):
        ef.run_experiment([{"output": "a"}], evaluators=[asking], details=True, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ef.run_experiment([{"output": "a"}], evaluators=[asking], progress=False)


def test_a_note_names_some_of_many():
    """And says how many more there are; what the code changes itself is nobody's surprise."""
    unread = [f"c{number}: Client" for number in range(7)]

    assert "c4: Client and 2 more:" in unread_note("a", unread)
    assert unread_note("a", ["calls: list that the code changes"]) is None
