"""What a task is."""

import functools

import pytest

from evalframe.tasks.task import Task, as_task, task


def answer(input):
    """Answer a question."""
    return input.upper()


async def ask(input):
    """Answer it later."""
    return input


def yielding(input):
    """A generator function."""
    yield input


async def async_yielding(input):
    """An async generator function."""
    yield input


class Model:
    """An object that can be called."""

    def __call__(self, input):
        return input


class AsyncModel:
    """An object whose call is awaited."""

    async def __call__(self, input):
        return input


def test_a_decorated_function_stays_the_function():
    """Callable with its own return value, name and docstring."""
    made = task(answer)

    assert made("hi") == "HI"
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("answer", answer.__doc__, answer)


def test_the_decorator_works_with_and_without_options():
    """`@task`, `@task()` and `@task(output=str)`."""
    assert task(answer).function is task()(answer).function is answer
    made = task(name="x", output="json", threads=1, version="2")(answer)
    assert (made.name, made.output, made.threads, made.version) == ("x", "json", 1, "2")


def test_options_not_given_are_not_declared():
    """The output's type is then decided at the end of the run."""
    made = task(answer)

    assert (made.output, made.threads, made.version) == (None, None, None)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(answer, "answer", id="function"),
        pytest.param(functools.partial(functools.partial(answer)), "answer", id="partials"),
        pytest.param(Model(), "Model", id="object"),
        pytest.param(lambda input: input, "<lambda>", id="lambda"),
    ],
)
def test_a_task_is_named_after_its_function(function, name):
    """A lambda may be one: no column has its name."""
    assert as_task(function).name == name
    assert repr(as_task(function)) == f"<task {name!r}>"


@pytest.mark.parametrize(
    ("function", "is_async"), [(answer, False), (ask, True), (Model(), False), (AsyncModel(), True)]
)
def test_async_tasks_are_recognised(function, is_async):
    """Also behind an object's call."""
    assert as_task(function).is_async is is_async


def test_a_task_given_as_one_is_itself():
    """Its options stay."""
    made = task(answer, output=str)

    assert as_task(made) is made
    assert isinstance(as_task(answer), Task)


@pytest.mark.parametrize("given", ["answer", 3, [answer], Model], ids=repr)
def test_what_is_no_function_is_refused(given):
    """A class too: an instance is what can be asked."""
    with pytest.raises(TypeError, match="A task must be a function of the row, not"):
        as_task(given)


@pytest.mark.parametrize("function", [yielding, async_yielding])
def test_a_generator_function_is_refused(function):
    """The output is returned, not yielded."""
    with pytest.raises(TypeError, match="must return the output, not yield it"):
        as_task(function)


@pytest.mark.parametrize("output", [list, "text", dict, 3])
def test_the_declared_output_is_a_type_of_a_column(output):
    """One of those that extras have."""
    with pytest.raises(ValueError, match="output must be str, float, int, bool or 'json', not"):
        task(answer, output=output)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_are_a_whole_number_of_at_least_one(threads):
    """Checked when the task is made."""
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, not"):
        task(answer, threads=threads)
