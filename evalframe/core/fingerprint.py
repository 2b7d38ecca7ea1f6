"""Fingerprints: short texts that are equal only where the same is computed.

Owns   following what a function reaches, and the digests of it and of values.
Leaves what counts of each object to code_forms.py and value_forms.py, sources to source.py.

Equal in every process, on every machine and in every place the code is kept; no digest depends
on hash seeds, identities or paths. A function without source (typed at a prompt, given by `-c`)
stands there by its byte code, which is that of one Python version. What cannot be read stands
there by its type, and is listed.

Fingerprint   digest, and what could not be read
of_function   of what is called: code, and all of the user's that it reaches
of_values     of plain Python values
of_cell       of code and the values it is called with
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from evalframe.core.code_forms import form_of
from evalframe.core.form import Form, unread
from evalframe.core.json_text import encode

_BYTES = 16
# Values of code nested deeper are no constants that somebody wrote.
_DEEPEST = 100


class Fingerprint(NamedTuple):
    """What stands for code.

    Attributes:
        digest: 32 hexadecimal digits.
        unread: What entered by its type only, each "name: type".
    """

    digest: str
    unread: tuple[str, ...] = ()


def of_function(function: Any) -> Fingerprint:
    """The fingerprint of a function, or of whatever else is called or does something.

    It changes with the function's source, defaults and closure, and with the functions, classes
    and constants of the user's own that it reaches by its names; with what is called in a
    partial, a method's object, a decorator's function. It does not change with comments,
    docstrings, formatting, the place of the file, or with installed packages. A value that the
    user's own functions change (a counter, a cache) is no constant: it enters by its type.

    Args:
        function: Anything.

    Examples:
        >>> from evalframe.core.fingerprint import of_function
        >>> len(of_function(len).digest)
        32
    """
    walk = _Walk()
    walk.follow(type(function).__name__, function)
    return Fingerprint(walk.digest(), tuple(walk.unread))


def of_values(values: Sequence[Any]) -> str:
    """The digest of plain values; equal only for equal values of equal types in the same order.

    Args:
        values: Each as `nested.plain` gives it, or a dict of such by the labels of columns.

    Returns:
        32 hexadecimal digits.

    Raises:
        TypeError: A value is not plain.

    Examples:
        >>> from evalframe.core.fingerprint import of_values
        >>> of_values([1]) == of_values([1.0])
        False
    """
    return _digest(encode(_with_text_keys(values)))


def of_cell(code: str, values: Sequence[Any]) -> str:
    """The fingerprint of one cell.

    Args:
        code: The digest of its evaluator.
        values: What that reads of the row, in the order of its reads; as for `of_values`.

    Returns:
        32 hexadecimal digits.

    Raises:
        TypeError: A value is not plain.
    """
    return _digest(f"{code} {encode(_with_text_keys(values))}")


def _with_text_keys(values: Sequence[Any]) -> list[Any]:
    """The values; columns of a row may have labels that are no text, such as 0."""
    return [
        {repr(label): item for label, item in value.items()}
        if type(value) is dict and not all(type(label) is str for label in value)
        else value
        for value in values
    ]


def _digest(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_BYTES).hexdigest()


class _Left(NamedTuple):
    """Marks the place where a walk has come out of an object again."""

    identity: int


class _Walk:
    """Follows an object through all of its parts, each object that has its own identity once.

    Attributes:
        unread: What could not be read, "name: type".
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.unread: dict[str, None] = {}
        self._hash = hashlib.blake2b(digest_size=_BYTES)
        # The objects are kept: an identity is used again when an object is gone.
        self._seen: dict[int, tuple[int, Any]] = {}
        self._waiting: deque[tuple[str, Form]] = deque()

    def digest(self) -> str:
        """Of all that was followed so far."""
        return self._hash.hexdigest()

    def follow(self, label: str, value: Any) -> None:
        """Take an object and all that it reaches."""
        self._take([(label, value, 0)])
        while self._waiting:
            label, form = self._waiting.popleft()
            self._take(self._opened(label, form, 0))

    def _take(self, stack: list[tuple[str, Any, int]]) -> None:
        # Containers that are being walked through; kept alive, as above.
        around: dict[int, Any] = {}
        while stack:
            label, value, depth = stack.pop()
            if type(value) is _Left:
                del around[value.identity]
            elif id(value) in self._seen:
                self._put("again", str(self._seen[id(value)][0]))
            elif id(value) in around:
                self._put("inside itself")
            else:
                form = form_of(value) if depth < _DEEPEST else unread(value, ", nested too deep")
                if form.once:
                    self._seen[id(value)] = (len(self._seen), value)
                    self._put("later")
                    self._waiting.append((label, form))
                    continue
                around[id(value)] = value
                stack.append(("", _Left(id(value)), 0))
                stack += self._opened(label, form, depth)

    def _opened(self, label: str, form: Form, depth: int) -> list[tuple[str, Any, int]]:
        """Write one level; what is inside comes back, the last part first."""
        if form.unread is not None:
            self.unread.setdefault(f"{label}: {form.unread}")
        self._put(*form.texts, str(len(form.parts)), *(name for name, _ in form.parts))
        if form.unordered:
            self._put(*sorted(self._apart(label, value) for _, value in form.parts))
            return []
        return [(_label(label, name), value, depth + 1) for name, value in reversed([*form.parts])]

    def _apart(self, label: str, value: Any) -> str:
        """The digest of an object for itself: in a set, none comes before another."""
        walk = _Walk()
        walk.follow(label, value)
        self.unread |= walk.unread
        return walk.digest()

    def _put(self, *texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:%b" % (len(data), data))


def _label(whole: str, name: str) -> str:
    if not name:
        return whole
    return f"{whole}{name}" if name.startswith(".") else name
