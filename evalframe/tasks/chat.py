"""ChatTask: a model that makes the output of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evalframe.core import schema
from evalframe.core.binding import Binding, bind_fields
from evalframe.core.call_info import current_call
from evalframe.core.namespace import Namespace
from evalframe.core.records import CallError
from evalframe.llm.chat import ChatReply
from evalframe.llm.connect import InvalidReplyError, Session, check_whole
from evalframe.llm.model import Model, as_model
from evalframe.tasks.task import Task

WHO = "<task>"
_OWN_ARGS = ("model", "messages", "stream", "n")


class ChatTask(Task[..., Any]):
    """A model as task: the reply to a prompt about each row is its `output`.

    It runs on the same stack as judges: retries, rate limits and cache are theirs. Rows are
    asked apart, also equal ones: their outputs are independent samples. With a cache a row finds
    its own again, by what the prompt reads of it and its number among all rows that are equal in
    that. A refused, filtered or truncated reply is a failed task.

    Args:
        model: "<provider>/<model>", or an `ef.Model`.
        prompt: Jinja2 template for the user message, or a list of {"role", "content"}.
        system_prompt: Template for a first message.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        name: Recorded with the run; the model's name if not given.
        version: Your own mark of what it does.

    Raises:
        ValueError: Prompt or arguments cannot be used.
        TypeError: `model` is neither text nor an `ef.Model`.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, reply
        >>> with ChatServer(reply("4")) as server:
        ...     task = ef.ChatTask(
        ...         ef.Model("local/chat", base_url=server.base_url), "{{ item.input }}"
        ...     )
        ...     answered = ef.run_experiment([{"input": "2+2"}], task)
        >>> answered["output"][0]
        '4'
    """

    def __init__(
        self,
        model: str | Model,
        prompt: str | list[dict[str, str]],
        *,
        system_prompt: str | None = None,
        inference_args: Mapping[str, Any] | None = None,
        name: str | None = None,
        version: str | None = None,
    ) -> None:
        """See the class."""
        from evalframe.llm.prompts import Prompt

        self.model = as_model(model)
        self.prompt = Prompt(prompt, system_prompt=system_prompt)
        self.inference_args = dict(inference_args or {})
        own = [key for key in self.inference_args if key in _OWN_ARGS]
        if own:
            message = f"inference_args: the task itself sets {', '.join(map(repr, own))}."
            raise ValueError(message)
        super().__init__(self._alone, name=name or self.model.name, output=str, version=version)
        options = {"system_prompt": system_prompt, "inference_args": self.inference_args}
        self._arguments = (self.model, prompt), {**options, "name": name, "version": version}

    @staticmethod
    async def _alone(*_: Any) -> Any:
        message = "A ChatTask runs inside run_experiment; it cannot be called by itself."
        raise TypeError(message)

    def _counted(self) -> dict[str, Any]:
        (model, prompt), options = self._arguments
        found = {"model": model, "prompt": prompt, "system_prompt": options["system_prompt"]}
        return {**found, "inference_args": dict(sorted(self.inference_args.items()))}

    def binding(self, namespace: Namespace, *, what: str) -> Binding:
        """What the prompt reads."""
        return bind_fields(
            self.prompt.names,
            namespace,
            what=what,
            whole_row=self.prompt.whole_row,
            condition=None,
            overrides={},
        )

    def requirements(self) -> str | None:
        """What is missing before it can ask: an address or a key."""
        try:
            self.model.endpoint()
        except ValueError as exc:
            return str(exc)
        return None

    def opened(self, session: Session) -> Callable[..., Any]:
        """The call for one run: takes a condition (always true), the row and the fields."""
        session.connect(self.model)

        async def asked(condition: Any, row: Any, /, **values: Any) -> str:
            call = current_call()
            answer = await session.ask(
                WHO,
                self.model,
                self.rendered(condition, row, **values),
                text_in,
                repetition=call.repetition,
                occurrence=call.occurrence,
            )
            return str(answer.value)

        return asked

    def rendered(self, _: Any, row: Any, /, **values: Any) -> dict[str, Any]:
        """The body of the request about one row.

        Raises:
            CallError: The prompt cannot be rendered.
        """
        from evalframe.llm.prompts import FieldError, NullFieldError

        try:
            messages = self.prompt.render({**row, **values} if row is not None else values)
        except (NullFieldError, FieldError) as exc:
            raise CallError(schema.TEMPLATE, str(exc)) from None
        return {"messages": messages, **self.inference_args}

    def __reduce__(self) -> Any:
        """Pickle by its arguments: templates are compiled code."""
        return _made_again, (*self._arguments,)

    def __repr__(self) -> str:
        """Its model."""
        return f"ChatTask({self.model.name!r})"


def _made_again(args: tuple[Any, ...], options: dict[str, Any]) -> ChatTask:
    return ChatTask(*args, **options)


def text_in(reply: ChatReply) -> str:
    """What the model said.

    Raises:
        InvalidReplyError: Nothing, or not all of it.
    """
    check_whole(reply)
    if reply.text is None:
        raise InvalidReplyError(schema.PARSE, "the reply is empty", None, ask_again=False)
    return reply.text
