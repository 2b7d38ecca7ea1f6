"""A request for embeddings, and the vectors in what comes back.

Source: https://platform.openai.com/docs/api-reference/embeddings

Vectors are asked for as base64, as the openai client does: it is a quarter of the JSON numbers'
size and quicker to read. Servers that do not know it send numbers, which are read as well.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalframe.core.nested import without_surrogates
from evalframe.llm.chat import Reply, Usage, guessed_tokens
from evalframe.llm.completion import count_of
from evalframe.llm.model import Endpoint

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingReply(Reply):
    """Vectors.

    Attributes:
        vectors: Shape (texts, dimensions), in the order of the texts; not all numbers need be
            finite.
    """

    vectors: Floats


@dataclass(frozen=True)
class EmbeddingRequest:
    """Texts to embed.

    Attributes:
        endpoint: Where it goes.
        texts: The texts, none of them blank.
        dimensions: How many numbers a vector is to have; None: as the model has.
    """

    endpoint: Endpoint
    texts: tuple[str, ...]
    dimensions: int | None = None

    @property
    def path(self) -> str:
        """What is added to the endpoint's address."""
        return "/embeddings"

    @property
    def expected(self) -> str:
        """What the answer has to be, for messages."""
        return f"list of {len(self.texts)} embeddings"

    @property
    def body(self) -> Mapping[str, Any]:
        """The request body, without the model's name."""
        size = {} if self.dimensions is None else {"dimensions": self.dimensions}
        return {"input": list(self.texts), "encoding_format": "base64", **size}

    @property
    def prompt_tokens(self) -> int:
        """A guess at the tokens of what is sent."""
        return guessed_tokens(*self.texts)

    @property
    def tokens(self) -> int:
        """A guess at the tokens it takes, for limits per minute: nothing else is made."""
        return self.prompt_tokens

    def read(self, content: bytes) -> EmbeddingReply:
        """The vectors in the body of a response.

        Raises:
            ValueError: It does not hold one vector for each text, all of one size.
        """
        try:
            raw = json.loads(content)
            found = {item["index"]: _vector(item["embedding"]) for item in raw["data"]}
            vectors = np.stack([found.pop(place) for place in range(len(self.texts))])
            usage, model = raw.get("usage"), raw.get("model")
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
            message = f"no embeddings: {type(exc).__name__}"
            raise ValueError(message) from None
        if found or vectors.shape[1] == 0:
            message = "more vectors than texts, or empty ones"
            raise ValueError(message)
        prompt = count_of(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
        said = str(without_surrogates(model)) if isinstance(model, str) else None
        usage = Usage(prompt, None if prompt is None else 0)
        return EmbeddingReply(vectors, usage=usage, model=said)


def _vector(given: Any) -> Floats:
    """One embedding as it was sent.

    Raises:
        ValueError: It is no vector.
        TypeError: It is neither text nor a list.
    """
    if isinstance(given, str):
        return np.frombuffer(base64.b64decode(given, validate=True), "<f4").astype(np.float64)
    if not isinstance(given, list) or any(isinstance(number, (bool, str)) for number in given):
        message = "an embedding is a list of numbers, or base64 text"
        raise TypeError(message)
    vector = np.array(given, dtype=np.float64)
    if vector.ndim != 1:
        message = f"an embedding has one dimension, not {vector.ndim}"
        raise ValueError(message)
    return vector
