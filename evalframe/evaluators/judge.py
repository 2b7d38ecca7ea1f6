"""LLMJudge: an evaluator that asks a model, and never guesses its verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from evalframe.core import schema
from evalframe.evaluators.asking import Judge, Question
from evalframe.evaluators.confidence import confidence_of
from evalframe.evaluators.judge_arguments import argument_problem
from evalframe.evaluators.verdict import ChoiceVerdict, Reading, ResponseVerdict, Verdict, as_read
from evalframe.llm.chat import ChatReply
from evalframe.llm.model import Model

MOST_LOGPROBS = 20


class LLMJudge(Judge):
    """A model as evaluator: a prompt about each row, and a verdict by guided decoding.

    With `choices` the verdict is one of them, with `response_format` a JSON object whose
    properties become columns. Replies are checked here in full: what is not valid as a whole
    is a failed cell with the reply in `eval.<name>.reply`, never a guess. A row on which the
    prompt would print a null is skipped without a request.

    Args:
        name: Name of the result columns.
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: Jinja2 template for the user message, or a list of {"role", "content"}; fields
            of the row are `{{ item.input }}`, `{{ item.<column> }}`, keys of their values
            `{{ item.metadata.topic }}`.
        system_prompt: Template for a first message.
        choices: Labels, or label -> score.
        response_format: JSON Schema of an object, or a pydantic model class.
        explanation: With `choices`: whether to ask for an explanation, before the label.
        fields: With `response_format`: part (label, score, explanation) -> property.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: Function bound like an evaluator's, or a Jinja expression such as
            "item.output | length > 0"; where it is false the cell is skipped.
        confidence: Ask for log probabilities, and add `confidence` and `coverage`.
        invalid_retries: How often an invalid reply is asked again.
        threshold: Score from which a cell passes.
        direction: "maximize" or "minimize".
        score_range: Range of scores that are not rescaled to [0, 1].
        version: Your own mark of what it does.

    Raises:
        ValueError: Prompt, choices, schema or another argument cannot be used.
        TypeError: An argument is of the wrong type.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, label
        >>> with ChatServer(label("yes", explanation="It is.")) as server:
        ...     judge = ef.LLMJudge(
        ...         "correct",
        ...         model=ef.Model("local/judge", base_url=server.base_url),
        ...         prompt="Is {{ item.output }} the answer to {{ item.input }}?",
        ...         choices={"yes": 1.0, "no": 0.0},
        ...     )
        ...     scored = ef.run_experiment([{"input": "1+1", "output": "2"}], evaluators=[judge])
        >>> scored["eval.correct.label"][0], scored["eval.correct.score"][0]
        ('yes', 1.0)
    """

    source: ClassVar[str] = "[Zheng et al. 2023](https://arxiv.org/abs/2306.05685)"

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        prompt: str | list[dict[str, str]],
        system_prompt: str | None = None,
        choices: Any = None,
        response_format: Any = None,
        explanation: bool = True,
        fields: Mapping[str, str] | None = None,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        confidence: bool = False,
        invalid_retries: int = 1,
        threshold: float | None = None,
        direction: str = "maximize",
        score_range: tuple[float, float] | None = None,
        version: str | None = None,
    ) -> None:
        """See the class."""
        from evalframe.llm.prompts import Prompt

        super().__init__(
            model=model,
            prompt=prompt,
            template=Prompt(prompt, system_prompt=system_prompt),
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )
        self.direction = direction
        self.version = version
        self.confidence = confidence
        self.score_range = (0.0, 1.0) if score_range is None else score_range
        self.reading: ChoiceVerdict | ResponseVerdict = self._reading(
            choices, response_format, fields, score_range, explanation=explanation
        )
        self._check()
        self.__dict__.update(extras=dict(self.reading.extras))

    @staticmethod
    def _reading(
        choices: Any, response_format: Any, fields: Any, score_range: Any, *, explanation: bool
    ) -> ChoiceVerdict | ResponseVerdict:
        if (choices is None) == (response_format is None):
            message = "give exactly one of choices and response_format."
            raise ValueError(message)
        if not isinstance(explanation, bool):
            message = f"explanation must be True or False, not {explanation!r}."
            raise TypeError(message)
        if choices is not None:
            if fields is not None:
                message = "fields= maps properties of a response_format; choices have none."
                raise ValueError(message)
            return ChoiceVerdict(choices, explanation=explanation)
        if not explanation:
            message = "explanation= goes with choices; a response_format has the properties it has."
            raise ValueError(message)
        return ResponseVerdict(response_format, fields=fields, score_range=score_range)

    def _check(self) -> None:
        problem = argument_problem(self)
        if problem:
            raise ValueError(problem)
        if not self._template.names and not self._template.whole_row:
            warnings.warn(
                f"The prompt of judge {self.name!r} reads no field: every row is asked the same.",
                stacklevel=4,
            )

    @property
    def usual_schema(self) -> dict[str, Any]:
        """The schema of every reply."""
        return self.reading.schema

    def result_fields(self, *, details: bool) -> dict[str, pa.DataType]:
        """Properties of the reply, the raw reply of failed cells, and what it cost."""
        fields = super().result_fields(details=False)
        if self.reading.has_raw_score:
            fields[schema.RAW_SCORE] = schema.NUMBER
        if self.confidence:
            fields |= dict.fromkeys((schema.CONFIDENCE, schema.COVERAGE), schema.NUMBER)
        return fields | (schema.JUDGE_DETAILS if details else {})

    def _question(self, item: dict[str, Any]) -> Question:
        return Question(self._template.render(item), self.reading, as_read)

    def request(self, reading: Reading) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """What requests hold beside the prompt: messages before it, and other fields."""
        head, rest = super().request(reading)
        if self.confidence:
            rest = {"top_logprobs": MOST_LOGPROBS, **rest, "logprobs": True}
        return head, rest

    def accept(self, reading: Reading, reply: ChatReply) -> Verdict:
        """What was read of a reply, and how sure it is.

        Raises:
            InvalidReplyError: It is no verdict.
        """
        verdict: Verdict = super().accept(reading, reply)
        if self.confidence and verdict.label is not None and reading.labels:
            sure = confidence_of(verdict.label, reading.labels, reply.logprobs)
            return verdict._replace(sure=sure)
        return verdict

    def to_config(self) -> dict[str, Any]:
        """The dict of a guided-decoding task that makes this judge again.

        Raises:
            ConfigError: It holds a function, which no configuration can.

        Examples:
            >>> import evalframe as ef
            >>> judge = ef.LLMJudge(
            ...     "ok", model="openai/gpt-5-mini", prompt="{{ item.output }}?", choices=["a", "b"]
            ... )
            >>> judge.to_config()["alias"]
            'ok'
        """
        from evalframe.evaluators.judge_config import to_config

        return to_config(self)
