"""The public names: exactly these, each with the documentation a reader needs.

Raises is asked for where the code has a `raise` of its own; what a helper raises is for the
writer to remember.
"""

import ast
import inspect
import textwrap

import pytest

import evalframe

PUBLIC = [
    "AnswerCorrectness",
    "AnswerRelevancy",
    "BertScore",
    "Bleu",
    "CellError",
    "ChatTask",
    "Chrf",
    "ColumnNotFoundError",
    "ConfigError",
    "Contains",
    "ContextChunk",
    "ContextPrecision",
    "ContextRecall",
    "CustomEval",
    "Dataset",
    "DatasetError",
    "Embedder",
    "EvalframeError",
    "EvaluationResult",
    "Evaluator",
    "ExactMatch",
    "Example",
    "ExperimentError",
    "Faithfulness",
    "Hallucination",
    "HitRate",
    "JournalError",
    "JsonDiff",
    "LLMJudge",
    "Levenshtein",
    "MRR",
    "MissingExtraError",
    "Model",
    "NDCG",
    "NumericClose",
    "OneOf",
    "PrecisionAtK",
    "RecallAtK",
    "Regex",
    "Rouge",
    "RunDirError",
    "SemanticSimilarity",
    "StuckCallsError",
    "TokenF1",
    "ToolCalls",
    "UnsupportedValueError",
    "ValidJSON",
    "arun_experiment",
    "estimate",
    "evaluator",
    "explain",
    "failures",
    "last_run",
    "load_evaluators",
    "load_experiment",
    "passed",
    "read_parquet",
    "run_experiment",
    "scores",
    "skip",
    "summary",
    "task",
    "to_parquet",
    "usage",
]


def docstring_of(name):
    """The public object's docstring, or "" where it has none of its own."""
    return inspect.cleandoc(getattr(evalframe, name).__doc__ or "")


def functions_of(name):
    """(name, docstring, function) of a public function, or of a class's public methods.

    A constructor is documented by its class.
    """
    thing = getattr(evalframe, name)
    if inspect.isfunction(thing):
        return [(name, thing.__doc__, inspect.unwrap(thing))]
    found = []
    for key, member in vars(thing).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if not inspect.isfunction(function):
            continue
        if key in {"__init__", "__new__", "__post_init__"}:
            found.append((f"{name}.{key}", f"{thing.__doc__}\n{function.__doc__}", function))
        elif not key.startswith("_"):
            found.append((f"{name}.{key}", function.__doc__, function))
    return found


def raises_itself(function):
    """Whether the function's own body, without functions inside it, raises something new."""
    if function.__code__.co_filename == "<string>":
        return False  # the __init__ that dataclass writes
    todo = list(ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return False


def test_all_is_exactly_this_list():
    """A public name appears or goes on purpose."""
    assert sorted(evalframe.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_docstring_with_an_example(name):
    """Each public function and class says what it is, and shows it."""
    assert ">>> " in docstring_of(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_function_documents_its_parameters(name):
    """A public function with parameters has an Args section that names each of them."""
    thing = getattr(evalframe, name)
    parameters = inspect.signature(thing).parameters if inspect.isfunction(thing) else {}
    _, _, arguments = docstring_of(name).partition("\nArgs:\n")

    assert [key for key in parameters if f"\n    {key}:" not in f"\n{arguments}"] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_public_code_that_raises_says_so(name):
    """A public function, method or constructor with a `raise` has a Raises section."""
    silent = [
        where
        for where, docstring, function in functions_of(name)
        if raises_itself(function) and "Raises:\n" not in (docstring or "")
    ]

    assert silent == []


def test_undocumented_raise_is_found():
    """The search sees a raise in the body, and not one that only passes an error on."""

    def refuses():
        if True:
            raise ValueError

    def passes_on():
        try:
            refuses()
        except ValueError:  # noqa: TRY203 - that it is only passed on is the case
            raise

    def defines():
        return refuses

    assert [raises_itself(f) for f in (refuses, passes_on, defines)] == [True, False, False]
