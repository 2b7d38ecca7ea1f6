"""What goes to a model and what comes back.

ModelRequest  what the layers of the stack know of any request
Reply         what they know of any reply
ChatRequest   the body of a chat completion, and what makes it this request and no other
ChatReply     the parts of a completion that matter
ChatError     why there is none; its kind is that of the failed cell
ChatClient    one method; every layer of the stack is one and has one inside
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

from evalframe.core.call_info import Occurrence
from evalframe.core.records import CallError
from evalframe.llm.model import Endpoint

# Rough, and only for before the server has counted. In English it is a token for four letters;
# in bytes it also does for scripts whose letters take three, and are tokens of their own.
_BYTES_PER_TOKEN = 4

# Kept: json.dumps makes one for each call that asks for Unicode as it is.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def guessed_tokens(*texts: str) -> int:
    """About how many tokens some texts take."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // _BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; None where it did not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered.

    Attributes:
        usage: Tokens.
        model: The model that answered, by the server's word.
        hold: Seconds for which the server will take no further request, if it said so.
    """

    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    hold: float | None = None

    def cleaned(self, clean: Callable[[str], str]) -> Self:
        """The reply with `clean` of every text in it that a server may have made up."""
        return replace(self, model=None if self.model is None else clean(self.model))


AnyReply = TypeVar("AnyReply", bound=Reply)
_Given_co = TypeVar("_Given_co", bound=Reply, covariant=True)


class ModelRequest(Protocol[_Given_co]):
    """A request to a model, and how its answer is read."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it goes."""
        ...

    @property
    def path(self) -> str:
        """What is added to the endpoint's address."""
        ...

    @property
    def body(self) -> Mapping[str, Any]:
        """The request body, without the model's name."""
        ...

    @property
    def prompt_tokens(self) -> int:
        """A guess at the tokens of what is sent."""
        ...

    @property
    def tokens(self) -> int:
        """A guess at the tokens it takes, for limits per minute."""
        ...

    @property
    def expected(self) -> str:
        """What the answer has to be, for messages."""
        ...

    def read(self, content: bytes) -> _Given_co:
        """The reply in the body of a response.

        Raises:
            ValueError: It is not what was expected.
        """
        ...


@dataclass(frozen=True)
class ChatRequest:
    """One question to a model.

    Attributes:
        endpoint: Where it goes.
        body: The request body, without the model's name.
        repetition: Which repetition of its row; each is a question of its own.
        occurrence: The row that it is about, where each row is to be answered apart.
    """

    endpoint: Endpoint
    body: Mapping[str, Any]
    repetition: int = 1
    occurrence: Occurrence | None = None

    @property
    def path(self) -> str:
        """What is added to the endpoint's address."""
        return "/chat/completions"

    @property
    def expected(self) -> str:
        """What the answer has to be, for messages."""
        return "chat completion"

    def read(self, content: bytes) -> ChatReply:
        """The completion in the body of a response.

        Raises:
            ValueError: It is none.
        """
        from evalframe.llm.completion import reply_of  # which is made of what is here

        return reply_of(content, self.body)

    @cached_property
    def key(self) -> str:
        """Hash of everything that can change the answer; timeouts, limits and keys cannot."""
        # Only the outermost fields in any order: properties of a schema are answered in theirs.
        parts = [self.endpoint.base_url, self.endpoint.model, dict(sorted(self.body.items()))]
        text = json.dumps([*parts, self.repetition, *(self.occurrence or (1,))])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def prompt_tokens(self) -> int:
        """A guess at the tokens of what is sent."""
        return guessed_tokens(json.dumps(self.body.get("messages", []), ensure_ascii=False))

    @property
    def tokens(self) -> int:
        """A guess at prompt and completion tokens, for limits per minute."""
        limit = self.body.get("max_completion_tokens") or self.body.get("max_tokens") or 0
        return self.prompt_tokens + (limit if isinstance(limit, int) else 0)

    def longer(self) -> ChatRequest | None:
        """The request with twice the room for the answer; None if it sets no limit."""
        limits = {name: self.body.get(name) for name in ("max_completion_tokens", "max_tokens")}
        doubled = {name: n * 2 for name, n in limits.items() if isinstance(n, int)}
        if not doubled:
            return None
        body = {**self.body, **doubled}
        return ChatRequest(self.endpoint, body, self.repetition, self.occurrence)


@dataclass(frozen=True, slots=True)
class ChatReply(Reply):
    """A completion.

    Attributes:
        text: Its content, or the arguments of the tool call that was asked for.
        refusal: What the model said instead of answering.
        finish_reason: As the server gave it: "stop", "length", "content_filter", ...
        logprobs: One entry per token of the answer, if asked for and given.
    """

    text: str | None
    refusal: str | None = None
    finish_reason: str | None = None
    logprobs: list[dict[str, Any]] | None = None

    def cleaned(self, clean: Callable[[str], str]) -> Self:
        """The reply with `clean` of what the model said, and of what it is called."""
        said = (self.text, self.refusal, self.model)
        text, refusal, model = (part if part is None else clean(part) for part in said)
        return replace(self, text=text, refusal=refusal, model=model)

    def to_json(self) -> str:
        """JSON text that `from_json` reads."""
        # Not `asdict`, which copies whatever is in them.
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        usage = {name: getattr(self.usage, name) for name in self.usage.__dataclass_fields__}
        return _ENCODER.encode({**own, "hold": None, "usage": usage})

    @classmethod
    def from_json(cls, text: str) -> ChatReply:
        """The reply again.

        Raises:
            ValueError: The text is not one of `to_json`.
        """
        try:
            raw = json.loads(text)
            reply = cls(**{**raw, "usage": Usage(**raw["usage"])})
        except (TypeError, KeyError, RecursionError) as exc:
            message = f"not a stored reply: {exc}"
            raise ValueError(message) from None
        texts = (reply.text, reply.refusal, reply.finish_reason, reply.model)
        if not all(part is None or isinstance(part, str) for part in texts):
            message = "not a stored reply: a part of it is no text"
            raise ValueError(message)
        return reply


class ChatError(CallError):
    """There is no reply.

    Attributes:
        kind: Kind of the failed cell: `rate_limit`, `quota`, `auth`, `bad_request`,
            `server_error`, `connection`, `timeout`.
        retry_after: Seconds that the server asked to wait.
        retryable: Whether asking again can help.
        status: HTTP status of what the server answered, if it did.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        """Keep kind and advice."""
        super().__init__(kind, message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class ChatClient(Protocol):
    """Gets requests answered."""

    async def complete(self, request: ModelRequest[AnyReply]) -> AnyReply:
        """The reply.

        Raises:
            ChatError: There is none.
        """
        ...
