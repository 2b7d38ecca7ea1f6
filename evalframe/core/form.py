"""What stands for one Python object in a fingerprint.

Described   base of objects that say themselves what of them counts
Form        texts, and parts that have forms of their own
unread      the form of an object of which only the type is known
stored      the attributes of an object, without calling anything of it
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

Part = tuple[str, Any]
# What is said of a list that a function appends to, or a dict that it keeps results in.
CHANGES = "that the code changes"


class Described:
    """Base of objects that say themselves what of them counts in a fingerprint.

    Attributes:
        _beside: Attributes of a class which say nothing of what it does.
    """

    _beside: ClassVar[frozenset[str]] = frozenset()

    def _described(self) -> Mapping[str, Any]:
        """Name -> what counts."""
        raise NotImplementedError  # evaluators and tasks each have their own


class Form(NamedTuple):
    """What stands for one object.

    Attributes:
        texts: What is known at this level.
        parts: Labels and objects inside it. A label that begins with "." goes on from that of
            the whole, and an empty one is the same.
        once: Whether it is one thing wherever it is met, and may lead back to itself.
        unordered: Whether the order of its parts says nothing.
        unread: What of it cannot be read, None if all can.
    """

    texts: Sequence[str]
    parts: Sequence[Part] = ()
    once: bool = False
    unordered: bool = False
    unread: str | None = None


def unread(value: Any, why: str = "") -> Form:
    """What stands for an object of which only the type is known."""
    name = type(value).__qualname__
    return Form(["unread", name], unread=f"{name}{why}")


def stored(value: Any) -> dict[str, Any]:
    """The attributes of an object as they are stored; no property is called."""
    found: dict[str, Any] = {}
    for base in reversed(type(value).__mro__):
        names = type.__dict__["__dict__"].__get__(base)
        for name, member in names.items():
            is_slot = type(member) is types.MemberDescriptorType
            if not is_slot and (name, type(member)) != ("__dict__", types.GetSetDescriptorType):
                continue
            try:
                held = member.__get__(value)
            except AttributeError:  # a slot that is not set
                continue
            found.update(held if name == "__dict__" else {name: held})
    return found


class Unknown(str):
    """Stands for what is not read: the name of its type, and why."""

    __slots__ = ()
