"""Judged evaluators with a verdict for each context: ContextPrecision, Hallucination."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from evalframe.evaluators import rag_prompts
from evalframe.evaluators.rag import RagJudge, as_json, told
from evalframe.evaluators.rag_replies import REASON, VERDICT, VERDICTS, ListReading, verdicts
from evalframe.evaluators.verdict import Verdict
from evalframe.llm.model import Model

_BLANK = {REASON: "The context is blank.", VERDICT: "no"}


class ContextPrecision(RagJudge):
    """How well relevant contexts are ranked before others: average precision, in [0, 1].

    A model says of each chunk of `retrieval_context`, in one request, whether it helps to arrive
    at `dataset_output`, the answer to `input`. The score is the mean of precision@i over the
    ranks i of the relevant chunks, sum(precision@i * v_i) / sum(v), and 0.0 if none is relevant.
    Chunks are ranked as they stand, also where they have a relevance (by which `MRR` and the like
    would rank them). A blank chunk holds its rank, is not relevant, and is not asked about.

    A row without contexts (null, [], or only blank ones) is skipped as "no contexts", one without
    a reference as "no reference", one whose `input` is null or blank with that reason. A list as
    `dataset_output` holds alternative answers. A reply that has not exactly one verdict per chunk
    is a failed cell (`parse`).

    Columns beyond the usual: `verdicts`, a JSON list of {"reason", "verdict"}, one per chunk, in
    the order of the ranks.

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
        >>> said = [{"reason": "r", "verdict": word} for word in ("no", "yes")]
        >>> row = {"query": "1+1?", "reference": "2", "contexts": ["Cats.", "1+1 is 2."]}
        >>> with ChatServer(reply({"verdicts": said})) as server:
        ...     precision = ef.ContextPrecision(ef.Model("local/m", base_url=server.base_url))
        ...     scored = ef.run_experiment([row], evaluators=[precision])
        >>> scored["eval.context_precision.score"][0]
        0.5
    """

    PROMPT: ClassVar[str] = rag_prompts.CONTEXT_PRECISION
    reads: ClassVar[tuple[str, ...]] = ("input", "dataset_output")
    contexts: ClassVar[str | None] = "retrieval_context"
    extras: ClassVar[Mapping[str, Any]] = {VERDICTS: "json"}
    source: ClassVar[str] = (
        "[Ragas, context precision](https://docs.ragas.io/en/stable/concepts/metrics/"
        "available_metrics/context_precision/)"
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

    def _reading(self, contexts: int) -> ListReading:
        return verdicts(contexts)

    def _verdict(self, found: Mapping[str, list[Any]], *, blank: Sequence[bool]) -> Verdict:
        asked = iter(found[VERDICTS])
        ranked = [_BLANK if is_blank else next(asked) for is_blank in blank]
        relevant = [said[VERDICT] == "yes" for said in ranked]
        fallen = [
            f"{rank} ({said[REASON]})"
            for rank, said in enumerate(ranked, 1)
            if said[VERDICT] != "yes"
        ]
        head = f"{sum(relevant)} of {len(relevant)} contexts relevant"
        return Verdict(
            score=average_precision(relevant),
            explanation=told(head, "; not relevant", fallen),
            extras=(as_json(ranked),),
        )


def average_precision(relevant: Sequence[bool]) -> float:
    """The mean of precision@i over the ranks i that are relevant; 0.0 if none is."""
    hits, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            hits += 1
            total += hits / rank
    return total / hits if hits else 0.0


class Hallucination(RagJudge):
    """Share of the contexts that the output contradicts, in [0, 1]; lower is better.

    A model says of each text of `context`, which holds what is true, in one request, whether
    `output` contradicts it: contradicted / contexts. `input` is shown to it where the data has
    one. With a threshold, a score of at most that passes. Blank contexts are left out, and count
    nowhere.

    A row without contexts (null, [], or only blank ones) is skipped as "no contexts", one whose
    `output` is null or blank with that reason. A reply that has not exactly one verdict per
    context is a failed cell (`parse`).

    Columns beyond the usual: `verdicts`, a JSON list of {"reason", "verdict"}, one per context
    ("yes": contradicted), null for a blank one.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: In place of `PROMPT`; must read `item.output` and `item.context` (the list of
            texts that are not blank).
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`.
        invalid_retries: How often an invalid reply is asked again.
        direction: "minimize" or "maximize".

    Raises:
        ValueError: The prompt does not read what is scored, or an argument cannot be used.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> said = [{"reason": "r", "verdict": word} for word in ("yes", "no")]
        >>> row = {"output": "Rome is in Spain.", "context": ["Rome is in Italy.", "Cats purr."]}
        >>> with ChatServer(reply({"verdicts": said})) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     scored = ef.run_experiment([row], evaluators=[ef.Hallucination(model)])
        >>> scored["eval.hallucination.score"][0]
        0.5
    """

    PROMPT: ClassVar[str] = rag_prompts.HALLUCINATION
    reads: ClassVar[tuple[str, ...]] = ("output",)
    contexts: ClassVar[str | None] = "context"
    may_read: ClassVar[tuple[str, ...]] = ("input",)
    extras: ClassVar[Mapping[str, Any]] = {VERDICTS: "json"}
    source: ClassVar[str] = (
        "[DeepEval, hallucination](https://deepeval.com/docs/metrics-hallucination)"
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
        direction: str = "minimize",
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
        self.direction = direction

    def _reading(self, contexts: int) -> ListReading:
        return verdicts(contexts)

    def _verdict(self, found: Mapping[str, list[Any]], *, blank: Sequence[bool]) -> Verdict:
        asked = iter(found[VERDICTS])
        placed = [None if is_blank else next(asked) for is_blank in blank]
        contradicted = [
            f"{place} ({said[REASON]})"
            for place, said in enumerate(placed, 1)
            if said is not None and said[VERDICT] == "yes"
        ]
        count = len(found[VERDICTS])
        return Verdict(
            score=len(contradicted) / count,
            explanation=told(
                f"{len(contradicted)} of {count} contexts contradicted", "", contradicted
            ),
            extras=(as_json(placed),),
        )
