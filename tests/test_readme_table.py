"""The README's tables say what the code says."""

import inspect
import re
from pathlib import Path

import pytest

import evalframe
from evalframe.core.names import ALIASES, ROLES

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

CODE = re.compile(r"`([^`]+)`")


def table(head):
    """The rows of the table with this first cell in its head, as lists of cells."""
    _, _, rest = README.partition(f"| {head} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cell):
    """What a cell has between backticks."""
    return CODE.findall(cell)


def parameters(function):
    """The names of a function's parameters, without self."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def built_in():
    """Every evaluator class that is public, but for the base."""
    things = [getattr(evalframe, name) for name in evalframe.__all__]
    classes = [thing for thing in things if inspect.isclass(thing)]
    return {
        cls.__name__: cls
        for cls in classes
        if issubclass(cls, evalframe.Evaluator) and cls is not evalframe.Evaluator
    }


def test_table_of_built_in_evaluators_has_each_with_its_options():
    """Every built-in evaluator stands in the table, with its own options in their order."""
    options = {
        name: [key for key in parameters(cls.__init__) if key not in ("name", "threshold")]
        for name, cls in built_in().items()
    }

    assert {named(name)[0]: named(cell) for name, _, cell in table("evaluator")} == options


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
