"""The README's tables say what the code says."""

import inspect
import re
from pathlib import Path

import pytest

import evalframe
import evalframe.testing
from evalframe.core import schema
from evalframe.core.names import ALIASES, ROLES
from evalframe.evaluators.catalogue import BUILT_IN, markdown
from evalframe.evaluators.judge import LLMJudge
from evalframe.llm.model import STRUCTURED, Model
from evalframe.llm.providers import PROVIDERS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

CODE = re.compile(r"`([^`]+)`")

KINDS = (
    *(schema.EXCEPTION, schema.TIMEOUT, schema.INVALID_RESULT, schema.RANGE, schema.TEMPLATE),
    *(schema.PARSE, schema.REFUSAL, schema.TRUNCATED, schema.CONTENT_FILTER),
    *(schema.RATE_LIMIT, schema.QUOTA, schema.AUTH, schema.BAD_REQUEST),
    *(schema.SERVER_ERROR, schema.CONNECTION, schema.TASK_FAILED, schema.SKIPPED),
)


def table(head):
    """The rows of the table with this first cell in its head, as lists of cells."""
    _, _, rest = README.partition(f"| {head} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cell):
    """What a cell has between backticks."""
    return CODE.findall(cell)


def code(text):
    """The text as a cell shows a name, empty if there is none."""
    return f"`{text}`" if text else ""


def provider_row(provider):
    """The row of a provider, as it has to stand in the table."""
    address = code(provider.base_url)
    if provider.base_url_env:
        after = f", else {address}" if address else f" + {code(provider.base_url_path)}"
        address = code(provider.base_url_env) + after
    form = f"[{code(provider.structured)}]({provider.source})"
    return [code(provider.name), address, code(provider.api_key_env) or "none", form]


def parameters(function):
    """The names of a function's parameters, without self."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def built_in():
    """Every evaluator class that is public, but for the base and judges."""
    things = [getattr(evalframe, name) for name in evalframe.__all__]
    classes = [thing for thing in things if inspect.isclass(thing)]
    return {
        cls.__name__: cls
        for cls in classes
        if issubclass(cls, evalframe.Evaluator)
        and cls is not evalframe.Evaluator
        and not issubclass(cls, LLMJudge)
    }


def test_table_of_built_in_evaluators_is_that_of_the_classes():
    """What each reads, gives, takes and needs, and where it is from, as `evaluators` prints it."""
    assert markdown() in README


def test_table_of_built_in_evaluators_has_each():
    """Every public evaluator class stands in the table."""
    assert {cls.__name__ for cls in BUILT_IN} == {*built_in(), "LLMJudge"}


@pytest.mark.parametrize("name", sorted(built_in()))
def test_built_in_evaluator_takes_a_name_and_a_threshold(name):
    """What the README says of all of them."""
    assert {"name", "threshold"} <= set(parameters(built_in()[name].__init__))


def test_table_of_roles_has_each_alias():
    """Every role stands in the table with its aliases."""
    shown = {named(role)[0]: tuple(named(aliases)) for role, _, aliases in table("role")}

    assert shown == {role: ALIASES[role] for role in ROLES}


def test_table_of_options_has_each_of_the_decorators():
    """Every option of `evalframe.evaluator` stands in the table."""
    shown = [name for option, *_ in table("option") for name in named(option)]

    assert sorted(shown) == sorted(set(parameters(evalframe.evaluator)) - {"function"})


def test_table_of_arguments_has_each_of_run_experiment():
    """Every argument that is neither data, task nor evaluators stands in the table."""
    data = {"dataset", "task", "evaluators", "input", "output", "dataset_output", "metadata"}
    shown = {name.partition("=")[0] for cell, *_ in table("argument") for name in named(cell)}

    assert shown == set(parameters(evalframe.run_experiment)) - data


def test_table_of_the_accessor_has_each_of_its_names():
    """Every public name of `df.evals` stands in the README."""
    names = [name for name in dir(evalframe.accessor.EvalsAccessor) if name[0] != "_"]

    assert [name for name in names if f"`scored.evals.{name}" not in README] == []


def test_table_of_errors_has_each_kind():
    """Every kind of error stands in the table of cells, and no other."""
    shown = [name.partition(":")[0] for cell, *_ in table("error") for name in named(cell)]

    assert sorted(shown) == sorted(KINDS)


def test_table_of_arguments_has_each_of_the_judges():
    """Every argument of `LLMJudge` stands in its table, in the order of the code."""
    shown = [name for cell, *_ in table("argument of `LLMJudge`") for name in named(cell)]

    assert shown == parameters(LLMJudge.__init__)


def test_table_of_arguments_has_each_of_the_models():
    """Every argument of `Model` stands in its table, in the order of the code."""
    shown = [name for cell, *_ in table("argument of `Model`") for name in named(cell)]

    assert shown == parameters(Model)


def test_table_of_arguments_has_the_models_defaults():
    """The numbers that a model has without being given any are those of the code."""
    said = {cell: text.rpartition(": ")[2] for cell, text in table("argument of `Model`")}
    model = Model("openai/gpt-5-mini")

    assert [said["`max_retries`"], said["`timeout`"]] == [
        str(model.max_retries),
        f"{model.timeout:g}",
    ]


def test_table_of_arguments_has_each_form_of_constraint():
    """Every value of `structured` is explained."""
    said = dict(table("argument of `Model`"))["`structured`"]

    assert [name.strip('"') for name in named(said)] == list(STRUCTURED)


def test_table_of_providers_is_that_of_the_code():
    """Every provider stands in the table with address, key, constraint and source."""
    assert table("provider") == [provider_row(provider) for provider in PROVIDERS.values()]


def test_every_column_that_judges_add_is_named():
    """A column that only judges have is told of."""
    own = {schema.REPLY, schema.RAW_SCORE, schema.CONFIDENCE, schema.COVERAGE}

    assert [
        name for name in sorted(own | set(schema.JUDGE_DETAILS)) if code(name) not in README
    ] == []


def test_every_reply_of_the_scripted_server_is_named():
    """What makes a reply stands where the scripted server is explained."""
    _, _, section = README.partition("### Testing your own judges\n")
    things = {name: getattr(evalframe.testing, name) for name in evalframe.testing.__all__}
    makers = [name for name, thing in things.items() if inspect.isfunction(thing)]

    assert [name for name in makers if code(name) not in section] == ["obedient"]
