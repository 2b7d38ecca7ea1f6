"""How much of one JSON value is in another.

Owns   the recursion over objects and lists, the likeness of single values, what differs where.
Leaves reading JSON text, nulls and cells to json_diff.py, checks of weights to json_weights.py.

Place               where a value is, and what it weighs
Comparer            compares values, one pair after another
number_likeness     1 - |a - b| / (|a| + |b|) of any two numbers
"""

from __future__ import annotations

import decimal
import json
import math
import reprlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from evalframe.evaluators.json_weights import UNWEIGHTED, Weights, joined

MOST_KEYS = 100
MOST_DIFFERENCES = 10

_MOST_PLACES = 10_000
_LONGEST_PATH = 120
_LONGEST_VALUE = 60


class _Absent:
    """What stands on the side that lacks a key or an element; equals nothing else."""


ABSENT: Final = _Absent()

# Values of these types that are equal, and of one type, are the same JSON value.
_LEAVES = frozenset({str, int, float, bool, type(None)})
_NUMBERS = (int, float, Decimal)
_LISTS = (list, tuple)

# No traps: what cannot be told comes out as NaN. The widest exponents: nothing is too large.
_EXACT = decimal.Context(prec=40, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])

_json = json.JSONEncoder(ensure_ascii=False).encode

_short = reprlib.Repr()
_short.maxlevel = 2
_short.maxdict = _short.maxlist = _short.maxtuple = 3
_short.maxstring = _short.maxother = _short.maxlong = 40


def same_text(found: str, wanted: str) -> float:
    """How alike two texts are, where only equal ones are alike."""
    return float(found == wanted)


class Place(dict[str | int, "Place"]):
    """Where a value is, and what it weighs: made once, met again on the other rows.

    It holds the places below it, by key or by position in a list, made when they are asked for.

    Attributes:
        path: As `user.name`; empty for the whole value.
        where: The path for an explanation, as `$.user.name`, cut if it is long.
        own: What it weighs among its neighbours.
        weights: The weights below it.
        title: Its path as the beginning of a JSON member.
        full: That member with the score 1.0.
        root: The place of the whole value.
        made: How many places were made below it, if it is the root.
        used: Whether a score was made with it, if it is the root.
    """

    __slots__ = ("full", "made", "own", "path", "root", "title", "used", "weights", "where")

    def __init__(
        self, weights: Weights, path: str = "", own: float = 1.0, root: Place | None = None
    ) -> None:
        """Remember where it is; without a root it is one."""
        self.path = path
        self.own = own
        self.weights = weights
        short = path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}..."
        self.where = f"$.{short}" if short and short[0] != "[" else f"${short}"
        self.title = f"{_json(path)}: "
        self.full = f"{self.title}1.0"
        self.root = self if root is None else root
        self.made = 0
        self.used = False

    def __missing__(self, key: str | int) -> Place:
        """Make the place below."""
        weights = self.weights
        if isinstance(key, int):
            place = Place(weights, f"{self.path}[{key}]", root=self.root)
        else:
            # An object has this key, so its weight is of use.
            weights.unseen.discard(key)
            below = weights.inner.get(key, UNWEIGHTED)
            own = weights.own.get(key, 1.0)
            place = Place(below, joined(self.path, key), own, self.root)
        self.root.made += 1
        self[key] = place
        return place


class Comparer:
    """Compares an output with a reference, one pair after another.

    After each pair `by_key` and `explanation` tell of it.
    """

    def __init__(
        self, *, similarity: Callable[[str, str], float], relative: bool, penalise: bool
    ) -> None:
        """Remember how to compare.

        Args:
            similarity: How alike two texts are, in [0, 1].
            relative: Whether numbers that differ can be alike.
            penalise: Whether elements that only one list has count.
        """
        self.similarity = similarity
        self.relative = relative
        self.penalise = penalise
        self._levels: list[list[str]] = []
        self._differences: list[tuple[Place, Any, Any, float]] = []
        self._more = 0

    def score(self, output: Any, reference: Any, place: Place) -> float | None:
        """The score of one pair in [0, 1]; None if everything in it has the weight 0.

        Args:
            output: The output.
            reference: What it is compared with.
            place: The place of the whole value, with its weights.

        Raises:
            RecursionError: The values are nested too deeply.
        """
        self._levels = []
        self._differences = []
        self._more = 0
        # Keys are the user's data, and need not be few.
        if place.made > _MOST_PLACES:
            place.clear()
            place.made = 0
        return self._value(output, reference, place, 0)

    @property
    def by_key(self) -> str | None:
        """JSON: path -> score of each key of each object, the outermost first, at most 100."""
        if not self._levels:
            return None
        members = self._levels[0]
        for level in self._levels[1:]:
            members = members + level
        return f"{{{', '.join(members[:MOST_KEYS])}}}"

    @property
    def explanation(self) -> str | None:
        """What differs, by path; None if nothing does."""
        if not self._differences:
            return None
        text = "; ".join([_told(*difference) for difference in self._differences])
        return f"{text}; and {self._more} more" if self._more else text

    def _value(self, found: Any, wanted: Any, place: Place, depth: int) -> float | None:
        if isinstance(found, dict) and isinstance(wanted, dict):
            return self._objects(found, wanted, place, depth)
        if isinstance(found, _LISTS) and isinstance(wanted, _LISTS):
            return self._lists(found, wanted, place, depth)
        if place.weights.own:
            place.weights.see(found)
            place.weights.see(wanted)
        if isinstance(found, str) and isinstance(wanted, str):
            score = self.similarity(found, wanted)
        else:
            score = 0.0 if found is ABSENT else self._likeness(found, wanted)
        if score < 1:
            self._differ(place, found, wanted, score)
        return score

    def _objects(
        self, found: dict[str, Any], wanted: dict[str, Any], place: Place, depth: int
    ) -> float | None:
        if depth == len(self._levels):
            self._levels.append([])
        members = self._levels[depth]
        total = weight = 0.0
        for key, part in wanted.items():
            here = place[key]
            other = found.get(key, ABSENT)
            kind = type(part)
            if kind in _LEAVES and kind is type(other) and part == other:
                members.append(here.full)
                total += here.own
                weight += here.own
                continue
            score = self._value(other, part, here, depth + 1)
            if score is None:
                members.append(f"{here.title}null")
            else:
                members.append(f"{here.title}{score!r}")
                total += here.own * score
                weight += here.own
        if not found.keys() <= wanted.keys():
            weight += self._extra(found, wanted, place, members)
        if weight:
            return total / weight
        return None if wanted or found else 1.0

    def _extra(
        self, found: dict[str, Any], wanted: dict[str, Any], place: Place, members: list[str]
    ) -> float:
        """The weight of the keys that only the output has: all of it is lost."""
        weight = 0.0
        for key, part in found.items():
            if key in wanted:
                continue
            here = place[key]
            here.weights.see(part)
            members.append(f"{here.title}0.0")
            weight += here.own
            self._differ(here, part, ABSENT, 0.0)
        return weight

    def _lists(
        self, found: Sequence[Any], wanted: Sequence[Any], place: Place, depth: int
    ) -> float | None:
        if not found and not wanted:
            return 1.0
        total, count = 0.0, 0
        for position, (other, part) in enumerate(zip(found, wanted, strict=False)):
            kind = type(part)
            if kind in _LEAVES and kind is type(other) and part == other:
                score: float | None = 1.0
            else:
                score = self._value(other, part, place[position], depth)
            if score is not None:
                total += score
                count += 1
        if self.penalise or not (found and wanted):
            count += self._unpaired(found, wanted, place)
        return total / count if count else None

    def _unpaired(self, found: Sequence[Any], wanted: Sequence[Any], place: Place) -> int:
        """The number of elements that only one of the lists has."""
        both = min(len(found), len(wanted))
        for position in range(both, len(found)):
            place.weights.see(found[position])
            self._differ(place, found[position], ABSENT, 0.0, position)
        for position in range(both, len(wanted)):
            place.weights.see(wanted[position])
            self._differ(place, ABSENT, wanted[position], 0.0, position)
        return max(len(found), len(wanted)) - both

    def _likeness(self, found: Any, wanted: Any) -> float:
        # True == 1 in Python, but a bool is no number.
        if isinstance(found, bool) or isinstance(wanted, bool):
            return float(found is wanted)
        if isinstance(found, _NUMBERS) and isinstance(wanted, _NUMBERS):
            return number_likeness(found, wanted) if self.relative else float(_same(found, wanted))
        return float(type(found) is type(wanted) and found == wanted)

    def _differ(
        self, place: Place, found: Any, wanted: Any, score: float, item: int | None = None
    ) -> None:
        if len(self._differences) < MOST_DIFFERENCES:
            here = place if item is None else place[item]
            self._differences.append((here, found, wanted, score))
        else:
            self._more += 1


def number_likeness(a: float | Decimal, b: float | Decimal) -> float:
    """1 - |a - b| / (|a| + |b|), in [0, 1]; 1.0 for equal numbers, 0 and 0 among them.

    NaN is as NaN and as nothing else; an infinity as itself and as nothing else.
    """
    if _same(a, b):
        return 1.0
    try:
        # mypy: a float with a Decimal raises TypeError, which is dealt with below.
        gap: Any = abs(a - b)  # type: ignore[operator]
        room: Any = abs(a) + abs(b)  # type: ignore[operator]
        score = float(1 - gap / room)
        if 0 <= score <= 1 and room < math.inf:
            return score
    except (TypeError, ArithmeticError):
        pass  # of two types, or beyond floats
    return _exact_likeness(a, b)


def _same(a: float | Decimal, b: float | Decimal) -> bool:
    if isinstance(a, Decimal) and a.is_nan():  # a signaling one raises when it is compared
        return isinstance(b, Decimal) and b.is_nan()
    if isinstance(b, Decimal) and b.is_nan():
        return False
    # Only NaN differs from itself.
    return a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)  # noqa: PLR0124


def _exact_likeness(a: float | Decimal, b: float | Decimal) -> float:
    """The same for numbers of two types, and for those whose sum no float holds."""
    x, y = Decimal(a), Decimal(b)
    if not (x.is_finite() and y.is_finite()):
        return 0.0
    gap = _EXACT.subtract(x, y).copy_abs()
    room = _EXACT.add(x.copy_abs(), y.copy_abs())
    score = _EXACT.subtract(Decimal(1), _EXACT.divide(gap, room))
    return min(1.0, max(0.0, float(score)))


def _told(place: Place, found: Any, wanted: Any, score: float) -> str:
    if found is ABSENT:
        return f"{place.where}: missing"
    if wanted is ABSENT:
        return f"{place.where}: not expected"
    likeness = f" ({score:.4g})" if score else ""
    return f"{place.where}: {shown(found)} is not {shown(wanted)}{likeness}"


def shown(value: Any) -> str:
    """The value for an explanation, cut to some sixty characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}...")
    if value is None or isinstance(value, float):
        return repr(value)
    try:
        text = _short.repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
