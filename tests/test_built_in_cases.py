"""Faults that users of other toolkits met, over all built-in evaluators that they could be of.

The case itself stands in the docstring: what went wrong elsewhere, and what holds here. Cases of
one evaluator alone are with its own tests.
"""

import asyncio

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evalframe as ef
from evalframe.evaluators.catalogue import BUILT_IN
from evalframe.testing import embeddings, error, label, obedient, reply

PARTS = ("label", "score", "explanation", "error")

# Three rows of everything that a built-in evaluator reads.
ROWS = [
    {
        "input": f"q{n}",
        "output": text,
        "dataset_output": truth,
        "retrieval_context": [f"a{n}", "", f"b{n}"],
        "context": [f"b{n}", f"c{n}"],
        "tools_called": ["search", "open"][:n],
        "expected_tools": ["open", "search"],
        "number": float(n),
        "json": {"n": n, "s": text},
        "truth": {"n": 1, "s": truth},
    }
    for n, (text, truth) in enumerate([("a cat", "a cat"), ("b", "a cat sat"), ("[1]", "1")])
]


def letters(texts):
    """How often each of four letters is there, and one number that never is 0."""
    return [[*(text.count(letter) for letter in "acts"), 0.5] for text in texts]


def model_on(server):
    """A model that asks the server."""
    return ef.Model("local/m", base_url=server.base_url, max_retries=0)


def all_built_in(server):
    """One of each class, judges asking the server."""
    model = model_on(server)
    made = [
        *(ef.ExactMatch(), ef.Contains("a"), ef.Regex("a"), ef.OneOf(["b"]), ef.ValidJSON()),
        ef.NumericClose().bind(output="number", dataset_output=lambda _: 1.0),
        ef.JsonDiff().bind(output="json", dataset_output="truth"),
        ef.ToolCalls("ordered"),
        *(ef.TokenF1(), ef.Levenshtein(), ef.Rouge("rougeL"), ef.Bleu(), ef.Chrf()),
        *(ef.PrecisionAtK(2), ef.RecallAtK(2), ef.MRR(), ef.NDCG(), ef.HitRate()),
        *(ef.SemanticSimilarity(letters), ef.BertScore(letters)),
        *(ef.ContextPrecision(model), ef.ContextRecall(model), ef.Faithfulness(model)),
        *(ef.Hallucination(model), ef.AnswerCorrectness(model), ef.AnswerRelevancy(model)),
        ef.CustomEval("{output} for {input}?", model=model),
        ef.LLMJudge("j", model=model, prompt="{{ item.output }}", choices=["yes", "no"]),
    ]
    assert {type(each) for each in made} == {*BUILT_IN}
    return made


def parts_of(scored):
    """Label, score, explanation and error of every cell."""
    return scored[[column for column in scored if column.rpartition(".")[2] in PARTS]]


def prompts(server):
    """What the model was asked, in some order of its own."""
    return sorted(request.prompt for request in server.requests)


async def awaited(rows, evaluators, task):
    """A run that is awaited."""
    return await ef.arun_experiment(rows, task, evaluators=evaluators)


@pytest.mark.parametrize("of_task", [False, True], ids=["column", "task"])
def test_h29_every_built_in_judges_the_same_awaited_or_not(serve, of_task):
    """The async path passed another argument than the sync path, so that its score was always 0."""
    first, second = serve(obedient), serve(obedient)
    outputs = {row["input"]: row["output"] for row in ROWS}
    task = (lambda input: outputs[input]) if of_task else None
    rows = [{k: v for k, v in row.items() if not of_task or k != "output"} for row in ROWS]

    sync = ef.run_experiment(rows, task, evaluators=all_built_in(first))
    found = asyncio.run(awaited(rows, all_built_in(second), task))

    assert sync.evals.summary()["n_valid"].tolist() == [3] * len(BUILT_IN)
    pd.testing.assert_frame_equal(parts_of(sync), parts_of(found))
    assert prompts(first) == prompts(second)
    assert len(prompts(first)) == 3 * 8


def test_h29_every_built_in_judges_a_row_alone_as_among_others(serve):
    """The same in one vectorized call as row by row, in scores and in what is asked."""
    first, second = serve(obedient), serve(obedient)

    together = ef.run_experiment(ROWS, evaluators=all_built_in(first))
    evaluators = all_built_in(second)
    alone = [ef.run_experiment([row], evaluators=evaluators) for row in ROWS]

    apart = pd.concat(map(parts_of, alone), ignore_index=True)
    pd.testing.assert_frame_equal(parts_of(together), apart)
    assert prompts(first) == prompts(second)


@pytest.mark.parametrize("wrap", [ef.Dataset, lambda frame: frame], ids=["dataset", "frame"])
def test_h19_lists_from_parquet_are_lists_to_every_built_in(serve, tmp_path, wrap):
    """They came back as NumPy arrays, whose truth value is ambiguous: the cells are as before."""
    server = serve(obedient)
    evaluators = all_built_in(server)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    frame = pd.read_parquet(tmp_path / "rows.parquet")
    assert isinstance(frame["retrieval_context"][0], np.ndarray)

    scored = ef.run_experiment(wrap(frame), evaluators=evaluators)

    expected = ef.run_experiment(ROWS, evaluators=evaluators)
    pd.testing.assert_frame_equal(parts_of(scored), parts_of(expected))


CALLS = [[{"name": "search", "args": {"q": "x"}}], [{"name": "open", "args": {"id": 7}}]]


def test_h20_calls_are_not_padded_with_the_keys_of_others(serve):
    """Each row's dicts had the keys of all rows, as nulls: in comparisons and in prompts."""
    server = serve(label("yes", explanation="e"))
    rows = pd.DataFrame({"tools_called": CALLS, "expected_tools": CALLS})
    diff = ef.JsonDiff().bind(output="tools_called", dataset_output="expected_tools")
    prompt = "{{ item.tools_called }}"
    judge = ef.LLMJudge("j", model=model_on(server), prompt=prompt, choices=["yes", "no"])

    scored = ef.run_experiment(rows, evaluators=[diff, judge, ef.ToolCalls(arguments=True)])

    assert scored.evals.scores[["json_diff", "tool_calls"]].to_numpy().tolist() == [[1.0, 1.0]] * 2
    assert prompts(server) == [
        '[{"name": "open", "args": {"id": 7}}]',
        '[{"name": "search", "args": {"q": "x"}}]',
    ]


def believes(request):
    """A model that finds every context relevant, and every statement true."""
    lists = request.schema["properties"]
    if "verdicts" in lists:
        count = lists["verdicts"]["minItems"]
        return reply({"verdicts": [{"reason": "r", "verdict": "yes"}] * count})
    return reply({"statements": [{"statement": "s", "reason": "r", "verdict": "yes"}]})


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (ef.ContextPrecision, "retrieval_context"),
        (ef.ContextRecall, "retrieval_context"),
        (ef.Faithfulness, "retrieval_context"),
        (ef.Hallucination, "context"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_h05_h46_rows_without_contexts_are_skipped_by_every_judge_of_contexts(serve, kind, field):
    """They divided by zero, and ended the run; here they are in no mean, and not asked about."""
    server = serve(believes)
    contexts = [["one text", "another"], [], None, ["", "  "]]
    rows = [{"input": "q", "output": "o", "dataset_output": "r", field: c} for c in contexts]
    scored = ef.run_experiment(rows, evaluators={"it": kind(model_on(server))})
    (summary,) = scored.evals.summary().to_dict("records")

    assert pa.array(scored["eval.it.score"]).to_pylist() == [1.0, None, None, None]
    assert scored["eval.it.error"].tolist()[1:] == ["skipped: no contexts"] * 3
    assert (summary["mean"], summary["n_scored"], summary["n"]) == (1.0, 1, 4)
    assert server.calls == 1


EMBEDDED = [ef.SemanticSimilarity, ef.BertScore]
either = pytest.mark.parametrize("kind", EMBEDDED, ids=lambda kind: kind.__name__)


@either
def test_h49_blank_texts_reach_no_embedder(serve, kind):
    """The API refused the whole batch for one of them, and row 1 was lost."""

    def script(request):
        if any(not text.strip() for text in request.texts):
            return error(400, "input cannot be blank")
        return embeddings({"hello": [1.0, 2.0]})(request)

    server = serve(script)
    rows = [{"output": text, "dataset_output": "hello"} for text in ("hello", "", "   ")]
    scored = ef.run_experiment(rows, evaluators={"it": kind(model_on(server))})

    assert pa.array(scored["eval.it.score"]).to_pylist() == [1.0, None, None]
    assert scored["eval.it.error"].tolist()[1:] == ["skipped: empty text"] * 2
    assert [text for request in server.requests for text in request.texts] == ["hello"]


@either
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_h50_vectors_need_no_length_of_one(kind):
    """A similarity was 35.8; here it is in [0, 1], and a vector of zeros has none."""
    pairs = [((3, 4), (6, 8)), ((1, 0), (0, 5)), ((2, 0), (-7, 0)), ((0, 0), (1, 0))]
    table = {f"{side}{n}": pair[i] for n, pair in enumerate(pairs) for i, side in enumerate("ab")}
    rows = [{"output": f"a{n}", "dataset_output": f"b{n}"} for n in range(4)]
    embedder = kind(lambda texts: [table[text] for text in texts])
    scored = ef.run_experiment(rows, evaluators={"it": embedder})

    assert pa.array(scored["eval.it.score"]).to_pylist() == [1.0, 0.0, 0.0, None]
    assert scored["eval.it.error"][3].startswith("skipped: zero vector")


@pytest.mark.parametrize("dtype", [object, "Float64"], ids=["object", "nullable"])
def test_h10_a_row_without_a_score_is_in_no_rate_of_any_evaluator(serve, dtype):
    """A NaN was compared with the threshold, and made the mean of the run NaN."""
    server = serve(obedient)
    rows = pd.DataFrame(ROWS)
    rows["number"] = pd.Series([0.0, float("nan"), 1.0], dtype=dtype)
    rows.loc[1, ["input", "output", "dataset_output"]] = None
    evaluators = [
        ef.NumericClose(threshold=0.5).bind(output=lambda _: 1.0, dataset_output="number"),
        ef.TokenF1(threshold=0.5),
        ef.SemanticSimilarity(letters, threshold=0.5),
        ef.AnswerCorrectness(model_on(server), threshold=0.1),
    ]
    scored = ef.run_experiment(rows, evaluators=evaluators)
    summary = scored.evals.summary().set_index("evaluator")

    assert scored.evals.passed.iloc[1].isna().all()
    assert summary["n_scored"].tolist() == [2] * 4
    assert summary["n"].tolist() == [3] * 4
    passed = scored.evals.passed.iloc[[0, 2]].astype(float)
    assert summary["pass_rate"].tolist() == passed.mean().tolist()
    assert summary["mean"].tolist() == scored.evals.scores.iloc[[0, 2]].mean().tolist()
