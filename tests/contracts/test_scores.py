"""What holds for every built-in evaluator that measures on a scale, in several configurations.

A new one is added to CASES with its rows and its law: a plain function of one row's values that
gives the numbers it must find, or the error. Everything else is inherited.
"""

import asyncio
import copy
import inspect
import math
import pickle
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

import evalframe as ef
from evalframe.core.columns import Column
from evalframe.evaluators.normalize import Rules
from evalframe.evaluators.vectorized import place

FIELDS = ["label", "score", "explanation", "metadata", "error"]
NO_REFERENCE = "skipped: no reference"
NO_RELEVANT = "skipped: no relevant contexts"


@dataclass(frozen=True)
class Case:
    """A built-in evaluator, rows for it, and the numbers it must find on a row."""

    evaluator: ef.Evaluator
    law: Callable[..., tuple | str]
    rows: list[tuple]

    @property
    def parameters(self):
        return list(inspect.signature(self.evaluator.function).parameters)

    def expected(self, rows):
        """The outcomes of rows: score and extras, or the error."""
        found = [self.law(*row) for row in rows]
        return [row if isinstance(row, str) else tuple(map(rounded, row)) for row in found]

    def frame(self, rows):
        """The rows as columns: `string` where all is text, else Python objects."""
        columns = zip(*rows, strict=True) if rows else ([] for _ in self.parameters)
        return pd.DataFrame(
            {name: column_of(list(c)) for name, c in zip(self.parameters, columns, strict=True)}
        )


def column_of(values):
    """A Series of which pandas infers nothing."""
    if all(value is None or isinstance(value, str) for value in values):
        return pd.Series(values, dtype="string")
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def rounded(number):
    """Without the last digits, which depend on the order of additions."""
    return round(float(number), 9)


def against_references(measure):
    """The law of one pair of texts, for rows with nulls and several references."""

    def law(output, references):
        several = references if isinstance(references, (list, tuple)) else [references]
        several = [reference for reference in several if reference is not None]
        if not several:
            return NO_REFERENCE
        nothing = tuple(0.0 for _ in measure("", "a"))
        if output is None:
            return nothing
        return max((measure(output, one) for one in several), key=lambda found: found[0])

    return law


def is_mark(character):
    """An accent, a vowel sign."""
    return unicodedata.category(character).startswith("M")


def spoken(text, further, alone=""):
    """Runs of letters, digits and `further` with their marks and joiners; `alone` are words."""
    words, inside = [], ""

    def is_letter(character):
        return (character.isalnum() or character in further) and character not in alone

    text = text.lower()
    for at, character in enumerate(text):
        after = text[at:].lstrip("\u200c\u200d")[:1] or " "
        joins = character in "\u200c\u200d" and (is_letter(after) or is_mark(after))
        if character in alone or (is_letter(character) and inside != "run"):
            words.append(character)
            inside = "one" if character in alone else "run"
        elif inside and (
            is_mark(character) or (inside == "run" and (joins or is_letter(character)))
        ):
            words[-1] += character
        else:
            inside = ""
    return words


def token_f1(output, reference):
    """SQuAD's formula, articles kept."""
    found, wanted = (spoken(text, "_") for text in (output, reference))
    if not found or not wanted:
        return (float(found == wanted),) * 3
    same = sum((Counter(found) & Counter(wanted)).values())
    if same == 0:
        return (0.0, 0.0, 0.0)
    precision, recall = same / len(found), same / len(wanted)
    return 2 * precision * recall / (precision + recall), precision, recall


def levenshtein(output, reference):
    """The table of Wagner and Fischer, row by row."""
    if not output and not reference:
        return (1.0,)
    row = list(range(len(reference) + 1))
    for i, a in enumerate(output, 1):
        last, row = row, [i]
        for j, b in enumerate(reference, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b)))
    return (1 - row[-1] / max(len(output), len(reference)),)


def folded(output, reference):
    """The same of case-folded texts with single spaces."""
    return levenshtein(*(" ".join(text.casefold().split()) for text in (output, reference)))


class Spoken:
    """The words of a text: single Chinese and Japanese characters, else runs."""

    def tokenize(self, text):
        return spoken(text, "", alone="漢字かカー々")


def rouge(variant, tokenizer=None):
    """rouge-score, with words of our own or its own."""
    scorer = RougeScorer([variant], use_stemmer=False, tokenizer=tokenizer)

    def law(output, reference):
        found = scorer.score(reference, output)[variant]
        return found.fmeasure, found.precision, found.recall

    return against_references(law)


def bleu(**options):
    """Sacrebleu's function for a single sentence."""

    def law(output, reference):
        return (min(1, sacrebleu.sentence_bleu(output, [reference], **options).score / 100),)

    return against_references(law)


def pooled_bleu(output, references):
    """The same with all references at once."""
    if isinstance(references, list) and output is not None:
        references = [one for one in references if one is not None]
        if references:
            return (min(1, sacrebleu.sentence_bleu(output, references).score / 100),)
    return bleu()(output, references)


def chrf(*, lowercase=False, **options):
    """Sacrebleu's function for a single sentence."""

    def law(output, reference):
        if lowercase:
            output, reference = output.lower(), reference.lower()
        return (min(1, sacrebleu.sentence_chrf(output, [reference], **options).score / 100),)

    return against_references(law)


def ranking(measure):
    """The law of a ranking: from the gains in order of rank and the gains of all relevant."""

    def gain(item):
        if not isinstance(item, dict):
            return 1.0
        return 1.0 if item.get("relevance") is None else item["relevance"]

    def key(item):
        item = item["document"] if isinstance(item, dict) else item
        return item.strip() if isinstance(item, str) else item

    def law(retrieved, relevant):
        grades = {}
        for item in relevant or []:
            if key(item) != "" and gain(item) > 0:
                grades[key(item)] = max(gain(item), grades.get(key(item), 0))
        if not grades:
            return NO_RELEVANT
        retrieved = list(retrieved or [])
        if all(isinstance(item, dict) and item.get("relevance") is not None for item in retrieved):
            retrieved.sort(key=lambda item: -item["relevance"])
        seen, gains = set(), []
        for item in retrieved:
            gains.append(0 if key(item) in seen else grades.get(key(item), 0))
            seen.add(key(item))
        return (measure(gains, sorted(grades.values())[::-1]),)

    return law


def ndcg(k):
    """Järvelin and Kekäläinen's."""

    def dcg(gains):
        return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:k]))

    return lambda gains, ideal: dcg(gains) / dcg(ideal)


def reciprocal_rank(gains, ideal):
    """Of the first hit."""
    return max((1 / (place + 1) for place, gain in enumerate(gains) if gain > 0), default=0)


def hits(gains):
    """How many."""
    return len([gain for gain in gains if gain > 0])


TEXTS = [
    ("the cat sat", "the cat sat down"),
    ("a", "A"),
    (None, "a"),
    ("", ""),
    ("Straße 42, naïve!", "STRASSE 42 naive"),
    ("b", None),
]
LISTS = [
    ("the cat sat", ["a dog", "the cat sat down", "the cat"]),
    ("a", ["b", None]),
    (None, ["a"]),
    ("", ["", "a"]),
    ("b c d", "b d c"),
    ("b", [None]),
    ("b", []),
]
CHUNKS = [
    (["a", "x", "b"], ["b", "c", "a"]),
    ([], ["a"]),
    (None, ["a"]),
    (["a"], []),
    (["a"], None),
    (["a"], ["", " "]),
    (["x", "a", " a ", "c\n"], ["a", "c", {"document": "d", "relevance": 0.5}]),
    (
        [{"document": "x", "relevance": 0.1}, {"document": "a", "relevance": 0.9}],
        [{"document": "a", "relevance": 0.3}, {"document": "x", "relevance": -1}],
    ),
    ([{"document": "b"}, "a"], [{"document": "a", "relevance": 1}, {"document": "b"}]),
]
IDS = [([3, 1, 2], [1, 2, 9]), ([1], []), ([], [1]), ([7, 7, 5], [5]), ([4, 0], [0, 0, 4])]


def texts(evaluator, measure, rows=(TEXTS, LISTS)):
    """The cases of a text evaluator: columns of texts, and with lists as references."""
    law = measure if measure.__name__ in ("law", "pooled_bleu") else against_references(measure)
    return [Case(evaluator, law, some) for some in rows]


CASES = {
    "token-f1": texts(ef.TokenF1(), token_f1),
    "levenshtein": texts(ef.Levenshtein(threshold=0.5), levenshtein),
    "levenshtein-form": texts(
        ef.Levenshtein(ignore_case=True, ignore_whitespace=True, name="alike"), folded
    ),
    "rouge1": texts(ef.Rouge("rouge1"), rouge("rouge1", Spoken())),
    "rouge2": texts(ef.Rouge("rouge2", threshold=0.1), rouge("rouge2", Spoken())),
    "rougeL": texts(ef.Rouge("rougeL"), rouge("rougeL", Spoken())),
    "rouge1-ascii": texts(ef.Rouge("rouge1", ascii_only=True, name="r"), rouge("rouge1")),
    "rougeL-ascii": texts(ef.Rouge("rougeL", ascii_only=True), rouge("rougeL")),
    "bleu": texts(ef.Bleu(), bleu()),
    "bleu-options": texts(
        ef.Bleu(smoothing="floor", tokenize="char", ignore_case=True),
        bleu(smooth_method="floor", tokenize="char", lowercase=True),
    ),
    "bleu-pooled": texts(ef.Bleu(pooled=True), pooled_bleu),
    "chrf": texts(ef.Chrf(), chrf()),
    "chrf-options": texts(
        ef.Chrf(char_order=3, word_order=2, beta=1, ignore_case=True),
        chrf(char_order=3, word_order=2, beta=1, lowercase=True),
    ),
    "precision": [
        Case(ef.PrecisionAtK(2), ranking(lambda gains, _: hits(gains[:2]) / 2), rows)
        for rows in (CHUNKS, IDS)
    ],
    "recall": [
        Case(ef.RecallAtK(3), ranking(lambda gains, ideal: hits(gains[:3]) / len(ideal)), rows)
        for rows in (CHUNKS, IDS)
    ],
    "mrr": [Case(ef.MRR(), ranking(reciprocal_rank), rows) for rows in (CHUNKS, IDS)],
    "ndcg": [Case(ef.NDCG(), ranking(ndcg(None)), rows) for rows in (CHUNKS, IDS)],
    "ndcg-k": [Case(ef.NDCG(k=2, name="top"), ranking(ndcg(2)), CHUNKS)],
    "hit-rate": [
        Case(ef.HitRate(), ranking(lambda gains, _: hits(gains) > 0), rows)
        for rows in (CHUNKS, IDS)
    ],
    "hit-rate-k": [Case(ef.HitRate(1), ranking(lambda gains, _: hits(gains[:1])), CHUNKS)],
}
EVERY = {f"{name}-{i}": case for name, cases in CASES.items() for i, case in enumerate(cases)}

every_case = pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
one_each = pytest.mark.parametrize("case", [cases[0] for cases in CASES.values()], ids=CASES)
TEXT_CASES = {name: cases[0] for name, cases in CASES.items() if cases[0].rows is TEXTS}
text_case = pytest.mark.parametrize("case", TEXT_CASES.values(), ids=TEXT_CASES)
LIST_CASES = {name: cases[0] for name, cases in CASES.items() if cases[0].rows is CHUNKS}
list_case = pytest.mark.parametrize("case", LIST_CASES.values(), ids=LIST_CASES)


def outcomes_of(columns, evaluator):
    """Score and extras of each row, or its error; a failed cell has nothing else."""
    names = ["score", *evaluator.extras]
    numbers = list(zip(*(columns[name].to_pylist() for name in names), strict=True))
    errors = columns["error"].to_pylist()
    for row, error in zip(numbers, errors, strict=True):
        assert (set(row) == {None}) == (error is not None)
        assert error is not None or all(0.0 <= number <= 1.0 for number in row)
    return [
        tuple(map(rounded, row)) if error is None else error
        for row, error in zip(numbers, errors, strict=True)
    ]


def outcomes(scored, evaluator):
    """The outcomes in a scored frame."""
    fields = [*FIELDS, *evaluator.extras]
    columns = {name: pa.array(scored[f"eval.{evaluator.name}.{name}"]) for name in fields}
    return outcomes_of(columns, evaluator)


def run(frame, evaluator, task=None, **options):
    """The frame with the results."""
    return ef.run_experiment(frame, task, evaluators=[evaluator], progress=False, **options)


def judged(case, frame=None, evaluator=None, **options):
    """The outcomes of a run."""
    frame = case.frame(case.rows) if frame is None else frame
    evaluator = evaluator or case.evaluator
    return outcomes(run(frame, evaluator, **options), evaluator)


def cells_of(case, frame):
    """The outcomes of columns as they are given to it, with no check before."""
    columns = [Column(name, frame[name]).vector() for name in frame]
    rules = Rules(extras=case.evaluator.extras)
    found = place(case.evaluator.function(*columns), frame.index, rules)
    return outcomes_of(found.arrays, case.evaluator)


@one_each
def test_it_pickles_to_an_equal_one(case):
    """By its arguments, name and bindings included."""
    changed = case.evaluator.bind(**{case.parameters[0]: "a.b"}).named("other")

    assert pickle.loads(pickle.dumps(case.evaluator)) == case.evaluator
    assert pickle.loads(pickle.dumps(changed)) == changed


@every_case
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_judges_as_the_original(case, way):
    """What is copied is what it does."""
    assert judged(case, evaluator=way(case.evaluator)) == case.expected(case.rows)


@one_each
def test_its_repr_makes_it_again(case):
    """With the class in scope; also of a renamed and bound copy."""
    scope = {type(case.evaluator).__name__: type(case.evaluator)}
    changed = case.evaluator.bind(**{case.parameters[0]: "a.b"}).named("other")

    assert eval(repr(case.evaluator), scope) == case.evaluator  # noqa: S307 - our own text
    assert eval(repr(changed), scope) == changed  # noqa: S307


@one_each
def test_it_equals_only_what_does_the_same(case):
    """Other arguments, another name, other bindings or another class are unequal."""
    evaluator = case.evaluator
    others = [cases[0].evaluator for cases in CASES.values()]

    assert [other for other in others if other == evaluator] == [evaluator]
    assert evaluator != evaluator.named("other")
    assert evaluator != evaluator.bind(**{case.parameters[0]: "a.b"})
    assert hash(copy.deepcopy(evaluator)) == hash(evaluator)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(ef.TokenF1, "token_f1", id="token-f1"),
        pytest.param(ef.Levenshtein, "levenshtein", id="levenshtein"),
        pytest.param(lambda **given: ef.Rouge("rouge1", **given), "rouge1", id="rouge1"),
        pytest.param(lambda **given: ef.Rouge("rougeL", **given), "rougeL", id="rougeL"),
        pytest.param(ef.Bleu, "bleu", id="bleu"),
        pytest.param(ef.Chrf, "chrf", id="chrf"),
        pytest.param(lambda **given: ef.PrecisionAtK(3, **given), "precision_at_k", id="precision"),
        pytest.param(lambda **given: ef.RecallAtK(3, **given), "recall_at_k", id="recall"),
        pytest.param(ef.MRR, "mrr", id="mrr"),
        pytest.param(ef.NDCG, "ndcg", id="ndcg"),
        pytest.param(ef.HitRate, "hit_rate", id="hit-rate"),
    ],
)
def test_it_takes_name_and_threshold(made, name):
    """The name is the class in snake_case, of Rouge its variant, unless one is given."""
    mine = made(name="mine", threshold=0.5)

    assert (made().name, mine.name, mine.threshold) == (name, "mine", 0.5)
    assert (made().threshold, made().kind, made().score_range) == (None, "CODE", (0.0, 1.0))
    assert made(direction="minimize", version="2").direction == "minimize"
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0\.0, 1\.0\], not 2"):
        made(threshold=2)
    with pytest.raises(ValueError, match="dot"):
        made(name="a.b")


@one_each
def test_it_says_where_its_formula_is_from(case):
    """A link in Markdown."""
    assert re.search(r"\[[^]]+\]\(https://[^)]+\)", type(case.evaluator).source)


@one_each
def test_it_is_frozen(case):
    """Its settings cannot be changed behind the back of its results."""
    with pytest.raises(AttributeError, match="is frozen, so 'name' cannot be set"):
        case.evaluator.name = "other"


@every_case
def test_it_returns_the_columns_it_declares(case):
    """Five columns of fixed types and its extras, after the frame's own."""
    frame, evaluator = case.frame(case.rows), case.evaluator
    extras = list(evaluator.extras)

    scored = run(frame, evaluator)

    fields = [f"eval.{evaluator.name}.{field}" for field in [*FIELDS, *extras]]
    assert list(scored) == [*frame, *fields]
    text, number = pd.StringDtype("pyarrow"), pd.ArrowDtype(pa.float64())
    types = [text, number, text, text, text, *[number for _ in extras]]
    assert scored[fields].dtypes.tolist() == types


@every_case
def test_its_numbers_are_those_of_its_law(case):
    """Nulls, empty texts and lists included."""
    assert judged(case) == case.expected(case.rows)


@every_case
def test_it_does_not_change_its_input(case):
    """The caller's frame, and its columns in the result, are what they were."""
    frame = case.frame(case.rows)
    before = copy.deepcopy(frame)

    scored = run(frame, case.evaluator)

    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(scored[list(frame)], before)


@every_case
def test_no_rows_give_typed_columns(case):
    """As with rows."""
    frame = case.frame(case.rows)

    scored = run(frame.iloc[:0], case.evaluator)

    assert scored.empty
    pd.testing.assert_series_equal(scored.dtypes, run(frame, case.evaluator).dtypes)


@every_case
@pytest.mark.parametrize("dtype", ["object", "float64", "Int64", "str", "string", "datetime64[ns]"])
def test_a_column_of_nothing_but_nulls_is_nulls(case, dtype):
    """Whatever type pandas gave it, on either side."""
    for name in case.parameters:
        frame = case.frame(case.rows)
        frame[name] = pd.Series([None] * len(frame), dtype=dtype)
        place = case.parameters.index(name)
        rows = [(*row[:place], None, *row[place + 1 :]) for row in case.rows]

        assert judged(case, frame) == case.expected(rows)


@every_case
def test_a_row_alone_gets_the_numbers_it_gets_among_others(case):
    """One row at a time, in each of its places."""
    frame = case.frame(case.rows)
    alone = [judged(case, frame.iloc[[row]])[0] for row in range(len(frame))]

    assert alone == case.expected(case.rows)


INDEXES = {
    "duplicates": lambda n: pd.Index([7] * (n - 1) + [0]),
    "reversed": lambda n: pd.Index(range(n)[::-1]),
    "float": lambda n: pd.Index([float("nan"), *(row / 2 for row in range(n - 1))]),
    "times": lambda n: pd.date_range("2024-05-01", periods=n, freq="h"),
    "multi": lambda n: pd.MultiIndex.from_product([["x"], range(n)]),
}


@one_each
@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_results_stand_on_their_rows_whatever_the_index(case, index):
    """By position; the index comes out as it went in."""
    frame = case.frame(case.rows)
    frame = frame.set_axis(index(len(frame)))

    scored = run(frame, case.evaluator)

    assert outcomes(scored, case.evaluator) == case.expected(case.rows)
    pd.testing.assert_index_equal(scored.index, frame.index)


@every_case
@pytest.mark.parametrize(
    "rows", [pytest.param([4, 0, 2], id="picked"), pytest.param([1, 1, 3], id="repeated")]
)
def test_a_part_of_a_frame_is_read_as_that_part(case, rows):
    """Rows that were filtered out have no say."""
    picked = [case.rows[row] for row in rows]

    assert judged(case, case.frame(case.rows).iloc[rows]) == case.expected(picked)


@text_case
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(object, id="object"),
        pytest.param("str", id="str"),
        pytest.param(pd.StringDtype("python"), id="string-python"),
        pytest.param(pd.ArrowDtype(pa.string()), id="arrow-string"),
        pytest.param(pd.ArrowDtype(pa.large_string()), id="arrow-large-string"),
        pytest.param(pd.ArrowDtype(pa.string_view()), id="arrow-string-view"),
        pytest.param("category", id="category"),
    ],
)
def test_text_is_text_in_every_dtype(case, dtype):
    """Also beside another dtype of text."""
    frame = case.frame(case.rows)
    other = frame.astype(dtype)

    assert judged(case, other) == case.expected(case.rows)
    assert judged(case, other.assign(output=frame["output"])) == case.expected(case.rows)


@list_case
def test_lists_are_lists_in_arrow_and_in_python(case):
    """A native list column reads as the same lists of objects."""
    rows = [
        row for row in CHUNKS if all(isinstance(one, str) for part in row for one in part or [])
    ]
    frame = case.frame(rows).astype(pd.ArrowDtype(pa.list_(pa.string())))

    assert judged(case, frame) == case.expected(rows)


@text_case
def test_columns_in_pieces_are_read_in_pieces(case):
    """Arrow columns from files come in chunks, cut at other rows in each column."""
    whole = case.frame(case.rows)
    cuts = {"output": (2, 2), "dataset_output": (1, 5)}
    pieces = {
        name: pa.chunked_array(
            [pa.array(whole[name])[s] for s in (slice(a), slice(a, b), slice(b, None))]
        )
        for name, (a, b) in cuts.items()
    }
    frame = pd.DataFrame({k: pd.arrays.ArrowExtensionArray(v) for k, v in pieces.items()})

    assert judged(case, frame) == case.expected(case.rows)


@text_case
def test_it_judges_what_a_task_made(case):
    """The rows whose task failed are left out, the others have their numbers."""
    frame = case.frame(case.rows).drop(columns="output").assign(input=[0, 1, 99, 3, 99, 5])
    outputs = [output for output, _ in case.rows]

    found = judged(case, frame, task=lambda input: outputs[input])

    assert [found[2], found[4]] == ["task_failed: not run, the task failed"] * 2
    kept = (0, 1, 3, 5)
    assert [found[row] for row in kept] == case.expected([case.rows[row] for row in kept])


@every_case
def test_it_reads_other_columns_by_path_and_function(case):
    """As `.bind` says: into dicts for the one, from the row for the other."""
    first, second = case.parameters
    nested = pd.DataFrame(
        {
            "reply": [{"final": [{"value": row[0]}]} for row in case.rows],
            "truth": column_of([row[1] for row in case.rows]),
        }
    )
    sources = {first: "reply.final.0.value", second: lambda truth: truth}

    assert judged(case, nested, case.evaluator.bind(**sources)) == case.expected(case.rows)


@one_each
def test_repetitions_are_judged_each(case):
    """Row 1 twice, then row 2."""
    twice = [row for row in case.rows for _ in range(2)]

    assert judged(case, repetitions=2) == case.expected(twice)


@every_case
def test_the_async_run_gives_the_same(case):
    """H29: sync and async are one path."""
    running = ef.arun_experiment(case.frame(case.rows), evaluators=[case.evaluator], progress=False)

    assert outcomes(asyncio.run(running), case.evaluator) == case.expected(case.rows)


def nested(depth):
    """A list in a list in a list."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


ODD = [
    "a",
    "",
    "\U0001f600 \u0301\u200d",
    None,
    1,
    -2.5,
    True,
    10**400,
    float("inf"),
    Decimal("sNaN"),
    [],
    ["a", None],
    ["a", 1],
    [1, [2]],
    [""],
    ("a",),
    {},
    {"document": "a", "relevance": 10**400},
    {"document": "a", "relevance": float("nan")},
    [{"document": "a", "relevance": 5e-324}, {"document": 2, "relevance": -0.0}],
    {"a": {"b": float("nan")}},
    b"a",
    nested(50),
    pd.Timestamp("2024-05-01"),
    pd.Timedelta("1h"),
]


@one_each
def test_odd_values_are_judged_or_fail_for_themselves(case):
    """Every kind of value against every other: no exception, and never a cell of its neighbour."""
    pairs = [(one, other) for one in ODD for other in ODD]
    frame = case.frame(pairs)

    together = cells_of(case, frame)

    alone = [cells_of(case, frame.iloc[[row]])[0] for row in range(len(pairs))]
    assert together == alone
    errors = [found for found in together if isinstance(found, str)]
    assert {error.partition(":")[0] for error in errors} == {"skipped", "invalid_result"}
    nulls = [found for found, (one, _) in zip(together, pairs, strict=True) if one is None]
    assert {found[0] for found in nulls if isinstance(found, tuple)} == {0.0}


PIECES = [
    *"abAB12", *"éßİıſя٣_", *"漢字かカー々、", *" \n\t\x1c\u3000.,'-!&", "\u0301", "\U0001f600",
    "the", "cat", " the cat ", "<skipped>", "&quot;",
]  # fmt: skip
any_text = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(
    st.sampled_from("ab \0"), max_size=30
)
text_rows = st.tuples(
    st.none() | any_text, st.none() | any_text | st.lists(st.none() | any_text, max_size=3)
)
documents = st.sampled_from(["a", "b", "c", " a", "", "d", "e"])
relevances = st.none() | st.sampled_from([-1, 0, 0.25, 0.5, 0.5, 1])
chunk = documents | st.fixed_dictionaries({"document": documents, "relevance": relevances})
ranked = st.fixed_dictionaries(
    {"document": documents, "relevance": st.sampled_from([-1, 0.25, 0.5, 1])}
)
chunks = st.none() | st.lists(chunk, max_size=6) | st.lists(ranked, max_size=6)
id_lists = st.lists(st.integers(0, 5), max_size=6)
chunk_rows = st.tuples(chunks, chunks) | st.tuples(id_lists, id_lists)


@one_each
@given(data=st.data())
@settings(max_examples=30)
def test_a_column_is_judged_as_the_law_judges_each_row(case, data):
    """Nulls, empty text, lists, and letters and scripts that are special included."""
    strategy = text_rows if case.rows is TEXTS else chunk_rows
    rows = data.draw(st.lists(strategy, max_size=6))

    assert cells_of(case, case.frame(rows)) == case.expected(rows)
