"""Exact match: what is equal, what is not, and what cannot be compared.

The cases that are named H.. were real failures of other tools.
"""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

NAN, INF = float("nan"), float("inf")
NO_REFERENCE = "skipped: no reference"
BERLIN = ZoneInfo("Europe/Berlin")


def arrow(kind, *values):
    """A column of an Arrow type."""
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type=kind)))


def test_h45_texts_are_compared_character_by_character(judge):
    """No sets of words, no numbers inside, no Unicode forms: only the same text is the same."""
    output = ["b a", "go go", "25", "5", "\u00e9", "x"]
    reference = ["a b", "go", "5", "-5", "e\u0301", "x"]

    assert judge(ef.ExactMatch(), output, reference) == [False] * 5 + [True]


def test_h45_composed_and_decomposed_letters_are_equal_on_demand(judge):
    """With a Unicode normal form, the two spellings of a letter are one text."""
    assert judge(ef.ExactMatch(normal_form="NFC"), ["\u00e9"], ["e\u0301"]) == [True]


H48 = {
    "null-output-dict-reference": (None, {"amount": 100}, False),
    "dict-output-null-reference": ({"amount": 100}, None, NO_REFERENCE),
    "bool-list": (True, [1], False),
    "list-bool": ([1], True, False),
    "number-dict": (3, {"a": 1}, False),
    "dict-number": ({"a": 1}, 3, False),
    "text-null": ("x", None, NO_REFERENCE),
    "null-text": (None, "x", False),
    "null-null": (None, None, NO_REFERENCE),
}


@pytest.mark.parametrize(("output", "reference", "outcome"), H48.values(), ids=H48)
def test_h48_values_of_different_kinds_are_unequal_and_no_error(judge, output, reference, outcome):
    """A null output scores 0.0, a null reference is skipped, the rest is just not equal."""
    assert judge(ef.ExactMatch(), [output], [reference]) == [outcome]


def test_h48_all_of_these_in_one_column(judge):
    """What a cell becomes does not depend on its neighbours."""
    outputs, references, outcomes = zip(*H48.values(), strict=True)

    assert judge(ef.ExactMatch(), outputs, references) == list(outcomes)


@pytest.mark.parametrize(
    "null",
    [
        pytest.param(None, id="none"),
        pytest.param(NAN, id="nan"),
        pytest.param(pd.NA, id="na"),
        pytest.param(pd.NaT, id="nat"),
    ],
)
def test_h07_every_kind_of_null_is_no_reference(judge, null):
    """Not the text "nan", not an empty dict, not an error."""
    assert judge(ef.ExactMatch(), ["nan", {"answer": "4"}], [null, {"answer": "4"}]) == [
        NO_REFERENCE,
        True,
    ]


def test_h10_a_skipped_row_neither_passes_nor_fails():
    """A threshold is not compared with a score that is not there, and means leave it out."""
    frame = pd.DataFrame(
        {"output": ["a", "b", "c"], "dataset_output": ["a", None, "x"]}, dtype="string"
    )

    scored = ef.run_experiment(frame, evaluators=[ef.ExactMatch(threshold=0.5)], progress=False)

    assert scored.evals.passed["exact_match"].tolist() == [True, pd.NA, False]
    summary = scored.evals.summary().iloc[0]
    assert summary[["n", "n_valid", "n_skipped", "n_failed", "mean"]].tolist() == [3, 2, 1, 0, 0.5]


def test_h19_arrays_from_plain_parquet_equal_lists(judge):
    """A list that came back as a NumPy array is the list it was."""
    output = [np.array(["x", "y"], dtype=object), np.array([1, 2])]

    assert judge(ef.ExactMatch(), output, [["x", "y"], [1, 3]]) == [True, False]


def test_h20_dicts_with_different_keys_are_not_padded():
    """Each row's dict has its own keys, equal to the same dict and to no padded one."""
    called = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]
    padded = [[{"name": "search", "args": {"q": "x", "id": None}}], called[1]]
    frame = pd.DataFrame({"called": called, "same": called, "padded": padded})
    reads = {"same": "same", "padded": "padded"}
    exact = [
        ef.ExactMatch(name=name).bind(output="called", dataset_output=column)
        for name, column in reads.items()
    ]

    scores = ef.run_experiment(frame, evaluators=exact, progress=False).evals.scores

    assert scores.to_dict("list") == {"same": [1.0, 1.0], "padded": [0.0, 1.0]}


@pytest.mark.parametrize(
    "value",
    [pytest.param(value, id=repr(value)) for value in (0, 0.0, False, "", [], {}, dt.timedelta(0))],
)
def test_h58_falsy_values_are_values(judge, value):
    """Zero, false and empty are not missing."""
    assert judge(ef.ExactMatch(), [value], [value]) == [True]


@pytest.mark.parametrize(
    ("output", "reference", "equal"),
    [
        pytest.param(1, 1.0, True, id="int-and-float"),
        pytest.param(2**53 + 1, float(2**53), False, id="int-beyond-float-precision"),
        pytest.param(2**53, float(2**53), True, id="int-at-float-precision"),
        pytest.param(10**400, 10**400, True, id="int-beyond-any-float"),
        pytest.param(10**400, INF, False, id="int-beyond-any-float-is-not-infinite"),
        pytest.param(INF, INF, True, id="infinity"),
        pytest.param(-INF, INF, False, id="infinities-of-both-signs"),
        pytest.param(0.0, -0.0, True, id="zeros-of-both-signs"),
        pytest.param(0.1 + 0.2, 0.3, False, id="no-tolerance"),
        pytest.param(True, 1, False, id="bool-is-no-int"),
        pytest.param(0.0, False, False, id="float-is-no-bool"),
        pytest.param({"a": True}, {"a": 1}, False, id="bool-is-no-number-inside"),
        pytest.param(Decimal("1.10"), Decimal("1.1"), True, id="decimals-by-value"),
        pytest.param(Decimal("0.5"), 0.5, True, id="decimal-and-float-of-one-value"),
        pytest.param(Decimal("0.1"), 0.1, False, id="decimal-and-float-nearly-alike"),
        pytest.param(Decimal("sNaN"), Decimal(1), False, id="signaling-nan"),
        pytest.param([Decimal("NaN")], [Decimal("NaN")], True, id="decimal-nan-inside"),
    ],
)
@pytest.mark.parametrize("way", ["there", "back"])
def test_numbers_are_equal_by_exact_value(judge, output, reference, equal, way):
    """Nothing is rounded to be compared, and a bool is no number, both ways."""
    pair = (output, reference) if way == "there" else (reference, output)

    assert judge(ef.ExactMatch(), *([value] for value in pair)) == [equal]


@pytest.mark.parametrize(
    ("output", "reference", "equal"),
    [
        pytest.param(pa.int8(), pa.int64(), True, id="widths-of-int"),
        pytest.param(pa.uint64(), pa.int64(), True, id="signed-and-unsigned"),
        pytest.param(pa.float32(), pa.float64(), True, id="widths-of-float"),
        pytest.param(pa.int64(), pa.float64(), True, id="int-and-float"),
        pytest.param(pa.decimal128(5, 2), pa.decimal128(9, 4), True, id="scales-of-decimal"),
        pytest.param(pa.decimal128(5, 2), pa.int64(), True, id="decimal-and-int"),
        pytest.param(pa.bool_(), pa.int64(), False, id="bool-and-int"),
        pytest.param(pa.large_string(), pa.string_view(), True, id="kinds-of-text"),
    ],
)
def test_columns_of_different_arrow_types_compare_by_value(judge, output, reference, equal):
    """The width of a column is no part of a value; a null keeps its meaning."""
    text = pa.types.is_large_string(output)
    one, two = ("1", "2") if text else (1, 2)
    found = [one, two, None, one] if not pa.types.is_boolean(output) else [True, True, None, True]
    columns = arrow(output, *found), arrow(reference, one, one, one, None)

    assert judge(ef.ExactMatch(), *columns) == [equal, False, False, NO_REFERENCE]


def test_unsigned_integers_beyond_int64_compare_by_value(judge):
    """They neither wrap around nor fail."""
    columns = arrow(pa.uint64(), 2**63, 2**64 - 1, 5), arrow(pa.int64(), -(2**63), -1, 5)

    assert judge(ef.ExactMatch(), *columns) == [False, False, True]


def test_float16_columns_compare_by_value(judge):
    """Arrow has no kernel that compares them, which is no reason to fail."""
    columns = (pd.Series([1.5, 2.5, None, 1.0], dtype="f2"), pd.Series([1.5, 2, 3, None]))

    assert judge(ef.ExactMatch(), *columns) == [True, False, False, NO_REFERENCE]


NOON = dt.datetime(2024, 5, 1, 12)


@pytest.mark.parametrize(
    ("output", "reference", "equal"),
    [
        pytest.param(NOON, NOON, True, id="naive"),
        pytest.param(
            NOON.replace(tzinfo=dt.UTC),
            NOON.replace(tzinfo=dt.UTC).astimezone(BERLIN),
            True,
            id="one-moment-in-two-zones",
        ),
        pytest.param(NOON, NOON.replace(tzinfo=dt.UTC), False, id="naive-and-aware"),
        pytest.param(NOON, NOON.date(), False, id="moment-and-day"),
        pytest.param(dt.timedelta(hours=1), dt.timedelta(minutes=60), True, id="durations"),
        pytest.param(pd.Timestamp(NOON), NOON, True, id="pandas-timestamp"),
        pytest.param(b"a", b"a", True, id="bytes"),
    ],
)
@pytest.mark.parametrize("dtype", ["object", None])
def test_times_are_equal_as_moments(judge, output, reference, equal, dtype):
    """The zone is how a moment is written; a naive time is no moment and equals none."""
    columns = (pd.Series([value], dtype=dtype) for value in (output, reference))

    assert judge(ef.ExactMatch(), *columns) == [equal]


@pytest.mark.parametrize(
    ("output", "reference", "equal"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="key-order"),
        pytest.param({"a": None}, {}, False, id="null-is-not-absent"),
        pytest.param(["foo", 1, None], ["foo", 1, None], True, id="null-inside-is-a-value"),
        pytest.param([1, 2], [2, 1], False, id="item-order"),
        pytest.param([1], [1, 1], False, id="length"),
        pytest.param((1, 2), [1, 2], True, id="tuple-and-list"),
        pytest.param({"a": [1, {"b": NAN}]}, {"a": [1.0, {"b": NAN}]}, True, id="nan-inside"),
        pytest.param({"a": [NAN]}, {"a": [None]}, False, id="nan-inside-is-not-null"),
        pytest.param({"n": "1"}, {"n": 1}, False, id="text-and-number-inside-are-unequal"),
        pytest.param('{"a": 1}', {"a": 1}, False, id="json-text-is-no-dict"),
    ],
)
def test_lists_and_dicts_are_equal_part_by_part(judge, output, reference, equal):
    """Order counts in lists and not in dicts."""
    assert judge(ef.ExactMatch(accept_any=False), [output], [reference]) == [equal]


def test_what_is_nested_too_deeply_fails_alone():
    """A value beyond Python's recursion limit costs its own cell, not the column's."""
    deep = "x"
    for _ in range(5_000):
        deep = [deep]
    outputs, references = (pd.Series([deep, [1]], dtype=object) for _ in range(2))

    good, fine = ef.ExactMatch().evaluate(outputs, references)

    assert good.error.startswith("invalid_result: output and dataset_output are nested too deeply")
    assert fine is True


@pytest.mark.parametrize(
    ("output", "answers", "outcome"),
    [
        pytest.param("NYC", ["New York", "NYC"], True, id="one-of-them"),
        pytest.param("LA", ["New York", "NYC"], False, id="none-of-them"),
        pytest.param("LA", [], NO_REFERENCE, id="no-answer"),
        pytest.param("LA", [None, "LA"], True, id="null-among-them"),
        pytest.param("LA", [None], NO_REFERENCE, id="nothing-but-null"),
        pytest.param(None, [None], NO_REFERENCE, id="nothing-on-either-side"),
        pytest.param(4, (), NO_REFERENCE, id="empty-tuple"),
        pytest.param([], [None], False, id="an-empty-list-is-compared-as-a-list"),
        pytest.param(None, ["LA"], False, id="null-output"),
        pytest.param(4, [4.0, 5.0], True, id="numbers"),
        pytest.param({"a": 1}, [{"a": 1}, {"b": 2}], True, id="dicts"),
        pytest.param("b", ("a", "b"), True, id="tuple-of-answers"),
        pytest.param(["a"], [["a"], ["b"]], False, id="a-list-is-compared-as-a-list"),
        pytest.param(["a", "b"], ["a", "b"], True, id="a-list-equals-the-list"),
        pytest.param("4", [4, "four"], False, id="number-among-texts-is-just-unequal"),
    ],
)
def test_a_list_as_reference_holds_accepted_answers(judge, output, answers, outcome):
    """One of them is enough, unless the output is a list itself."""
    assert judge(ef.ExactMatch(), [output], [answers]) == [outcome]


def test_accepted_answers_can_be_turned_off(judge):
    """With accept_any=False a list is equal to the same list only."""
    output, reference = ["a", ["a"]], [["a"], ["a"]]

    assert judge(ef.ExactMatch(accept_any=False), output, reference) == [False, True]


@pytest.mark.parametrize(
    ("options", "output", "reference"),
    [
        pytest.param({"ignore_case": True}, "STRASSE", "straße", id="case-of-sharp-s"),
        pytest.param({"ignore_case": True}, "ΟΔΟΣ", "οδος", id="case-of-final-sigma"),
        pytest.param({"ignore_whitespace": True}, " a\u00a0\n b\t", "a b", id="white-space"),
        pytest.param({"normal_form": "NFKC"}, "ﬁne １", "fine 1", id="compatibility-form"),
        pytest.param(
            {"ignore_case": True, "ignore_whitespace": True, "normal_form": "NFKC"},
            "\u3000CAFE\u0301  ＯＫ\u2003",
            "caf\u00e9 ok",
            id="all-together",
        ),
        pytest.param(
            {"ignore_case": True, "normal_form": "NFC"},
            "\u017f\u0301",
            "\u015a",
            id="folding-keeps-the-normal-form",
        ),
    ],
)
@pytest.mark.parametrize("accepted", [False, True], ids=["text", "accepted-answers"])
def test_options_act_on_both_sides_and_together(judge, options, output, reference, accepted):
    """Both texts are brought into the same form, in plain columns and in lists of answers."""
    wanted = ["no", reference] if accepted else reference

    assert judge(ef.ExactMatch(), [output, "x"], [wanted, "x"]) == [False, True]
    assert judge(ef.ExactMatch(**options), [output, "x"], [wanted, "x"]) == [True, True]


def test_options_reach_texts_inside_but_no_keys(judge):
    """A dict's keys are names."""
    output, reference = [{"a": ["X"]}, {"A": "x"}], [{"a": ["x"]}, {"a": "x"}]

    assert judge(ef.ExactMatch(ignore_case=True), output, reference) == [True, False]


def test_an_unknown_normal_form_is_refused():
    """When it is made, naming the choices."""
    with pytest.raises(ValueError, match=r"normal_form must be one of .*'NFKC'.*, not 'nfc'"):
        ef.ExactMatch(normal_form="nfc")


TEXT, NUMBERS = ["1", None, "x"], [1, 2, 3]


@pytest.mark.parametrize(
    ("output", "reference", "said"),
    [
        pytest.param(TEXT, NUMBERS, "text with numbers", id="text-output"),
        pytest.param(NUMBERS, TEXT, "text with numbers", id="text-reference"),
        pytest.param(TEXT, [[1, 2], [3], None], "text with numbers", id="numbers-as-answers"),
        pytest.param(NUMBERS, [["1"], ["3"], None], "text with numbers", id="texts-as-answers"),
        pytest.param(TEXT, [True, False, None], "text with bools", id="bools"),
        pytest.param(TEXT, [NOON] * 3, r"text with timestamp\[us\]", id="times"),
        pytest.param(
            pd.Series(["1", "2"], dtype="category"), pd.Series([1, 2]), "numbers", id="category"
        ),
    ],
)
def test_text_against_another_type_is_refused_before_the_run(judge, output, reference, said):
    """No column of zeros: the error names both types and the way out."""
    message = rf"'exact_match': it compares .*{said}: .*Make them alike first: .*astype\('string'\)"
    with pytest.raises(ef.ExperimentError, match=message):
        judge(ef.ExactMatch(), output, reference)


def test_the_ways_out_that_the_error_names_work(judge):
    """pd.to_numeric of the text, or the numbers' .astype("string"); nulls stay nulls."""
    texts, numbers = pd.Series(["1", None, "7"], dtype="string"), pd.Series([1, 2, 3])

    assert judge(ef.ExactMatch(), pd.to_numeric(texts), numbers) == [True, False, False]
    assert judge(ef.ExactMatch(), texts, numbers.astype("string")) == [True, False, False]


FAILED = "invalid_result: text is not compared with other values: output is "


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        pytest.param(TEXT, NUMBERS, id="text-output"),
        pytest.param(NUMBERS, TEXT, id="text-reference"),
        pytest.param(TEXT, [[1, 2], [3], [4, None]], id="numbers-as-answers"),
    ],
)
def test_text_against_numbers_after_a_task_is_failed_cells(judge_task, output, reference):
    """Their types are known too late to refuse the run, and are still no wrong answers."""
    outcomes = judge_task(ef.ExactMatch(), output, reference)

    assert [outcome for outcome in outcomes if not str(outcome).startswith(FAILED)] in (
        [False],
        [NO_REFERENCE],
    )


def test_a_failed_cell_shows_both_values(judge):
    """In a mixed column only the rows that do not fit fail."""
    output, reference = ["4", "x", 4, 2.5], [4, "x", 4, True]

    outcomes = judge(ef.ExactMatch(), output, reference)

    assert outcomes == [FAILED + "'4' (str), dataset_output is 4 (int)", True, True, False]


@pytest.mark.parametrize(
    "null",
    [
        pytest.param(pd.Series([None, None], dtype=object), id="object"),
        pytest.param(pd.Series([NAN, NAN]), id="float"),
        pytest.param(pd.Series([pd.NA, pd.NA], dtype="Int64"), id="masked"),
        pytest.param(pd.Series([pd.NaT, pd.NaT]), id="datetime"),
    ],
)
def test_a_column_of_nothing_but_nulls_has_no_type(judge, null):
    """What pandas makes of a column without values is no mismatch with text."""
    text = pd.Series(["a", "b"])

    assert judge(ef.ExactMatch(), null, text) == [False, False]
    assert judge(ef.ExactMatch(), text, null) == [NO_REFERENCE, NO_REFERENCE]
