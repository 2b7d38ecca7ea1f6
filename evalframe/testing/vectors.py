"""Replies to requests for embeddings: the vectors that a script gives its texts.

Source: https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalframe.testing.replies import LETTERS_PER_TOKEN, Reply
from evalframe.testing.request import Request


def embeddings(
    vectors: Mapping[str, Sequence[float]] | Callable[[str], Sequence[float]],
    *,
    as_numbers: bool = False,
    usage: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Callable[[Request], Reply]:
    """A script that answers /v1/embeddings with given vectors.

    Args:
        vectors: Text -> its vector; or a function from a text to its vector.
        as_numbers: Send numbers also where base64 is asked for, as many local servers do.
        usage: As the API spells it; `prompt_tokens` is a token for every four letters if missing.
        headers: Response headers.
        delay: Seconds before it is sent.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe import testing
        >>> with testing.ChatServer(testing.embeddings({"a": [3, 4], "b": [6, 8]})) as server:
        ...     model = ef.Model("local/m", base_url=server.base_url)
        ...     similar = ef.SemanticSimilarity(model)
        ...     rows = [{"output": "a", "dataset_output": "b"}]
        ...     scored = ef.run_experiment(rows, evaluators=[similar])
        >>> scored["eval.semantic_similarity.score"][0], server.requests[0].texts
        (1.0, ['a', 'b'])
    """
    vector_of = vectors if callable(vectors) else vectors.__getitem__

    def script(request: Request) -> Reply:
        packed = request.body.get("encoding_format") == "base64" and not as_numbers
        data = []
        for index, text in enumerate(request.texts):
            numbers = [float(number) for number in vector_of(text)]
            shown = _packed(numbers) if packed else numbers
            data.append({"object": "embedding", "index": index, "embedding": shown})
        tokens = 1 + sum(map(len, request.texts)) // LETTERS_PER_TOKEN
        counted = {"prompt_tokens": tokens, **(usage or {})}
        counted = {"total_tokens": counted["prompt_tokens"], **counted}
        body = {"object": "list", "data": data, "model": request.model, "usage": counted}
        return Reply(body=body, headers=headers or {}, delay=delay)

    return script


def _packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
