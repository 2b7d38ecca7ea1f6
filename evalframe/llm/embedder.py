"""What makes vectors of texts: what a user gives, and what follows from it.

Embedder         what a user writes: a model, a function, or neither for the local model
VectorSource     what embeds a batch of texts, in one run
ServerVectors, CalledVectors, LocalVectors    the three kinds of it
source_of        Embedder -> VectorSource
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evalframe.core import schema
from evalframe.core.form import Described
from evalframe.core.records import CallError
from evalframe.llm.chat import AnyReply, ModelRequest
from evalframe.llm.embedding import EmbeddingRequest
from evalframe.llm.model import Endpoint, Model
from evalframe.llm.onnx_model import Spans, loaded, local_identity, local_problem

_SERVER_BATCH = 128
_LOCAL_BATCH = 32

EmbedTexts = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Embedder(Described):
    """What makes vectors of texts, with its options; wherever an `embedder` is taken.

    Without options its first argument will do: `ef.SemanticSimilarity("openai/...")`. Vectors
    may have any length: only their directions are compared. Vectors of a model are kept in the
    run's `cache=` file, those of a function for the length of the run.

    Args:
        model: "<provider>/<model>" or an `ef.Model`, behind /v1/embeddings; a function, sync or
            async, from a list of n texts to vectors of shape (n, dimensions); None: the small
            model all-MiniLM-L6-v2, in this process (extra `local`).
        batch_size: Most texts in one request or call; 128 if not given, 32 for the local model.
        dimensions: How many numbers a vector is to have, where the model can choose.

    Raises:
        TypeError: `model` is none of these.
        ValueError: An option is out of its domain.

    Examples:
        >>> import evalframe as ef
        >>> ef.Embedder("openai/text-embedding-3-small", dimensions=256)
        Embedder('openai/text-embedding-3-small', dimensions=256)
    """

    model: str | Model | EmbedTexts | None = None
    batch_size: int | None = None
    dimensions: int | None = None

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            TypeError: `model` cannot embed.
            ValueError: An option is out of its domain.
        """
        model = self.model
        if model is not None and not isinstance(model, (str, Model)) and not callable(model):
            message = (
                "embedder must be '<provider>/<model>', an ef.Model, a function from a list of "
                f"texts to vectors, or None for the local model, not {model!r}."
            )
            raise TypeError(message)
        if isinstance(model, str):
            Model(model)  # which says what is wrong with a name
        for name in ("batch_size", "dimensions"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                message = f"{name} must be a whole number of at least 1, not {value!r}."
                raise ValueError(message)
        if self.dimensions is not None and not isinstance(model, (str, Model)):
            message = "dimensions= is for models behind /v1/embeddings; others have what they have."
            raise ValueError(message)

    @property
    def served(self) -> Model | None:
        """The model behind an endpoint, if it is one."""
        return Model(self.model) if isinstance(self.model, str) else _model_or_none(self.model)

    def requirements(self) -> str | None:
        """What is missing in the environment before it can embed, or None."""
        if self.model is None:
            return local_problem()
        try:
            if self.served is not None:
                self.served.endpoint()
        except ValueError as exc:
            return str(exc)
        return None

    def _described(self) -> Mapping[str, Any]:
        local = local_identity() if self.model is None else None
        return {"embedder": local or self.served or self.model, "dimensions": self.dimensions}

    def __repr__(self) -> str:
        """What was given, without defaults."""
        given = [] if self.model is None else [repr(self.model)]
        for name in ("batch_size", "dimensions"):
            value = getattr(self, name)
            given += [] if value is None else [f"{name}={value!r}"]
        return f"Embedder({', '.join(given)})"


Embeds = str | Model | Embedder | EmbedTexts | None


def _model_or_none(given: Any) -> Model | None:
    return given if isinstance(given, Model) else None


def as_embedder(given: Embeds) -> Embedder:
    """An embedder from what a user gave, or as it is.

    Raises:
        TypeError: It is none.
        ValueError: As `Embedder`.
    """
    return given if isinstance(given, Embedder) else Embedder(given)


class Sends(Protocol):
    """Sends a request for somebody, through the stack of a run."""

    async def __call__(
        self, who: str, model: Model, make: Callable[[Endpoint], ModelRequest[AnyReply]]
    ) -> AnyReply:
        """The reply.

        Raises:
            ChatError: There is none.
        """
        ...


class VectorSource(Protocol):
    """What embeds a batch of texts.

    Attributes:
        identity: Text that is equal only where equal texts get equal vectors.
        lasting: Whether the identity holds beyond this run.
        batch_size: Most texts at once.
        at_once: Most batches at once.
        failure: Kind of the failed cell where a vector cannot be used.
    """

    identity: str
    lasting: bool
    batch_size: int
    at_once: int
    failure: str

    async def embed(self, who: str, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """One vector for each text.

        Raises:
            CallError: There are none.
        """
        ...


class ServerVectors:
    """Vectors of a model behind /v1/embeddings."""

    lasting = True
    failure = schema.SERVER_ERROR

    def __init__(self, embedder: Embedder, model: Model, send: Sends, concurrency: int) -> None:
        """Remember what to ask, and how."""
        endpoint = model.endpoint()
        self.identity = json.dumps([endpoint.base_url, endpoint.model, embedder.dimensions])
        self.batch_size = embedder.batch_size or _SERVER_BATCH
        self.at_once = concurrency
        self._model, self._dimensions, self._send = model, embedder.dimensions, send

    async def embed(self, who: str, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """One request.

        Raises:
            ChatError: There is no answer.
        """

        def request(endpoint: Endpoint) -> EmbeddingRequest:
            return EmbeddingRequest(endpoint, tuple(texts), self._dimensions)

        return (await self._send(who, self._model, request)).vectors


class CalledVectors:
    """Vectors of a user's function; a plain one runs in a thread, one call after the other."""

    lasting = False
    failure = schema.INVALID_RESULT

    def __init__(self, embedder: Embedder, function: EmbedTexts, concurrency: int) -> None:
        """Remember what to call."""
        self.identity = f"function {id(function)}"
        self.batch_size = embedder.batch_size or _SERVER_BATCH
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        )
        self.at_once = concurrency if self._async else 1
        self._function = function

    async def embed(self, who: str, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """One call.

        Raises:
            CallError: It gave something else than vectors.
            Exception: What the function raised.
        """
        del who
        given = list(texts)  # its own: a function may change it
        if self._async:
            found = await self._function(given)
        else:
            found = await asyncio.to_thread(self._function, given)
            found = await found if inspect.isawaitable(found) else found
        try:
            made = np.array(found)
        except (TypeError, ValueError, OverflowError) as exc:
            message = f"the embedder gave no array of numbers ({type(found).__name__}: {exc})"
            raise CallError(schema.INVALID_RESULT, message) from None
        if made.dtype.kind not in "fiub":
            message = f"the embedder gave an array of {made.dtype}; it must be of numbers"
            raise CallError(schema.INVALID_RESULT, message)
        if made.ndim != 2 or len(made) != len(texts) or not made.shape[1]:  # noqa: PLR2004 - texts and numbers
            message = (
                f"the embedder gave an array of shape {made.shape} for {len(texts)} texts; it must "
                f"be ({len(texts)}, dimensions)"
            )
            raise CallError(schema.INVALID_RESULT, message)
        return made


class LocalVectors:
    """Vectors of the local model, in a thread."""

    lasting = True
    failure = schema.INVALID_RESULT
    at_once = 1

    def __init__(self, embedder: Embedder) -> None:
        """Load the model."""
        self._model = loaded()
        self.identity = self._model.identity
        self.batch_size = embedder.batch_size or _LOCAL_BATCH

    async def embed(self, who: str, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """One batch."""
        del who
        return await asyncio.to_thread(self._model.embed, texts)

    async def words(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[Any]:
        """For each text, one vector for each of its words as it stands there."""
        return await asyncio.to_thread(self._model.words, texts, spans)


def source_of(embedder: Embedder, *, send: Sends, concurrency: int) -> VectorSource:
    """What embeds for one run.

    Args:
        embedder: What the user wrote.
        send: Sends requests for it.
        concurrency: Most calls in flight.

    Raises:
        ModelError: An address or a key is missing.
        MissingExtraError: It is the local model, which is not installed.
    """
    if embedder.served is not None:
        return ServerVectors(embedder, embedder.served, send, concurrency)
    if embedder.model is None:
        return LocalVectors(embedder)
    assert callable(embedder.model)  # noqa: S101 - what Embedder has seen to
    return CalledVectors(embedder, embedder.model, concurrency)
