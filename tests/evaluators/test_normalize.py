"""The border between what users return and what a cell is."""

import asyncio
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.core import schema
from evalframe.core.records import Cell, EvaluationResult, Skip, skip
from evalframe.evaluators.normalize import Rules, describe, normalize

RULES = Rules()


def failed(cell, kind="invalid_result"):
    """Whether a cell is nothing but a failure of that kind."""
    return cell == Cell(error=cell.error) and schema.error_kind(cell.error) == kind


class Unprintable:
    """An object whose repr fails."""

    def __repr__(self):
        message = "no repr"
        raise RuntimeError(message)


@pytest.mark.parametrize(
    ("returned", "label", "score"),
    [
        pytest.param(True, "True", 1.0, id="true"),
        pytest.param(False, "False", 0.0, id="false"),
        pytest.param(np.True_, "True", 1.0, id="numpy-true"),
        pytest.param(np.False_, "False", 0.0, id="numpy-false"),
        pytest.param(pd.Series([True], dtype="boolean")[0], "True", 1.0, id="pandas-true"),
        pytest.param(pd.Series([False], dtype="bool[pyarrow]")[0], "False", 0.0, id="arrow-false"),
    ],
)
def test_a_bool_is_a_label_and_a_score(returned, label, score):
    """It is tested before numbers: True is an int, and would lose its label."""
    assert normalize(returned, RULES) == Cell(label, score)


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        pytest.param(0, 0.0, id="int-zero"),
        pytest.param(1, 1.0, id="int"),
        pytest.param(0.0, 0.0, id="float-zero"),
        pytest.param(0.7, 0.7, id="float"),
        pytest.param(np.float64(0.25), 0.25, id="numpy-float64"),
        pytest.param(np.float32(0.25), 0.25, id="numpy-float32"),
        pytest.param(np.float16(0.25), 0.25, id="numpy-float16"),
        pytest.param(np.longdouble("0.25"), 0.25, id="numpy-longdouble"),
        pytest.param(np.int64(1), 1.0, id="numpy-int"),
        pytest.param(np.uint8(1), 1.0, id="numpy-uint"),
        pytest.param(Decimal("0.25"), 0.25, id="decimal"),
    ],
)
def test_a_number_is_a_score_and_no_label(returned, score):
    """A plain Python float, whatever it was."""
    cell = normalize(returned, RULES)

    assert cell == Cell(score=score)
    assert type(cell.score) is float


@pytest.mark.parametrize("returned", ["good", "", "True", "0.5", "nan", np.str_("good")])
def test_a_text_is_a_label_and_no_score(returned):
    """Never read as a number or a bool; the empty text is a text."""
    cell = normalize(returned, RULES)

    assert cell == Cell(label=returned)
    assert type(cell.label) is str


@pytest.mark.parametrize(
    ("returned", "cell"),
    [
        pytest.param((0.7, "why"), Cell(None, 0.7, "why"), id="number-text"),
        pytest.param((0.7, None), Cell(None, 0.7), id="number-none"),
        pytest.param((1, "why"), Cell(None, 1.0, "why"), id="int-text"),
        pytest.param((Decimal(1), "why"), Cell(None, 1.0, "why"), id="decimal-text"),
        pytest.param((True, "why"), Cell("True", 1.0, "why"), id="bool-text"),
        pytest.param((np.False_, None), Cell("False", 0.0), id="numpy-bool-none"),
        pytest.param(("good", "why"), Cell("good", None, "why"), id="text-text"),
        pytest.param(("good", None), Cell("good"), id="text-none"),
        pytest.param(("good", 0.7), Cell("good", 0.7), id="text-number"),
        pytest.param(("good", True), Cell("good", 1.0), id="text-bool"),
        pytest.param((None, 0.7), Cell(None, 0.7), id="none-number"),
        pytest.param((None, False), Cell("False", 0.0), id="none-bool"),
        pytest.param(("good", 0.7, "why"), Cell("good", 0.7, "why"), id="text-number-text"),
        pytest.param(("good", 0.7, None), Cell("good", 0.7), id="text-number-none"),
        pytest.param(("good", True, "why"), Cell("good", 1.0, "why"), id="text-bool-text"),
        pytest.param((None, 0.7, "why"), Cell(None, 0.7, "why"), id="none-number-text"),
        pytest.param((None, True, "why"), Cell("True", 1.0, "why"), id="none-bool-text"),
        pytest.param((None, 0.7, None), Cell(None, 0.7), id="none-number-none"),
        pytest.param((0.7, "good", "why"), Cell("good", 0.7, "why"), id="number-text-text"),
        pytest.param((0.7, "good", None), Cell("good", 0.7), id="number-text-none"),
        pytest.param((0.7, None, "why"), Cell(None, 0.7, "why"), id="number-none-text"),
        pytest.param((0.7, None, None), Cell(None, 0.7), id="number-none-none"),
        pytest.param((False, "bad", "why"), Cell("bad", 0.0, "why"), id="bool-text-text"),
        pytest.param((False, None, "why"), Cell("False", 0.0, "why"), id="bool-none-text"),
        pytest.param(("good", None, "why"), Cell("good", None, "why"), id="text-none-text"),
        pytest.param(("good", None, None), Cell("good"), id="text-none-none"),
        pytest.param(("good", pd.NA, pd.NA), Cell("good"), id="na-is-none"),
        pytest.param(("", 0), Cell("", 0.0), id="falsy-label-and-score"),
        pytest.param((0.0, ""), Cell(None, 0.0, ""), id="falsy-score-and-explanation"),
    ],
)
def test_a_tuple_is_read_by_the_types_of_its_parts(returned, cell):
    """Every row of the table; label, score and explanation are never swapped."""
    assert normalize(returned, RULES) == cell


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param((), id="empty"),
        pytest.param((0.5,), id="one"),
        pytest.param((0.5, "a", "b", "c"), id="four"),
        pytest.param((0.5, 0.5), id="two-numbers"),
        pytest.param(("a", "b", "c"), id="three-texts"),
        pytest.param(("a", "why", 0.5), id="score-last"),
        pytest.param((0.5, 0.5, "why"), id="number-number-text"),
        pytest.param((None, None), id="two-nones"),
        pytest.param((None, None, None), id="three-nones"),
        pytest.param((0.5, ["a"]), id="list-inside"),
        pytest.param((0.5, {"a": 1}), id="dict-inside"),
        pytest.param((math.nan, "why"), id="nan-score"),
        pytest.param(("good", math.nan), id="nan-score-second"),
        pytest.param((np.timedelta64(0, "s"), "why"), id="timedelta64-is-no-number"),
    ],
)
def test_any_other_tuple_is_a_failed_cell(returned):
    """Nothing is guessed from a form that is not in the table."""
    assert failed(normalize(returned, RULES))


def test_a_refused_tuple_is_told_the_accepted_forms():
    """With what was returned."""
    assert normalize((0.5, 0.5), RULES).error == (
        "invalid_result: returned the tuple (0.5, 0.5) (tuple); accepted are (score, "
        "explanation), (label, explanation), (label, score), (label, score, explanation) and "
        "(score, label, explanation)"
    )


@pytest.mark.parametrize(
    ("returned", "cell"),
    [
        pytest.param({"score": 0.7}, Cell(None, 0.7), id="score"),
        pytest.param({"label": "good"}, Cell("good"), id="label"),
        pytest.param({"score": True}, Cell("True", 1.0), id="bool-score-sets-the-label"),
        pytest.param({"score": True, "label": "ok"}, Cell("ok", 1.0), id="bool-keeps-a-label"),
        pytest.param({"score": False, "label": ""}, Cell("", 0.0), id="bool-keeps-an-empty-label"),
        pytest.param(
            {"explanation": "why", "label": "good", "score": 1, "metadata": {"a": [1]}},
            Cell("good", 1.0, "why", '{"a": [1]}'),
            id="all-in-any-order",
        ),
        pytest.param(
            {"score": 0, "label": None, "explanation": pd.NA}, Cell(None, 0.0), id="nulls"
        ),
    ],
)
def test_a_dict_is_read_by_its_keys(returned, cell):
    """And an EvaluationResult by its fields: both are the same verdict."""
    assert normalize(returned, RULES) == cell
    assert normalize(EvaluationResult(**returned), RULES) == cell


def test_metadata_is_kept_as_json_text():
    """Numbers keep their type, text its letters, NumPy becomes Python."""
    cell = normalize({"score": 1, "metadata": {"a": np.int8(1), "b": (1.0, "é"), "c": None}}, RULES)

    assert cell.metadata == '{"a": 1, "b": {"$tuple": [1.0, "é"]}, "c": null}'


def test_no_metadata_is_null_and_empty_metadata_is_an_empty_dict():
    """What was given is there; what was not is not."""
    assert normalize({"score": 1}, RULES).metadata is None
    assert normalize(EvaluationResult(score=1), RULES).metadata is None
    assert normalize({"score": 1, "metadata": {}}, RULES).metadata == "{}"


EXTRAS = {"precision": float, "hits": int, "fine": bool, "note": str, "spans": "json"}


@pytest.mark.parametrize(
    ("given_extras", "kept"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"precision": 0.5}, (0.5, None, None, None, None), id="one"),
        pytest.param(
            {"spans": [1, {"a": None}], "note": "x", "fine": True, "hits": 3, "precision": 2},
            (2.0, 3, True, "x", '[1, {"a": null}]'),
            id="all-in-any-order",
        ),
        pytest.param(
            {"precision": np.float32(0.5), "hits": np.int8(3), "fine": np.False_},
            (0.5, 3, False, None, None),
            id="numpy",
        ),
        pytest.param({"precision": None, "hits": pd.NA}, (None,) * 5, id="nulls"),
        pytest.param({"precision": -7.5}, (-7.5, None, None, None, None), id="outside-the-range"),
    ],
)
def test_declared_extras_are_kept_with_their_types(given_extras, kept):
    """From a dict's keys or from `extras=`; the score range is not theirs."""
    rules = Rules(extras=EXTRAS)

    assert normalize({"score": 1, **given_extras}, rules).extras == kept
    assert normalize(EvaluationResult(score=1, extras=given_extras), rules).extras == kept


@pytest.mark.parametrize(
    "given_extras",
    [
        pytest.param({"hits": 3.0}, id="float-for-int"),
        pytest.param({"hits": True}, id="bool-for-int"),
        pytest.param({"hits": 2**63}, id="int-beyond-64-bits"),
        pytest.param({"hits": np.timedelta64(3, "s")}, id="timedelta64-for-int"),
        pytest.param({"precision": "0.5"}, id="text-for-float"),
        pytest.param({"precision": True}, id="bool-for-float"),
        pytest.param({"precision": 10**400}, id="int-beyond-doubles"),
        pytest.param({"precision": Decimal("sNaN")}, id="signalling-decimal"),
        pytest.param({"fine": 1}, id="int-for-bool"),
        pytest.param({"note": 1}, id="int-for-text"),
        pytest.param({"spans": {1, 2}}, id="set-for-json"),
        pytest.param({"recall": 0.5}, id="undeclared"),
    ],
)
def test_undeclared_and_mistyped_extras_are_failed_cells(given_extras):
    """The type of a column is what was declared; nothing is converted."""
    rules = Rules(extras=EXTRAS)

    assert failed(normalize({"score": 1, **given_extras}, rules))
    assert failed(normalize(EvaluationResult(score=1, extras=given_extras), rules))


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        pytest.param(None, "skipped: returned None", id="none"),
        pytest.param(pd.NA, "skipped: returned None", id="na"),
        pytest.param((None, "no contexts"), "skipped: no contexts", id="none-text"),
        pytest.param((None, None, "no contexts"), "skipped: no contexts", id="none-none-text"),
        pytest.param((pd.NA, "no contexts"), "skipped: no contexts", id="na-text"),
        pytest.param(skip("no contexts"), "skipped: no contexts", id="skip"),
    ],
)
def test_no_verdict_is_a_skipped_cell_with_its_reason(returned, error):
    """Neither a score of 0 nor a failure."""
    assert normalize(returned, RULES) == Cell(error=error)


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_a_skip_needs_a_reason(reason):
    """The reader of the table wants to know why."""
    with pytest.raises(TypeError, match=r"skip\(\) needs the reason as text"):
        skip(reason)


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param({}, id="empty-dict"),
        pytest.param({"explanation": "why"}, id="explanation-alone"),
        pytest.param({"label": None, "score": None}, id="two-nones"),
        pytest.param(EvaluationResult(), id="empty-result"),
        pytest.param(EvaluationResult(explanation="why"), id="explained-result"),
    ],
)
def test_one_of_label_or_score_must_be_there(returned):
    """A dict without either is a mistake, not a skip."""
    assert normalize(returned, RULES) == Cell(
        error="invalid_result: returned neither a label nor a score; one of them must be there"
    )


@pytest.mark.parametrize(
    "score", [math.nan, math.inf, -math.inf, np.float64("nan"), Decimal("NaN"), Decimal("sNaN")]
)
@pytest.mark.parametrize("form", [lambda x: x, lambda x: (x, "why"), lambda x: {"score": x}])
def test_a_score_that_is_not_finite_is_a_failed_cell(score, form):
    """Never a value, never a null in silence."""
    cell = normalize(form(score), RULES)

    assert failed(cell)
    assert cell.error.endswith("it must be a finite number")


@pytest.mark.parametrize("score", [-0.1, 1.1, 97, -1, 1 + 2e-9, -2e-9, 10**30])
@pytest.mark.parametrize("form", [lambda x: x, lambda x: ("label", x), lambda x: {"score": x}])
def test_a_score_out_of_range_is_a_failed_cell(score, form):
    """Never clipped; its label is not kept either."""
    assert failed(normalize(form(score), RULES), "range")


def test_a_score_out_of_range_says_so_and_names_the_ways_out():
    """Rescale, or declare the range."""
    assert normalize(97, RULES).error == (
        "range: returned the score 97.0, outside [0, 1]; rescale it or declare score_range="
    )


@pytest.mark.parametrize(
    ("returned", "score"), [(1 + 1e-10, 1.0), (-1e-10, 0.0), (1 + 9e-10, 1.0), (0.5, 0.5)]
)
def test_a_score_within_rounding_of_a_bound_is_the_bound(returned, score):
    """Sums of floats end a little above 1."""
    assert normalize(returned, RULES) == Cell(score=score)


@pytest.mark.parametrize(
    ("returned", "cell"),
    [
        pytest.param(1, Cell(score=1.0), id="low"),
        pytest.param(5, Cell(score=5.0), id="high"),
        pytest.param(3.5, Cell(score=3.5), id="inside"),
        pytest.param(True, Cell("True", 1.0), id="bool-in-it"),
    ],
)
def test_a_declared_range_replaces_zero_to_one(returned, cell):
    """Both bounds are legal."""
    assert normalize(returned, Rules(low=1, high=5)) == cell


@pytest.mark.parametrize("returned", [0, 6, False], ids=["below", "above", "bool-below"])
def test_outside_a_declared_range_is_a_failed_cell(returned):
    """0 is no legal answer on a scale from 1 to 5."""
    cell = normalize(returned, Rules(low=1, high=5))

    assert failed(cell, "range")
    assert "outside [1, 5]" in cell.error


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param([0.5, "why"], id="list"),
        pytest.param({0.5}, id="set"),
        pytest.param(b"good", id="bytes"),
        pytest.param(1j, id="complex"),
        pytest.param(object(), id="object"),
        pytest.param(pd.NaT, id="nat"),
        pytest.param(np.timedelta64(0, "s"), id="timedelta64"),
        pytest.param(np.datetime64("2024-05-01"), id="datetime64"),
        pytest.param(pd.Series([0.5]), id="series"),
        pytest.param(np.array([0.5]), id="array"),
        pytest.param(len, id="function"),
        pytest.param({"score": "0.5"}, id="text-score"),
        pytest.param({"score": np.timedelta64(0, "s")}, id="timedelta64-score"),
        pytest.param({"score": [0.5]}, id="list-score"),
        pytest.param({"label": 3}, id="number-label"),
        pytest.param({"label": True}, id="bool-label"),
        pytest.param({"score": 1, "explanation": 3}, id="number-explanation"),
        pytest.param({"score": 1, "explanation": ["a"]}, id="list-explanation"),
        pytest.param({"score": 1, "metadata": "text"}, id="text-metadata"),
        pytest.param({"score": 1, "metadata": [1]}, id="list-metadata"),
        pytest.param({"score": 1, "metadata": {"a": object()}}, id="metadata-without-json-form"),
        pytest.param({"score": 1, "metadata": {1: "a"}}, id="metadata-key-that-is-no-text"),
        pytest.param({"score": 1, "Label": "good"}, id="unknown-key"),
        pytest.param({"score": 1, 0: "good"}, id="number-key"),
        pytest.param({0: 1.0, 1: 0.5}, id="number-keys"),
        pytest.param({Unprintable(): 1}, id="unprintable-key"),
        pytest.param(Unprintable(), id="unprintable"),
        pytest.param(EvaluationResult(score=1, extras=5), id="extras-no-dict"),
        pytest.param(EvaluationResult(score=1, metadata=5), id="metadata-no-dict"),
        pytest.param(EvaluationResult(label=5), id="result-number-label"),
    ],
)
def test_anything_else_is_a_failed_cell(returned):
    """Never coerced, never an exception."""
    assert failed(normalize(returned, RULES))


def test_a_failed_cell_says_what_was_returned():
    """Value and type."""
    assert normalize([0.5, "why"], RULES).error == (
        "invalid_result: returned [0.5, 'why'] (list); return a bool, a number, text, a tuple, a "
        "dict, an EvaluationResult, None or ef.skip('why') (a tuple, not a list, holds label, "
        "score and explanation)"
    )


def test_unknown_keys_are_named_with_the_accepted_ones():
    """And where a further one is declared."""
    error = normalize({"scor": 1, "label": "x"}, Rules(extras={"hits": int})).error

    assert error == (
        "invalid_result: returned a dict with 'scor'; its keys may be label, score, explanation, "
        "metadata and declared extras (hits): @ef.evaluator(extras={...})"
    )


def test_an_awaitable_is_told_how_to_be_awaited():
    """It is closed, so that Python does not warn of it later."""

    async def verdict():
        return True

    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()

    for returned in (verdict(), future):
        assert normalize(returned, RULES).error == (
            "invalid_result: returned an awaitable from a plain function; define it with "
            "'async def'"
        )


def test_a_generator_is_told_to_be_a_verdict():
    """A function that yields was called by another one."""
    assert normalize((x for x in [1]), RULES).error == (
        "invalid_result: returned a generator; return the verdict itself"
    )


@pytest.mark.parametrize(
    ("returned", "cell"),
    [
        pytest.param(0, Cell(score=0.0), id="int-zero"),
        pytest.param(0.0, Cell(score=0.0), id="float-zero"),
        pytest.param(False, Cell("False", 0.0), id="false"),
        pytest.param("", Cell(label=""), id="empty-text"),
        pytest.param(None, Cell(error="skipped: returned None"), id="none"),
        pytest.param(("bad", 0), Cell("bad", 0.0), id="bad-and-zero"),
    ],
)
def test_h58_falsy_verdicts_are_verdicts(returned, cell):
    """Only None is none."""
    assert normalize(returned, RULES) == cell


def test_lone_surrogates_in_text_are_replaced():
    """A cell can always be written to a file."""
    cell = normalize(("a\ud800", 1, "b\ud800"), RULES)

    assert cell == Cell("a\ufffd", 1.0, "b\ufffd")
    assert normalize({"score": 1, "metadata": {"k\ud800": "\ud800"}}, RULES).metadata == (
        '{"k\ufffd": "\ufffd"}'
    )
    assert normalize(skip("no \ud800"), RULES).error == "skipped: no \ufffd"


def test_a_cell_that_is_settled_stays_as_it_is():
    """A call that raised has its cell already."""
    cell = Cell(error="exception: KeyError: 'x'")

    assert normalize(cell, RULES) is cell


def test_descriptions_hold_no_memory_address_and_are_short():
    """The same mistake on many rows is the same message."""
    assert describe(object()) == "<object object> (object)"
    assert describe(Unprintable()) in {
        "a value whose repr fails (Unprintable)",
        "<Unprintable instance> (Unprintable)",
    }
    assert len(describe("x" * 10_000)) < 200
    assert len(describe(list(range(10_000)))) < 200


def test_an_error_cell_is_never_longer_than_2000_characters():
    """Whatever was returned."""
    returned = {f"{i} {'k' * 200}": 1 for i in range(100)}

    assert len(normalize(returned, RULES).error) == 2_000


NUMBERS = st.one_of(
    st.floats(), st.integers(), st.booleans(), st.decimals(), st.floats().map(np.float64)
)
PARTS = st.one_of(st.none(), NUMBERS, st.text(max_size=4), st.just(pd.NA))
ODD = st.one_of(
    st.builds(Unprintable),
    st.sampled_from(
        [object(), pd.NaT, b"x", 1j, [1], {1}, np.timedelta64(1, "s"), len, "\ud800", {}]
    ),
)
KEYS = st.one_of(
    st.sampled_from(["label", "score", "explanation", "metadata", "hits", "spans"]),
    st.text(max_size=3),
    st.integers(),
)
VALUES = st.recursive(
    st.one_of(PARTS, ODD),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(
            EvaluationResult,
            score=inner,
            label=inner,
            explanation=inner,
            metadata=inner,
            extras=inner,
        ),
        st.builds(Skip, st.text(min_size=1, max_size=4)),
    ),
    max_leaves=6,
)
RANGES = st.sampled_from([(0.0, 1.0), (1, 5), (-1.0, 1.0), (0, math.inf)])


@given(VALUES, RANGES)
def test_normalize_never_raises_and_gives_a_valid_a_failed_or_a_skipped_cell(value, bounds):
    """Exactly one of the three, for anything a function may return."""
    low, high = bounds
    rules = Rules(low=low, high=high, extras={"hits": int, "spans": "json"})

    cell = normalize(value, rules)

    valid = (
        cell.error is None
        and (cell.label is not None or cell.score is not None)
        and (cell.label is None or type(cell.label) is str)
        and (cell.score is None or (type(cell.score) is float and low <= cell.score <= high))
        and (cell.explanation is None or type(cell.explanation) is str)
        and (cell.metadata is None or isinstance(json.loads(cell.metadata), dict))
        and len(cell.extras) in (0, 2)
    )
    lost = cell == Cell(error=cell.error) and cell.error is not None
    assert valid != lost
    assert valid or schema.error_kind(cell.error) in {"skipped", "invalid_result", "range"}


@given(st.floats(0, 1), st.text(max_size=4), st.text(max_size=4))
def test_all_forms_of_one_verdict_are_the_same_cell(score, label, explanation):
    """Tuples, dicts and results differ in spelling only."""
    forms = [
        (label, score, explanation),
        (score, label, explanation),
        {"explanation": explanation, "score": score, "label": label},
        EvaluationResult(score=score, label=label, explanation=explanation),
    ]

    assert {normalize(form, RULES) for form in forms} == {Cell(label, score, explanation)}


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan")])
def test_a_float_extra_is_a_finite_number(value):
    """NaN and infinity are no numbers in a column of their own either."""
    cell = normalize({"score": 1, "share": value}, Rules(extras={"share": float}))

    assert cell.error.startswith("invalid_result: returned the extra 'share' as ")
