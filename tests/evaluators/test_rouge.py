"""ROUGE: `evalframe.Rouge`, with published examples and rouge-score as the oracle."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

import evalframe as ef

VARIANTS = ["rouge1", "rouge2", "rougeL"]


def measured(evaluator, *pairs):
    """Score, precision and recall of pairs of output and reference."""
    rows = [{"output": output, "dataset_output": reference} for output, reference in pairs]
    scored = ef.run_experiment(rows, evaluators=[evaluator], progress=False)
    fields = scored.evals[evaluator.name][["score", "precision", "recall"]]
    return [tuple(row) for row in fields.to_numpy(dtype=object)]


def test_the_example_of_the_paper():
    """Lin 2004, section 3.1: ROUGE-L tells apart what ROUGE-2 cannot."""
    reference = "police killed the gunman"
    pairs = [("police kill the gunman", reference), ("the gunman kill police", reference)]

    by_order = [row[0] for row in measured(ef.Rouge("rougeL"), *pairs)]
    by_pairs = [row[0] for row in measured(ef.Rouge("rouge2"), *pairs)]

    assert by_order == [3 / 4, 2 / 4]
    assert by_pairs == [1 / 3, 1 / 3]


@pytest.mark.parametrize("variant", VARIANTS)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_on_ascii_text_the_figures_are_those_of_rouge_score(variant, data):
    """F-measure, precision and recall, whatever the punctuation and case."""
    piece = st.sampled_from(["the", "Cat", "sat", "it's", "x_y", "3.5", *" \n\t-_,"])
    text = st.lists(piece, max_size=15).map("".join) | st.text(string.printable, max_size=12)
    output, reference = data.draw(text), data.draw(text)

    [found] = measured(ef.Rouge(variant), (output, reference))

    oracle = RougeScorer([variant], use_stemmer=False).score(reference, output)[variant]
    assert found == pytest.approx((oracle.fmeasure, oracle.precision, oracle.recall), abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_ascii_only_has_the_figures_of_rouge_score_for_every_text(variant, data):
    """Letters that are not a-z are dropped, as there."""
    text = st.text(st.sampled_from("aBé ß漢İ\u212a1_") | st.characters(codec="utf-8"), max_size=15)
    output, reference = data.draw(text), data.draw(text)

    [found] = measured(ef.Rouge(variant, ascii_only=True), (output, reference))

    oracle = RougeScorer([variant], use_stemmer=False).score(reference, output)[variant]
    assert found == pytest.approx((oracle.fmeasure, oracle.precision, oracle.recall), abs=1e-12)


@pytest.mark.parametrize(
    ("output", "reference", "score"),
    [
        pytest.param("機器學習很有趣", "機器學習很有用", 6 / 7, id="chinese-by-character"),
        pytest.param("「カナ」・かな", "カナ、かな!", 1.0, id="japanese-punctuation"),
        pytest.param("Привет, мир", "привет мир", 1.0, id="cyrillic-words"),
        pytest.param("café", "cafe", 0.0, id="an-accent-is-another-letter"),
        pytest.param("cafe\u0301", "cafe", 0.0, id="also-a-decomposed-one"),
        pytest.param("मेरा नाम", "मेरी नीम", 0.0, id="vowel-signs-count"),
        pytest.param("か\u3099き", "かき", 0.5, id="voicing-marks-count"),
        pytest.param("GPT4模型", "gpt4 模 型", 1.0, id="scripts-side-by-side"),
        pytest.param("\U0001f600", "\U0001f600", 0.0, id="emoji-are-no-words"),
    ],
)
def test_letters_of_every_script_make_words(output, reference, score):
    """Where rouge-score finds nothing or pieces of words."""
    [found] = measured(ef.Rouge("rouge1"), (output, reference))

    assert found[0] == pytest.approx(score)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("pair", [("", ""), ("...", "a"), ("a", " ")], ids=repr)
def test_without_words_nothing_is_shared(variant, pair):
    """0.0, as rouge-score says; also of two empty texts."""
    assert measured(ef.Rouge(variant), pair) == [(0.0, 0.0, 0.0)]


def test_the_best_reference_counts_with_its_own_precision_and_recall():
    """The extras are of the reference that gave the score."""
    references = ["a b c d e f", "a x", "a b"]

    assert measured(ef.Rouge("rouge1"), ("a b", references)) == [(1.0, 1.0, 1.0)]
    assert measured(ef.Rouge("rouge1"), ("a", references[:2])) == [(2 / 3, 1.0, 1 / 2)]


@pytest.mark.parametrize("variant", ["rouge3", "rougeLsum", None, []])
def test_other_variants_are_refused(variant):
    """The message names the three."""
    with pytest.raises(ValueError, match=r"one of \('rouge1', 'rouge2', 'rougeL'\), not"):
        ef.Rouge(variant)


def test_variants_stand_side_by_side_under_their_own_names():
    """No name has to be given."""
    rows = [{"output": "a b", "dataset_output": "b a"}]
    scored = ef.run_experiment(rows, evaluators=[ef.Rouge(v) for v in VARIANTS], progress=False)

    assert scored.evals.scores.iloc[0].to_dict() == {"rouge1": 1.0, "rouge2": 0.0, "rougeL": 0.5}
    assert repr(ef.Rouge("rouge1")) == "Rouge(variant='rouge1')"
    assert repr(ef.Rouge("rouge1").named("words")) == "Rouge(variant='rouge1', name='words')"
