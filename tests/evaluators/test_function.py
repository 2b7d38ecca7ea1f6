"""Functions as evaluators."""

import functools
import math
import pickle
import sys
import types

import pytest

from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.function import FunctionEvaluator, as_evaluator, evaluator

SOURCE = '''
from evalframe import Evaluator, evaluator

@evaluator(threshold=0.5, extras={"words": int}, version="1")
def brief(output):
    """Whether it is short."""
    return len(output.split()) < 5

def plain(output):
    return True

class Group:
    @evaluator
    def inner(output):
        return True

class Judge(Evaluator):
    def evaluate(self, output):
        return True
'''


@pytest.fixture
def module(monkeypatch):
    """A module of a user's, importable by name."""
    made = types.ModuleType("users_evaluators")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    exec(SOURCE, vars(made))  # noqa: S102 - the source is above
    return made


def exact(output, dataset_output):
    """Whether both are equal."""
    return output == dataset_output


class Callable:
    """An object that can be called."""

    def __call__(self, output):
        return True


class AsyncCallable:
    """An object whose call is awaited."""

    async def __call__(self, output):
        return True


def test_a_decorated_function_stays_the_function():
    """Callable with its own return value, name, signature and docstring."""
    made = evaluator(exact)

    assert made("a", dataset_output="a") is True
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("exact", exact.__doc__, exact)
    assert made.function is exact


def test_the_return_value_of_a_call_is_not_normalised():
    """What the function returns is what its caller gets."""
    made = evaluator(lambda output: {"any": "thing"}, name="x")

    assert made("a") == {"any": "thing"}


def test_the_decorator_works_with_and_without_options():
    """`@evaluator`, `@evaluator()` and `@evaluator(name=...)`."""
    assert evaluator(exact) == evaluator()(exact)
    assert evaluator(name="x")(exact).name == "x"


def test_options_are_declared_on_the_evaluator():
    """Each of them, and none of another evaluator's."""
    made = evaluator(
        exact,
        name="close",
        vectorized=True,
        kind="HUMAN",
        direction="minimize",
        score_range=(0, 10),
        threshold=3,
        extras={"n": int},
        version="2",
    )

    assert (made.name, made.vectorized, made.kind, made.direction) == (
        *("close", True, "HUMAN", "minimize"),
    )
    assert (made.score_range, made.threshold, dict(made.extras), made.version) == (
        *((0, 10), 3, {"n": int}, "2"),
    )
    assert not evaluator(exact).vectorized
    assert evaluator(exact, threads=4).threads == 4


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(exact, "exact", id="function"),
        pytest.param(functools.partial(exact, dataset_output="x"), "exact", id="partial"),
        pytest.param(
            functools.partial(functools.partial(exact), dataset_output="x"), "exact", id="partials"
        ),
        pytest.param(Callable(), "Callable", id="object"),
        pytest.param("x".startswith, "startswith", id="method"),
    ],
)
def test_the_function_s_name_is_the_evaluator_s(function, name):
    """That of the innermost function, or of an object's class."""
    assert as_evaluator(function).name == name


def test_extras_are_the_evaluator_s_own():
    """The dict that was given may be changed afterwards."""
    extras = {"n": int}

    made = evaluator(exact, extras=extras)
    extras["m"] = int

    assert dict(made.extras) == {"n": int}


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        pytest.param(exact, False, id="plain"),
        pytest.param(Callable(), False, id="object"),
        pytest.param(AsyncCallable(), True, id="async-object"),
        pytest.param(functools.partial(AsyncCallable().__call__), True, id="async-partial"),
    ],
)
def test_async_functions_are_recognised(function, is_async):
    """Also behind a partial or an object's call."""
    assert as_evaluator(function).is_async is is_async


@pytest.mark.parametrize("make", [evaluator, as_evaluator])
def test_a_lambda_needs_a_name(make):
    """The message says how to give one."""
    with pytest.raises(
        ValueError, match=r"(?s)A lambda has no name for its columns: .*name='short'"
    ):
        make(lambda output: True)


def test_a_lambda_with_a_name_is_an_evaluator():
    """By option, or by its key in a mapping."""
    assert evaluator(lambda output: True, name="short").name == "short"
    assert as_evaluator(lambda output: True, name="short").name == "short"


def yielding(output):
    """A generator function."""
    yield True


async def async_yielding(output):
    """An async generator function."""
    yield True


@pytest.mark.parametrize("make", [evaluator, as_evaluator])
@pytest.mark.parametrize("function", [yielding, async_yielding])
def test_a_generator_function_is_refused(function, make):
    """It must return its verdict."""
    with pytest.raises(TypeError, match="is a generator function"):
        make(function)


@pytest.mark.parametrize("given", ["exact", 3, {"a": 1}, object()])
def test_what_cannot_be_called_is_refused(given):
    """Naming it and what is taken."""
    with pytest.raises(TypeError, match=r"must be a function, not|is no evaluator: it must be"):
        evaluator(given)
    with pytest.raises(TypeError, match="is no evaluator: it must be a function"):
        as_evaluator(given)


def test_a_class_is_refused_for_its_instance(module):
    """A frequent slip, told how to mend."""
    with pytest.raises(
        TypeError, match=r"^Judge is a class: give an instance of it, Judge\(\.\.\.\)\.$"
    ):
        as_evaluator(module.Judge)
    with pytest.raises(TypeError, match="An evaluator must be a function, not <class"):
        evaluator(module.Judge)


def test_an_evaluator_is_not_decorated_twice(module):
    """Options are changed with a copy."""
    with pytest.raises(TypeError, match=r"is an evaluator already; use \.named\(\) or \.bind\(\)"):
        evaluator(module.brief)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"name": "a.b"}, "holds a dot", id="name"),
        pytest.param({"kind": "X"}, "kind must be one of", id="kind"),
        pytest.param({"direction": "up"}, "direction must be one of", id="direction"),
        pytest.param({"threshold": math.inf}, "threshold must be a number in", id="threshold"),
        pytest.param(
            {"extras": {"x": list}}, "must be str, float, int, bool or 'json'", id="extras"
        ),
        pytest.param({"threads": 0}, "at least 1", id="threads"),
        pytest.param({"threads": 2, "vectorized": True}, "row by row", id="vectorized-threads"),
    ],
)
def test_an_option_out_of_its_domain_is_refused(options, message):
    """When the evaluator is made."""
    with pytest.raises(ValueError, match=message):
        evaluator(exact, **options)


def test_an_evaluator_given_as_one_is_itself(module):
    """A name in a mapping makes a copy."""
    assert as_evaluator(module.brief) is module.brief
    assert as_evaluator(module.brief, name="x") == module.brief.named("x")
    assert isinstance(as_evaluator(exact), FunctionEvaluator)
    assert isinstance(as_evaluator(exact), Evaluator)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        pytest.param(lambda brief: brief, "<evaluator 'brief'", id="name"),
        pytest.param(lambda brief: brief, "threshold=0.5", id="options"),
        pytest.param(lambda brief: brief.named("x"), "<evaluator 'x'", id="named"),
        pytest.param(lambda brief: brief.bind(output="a"), ">.bind(output='a')", id="bound"),
    ],
)
def test_the_repr_names_the_evaluator_and_its_options(module, make, text):
    """Without the function's memory address."""
    found = repr(make(module.brief))

    assert text in found
    assert " at 0x" not in found


def test_equality_goes_by_function_options_name_and_bindings(module):
    """Two wrappings of one function are the same evaluator."""
    assert evaluator(exact) == evaluator(exact)
    assert evaluator(exact) != evaluator(module.plain, name="exact")
    assert evaluator(exact) != evaluator(exact, threshold=0.5)
    assert evaluator(exact) != evaluator(exact).named("x")
    assert evaluator(exact) != evaluator(exact).bind(output="x")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda module: module.brief, id="decorated"),
        pytest.param(lambda module: module.brief.named("x").bind(output="a"), id="copied"),
        pytest.param(lambda module: module.Group.inner, id="in-a-class"),
        pytest.param(lambda module: evaluator(module.plain), id="wrapped-later"),
        pytest.param(
            lambda module: evaluator(module.plain, name="x", threshold=0.25), id="with-options"
        ),
        pytest.param(
            lambda module: evaluator(module.brief.function, threshold=1.0, kind="HUMAN"),
            id="a-decorated-function-with-other-options",
        ),
    ],
)
def test_functions_of_a_module_pickle_by_module_and_name(module, make):
    """With all that was declared, in the copy as in the original."""
    made = make(module)

    back = pickle.loads(pickle.dumps(made))

    assert back == made
    assert back.function is made.function
    assert (back.name, back.threshold, back.kind, dict(back.extras), dict(back.bindings)) == (
        *(made.name, made.threshold, made.kind, dict(made.extras), dict(made.bindings)),
    )


def test_a_local_function_has_no_pickle():
    """It works in this process only."""
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"local|pickle"):
        pickle.dumps(evaluator(lambda output: True, name="x"))


def test_an_evaluator_of_a_function_is_frozen():
    """As every evaluator is."""
    made = evaluator(exact)

    with pytest.raises(AttributeError, match="is frozen"):
        made.threshold = 0.5


def test_a_method_decorated_in_a_class_is_called_as_a_method(module):
    """The decorator does not break `self`."""

    class Judges:
        @evaluator
        def length(self, output):
            return len(output)

    assert Judges().length("abc") == 3
    assert isinstance(Judges.length, FunctionEvaluator)
