"""Ordinary code of a user's, for type checkers: what the public names take and give.

It is checked, not run. A call that must be refused carries an ignore for both checkers, which
then report it should the call pass.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd
from pydantic import BaseModel

import evalframe as ef
from evalframe import testing

frame = pd.DataFrame({"question": ["1+1"], "answer": ["2"], "truth": ["2"]})


def exact(output: str | None, dataset_output: str | None) -> bool:
    """A plain function; it may be given as it is."""
    return output == dataset_output


@ef.evaluator
def overlap(output: str, dataset_output: str, floor: float = 0.0) -> float:
    """A function under the bare decorator."""
    return max(floor, float(output in dataset_output))


@ef.evaluator(name="brief", threshold=0.5, extras={"words": int, "spans": "json"})
def counted(output: str) -> dict[str, Any]:
    """A function under the decorator with options."""
    words = len(output.split())
    return {"score": 1.0 if words < 5 else 0.0, "words": words}


@ef.evaluator(kind="LLM", direction="minimize", score_range=(0, 10), version="2")
async def remote(input: str, output: str) -> tuple[str, float, str | None]:
    """An async function."""
    return "fine", float(len(input) + len(output)), None


@ef.evaluator(vectorized=True)
def short(output: "pd.Series[str]") -> "pd.Series[bool]":
    """A function of whole columns."""
    return output.str.len() < 200


@ef.evaluator(threads=4)
def skips(dataset_row: dict[str, Any]) -> bool | None:
    """A function of the row that may give no verdict."""
    return dataset_row.get("truth") == "2" or None


# A decorated function is called as before, by position and by name.
assert_type(overlap("2", "2"), float)
assert_type(overlap(output="2", dataset_output="2", floor=0.1), float)
assert_type(counted("two words"), dict[str, Any])
assert_type(skips({"truth": "2"}), bool | None)
overlap("2", 2)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
overlap("2")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]

# It is an evaluator all the same.
assert_type(overlap.name, str)
assert_type(counted.threshold, float | None)
assert_type(overlap.bind(output="output.final.text").named("nested")("2", "2"), float)
plain: ef.Evaluator = overlap
assert_type(ef.evaluator(exact, name="same")("2", "2"), bool)


class Mentions(ef.Evaluator):
    """A class whose annotated fields are its arguments."""

    word: str
    ignore_case: bool = False
    synonyms: list[str] = field(default_factory=list[str])

    def evaluate(self, output: str) -> tuple[bool, str]:
        """One of the words."""
        words = [self.word, *self.synonyms]
        found = re.search("|".join(words), output, re.IGNORECASE if self.ignore_case else 0)
        return found is not None, f"looked for {words}"


class Length(ef.Evaluator):
    """A class with its own constructor, which is async and declares extras."""

    extras = {"characters": int}  # noqa: RUF012 - as a user would write it

    def __init__(self, most: int, *, name: str = "length", threshold: float | None = None) -> None:
        self.most = most
        self.name = name
        self.threshold = threshold

    async def evaluate(self, output: str, *, metadata: Mapping[str, Any] | None = None) -> Any:
        """Whether it is short enough."""
        del metadata
        return ef.EvaluationResult(score=len(output) <= self.most, extras={"characters": 1})


class Halves(ef.Evaluator):
    """A class that sees whole columns."""

    vectorized = True
    kind = "HUMAN"

    def evaluate(self, output: "pd.Series[str]") -> list[float]:
        """The same for everyone."""
        return [0.5] * len(output)


mentions = Mentions("cat", ignore_case=True)
assert_type(mentions, Mentions)
assert_type(mentions.word, str)
assert_type(mentions.synonyms, list[str])
assert_type(mentions.named("cat").bind(output="answer"), Mentions)
Mentions("cat", synonyms=["kitten"], name="cats", threshold=0.5, direction="minimize")
Mentions("cat", score_range=(0.0, 1.0), version="3")
Mentions()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
Mentions("cat", whole=True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
Mentions(7)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
Length(80, name="at_most_80", threshold=1.0)
Halves(name="halves")


def lengths_of(texts: list[str]) -> list[list[float]]:
    """A function that embeds."""
    return [[float(len(text))] for text in texts]


async def awaited_lengths(texts: list[str]) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """An async one."""
    return np.array(lengths_of(texts), np.float32)


built_in: list[ef.Evaluator] = [
    ef.ExactMatch(ignore_case=True, ignore_whitespace=True, normal_form="NFC", accept_any=False),
    ef.Contains("cat", ignore_case=True, name="cat"),
    ef.Contains(mode="all", threshold=1.0),
    ef.Regex(r"\d+", mode="fullmatch", ignore_case=True),
    ef.OneOf(["yes", "no"], ignore_case=True, ignore_whitespace=True),
    ef.NumericClose(rel_tol=0.01, abs_tol=1e-6, threshold=1.0),
    ef.ValidJSON(name="json"),
    ef.TokenF1(name="words", threshold=0.5),
    ef.Levenshtein(ignore_case=True, ignore_whitespace=True, normal_form="NFC"),
    ef.Rouge("rougeL", ascii_only=True),
    ef.Bleu(max_order=2, smoothing="floor", tokenize="intl", ignore_case=True, pooled=True),
    ef.Chrf(char_order=4, word_order=2, beta=1.5, ignore_case=True),
    ef.PrecisionAtK(3),
    ef.RecallAtK(k=3, threshold=0.5),
    ef.HitRate(None),
    ef.MRR(name="first"),
    ef.NDCG(k=10),
    ef.JsonDiff({"a": 0.5, "n": {"x": 1}}, strings="exact", numbers="exact", threshold=0.5),
    ef.JsonDiff(lists="zip", nested_weight="one", name="diff"),
    ef.ToolCalls("ordered", arguments=True, name="tools", threshold=1.0),
    ef.SemanticSimilarity(),
    ef.SemanticSimilarity("openai/text-embedding-3-small", name="meaning", threshold=0.8),
    ef.SemanticSimilarity(ef.Model("local/m", base_url="http://127.0.0.1:8080/v1")),
    ef.SemanticSimilarity(lengths_of),
    ef.BertScore(awaited_lengths, level="sentence", presence_threshold=0.7),
    ef.BertScore(ef.Embedder("openai/text-embedding-3-small", batch_size=64, dimensions=256)),
    ef.BertScore(ef.Embedder(batch_size=8)),
]
ef.Rouge()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ef.PrecisionAtK(None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
ef.SemanticSimilarity(7)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
ef.BertScore(level="word", presence=0.5)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ef.Embedder(ord)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
assert_type(ef.ExactMatch().bind(dataset_output="truth"), ef.ExactMatch)


model = ef.Model(
    "local/judge",
    base_url="http://127.0.0.1:8080/v1",
    api_key_env="JUDGE_KEY",
    rpm=600,
    tpm=100_000,
    max_retries=3,
    timeout=30,
    price={"input": 0.25, "cached_input": 0.025, "output": 2},
    structured="json_schema",
)
assert_type(model.name, str)
assert_type(model.rpm, int | None)
assert_type(model.price, Mapping[str, float] | None)
ef.Model("openai/gpt-5-mini", api_key="sk-1")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ef.Model("openai/gpt-5-mini", rpm="600")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


class Review(BaseModel):
    """What a judge is to reply."""

    reasoning: str
    quality: int


def has_answer(output: str | None) -> bool:
    """A condition."""
    return output is not None


judge = ef.LLMJudge(
    "correct",
    model=model,
    prompt="{{ item.input }} {{ item.output }}",
    system_prompt="You are strict.",
    choices={"yes": 1.0, "no": 0.0},
    explanation=False,
    inference_args={"temperature": 0, "max_tokens": 500},
    run_if="item.output | length > 0",
    confidence=True,
    invalid_retries=2,
    threshold=0.5,
    direction="maximize",
    version="3",
)
judges: list[ef.Evaluator] = [
    judge,
    ef.LLMJudge("b", model="openai/gpt-5-mini", prompt="{{ item.output }}", choices=["a", "b"]),
    ef.LLMJudge(
        "review",
        model="ollama/llama3.2",
        prompt=[{"role": "user", "content": "{{ item.output }}"}],
        response_format=Review,
        fields={"score": "quality"},
        score_range=(1, 5),
        run_if=has_answer,
    ),
    ef.LLMJudge(
        "schema",
        model=model,
        prompt="{{ item.output }}",
        response_format={"type": "object", "properties": {"ok": {"type": "boolean"}}},
    ),
]
assert_type(judge.named("other").bind(output="answer"), ef.LLMJudge)
assert_type(judge.preview(frame, n=2, input="question", output="answer"), pd.DataFrame)
assert_type(judge.to_config(), dict[str, Any])
ef.LLMJudge("b", model=model, choices=["a", "b"])  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ef.LLMJudge("b", model=7, prompt="", choices=["a", "b"])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
judged: list[ef.Evaluator] = [
    ef.ContextPrecision("openai/gpt-5-mini"),
    ef.ContextRecall(model, prompt=None, inference_args={"temperature": 0}, invalid_retries=2),
    ef.AnswerCorrectness(model, name="right", threshold=0.8),
    ef.AnswerRelevancy(model, run_if=has_answer),
    ef.Faithfulness(model=model, strict=True, run_if="item.output | length > 0"),
    ef.Hallucination(model, threshold=0.1, direction="minimize"),
    ef.CustomEval("{question} {output}", model=model),
    ef.CustomEval("{{ output }}", {"output": "answer"}, model="openai/gpt-5-mini", name="fine"),
    ef.CustomEval("{output}", "values", model=model, system_prompt="You are strict."),
]
assert_type(ef.Faithfulness(model).with_prompt("{{ item.output }}"), ef.Faithfulness)
assert_type(judge.with_prompt("{{ item.output }}"), ef.LLMJudge)
ef.Faithfulness(model, strict="yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
ef.CustomEval("{output}")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
assert_type(ef.load_evaluators(Path("judges.yaml")), list[ef.Evaluator])
assert_type(ef.load_experiment("experiment.json"), pd.DataFrame)
assert_type(
    ef.load_experiment({"name": "first", "data": [{"output": "hi"}], "tasks": [judge.to_config()]}),
    pd.DataFrame,
)


def says(request: testing.Request) -> testing.Reply:
    """A script for the server that stands in for a model."""
    return testing.label("yes" if "2" in request.prompt else "no", explanation="It is so.")


with testing.ChatServer(says, latency=0.01) as server:
    assert_type(server.base_url, str)
    assert_type(server.requests, list[testing.Request])
    assert_type(server.calls, int)
testing.ChatServer([testing.error(429, headers={"Retry-After": "1"}), testing.label("yes")])
testing.ChatServer("yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@ef.task
def shout(input: str) -> str:
    """A task under the bare decorator."""
    return input.upper()


@ef.task(output=str, threads=1, version="7")
async def ask(question: str, temperature: float = 0.0) -> str:
    """An async task with options."""
    return f"{question} {temperature}"


assert_type(shout("hi"), str)
shout(3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

chat = ef.ChatTask(
    model,
    "{{ item.question }}",
    system_prompt="One word.",
    inference_args={"temperature": 1.0},
    name="answers",
    version="1",
)
assert_type(chat.model, ef.Model)

scored = ef.run_experiment(
    frame,
    None,
    [exact, overlap, counted, remote, short, mentions, *built_in, *judges],
    "first",
    input="question",
    output="answer",
    dataset_output="truth",
    metadata=["question", "truth"],
    concurrency=8,
    timeout=2.5,
    errors="raise",
    overwrite=True,
    repetitions=2,
    dry_run=5,
    details=True,
    cache=Path("replies.sqlite"),
    run_dir=Path("runs"),
    progress=False,
)
assert_type(scored, pd.DataFrame)
assert_type(ef.run_experiment(frame, chat, judge, cache="replies.sqlite"), pd.DataFrame)
assert_type(ef.run_experiment(frame, evaluators=judge.to_config()), pd.DataFrame)
assert_type(ef.run_experiment("rows.jsonl", shout, {"same": exact}), pd.DataFrame)
assert_type(ef.run_experiment([{"input": "hi"}], task=ask, evaluators=mentions), pd.DataFrame)
assert_type(frame.pipe(ef.run_experiment, evaluators=[exact], output="answer"), pd.DataFrame)
assert_type(frame.pipe(ef.run_experiment, evaluators=[exact], only="failed"), pd.DataFrame)
assert_type(
    ef.run_experiment(
        frame, chat, judge, deadline=3600, max_cost=2.5, max_requests=1000, timeout=30.0
    ),
    pd.DataFrame,
)
assert_type(ef.estimate(frame, chat, [judge], probe=3, cache=Path("replies")), pd.DataFrame)
assert_type(ef.estimate("rows.jsonl", judge, input="question", repetitions=2), pd.DataFrame)
assert_type(ef.estimate(frame, [judge], only="failed", run_dir=Path("run")), pd.DataFrame)
ef.estimate(frame, judge, max_cost=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ef.run_experiment(frame, judge, max_requests="9")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
ef.run_experiment(frame, evaluator=[exact])  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


async def inside_a_loop() -> None:
    """The async form takes the same arguments."""
    result = await ef.arun_experiment(frame, evaluators=[exact], output="answer", progress=False)
    assert_type(result, pd.DataFrame)
    assert_type(await ask("how?"), str)


assert_type(ef.summary(scored), pd.DataFrame)
assert_type(ef.failures(scored), pd.DataFrame)
assert_type(ef.scores(scored), pd.DataFrame)
assert_type(ef.passed(scored), pd.DataFrame)
assert_type(ef.usage(scored), pd.DataFrame)
assert_type(ef.ExactMatch().fingerprint().digest, str)
assert_type(ef.ExactMatch().fingerprint().unread, tuple[str, ...])
assert_type(ef.last_run(), pd.DataFrame | None)
ef.to_parquet(scored, Path("scored.parquet"), drop=["eval.exact.metadata"])
assert_type(ef.read_parquet("scored.parquet"), pd.DataFrame)
scored.evals.to_parquet("scored.parquet")

dataset = ef.Dataset(
    frame,
    input="question",
    output="answer",
    dataset_output="truth",
    metadata=["truth"],
    types={"answer": int},
)
assert_type(dataset, ef.Dataset)
assert_type(dataset.head(3).sample(2, seed=1).filter([True, False]), ef.Dataset)
assert_type(dataset.to_pandas(), pd.DataFrame)
dataset.to_arrow()  # pyright: ignore[reportUnknownMemberType] # pyarrow has no types
assert_type(dataset.to_examples(), list[ef.Example])
assert_type(len(dataset), int)

example = ef.Example(
    input={"question": "What is in it?", "language": "en"},
    actual_output=["milk", "sugar"],
    expected_output="milk and sugar",
    retrieval_context=["on the label", ef.ContextChunk("milk", relevance=0.9)],
    context=["the label"],
    tools_called=["search"],
    expected_tools=["search", "read"],
    additional_metadata={"source": "label"},
)
assert_type(example.input, str | dict[str, Any] | None)
assert_type(example.actual_output, str | list[str] | None)
assert_type(example.retrieval_context, list[str | ef.ContextChunk] | None)
assert_type(example.additional_metadata, dict[str, Any] | None)
assert_type(ef.ContextChunk(document="milk").relevance, float | None)
ef.Dataset([example])

reason: Callable[[str], Any] = ef.skip
try:
    ef.Dataset("nowhere.csv")
except ef.ColumnNotFoundError as error:
    assert_type(error.missing, dict[str, Hashable])
except ef.ExperimentError as error:
    assert_type(error.problems, list[str])
except ef.ConfigError as error:
    refused: ValueError = error
except (ef.DatasetError, ef.UnsupportedValueError, ef.CellError, ef.StuckCallsError):
    raise
except ef.MissingExtraError as error:
    known: ef.EvalframeError = error
