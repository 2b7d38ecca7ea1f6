"""What holds for every built-in evaluator, in several configurations each.

A new one is added to CASES with its law: a plain function of one row's values that says what
the verdict is. Everything else is inherited.
"""

import copy
import json
import math
import pickle
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.core import schema
from evalframe.core.columns import Column
from evalframe.evaluators.normalize import Rules
from evalframe.evaluators.vectorized import place

FIELDS = ["label", "score", "explanation", "metadata", "error"]
NO_REFERENCE = "skipped: no reference"
EMPTY_REFERENCE = "skipped: empty reference"


@dataclass(frozen=True)
class Case:
    """A built-in evaluator and what it says of an output and, if it reads one, a reference."""

    evaluator: ef.Evaluator
    law: Callable[..., bool]
    numbers: bool = False

    @property
    def pairs(self):
        return self.law.__code__.co_argcount == 2

    def expected(self, output, reference):
        """The outcome of a row: True, False or the error."""
        if self.pairs and reference is None:
            return NO_REFERENCE
        if output is None:
            return False
        found = self.law(output, reference) if self.pairs else self.law(output)
        return found if isinstance(found, str) else bool(found)

    def frame(self, outputs, references):
        """The columns it reads, and no others."""
        columns = {"output": outputs, "dataset_output": references}
        return pd.DataFrame({name: columns[name] for name in list(columns)[: 1 + self.pairs]})


def spaced(text):
    """Without the white space that the option ignores."""
    return " ".join(text.split())


def canonical(text):
    """Case folded, in NFC before and after."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def is_json(text):
    """Whether Python reads it, without its extensions."""
    extensions = []
    try:
        json.loads(text, parse_constant=extensions.append)
    except ValueError:
        return False
    return not extensions


CASES = {
    "exact": Case(ef.ExactMatch(), lambda o, r: o == r),
    "exact-case": Case(
        ef.ExactMatch(ignore_case=True, threshold=0.5), lambda o, r: o.casefold() == r.casefold()
    ),
    "exact-space": Case(
        ef.ExactMatch(ignore_whitespace=True, accept_any=False),
        lambda o, r: spaced(o) == spaced(r),
    ),
    "exact-form": Case(
        ef.ExactMatch(ignore_case=True, ignore_whitespace=True, normal_form="NFC", name="same"),
        lambda o, r: spaced(canonical(o)) == spaced(canonical(r)),
    ),
    "contains-text": Case(ef.Contains("a", name="has_a"), lambda o: "a" in o),
    "contains-case": Case(ef.Contains("SS", ignore_case=True), lambda o: "ss" in o.casefold()),
    "contains-reference": Case(ef.Contains(), lambda o, r: r in o if r else EMPTY_REFERENCE),
    "contains-reference-case": Case(
        ef.Contains(ignore_case=True, mode="all"),
        lambda o, r: r.casefold() in o.casefold() if r else EMPTY_REFERENCE,
    ),
    "regex": Case(ef.Regex("^[a-e]+ ?"), lambda o: re.search("^[a-e]+ ?", o)),
    "regex-case": Case(
        ef.Regex("[aés]+", ignore_case=True, mode="fullmatch", name="aes"),
        lambda o: re.fullmatch("[aés]+", o, re.IGNORECASE),
    ),
    "one-of": Case(ef.OneOf(["a", "", "ß"]), lambda o: o in ("a", "", "ß")),
    "one-of-form": Case(
        ef.OneOf(["A B", "straße"], ignore_case=True, ignore_whitespace=True, name="allowed"),
        lambda o: spaced(o.casefold()) in ("a b", "strasse"),
    ),
    "numeric": Case(ef.NumericClose(), lambda o, r: math.isclose(r, o), numbers=True),
    "numeric-tolerance": Case(
        ef.NumericClose(rel_tol=0.1, abs_tol=0.5, threshold=1.0),
        lambda o, r: math.isclose(o, r, rel_tol=0.1, abs_tol=0.5),
        numbers=True,
    ),
    "json": Case(ef.ValidJSON(), is_json),
    "json-named": Case(ef.ValidJSON(name="parses", threshold=1), is_json),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
TEXT_CASES = {name: case for name, case in CASES.items() if not case.numbers}
text_case = pytest.mark.parametrize("case", TEXT_CASES.values(), ids=TEXT_CASES)

TEXTS = (["a", "b", None, "", "Straße", "a"], ["a", "A", "a", "", "STRASSE", None])
NUMBERS = ([1.0, 2.0, None, 0.0, 5.0, 1.0], [1.0, 2.1, 3.0, 0.0, -5.0, None])


def toy(case, dtype=None):
    """Six rows of what the evaluator is for, with nulls on both sides."""
    columns = (
        pd.Series(values, dtype=dtype or ("Float64" if case.numbers else "string"))
        for values in (NUMBERS if case.numbers else TEXTS)
    )
    return case.frame(*columns)


def expected(case, rows=range(6)):
    """What it has to say of the toy's rows."""
    outputs, references = NUMBERS if case.numbers else TEXTS
    return [case.expected(outputs[row], references[row]) for row in rows]


def run(case, frame, evaluator=None, **options):
    """The frame with the results."""
    return ef.run_experiment(
        frame, evaluators=[evaluator or case.evaluator], progress=False, **options
    )


def outcome(label, score, error):
    """True or False for a verdict whose label and score agree, else the error."""
    if error is not None:
        assert label is score is None
        return error
    assert (label, score) in [("True", 1.0), ("False", 0.0)]
    return label == "True"


def outcomes(scored, name):
    """The outcome of each row."""
    parts = [pa.array(scored[f"eval.{name}.{part}"]).to_pylist() for part in FIELDS]
    return [outcome(label, score, error) for label, score, _, _, error in zip(*parts, strict=True)]


def judged(case, frame, evaluator=None, **options):
    """The outcomes of a run."""
    evaluator = evaluator or case.evaluator
    return outcomes(run(case, frame, evaluator, **options), evaluator.name)


@every_case
def test_its_fingerprint_is_that_of_every_equal_one(case):
    """Read in full, whatever it is called; bound otherwise it differs, but for a version."""
    found = case.evaluator.fingerprint()

    assert found.unread == ()
    assert pickle.loads(pickle.dumps(case.evaluator)).fingerprint() == found
    assert case.evaluator.named("other").fingerprint() == found
    assert (case.evaluator.bind(output="a.b").fingerprint() == found) == (
        case.evaluator.version is not None
    )


@every_case
def test_it_pickles_to_an_equal_one(case):
    """By its arguments, name and bindings included."""
    changed = case.evaluator.bind(output="a.b").named("other")

    assert pickle.loads(pickle.dumps(case.evaluator)) == case.evaluator
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert pickle.loads(pickle.dumps(changed)).bindings == {"output": "a.b"}


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(case, way):
    """What is copied is what it does."""
    assert judged(case, toy(case), way(case.evaluator)) == expected(case)


@every_case
def test_its_repr_makes_it_again(case):
    """With the class in scope; also of a renamed and bound copy."""
    scope = {type(case.evaluator).__name__: type(case.evaluator)}
    changed = case.evaluator.bind(output="a.b").named("other")

    assert eval(repr(case.evaluator), scope) == case.evaluator  # noqa: S307 - our own text
    assert eval(repr(changed), scope) == changed  # noqa: S307


@every_case
def test_it_equals_only_what_does_the_same(case):
    """Other arguments, another name, other bindings or another class are unequal."""
    evaluator = case.evaluator
    others = [other.evaluator for other in CASES.values() if other is not case]

    assert [other for other in others if other == evaluator] == []
    assert evaluator != evaluator.named("other")
    assert evaluator != evaluator.bind(output="a.b")
    assert evaluator.named(evaluator.name) == evaluator
    assert hash(copy.deepcopy(evaluator)) == hash(evaluator)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(ef.ExactMatch, "exact_match", id="exact"),
        pytest.param(ef.Contains, "contains", id="contains"),
        pytest.param(lambda **given: ef.Regex("a", **given), "regex", id="regex"),
        pytest.param(lambda **given: ef.OneOf(["a"], **given), "one_of", id="one-of"),
        pytest.param(ef.NumericClose, "numeric_close", id="numeric"),
        pytest.param(ef.ValidJSON, "valid_json", id="json"),
    ],
)
def test_it_takes_name_and_threshold(made, name):
    """The name is the class in snake_case unless one is given."""
    given = made(name="mine", threshold=0.5)

    assert made().name == name
    assert (given.name, given.threshold) == ("mine", 0.5)
    assert (made().threshold, made().kind, made().score_range) == (None, "CODE", (0.0, 1.0))
    assert made(direction="minimize", version="2").direction == "minimize"
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0\.0, 1\.0\], not 2"):
        made(threshold=2)
    with pytest.raises(ValueError, match="dot"):
        made(name="a.b")


@every_case
def test_it_is_frozen(case):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match=r"is frozen, so 'name' cannot be set.*\.named\(\)"):
        case.evaluator.name = "other"


@every_case
def test_it_returns_the_columns_it_declares(case):
    """Five columns of fixed types after the frame's own, whatever the rows say."""
    frame, name = toy(case), case.evaluator.name

    scored = run(case, frame)

    assert list(scored) == [*frame, *(f"eval.{name}.{field}" for field in FIELDS)]
    text = pd.StringDtype("pyarrow")
    assert scored.evals[name][FIELDS].dtypes.tolist() == [
        text,
        pd.ArrowDtype(pa.float64()),
        text,
        text,
        text,
    ]


@every_case
def test_its_verdicts_are_those_of_its_law(case):
    """A null reference is skipped as "no reference", a null output scores 0.0."""
    assert judged(case, toy(case)) == expected(case)


@every_case
def test_it_does_not_change_its_input(case):
    """The caller's frame, and its columns in the result, are what they were."""
    frame = toy(case)
    before = frame.copy(deep=True)

    scored = run(case, frame)

    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(scored[list(frame)], before)


@every_case
def test_no_rows_give_typed_columns(case):
    """As with rows."""
    scored = run(case, toy(case).iloc[:0])

    assert scored.empty
    pd.testing.assert_series_equal(scored.dtypes, run(case, toy(case)).dtypes)


@every_case
@pytest.mark.parametrize("dtype", ["object", "float64", "Int64", "str", "string", "datetime64[ns]"])
def test_a_column_of_nothing_but_nulls_is_nulls(case, dtype):
    """Whatever type pandas gave it."""
    nulls, values = pd.Series([None, None], dtype=dtype), toy(case).iloc[:2]

    assert judged(case, values.assign(output=nulls)) == [False, False]
    assert (
        judged(case.__class__(case.evaluator, case.law), case.frame(nulls, nulls))
        == [case.expected(None, None)] * 2
    )


@every_case
def test_a_row_alone_gets_the_verdict_it_gets_among_others(case):
    """One row at a time, in each of its places."""
    frame = toy(case)

    assert [judged(case, frame.iloc[[row]])[0] for row in range(6)] == expected(case)


INDEXES = {
    "duplicates": pd.Index([7, 7, 7, 1, 1, 0]),
    "reversed": pd.Index([5, 4, 3, 2, 1, 0]),
    "float": pd.Index([0.5, float("nan"), 1.5, 2.0, 2.0, -1.0]),
    "text": pd.Index(list("aabbcc")),
    "times": pd.date_range("2024-05-01", periods=6, freq="h"),
    "multi": pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]),
}


@every_case
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_results_stand_on_their_rows_whatever_the_index(case, index):
    """By position; the index comes out as it went in."""
    scored = run(case, toy(case).set_axis(index))

    assert outcomes(scored, case.evaluator.name) == expected(case)
    pd.testing.assert_index_equal(scored.index, index)


@every_case
@pytest.mark.parametrize(
    "rows", [pytest.param([4, 0, 5], id="picked"), pytest.param([1, 1, 3], id="repeated")]
)
def test_a_part_of_a_frame_is_read_as_that_part(case, rows):
    """Rows that were filtered out have no say."""
    assert judged(case, toy(case).iloc[rows]) == expected(case, rows)


@text_case
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(object, id="object"),
        pytest.param("str", id="str"),
        pytest.param(pd.StringDtype("python"), id="string-python"),
        pytest.param(pd.StringDtype("pyarrow"), id="string-pyarrow"),
        pytest.param(pd.ArrowDtype(pa.string()), id="arrow-string"),
        pytest.param(pd.ArrowDtype(pa.large_string()), id="arrow-large-string"),
        pytest.param(pd.ArrowDtype(pa.string_view()), id="arrow-string-view"),
        pytest.param("category", id="category"),
        pytest.param(pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())), id="arrow-dictionary"),
    ],
)
def test_text_is_text_in_every_dtype(case, dtype):
    """Also beside another dtype of text."""
    frame = toy(case, dtype)

    assert judged(case, frame) == expected(case)
    assert judged(case, frame.assign(output=toy(case)["output"])) == expected(case)


@every_case
def test_columns_in_pieces_are_read_in_pieces(case):
    """Arrow columns from files come in chunks, cut at other rows in each column."""
    whole = toy(case)
    cuts = {"output": (2, 2), "dataset_output": (1, 5)}
    frame = pd.DataFrame(
        {
            name: pd.arrays.ArrowExtensionArray(
                pa.chunked_array(
                    [
                        pa.array(whole[name][:a]),
                        pa.array(whole[name][a:b], pa.array(whole[name]).type),
                        pa.array(whole[name][b:]),
                    ]
                )
            )
            for name, (a, b) in cuts.items()
            if name in whole
        }
    )

    assert judged(case, frame) == expected(case)


@every_case
def test_it_judges_what_a_task_made(case):
    """The same values as outputs of a task."""
    frame = toy(case)
    outputs = [None if pd.isna(value) else value for value in frame.pop("output")]
    rows = frame.assign(input=range(6))

    assert judged(case, rows, task=lambda input: outputs[input]) == expected(case)


@every_case
def test_rows_whose_task_failed_are_left_out(case):
    """Their cells say so, the others have their verdicts."""
    frame = toy(case)
    outputs = [None if pd.isna(value) else value for value in frame.pop("output")]
    rows = frame.assign(input=[0, 1, 99, 3, 99, 5])

    found = judged(case, rows, task=lambda input: outputs[input])

    assert [found[2], found[4]] == ["task_failed: not run, the task failed"] * 2
    assert [found[row] for row in (0, 1, 3, 5)] == expected(case, (0, 1, 3, 5))


@every_case
def test_it_reads_other_columns_by_path_and_function(case):
    """As `.bind` says: into dicts for the one, from the row for the other."""
    frame = toy(case)
    values = {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame}
    nested = pd.DataFrame(
        {
            "reply": [{"final": [{"value": value}]} for value in values["output"]],
            "truth": values.get("dataset_output", values["output"]),
        }
    )
    truth = {"dataset_output": lambda truth: truth} if case.pairs else {}

    bound = case.evaluator.bind(output="reply.final.0.value", **truth)

    assert judged(case, nested, bound) == expected(case)


@every_case
def test_repetitions_are_judged_each(case):
    """Row 1 twice, then row 2."""
    rows = [row for row in range(6) for _ in range(2)]

    assert judged(case, toy(case), repetitions=2) == expected(case, rows)


ODD = [
    "a",
    "1",
    "",
    None,
    1,
    -2.5,
    True,
    10**400,
    float("inf"),
    Decimal("1.5"),
    Decimal("sNaN"),
    [],
    ["a", None],
    [1, [2]],
    ("a",),
    {},
    {"a": {"b": float("nan")}},
    b"a",
    pd.Timestamp("2024-05-01"),
    pd.Timestamp("2024-05-01").date(),
    pd.Timedelta("1h"),
]


def objects(values):
    """A column of Python values, of which pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def cells_of(case, frame):
    """The cells of the columns as they are given to it, with no check before."""
    columns = [Column(name, frame[name]).vector() for name in frame]
    found = place(case.evaluator.function(*columns), frame.index, Rules()).arrays
    parts = (found[name].to_pylist() for name in (schema.LABEL, schema.SCORE, schema.ERROR))
    return list(zip(*parts, strict=True))


@every_case
def test_odd_values_are_judged_or_fail_for_themselves(case):
    """Every kind of value against every other: no exception, and never a cell of its neighbour."""
    pairs = [(output, reference) for output in ODD for reference in ODD]
    frame = case.frame(*(objects([pair[side] for pair in pairs]) for side in (0, 1)))

    together = cells_of(case, frame)

    alone = [cells_of(case, frame.iloc[[row]])[0] for row in range(len(pairs))]
    assert together == alone
    kinds = {(error or "valid").partition(":")[0] for _, _, error in together}
    assert kinds <= {"valid", "skipped", "invalid_result"}
    nulls = [cell for cell, (output, _) in zip(together, pairs, strict=True) if output is None]
    assert {score for _, score, _ in nulls} <= {0.0, None}


@every_case
def test_odd_values_come_out_as_they_went_in(case):
    """Lists, dicts and times of a mixed column are not touched."""
    values = [value for value in ODD if not isinstance(value, Decimal)]
    frame = case.frame(objects(values), objects(values))
    before = copy.deepcopy(values)

    scored = run(case, frame)

    assert list(map(repr, scored["output"])) == list(map(repr, before))
    assert list(map(repr, frame["output"])) == list(map(repr, before))


ALPHABET = [
    *"aAbBsSßẞſkK\u212aİıΣσςﬁeEéÉ\u0301\u0323\u0345",
    *" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200b",
    *'{}[]",:1\0',
]
words = (
    st.text(st.sampled_from(ALPHABET), max_size=5)
    | st.sampled_from(["a b", "straße", "STRASSE", '{"a": 1}', "[]", "null", "NaN"])
    | st.text(max_size=4)
)
CHANGES = [
    str,
    str.casefold,
    str.upper,
    lambda text: f"\u3000{text}\n",
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: text[:2],
]
text_rows = st.lists(
    st.tuples(st.none() | words, st.none() | words)
    | st.builds(lambda text, change: (text, change(text)), words, st.sampled_from(CHANGES)),
    max_size=8,
)
floats = st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 1.05, -1.0, 0.4])
number_rows = st.lists(
    st.tuples(floats, floats) | floats.map(lambda number: (number, number)), max_size=8
)


@every_case
@given(data=st.data())
@settings(max_examples=30)
def test_a_column_is_judged_as_the_law_judges_each_row(case, data):
    """Nulls, empty text, every white space, and letters whose case is special included."""
    rows = data.draw(number_rows if case.numbers else text_rows)
    dtype = "double[pyarrow]" if case.numbers else "string"
    frame = case.frame(*(pd.Series([row[side] for row in rows], dtype=dtype) for side in (0, 1)))

    found = [outcome(*cell) for cell in cells_of(case, frame)]

    assert found == [case.expected(*row) for row in rows]
