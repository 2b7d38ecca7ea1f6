"""JsonDiff: how alike two JSON values are, held against a plain recursion of its own."""

import copy
import json
import math
import sys
import types
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.evaluators.json_compare import Comparer, Place, same_text
from evalframe.evaluators.json_weights import read_weights

NAN, INF = float("nan"), float("inf")
NO_REFERENCE = "skipped: no reference"


def objects(values):
    """A column of Python values, of which pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def cells(evaluator, outputs, references, *weights):
    """The result columns of a call, as lists."""
    columns = [objects(values) for values in (outputs, references, *weights)]
    found = evaluator.function(*columns).arrays
    return {name: array.to_pylist() for name, array in found.items()}


def cell(evaluator, output, reference, *weights):
    """The parts of one row's cell."""
    found = cells(evaluator, [output], [reference], *([weight] for weight in weights))
    return {name: column[0] for name, column in found.items()}


def score(output, reference, **options):
    """The score of one pair."""
    return cell(ef.JsonDiff(**options), output, reference)["score"]


def by_key(output, reference, **options):
    """The scores by path of one pair."""
    return json.loads(cell(ef.JsonDiff(**options), output, reference)["by_key"])


MENU = {
    "restaurant": "Da Mario",
    "margherita": 19,
    "city": "Genova",
    "menus": [
        {"menu_name": "small", "pizza": "margherita", "drink": "water", "price": 12},
        {"menu_name": "large", "pizza": "pepperoni", "drink": "beer", "price": 15},
    ],
}
READ_MENU = {**MENU, "margherita": 39, "menus": [MENU["menus"][0], {**MENU["menus"][1]}]}
READ_MENU["menus"][1]["pizza"] = "peppers"
MENU_WEIGHTS = {"menu_name": 0, "pizza": 0.3, "drink": 0.2, "price": 0.5}
WEIGHTS = {"restaurant": 1, "margherita": 1, "city": 0.25}


@pytest.mark.parametrize("nested_weight", ["sum", "one"])
@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param(None, 0.9034, id="none"),
        pytest.param({**WEIGHTS, "menus": MENU_WEIGHTS}, 0.8785, id="nested"),
        pytest.param({**WEIGHTS, "menus": {**MENU_WEIGHTS, "__menus": 0.5}}, 0.8655, id="loopback"),
    ],
)
def test_the_pizza_menu_has_the_published_scores(weights, expected, nested_weight):
    """19 against 39 and "pepperoni" against "peppers"; the nested weights happen to sum to 1."""
    found = score(READ_MENU, MENU, weights=weights, nested_weight=nested_weight)

    assert round(found, 4) == expected


@pytest.mark.parametrize(
    ("nested", "nested_weight", "expected"),
    [
        pytest.param({}, "sum", 0.8333, id="sum"),
        pytest.param({}, "one", 0.75, id="one"),
        pytest.param({"__n": 0.5}, "sum", 0.8333, id="loopback-in-sum"),
        pytest.param({"__n": 0.5}, "one", 0.8333, id="loopback-in-one"),
        pytest.param({"__n": 1.0}, "sum", 0.75, id="loopback-beats-the-sum"),
    ],
)
def test_a_dict_of_weights_weighs_its_parent(nested, nested_weight, expected):
    """By the sum of what is given, or 1.0, or what an entry `__<key>` says."""
    weights = {"n": {"x": 0.25, "y": 0.25, **nested}}
    output, reference = {"n": {"x": 1, "y": 0}, "z": 1}, {"n": {"x": 1, "y": 1}, "z": 1}

    assert round(score(output, reference, weights=weights, nested_weight=nested_weight), 4) == (
        expected
    )


def test_a_sum_is_recursive_and_counts_what_is_given_only():
    """Three levels: 0.25 + (0.25 + 0.5) = 1.0; the unnamed key "u" weighs 1.0 inside."""
    weights = {"a": {"x": 0.25, "b": {"p": 0.25, "q": 0.5}}, "z": 0.5}
    reference = {"a": {"x": 1, "u": 1, "b": {"p": 1, "q": 1}}, "z": 1}
    output = {"a": {"x": 1, "u": 1, "b": {"p": 1, "q": 0}}, "z": 0}

    inner = 0.25 / 0.75
    middle = (0.25 + 1 + 0.75 * inner) / 2
    assert score(output, reference, weights=weights) == pytest.approx(middle / 1.5)


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, id="extra"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, id="missing"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": -2}, id="wrong"),
    ],
)
def test_a_key_weighs_the_same_whichever_side_has_it(output, reference):
    """Missing, extra and wrong alike: 1 of 1.5."""
    assert score(output, reference, weights={"b": 0.5}) == pytest.approx(1 / 1.5)


def test_an_empty_dict_of_weights_says_nothing():
    """The key weighs 1.0, not the sum of nothing."""
    assert score({"n": {"x": 0}, "z": 1}, {"n": {"x": 1}, "z": 1}, weights={"n": {}}) == 0.5


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        pytest.param({"ok": 1}, {"ok": True}, 0.0, id="true-is-not-one"),
        pytest.param({"n": 1.0}, {"n": 1}, 1.0, id="one-is-one-point-zero"),
        pytest.param({}, {"v": None}, 0.0, id="null-is-not-absent"),
        pytest.param(["foo", 1, None], ["foo", 1, None], 1.0, id="list-with-null"),
    ],
)
def test_h47_true_is_not_one(output, reference, expected):
    """A bool equalled a number, and an absent key a null one."""
    assert score(output, reference) == expected
    assert score(reference, output) == expected


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        pytest.param(None, {"amount": 100}, 0.0, id="null-output-object"),
        pytest.param({"amount": 100}, None, NO_REFERENCE, id="null-reference-object"),
        pytest.param(True, [1], 0.0, id="bool-list"),
        pytest.param([1], True, 0.0, id="list-bool"),
        pytest.param(3, {"a": 1}, 0.0, id="number-object"),
        pytest.param({"a": 1}, 3, 0.0, id="object-number"),
        pytest.param("x", None, NO_REFERENCE, id="null-reference-text"),
        pytest.param(None, "x", 0.0, id="null-output-text"),
        pytest.param(None, None, NO_REFERENCE, id="nulls"),
    ],
)
def test_h48_values_of_two_kinds_are_unequal_in_a_json_diff(output, reference, expected):
    """Comparing None or a number with a dict raised."""
    frame = pd.DataFrame({"output": objects([output]), "dataset_output": objects([reference])})

    scored = ef.run_experiment(frame, evaluators=[ef.JsonDiff()], progress=False)

    found = scored[["eval.json_diff.score", "eval.json_diff.error"]].to_numpy(dtype=object)[0]
    assert [value for value in found if not pd.isna(value)] == [expected]


def test_h20_dicts_with_different_keys_are_compared_as_they_are():
    """Rows got each other's keys with nulls, which made equal calls differ."""
    calls = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    frame = pd.DataFrame({"tools_called": objects(calls), "expected_tools": objects(calls)})
    diff = ef.JsonDiff().bind(output="tools_called", dataset_output="expected_tools")

    scored = ef.run_experiment(frame, evaluators=[diff], progress=False)

    assert scored["eval.json_diff.score"].tolist() == [1.0, 1.0]
    assert json.loads(scored["eval.json_diff.by_key"][0]) == {
        "[0].name": 1.0,
        "[0].args": 1.0,
        "[0].args.q": 1.0,
    }


def test_h51_weight_0_keeps_the_key_in_the_details():
    """A weight of 0 took the key out of the results altogether."""
    found = cell(ef.JsonDiff({"a": 1, "b": 0}, numbers="exact"), {"a": 1, "b": 9}, {"a": 1, "b": 2})

    assert found["score"] == 1.0
    assert json.loads(found["by_key"]) == {"a": 1.0, "b": 0.0}
    assert found["explanation"] == "$.b: 9 is not 2"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param({"a": 0, "b": 0}, "All weights are 0", id="all-zero"),
        pytest.param({"a": 1, "n": {"x": 0}}, "All weights below 'n' are 0", id="nested-zero"),
        pytest.param({"a": -1, "b": 2}, "weight of 'a' is -1", id="negative"),
        pytest.param({"b": 2}, "weight of 'b' is 2", id="above-one"),
        pytest.param({"n": {"x": NAN}}, r"weight of 'n\.x' is nan", id="nan"),
        pytest.param({"a": True}, "weight of 'a' is True", id="bool"),
        pytest.param({"a": "1"}, "weight of 'a' is '1'", id="text"),
        pytest.param({"a": None}, "weight of 'a' is None", id="none"),
        pytest.param({"a": [1]}, r"weight of 'a' is \[1\]", id="list"),
        pytest.param({1: 1.0}, "the key 1", id="key"),
        pytest.param({"n": {"x": 1, "__n": 2}}, r"weight of 'n\.__n' is 2", id="loopback"),
        pytest.param([1.0], "must be a dict", id="no-dict"),
    ],
)
def test_h51_bad_weights_are_refused_when_built(weights, message):
    """All-zero weights gave nothing, in silence."""
    with pytest.raises(ValueError, match=message):
        ef.JsonDiff(weights)


def test_h51_a_weighted_key_that_no_row_has_is_warned_of():
    """It was ignored; here each such path is named, once in a run."""
    frame = pd.DataFrame(
        {
            "output": objects([{"a": 1}, {"a": 1, "o": 1}, None]),
            "dataset_output": objects([{"a": 1}, {"a": 2, "n": {"x": 1}}, {"late": 1}]),
        }
    )
    weights = {"a": 1, "o": 0.5, "late": 0.5, "q": 0.1, "n": {"x": 1, "typo": 1}}
    diff = ef.JsonDiff(weights)

    with pytest.warns(UserWarning, match=r"no row has: 'n\.typo', 'q'\. Check") as caught:
        scored = ef.run_experiment(frame, evaluators=[diff], progress=False)

    assert len(caught) == 1
    assert scored["eval.json_diff.error"].isna().all()


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        pytest.param({}, {"n": {"x": 1}}, id="missing-object"),
        pytest.param({"n": [{"x": 1}]}, {}, id="extra-list"),
        pytest.param({"n": [{}, {"x": 1}]}, {"n": [{}]}, id="longer-list"),
        pytest.param({"n": [{}]}, {"n": [{}, {"x": 1}]}, id="shorter-list"),
        pytest.param({"n": 1}, {"n": {"x": 1}}, id="object-against-number"),
        pytest.param({"n": {"x": 1}}, {"n": None}, id="object-against-null"),
        pytest.param("no JSON", {"n": {"x": 1}}, id="no-json"),
        pytest.param(None, {"n": {"x": 1}}, id="null"),
    ],
)
def test_a_key_counts_as_there_when_one_side_has_it(output, reference):
    """No warning, which the suite would take for an error."""
    assert cell(ef.JsonDiff({"n": {"x": 1}}), output, reference)["error"] is None


def test_no_warning_when_nothing_was_compared():
    """Rows without a reference say nothing of the keys."""
    assert cell(ef.JsonDiff({"q": 1}), {"a": 1}, None)["error"] == NO_REFERENCE


def test_weights_of_a_column_are_those_of_each_row():
    """A dict, its JSON text, null for none; a null inside, as from a struct, is not given."""
    rows = [{"a": 1, "b": 0.5}, '{"a": 0.5}', None, {"a": None, "b": None}, {"a": 0, "b": None}]
    frame = pd.DataFrame(
        {
            "output": objects([{"a": 0, "b": 1}] * 5),
            "dataset_output": objects([{"a": 1, "b": 1}] * 5),
            "weights": objects(rows),
        }
    )
    frame.loc[4, "weights"] = None

    scored = ef.run_experiment(frame, evaluators=[ef.JsonDiff()], progress=False)

    assert scored["eval.json_diff.score"].tolist() == pytest.approx(
        [0.5 / 1.5, 1 / 1.5, 0.5, 0.5, 0.5]
    )


def test_a_bad_weight_fails_its_own_row():
    """The others are judged."""
    rows = [{"a": 1.0}, {"a": 2}, {"a": 0, "b": 0}, "{", 3, [1], "[1]"]

    found = cells(ef.JsonDiff(), [{"a": 1}] * 7, [{"a": 1}] * 7, rows)

    assert found["score"] == [1.0, *[None] * 6]
    assert [error and error.partition(":")[0] for error in found["error"]] == [
        None,
        *["invalid_result"] * 6,
    ]
    assert "weight of 'a' is 2 (int)" in found["error"][1]
    assert "All weights are 0" in found["error"][2]
    assert "not JSON" in found["error"][3]


def test_a_column_of_weights_warns_of_keys_that_no_row_has():
    """A key that some row has is none of them, wherever its weight stands."""
    rows = [{"a": 1, "q": 1}, {"a": 1, "b": 1}, {"b": 1}]

    with pytest.warns(UserWarning, match="no row has: 'q'"):
        cells(ef.JsonDiff(), [{"a": 1}, {"a": 1}, {"b": 1}], [{"a": 1}] * 3, rows)
    assert cell(ef.JsonDiff(), {"a": 1}, None, {"q": 1})["error"] == NO_REFERENCE


def test_rows_with_weights_that_look_alike_are_not_taken_for_each_other():
    """True equals 1 in Python, but a bool is no weight; nor is Python's spelling of a dict."""
    weights = [{"a": 1}, {"a": True}, "{'a': 1}", None, "None", {"a": 1}]

    found = cells(ef.JsonDiff(), [{"a": 1}] * 6, [{"a": 1}] * 6, weights)

    assert found["score"] == [1.0, None, None, 1.0, None, 1.0]


def test_thousands_of_different_weights_are_each_their_rows_own():
    """Also of what no row has; a weight that Python cannot write fails its row."""
    weights = [{"a": n / 3000, "b": 1.0, f"q{n % 2}": 1} for n in range(3000)]
    outputs = [{"a": 0, "b": 1, f"q{n % 2}" if n % 2 else "x": 1} for n in range(3000)]
    references = [{"a": 1, "b": 1} for n in range(3000)]

    with pytest.warns(UserWarning, match="no row has: 'q0'"):
        found = cells(
            ef.JsonDiff(),
            [*outputs, {"a": 1}],
            [*references, {"a": 1}],
            [*weights, {"a": 10**5000}],
        )

    assert found["score"][:-1] == pytest.approx([1 / (n / 3000 + 2) for n in range(3000)])
    assert found["error"][-1].startswith("invalid_result: The weight of 'a' is")


def test_weights_given_when_made_leave_the_column_alone():
    """An empty dict is given, too."""
    frame = pd.DataFrame(
        {"output": objects([{"a": 1}]), "dataset_output": objects([{"a": 1}]), "weights": [7]}
    )

    scored = ef.run_experiment(frame, evaluators=[ef.JsonDiff({})], progress=False)

    assert scored["eval.json_diff.score"].tolist() == [1.0]


def test_a_column_of_weights_that_holds_none_is_refused_before_the_run():
    """It says how to do without."""
    frame = pd.DataFrame({"output": ["a"], "dataset_output": ["a"], "weights": [7]})

    with pytest.raises(ef.ExperimentError, match=r"weights is int64.*JsonDiff\(weights=\{\}\)"):
        ef.run_experiment(frame, evaluators=[ef.JsonDiff()], progress=False)


def test_weights_that_their_owner_changes_later_stay_as_they_were():
    """Down to nested dicts, for its score, equality and repr."""
    weights = {"n": {"x": 1.0, "y": 0.5}}
    diff = ef.JsonDiff(weights)
    weights["n"]["x"] = 7

    assert diff == ef.JsonDiff({"n": {"x": 1.0, "y": 0.5}})
    assert repr(diff) == "JsonDiff(weights={'n': {'x': 1.0, 'y': 0.5}})"


def test_a_level_where_only_keys_of_weight_0_occur_does_not_count():
    """It adds nothing to its parent; a whole row of that kind is skipped."""
    weights = {"n": {"x": 0, "y": 1}, "a": 0, "b": 1}

    found = cells(
        ef.JsonDiff(weights),
        [{"n": {"x": 5}, "b": 1}, {"a": 1}, {"n": {"y": 1}}],
        [{"n": {"x": 1}, "b": 1}, {"a": 2}, {"n": {"y": 1}}],
    )

    assert found["score"] == [1.0, None, 1.0]
    assert found["error"] == [None, "skipped: no key has a weight above 0", None]
    assert json.loads(found["by_key"][0]) == {"n": None, "b": 1.0, "n.x": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("output", "reference", "penalise", "zipped"),
    [
        pytest.param([1], [1, 2, 3], 1 / 3, 1.0, id="shorter"),
        pytest.param([1, 2, 3], [1], 1 / 3, 1.0, id="longer"),
        pytest.param([], [1], 0.0, 0.0, id="empty-against-some"),
        pytest.param([1], [], 0.0, 0.0, id="some-against-empty"),
        pytest.param([], [], 1.0, 1.0, id="both-empty"),
        pytest.param([2, 1], [1, 2], 2 / 3, 2 / 3, id="by-position"),
        pytest.param([[1], []], [[1, 2], []], 0.75, 1.0, id="nested"),
    ],
)
def test_lists_are_compared_by_position_over_the_longer_length(output, reference, penalise, zipped):
    """Elements beyond the shorter length scored 1.0 elsewhere, and empty lists divided by 0."""
    assert score(output, reference) == pytest.approx(penalise)
    assert score(output, reference, lists="zip") == pytest.approx(zipped)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(0, 0, 1.0, id="zeros"),
        pytest.param(0.0, -0.0, 1.0, id="signed-zeros"),
        pytest.param(5, 4, 8 / 9, id="ints"),
        pytest.param(0, 7, 0.0, id="zero-and-any"),
        pytest.param(-3, 3, 0.0, id="signs"),
        pytest.param(NAN, NAN, 1.0, id="nans"),
        pytest.param(NAN, 1, 0.0, id="nan"),
        pytest.param(INF, INF, 1.0, id="infinities"),
        pytest.param(INF, -INF, 0.0, id="infinities-of-both-signs"),
        pytest.param(INF, 1e308, 0.0, id="infinity"),
        pytest.param(INF, 10**400, 0.0, id="infinity-and-huge"),
        pytest.param(1e308, 1.5e308, 0.8, id="sum-overflows"),
        pytest.param(1e308, -1.5e308, 0.0, id="difference-overflows"),
        pytest.param(10**400, 3 * 10**400, 0.5, id="huge-ints"),
        pytest.param(10**400, 1.5, 0.0, id="huge-int-and-float"),
        pytest.param(5e-324, 1.5e-323, 0.5, id="smallest-floats"),
        pytest.param(Decimal("1.5"), 4.5, 0.5, id="decimal-and-float"),
        pytest.param(Decimal(1), 3, 0.5, id="decimal-and-int"),
        pytest.param(Decimal("1E+999999999"), Decimal("3E+999999999"), 0.5, id="huge-decimals"),
        pytest.param(Decimal("sNaN"), Decimal("NaN"), 1.0, id="decimal-nans"),
        pytest.param(Decimal("sNaN"), 1.0, 0.0, id="decimal-nan"),
        pytest.param(Decimal("Infinity"), INF, 1.0, id="decimal-infinity"),
        pytest.param(True, 1, 0.0, id="bool-and-int"),
        pytest.param(False, 0.0, 0.0, id="bool-and-float"),
        pytest.param("1", 1, 0.0, id="text-and-int"),
    ],
)
def test_numbers_are_alike_by_their_relative_distance(a, b, expected):
    """1 - |a - b| / (|a| + |b|), either way round."""
    assert score([a], [b]) == pytest.approx(expected)
    assert score([b], [a]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "output", "reference", "expected"),
    [
        pytest.param({}, "kitten", "sitting", 4 / 7, id="levenshtein"),
        pytest.param({}, "", "", 1.0, id="empty-texts"),
        pytest.param({}, "", "abc", 0.0, id="empty-and-text"),
        pytest.param({}, "Straße", "Strasse", 5 / 7, id="letters-not-bytes"),
        pytest.param({"strings": "exact"}, "kitten", "sitting", 0.0, id="exact-differs"),
        pytest.param({"strings": "exact"}, "kitten", "kitten", 1.0, id="exact-same"),
        pytest.param({"numbers": "exact"}, [5], [4], 0.0, id="number-differs"),
        pytest.param({"numbers": "exact"}, [5], [5.0], 1.0, id="number-same"),
        pytest.param({"numbers": "exact"}, [NAN], [NAN], 1.0, id="nan-same"),
        pytest.param({"numbers": "exact"}, [1e16], [10**16 + 1], 0.0, id="number-differs-by-1"),
        pytest.param({}, [datetime(2024, 5, 1)], [datetime(2024, 5, 1)], 1.0, id="same-time"),
        pytest.param({}, [datetime(2024, 5, 1)], ["2024-05-01"], 0.0, id="time-and-text"),
        pytest.param({}, (1, 2), [1, 2], 1.0, id="tuple-is-a-list"),
    ],
)
def test_single_values_are_compared_by_kind(options, output, reference, expected):
    """Texts by letters, numbers by value, others by equality."""
    assert score(output, reference, **options) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("output", "reference", "expected", "explanation"),
    [
        pytest.param('{"a": 1}', {"a": 1}, 1.0, None, id="object"),
        pytest.param(" \n[1, 2]", "[1,2]", 1.0, None, id="two-arrays"),
        pytest.param("4", "5", 0.0, "$: '4' is not '5'", id="numbers-in-text-are-text"),
        pytest.param("{a", "{b", 0.5, "$: '{a' is not '{b' (0.5)", id="neither-is-json"),
        pytest.param('{"a": NaN}', '{"a": NaN}', 1.0, None, id="nan"),
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, 1.0, None, id="last-of-two-keys"),
        pytest.param(
            '{"a": 1',
            {"a": 1},
            0.0,
            "output is not JSON: Expecting ',' delimiter: line 1 column 8 (char 7)",
            id="torn-output",
        ),
        pytest.param(
            "Sure!", [1], 0.0, "output is not JSON: 'Sure!' is no object or array", id="prose"
        ),
        pytest.param("", {}, 0.0, "output is not JSON: '' is no object or array", id="empty"),
        pytest.param([1], "one", 0.0, "$: [1] is not 'one'", id="list-against-text"),
        pytest.param(None, '{"a": 1}', 0.0, "output is null", id="null"),
    ],
)
def test_text_that_is_json_is_read(output, reference, expected, explanation):
    """Objects and arrays only; what should be one and is not scores 0.0."""
    found = cell(ef.JsonDiff(), output, reference)

    assert (found["score"], found["explanation"], found["error"]) == (expected, explanation, None)


@pytest.mark.parametrize(
    ("output", "reference", "message"),
    [
        pytest.param({"a": 1}, '{"a"', "dataset_output is not JSON", id="torn-reference"),
        pytest.param("3", 3, "text is not compared with other values", id="text-number"),
        pytest.param(True, "true", "text is not compared with other values", id="bool-text"),
        pytest.param("[" * 50_000, [1], "nested too deeply", id="deep-text"),
        pytest.param(f"[{'1' * 5000}]", [1], "cannot be read.*4300 digits", id="long-number"),
    ],
)
def test_a_row_that_cannot_be_judged_fails_alone(output, reference, message):
    """Its neighbours have their scores."""
    found = cells(ef.JsonDiff(), [[1], output, [1]], [[1], reference, [2]])

    assert found["score"] == [1.0, None, pytest.approx(2 / 3)]
    assert found["error"][0] is None
    assert found["error"][1].startswith("invalid_result: ")
    assert pd.Series(found["error"][1:2]).str.contains(message).all()


def test_values_nested_deeper_than_python_goes_fail_alone():
    """Made by hand: no frame holds them."""
    deep = []
    for _ in range(5_000):
        deep = [deep]

    found = cells(ef.JsonDiff(), [deep, [1]], [deep, [1]])

    assert found["score"] == [None, 1.0]
    assert "nested too deeply" in found["error"][0]


def test_by_key_has_every_key_of_every_object_by_path():
    """The outermost first; a key with a dot or bracket in it stands in brackets."""
    reference = {"user": {"name": "Ann", "a.b": 1}, "items": [{"id": 1}, {"id": 2}], "": {"x[": 1}}
    output = {"user": {"name": "Anna"}, "items": [{"id": 1}], "": {"x[": 1}, "new": 1}

    assert by_key(output, reference) == {
        "user": 0.375,
        "items": 0.5,
        '[""]': 1.0,
        "new": 0.0,
        "user.name": 0.75,
        'user["a.b"]': 0.0,
        "items[0].id": 1.0,
        '[""]["x["]': 1.0,
    }


def test_by_key_is_null_without_objects():
    """Two lists of numbers have no keys."""
    assert cell(ef.JsonDiff(), [1], [1])["by_key"] is None


def test_by_key_holds_at_most_100_keys_the_outermost_first():
    """However large the value is, its columns stay small; the score counts all of it."""
    reference = {"first": {f"k{n}": n + 1 for n in range(500)}, "last": 1}
    output = {"first": {}, "last": 1}

    found = by_key(output, reference)

    assert len(found) == 100
    assert list(found)[:3] == ["first", "last", "first.k0"]
    assert score(output, reference) == 0.5


def test_the_explanation_names_what_differs_by_path():
    """Missing, unexpected, and unlike parts, the latter with how alike they are."""
    reference = {"user": {"name": "Ann"}, "age": 40, "tags": ["a"], "ok": True}
    output = {"user": {"name": "Anna"}, "tags": ["a", "b"], "ok": 1, "new": None}

    assert cell(ef.JsonDiff(), output, reference)["explanation"] == (
        "$.user.name: 'Anna' is not 'Ann' (0.75); $.age: missing; $.tags[1]: not expected; "
        "$.ok: 1 is not True; $.new: not expected"
    )
    assert cell(ef.JsonDiff(), reference, reference)["explanation"] is None


def test_the_explanation_is_bounded():
    """Ten places, each with cut paths and values; the rest is counted."""
    long = "x" * 100_000
    reference = {f"{n}{long}": [[[[10**5000, long]]]] for n in range(12)}
    output = dict.fromkeys(reference, long)

    text = cell(ef.JsonDiff(), output, reference)["explanation"]

    assert text.endswith("; and 2 more")
    assert len(text) < 4_000


def test_lone_surrogates_in_json_text_come_out_as_replacement_characters():
    """JSON can spell them; no file can hold them."""
    found = cell(ef.JsonDiff(), '{"\\ud800": "\\udc80"}', '{"\\ud800": "a"}')

    assert found["score"] == 0.0
    assert json.loads(found["by_key"]) == {"\ufffd": 0.0}
    assert found["explanation"] == "$.\ufffd: '\\udc80' is not 'a'"


def test_what_is_remembered_of_keys_does_not_grow_with_the_rows():
    """Keys are the user's data; what is forgotten is found out again."""
    comparer = Comparer(similarity=same_text, relative=True, penalise=True)
    weights = read_weights({"key0": {"inner0": 0.5}, "key29999": 0.5}, nested="sum")
    place = Place(weights)

    rows = [{f"key{n}": {f"inner{n}": n}} for n in range(30_000)]
    found = {comparer.score(row, row, place) for row in rows}

    assert found == {1.0}
    assert comparer.by_key == '{"key29999": 1.0, "key29999.inner29999": 1.0}'
    assert len(place) <= 10_000
    assert list(weights.paths(unseen=True)) == []


def test_texts_against_numbers_are_refused_before_the_run():
    """As by the other built-ins."""
    frame = pd.DataFrame({"output": ["1"], "dataset_output": [1]})

    with pytest.raises(ef.ExperimentError, match="compares text with numbers"):
        ef.run_experiment(frame, evaluators=[ef.JsonDiff()], progress=False)


@pytest.mark.parametrize("option", ["strings", "numbers", "lists", "nested_weight"])
def test_an_option_outside_its_choices_is_refused(option):
    """The message lists them."""
    with pytest.raises(ValueError, match=f"{option} must be one of .* not 'fuzzy'"):
        ef.JsonDiff(**{option: "fuzzy"})


@pytest.mark.parametrize(
    ("strings", "refused"),
    [pytest.param("levenshtein", True, id="levenshtein"), pytest.param("exact", False, id="exact")],
)
def test_a_missing_extra_is_told_before_the_run(monkeypatch, strings, refused):
    """Only where the likeness of texts is asked for; with the ways out."""
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)

    told = ef.JsonDiff(strings=strings).requirements()

    assert bool(told) is refused
    assert refused is ("pip install 'evalframe[text]' Or take" in (told or ""))


def test_exact_texts_need_no_extra(monkeypatch):
    """The package is not asked for."""
    monkeypatch.setitem(sys.modules, "rapidfuzz", types.ModuleType("rapidfuzz"))

    assert score({"a": "x"}, {"a": "x"}, strings="exact") == 1.0


def distance(a, b):
    """The Levenshtein distance, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def plain_score(a, b, weights, zipped):
    """The law; None where nothing has a weight."""
    if isinstance(a, dict) and isinstance(b, dict):
        parts = []
        for key in {**a, **b}:
            own, below = plain_weight(weights, key)
            both = key in a and key in b
            parts.append((own, plain_score(a[key], b[key], below, zipped) if both else 0.0))
        return plain_mean(parts)
    if isinstance(a, list) and isinstance(b, list):
        parts = [(1.0, plain_score(x, y, weights, zipped)) for x, y in zip(a, b, strict=False)]
        if not zipped or not a or not b:
            parts += [(1.0, 0.0)] * abs(len(a) - len(b))
        return plain_mean(parts)
    if type(a) is str and type(b) is str:
        return 1 - distance(a, b) / max(len(a), len(b), 1)
    if type(a) in (int, float) and type(b) in (int, float):
        return plain_numbers(a, b)
    return 1.0 if type(a) is type(b) and a == b else 0.0


def plain_numbers(a, b):
    """Alike by distance."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 1.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return 0.0
    return 1 - abs(a - b) / (abs(a) + abs(b))


def plain_mean(parts):
    """The weighted mean; 1.0 of nothing, None if nothing counts."""
    counted = [(own, part) for own, part in parts if part is not None and own]
    if not counted:
        return None if parts else 1.0
    return sum(own * part for own, part in counted) / sum(own for own, _ in counted)


def plain_weight(weights, key):
    """What a key weighs by "sum", and the weights below it."""
    given = weights.get(key, 1.0)
    if not isinstance(given, dict):
        return given, {}
    below = {name: weight for name, weight in given.items() if name != f"__{key}"}
    if f"__{key}" in given:
        return given[f"__{key}"], below
    return sum(plain_weight(below, name)[0] for name in below) if below else 1.0, below


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-10, 10)
    | st.sampled_from([NAN, INF, -INF, 0.0, -0.0])
    | st.text("abß😀\ud800", max_size=4)
)
keys = st.sampled_from(["a", "b", "n", "__n"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
numbers = st.sampled_from([0, 0.25, 0.5, 1])
levels = st.dictionaries(keys, numbers, max_size=3)
weightings = st.dictionaries(keys, numbers | levels | st.dictionaries(keys, levels, max_size=2))
mappings = st.dictionaries(keys, values | st.dictionaries(keys, leaves), max_size=4)
related = (
    st.tuples(mappings, mappings)
    | values.flatmap(lambda value: st.tuples(st.just(value), st.just({"a": value})))
    | values.flatmap(lambda value: st.tuples(st.just(value), st.just(copy.deepcopy(value))))
    | st.tuples(values, values)
)


def usable(weights):
    """Whether they can be given."""
    try:
        ef.JsonDiff(weights)
    except ValueError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:JsonDiff")
@given(pairs=st.lists(related, min_size=1, max_size=4), weights=weightings, zipped=st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_score_is_that_of_the_plain_recursion(pairs, weights, zipped):
    """Any values, with and without weights, as values and as JSON text."""
    weights = weights if usable(weights) else {}
    diff = ef.JsonDiff(weights, lists="zip" if zipped else "penalise")
    # A null is none to compare, and text against other values fails: both only at the top.
    pairs = [([a], [b]) for a, b in pairs]
    texts = [(json.dumps(a), json.dumps(b)) for a, b in pairs]
    expected = [plain_score(a, b, weights, zipped) for a, b in pairs]

    for rows in (pairs, texts):
        found = cells(diff, [a for a, _ in rows], [b for _, b in rows])
        assert [None if s is None else round(s, 9) for s in found["score"]] == [
            None if s is None else round(s, 9) for s in expected
        ]
        assert {error for error in found["error"] if error} <= {
            "skipped: no key has a weight above 0"
        }


@given(pair=related)
@settings(max_examples=100, deadline=None)
def test_a_score_is_1_exactly_where_nothing_differs(pair):
    """And the explanation is null there."""
    a, b = [pair[0]], [pair[1]]

    found = cell(ef.JsonDiff(), a, b)

    assert 0 <= found["score"] <= 1
    assert (found["score"] == 1) == (found["explanation"] is None)
    assert cell(ef.JsonDiff(), b, a)["score"] == pytest.approx(found["score"])


def test_arrow_and_text_columns_are_read_alike():
    """A struct column, and the JSON text of the same values."""
    rows = [{"a": 1, "b": ["x"]}, {"a": 2, "b": ["y", "z"]}]
    structs = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(rows)))
    texts = pd.Series([json.dumps(row) for row in rows], dtype="string")
    frame = pd.DataFrame({"output": structs, "dataset_output": texts})

    scored = ef.run_experiment(frame, evaluators=[ef.JsonDiff()], progress=False)

    assert scored["eval.json_diff.score"].tolist() == [1.0, 1.0]
