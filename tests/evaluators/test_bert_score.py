"""BertScore: greedy matching, against the paper's formula in plain Python."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.evaluators import bert_score

VECTORS = {
    "a": (1.0, 0.0, 0.0),
    "b": (0.0, 2.0, 0.0),
    "c": (0.0, 0.0, 0.5),
    "ab": (3.0, 3.0, 0.0),
    "minus": (-1.0, 0.0, 0.0),
    "nowhere": (0.0, 0.0, 0.0),
}


def by_word(texts):
    """The vectors of single words."""
    return [VECTORS[text.casefold()] for text in texts]


def cosine(a, b):
    """Clipped to [0, 1]; 0 where there is no direction."""
    squares = math.fsum(x * x for x in a) * math.fsum(x * x for x in b)
    if squares == 0:
        return 0.0
    return max(0.0, math.fsum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(squares))


def expected(output, reference):
    """Precision, recall and f1, as the paper has them."""
    sides = [[VECTORS[word] for word in text.split()] for text in (output, reference)]
    table = [[cosine(a, b) if any(a) or any(b) else 1.0 for b in sides[1]] for a in sides[0]]
    precision = math.fsum(map(max, table)) / len(table)
    columns = list(zip(*table, strict=True))
    recall = math.fsum(map(max, columns)) / len(columns)
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def judged(output, reference, embedder=by_word, **options):
    """The cell of one row, by field."""
    evaluator = ef.BertScore(embedder, **options)
    column = np.empty(1, dtype=object)
    column[0] = reference
    frame = pd.DataFrame({"output": pd.Series([output], dtype=object), "dataset_output": column})
    scored = ef.run_experiment(frame, evaluators=[evaluator])
    return scored.evals[evaluator.name].iloc[0].astype(object).to_dict()


def parts(cell):
    """Precision, recall and f1."""
    assert cell["f1"] == cell["score"]
    return cell["precision"], cell["recall"], cell["score"]


sides = st.lists(st.sampled_from([*VECTORS]), min_size=1, max_size=8).map(" ".join)


@given(output=sides, reference=sides)
@settings(max_examples=60)
def test_parts_are_those_of_the_paper(output, reference):
    """For every two texts; between 0 and 1, and never NaN."""
    cell = judged(output, reference)

    alone = [set(text.split()) for text in (output, reference)]
    if {"nowhere"} in alone and not set.intersection(*alone):
        assert cell["error"] == "skipped: zero vector: it has no direction to compare"
        return
    assert parts(cell) == pytest.approx(expected(output, reference), abs=1e-6)
    assert all(0.0 <= part <= 1.0 for part in parts(cell))


def test_long_texts_are_matched_in_parts(monkeypatch):
    """With the same result: a table of all cosines might not fit into memory."""
    output, reference = "a b ab minus c " * 20, "ab c b " * 20
    whole = parts(judged(output, reference))

    monkeypatch.setattr(bert_score, "_MOST_COSINES", 100)

    assert parts(judged(output, reference)) == pytest.approx(whole)
    assert whole == pytest.approx(expected(output, reference), abs=1e-6)


def test_opposite_texts_score_zero():
    """Both parts are 0, and so is their mean: no division by zero."""
    assert parts(judged("a", "minus")) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("output", "reference"), [("a ab b", "b ab a"), ("nowhere", "nowhere"), ("a nowhere",) * 2]
)
def test_equal_words_score_exactly_one(output, reference):
    """So that threshold=1.0 means that everything is found; whether or not they have a vector."""
    assert parts(judged(output, reference)) == (1.0, 1.0, 1.0)


def test_equal_emoji_match_where_the_embedder_knows_none():
    """Equal pieces are equal, and different ones are not."""
    assert parts(judged("🎉🎉", "🎉🎉", lambda texts: np.zeros((len(texts), 3)))) == (1.0,) * 3
    assert parts(
        judged("🎉 a", "🎊 a", lambda texts: [VECTORS.get(t, (0, 0, 0)) for t in texts])
    ) == (
        0.5,
        0.5,
        0.5,
    )


def test_nulls_in_a_list_of_references_are_left_out():
    """The explanation counts them: it says the place in the list."""
    assert judged("a b", [None, "a c"])["explanation"] == "reference 2; missing: 'c'"
    assert judged("a b", [None])["error"] == "skipped: no reference"


@pytest.mark.parametrize(
    ("threshold", "spans"),
    [
        pytest.param(0.65, [[5, 6]], id="default"),
        pytest.param(0.75, [[0, 2], [5, 6]], id="stricter"),
        pytest.param(0.0, [], id="none"),
        pytest.param(1.0, [[0, 2], [5, 6]], id="equal-only"),
    ],
)
def test_missing_are_the_spans_of_the_reference_below_the_threshold(threshold, spans):
    """[start, end) in characters, in order; the explanation shows them."""
    reference = "ab B c"

    cell = judged("a b", reference, presence_threshold=threshold)

    assert json.loads(cell["missing"]) == spans
    shown = ", ".join(repr(reference[start:end]) for start, end in spans)
    assert cell["explanation"] == f"missing: {shown}" if spans else pd.isna(cell["explanation"])


def test_spans_count_characters_not_bytes():
    """As Python does."""
    cell = judged("a", "🙂é c", lambda texts: [VECTORS.get(t, (0, 0, 1.0)) for t in texts])

    assert json.loads(cell["missing"]) == [[0, 1], [1, 2], [3, 4]]


def test_of_many_missing_pieces_a_few_are_shown():
    """All of them stand in the extra."""
    cell = judged("a", "b " * 8)

    assert len(json.loads(cell["missing"])) == 8
    assert cell["explanation"] == "missing: 'b', 'b', 'b', 'b', 'b' and 3 more"


def test_of_several_references_the_best_counts():
    """The explanation says which one the spans are of, by its place in the list."""
    cell = judged("a b", ["c", "", None, "a c", "a c"])

    assert parts(cell) == pytest.approx(expected("a b", "a c"))
    assert json.loads(cell["missing"]) == [[2, 3]]
    assert cell["explanation"] == "reference 4; missing: 'c'"


def test_sentences_are_embedded_whole():
    """Each as a text of its own."""
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[float("cat" in text), float("dog" in text), 0.1] for text in texts]

    cell = judged("A cat sat. It left.", "The cat sat!\nA dog came.", embed, level="sentence")

    assert sorted(seen) == ["A cat sat.", "A dog came.", "It left.", "The cat sat!"]
    assert json.loads(cell["missing"]) == [[13, 24]]


def test_each_distinct_word_is_embedded_once():
    """Over both texts."""
    seen = []

    def embed(texts):
        seen.extend(texts)
        return by_word(texts)

    judged("a b a", "b a b c", embed)

    assert sorted(seen) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("output", "reference", "error"),
    [
        pytest.param("a", None, "skipped: no reference", id="no-reference"),
        pytest.param("a", " ", "skipped: empty text", id="blank-reference"),
        pytest.param("", "a", "skipped: empty text", id="empty-output"),
    ],
)
def test_row_without_two_texts_has_no_score(output, reference, error):
    """As for SemanticSimilarity."""
    cell = judged(output, reference)

    assert cell["error"] == error
    assert all(pd.isna(cell[field]) for field in ("score", "precision", "recall", "missing"))


def test_no_output_against_a_reference_scores_zero():
    """There is nothing to match."""
    cell = judged(None, "a")

    assert cell["score"] == 0.0
    assert pd.isna(cell["precision"])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param(
            {"level": "char"}, "level must be 'word' or 'sentence', not 'char'", id="level"
        ),
        pytest.param({"level": None}, "not None", id="no-level"),
        pytest.param({"presence_threshold": 1.5}, r"a number in \[0, 1\], not 1.5", id="above"),
        pytest.param({"presence_threshold": math.nan}, "not nan", id="nan"),
        pytest.param({"presence_threshold": True}, "not True", id="bool"),
        pytest.param({"presence_threshold": "1"}, "not '1'", id="text"),
    ],
)
def test_wrong_options_are_refused_when_built(options, match):
    """With the value, and what would do."""
    with pytest.raises(ValueError, match=match):
        ef.BertScore(by_word, **options)


def test_failed_word_fails_the_rows_that_need_it():
    """With the reason; the others have their scores."""

    def embed(texts):
        return [[math.nan] * 3 if text == "bad" else VECTORS[text] for text in texts]

    rows = [{"output": "a", "dataset_output": text} for text in ("a", "a bad")]
    scored = ef.run_experiment(rows, evaluators=[ef.BertScore(embed)])

    assert scored["eval.bert_score.score"].isna().tolist() == [False, True]
    assert scored["eval.bert_score.error"][1] == "invalid_result: its vector is not finite"
