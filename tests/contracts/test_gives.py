"""What every built-in class says that it gives, which the README's table shows, is what it gives.

A new class is added to MADE with what makes it, where it takes more than its name, and to ROWS
with what it reads.
"""

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.evaluators.asking import Judge
from evalframe.evaluators.catalogue import BUILT_IN, entry
from evalframe.testing import ChatServer, obedient

PARTS = ("label", "score", "explanation")


def letters(texts):
    """How often each of four letters is there, and one number that never is 0."""
    return [[*(text.casefold().count(letter) for letter in "aest"), 0.5] for text in texts]


MADE = {
    ef.OneOf: lambda: ef.OneOf(["a", "b c"]),
    ef.Regex: lambda: ef.Regex("a"),
    ef.PrecisionAtK: lambda: ef.PrecisionAtK(2),
    ef.RecallAtK: lambda: ef.RecallAtK(2),
    ef.Rouge: lambda: ef.Rouge("rougeL"),
    ef.SemanticSimilarity: lambda: ef.SemanticSimilarity(letters),
    ef.BertScore: lambda: ef.BertScore(letters, presence_threshold=1.0),
}
JUDGED = {
    ef.CustomEval: {"prompt_template": "{output}?"},
    ef.LLMJudge: {"name": "j", "prompt": "{{ item.output }}?", "choices": {"yes": 1, "no": 0}},
}

TEXTS = {
    "output": ["a", "b c", None, "the cat sat", "", "{", "a test"],
    "dataset_output": ["a", "b d", "a", None, "a", "{}", "the best seat"],
}
NUMBERS = {"output": [1.0, 2.0, None, 4.0], "dataset_output": [1.0, 3.0, 1.0, None]}
OBJECTS = {
    "output": ['{"a": 1}', '{"a": 2}', None, "{}", "["],
    "dataset_output": ['{"a": 1}', '{"a": 1}', "{}", None, "{}"],
}
TOOLS = {
    "tools_called": [["a"], ["b", "a"], None, ["a"], []],
    "expected_tools": [["a"], ["a", "b", "c"], ["a"], None, []],
}
PASSAGES = {
    "input": ["q", "q", "r", None],
    "output": ["a", "b", None, "c"],
    "dataset_output": ["a", "b", "c", None],
    "retrieval_context": [["a", "b"], ["c"], [], None],
    "context": [["b"], ["c", "d"], ["a"], None],
}
ROWS = {ef.NumericClose: NUMBERS, ef.JsonDiff: OBJECTS, ef.ToolCalls: TOOLS}
RANKED = (ef.PrecisionAtK, ef.RecallAtK, ef.MRR, ef.NDCG, ef.HitRate)


@pytest.fixture(scope="module")
def model():
    """A model that does as it is told, on loopback."""
    with ChatServer(obedient) as server:
        yield ef.Model("local/m", base_url=server.base_url)


@pytest.fixture
def cells(cls, model):
    """The class's valid cells on rows that it is for."""
    judged = issubclass(cls, Judge)
    evaluator = cls(model=model, **JUDGED.get(cls, {})) if judged else MADE.get(cls, cls)()
    rows = ROWS.get(cls, PASSAGES if judged or cls in RANKED else TEXTS)
    scored = ef.run_experiment(pd.DataFrame(rows), evaluators=[evaluator]).evals[evaluator.name]
    return scored[scored["error"].isna()]


every_class = pytest.mark.parametrize("cls", BUILT_IN, ids=lambda cls: cls.__name__)


@every_class
def test_a_part_that_is_not_declared_is_null_on_every_valid_row(cls, cells):
    """Whoever reads the table looks for no label where there is none."""
    others = [part for part in PARTS if part not in cls.gives]

    assert len(cells) >= 2
    assert {part: pa.array(cells[part]).drop_null().to_pylist() for part in others} == {
        part: [] for part in others
    }


@every_class
def test_what_is_declared_is_filled_on_some_row(cls, cells):
    """Parts and extras: nothing stands in the table that never comes."""
    assert [part for part in entry(cls).gives if cells[part].isna().all()] == []


def test_parts_are_declared_in_their_order():
    """And nothing else is called one."""
    assert [
        cls for cls in BUILT_IN if cls.gives != tuple(part for part in PARTS if part in cls.gives)
    ] == []
