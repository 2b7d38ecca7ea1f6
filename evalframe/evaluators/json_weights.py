"""What the keys of JSON objects weigh in a comparison.

read_weights   the user's dict, checked -> Weights
row_weights    the same from a row's value, in which null means not given
Weights        own weight of each key, weights below it, and which keys no object had so far
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalframe.evaluators.normalize import describe

NESTED = ("sum", "one")

DEFAULT = 1.0


class WeightsError(ValueError):
    """Weights that cannot be used; becomes a failed cell where they are a row's."""


@dataclass(slots=True)
class Weights:
    """The weights of one level of objects.

    Attributes:
        path: Where the level is, as `user.address`; empty for the outermost.
        own: Key -> its weight among its neighbours; others weigh 1.0.
        inner: Key -> the weights of what is below it.
        unseen: The keys that no object seen so far has.
    """

    path: str = ""
    own: dict[str, float] = field(default_factory=dict)
    inner: dict[str, Weights] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)

    def see(self, value: Any) -> None:
        """Note the keys of a value that is compared with nothing."""
        if not self.own:
            return
        if isinstance(value, dict):
            self.unseen.difference_update(value)
            for key, below in self.inner.items():
                if key in value:
                    below.see(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.see(item)

    def paths(self, *, unseen: bool) -> Iterator[str]:
        """The paths of the keys that have a weight.

        Args:
            unseen: Those that no object had, or those that some object had.
        """
        for key in self.own:
            if (key in self.unseen) == unseen:
                yield joined(self.path, key)
        for below in self.inner.values():
            yield from below.paths(unseen=unseen)


# Of everything that no weights were given for; it has no keys, so nothing ever changes it.
UNWEIGHTED = Weights()


def joined(path: str, key: str) -> str:
    """The path of a key: `user.name`; in brackets where a dot would be taken for a level."""
    if not key or "." in key or "[" in key:
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def read_weights(given: Any, *, nested: str) -> Weights:
    """The weights that a user gave, checked.

    Args:
        given: Key -> number in [0, 1], or a dict of such for what is below that key.
        nested: "sum": a key with a dict weighs as much as the keys in that dict together.
            "one": it weighs 1.0. An entry `__<key>` in the dict says otherwise in either case.

    Raises:
        WeightsError: They are no such dict, or all of one level are 0.
    """
    try:
        return _level(given, "", nested)
    except RecursionError:
        message = "The weights are nested too deeply to be read."
        raise WeightsError(message) from None


def row_weights(given: Any, *, nested: str) -> Weights:
    """The weights of a row: a dict, its JSON text, or null for none.

    Null inside is not given either: columns of Arrow structs have every key on every row.

    Raises:
        WeightsError: As `read_weights`, or the text is not JSON.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as exc:
            message = f"The weights are not JSON: {exc}"
            raise WeightsError(message) from None
    return UNWEIGHTED if given is None else read_weights(_without_nulls(given), nested=nested)


def _without_nulls(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {key: _without_nulls(weight) for key, weight in given.items() if weight is not None}


def _level(given: Any, path: str, nested: str) -> Weights:
    if not isinstance(given, Mapping):
        message = (
            "weights must be a dict of key -> weight, such as {'name': 1.0, 'age': 0.5}, not "
            f"{describe(given)}."
        )
        raise WeightsError(message)
    weights = Weights(path)
    for key, weight in given.items():
        if not isinstance(key, str):
            where = f" below {path!r}" if path else ""
            message = f"The weights{where} have the key {describe(key)}; keys must be text."
            raise WeightsError(message)
        where = joined(path, key)
        if isinstance(weight, Mapping):
            weights.own[key], weights.inner[key] = _below(weight, key, where, nested)
        else:
            weights.own[key] = _number(weight, where)
    if weights.own and not any(weights.own.values()):
        where = f" below {path!r}" if path else ""
        message = (
            f"All weights{where} are 0, so that nothing is sure to count. To leave out a key, "
            "name one that counts as well: {'id': 0, 'name': 1.0}."
        )
        raise WeightsError(message)
    weights.unseen.update(weights.own)
    return weights


def _below(given: Mapping[str, Any], key: str, path: str, nested: str) -> tuple[float, Weights]:
    """What a key with a dict of weights weighs itself, and that dict's weights."""
    loopback = f"__{key}"
    rest = {name: weight for name, weight in given.items() if name != loopback}
    weights = _level(rest, path, nested)
    if loopback in given:
        return _number(given[loopback], joined(path, loopback)), weights
    return (sum(weights.own.values()) if nested == "sum" and rest else DEFAULT), weights


def _number(weight: Any, path: str) -> float:
    # bool first: isinstance(True, int) holds. NaN is in no range.
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not number or not 0 <= weight <= 1:
        message = f"The weight of {path!r} is {describe(weight)}; it must be a number in [0, 1]."
        raise WeightsError(message)
    return float(weight)
