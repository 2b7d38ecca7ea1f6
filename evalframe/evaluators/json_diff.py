"""How much of the reference's JSON is in the output?"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.core.cells import CellColumns, nulls
from evalframe.core.errors import MissingExtraError, listed
from evalframe.core.optional import optional
from evalframe.core.warn import warn
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import (
    NO_REFERENCE,
    is_text,
    text_against_other,
    unlike,
    values,
)
from evalframe.evaluators.json_compare import Comparer, Place, same_text, shown
from evalframe.evaluators.json_weights import (
    NESTED,
    UNWEIGHTED,
    WeightsError,
    read_weights,
    row_weights,
)
from evalframe.evaluators.normalize import text_of
from evalframe.llm.connect import Session

STRINGS = ("levenshtein", "exact")
NUMBERS = ("relative", "exact")
LISTS = ("penalise", "zip")

NOTHING_COUNTS = "no key has a weight above 0"

_PARTS = (dict, list, tuple)
_MOST_WEIGHTS = 1000


class JsonDiff(Evaluator):
    """How alike the JSON of `output` and `dataset_output` is: score in [0, 1].

    - Objects: the mean over all keys of either side, each with its weight; a key that one side
      lacks counts 0, and null is a value, not a lack. Two empty objects score 1.0.
    - Lists: the mean by position over the longer length. Two empty lists score 1.0.
    - Texts: 1 - Levenshtein distance / length of the longer one.
    - Numbers: 1 - |a - b| / (|a| + |b|), 1.0 if equal. NaN equals NaN; an infinity, itself.
    - All else, and values of two kinds: 1.0 if equal, else 0.0. A bool is no number.

    A text that is a JSON object or array is read as such: NaN and Infinity as numbers, of a key
    that comes twice the last value. Any other text is text, so two that are no JSON are compared
    as texts. One that should be an object or a list, because the reference is one, scores 0.0
    and the explanation says why. A null reference is skipped, a null output scores 0.0; text
    against a number, bool or time is a mistake in the data, and fails.

    The explanation names what differs by path, at most ten places. The extra `by_key` is JSON:
    path -> score of every key of every object (`user.name`, `items[0].price`), the outermost
    first, at most 100; keys of weight 0 are in both.

    Args:
        weights: Key -> weight in [0, 1], or a dict of such for the object, or each object of
            the list, below that key; a key that is not named weighs 1.0. Without, the column
            `weights` if there is one: a dict or its JSON text on each row, where null is none
            and a bad one fails that row. A weighted key that no row has is warned of after the
            run. An object in which only keys of weight 0 occur does not count; a row of that
            kind is skipped.
        strings: "levenshtein", which needs the extra `text`; "exact": texts that differ count 0.
        numbers: "relative"; "exact": numbers that differ count 0.
        lists: "penalise"; "zip": elements beyond the shorter length are left out, but nothing
            against something is still 0.
        nested_weight: What a key with a dict of weights weighs itself. "sum": the recursive sum
            of the given ones. "one": 1.0. An entry `__<key>` in the dict says it in either case.
            For `{"n": {"x": 0.25, "y": 0.25}}` with `n.y` wrong and one more key right, the
            score is 0.8333 by "sum" and 0.75 by "one".

    Raises:
        ValueError: A weight is no number in [0, 1], all those of one level are 0, a key is no
            text, or an option is none of its choices.

    Examples:
        >>> import evalframe as ef
        >>> row = {
        ...     "output": '{"name": "Anna", "age": 40}',
        ...     "dataset_output": {"name": "Ann", "age": 40},
        ... }
        >>> scored = ef.run_experiment([row], evaluators=[ef.JsonDiff(weights={"name": 0.5})])
        >>> round(scored["eval.json_diff.score"][0], 4)
        0.9167
        >>> scored["eval.json_diff.explanation"][0]
        "$.name: 'Anna' is not 'Ann' (0.75)"
        >>> scored["eval.json_diff.by_key"][0]
        '{"name": 0.75, "age": 1.0}'
    """

    vectorized: ClassVar[bool] = True
    gives: ClassVar[tuple[str, ...]] = (schema.SCORE, schema.EXPLANATION)
    extras: ClassVar[Mapping[str, Any]] = {"by_key": "json"}
    source: ClassVar[str] = (
        "[Lynxius JsonDiff](https://docs.lynxius.ai/evaluators/heuristic_evals/json_diff)"
    )
    extra_needed: ClassVar[str] = "text"

    def __init__(
        self,
        weights: Mapping[str, Any] | None = None,
        *,
        strings: str = "levenshtein",
        numbers: str = "relative",
        lists: str = "penalise",
        nested_weight: str = "sum",
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        options = {
            "strings": (strings, STRINGS),
            "numbers": (numbers, NUMBERS),
            "lists": (lists, LISTS),
            "nested_weight": (nested_weight, NESTED),
        }
        for option, (given, choices) in options.items():
            if given not in choices:
                message = f"{option} must be one of {choices}, not {given!r}."
                raise ValueError(message)
        if weights is not None:
            read_weights(weights, nested=nested_weight)
        self.weights = weights
        self.strings = strings
        self.numbers = numbers
        self.lists = lists
        self.nested_weight = nested_weight
        self.name = name or ""
        self.threshold = threshold

    @property
    def function(self) -> Callable[..., Any]:
        """With weights of its own it reads no column of them."""
        return self.evaluate if self.weights is None else self.by_own_weights

    def requirements(self) -> str | None:
        """The package for the likeness of texts, if it is asked for and missing."""
        try:
            self._similarity()
        except MissingExtraError as exc:
            return f"{exc} Or take JsonDiff(strings='exact')."
        return None

    def check_types(self, types: Mapping[str, pa.DataType | None]) -> str | None:
        """Text cannot be compared with numbers; weights are dicts."""
        kind = types.get("weights")
        if kind is not None and not (is_text(kind) or pa.types.is_nested(kind)):
            return (
                f"the column weights is {kind}, but holds a dict of key -> weight on each row. "
                "Give another one with .bind(weights=...), or JsonDiff(weights={}) for none."
            )
        return text_against_other(types.get("output"), types.get("dataset_output"))

    def evaluate(
        self, output: pd.Series, dataset_output: pd.Series, weights: pd.Series | None = None
    ) -> CellColumns:
        """The cells of whole columns, with the weights of each row."""
        return self._by_rows(warn, output, dataset_output, weights)

    def by_own_weights(self, output: pd.Series, dataset_output: pd.Series) -> CellColumns:
        """The cells of whole columns, all with the weights that it was made with."""
        return self._by_own(warn, output, dataset_output)

    def opened(self, session: Session, *, details: bool) -> Callable[..., Any]:
        """The same in a run, at whose end the user is told of weights for keys that no row has."""
        del details
        return functools.partial(
            self._by_rows if self.weights is None else self._by_own, session.note
        )

    def _by_rows(
        self,
        tell: Callable[[str], None],
        output: pd.Series,
        dataset_output: pd.Series,
        weights: pd.Series | None = None,
    ) -> CellColumns:
        if weights is None:
            return self._cells(output, dataset_output, itertools.repeat(Place(UNWEIGHTED)))
        rows = _RowWeights(self.nested_weight)
        cells = self._cells(output, dataset_output, rows.places(values(weights)))
        self._tell_of(tell, rows.unseen())
        return cells

    def _by_own(
        self, tell: Callable[[str], None], output: pd.Series, dataset_output: pd.Series
    ) -> CellColumns:
        place = Place(read_weights(self.weights, nested=self.nested_weight))
        cells = self._cells(output, dataset_output, itertools.repeat(place))
        if place.used:
            self._tell_of(tell, place.weights.paths(unseen=True))
        return cells

    def _tell_of(self, tell: Callable[[str], None], unseen: Iterable[str]) -> None:
        paths = sorted(unseen)
        if paths:
            tell(
                f"JsonDiff {self.name!r} has weights for keys that no row has: {listed(paths)}. "
                "Check their spelling: keys that are not named weigh 1.0."
            )

    def _similarity(self) -> Callable[[str, str], float]:
        if self.strings == "exact":
            return same_text
        rapidfuzz = optional("rapidfuzz", extra="text", needed_by="JsonDiff")
        similarity: Callable[[str, str], float]
        similarity = rapidfuzz.distance.Levenshtein.normalized_similarity
        return similarity

    def _cells(
        self, outputs: pd.Series, references: pd.Series, places: Iterable[Place | str]
    ) -> CellColumns:
        comparer = Comparer(
            similarity=self._similarity(),
            relative=self.numbers == "relative",
            penalise=self.lists == "penalise",
        )
        found, wanted = values(outputs), values(references)
        # By column: the collector would go through a hundred thousand rows again and again.
        scores: list[float | None] = []
        explanations: list[str | None] = []
        by_key: list[str | None] = []
        errors: list[str | None] = []
        for output, reference, place in zip(found, wanted, places, strict=False):
            row = _judged(comparer, output, reference, place)
            scores.append(row[0])
            explanations.append(row[1])
            by_key.append(row[2])
            errors.append(row[3])
        empty = nulls(len(found), schema.TEXT)
        return CellColumns(
            {
                schema.LABEL: empty,
                schema.SCORE: pa.array(scores, schema.NUMBER),
                schema.EXPLANATION: _texts(explanations),
                schema.METADATA: empty,
                schema.ERROR: _texts(errors),
                "by_key": _texts(by_key),
            }
        )


def _texts(column: list[str | None]) -> pa.Array:
    try:
        return pa.array(column, schema.TEXT)
    except UnicodeEncodeError:  # a lone surrogate, which JSON text can hold
        return pa.array([text and text_of(text) for text in column], schema.TEXT)


class _RowWeights:
    """The weights of rows: made once for all rows that have the same ones."""

    def __init__(self, nested: str) -> None:
        self._nested = nested
        self._known: dict[str, Place | str] = {}
        self._seen: set[str] = set()
        self._unseen: set[str] = set()

    def places(self, given: list[Any]) -> Iterator[Place | str]:
        """The place of each row's value with its weights, or what is wrong with these."""
        for value in given:
            try:
                # Not the value, of which True, 1 and 1.0 are equal.
                spelling = repr(value)
            except (ValueError, RecursionError):  # a huge integer, or nested too deeply
                yield self._made(value)
                continue
            place = self._known.get(spelling)
            if place is None:
                if len(self._known) >= _MOST_WEIGHTS:
                    self._forget()
                place = self._known[spelling] = self._made(value)
            yield place

    def unseen(self) -> set[str]:
        """The paths of the keys that have a weight on some row, and are on none."""
        self._forget()
        return self._unseen - self._seen

    def _made(self, value: Any) -> Place | str:
        try:
            return Place(row_weights(value, nested=self._nested))
        except WeightsError as exc:
            return str(exc)

    def _forget(self) -> None:
        for place in self._known.values():
            if isinstance(place, Place) and place.used:
                self._seen.update(place.weights.paths(unseen=False))
                self._unseen.update(place.weights.paths(unseen=True))
        self._known.clear()


# Score, explanation, scores by key, and error of one row.
_Row = tuple[float | None, str | None, str | None, str | None]


def _judged(comparer: Comparer, found: Any, wanted: Any, place: Place | str) -> _Row:
    """The cell of one row, whatever is in it."""
    if wanted is None:
        return None, None, None, f"{schema.SKIPPED}: {NO_REFERENCE}"
    if isinstance(place, str):
        return _failed(place)
    try:
        row = _compared(comparer, found, wanted, place)
    except RecursionError:
        return _failed("output and dataset_output are nested too deeply to be compared")
    if row[0] is not None:
        place.used = True
    return row


def _failed(message: str) -> _Row:
    return None, None, None, schema.error_text(schema.INVALID_RESULT, message)


def _compared(comparer: Comparer, output: Any, reference: Any, place: Place) -> _Row:
    """The cell of a row that has a reference.

    Raises:
        RecursionError: A value is nested too deeply.
    """
    try:
        found, broken = _read(output)
        wanted, broken_reference = _read(reference)
    except ValueError as exc:
        return _failed(f"a JSON text cannot be read: {exc}")
    if found is None:
        place.weights.see(wanted)
        return 0.0, "output is null", None, None
    if isinstance(found, str) != isinstance(wanted, str):
        if not isinstance(found, _PARTS) and not isinstance(wanted, _PARTS):
            return None, None, None, unlike(found, wanted).error
        if broken_reference:
            return _failed(f"dataset_output is not JSON: {broken_reference}")
        if isinstance(found, str):
            place.weights.see(wanted)
            problem = broken or f"{shown(found)} is no object or array"
            return 0.0, f"output is not JSON: {problem}", None, None
    score = comparer.score(found, wanted, place)
    if score is None:
        return None, None, None, f"{schema.SKIPPED}: {NOTHING_COUNTS}"
    return score, comparer.explanation, comparer.by_key, None


def _read(value: Any) -> tuple[Any, str]:
    """The object or array that a text stands for, or the value as it is and why it is none.

    Raises:
        RecursionError: It is nested too deeply.
        ValueError: A number in it has more digits than Python reads.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value, ""
    try:
        return json.loads(value), ""
    except json.JSONDecodeError as exc:
        return value, str(exc)
