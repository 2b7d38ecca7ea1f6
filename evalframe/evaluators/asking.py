"""What every judged evaluator is: it asks a model about a row, and never guesses the verdict.

Owns   the arguments that all judges have, what they read of a row, what is sent, and the cell
       that a reply or a failure becomes.
Leaves what is asked, and what a reply means, to its classes; connections to llm/connect.py.

Question   what is asked about one row, and how the reply is read
Judge      the base class
"""

from __future__ import annotations

import copy
import functools
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.binding import Binding, bind_fields
from evalframe.core.call_info import current_call
from evalframe.core.namespace import Namespace
from evalframe.core.records import Cell, Skip
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.judge_arguments import asking_problem, flattened
from evalframe.evaluators.normalize import skipped, text_of
from evalframe.evaluators.verdict import Reading, Verdict, answered
from evalframe.llm.chat import ChatError, ChatReply
from evalframe.llm.connect import Answer, InvalidReplyError, Session
from evalframe.llm.model import Model, as_model
from evalframe.llm.structured import request_fields

if TYPE_CHECKING:
    from evalframe.llm.prompts import Condition, Prompt

_Request = tuple[list[dict[str, str]], dict[str, Any]]


class Question(NamedTuple):
    """What is asked about one row.

    Attributes:
        messages: The rendered prompt.
        reading: The constraint on the reply, and how it is read. Equal requests are answered
            once, so nothing may enter here but what is in the request.
        settle: What was read -> the row's verdict; it may know more of the row.
    """

    messages: list[dict[str, str]]
    reading: Reading
    settle: Callable[[Any], Verdict | Skip]


class Judge(Evaluator):
    """Base of the evaluators that ask a model.

    A class gives the template to `__init__`, and writes `_question`.

    Attributes:
        prompt: The prompt as it was given: text, or a list of messages.
        model: The model that is asked.
        inference_args: Further fields of every request.
        run_if: Condition on a row; where it is false the cell is skipped.
        invalid_retries: How often an invalid reply is asked again.
    """

    kind: ClassVar[str] = "LLM"
    _prompt_argument: ClassVar[str] = "prompt"

    def __init__(
        self,
        *,
        model: str | Model,
        prompt: str | list[dict[str, str]],
        template: Prompt,
        inference_args: Mapping[str, Any] | None,
        run_if: Callable[..., Any] | str | None,
        invalid_retries: int,
        name: str | None,
        threshold: float | None,
    ) -> None:
        """Check what all judges are given; `template` is what was made of the prompt.

        Raises:
            ValueError: An argument cannot be used.
            TypeError: An argument is of the wrong type.
        """
        from evalframe.llm.prompts import Condition

        self.name = name or ""
        self.threshold = threshold
        self.model = as_model(model)
        # A copy: a message that its owner goes on to change must not change what is shown.
        self.prompt = copy.deepcopy(prompt)
        self._template = template
        self.inference_args = flattened(inference_args)
        self.run_if = run_if
        self._condition: Condition | None = Condition(run_if) if isinstance(run_if, str) else None
        self.invalid_retries = invalid_retries
        problem = asking_problem(self)
        if problem:
            raise ValueError(problem)

    @property
    def usual_schema(self) -> dict[str, Any] | None:
        """The schema of every reply; None where it depends on the row."""
        return None

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

    def with_prompt(self, prompt: Any) -> Self:
        """A copy with another prompt, checked as when it is built.

        Args:
            prompt: In place of the one it has; see `prompt`.

        Raises:
            ValueError: The prompt cannot be used.
            TypeError: The class takes no prompt.

        Examples:
            >>> import evalframe as ef
            >>> judge = ef.LLMJudge("a", model="openai/x", prompt="{{ item.a }}", choices=["y"])
            >>> mine = "Is it polite? {{ item.output }}"
            >>> judge.with_prompt(mine).prompt == mine
            True
        """
        args, kwargs, common = self._arguments
        signature = inspect.signature(type(self).__init__)
        if self._prompt_argument not in signature.parameters:
            message = f"{type(self).__name__} takes no {self._prompt_argument}= to replace."
            raise TypeError(message)
        given = dict(list(signature.bind(self, *args, **kwargs).arguments.items())[1:])
        made = type(self)(**{**given, **common, self._prompt_argument: prompt})
        return made._copy(name=self.name, _bindings=self._bindings)  # noqa: SLF001 - the same class

    def _described(self) -> Mapping[str, Any]:
        found = dict(super()._described())
        if self.version is not None:
            return found
        # As they are used: a prompt of the class, a model by its name, an opened extra_body.
        found[self._prompt_argument] = self.prompt
        found["model"] = self.model
        found["inference_args"] = dict(sorted(self.inference_args.items()))
        found.pop(
            "invalid_retries", None
        )  # a valid reply is the same, however often it was asked for
        return {**found, "schema": self.usual_schema}

    def binding(self, namespace: Namespace, *, what: str) -> Binding:
        """What prompt and condition read."""
        on_row = self._condition is not None and self._condition.whole_row
        return bind_fields(
            self._fields(namespace),
            namespace,
            what=what,
            whole_row=self._template.whole_row or on_row,
            condition=None if isinstance(self.run_if, str) else self.run_if,
            overrides=self._sources(namespace),
        )

    def _fields(self, namespace: Namespace) -> list[str]:
        """The fields of the row that it reads."""
        del namespace
        condition = () if self._condition is None else self._condition.names
        return list(dict.fromkeys([*self._template.names, *condition]))

    def _sources(self, namespace: Namespace) -> Mapping[str, Any]:
        """Field -> where it is read, for those that do not bind by their name."""
        del namespace
        return self.bindings

    def result_fields(self, *, details: bool) -> dict[str, pa.DataType]:
        """Its extras, the raw reply of failed cells, and what it cost."""
        fields = super().result_fields(details=details)
        fields[schema.REPLY] = schema.TEXT
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
            return found if isinstance(found, Cell) else await ask(found)

        return judged

    def rendered(self, condition: Any, row: Any, /, **values: Any) -> Question | Cell:
        """The question about one row, or the cell of a row that is not asked about."""
        from evalframe.llm.prompts import FieldError, NullFieldError

        item = self._item({**row, **values} if row is not None else values)
        if isinstance(item, Cell):
            return item
        try:
            if self._condition is not None:
                condition = self._condition.holds(item)
            if not condition:
                return skipped("run_if")
            return self._question(item)
        except NullFieldError as exc:
            return skipped(str(exc))
        except FieldError as exc:
            return Cell(error=schema.error_text(schema.TEMPLATE, text_of(str(exc))))

    def _item(self, values: dict[str, Any]) -> dict[str, Any] | Cell:
        """What condition and prompt see, or the cell of a row that has nothing to see."""
        return values

    @abstractmethod
    def _question(self, item: dict[str, Any]) -> Question | Cell:
        """The question, or the cell of a row that is not asked about.

        Raises:
            NullFieldError: The prompt would print a null.
            FieldError: The prompt reads what is not there.
        """

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
            `response_schema` (a dict; None for such a row if it depends on the row), and `error`
            (why a row is not asked about; null too where it has a score without being asked).

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

    def _asking(self, session: Session, fields: list[str]) -> Callable[[Question], Awaitable[Cell]]:
        requests: dict[Reading, _Request] = {}

        async def ask(question: Question) -> Cell:
            reading = question.reading
            if reading not in requests:
                requests[reading] = self.request(reading)
            head, rest = requests[reading]
            paid: list[ChatReply] = []
            try:
                answer = await session.ask(
                    self.name,
                    self.model,
                    {"messages": [*head, *question.messages], **rest},
                    functools.partial(self.accept, reading),
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
            return self._cell(question.settle(answer.value), answer, fields)

        return ask

    def request(self, reading: Reading) -> _Request:
        """What requests hold beside the prompt: messages before it, and other fields."""
        constraint, said = request_fields(self.model.form, reading.schema, reading.labels)
        head = [] if said is None else [{"role": "system", "content": said}]
        return head, {**constraint, **self.inference_args}

    def accept(self, reading: Reading, reply: ChatReply) -> Any:
        """What was read of a reply.

        Raises:
            InvalidReplyError: It is no verdict.
        """
        text = answered(reply)
        try:
            return reading.read(text)
        except InvalidReplyError:
            raise
        except Exception as exc:  # noqa: BLE001 - a validator of the user's may raise anything
            message = f"the reply cannot be read: {type(exc).__name__}: {exc}"
            raise InvalidReplyError(schema.PARSE, message, text, ask_again=True) from None

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

    def _cell(self, verdict: Verdict | Skip, answer: Answer, fields: list[str]) -> Cell:
        values = self._details(answer.replies, from_cache=answer.from_cache)
        if isinstance(verdict, Skip):
            return skipped(verdict.reason)._replace(extras=_in_order(fields, values))
        values |= dict(zip(self.extras, verdict.extras, strict=True))
        values[schema.RAW_SCORE] = verdict.raw_score
        if verdict.sure is not None:
            values[schema.CONFIDENCE], values[schema.COVERAGE] = verdict.sure
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
