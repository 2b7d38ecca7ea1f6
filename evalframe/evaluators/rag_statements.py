"""Judged evaluators of statements.

Faithfulness, AnswerRelevancy, ContextRecall   a verdict for each statement of a text
AnswerCorrectness                              the statements of two texts, set against each other
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from evalframe.core.records import Cell, Skip
from evalframe.evaluators import rag_prompts
from evalframe.evaluators.normalize import skipped
from evalframe.evaluators.rag import RagJudge, as_json, judged_text, told
from evalframe.evaluators.rag_replies import (
    REASON,
    STATEMENT,
    STATEMENTS,
    VERDICT,
    ListReading,
    statements,
    texts,
)
from evalframe.evaluators.verdict import Verdict
from evalframe.llm.model import Model

_NO_STATEMENTS = Skip("no statements")


class _EachStatement:
    """Scores by the share of the statements that pass; for a RagJudge.

    Attributes:
        options: The verdicts that the model may give.
        passed: What is said of the statements that pass.
        fallen: What is said before the others are named.
    """

    options: ClassVar[tuple[str, ...]]
    passed: str
    fallen: str = "not"
    extras: ClassVar[Mapping[str, Any]] = {STATEMENTS: "json"}

    @property
    def usual_schema(self) -> dict[str, Any]:
        """The schema of every reply."""
        return self._reading(0).schema

    def _reading(self, contexts: int) -> ListReading:
        del contexts
        return statements(*self.options)

    def _passes(self, verdict: str) -> bool:
        return verdict != "no"

    def _verdict(self, found: Mapping[str, list[Any]], *, blank: Sequence[bool]) -> Verdict | Skip:
        del blank
        judged = found[STATEMENTS]
        if not judged:
            return _NO_STATEMENTS
        fallen = [
            f'"{said[STATEMENT]}" ({said[VERDICT]}: {said[REASON]})'
            for said in judged
            if not self._passes(said[VERDICT])
        ]
        passed = len(judged) - len(fallen)
        head = f"{passed} of {len(judged)} statements {self.passed}"
        return Verdict(
            score=passed / len(judged),
            explanation=told(head, f"; {self.fallen}", fallen),
            extras=(as_json(judged),),
        )


class Faithfulness(_EachStatement, RagJudge):
    """Share of the output's statements that its contexts do not contradict, in [0, 1].

    A model lists the statements of `output`, in one request, each with a verdict: "yes" if it
    follows from `retrieval_context`, "no" if that contradicts it, "idk" if it is not in there.
    The score is the share that is not "no"; with `strict` that of "yes" alone, as Ragas has it.
    `input` is shown to the model where the data has one. Blank contexts are left out.

    An output without statements is skipped as "no statements", a row without contexts (null, [],
    or only blank ones) as "no contexts", one whose `output` is null or blank with that reason.

    Columns beyond the usual: `statements`, a JSON list of {"statement", "reason", "verdict"}.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: In place of `PROMPT`; must read `item.output` and `item.retrieval_context` (the
            list of texts that are not blank).
        strict: Whether "idk" counts as unfaithful.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`.
        invalid_retries: How often an invalid reply is asked again.

    Raises:
        ValueError: The prompt does not read what is scored, or an argument cannot be used.
        TypeError: `strict` is not a bool.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> said = [{"statement": w, "reason": "r", "verdict": w} for w in ("yes", "idk")]
        >>> row = {"output": "Rome is old and warm.", "retrieval_context": ["Rome is old."]}
        >>> with ChatServer(reply({"statements": said})) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     judges = [ef.Faithfulness(model), ef.Faithfulness(model, strict=True, name="all")]
        ...     scored = ef.run_experiment([row], evaluators=judges)
        >>> scored.evals.scores.iloc[0].tolist()
        [1.0, 0.5]
    """

    PROMPT: ClassVar[str] = rag_prompts.FAITHFULNESS
    reads: ClassVar[tuple[str, ...]] = ("output",)
    contexts: ClassVar[str | None] = "retrieval_context"
    may_read: ClassVar[tuple[str, ...]] = ("input",)
    options: ClassVar[tuple[str, ...]] = ("yes", "no", "idk")
    passed = "not contradicted"
    fallen = "contradicted"
    source: ClassVar[str] = "[Es et al. 2023](https://arxiv.org/abs/2309.15217)"

    def __init__(
        self,
        model: str | Model,
        *,
        prompt: str | list[dict[str, str]] | None = None,
        strict: bool = False,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        invalid_retries: int = 1,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if not isinstance(strict, bool):
            message = f"strict must be True or False, not {strict!r}."
            raise TypeError(message)
        self.strict = strict
        if strict:
            self.passed, self.fallen = "supported by the contexts", "not"
        super().__init__(
            model,
            prompt=prompt,
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )

    def _passes(self, verdict: str) -> bool:
        return verdict == "yes" if self.strict else verdict != "no"


class AnswerRelevancy(_EachStatement, RagJudge):
    """Share of the output's statements that have to do with the input, in [0, 1].

    A model lists the statements of `output`, in one request, each with a verdict: "yes" if it
    answers `input` or a part of it, "no" if it has nothing to do with it, "idk" if it is no
    answer but supports one. The score is the share that is not "no". Whether statements are true
    does not matter.

    An output without statements is skipped as "no statements", a row whose `input` or `output`
    is null or blank with that reason.

    Columns beyond the usual: `statements`, a JSON list of {"statement", "reason", "verdict"}.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: In place of `PROMPT`; must read `item.input` and `item.output`.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`.
        invalid_retries: How often an invalid reply is asked again.

    Raises:
        ValueError: The prompt does not read what is scored, or an argument cannot be used.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> said = [{"statement": w, "reason": "r", "verdict": w} for w in ("yes", "no")]
        >>> row = {"input": "Where is Rome?", "output": "In Italy. Cats purr."}
        >>> with ChatServer(reply({"statements": said})) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     scored = ef.run_experiment([row], evaluators=[ef.AnswerRelevancy(model)])
        >>> scored["eval.answer_relevancy.score"][0]
        0.5
    """

    PROMPT: ClassVar[str] = rag_prompts.ANSWER_RELEVANCY
    reads: ClassVar[tuple[str, ...]] = ("input", "output")
    options: ClassVar[tuple[str, ...]] = ("yes", "no", "idk")
    passed = "relevant to the input"
    source: ClassVar[str] = (
        "[DeepEval, answer relevancy](https://deepeval.com/docs/metrics-answer-relevancy)"
    )

    def __init__(
        self,
        model: str | Model,
        *,
        prompt: str | list[dict[str, str]] | None = None,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        invalid_retries: int = 1,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        super().__init__(
            model,
            prompt=prompt,
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )


class ContextRecall(_EachStatement, RagJudge):
    """Share of the reference's statements that the contexts hold, in [0, 1].

    A model lists the statements of `dataset_output`, the answer to `input`, in one request, each
    with a verdict: "yes" if it follows from `retrieval_context`, else "no". The score is the
    share of "yes". Blank contexts are left out. A list as `dataset_output` holds alternative
    answers, of which the model takes the one that the contexts support best.

    A reference without statements is skipped as "no statements", a row without one as "no
    reference", one without contexts (null, [], or only blank ones) as "no contexts", one whose
    `input` is null or blank with that reason.

    Columns beyond the usual: `statements`, a JSON list of {"statement", "reason", "verdict"}.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: In place of `PROMPT`; must read `item.input`, `item.dataset_output` and
            `item.retrieval_context` (the list of texts that are not blank).
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`.
        invalid_retries: How often an invalid reply is asked again.

    Raises:
        ValueError: The prompt does not read what is scored, or an argument cannot be used.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> said = [{"statement": w, "reason": "r", "verdict": w} for w in ("yes", "no")]
        >>> row = {"query": "Where is Rome?", "reference": "In Italy, on the Tiber."}
        >>> row["contexts"] = ["Rome is a city in Italy."]
        >>> with ChatServer(reply({"statements": said})) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     scored = ef.run_experiment([row], evaluators=[ef.ContextRecall(model)])
        >>> scored["eval.context_recall.score"][0]
        0.5
    """

    PROMPT: ClassVar[str] = rag_prompts.CONTEXT_RECALL
    reads: ClassVar[tuple[str, ...]] = ("input", "dataset_output")
    contexts: ClassVar[str | None] = "retrieval_context"
    options: ClassVar[tuple[str, ...]] = ("yes", "no")
    passed = "found in the contexts"
    source: ClassVar[str] = (
        "[Ragas, context recall](https://docs.ragas.io/en/stable/concepts/metrics/"
        "available_metrics/context_recall/)"
    )

    def __init__(
        self,
        model: str | Model,
        *,
        prompt: str | list[dict[str, str]] | None = None,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        invalid_retries: int = 1,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        super().__init__(
            model,
            prompt=prompt,
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )


_KINDS = ("true_positives", "false_positives", "false_negatives")


class AnswerCorrectness(RagJudge):
    """How well the output's statements agree with the reference's: their F1, in [0, 1].

    A model sorts statements into three lists, in one request: those of `output`, an answer to
    `input`, that `dataset_output` has too (TP), those that it has not (FP), and those of
    `dataset_output` that the output lacks (FN). The score is TP / (TP + (FP + FN) / 2).

    If all lists are empty the cell is skipped as "no statements", a row without a reference as
    "no reference", one whose `input` is null or blank, or whose `output` is blank, with that
    reason; a null output against a reference scores 0.0, without a request. A list as
    `dataset_output` holds alternative answers, of which the closest counts.

    Columns beyond the usual: `true_positives`, `false_positives` and `false_negatives`, JSON
    lists of statements.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: In place of `PROMPT`; must read `item.input`, `item.output` and
            `item.dataset_output`.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`.
        invalid_retries: How often an invalid reply is asked again.

    Raises:
        ValueError: The prompt does not read what is scored, or an argument cannot be used.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> said = {"true_positives": ["Rome is in Italy."], "false_positives": []}
        >>> said["false_negatives"] = ["Rome is on the Tiber.", "Rome is old."]
        >>> row = {"query": "Where is Rome?", "output": "In Italy."}
        >>> row["reference"] = "In Italy, on the Tiber, since long ago."
        >>> with ChatServer(reply(said)) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     scored = ef.run_experiment([row], evaluators=[ef.AnswerCorrectness(model)])
        >>> scored["eval.answer_correctness.score"][0]
        0.5
    """

    PROMPT: ClassVar[str] = rag_prompts.ANSWER_CORRECTNESS
    reads: ClassVar[tuple[str, ...]] = ("input", "output", "dataset_output")
    extras: ClassVar[Mapping[str, Any]] = dict.fromkeys(_KINDS, "json")
    source: ClassVar[str] = (
        "[Ragas, answer correctness](https://docs.ragas.io/en/stable/concepts/metrics/"
        "available_metrics/answer_correctness/)"
    )

    def __init__(
        self,
        model: str | Model,
        *,
        prompt: str | list[dict[str, str]] | None = None,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        invalid_retries: int = 1,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        super().__init__(
            model,
            prompt=prompt,
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )

    @property
    def usual_schema(self) -> dict[str, Any]:
        """The schema of every reply."""
        return self._reading(0).schema

    def _without(self, field: str, item: Mapping[str, Any], why: Skip) -> Cell:
        if field != "output" or item["output"] is not None:
            return super()._without(field, item, why)
        wanted = judged_text("dataset_output", item["dataset_output"])
        if isinstance(wanted, Skip):
            return skipped(wanted.reason)
        # To say nothing falls short of any reference: all of it is lacking, and none of it found.
        return wanted if isinstance(wanted, Cell) else Cell(score=0.0, explanation=why.reason)

    def _reading(self, contexts: int) -> ListReading:
        del contexts
        return texts(*_KINDS)

    def _verdict(self, found: Mapping[str, list[Any]], *, blank: Sequence[bool]) -> Verdict | Skip:
        del blank
        right, wrong, lacking = (found[kind] for kind in _KINDS)
        total = len(right) + (len(wrong) + len(lacking)) / 2
        if not total:
            return _NO_STATEMENTS
        fallen = [f'"{text}" (only in the output)' for text in wrong]
        fallen += [f'"{text}" (only in the reference)' for text in lacking]
        head = f"{len(right)} of {len(right) + len(fallen)} statements in output and reference"
        return Verdict(
            score=len(right) / total,
            explanation=told(head, "; not in both", fallen),
            extras=tuple(as_json(found[kind]) for kind in _KINDS),
        )
