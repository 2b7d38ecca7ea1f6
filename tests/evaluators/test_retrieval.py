"""Rankings: `PrecisionAtK`, `RecallAtK`, `HitRate`, `MRR`, `NDCG`."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalframe as ef

EVERY = [ef.PrecisionAtK(3), ef.RecallAtK(3), ef.HitRate(), ef.MRR(), ef.NDCG()]
every = pytest.mark.parametrize("evaluator", EVERY, ids=[one.name for one in EVERY])


def run(evaluator, *pairs):
    """The results of pairs of what was retrieved and what is relevant, under short names."""
    rows = [{"retrieval_context": found, "context": wanted} for found, wanted in pairs]
    scored = ef.run_experiment(rows, evaluators=[evaluator], progress=False)
    return scored.evals[evaluator.name]


def scores(evaluator, *pairs):
    """Their scores."""
    return run(evaluator, *pairs)["score"].tolist()


def chunk(document, relevance=None):
    """A chunk as a dict."""
    return {"document": document, "relevance": relevance}


@pytest.mark.parametrize(
    ("evaluator", "score"),
    [
        pytest.param(ef.PrecisionAtK(1), 0.0, id="precision-1"),
        pytest.param(ef.PrecisionAtK(2), 1 / 2, id="precision-2"),
        pytest.param(ef.PrecisionAtK(4), 2 / 4, id="precision-4"),
        pytest.param(ef.PrecisionAtK(10), 2 / 10, id="precision-beyond-the-list"),
        pytest.param(ef.RecallAtK(1), 0.0, id="recall-1"),
        pytest.param(ef.RecallAtK(2), 1 / 3, id="recall-2"),
        pytest.param(ef.RecallAtK(10), 2 / 3, id="recall-beyond-the-list"),
        pytest.param(ef.HitRate(1), 0.0, id="hit-rate-1"),
        pytest.param(ef.HitRate(2), 1.0, id="hit-rate-2"),
        pytest.param(ef.HitRate(), 1.0, id="hit-rate"),
        pytest.param(ef.MRR(), 1 / 2, id="mrr"),
        pytest.param(
            ef.NDCG(),
            (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / 2),
            id="ndcg",
        ),
        pytest.param(ef.NDCG(2), (1 / math.log2(3)) / (1 + 1 / math.log2(3)), id="ndcg-2"),
    ],
)
def test_a_ranking_worked_out_by_hand(evaluator, score):
    """Four retrieved, relevant at ranks 2 and 4, a third one missed."""
    found, wanted = ["x", "a", "y", "b"], ["a", "b", "c"]

    assert scores(evaluator, (found, wanted)) == pytest.approx([score])


def test_the_example_of_wikipedia_for_ndcg():
    """Relevances 3, 2, 3, 0, 1, 2 of six retrieved, 3 and 2 of two missed: 0.785.

    https://en.wikipedia.org/wiki/Discounted_cumulative_gain, its relevances divided by 3.
    """
    grades = {"d1": 3, "d2": 2, "d3": 3, "d4": 0, "d5": 1, "d6": 2, "d7": 3, "d8": 2}
    found = [f"d{place}" for place in range(1, 7)]
    wanted = [chunk(document, grade / 3) for document, grade in grades.items()]

    assert scores(ef.NDCG(6), (found, wanted)) == pytest.approx([6.861 / 8.740], abs=5e-4)


def test_the_example_of_wikipedia_for_mrr():
    """Right at ranks 3, 2 and 1: 11/18.

    https://en.wikipedia.org/wiki/Mean_reciprocal_rank
    """
    rows = [
        (["catten", "cati", "cats"], ["cats"]),
        (["torii", "tori", "toruses"], ["tori"]),
        (["viruses", "virii", "viri"], ["viruses"]),
    ]

    assert sum(scores(ef.MRR(), *rows)) / 3 == pytest.approx(11 / 18)


@every
def test_h05_null_and_empty_retrieval_are_zero_and_end_no_run(evaluator):
    """Nothing was retrieved though something is relevant: the answer is wrong, not missing."""
    found = run(evaluator, (["doc one"], ["doc one"]), ([], ["doc one"]), (None, ["doc one"]))

    assert (found["score"] > 0).tolist() == [True, False, False]
    assert found["score"].tolist()[1:] == [0.0, 0.0]
    assert found["explanation"].tolist()[1:] == ["nothing retrieved"] * 2


@every
def test_h46_without_relevant_contexts_there_is_no_score(evaluator):
    """Empty, null or blank: skipped with the reason, no division by zero, out of the mean."""
    nothing = [], None, ["", "  "], [chunk("a", 0), chunk("b", -0.5)]
    found = run(evaluator, (["a"], ["a"]), *((["a"], wanted) for wanted in nothing))

    assert found["error"].tolist()[1:] == ["skipped: no relevant contexts"] * 4
    assert found["score"].isna().tolist() == [False, True, True, True, True]


def test_relevance_of_what_was_retrieved_orders_it():
    """Highest first, ties as they stand; unless one of them has none."""
    ordered = [chunk("x", 0.1), chunk("a", 0.9), chunk("y", 0.9)]
    partly = [chunk("x", 0.1), chunk("a", 0.9), "y"]

    assert scores(ef.MRR(), (ordered, ["a"]), (partly, ["a"]), (ordered, ["y"])) == [
        1,
        1 / 2,
        1 / 2,
    ]


def test_relevance_in_the_truth_is_the_gain():
    """Higher grades are worth more at the top; without one the gain is 1."""
    graded = [chunk("a", 0.25), chunk("b", 1.0)]
    ideal = 1 + 0.25 / math.log2(3)
    mixed = ["b", chunk("a", 0.25)]

    assert scores(ef.NDCG(), (["b", "a"], graded), (["a", "b"], graded), (["b", "a"], mixed)) == (
        pytest.approx([1.0, (0.25 + 1 / math.log2(3)) / ideal, 1.0])
    )


def test_grades_do_not_count_in_yes_or_no():
    """A chunk of relevance 0.01 is relevant, one of 0 is not."""
    graded = [chunk("a", 0.01), chunk("b", 0), chunk("c", -1)]

    assert scores(ef.PrecisionAtK(3), (["a", "b", "c"], graded)) == pytest.approx([1 / 3])
    assert scores(ef.RecallAtK(1), (["a", "b", "c"], graded)) == [1.0]


def test_a_passage_that_comes_again_takes_a_rank_and_is_no_second_hit():
    """Else a list of one passage repeated would be the best of all."""
    assert scores(ef.PrecisionAtK(3), (["a", "a", "b"], ["a", "b"])) == pytest.approx([2 / 3])
    assert scores(ef.RecallAtK(2), (["a", "a", "b"], ["a", "b"])) == [1 / 2]
    assert scores(ef.NDCG(), (["a", "a"], ["a", "b"])) == pytest.approx(
        [1 / (1 + 1 / math.log2(3))]
    )


def test_a_passage_that_is_relevant_twice_counts_once_with_its_higher_grade():
    """The truth may list it for two reasons."""
    wanted = [chunk("a", 0.2), chunk("a", 0.8), chunk("a", 0.4), chunk("b", 0.4)]

    assert scores(ef.RecallAtK(1), (["a"], wanted)) == [1 / 2]
    assert scores(ef.NDCG(1), (["b"], wanted)) == pytest.approx([0.5])


def test_texts_are_equal_but_for_white_space_around_them():
    """Case and white space inside count."""
    found = scores(ef.MRR(), (["doc one\n"], [" doc one"]), (["Doc"], ["doc"]), (["a  b"], ["a b"]))

    assert found == [1.0, 0.0, 0.0]


def test_h57_a_single_text_is_one_passage():
    """It is never walked letter by letter."""
    assert scores(ef.RecallAtK(1), ("abc", ["a", "b", "c"]), ("abc", "abc"), (7, 7)) == [0, 1, 1]


@pytest.mark.parametrize(
    ("pair", "explanation"),
    [
        pytest.param(
            (["a", "x", "y", "b"], ["a", "b", "c"]), "2 of 3 relevant at ranks 1, 4", id="2"
        ),
        pytest.param((["x", "a"], ["a"]), "1 of 1 relevant at rank 2", id="one"),
        pytest.param((["x", "y"], ["a", "b"]), "none of 2 relevant among the first 2", id="none"),
        pytest.param((None, ["a"]), "nothing retrieved", id="nothing"),
        pytest.param(
            (list(range(12)), list(range(12))),
            "12 of 12 relevant at ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...",
            id="many",
        ),
    ],
)
def test_the_explanation_says_which_ranks_hit(pair, explanation):
    """Counted from 1."""
    assert run(ef.MRR(), pair)["explanation"].tolist() == [explanation]


def test_only_ranks_that_count_are_explained():
    """Those within k."""
    pair = ["x", "a", "b"], ["a", "b"]

    assert run(ef.HitRate(2), pair)["explanation"][0] == "1 of 2 relevant at rank 2"
    assert run(ef.HitRate(1), pair)["explanation"][0] == "none of 2 relevant among the first 1"


def test_a_hit_is_a_verdict():
    """It has a label, as every yes or no has; the others have none."""
    rows = [(["a"], ["a"]), (["x"], ["a"]), (["a"], [])]

    assert run(ef.HitRate(), *rows)["label"].tolist()[:2] == ["True", "False"]
    assert run(ef.HitRate(), *rows)["label"].isna().tolist() == [False, False, True]
    assert run(ef.MRR(), *rows)["label"].isna().all()


@every
@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        pytest.param([1.5], ["a"], r"item 1 of retrieval_context is 1\.5 \(float\)", id="float"),
        pytest.param(["a", None], ["a"], "item 2 of retrieval_context is None", id="null-item"),
        pytest.param([True], [1], "item 1 of retrieval_context is True", id="bool"),
        pytest.param(
            ["a"], [{"text": "a"}], "item 1 of context is .*; give a text, a wh", id="key"
        ),
        pytest.param(["a"], [chunk(None)], "the document of item 1 of context is None", id="null"),
        pytest.param(["a"], [chunk("a", 2)], "the relevance of item 1 of context is 2", id="range"),
        pytest.param(["1"], [1], "texts are not compared with numbers: retrieval", id="kinds"),
        pytest.param(None, [["a"]], "item 1 of context", id="nothing-retrieved"),
    ],
)
def test_a_malformed_item_fails_its_row(evaluator, found, wanted, error):
    """With its place; the rows around it have their scores."""
    cells = run(evaluator, (["a"], ["a"]), (found, wanted), ([2], [2]))

    assert cells["error"].str.match(f"invalid_result: {error}").tolist()[1] is True
    assert cells["score"].isna().tolist() == [False, True, False]


@every
@pytest.mark.parametrize(
    ("found", "wanted", "problem"),
    [
        pytest.param([1.5], ["a"], r"retrieval_context is list<.*double>", id="floats"),
        pytest.param(["a"], [True], r"context is list<.*bool>", id="bools"),
        pytest.param([["a"]], ["a"], r"retrieval_context is list<", id="lists-of-lists"),
        pytest.param([{"text": "a"}], ["a"], r"retrieval_context is list<.*struct", id="keys"),
        pytest.param(
            [1], ["1"], "retrieval_context holds numbers and context holds texts", id="ids"
        ),
    ],
)
def test_columns_that_can_never_be_passages_are_refused_before_the_run(
    evaluator, found, wanted, problem
):
    """No row is judged."""
    frame = pd.DataFrame({"retrieval_context": [found], "context": [wanted]})

    with pytest.raises(ef.ExperimentError, match=problem):
        ef.run_experiment(frame, evaluators=[evaluator], progress=False)


@every
@pytest.mark.parametrize(
    ("passages", "kind"),
    [
        pytest.param([7, 8], pa.large_list(pa.int32()), id="large-list"),
        pytest.param([7, 8], pa.list_(pa.uint64(), 2), id="fixed-size-list"),
        pytest.param(["a", "b"], pa.list_(pa.dictionary(pa.int32(), pa.string())), id="codes"),
    ],
)
def test_lists_are_passages_in_every_arrow_type(evaluator, passages, kind):
    """Dictionary codes included."""
    found = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([passages]).cast(kind)))
    frame = pd.DataFrame({"retrieval_context": found, "context": [passages]})

    scored = ef.run_experiment(frame, evaluators=[evaluator], progress=False)

    assert scored[f"eval.{evaluator.name}.score"][0] > 0


@every
def test_examples_with_context_chunks_run_as_they_are(evaluator):
    """A list of `Example`."""
    example = ef.Example(
        retrieval_context=[ef.ContextChunk(document="a", relevance=0.5), "b"], context=["a"]
    )
    scored = ef.run_experiment([example], evaluators=[evaluator], progress=False)

    assert scored[f"eval.{evaluator.name}.score"][0] > 0


@pytest.mark.parametrize("make", [ef.PrecisionAtK, ef.RecallAtK, ef.HitRate, ef.NDCG])
@pytest.mark.parametrize("k", [0, -1, True, 1.0, "3"], ids=repr)
def test_k_is_a_whole_number_of_at_least_one(make, k):
    """None only where all ranks may count."""
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        make(k)


@pytest.mark.parametrize("make", [ef.PrecisionAtK, ef.RecallAtK])
def test_some_need_a_k(make):
    """A share of all that was retrieved would be another metric."""
    with pytest.raises(ValueError, match="at least 1, not None"):
        make(None)


passages = st.sampled_from(["a", " a", "b", "c\n", "", " ", "é"])
items = passages | st.sampled_from([7, None, chunk("a", 0.5), chunk("b", 1.0), chunk(7), {"x": 1}])
contexts = st.none() | st.lists(passages, max_size=6)
anything = contexts | st.lists(items, max_size=4) | passages | st.just(chunk("a"))


def cells(evaluator, rows):
    """Label, score, explanation and error of rows, called as a run calls it."""
    columns = [np.empty(len(rows), dtype=object) for _ in range(2)]
    for row, pair in enumerate(rows):
        columns[0][row], columns[1][row] = pair
    found = evaluator.function(*(pd.Series(column, dtype=object) for column in columns)).arrays
    fields = ("label", "score", "explanation", "error")
    return list(zip(*(found[name].to_pylist() for name in fields), strict=True))


@every
@given(rows=st.lists(st.tuples(anything, anything), max_size=5))
def test_a_row_is_judged_as_it_is_alone(evaluator, rows):
    """Whether the other rows are lists of texts, of anything else, or wrong."""
    assert cells(evaluator, rows) == [cells(evaluator, [row])[0] for row in rows]


def plain_scores(found, wanted):
    """What `EVERY` scores on texts; None where nothing is relevant."""
    relevant = {text.strip() for text in wanted or []} - {""}
    if not relevant:
        return [None] * len(EVERY)
    hits, seen = [], set()
    for text in found or []:
        hits.append(text.strip() in relevant - seen)
        seen.add(text.strip())
    ranks = [rank for rank, hit in enumerate(hits, 1) if hit]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, len(relevant) + 1))
    return [
        sum(hits[:3]) / 3,
        sum(hits[:3]) / len(relevant),
        float(any(hits)),
        1 / ranks[0] if ranks else 0.0,
        sum(1 / math.log2(rank + 1) for rank in ranks) / ideal,
    ]


@given(found=contexts, wanted=contexts)
def test_texts_score_by_the_plain_law(found, wanted):
    """Whatever is blank, padded or there twice."""
    scored = [cells(evaluator, [(found, wanted)])[0][1] for evaluator in EVERY]

    assert scored == pytest.approx(plain_scores(found, wanted))


@pytest.mark.parametrize("evaluator", [ef.PrecisionAtK(1), ef.RecallAtK(1), ef.HitRate(1)])
def test_a_malformed_item_fails_its_row_beyond_the_ranks_that_count(evaluator):
    """A row that cannot be read is no row with a score."""
    ((label, score, _, error),) = cells(evaluator, [(["a", None], ["a"])])

    assert (label, score) == (None, None)
    assert error.startswith("invalid_result: item 2 of retrieval_context is None")
