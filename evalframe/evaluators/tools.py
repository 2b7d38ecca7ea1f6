"""Were the right tools called?"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns
from evalframe.core.errors import listed
from evalframe.core.records import Cell
from evalframe.evaluators.alike import Alike
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import failed, is_list, is_text, values
from evalframe.evaluators.flags import check_flags
from evalframe.evaluators.json_compare import shown
from evalframe.evaluators.normalize import describe, text_of

MODES = ("exact", "ordered", "set")

NO_EXPECTED = "no expected tools"
NULL_CALLED = "tools_called is null"

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "kwargs")
_MOST_NAMED = 10
CALLED = "tools_called"

_encode = json.JSONEncoder(ensure_ascii=False).encode


class Call(NamedTuple):
    """One call of a tool.

    Attributes:
        name: The tool.
        arguments: What it is called with, by name; of a call that was made also what cannot be
            read as that, which is equal to nothing expected.
    """

    name: str
    arguments: Any


class ToolsError(ValueError):
    """A value that is no list of calls; becomes a failed cell."""


class ToolCalls(Evaluator):
    """Whether the tools in `tools_called` are those in `expected_tools`: score in [0, 1].

    - "exact": 1.0 with label "True" if both lists are equal, else 0.0 and "False".
    - "ordered": length of the longest common subsequence / number of expected calls.
    - "set": each expected call that was made, as often as it was made / number of expected
      calls. Order and further calls cost nothing.

    In every mode two empty lists score 1.0, and calls where none is expected 0.0. Null
    `expected_tools` are skipped; null `tools_called` score 0.0 (`[]` says that no tool was
    called). A value of another form fails.

    A call is a name, or a dict with the name under `name` or `tool_name` and the arguments under
    `arguments`, `args`, `parameters`, `input` or `kwargs`, also inside OpenAI's `{"function":
    {...}}`. A single one needs no list around it; text that begins with `[` or `{` is read as
    JSON.

    The explanation names missing, extra and (but for "set") out-of-order tools; the extras
    `missing`, `extra` and `out_of_order` are JSON lists of their names.

    Args:
        mode: "exact", "ordered" or "set".
        arguments: Whether calls must agree in their arguments, too: part by part, numbers by
            value, a bool is no number. JSON text of arguments is read; a call without any has
            none, as one with `{}`. A call that was made with what is no JSON object agrees with
            none; among those expected it fails the row.

    Raises:
        ValueError: `mode` is none of the three, or `arguments` is no bool.

    Examples:
        >>> import evalframe as ef
        >>> row = {"tools_called": ["open", "search"], "expected_tools": ["search", "open"]}
        >>> scored = ef.run_experiment([row], evaluators=[ef.ToolCalls("ordered")])
        >>> scored["eval.tool_calls.score"][0]
        0.5
        >>> scored["eval.tool_calls.explanation"][0]
        "out of order: 'search'"
    """

    vectorized: ClassVar[bool] = True
    reads_only: ClassVar[bool] = True
    extras: ClassVar[Mapping[str, Any]] = {
        "missing": "json",
        "extra": "json",
        "out_of_order": "json",
    }
    source: ClassVar[str] = (
        "[judgeval ExecutionOrder]"
        "(https://docs.judgmentlabs.ai/evaluation/scorers/agent/execution_order)"
    )

    def __init__(
        self,
        mode: str = "exact",
        *,
        arguments: bool = False,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        if mode not in MODES:
            message = f"mode must be one of {MODES}, not {mode!r}."
            raise ValueError(message)
        check_flags(arguments=arguments)
        self.mode = mode
        self.arguments = arguments
        self.name = name or ""
        self.threshold = threshold

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Both columns hold lists."""
        for name, kind in types.items():
            if kind is None or is_list(kind) or is_text(kind) or pa.types.is_struct(kind):
                continue
            return (
                f"it needs lists of tool names, but {name} is {kind}. Give another column with "
                f".bind({name}=...)."
            )
        return None

    def evaluate(self, tools_called: pd.Series, expected_tools: pd.Series) -> CellColumns:
        """The cells of whole columns."""
        further = self.result_fields(details=False)
        called, expected = values(tools_called), values(expected_tools)
        if not self.arguments and _are_names(called) and _are_names(expected):
            cells = Alike(lambda pair: self._cell(*pair))
            pairs = zip(_keys(called), _keys(expected), strict=True)
            return cells.columns([cells[pair] for pair in pairs], further)
        pairs = zip(called, expected, strict=True)
        return CellColumns.of([self._cell(*pair) for pair in pairs], further)

    def _cell(self, called: Any, expected: Any) -> Cell:
        if expected is None:
            return Cell(error=f"{schema.SKIPPED}: {NO_EXPECTED}")
        try:
            wanted = _calls(expected, "expected_tools", arguments=self.arguments)
            made = _calls(called, CALLED, arguments=self.arguments)
            wanted_keys, made_keys = wanted, made
            if self.arguments:
                wanted_keys, made_keys = list(map(_key, wanted)), list(map(_key, made))
        except ToolsError as exc:
            return failed(text_of(str(exc)))
        except RecursionError:
            return failed("tools_called or expected_tools are nested too deeply to be compared")
        if made_keys == wanted_keys and called is not None:
            return _EQUAL if self.mode == "exact" else _ALL
        places = _differences(made_keys, wanted_keys, ordered=self.mode != "set")
        if called is not None and not any(places):
            return _ALL
        found = {
            "missing": [wanted[place] for place in places.missing],
            "extra": [made[place] for place in places.extra],
            "out of order": [wanted[place] for place in places.swapped],
        }
        parts = [f"{what}: {self._told(calls)}" for what, calls in found.items() if calls]
        explanation = "; ".join([NULL_CALLED, *parts] if called is None else parts)
        return Cell(
            label="False" if self.mode == "exact" else None,
            score=self._part(places, len(wanted)),
            explanation=text_of(explanation) or None,
            extras=tuple(map(_names, found.values())),
        )

    def _part(self, places: _Places, expected: int) -> float:
        """The score of calls that are not those expected."""
        if self.mode == "exact" or not expected:
            return 0.0
        return (expected - len(places.missing) - len(places.swapped)) / expected

    def _told(self, calls: list[Any]) -> str:
        texts = [
            f"{shown(call.name)} with {shown(call.arguments)}" if self.arguments else shown(call)
            for call in calls[:_MOST_NAMED]
        ]
        more = len(calls) - len(texts)
        return ", ".join(texts) + (f" and {more} more" if more else "")


class _Places(NamedTuple):
    """Where calls differ: positions of expected calls, of made ones, and of expected ones."""

    missing: list[int]
    extra: list[int]
    swapped: list[int]


_ALL = Cell(score=1.0, extras=("[]", "[]", "[]"))
_EQUAL = _ALL._replace(label="True")


def _are_names(rows: list[Any]) -> bool:
    """Whether all rows are lists of texts or null."""
    if not set(map(type, rows)) <= {list, type(None)}:
        return False
    return set(map(type, chain.from_iterable(filter(None, rows)))) <= {str}


def _keys(rows: list[list[str] | None]) -> Iterator[tuple[str, ...] | None]:
    return (None if row is None else tuple(row) for row in rows)


def _names(calls: list[Any]) -> str:
    """JSON of the names."""
    if not calls:
        return "[]"
    names = [call.name if isinstance(call, Call) else call for call in calls]
    return text_of(f"[{', '.join(map(_encode, names))}]")


def _calls(value: Any, what: str, *, arguments: bool) -> list[Any]:
    """The calls of one row, as names where arguments are not compared; none for null.

    Raises:
        ToolsError: An item is neither a name nor a dict with one.
    """
    if value is None:
        return []
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = _parsed(value, what)
    items = value if isinstance(value, (list, tuple)) else [value]
    if not arguments and set(map(type, items)) <= {str} and "" not in items:
        return list(items)
    return [
        _call(item, f"item {place} of {what}", arguments=arguments)
        for place, item in enumerate(items, 1)
    ]


def _call(item: Any, what: str, *, arguments: bool) -> Call | str:
    if isinstance(item, str) and item:
        return Call(item, {}) if arguments else item
    given = item if isinstance(item, dict) else {}
    if isinstance(given.get("function"), dict):
        given = given["function"]
    name = _first(given, _NAMES)
    if not isinstance(name, str) or not name:
        message = (
            f"{what} is {describe(item)}; give a tool's name, or a dict with its name under "
            "'name' or 'tool_name'"
        )
        raise ToolsError(message)
    if not arguments:
        return name
    return Call(name, _arguments(given, what))


def _arguments(given: dict[str, Any], what: str) -> Any:
    """What a call was made with.

    Raises:
        ToolsError: It may stand under another key, or is expected and no dict.
    """
    found = _first(given, _ARGUMENTS)
    if found is None:
        # `{"name": "pay", "argumets": {...}}` would pass as a call without arguments.
        others = [key for key, value in given.items() if isinstance(value, dict)]
        if others:
            message = (
                f"{what} has {listed(others)}, but arguments stand under one of "
                f"{listed(_ARGUMENTS)}"
            )
            raise ToolsError(message)
        return {}
    made = what.endswith(CALLED)
    if isinstance(found, str):
        try:
            found = json.loads(found) if found.strip() else {}
        except ValueError as exc:
            if not made:
                message = f"the arguments of {what} cannot be read as JSON: {exc}"
                raise ToolsError(message) from None
    if not made and not isinstance(found, dict):
        message = f"the arguments of {what} are {describe(found)}, not a dict by name"
        raise ToolsError(message)
    return found


def _first(item: dict[str, Any], keys: Sequence[str]) -> Any:
    """The first value that is not null: columns of Arrow structs have every key on every row."""
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        message = f"{what} cannot be read as JSON: {exc}"
        raise ToolsError(message) from None


def _key(call: Call) -> Hashable:
    """What equal calls have in common, and no others."""
    return call.name if call.arguments == {} else (call.name, _canonical(call.arguments))


def _canonical(value: Any) -> Hashable:
    """A hashable stand-in that is equal where the values are, part by part."""
    # True == 1 in Python, but a bool is no number.
    if isinstance(value, bool):
        return (bool, value)
    # Not math.isnan: it raises for a Decimal that signals.
    if isinstance(value, Decimal) and value.is_nan():
        return (Decimal, "nan")
    if isinstance(value, float) and math.isnan(value):
        return (float, "nan")
    if isinstance(value, dict):
        return (dict, frozenset((key, _canonical(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (list, *map(_canonical, value))
    # mypy: what is left of plain values is hashable.
    return value  # type: ignore[no-any-return]


def _differences(made: list[Hashable], wanted: list[Hashable], *, ordered: bool) -> _Places:
    """Where the calls differ.

    Args:
        made: The keys of the calls that were made.
        wanted: The keys of those expected.
        ordered: Whether calls out of order differ.
    """
    kept_made, kept_wanted = _in_order(made, wanted) if ordered else (set[int](), set[int]())
    # Not a Counter, which takes longer to make than a usual row to count.
    spare: dict[Hashable, int] = {}
    for place, key in enumerate(made):
        if place not in kept_made:
            spare[key] = spare.get(key, 0) + 1
    missing, swapped, extra = [], [], []
    for place, key in enumerate(wanted):
        if place in kept_wanted:
            continue
        if spare.get(key):
            spare[key] -= 1
            swapped.append(place)
        else:
            missing.append(place)
    for place, key in enumerate(made):
        if place not in kept_made and spare[key]:
            spare[key] -= 1
            extra.append(place)
    return _Places(missing, extra, swapped if ordered else [])


def _in_order(made: list[Hashable], wanted: list[Hashable]) -> tuple[set[int], set[int]]:
    """The positions of a longest common subsequence, in both lists.

    Bit-parallel (Hyyrö 2004, "Bit-parallel LCS-length computation revisited"): bit j of a state
    is 0 where the common length grows at position j of `wanted`.
    """
    masks: dict[Hashable, int] = {}
    for place, key in enumerate(wanted):
        masks[key] = masks.get(key, 0) | 1 << place
    full = (1 << len(wanted)) - 1
    states = [full]
    for key in made:
        state = states[-1]
        shared = state & masks.get(key, 0)
        states.append(((state + shared) | (state - shared)) & full)
    kept_made, kept_wanted = set(), set()
    i, j = len(made), len(wanted)
    while i and j:
        if made[i - 1] == wanted[j - 1]:
            i, j = i - 1, j - 1
            kept_made.add(i)
            kept_wanted.add(j)
        elif _length(states[i - 1], j) >= _length(states[i], j - 1):
            i -= 1
        else:
            j -= 1
    return kept_made, kept_wanted


def _length(state: int, width: int) -> int:
    """How many of the lowest `width` bits are 0."""
    return width - (state & ((1 << width) - 1)).bit_count()
