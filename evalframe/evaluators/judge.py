"""LLMJudge: an evaluator that asks a model, and never guesses its verdict."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.binding import Binding, bind_fields
from evalframe.core.call_info import current_call
from evalframe.core.namespace import Namespace
from evalframe.core.records import Cell
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.confidence import confidence_of
from evalframe.evaluators.judge_arguments import argument_problem, flattened
from evalframe.evaluators.normalize import text_of
from evalframe.evaluators.verdict import ChoiceVerdict, Reading, ResponseVerdict, Verdict, answered
from evalframe.llm.chat import ChatError, ChatReply
from evalframe.llm.connect import Answer, InvalidReplyError, Session
from evalframe.llm.model import Model, as_model
from evalframe.llm.structured import request_fields

if TYPE_CHECKING:
    from evalframe.llm.prompts import Condition, Prompt

MOST_LOGPROBS = 20


class LLMJudge(Evaluator):
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

    kind: ClassVar[str] = "LLM"

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
        from evalframe.llm.prompts import Condition, Prompt

        self.name = name
        self.threshold = threshold
        self.direction = direction
        self.version = version
        self.model = as_model(model)
        self.prompt: Prompt = Prompt(prompt, system_prompt=system_prompt)
        self.inference_args = flattened(inference_args)
        self.run_if = run_if
        self._condition: Condition | None = Condition(run_if) if isinstance(run_if, str) else None
        self.confidence = confidence
        self.invalid_retries = invalid_retries
        self.score_range = (0.0, 1.0) if score_range is None else score_range
        self.reading: Reading = self._reading(
            choices, response_format, fields, score_range, explanation=explanation
        )
        self._check()
        self.__dict__.update(extras=dict(self.reading.extras))

    @staticmethod
    def _reading(
        choices: Any, response_format: Any, fields: Any, score_range: Any, *, explanation: bool
    ) -> Reading:
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
        if not self.prompt.names and not self.prompt.whole_row:
            warnings.warn(
                f"The prompt of judge {self.name!r} reads no field: every row is asked the same.",
                stacklevel=4,
            )

    @property
    def is_async(self) -> bool:
        """A judge waits for its model."""
        return True

    @property
    def function(self) -> Callable[..., Any]:
        """A judge is called by a run, which opens it."""
        return self._alone

    async def _alone(self, *_: Any, **__: Any) -> Any:
        message = f"The judge {self.name!r} runs inside run_experiment; it cannot be called alone."
        raise TypeError(message)

    def binding(self, namespace: Namespace, *, what: str) -> Binding:
        """What prompt and condition read."""
        readers: list[Prompt | Condition] = [self.prompt]
        if self._condition is not None:
            readers.append(self._condition)
        return bind_fields(
            list(dict.fromkeys(name for reader in readers for name in reader.names)),
            namespace,
            what=what,
            whole_row=any(reader.whole_row for reader in readers),
            condition=None if isinstance(self.run_if, str) else self.run_if,
            overrides=self.bindings,
        )

    def result_fields(self, *, details: bool) -> dict[str, pa.DataType]:
        """Properties of the reply, the raw reply of failed cells, and what it cost."""
        fields = super().result_fields(details=details)
        fields[schema.REPLY] = schema.TEXT
        if self.reading.has_raw_score:
            fields[schema.RAW_SCORE] = schema.NUMBER
        if self.confidence:
            fields |= dict.fromkeys((schema.CONFIDENCE, schema.COVERAGE), schema.NUMBER)
        return fields | (schema.JUDGE_DETAILS if details else {})

    def requirements(self) -> str | None:
        """What is missing before it can ask: an address or a key."""
        try:
            self.model.endpoint()
        except ValueError as exc:
            return str(exc)
        return None

    def opened(self, session: Session, *, details: bool) -> Callable[..., Any]:
        """The call for one run: takes the condition, the row and the fields, gives the cell."""
        session.connect(self.model)
        ask = self._asking(session, [*self.result_fields(details=details)])

        async def judged(condition: Any, row: Any, /, **values: Any) -> Cell:
            found = self.rendered(condition, row, **values)
            return Cell(error=found) if isinstance(found, str) else await ask(found)

        return judged

    def rendered(self, condition: Any, row: Any, /, **values: Any) -> list[dict[str, str]] | str:
        """The messages for one row, or the error cell of a row that is not asked about."""
        from evalframe.llm.prompts import FieldError, NullFieldError

        item = {**row, **values} if row is not None else values
        try:
            if self._condition is not None:
                condition = self._condition.holds(item)
            if not condition:
                return f"{schema.SKIPPED}: run_if"
            return self.prompt.render(item)
        except NullFieldError as exc:
            return f"{schema.SKIPPED}: {exc}"
        except FieldError as exc:
            return schema.error_text(schema.TEMPLATE, text_of(str(exc)))

    def preview(
        self,
        dataset: Any,
        n: int = 3,
        *,
        input: Hashable = None,
        output: Hashable = None,
        dataset_output: Hashable = None,
        metadata: Any = None,
    ) -> pd.DataFrame:
        """What would be sent for the first rows; nothing is.

        Args:
            dataset: Anything that `Dataset` takes.
            n: How many rows.
            input: Column that plays this role.
            output: Column that plays this role.
            dataset_output: Column that plays this role.
            metadata: Column, or list of columns, that plays this role.

        Returns:
            A frame with `messages` (a list of dicts, None for a row that is not asked about),
            `response_schema` (a dict), and `error` (why a row is not asked about).

        Raises:
            ExperimentError: A field of the prompt binds to nothing.

        Examples:
            >>> import evalframe as ef
            >>> judge = ef.LLMJudge(
            ...     "polite",
            ...     model="openai/gpt-5-mini",
            ...     prompt="Is this polite? {{ item.output }}",
            ...     choices=["yes", "no"],
            ... )
            >>> judge.preview([{"output": "please"}])["messages"][0]
            [{'role': 'user', 'content': 'Is this polite? please'}]
        """
        from evalframe.evaluators.preview import preview

        roles = {"input": input, "output": output}
        roles |= {"dataset_output": dataset_output, "metadata": metadata}
        return preview(self, dataset, n, roles)

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

    def _asking(
        self, session: Session, fields: list[str]
    ) -> Callable[[list[dict[str, str]]], Awaitable[Cell]]:
        head, rest = self._request()

        async def ask(messages: list[dict[str, str]]) -> Cell:
            paid: list[ChatReply] = []
            try:
                answer = await session.ask(
                    self.name,
                    self.model,
                    {"messages": [*head, *messages], **rest},
                    self._accept,
                    repetition=current_call().repetition,
                    invalid_retries=self.invalid_retries,
                    paid=paid,
                )
            except (InvalidReplyError, ChatError) as exc:
                said = exc.reply if isinstance(exc, InvalidReplyError) else None
                if exc.kind == schema.PARSE:
                    self._note_ignored(session, said or "")
                values = {schema.REPLY: None if said is None else text_of(said)}
                values |= self._details(paid, from_cache=False)
                error = schema.error_text(exc.kind, text_of(str(exc)))
                return Cell(error=error, extras=_in_order(fields, values))
            return self._cell(answer, fields)

        return ask

    def _request(self) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """What every request of this judge holds: messages before its own, and other fields."""
        form = self.model.endpoint().structured
        constraint, said = request_fields(form, self.reading.schema, self.reading.labels)
        rest = {**constraint, **self.inference_args}
        if self.confidence:
            rest = {"top_logprobs": MOST_LOGPROBS, **rest, "logprobs": True}
        return [] if said is None else [{"role": "system", "content": said}], rest

    def _accept(self, reply: ChatReply) -> Verdict:
        text = answered(reply)
        try:
            verdict = self.reading.read(text)
        except InvalidReplyError:
            raise
        except Exception as exc:  # noqa: BLE001 - a validator of the user's may raise anything
            message = f"the reply cannot be read: {type(exc).__name__}: {exc}"
            raise InvalidReplyError(schema.PARSE, message, text, ask_again=True) from None
        if self.confidence and verdict.label is not None and self.reading.labels:
            sure = confidence_of(verdict.label, self.reading.labels, reply.logprobs)
            return verdict._replace(sure=sure)
        return verdict

    def _note_ignored(self, session: Session, reply: str) -> None:
        """Prose where a constraint was sent: the server did not keep to it."""
        said = reply.strip()
        if said and not said.startswith(("{", "`")):
            endpoint = self.model.endpoint()
            other = "json_object" if endpoint.structured == "tool" else "tool"
            session.note(
                f"{endpoint.base_url} ({endpoint.model}) seems to ignore the constraint on replies "
                f"(sent as {endpoint.structured!r}): it answered with other text. Choose another "
                f"form: structured={other!r} on its ef.Model."
            )

    def _cell(self, answer: Answer, fields: list[str]) -> Cell:
        verdict: Verdict = answer.value
        values: dict[str, Any] = dict(zip(self.reading.extras, verdict.extras, strict=True))
        values[schema.RAW_SCORE] = verdict.raw_score
        if verdict.sure is not None:
            values[schema.CONFIDENCE], values[schema.COVERAGE] = verdict.sure
        values |= self._details(answer.replies, from_cache=answer.from_cache)
        return Cell(
            label=None if verdict.label is None else text_of(verdict.label),
            score=verdict.score,
            explanation=None if verdict.explanation is None else text_of(verdict.explanation),
            extras=_in_order(fields, values),
        )

    def _details(self, replies: Sequence[ChatReply], *, from_cache: bool) -> dict[str, Any]:
        """What the cell itself was paid for: nothing, if its answer was there already."""
        usages = [reply.usage for reply in replies]
        prompt = _total([usage.prompt_tokens for usage in usages])
        completion = _total([usage.completion_tokens for usage in usages])
        cached = sum(usage.cached_tokens or 0 for usage in usages)
        return {
            schema.PROMPT_TOKENS: prompt,
            schema.COMPLETION_TOKENS: completion,
            schema.CACHED_TOKENS: cached,
            schema.COST: self.model.cost(prompt, completion, cached),
            schema.FROM_CACHE: from_cache,
        }


def _total(counts: list[int | None]) -> int | None:
    """The sum, None where the server did not count."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _in_order(fields: list[str], values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values.get(field) for field in fields)
