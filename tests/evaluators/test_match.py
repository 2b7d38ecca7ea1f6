"""Contains, Regex and OneOf: what they find, what they refuse."""

import re
import time

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef

NO_REFERENCE = "skipped: no reference"
EMPTY_REFERENCE = "skipped: empty reference"


def test_h25_two_of_one_class_need_two_names():
    """Same-named results are refused before any call, and never overwrite each other."""
    frame = pd.DataFrame({"output": ["a cat", "a dog"]})
    both = [ef.Contains("cat"), ef.Contains("dog")]
    message = r"Two evaluators are named 'contains'.*\.named\('contains_2'\)"

    with pytest.raises(ef.ExperimentError, match=message):
        ef.run_experiment(frame, evaluators=both, progress=False)


@pytest.mark.parametrize(
    "both",
    [
        pytest.param([ef.Contains("cat", name="cat"), ef.Contains("dog", name="dog")], id="name"),
        pytest.param([ef.Contains("cat").named("cat"), ef.Contains("dog").named("dog")], id="of"),
        pytest.param({"cat": ef.Contains("cat"), "dog": ef.Contains("dog")}, id="mapping"),
    ],
)
def test_h25_two_names_give_two_sets_of_columns(both):
    """Each keeps its own setting."""
    frame = pd.DataFrame({"output": ["a cat", "a dog"]})

    scores = ef.run_experiment(frame, evaluators=both, progress=False).evals.scores

    assert scores.to_dict("list") == {"cat": [1.0, 0.0], "dog": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("evaluator", "output", "found"),
    [
        pytest.param(ef.Contains("cat"), "concat", True, id="inside-a-word"),
        pytest.param(ef.Contains("cat"), "Cat", False, id="case-counts"),
        pytest.param(ef.Contains("STRASSE", ignore_case=True), "die Straße", True, id="case-fold"),
        pytest.param(ef.Contains("a.c"), "abc", False, id="no-pattern"),
        pytest.param(ef.Contains("a\0b"), "xa\0b", True, id="zero-character"),
        pytest.param(ef.Contains(" "), "ab", False, id="space"),
        pytest.param(ef.Contains("\u00e9"), "e\u0301", False, id="no-unicode-form"),
        pytest.param(ef.Contains("cat"), "", False, id="empty-output"),
    ],
)
@pytest.mark.parametrize("given", ["text", "reference"])
def test_contains_looks_for_characters(judge, evaluator, output, found, given):
    """A fixed text and the row's reference are looked for in the same way."""
    if given == "text":
        assert judge(evaluator, [output]) == [found]
    else:
        against = ef.Contains(ignore_case=evaluator.form.ignore_case)
        assert judge(against, [output], [evaluator.text]) == [found]


@pytest.mark.parametrize(
    ("output", "reference", "some", "every"),
    [
        pytest.param("a b", ["a", "b"], True, True, id="both"),
        pytest.param("a b", ["a", "c"], True, False, id="one"),
        pytest.param("a b", ("c", "d"), False, False, id="neither"),
        pytest.param("a b", [], NO_REFERENCE, NO_REFERENCE, id="none-asked-for"),
        pytest.param("a b", [None], NO_REFERENCE, NO_REFERENCE, id="nothing-but-null"),
        pytest.param(None, [None], NO_REFERENCE, NO_REFERENCE, id="nothing-on-either-side"),
        pytest.param("a b", [None, ""], EMPTY_REFERENCE, EMPTY_REFERENCE, id="null-and-empty"),
        pytest.param("a b", [None, "a"], True, True, id="null-among-others"),
        pytest.param("a b", [None, "c"], False, False, id="null-is-no-match"),
        pytest.param("a b", "a", True, True, id="text"),
        pytest.param("a b", "", EMPTY_REFERENCE, EMPTY_REFERENCE, id="empty-text"),
        pytest.param("a b", ["", "c"], False, False, id="empty-text-among-others"),
        pytest.param("a b", [None, "b"], True, True, id="null-among-others"),
        pytest.param(None, ["a"], False, False, id="null-output"),
        pytest.param("a b", None, NO_REFERENCE, NO_REFERENCE, id="null-reference"),
    ],
)
def test_contains_takes_any_or_all_of_several_references(judge, output, reference, some, every):
    """Nulls and empty texts say nothing: a reference of nothing else is skipped."""
    columns = [output, "x"], [reference, ["x"]]

    assert judge(ef.Contains(), *columns) == [some, True]
    assert judge(ef.Contains(mode="all"), *columns) == [every, True]


@pytest.mark.parametrize(
    ("output", "reference", "message"),
    [
        pytest.param(4, "4", "output is 4 (int), not text", id="output"),
        pytest.param("4", 4, "dataset_output is 4 (int), not text", id="reference"),
        pytest.param("4", ["4", 4], "dataset_output is 4 (int), not text", id="part"),
        pytest.param(["4"], "4", "output is ['4'] (list), not text", id="list-output"),
    ],
)
def test_contains_fails_where_a_value_is_no_text(judge, output, reference, message):
    """Only there: the row beside it has its verdict."""
    outcomes = judge(ef.Contains(), [output, "a"], [reference, "a"])

    assert outcomes == [f"invalid_result: {message}", True]


@pytest.mark.parametrize("text", ["", 4, b"a"], ids=repr)
def test_contains_refuses_to_look_for_nothing(text):
    """Every text contains the empty one: that is no evaluation."""
    with pytest.raises(ValueError, match=r"Contains needs a text that is not empty, not "):
        ef.Contains(text)


def test_contains_refuses_an_unknown_mode():
    """Naming the two there are."""
    with pytest.raises(ValueError, match=r"mode must be 'any' or 'all', not 'each'"):
        ef.Contains(mode="each")


@pytest.mark.parametrize(
    ("pattern", "options", "output", "found"),
    [
        pytest.param(r"\d+", {}, "It is 42.", True, id="anywhere"),
        pytest.param(r"\d+", {"mode": "fullmatch"}, "It is 42.", False, id="not-the-whole"),
        pytest.param("a|ab", {"mode": "fullmatch"}, "ab", True, id="whole-alternative"),
        pytest.param("^b$", {"mode": "fullmatch"}, "a\nb", False, id="whole-is-not-a-line"),
        pytest.param("(?m)^b$", {}, "a\nb", True, id="line-on-demand"),
        pytest.param("a$", {}, "a\n", False, id="dollar-is-the-very-end"),
        pytest.param("a.b", {}, "a\nb", False, id="dot-is-no-line-break"),
        pytest.param("(?s)a.b", {}, "a\nb", True, id="dot-is-any-on-demand"),
        pytest.param(r"\d", {}, "\u0665", False, id="digits-are-ascii"),
        pytest.param(r"\s", {}, "\u00a0", False, id="spaces-are-ascii"),
        pytest.param(r"\p{Nd}", {}, "\u0665", True, id="digits-of-any-script"),
        pytest.param(r"\p{L}", {"mode": "fullmatch"}, "é", True, id="a-letter-is-one-character"),
        pytest.param("", {}, "", True, id="empty-pattern"),
        pytest.param("a\0", {}, "a\0", True, id="zero-character"),
    ],
)
def test_regex_is_re2(judge, pattern, options, output, found):
    """The syntax that the class documents."""
    assert judge(ef.Regex(pattern, **options), [output]) == [found]


@pytest.mark.parametrize(
    ("pattern", "output", "found"),
    [
        pytest.param("É", "é", True, id="accented"),
        pytest.param("Ж", "ж", True, id="cyrillic"),
        pytest.param("Σ", "ς", True, id="final-sigma"),
        pytest.param("s", "ſ", True, id="long-s"),
        pytest.param("k", "\u212a", True, id="kelvin"),
        pytest.param("ß", "ẞ", True, id="sharp-s"),
        pytest.param("ß", "SS", False, id="one-letter-is-not-two"),
        pytest.param("i", "İ", False, id="dotted-i"),
        pytest.param("[à-ý]", "Ü", True, id="range"),
        pytest.param(r"\p{Lu}", "é", True, id="class"),
    ],
)
@pytest.mark.parametrize("mode", ["search", "fullmatch"])
def test_regex_ignores_case_beyond_ascii(judge, pattern, output, found, mode):
    """Letter by letter, as Unicode's simple case folding says."""
    assert judge(ef.Regex(pattern, mode=mode, ignore_case=True), [output]) == [found]
    assert judge(ef.Regex("X" + pattern, mode=mode), ["x" + output]) == [False]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        pytest.param("(?=a)b", r"invalid perl operator: \(\?=", id="look-ahead"),
        pytest.param("(?<!a)b", "invalid", id="look-behind"),
        pytest.param(r"(a)\1", r"invalid escape sequence: \\1", id="back-reference"),
        pytest.param("(?>a)", "invalid perl operator", id="atomic-group"),
        pytest.param("[", "missing ]", id="open-bracket"),
        pytest.param("a)|(?:b", r"unexpected \)", id="closes-what-it-did-not-open"),
        pytest.param("a\\", r"trailing \\", id="open-escape"),
        pytest.param("a{1001}", "invalid repetition size", id="too-many"),
        pytest.param("\ud800", "surrogates not allowed", id="surrogate"),
        pytest.param(None, "it is no text, such as r'", id="none"),
        pytest.param(re.compile("a"), "it is no text, such as r'", id="compiled"),
    ],
)
@pytest.mark.parametrize("mode", ["search", "fullmatch"])
def test_regex_refuses_what_re2_cannot_match(pattern, said, mode):
    """When it is made; the error says what is wrong and what to write instead."""
    message = f"is not an RE2 pattern: .*{said}.*def matches.output.: return re.search"
    with pytest.raises(ValueError, match=message):
        ef.Regex(pattern, mode=mode)


def test_regex_refuses_an_unknown_mode():
    """Naming the two there are."""
    with pytest.raises(ValueError, match=r"mode must be 'search' or 'fullmatch', not 'match'"):
        ef.Regex("a", mode="match")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", r"(\w*)*!"], ids=str)
def test_regex_takes_time_linear_in_the_text(judge, pattern):
    """Patterns on which backtracking engines hang."""
    started = time.process_time()

    assert judge(ef.Regex(pattern, mode="fullmatch"), ["a" * 20_000 + "b"]) == [False]

    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("options", "output", "allowed"),
    [
        pytest.param({}, "yes", True, id="same"),
        pytest.param({}, "Yes", False, id="case-counts"),
        pytest.param({}, "yes ", False, id="space-counts"),
        pytest.param({}, "ye", False, id="part"),
        pytest.param({}, "", False, id="empty"),
        pytest.param({"ignore_case": True}, "YES", True, id="ignored-case"),
        pytest.param({"ignore_case": True}, "MASSE", True, id="folded-choice"),
        pytest.param({"ignore_whitespace": True}, "\u2003not  sure\n", True, id="ignored-space"),
        pytest.param(
            {"ignore_case": True, "ignore_whitespace": True}, "NOT\tSURE", True, id="both"
        ),
    ],
)
def test_one_of_compares_with_fixed_choices(judge, options, output, allowed):
    """Choices and outputs are brought into the same form."""
    choices = ["yes", "no", "not sure", "Maße"]

    assert judge(ef.OneOf(choices, **options), [output]) == [allowed]


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param([], id="empty"),
        pytest.param("yes", id="one-text"),
        pytest.param(["yes", 4], id="number"),
        pytest.param(["yes", None], id="none"),
        pytest.param({"yes": 1.0}, id="dict"),
        pytest.param((choice for choice in ["yes"]), id="generator"),
        pytest.param(None, id="null"),
    ],
)
def test_one_of_refuses_what_is_no_list_of_texts(choices):
    """A generator too: it could be read only once, and not be pickled."""
    with pytest.raises(ValueError, match=r"choices must be a list of texts, such as \['yes'"):
        ef.OneOf(choices)


def test_one_of_keeps_its_choices_when_the_list_changes(judge):
    """What it does, prints and equals was settled when it was made."""
    choices = ["yes"]
    allowed = ef.OneOf(choices)

    choices.append("no")

    assert judge(allowed, ["no"]) == [False]
    assert repr(allowed) == "OneOf(choices=['yes'])"
    assert allowed == ef.OneOf(["yes"])


TEXT_EVALUATORS = [
    pytest.param(ef.Contains("4"), id="contains"),
    pytest.param(ef.Regex("4"), id="regex"),
    pytest.param(ef.OneOf(["4"]), id="one-of"),
]


@pytest.mark.parametrize("evaluator", TEXT_EVALUATORS)
@pytest.mark.parametrize(
    ("output", "said"),
    [
        pytest.param([4, 5], r"output is int64\. Give the column's .astype\('string'\)", id="int"),
        pytest.param([True, False], "output is bool", id="bool"),
        pytest.param([["4"], ["5"]], r"\.bind\(output='output\.<key>'\)", id="list"),
        pytest.param([{"a": "4"}, {"a": "5"}], r"\.bind\(output='output\.<key>'\)", id="dict"),
    ],
)
def test_outputs_that_are_no_text_are_refused_before_the_run(judge, evaluator, output, said):
    """With the way out for what they are."""
    message = rf"{evaluator.name!r}: it needs text, but .*{said}"
    with pytest.raises(ef.ExperimentError, match=message):
        judge(evaluator, output)


@pytest.mark.parametrize(
    "reference", [pytest.param([4, 5], id="numbers"), pytest.param([[4], [5]], id="lists-of-them")]
)
def test_references_that_are_no_text_are_refused_before_the_run(judge, reference):
    """Text is not looked for in numbers, nor numbers in text."""
    message = "'contains': it needs text, but dataset_output is int64"
    with pytest.raises(ef.ExperimentError, match=message):
        judge(ef.Contains(), ["4", "5"], reference)


@pytest.mark.parametrize("evaluator", TEXT_EVALUATORS)
def test_outputs_of_a_task_that_are_no_text_are_failed_cells(judge_task, evaluator):
    """Row by row: a null is still a null, a text is judged."""
    failed = "invalid_result: output is {} (int), not text"

    assert judge_task(evaluator, [4, None, 44]) == [failed.format(4), False, failed.format(44)]
    assert judge_task(evaluator, ["4", 5, "x"]) == [True, failed.format(5), False]


@pytest.mark.parametrize("evaluator", TEXT_EVALUATORS)
def test_the_ways_out_that_the_error_names_work(judge, evaluator):
    """.astype("string") keeps nulls; a path leads into a dict."""
    numbers = pd.Series([4, None], dtype="Int64")
    dicts = [{"a": {"b": "4"}}, {"a": {"b": None}}]

    assert judge(evaluator, numbers.astype("string")) == [True, False]
    assert judge(evaluator.bind(output="output.a.b"), dicts) == [True, False]


@pytest.mark.parametrize("evaluator", TEXT_EVALUATORS)
def test_columns_in_pieces_are_read_in_pieces(judge, evaluator):
    """Arrow columns from files come in chunks, some of them empty."""
    pieces = [pa.array(part, pa.large_string()) for part in (["4", None], [], ["5", "4"])]
    column = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array(pieces)))

    assert judge(evaluator, column) == [True, False, False, True]
