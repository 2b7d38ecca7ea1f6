"""From parameter names to arguments."""

import functools

import pytest

from evalframe.core.binding import PathNotFoundError, arranged, bind
from evalframe.core.mapping import RoleMapping
from evalframe.core.namespace import (
    BindingError,
    ColumnSource,
    Namespace,
    OutputSource,
    RecordSource,
    RowSource,
)

ROW = {"input": "q", "output": "o", "dataset_output": "d", "metadata": "m", "docs": ["x", "y"]}


def bound(function, columns=tuple(ROW), *, fallback="output", overrides=None, task=False, **roles):
    """The binding of a function over these columns."""
    names = Namespace(tuple(columns), RoleMapping.of(**roles), task)
    return bind(function, names, what="evaluator 'f'", fallback=fallback, overrides=overrides)


def called(function, row=None, **options):
    """What the function returns for a row, called through its binding."""
    row = ROW if row is None else row
    binding = bound(function, tuple(row), **options)

    def read(source):
        if isinstance(source, ColumnSource):
            return row[source.label]
        if isinstance(source, OutputSource):
            return "from the task"
        labels = row if isinstance(source, RowSource) else source.labels
        return {label: row[label] for label in labels}

    return binding.caller(function)(*map(read, binding.reads))


def test_parameters_are_bound_by_name_in_any_order():
    """Roles, a column and an alias; position means nothing."""

    def f(expected, docs, output, input, metadata):
        return expected, docs, output, input, metadata

    assert called(f) == ("d", ["x", "y"], "o", "q", "m")


def test_a_role_is_bound_before_a_column_and_a_column_before_an_alias():
    """The order of the rule, each step told from the next."""
    row = {"output": "old", "answer": "new", "expected": "column", "truth": "role"}

    def f(output, expected, reference):
        return output, expected, reference

    assert called(f, row, output="answer", dataset_output="truth") == ("new", "column", "role")


def test_the_dataset_row_is_the_row_as_a_dict():
    """The only parameter that costs one."""
    assert called(lambda output, dataset_row: dataset_row) == ROW
    assert bound(lambda output, dataset_row: 1).reads == (ColumnSource("output"), RowSource())


def test_metadata_of_several_columns_is_a_dict_by_column():
    """Not by position, not joined."""
    row = {"output": "o", "topic": "t", "level": 3}

    assert called(lambda metadata: metadata, row, metadata=["level", "topic"]) == {
        "level": 3,
        "topic": "t",
    }


def test_a_function_whose_names_fit_is_called_as_it_is():
    """No wrapper stands between a plain function and its values."""

    def f(output, dataset_output):
        return output

    assert bound(f).caller(f) is f


@pytest.mark.parametrize(("fallback", "value"), [("output", "o"), ("input", "q")])
@pytest.mark.parametrize("name", ["text", "x", "answer_text"])
def test_a_sole_parameter_with_an_unknown_name_gets_the_fallback(fallback, value, name):
    """The output for evaluators, the input for tasks."""
    function = eval(f"lambda {name}: {name}")  # noqa: S307 - the name is the case

    assert called(function, fallback=fallback) == value


def test_a_sole_star_gets_the_output():
    """A function that takes whatever comes is given one thing."""
    assert called(lambda *anything: anything) == ("o",)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("outptu", "output"), ("metdata", "metadata"), ("dataset_outputs", "dataset_output")],
)
def test_a_sole_parameter_close_to_a_known_name_is_a_misspelling(name, meant):
    """It does not get the output in silence."""
    function = eval(f"lambda {name}: 1")  # noqa: S307 - the name is the case

    with pytest.raises(
        BindingError,
        match=rf"^evaluator 'f': parameter '{name}' binds to nothing\. Did you mean '{meant}'\?",
    ):
        bound(function)


def test_short_names_are_never_misspellings():
    """`doc` is no typo of `docs`."""
    assert called(lambda doc: doc) == "o"


@pytest.mark.parametrize(
    "name", ["dataset_output", "expected", "metadata", "retrieval_context", "contexts"]
)
def test_a_sole_parameter_with_the_name_of_a_missing_role_does_not_get_the_output(name):
    """Comparing the output with itself would score 1.0 on every row."""
    function = eval(f"lambda {name}: 1")  # noqa: S307 - the name is the case

    with pytest.raises(BindingError, match=f"parameter '{name}' binds to nothing"):
        bound(function, ["output"])


def test_a_missing_role_is_named_with_the_argument_that_gives_it():
    """The data's columns are shown, so that the call can be mended from the message."""
    with pytest.raises(
        BindingError,
        match=r"^evaluator 'f': parameter 'expected' binds to nothing: no column is the "
        r"dataset_output\. The data has 'output', 'truth'\. Name it: dataset_output='\.\.\.'\.$",
    ):
        bound(lambda output, expected: 1, ["output", "truth"])


def test_a_sole_parameter_without_an_output_column_says_what_it_would_have_got():
    """The rule is told where it fails."""
    with pytest.raises(
        BindingError,
        match=r"parameter 'text' binds to nothing \(a sole parameter with an unknown name gets "
        r"the output\): no column is the output\.",
    ):
        bound(lambda text: 1, ["question"])


def test_h22_an_unknown_parameter_is_named_with_the_allowed_names():
    """Found before the first call of anything; a near name is suggested."""

    def g(output, grund_truth):
        return 1

    with pytest.raises(
        BindingError,
        match=r"^evaluator 'f': parameter 'grund_truth' binds to nothing\. "
        r"Did you mean 'ground_truth'\? "
        r"It can be 'input', 'output', 'dataset_output', 'ground_truth', 'dataset_row'\.$",
    ):
        bound(g, ["input", "output", "dataset_output", "ground_truth"])


def test_h22_a_function_is_passed_nothing_it_does_not_name():
    """No `**kwargs` is needed for the columns it does not want."""
    assert called(lambda output: output) == "o"


def test_every_mistake_of_a_function_is_told_at_once():
    """One run to find them all."""
    with pytest.raises(BindingError, match="'alpha'") as caught:
        bound(lambda alpha, beta, output: 1)

    assert [text.split(" binds")[0] for text in caught.value.problems] == [
        "evaluator 'f': parameter 'alpha'",
        "evaluator 'f': parameter 'beta'",
    ]


def test_a_parameter_with_a_default_is_bound_when_its_name_exists():
    """A default is for when there is nothing, not instead of what there is."""

    def f(output, docs="none", nothing="default", expected="none"):
        return output, docs, nothing, expected

    assert called(f) == ("o", ["x", "y"], "default", "d")


def test_a_default_before_a_bound_parameter_is_kept():
    """What follows a gap is passed by name."""

    def f(nothing="default", output=None, *, docs):
        return nothing, output, docs

    assert called(f) == ("default", "o", ["x", "y"])


def test_a_sole_parameter_with_a_default_and_an_unknown_name_keeps_it():
    """The function did not ask for anything."""
    assert called(lambda threshold=0.5: threshold) == 0.5


def test_positional_only_parameters_are_bound_by_name_too():
    """They are passed by position."""
    function = eval("lambda output, docs, /: (output, docs)")  # noqa: S307 - ruff drops the slash

    assert called(function) == ("o", ["x", "y"])


def test_a_positional_only_parameter_after_a_gap_is_refused():
    """Python has no way to pass it."""

    def f(nothing="default", output=None, /):
        return 1

    with pytest.raises(BindingError, match="'output' is positional-only after one that is left"):
        bound(f)


def test_kwargs_get_every_other_column():
    """What is bound by name or role does not come twice."""

    def f(input, reference, **rest):
        return rest

    assert called(f) == {"output": "o", "metadata": "m", "docs": ["x", "y"]}


def test_kwargs_never_get_result_columns():
    """Earlier verdicts do not leak into new ones."""
    row = {"output": "o", "eval.a.score": 1.0, "task.error": None, "topic": "t"}

    def f(output, **rest):
        return rest

    assert called(f, row) == {"topic": "t"}


def test_kwargs_alone_get_the_whole_row():
    """There is nothing else to leave out."""
    assert called(lambda **row: row) == ROW


def test_kwargs_leave_out_columns_that_have_no_name_in_text():
    """Python takes only text as a keyword."""
    assert called(lambda **row: row, {"output": "o", 3: "x"}) == {"output": "o"}


def test_kwargs_do_not_lose_columns_to_the_dataset_row():
    """The row holds every column, and yet each is passed."""

    def f(dataset_row, **rest):
        return rest

    assert called(f) == ROW


def test_with_a_task_kwargs_get_its_output():
    """It is a column of the result, and the newest."""

    def f(input, **rest):
        return rest

    assert called(f, {"input": "q", "topic": "t"}, task=True) == {
        "output": "from the task",
        "topic": "t",
    }


@pytest.mark.parametrize(
    ("function", "rest"),
    [
        pytest.param(lambda output, **rest: rest, {}, id="bound-by-its-role"),
        pytest.param(lambda actual_output, **rest: rest, {}, id="bound-by-an-alias"),
        pytest.param(lambda input, **rest: rest, {"output": "from the task"}, id="not-bound"),
    ],
)
def test_h24_kwargs_never_get_the_output_that_a_task_replaces(function, rest):
    """The stale column is not passed under the name of the fresh one."""
    row = {"input": "q", "output": "stale"}
    expected = {"input": "q", **rest} if "output" not in rest else rest

    assert called(function, row, task=True) == expected


def test_a_bound_column_is_read_instead():
    """`.bind` overrides the rule for that parameter alone."""

    def f(output, dataset_output):
        return output, dataset_output

    assert called(f, overrides={"dataset_output": "docs"}) == ("o", ["x", "y"])


def test_an_earlier_result_is_read_when_it_is_bound():
    """The only way to one."""
    row = {"output": "o", "eval.a.label": "good"}

    assert called(lambda x: x, row, overrides={"x": "eval.a.label"}) == "good"


def test_h23_a_path_reaches_into_the_task_s_output():
    """Keys of dicts and positions of lists."""
    binding = bound(lambda output: output, task=True, overrides={"output": "output.final.1.text"})
    output = {"final": [{}, {"text": "ok"}], "steps": 3}

    assert binding.reads == (OutputSource(),)
    assert binding.caller(lambda output: output)(output) == "ok"


@pytest.mark.parametrize(
    ("path", "value"), [("docs.0", "x"), ("docs.-1", "y")], ids=["first", "last"]
)
def test_a_path_counts_list_positions_from_either_end(path, value):
    """As Python does."""
    assert called(lambda output: output, overrides={"output": path}) == value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param({"a": 1}, r"it has the keys 'a'", id="no-such-key"),
        pytest.param([1, 2], "it is list", id="a-key-of-a-list"),
        pytest.param(None, "it is null", id="null"),
        pytest.param("text", "it is str", id="text"),
    ],
)
def test_h23_a_path_that_leads_nowhere_is_named(value, found):
    """An error of that row, saying what stood there instead."""
    row = {"output": {"final": value}}

    with pytest.raises(
        PathNotFoundError, match=rf"^the path 'output\.final\.text' ends before 'text': {found}$"
    ):
        called(lambda output: output, row, overrides={"output": "output.final.text"})


def test_a_path_beyond_the_end_of_a_list_is_named():
    """With how long the list is."""
    with pytest.raises(PathNotFoundError, match="ends before '2': it has 2 items"):
        called(lambda output: output, overrides={"output": "docs.2"})


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda row: f"{row['input']}!", id="of-the-row"),
        pytest.param(lambda anything: f"{anything['input']}!", id="of-the-row-by-any-name"),
        pytest.param(lambda input: f"{input}!", id="of-a-role"),
        pytest.param(lambda query, docs: f"{query}!", id="of-several"),
    ],
)
def test_h23_a_bound_function_is_given_what_its_own_parameters_name(function):
    """A sole unknown one gets the row."""

    def f(output, dataset_output):
        return output, dataset_output

    assert called(f, overrides={"output": function}) == ("q!", "d")


def test_h23_a_bound_function_sees_the_task_s_output():
    """Not the dataset row alone."""
    found = called(lambda text: text, task=True, overrides={"text": lambda output: output.upper()})

    assert found == "FROM THE TASK"


def test_a_binding_of_a_parameter_that_is_not_there_is_refused():
    """A misspelt `.bind` would have no effect."""
    with pytest.raises(
        BindingError, match=r"^evaluator 'f' has no parameter 'outptu' to bind; it has 'output'\.$"
    ):
        bound(lambda output: 1, overrides={"outptu": "docs"})


def test_kwargs_take_bindings_of_any_name():
    """They have a parameter for each."""
    assert called(lambda output, **rest: rest["extra"], overrides={"extra": "docs"}) == ["x", "y"]


@pytest.mark.parametrize(
    "function", [lambda docs: 1, lambda output, **rest: 1], ids=["parameter", "kwargs"]
)
def test_a_binding_to_no_column_is_refused_with_the_nearest(function):
    """The message names the function, the binding and the columns."""
    with pytest.raises(
        BindingError,
        match=r"^evaluator 'f': \.bind\(docs='outpu'\) names no column\. Did you mean 'output'\? "
        r"The data has 'input', 'output'\.$",
    ):
        bound(function, ["input", "output"], overrides={"docs": "outpu"})


def test_an_ambiguous_role_is_an_error_of_the_function_that_reads_it():
    """Another function that does not read it runs."""
    columns = ["output", "expected", "reference"]

    bound(lambda output: 1, columns)
    with pytest.raises(BindingError, match=r"^evaluator 'f': 'dataset_output' could be column"):
        bound(lambda output, dataset_output: 1, columns)


def test_a_function_without_parameters_is_refused():
    """It could not see the row."""
    with pytest.raises(BindingError, match="takes no parameters, so it cannot see the row"):
        bound(lambda: 1)


def test_a_function_without_a_signature_is_refused_with_a_way_out():
    """Some built-in functions have none."""
    with pytest.raises(BindingError, match=r"has no readable signature\. Wrap it: lambda output"):
        bound(max)


def test_the_given_arguments_of_a_partial_are_not_bound():
    """They have their value."""

    def f(output, docs, word):
        return output, docs, word

    assert called(functools.partial(f, word="w")) == ("o", ["x", "y"], "w")


def test_methods_are_bound_without_self():
    """An object's method is a function of the rest."""

    class Judge:
        def judge(self, output):
            return output

    assert called(Judge().judge) == "o"


def test_a_binding_knows_the_columns_it_reads():
    """Only these are checked and decoded."""
    columns = ["output", "topic", "level", "eval.a.score"]

    def labels(function, **roles):
        binding = bound(function, columns, **roles)
        return binding.labels(["output", "topic", "level"])

    assert labels(lambda output: 1) == {"output"}
    assert labels(lambda output, metadata: 1, metadata=["topic", "level"]) == set(columns[:3])
    assert labels(lambda dataset_row: 1) == set(columns[:3])


def test_arguments_are_arranged_by_position_and_by_name():
    """The dict of `**kwargs` is spread."""

    def f(output, *, docs, **rest):
        return 1

    binding = bound(f, ["output", "docs", "topic"])

    assert binding.reads == (
        ColumnSource("output"),
        ColumnSource("docs"),
        RecordSource(("topic",)),
    )
    assert arranged(binding.arguments, ["o", ["x"], {"topic": "t"}]) == (
        ["o"],
        {"docs": ["x"], "topic": "t"},
    )
