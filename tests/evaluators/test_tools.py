"""ToolCalls: which calls are missing, extra or out of order, and what that scores."""

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef

MODES = ["exact", "ordered", "set"]
NAN = float("nan")


def objects(values):
    """A column of Python values, of which pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def cells(evaluator, called, expected):
    """The result columns of a call, as lists."""
    found = evaluator.function(objects(called), objects(expected)).arrays
    return {name: array.to_pylist() for name, array in found.items()}


def cell(evaluator, called, expected):
    """The parts of one row's cell."""
    return {name: column[0] for name, column in cells(evaluator, [called], [expected]).items()}


def scores(called, expected, **options):
    """The score of one row in each mode."""
    return [cell(ef.ToolCalls(mode, **options), called, expected)["score"] for mode in MODES]


@pytest.mark.parametrize(
    ("called", "expected", "found"),
    [
        pytest.param(["a", "b"], ["a", "b"], [1, 1, 1], id="equal"),
        pytest.param(["b", "a"], ["a", "b"], [0, 0.5, 1], id="swapped"),
        pytest.param(["a"], ["a", "b"], [0, 0.5, 0.5], id="missing"),
        pytest.param(["a", "x", "b"], ["a", "b"], [0, 1, 1], id="extra-costs-nothing"),
        pytest.param(["a", "a"], ["a", "a"], [1, 1, 1], id="twice"),
        pytest.param(["a"], ["a", "a"], [0, 0.5, 0.5], id="once-of-twice"),
        pytest.param(["a", "a"], ["a"], [0, 1, 1], id="twice-of-once"),
        pytest.param(["x"], ["a"], [0, 0, 0], id="another"),
        pytest.param([], ["a"], [0, 0, 0], id="nothing-called"),
        pytest.param([], [], [1, 1, 1], id="both-empty"),
        pytest.param(["a"], [], [0, 0, 0], id="nothing-expected"),
        pytest.param(["c", "a", "b"], ["a", "b", "c"], [0, 2 / 3, 1], id="longest-is-two"),
        pytest.param("ab", ["ab"], [1, 1, 1], id="one-text-is-one-tool"),
        pytest.param("ab", ["a", "b"], [0, 0, 0], id="a-text-is-not-its-letters"),
        pytest.param({"name": "a"}, "a", [1, 1, 1], id="one-dict-is-one-call"),
        pytest.param('["a", {"name": "b"}]', ["a", "b"], [1, 1, 1], id="json-text"),
        pytest.param(("a",), ["a"], [1, 1, 1], id="tuple"),
    ],
)
def test_a_score_says_how_much_of_what_was_expected_was_called(called, expected, found):
    """Exact, ordered and set; empty lists divided by zero elsewhere."""
    assert scores(called, expected) == pytest.approx(found)


@pytest.mark.parametrize(
    ("mode", "label"),
    [
        pytest.param("exact", ["True", "False"], id="exact"),
        pytest.param("ordered", [None, None], id="ordered"),
        pytest.param("set", [None, None], id="set"),
    ],
)
def test_only_an_exact_match_is_a_yes_or_no(mode, label):
    """The others are shares, and have no label."""
    assert cells(ef.ToolCalls(mode), [["a"], ["b"]], [["a"], ["a"]])["label"] == label


@pytest.mark.parametrize("mode", MODES)
def test_nulls_are_skipped_or_score_0(mode):
    """A null reference is skipped; a null list of calls scores 0.0, also where none is expected."""
    found = cells(ef.ToolCalls(mode), [["a"], None, None, None], [None, ["a"], [], None])

    assert found["score"] == [None, 0.0, 0.0, None]
    assert found["error"] == [
        "skipped: no expected tools",
        None,
        None,
        "skipped: no expected tools",
    ]
    assert found["explanation"] == [
        None,
        "tools_called is null; missing: 'a'",
        "tools_called is null",
        None,
    ]
    assert found["label"] == [None, *(["False"] * 2 if mode == "exact" else [None] * 2), None]


@pytest.mark.parametrize(
    ("mode", "called", "expected", "explanation", "extras"),
    [
        pytest.param(
            "exact",
            ["b", "a", "x", "x"],
            ["a", "b", "c"],
            "missing: 'c'; extra: 'x', 'x'; out of order: 'a'",
            (["c"], ["x", "x"], ["a"]),
            id="exact",
        ),
        pytest.param(
            "ordered",
            ["c", "a", "b"],
            ["a", "b", "c"],
            "out of order: 'c'",
            ([], [], ["c"]),
            id="ordered",
        ),
        pytest.param("set", ["b", "a"], ["a", "b"], None, ([], [], []), id="set-has-no-order"),
        pytest.param(
            "set", ["x", "a"], ["a", "b"], "missing: 'b'; extra: 'x'", (["b"], ["x"], []), id="set"
        ),
        pytest.param("exact", ["a"], ["a"], None, ([], [], []), id="equal"),
    ],
)
def test_the_explanation_names_missing_extra_and_swapped_tools(
    mode, called, expected, explanation, extras
):
    """The extras are lists of names."""
    found = cell(ef.ToolCalls(mode), called, expected)

    assert found["explanation"] == explanation
    assert tuple(json.loads(found[name]) for name in ("missing", "extra", "out_of_order")) == extras


def test_the_explanation_is_bounded():
    """Ten names of each kind, long ones cut."""
    found = cell(ef.ToolCalls("set"), [], ["x" * 100_000] * 12)

    assert found["explanation"] == f"missing: {', '.join([repr('x' * 60 + '...')] * 10)} and 2 more"
    assert len(json.loads(found["missing"])) == 12


FORMS = [
    pytest.param({"name": "f", "arguments": {"q": 1}}, id="arguments"),
    pytest.param({"tool_name": "f", "parameters": {"q": 1}}, id="parameters"),
    pytest.param({"name": "f", "args": {"q": 1}, "id": "call_1"}, id="args"),
    pytest.param({"name": "f", "arguments": '{"q": 1}'}, id="json-text"),
    pytest.param({"name": None, "tool_name": "f", "args": {"q": 1.0}}, id="padded-with-nulls"),
    pytest.param(
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}},
        id="openai",
    ),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_the_same_in_every_form(form):
    """With and without its arguments."""
    assert scores([form], ["f"]) == [1, 1, 1]
    assert scores([form], [{"name": "f", "arguments": {"q": 1}}], arguments=True) == [1, 1, 1]
    assert scores([form], [{"name": "f", "arguments": {"q": 2}}], arguments=True) == [0, 0, 0]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        pytest.param({"q": 1}, {"q": 1.0}, True, id="numbers-by-value"),
        pytest.param({"q": True}, {"q": 1}, False, id="bool-is-no-number"),
        pytest.param({"q": [0]}, {"q": [False]}, False, id="bool-in-a-list"),
        pytest.param({"q": None}, {}, False, id="null-is-not-absent"),
        pytest.param({"q": 1, "r": 2}, {"r": 2, "q": 1}, True, id="order-of-keys"),
        pytest.param({"q": [1, 2]}, {"q": [2, 1]}, False, id="order-of-a-list"),
        pytest.param({"q": (1,)}, {"q": [1]}, True, id="tuple-is-a-list"),
        pytest.param({"q": []}, {"q": {}}, False, id="list-is-no-dict"),
        pytest.param({"q": NAN}, {"q": float("nan")}, True, id="nan"),
        pytest.param({"q": Decimal("sNaN")}, {"q": Decimal("NaN")}, True, id="decimal-nan"),
        pytest.param({"q": Decimal("1.5")}, {"q": 1.5}, True, id="decimal"),
        pytest.param({"q": "1"}, {"q": 1}, False, id="text-is-no-number"),
        pytest.param({"q": 10**400}, {"q": 10**400 + 1}, False, id="huge"),
        pytest.param({}, None, True, id="none-is-empty"),
        pytest.param("", "{}", True, id="empty-text-is-empty"),
    ],
)
def test_arguments_are_compared_part_by_part(a, b, same):
    """As ExactMatch compares values."""
    called, expected = [{"name": "f", "args": a}], [{"name": "f", "args": b}]

    assert scores(called, expected, arguments=True) == [float(same)] * 3
    assert scores(expected, called, arguments=True) == [float(same)] * 3
    assert scores(called, expected) == [1.0] * 3


def test_a_name_alone_is_a_call_without_arguments():
    """It does not stand for any arguments."""
    assert scores(["f"], [{"name": "f"}], arguments=True) == [1, 1, 1]
    assert scores([{"name": "f", "args": {"q": 1}}], ["f"], arguments=True) == [0, 0, 0]


def test_unlike_arguments_are_named_with_the_tool():
    """What was called, and what should have been."""
    search = [{"name": "search", "args": {"q": word}} for word in ("a", "b")]

    found = cell(ef.ToolCalls(arguments=True), [search[0]], [search[1]])

    assert found["explanation"] == (
        "missing: 'search' with {'q': 'b'}; extra: 'search' with {'q': 'a'}"
    )
    assert (found["missing"], found["extra"]) == ('["search"]', '["search"]')


DEEP = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("called", "message"),
    [
        pytest.param(["a", None], "item 2 of tools_called is None", id="null-item"),
        pytest.param([3], r"item 1 of tools_called is 3 \(int\)", id="number-item"),
        pytest.param(7, "item 1 of tools_called is 7", id="number"),
        pytest.param([["a"]], "item 1 of tools_called is", id="list-item"),
        pytest.param([""], "item 1 of tools_called is ''", id="empty-name"),
        pytest.param([{"args": {}}], "with its name under 'name' or 'tool_name'", id="no-name"),
        pytest.param([{"name": 3}], "item 1 of tools_called is", id="number-name"),
        pytest.param([{"function": {}}], "item 1 of tools_called is", id="empty-function"),
        pytest.param("[1", "tools_called cannot be read as JSON", id="torn-text"),
        pytest.param("[" * 50_000, "nested too deeply", id="deep-text"),
        pytest.param([{"name": "f", "args": {"q": DEEP}}], "nested too deeply", id="deep-args"),
    ],
)
def test_malformed_calls_fail_their_own_row(called, message):
    """Never a score; their neighbours are judged."""
    found = cells(ef.ToolCalls(arguments=True), [["a"], called, ["a"]], [["a"]] * 3)

    assert found["score"] == [1.0, None, 1.0]
    assert found["error"][1].startswith("invalid_result: ")
    assert pd.Series(found["error"][1:2]).str.contains(message).all()


@pytest.mark.parametrize("called", [[""], ["a", ""], "", ["a", None], [{}]])
def test_malformed_names_fail_where_arguments_are_not_compared(called):
    """A list of nothing but texts is no exception."""
    found = cell(ef.ToolCalls("set"), called, ["a"])

    assert (found["score"], found["error"].partition(":")[0]) == (None, "invalid_result")


def test_malformed_arguments_do_not_matter_where_they_are_not_compared():
    """They are not read."""
    assert scores([{"name": "f", "args": "{"}], ["f"]) == [1, 1, 1]


def test_lone_surrogates_in_json_text_come_out_as_replacement_characters():
    """In the extras; the explanation escapes them."""
    found = cell(ef.ToolCalls(), '["\\ud800"]', ["a"])

    assert json.loads(found["extra"]) == ["\ufffd"]
    assert found["explanation"] == "missing: 'a'; extra: '\\ud800'"


def test_h20_calls_with_different_arguments_are_compared_as_they_are():
    """Rows got each other's argument names with nulls, which made equal calls differ."""
    calls = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    frame = pd.DataFrame({"tools_called": objects(calls), "expected_tools": objects(calls)})

    scored = ef.run_experiment(frame, evaluators=[ef.ToolCalls(arguments=True)], progress=False)

    assert scored["eval.tool_calls.score"].tolist() == [1.0, 1.0]


def test_a_list_of_examples_is_judged_as_it_stands():
    """With a threshold it passes or fails."""
    examples = [
        ef.Example(input="x", tools_called=["a", "b"], expected_tools=["a"]),
        ef.Example(input="y", tools_called=["b"], expected_tools=["a"]),
    ]

    scored = ef.run_experiment(
        examples, evaluators=[ef.ToolCalls("set", threshold=1.0)], progress=False
    )

    assert scored.evals.passed["tool_calls"].tolist() == [True, False]


def test_arrow_lists_are_read():
    """As parquet files have them."""
    column = pd.arrays.ArrowExtensionArray(pa.array([["a", "b"], [], None]))
    frame = pd.DataFrame({"tools_called": column, "expected_tools": column})

    scored = ef.run_experiment(frame, evaluators=[ef.ToolCalls()], progress=False)

    assert scored["eval.tool_calls.score"].tolist()[:2] == [1.0, 1.0]
    assert scored["eval.tool_calls.error"][2] == "skipped: no expected tools"


def test_columns_that_hold_no_lists_are_refused_before_the_run():
    """It names the column and its type."""
    frame = pd.DataFrame({"tools_called": [1], "expected_tools": [["a"]]})

    with pytest.raises(ef.ExperimentError, match="lists of tool names, but tools_called is int64"):
        ef.run_experiment(frame, evaluators=[ef.ToolCalls()], progress=False)


def test_an_unknown_mode_is_refused():
    """The message lists them."""
    with pytest.raises(ValueError, match=r"mode must be one of .*'ordered'.* not 'any'"):
        ef.ToolCalls("any")


def longest(a, b):
    """The length of the longest common subsequence, by the textbook table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def plain_scores(called, expected):
    """The law, mode by mode."""
    exact = float(called == expected)
    if not expected:
        return [exact] * 3
    common = sum((Counter(called) & Counter(expected)).values())
    return [exact, longest(called, expected) / len(expected), common / len(expected)]


names = st.lists(st.sampled_from(["a", "b", "c", "ß", "\ud800"]), max_size=9)


@given(called=names, expected=names)
def test_a_score_is_that_of_the_plain_law(called, expected):
    """Names, and dicts with them, are the same."""
    dicts = [{"name": name, "args": {"q": name}} for name in called]

    assert scores(called, expected) == pytest.approx(plain_scores(called, expected))
    assert scores(dicts, expected) == pytest.approx(plain_scores(called, expected))


@given(called=names, expected=names)
def test_what_is_named_accounts_for_every_call(called, expected):
    """Expected less missing is called less extra; what is not in order is the rest of these."""
    found = cell(ef.ToolCalls("ordered"), called, expected)

    missing, extra, swapped = (
        Counter(json.loads(found[name])) for name in ("missing", "extra", "out_of_order")
    )
    clean = [
        Counter(name.replace("\ud800", "\ufffd") for name in side) for side in (called, expected)
    ]
    assert missing == clean[1] - clean[0]
    assert extra == clean[0] - clean[1]
    assert swapped.total() == (clean[0] & clean[1]).total() - longest(called, expected)


rows = st.lists(
    st.tuples(*[st.none() | st.lists(st.sampled_from(["a", "b", ""]), max_size=4)] * 2), max_size=6
)


@pytest.mark.parametrize("mode", MODES)
@given(rows=rows, other=st.sampled_from([None, "a", {"name": "b"}, [3]]))
def test_a_row_is_judged_as_it_is_alone(mode, rows, other):
    """Whether the others call the same tools, are no lists of names, or are wrong."""
    rows = [*rows, (["a"], other)]
    evaluator = ef.ToolCalls(mode)

    together = cells(evaluator, *map(list, zip(*rows, strict=True)))

    alone = [cell(evaluator, called, expected) for called, expected in rows]
    assert [
        dict(zip(together, row, strict=True)) for row in zip(*together.values(), strict=True)
    ] == alone


@pytest.mark.parametrize("key", ["arguments", "args", "parameters", "input", "kwargs"])
def test_arguments_may_stand_under_any_of_the_usual_keys(key):
    """Frameworks do not agree on its name, and what differs under it must not pass."""
    rows = [
        {"tools_called": [{"name": "pay", key: {"eur": eur}}], "expected_tools": EXPECTED_PAYMENT}
        for eur in (9, 9000)
    ]

    scored = ef.run_experiment(rows, evaluators=ef.ToolCalls(arguments=True))

    assert scored.evals.scores["tool_calls"].tolist() == [1.0, 0.0]


EXPECTED_PAYMENT = [{"name": "pay", "arguments": {"eur": 9}}]


def test_arguments_under_an_unknown_key_fail_the_row():
    """A misspelt key is no call without arguments."""
    row = {"tools_called": [{"name": "pay", "argumets": {"eur": 9000}}]}
    row |= {"expected_tools": [{"name": "pay"}]}

    scored = ef.run_experiment([row], evaluators=ef.ToolCalls(arguments=True))

    assert scored["eval.tool_calls.error"][0].startswith(
        "invalid_result: item 1 of tools_called has 'argumets', but arguments stand under"
    )


@pytest.mark.parametrize("made", ['{"eur": 9', "[9]", "9", [9]])
def test_a_call_with_arguments_that_cannot_be_read_agrees_with_none(made):
    """That is the agent's mistake, and counts; among those expected it is one in the data."""
    broken = [{"name": "pay", "arguments": made}]
    rows = [
        {"tools_called": broken, "expected_tools": EXPECTED_PAYMENT},
        {"tools_called": EXPECTED_PAYMENT, "expected_tools": broken},
    ]

    scored = ef.run_experiment(rows, evaluators=ef.ToolCalls("set", arguments=True))

    assert scored["eval.tool_calls.score"][0] == 0.0
    assert scored["eval.tool_calls.error"][1].startswith("invalid_result: the arguments of item 1")


def test_arguments_is_a_bool():
    """A text would be true, whatever it says."""
    with pytest.raises(ValueError, match="arguments must be True or False, not 'no'"):
        ef.ToolCalls(arguments="no")
