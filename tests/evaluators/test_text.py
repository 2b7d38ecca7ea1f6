"""Texts against references: `TokenF1`, `Levenshtein`, `Bleu`, `Chrf`."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sacrebleu

import evalframe as ef

coded = pa.dictionary(pa.int32(), pa.string())
EVERY = [ef.TokenF1(), ef.Levenshtein(), ef.Rouge("rougeL"), ef.Bleu(), ef.Chrf()]
every = pytest.mark.parametrize("evaluator", EVERY, ids=[one.name for one in EVERY])


def run(evaluator, *pairs):
    """The results of pairs of output and reference, under short names."""
    rows = [{"output": output, "dataset_output": reference} for output, reference in pairs]
    scored = ef.run_experiment(rows, evaluators=[evaluator], progress=False)
    return scored.evals[evaluator.name]


def score(evaluator, output, reference):
    """The score of one pair."""
    return run(evaluator, (output, reference))["score"][0]


@pytest.mark.parametrize(
    ("output", "reference", "figures"),
    [
        pytest.param("The cat", "the CAT", (1.0, 1.0, 1.0), id="case"),
        pytest.param("a cat", "the cat", (0.5, 0.5, 0.5), id="articles-count"),
        pytest.param("b a, c!", "a b c", (1.0, 1.0, 1.0), id="order-and-punctuation"),
        pytest.param("a a a b", "a a", (2 / 3, 0.5, 1.0), id="as-often-as-both-have-it"),
        pytest.param("", "", (1.0, 1.0, 1.0), id="both-empty"),
        pytest.param("!?", "...", (1.0, 1.0, 1.0), id="both-without-words"),
        pytest.param("", "a", (0.0, 0.0, 0.0), id="empty-output"),
        pytest.param("a", "", (0.0, 0.0, 0.0), id="empty-reference"),
        pytest.param("मेरा नाम", "मेरी नीम", (0.0, 0.0, 0.0), id="vowel-signs-count"),
        pytest.param("हिन्दी भाषा", "भाषा हिन्दू", (0.5, 0.5, 0.5), id="one-word-of-two"),
        pytest.param("ரா", "ரி", (0.0, 0.0, 0.0), id="one-letter-two-vowels"),
        pytest.param("cafe\u0301", "cafe", (0.0, 0.0, 0.0), id="an-accent-counts"),
        pytest.param("می\u200cخواهم", "خواهم", (0.0, 0.0, 0.0), id="joined-parts-are-one-word"),
        pytest.param("snake_case", "snake case", (0.0, 0.0, 0.0), id="underscore-is-a-letter"),
    ],
)
def test_token_f1_counts_shared_words(output, reference, figures):
    """F1, precision and recall."""
    found = run(ef.TokenF1(), (output, reference))

    assert tuple(found[["score", "precision", "recall"]].iloc[0]) == pytest.approx(figures)


@pytest.mark.parametrize(
    ("output", "reference", "similarity"),
    [
        pytest.param("kitten", "sitting", 1 - 3 / 7, id="kitten"),
        pytest.param("Saturday", "Sunday", 1 - 3 / 8, id="saturday"),
        pytest.param("", "", 1.0, id="both-empty"),
        pytest.param("", "ab", 0.0, id="empty-output"),
        pytest.param("ab", "ba", 0.0, id="a-swap-is-two-edits"),
        pytest.param("\U0001f600a", "\U0001f601a", 0.5, id="code-points"),
    ],
)
def test_levenshtein_counts_edits(output, reference, similarity):
    """1 - edits / longer length."""
    assert score(ef.Levenshtein(), output, reference) == pytest.approx(similarity)


@pytest.mark.parametrize(
    ("options", "output", "reference"),
    [
        pytest.param({"ignore_case": True}, "STRASSE", "straße", id="case"),
        pytest.param({"ignore_whitespace": True}, " a\n\tb ", "a b", id="space"),
        pytest.param({"normal_form": "NFC"}, "e\u0301", "é", id="normal-form"),
    ],
)
def test_levenshtein_ignores_what_it_is_told_to(options, output, reference):
    """Alike with the option, unlike without."""
    assert score(ef.Levenshtein(**options), output, reference) == 1.0
    assert score(ef.Levenshtein(), output, reference) < 1.0


def test_bleu_clips_counts_as_in_the_paper():
    """Papineni et al. 2002, section 2.1: of seven times "the" the references have two."""
    output = "the the the the the the the"
    references = ["The cat is on the mat.", "There is a cat on the mat."]
    unigrams = ef.Bleu(max_order=1, ignore_case=True, pooled=True)

    assert score(unigrams, output, references) == pytest.approx(2 / 7)


def test_bleu_takes_the_best_reference_or_all_together():
    """Alone, each reference has two of the four words; together they have all."""
    references = ["a b x y", "z w c d"]

    assert score(ef.Bleu(max_order=1), "a b c d", references) == pytest.approx(0.5)
    assert score(ef.Bleu(max_order=1, pooled=True), "a b c d", references) == 1.0


@pytest.mark.parametrize("smoothing", ["exp", "floor", "add-k", "none"])
@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "zh", "none"])
def test_bleu_hands_its_options_to_sacrebleu(smoothing, tokenize):
    """Each of them has the figures that the library has with it."""
    output, reference = "Das «Haus» ist rot, 很好。", "Das Haus ist rot – 很 好!"
    metric = sacrebleu.BLEU(
        smooth_method=smoothing, tokenize=tokenize, max_ngram_order=3, effective_order=True
    )

    found = score(ef.Bleu(max_order=3, smoothing=smoothing, tokenize=tokenize), output, reference)

    assert found == pytest.approx(metric.sentence_score(output, [reference]).score / 100)


def test_chrf_is_the_f_score_of_shared_characters():
    """Two of three letters shared; recall counts `beta` times."""
    assert score(ef.Chrf(char_order=1), "abc", "abd") == pytest.approx(2 / 3)
    assert score(ef.Chrf(char_order=1, beta=2), "ab", "abcd") == pytest.approx(5 * 0.5 / (4 + 0.5))
    assert score(ef.Chrf(char_order=1, beta=0.5), "ab", "abcd") == pytest.approx(
        1.25 * 0.5 / (0.25 + 0.5)
    )


@pytest.mark.parametrize("evaluator", [ef.Bleu(), ef.Bleu(pooled=True), ef.Chrf()], ids=repr)
def test_equal_texts_score_exactly_one(evaluator):
    """The library's per cents sum up to 100.00000000000004."""
    text = "the cat sat on the mat"

    assert score(evaluator, text, text) == 1.0


@pytest.mark.parametrize("evaluator", [ef.Bleu(), ef.Bleu(tokenize="zh"), ef.Chrf()], ids=repr)
@pytest.mark.parametrize("pair", [("", ""), (" \n", "a"), ("a", "\t"), (" .", " .")], ids=repr)
def test_blank_texts_make_no_noise(evaluator, pair, caplog):
    """No exception, no warning, no line in a log; a score all the same."""
    assert 0.0 <= score(evaluator, *pair) <= 1.0
    assert caplog.records == []


def test_bleu_of_many_tokenised_rows_makes_no_noise(caplog):
    """The library's complaint about 100 lines ending in " ." is about corpora."""
    run(ef.Bleu(), *[("a b .", "a b .")] * 120)

    assert caplog.records == []


@every
def test_the_best_of_several_references_counts(evaluator):
    """In whatever place it stands; nulls among them are left out."""
    reference = "the cat sat on the mat"
    alone = score(evaluator, "the cat sat", reference)

    assert 0 < alone < 1
    assert score(evaluator, "the cat sat", ["no", reference, None]) == alone
    assert score(evaluator, "the cat sat", ("unlike", reference)) == alone


@every
@pytest.mark.parametrize(
    ("output", "reference", "error"),
    [
        pytest.param(1, "a", r"output is 1 \(int\), not text", id="output"),
        pytest.param(["a"], "a", r"output is \['a'\] \(list\), not text", id="output-list"),
        pytest.param("a", ["b", 2], r"dataset_output is 2 \(int\), not text", id="in-a-list"),
        pytest.param("a", {"b": 1}, r"dataset_output is \{'b': 1\} \(dict\), not", id="reference"),
        pytest.param(None, {"b": 1}, "dataset_output is", id="no-output"),
    ],
)
def test_a_value_that_is_no_text_fails_its_own_row(evaluator, output, reference, error):
    """The rows around it have their scores."""
    found = run(evaluator, ("a b", "a b"), (output, reference), ("a b", ["a b"]))

    assert found["error"].str.fullmatch(rf"invalid_result: .*{error}.*").tolist()[1] is True
    assert found["score"].isna().tolist() == [False, True, False]


@every
@pytest.mark.parametrize(
    ("output", "reference", "problem"),
    [
        pytest.param([1], ["a"], "it needs text, but output is int64", id="numbers"),
        pytest.param(["a"], [1.5], "it needs text, but dataset_output is double", id="reference"),
        pytest.param(["a"], [[1, 2]], "it needs text, but dataset_output is int64", id="lists"),
        pytest.param([["a"]], ["a"], "it needs text, but output is", id="output-lists"),
    ],
)
def test_columns_that_can_never_be_text_are_refused_before_the_run(
    evaluator, output, reference, problem
):
    """No row is judged."""
    frame = pd.DataFrame({"output": output, "dataset_output": reference})

    with pytest.raises(ef.ExperimentError, match=problem):
        ef.run_experiment(frame, evaluators=[evaluator], progress=False)


@every
@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(coded),
        pa.list_(pa.string(), 2),
    ],
    ids=str,
)
def test_lists_of_texts_are_references_in_every_arrow_type(evaluator, kind):
    """Dictionary codes included."""
    references = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([["x", "a b"]]).cast(kind)))
    frame = pd.DataFrame({"output": ["a b"], "dataset_output": references})

    scored = ef.run_experiment(frame, evaluators=[evaluator], progress=False)

    assert scored[f"eval.{evaluator.name}.score"].tolist() == [1.0]


@every
def test_texts_that_no_file_can_hold_are_measured(evaluator):
    """Lone surrogates, and whatever Unicode has."""
    texts = ["\ud800", "a\udfff b", "\u0000", "\U0010ffff", "\u202e\u200b", "e" + "\u0301" * 500]
    pairs = [(one, other) for one in texts for other in texts]
    columns = [pd.Series(column, dtype=object) for column in zip(*pairs, strict=True)]

    scores = evaluator.evaluate(*columns).arrays["score"].to_numpy(zero_copy_only=False)

    assert np.all((scores >= 0) & (scores <= 1))


@pytest.mark.parametrize(
    ("evaluator", "package"),
    [
        pytest.param(ef.Levenshtein(), "rapidfuzz", id="levenshtein"),
        pytest.param(ef.Bleu(), "sacrebleu", id="bleu"),
        pytest.param(ef.Chrf(), "sacrebleu", id="chrf"),
    ],
)
def test_a_missing_package_is_named_before_anything_runs(evaluator, package, monkeypatch):
    """What to install, and no call of the task."""
    monkeypatch.setitem(sys.modules, package, None)
    calls = []
    rows = [{"input": "a", "dataset_output": "a"}]
    told = rf"{type(evaluator).__name__} needs {package}, .* pip install 'evalframe\[text\]'"

    with pytest.raises(ef.ExperimentError, match=told):
        ef.run_experiment(rows, calls.append, evaluators=[evaluator], progress=False)
    assert calls == []
    assert evaluator.extra_needed == "text"


@pytest.mark.parametrize("evaluator", [ef.TokenF1(), ef.Rouge("rouge2")], ids=repr)
def test_counting_words_needs_no_package(evaluator, monkeypatch):
    """The core is enough."""
    for package in ("rapidfuzz", "sacrebleu"):
        monkeypatch.setitem(sys.modules, package, None)

    assert score(evaluator, "a b", "a b") == 1.0
    assert evaluator.extra_needed == ""


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        pytest.param(ef.Bleu, {"max_order": 0}, "max_order must be a whole number from 1", id="0"),
        pytest.param(ef.Bleu, {"max_order": True}, "to 20, not True", id="bool"),
        pytest.param(ef.Bleu, {"max_order": 21}, "to 20, not 21", id="too-long"),
        pytest.param(ef.Bleu, {"smoothing": "epsilon"}, "smoothing must be one of", id="smoothing"),
        pytest.param(ef.Bleu, {"tokenize": "ja-mecab"}, "tokenize must be one of", id="tokenize"),
        pytest.param(ef.Chrf, {"char_order": 0}, "char_order must be", id="char-order"),
        pytest.param(ef.Chrf, {"word_order": -1}, "word_order must be .* from 0", id="word-order"),
        pytest.param(ef.Chrf, {"beta": 0}, "beta must be a number above 0", id="beta"),
        pytest.param(ef.Chrf, {"beta": float("nan")}, "up to 100, not nan", id="beta-nan"),
        pytest.param(ef.Chrf, {"beta": "2"}, "up to 100, not '2'", id="beta-text"),
        pytest.param(ef.Levenshtein, {"normal_form": "nfc"}, "normal_form must be", id="form"),
    ],
)
def test_arguments_out_of_their_domain_are_refused(make, options, message):
    """When it is built, saying what they may be."""
    with pytest.raises(ValueError, match=message):
        make(**options)
