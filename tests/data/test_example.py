"""Examples: the document's fields, what fits into them, and Dataset <-> Examples without loss."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalframe.core.errors import DatasetError
from evalframe.data import ContextChunk, Dataset, Example

FIELDS = [
    "input",
    "actual_output",
    "expected_output",
    "retrieval_context",
    "context",
    "tools_called",
    "expected_tools",
    "additional_metadata",
]


def values(dataset, label):
    """All values of a column as an evaluator gets them."""
    return dataset.column(label).values(slice(None))


@pytest.fixture
def microsoft():
    """The example that the document builds."""
    return Example(
        input="Who founded Microsoft?",
        actual_output="Bill Gates and Paul Allen.",
        expected_output="Bill Gates and Paul Allen founded Microsoft in New Mexico in 1975.",
        retrieval_context=["Bill Gates co-founded Microsoft with Paul Allen in 1975."],
        context=["Bill Gates and Paul Allen are the founders of Microsoft."],
        tools_called=["research_person", "research_company"],
        expected_tools=["research_person", "research_company"],
        additional_metadata={"research_source": "Wikipedia"},
    )


def test_the_documents_example_builds_as_it_stands(microsoft):
    """Every field of the document is there, and holds what it was given."""
    assert list(Example.model_fields) == FIELDS
    assert microsoft.tools_called == ["research_person", "research_company"]
    assert microsoft.additional_metadata == {"research_source": "Wikipedia"}
    assert microsoft.model_extra == {}


def test_the_documents_example_is_a_row(microsoft):
    """Its Dataset has the document's fields as columns, in the document's order."""
    dataset = Dataset([microsoft])

    assert dataset.columns == FIELDS
    assert dataset.to_examples() == [microsoft]


HEALTHY = "Sparkling water is neither healthy nor unhealthy."
SPARKLING = {"input": "Is sparkling water healthy?", "actual_output": HEALTHY}
PARIS = {"input": "What is the weather in Paris?", "actual_output": "Sunny and 25°C."}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"input": "Is sparkling water healthy?"}, id="input"),
        pytest.param({"input": {"question": "Is it?", "turn": 2}}, id="input-dict"),
        pytest.param(SPARKLING, id="actual-output"),
        pytest.param({"actual_output": ["one", "two"]}, id="actual-output-list"),
        pytest.param({**SPARKLING, "expected_output": HEALTHY}, id="expected-output"),
        pytest.param({"expected_output": ["Paris", "paris"]}, id="expected-output-list"),
        pytest.param(
            {**SPARKLING, "retrieval_context": ["It has no calories."]}, id="retrieval-context"
        ),
        pytest.param({**SPARKLING, "context": ["It is carbonated."]}, id="context"),
        pytest.param({**PARIS, "tools_called": ["weather_api"]}, id="tools-called"),
        pytest.param({**PARIS, "expected_tools": ["weather_api"]}, id="expected-tools"),
        pytest.param(
            {**PARIS, "additional_metadata": {"source": "OpenWeatherMap", "confidence": 0.95}},
            id="additional-metadata",
        ),
        pytest.param({"context": [], "additional_metadata": {}}, id="empty-is-not-null"),
        pytest.param(dict.fromkeys(FIELDS), id="all-null"),
    ],
)
def test_every_field_of_the_document_is_optional_and_comes_back(fields):
    """A field holds what it was given; one that was not given is None."""
    example = Example(**fields)

    assert {name: getattr(example, name) for name in FIELDS} == {**dict.fromkeys(FIELDS), **fields}
    assert Dataset([example]).columns == [name for name in FIELDS if name in fields]
    assert Dataset([example, Example()]).to_examples() == [example, Example()]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"input": 3}, "input", id="input-number"),
        pytest.param({"input": ["a"]}, "input", id="input-list"),
        pytest.param({"input": {1: "a"}}, "input", id="input-keys-no-text"),
        pytest.param({"input": b"bytes"}, "input", id="input-bytes"),
        pytest.param({"actual_output": 3}, "actual_output", id="output-number"),
        pytest.param({"actual_output": ["a", None]}, "actual_output", id="none-in-output"),
        pytest.param({"expected_output": {"a": 1}}, "expected_output", id="expected-dict"),
        pytest.param(
            {"retrieval_context": ["a", None]}, "retrieval_context", id="none-in-contexts"
        ),
        pytest.param({"retrieval_context": [1]}, "retrieval_context", id="number-in-contexts"),
        pytest.param({"context": "one text"}, r"write \['one text'\]", id="text-for-a-list"),
        pytest.param({"context": {"a", "b"}}, "context", id="set-has-no-order"),
        pytest.param({"tools_called": [None]}, "tools_called", id="none-in-tools"),
        pytest.param({"tools_called": [{"name": "a"}]}, "tools_called", id="dict-in-tools"),
        pytest.param({"expected_tools": "weather_api"}, "expected_tools", id="text-for-tools"),
        pytest.param({"additional_metadata": "x"}, "additional_metadata", id="metadata-text"),
        pytest.param(
            {"additional_metadata": [("a", 1)]}, "additional_metadata", id="metadata-pairs"
        ),
    ],
)
def test_value_that_does_not_fit_its_field_is_refused(fields, message):
    """Values are neither coerced nor cut; the error names the field."""
    with pytest.raises(ValidationError, match=message):
        Example(**fields)


@pytest.mark.parametrize(
    "contexts",
    [
        pytest.param(("a", "b"), id="tuple"),
        pytest.param(np.array(["a", "b"]), id="text-array"),
        pytest.param(np.array(["a", "b"], dtype=object), id="object-array"),
    ],
)
def test_tuples_and_arrays_become_lists(contexts):
    """What is like a list is one."""
    example = Example(retrieval_context=contexts, context=contexts, actual_output=contexts)

    assert example.retrieval_context == example.context == example.actual_output == ["a", "b"]
    assert [type(text) for text in example.context] == [str, str]


def test_example_is_frozen():
    """A changed example is another example."""
    example = Example(input="a")

    with pytest.raises(ValidationError, match="frozen"):
        example.input = "b"
    assert example.model_copy(update={"input": "b"}).input == "b"


def test_unknown_fields_become_columns():
    """Extras follow the fields, in first-seen order, and come back."""
    examples = [Example(input="a", topic="x"), Example(level=3, actual_output="b", topic="y")]
    dataset = Dataset(examples)

    assert dataset.columns == ["input", "actual_output", "topic", "level"]
    assert values(dataset, "level") == [None, 3]
    assert dataset.to_examples() == examples


@pytest.mark.parametrize("null", [None, float("nan"), pd.NA, pd.NaT])
def test_null_extra_is_an_absent_one(null):
    """Whether an extra field is null or was never given makes no difference."""
    assert Example(input="a", topic=null) == Example(input="a")


@pytest.mark.parametrize(
    ("alias", "field", "value"),
    [
        pytest.param("query", "input", "q", id="query"),
        pytest.param("attributes.input.value", "input", "q", id="traced-input"),
        pytest.param("output", "actual_output", "a", id="output"),
        pytest.param("generated_output", "actual_output", "a", id="generated-output"),
        pytest.param("experiment_output", "actual_output", "a", id="experiment-output"),
        pytest.param("dataset_output", "expected_output", "e", id="dataset-output"),
        pytest.param("expected", "expected_output", "e", id="expected"),
        pytest.param("reference", "expected_output", "e", id="reference"),
        pytest.param("attributes.output.value", "expected_output", "e", id="traced-output"),
        pytest.param("contexts", "retrieval_context", ["c"], id="contexts"),
        pytest.param("metadata", "additional_metadata", {"k": 1}, id="metadata"),
        pytest.param("attributes.metadata", "additional_metadata", {"k": 1}, id="traced-metadata"),
    ],
)
def test_field_may_be_given_under_its_role_or_an_alias(alias, field, value):
    """The names of other toolkits, and of a dataset's columns, lead to the same field."""
    expected = Example(**{field: value})

    assert Example(**{alias: value}) == expected
    assert Dataset([{alias: value}]).to_examples() == [expected]


def test_alias_beside_its_field_is_an_extra():
    """A field's own name is stronger than an alias, and nothing is dropped."""
    example = Example(input="a", query="b", actual_output="c", output="d")

    assert (example.input, example.actual_output) == ("a", "c")
    assert example.model_extra == {"query": "b", "output": "d"}
    assert Dataset([example]).to_examples() == [example]


def test_two_aliases_of_one_field_are_refused():
    """Which of the two is meant cannot be known."""
    with pytest.raises(ValidationError, match="'expected', 'reference'"):
        Example(reference="a", expected="b")
    with pytest.raises(DatasetError, match="'expected', 'reference'"):
        Dataset([{"reference": "a", "expected": "b"}]).to_examples()


def test_the_evaluator_pages_arguments_build_an_example():
    """query, output, reference and contexts of ContextChunk, as the document names them."""
    example = Example(
        query="Capital of France?",
        output="Paris",
        reference="Paris",
        contexts=[ContextChunk(document="Paris is the capital.", relevance=0.9)],
    )

    assert Dataset([example]).to_examples() == [example]
    assert values(Dataset([example]), "retrieval_context") == [
        [{"document": "Paris is the capital.", "relevance": 0.9}]
    ]


@pytest.mark.parametrize("relevance", [-1, 0, 1, -0.25, np.float32(0.5), np.float64(1.0), None])
def test_relevance_is_a_number_from_minus_one_to_one(relevance):
    """Both bounds are in; it may be unknown."""
    chunk = ContextChunk("text", relevance)

    assert chunk == ContextChunk(document="text", relevance=relevance)
    assert type(chunk.relevance) is (type(None) if relevance is None else float)


@pytest.mark.parametrize("relevance", [1.0001, -1.5, float("nan"), float("inf"), "0.5", True])
def test_relevance_out_of_range_is_refused(relevance):
    """Nothing is clipped, and neither text nor a bool is a number."""
    with pytest.raises(ValidationError, match="relevance"):
        ContextChunk("text", relevance)


@pytest.mark.parametrize("document", [None, 3, ["a"], b"a"])
def test_document_is_text(document):
    """A chunk without a text is none."""
    with pytest.raises(ValidationError, match="document"):
        ContextChunk(document)


def test_chunk_has_two_fields_only():
    """A misspelt field is an error and no extra."""
    with pytest.raises(ValidationError, match="score"):
        ContextChunk("text", score=0.5)
    with pytest.raises(ValidationError, match="score"):
        Example(retrieval_context=[{"document": "text", "score": 0.5}])
    with pytest.raises(ValidationError, match=r"item 0 is no ContextChunk .*document"):
        Example(retrieval_context=[{"relevance": 0.5}])


def test_strings_and_chunks_stand_side_by_side():
    """A retrieval context may mix texts and chunks, and each comes back as it was."""
    context = ["plain", ContextChunk("scored", 0.5), ContextChunk("unscored")]
    example = Example(retrieval_context=context)

    assert example.retrieval_context == context
    assert Dataset([example]).to_examples()[0].retrieval_context == context


FEW_TEXTS = st.lists(st.text(max_size=5), max_size=3)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
DICTS = st.dictionaries(st.text(max_size=3), PLAIN, max_size=3)
CHUNKS = st.builds(ContextChunk, st.text(max_size=5), st.none() | st.floats(-1, 1))
GIVEN = {
    "input": st.text(max_size=5) | DICTS,
    "actual_output": st.text(max_size=5) | FEW_TEXTS,
    "expected_output": st.text(max_size=5) | FEW_TEXTS,
    "retrieval_context": st.lists(st.text(max_size=5) | CHUNKS, max_size=3),
    "context": FEW_TEXTS,
    "tools_called": FEW_TEXTS,
    "expected_tools": FEW_TEXTS,
    "additional_metadata": DICTS,
    "topic": PLAIN,
    "query": st.text(max_size=5),
    "output": st.text(max_size=5),
}
EXAMPLES = st.lists(
    st.fixed_dictionaries({}, optional={k: st.none() | v for k, v in GIVEN.items()}).map(
        lambda fields: Example(**fields)
    ),
    max_size=5,
)


def spelled(example):
    """An example as text: 1, 1.0 and True differ, and so do chunks and dicts."""
    return repr(example)


@given(EXAMPLES)
def test_examples_come_back_from_a_dataset(examples):
    """Examples -> Dataset -> Examples is lossless, through an Arrow table too."""
    dataset = Dataset(examples)
    back = dataset.to_examples()

    assert [example.model_dump() for example in back] == [e.model_dump() for e in examples]
    assert [
        spelled(e.model_copy(update={"q": 0})) for e in Dataset(dataset.to_arrow()).to_examples()
    ] == [spelled(e.model_copy(update={"q": 0})) for e in back]


@given(EXAMPLES)
def test_dataset_comes_back_from_its_examples(examples):
    """Dataset -> Examples -> Dataset has the same columns with the same values."""
    dataset = Dataset(examples)
    back = Dataset(dataset.to_examples())

    filled = [
        label
        for label in dataset.columns
        if label in FIELDS or any(value is not None for value in values(dataset, label))
    ]
    assert back.columns == filled
    assert [repr(values(back, label)) for label in filled] == [
        repr(values(dataset, label)) for label in filled
    ]


def test_examples_of_a_mapped_dataset():
    """Columns of any name fill the fields of their roles, and the rest are extras."""
    rows = [{"q": "1+1", "a": "2", "truth": "2", "tags": {"k": 1}, "contexts": ["c"], "id": 7}]
    dataset = Dataset(rows, input="q", output="a", dataset_output="truth", metadata="tags")

    assert dataset.to_examples() == [
        Example(
            input="1+1",
            actual_output="2",
            expected_output="2",
            additional_metadata={"k": 1},
            retrieval_context=["c"],
            id=7,
        )
    ]


def test_several_metadata_columns_make_one_dict():
    """A list of metadata columns is a dict by column name."""
    dataset = Dataset([{"input": "a", "topic": "x", "level": 1}], metadata=["topic", "level"])

    assert dataset.to_examples() == [
        Example(input="a", additional_metadata={"topic": "x", "level": 1})
    ]


def test_result_columns_are_no_fields():
    """What an earlier run wrote is not part of its examples."""
    row = {"output": "a", "eval.exact.score": 1.0, "eval.exact.error": None, "task.error": None}

    assert Dataset([row]).to_examples() == [Example(actual_output="a")]


@pytest.mark.parametrize(
    ("rows", "roles", "message"),
    [
        pytest.param(
            [{"input": "a"}, {"input": 3}], {}, "Row 1, field 'input': 3 does not fit", id="number"
        ),
        pytest.param(
            [{"docs": "a", "contexts": ["x", None]}],
            {"input": "docs"},
            r"Row 0, field 'retrieval_context': \['x', None\] does not fit",
            id="none-in-a-list",
        ),
        pytest.param(
            [{"topic": "x"}],
            {"metadata": "topic"},
            r"field 'additional_metadata': 'x' does not fit.*metadata=\['topic'\]",
            id="metadata-that-is-no-dict",
        ),
        pytest.param(
            [{"answer": "a", "actual_output": "b"}],
            {"output": "answer"},
            "Columns 'answer' and 'actual_output' would both be the field 'actual_output'",
            id="two-columns-for-one-field",
        ),
        pytest.param([{3: "a"}], {}, "Column 3 cannot be a field", id="name-that-is-no-text"),
    ],
)
def test_rows_that_are_no_examples_are_refused(rows, roles, message):
    """The error names the row and the field, or the columns in each other's way."""
    with pytest.raises(DatasetError, match=message):
        Dataset(rows, **roles).to_examples()
