"""What an evaluator is: declared, frozen, equal and pickled by its arguments."""

import dataclasses
import inspect
import math
import pickle
from typing import ClassVar

import pandas as pd
import pytest

import evalframe as ef
from evalframe.evaluators.base import Evaluator


class Mentions(Evaluator):
    """Annotated fields become arguments."""

    word: str
    words: list = dataclasses.field(default_factory=list)

    def evaluate(self, output):
        return self.word in output


class Longer(Evaluator):
    """An `__init__` of its own."""

    def __init__(self, than, *more, unit="letters"):
        self.than = than
        self.unit = unit
        self.more = more

    def evaluate(self, output):
        return len(output) > self.than


class SelfNamed(Evaluator):
    """A name made of its arguments."""

    def __init__(self, word):
        self.word = word
        self.name = f"has_{word}"

    def evaluate(self, output):
        return self.word in output


class LLMGrade2Score(Evaluator):
    """Declarations on the class."""

    kind = "LLM"
    score_range = (1, 5)
    threshold = 4
    direction = "minimize"
    version = "2"
    extras: ClassVar = {"pages": int}
    vectorized = True

    async def evaluate(self, output):
        return 3


class Child(Mentions):
    """A field after the inherited ones."""

    times: int = 1


def upper(row):
    """A function to bind."""
    return row["output"].upper()


@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(lambda: Mentions("cat"), "mentions", id="class-name"),
        pytest.param(LLMGrade2Score, "llm_grade2_score", id="capitals-and-digits"),
        pytest.param(lambda: Mentions("cat", name="cat"), "cat", id="argument"),
        pytest.param(lambda: SelfNamed("cat"), "has_cat", id="set-in-init"),
        pytest.param(lambda: SelfNamed("cat", name="x"), "x", id="argument-over-init"),
        pytest.param(lambda: Mentions("cat").named("x"), "x", id="named"),
        pytest.param(lambda: Mentions("cat", name=None), "mentions", id="none-is-not-given"),
    ],
)
def test_an_evaluator_is_named_after_its_class_in_snake_case_if_not_otherwise(made, name):
    """`name=` is taken by every class, whatever its `__init__` looks like."""
    assert made().name == name


def test_h25_two_instances_of_a_class_may_have_two_names():
    """Their columns are kept apart by it."""
    cat, dog = Mentions("cat", name="cat"), Mentions("dog").named("dog")

    assert (cat.name, dog.name) == ("cat", "dog")
    assert (cat.evaluate("a cat"), dog.evaluate("a cat")) == (True, False)


def test_annotated_fields_are_arguments_by_position_and_keyword():
    """As in a dataclass, defaults and inherited fields included."""
    made = Child("cat", ["x"], times=3)

    assert (made.word, made.words, made.times) == ("cat", ["x"], 3)
    assert Child(word="cat").times == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(Mentions, "missing 1 required positional argument: 'word'", id="missing"),
        pytest.param(
            lambda: Mentions("a", colour=1),
            "Mentions takes no colour=. It takes word,",
            id="unknown",
        ),
        pytest.param(lambda: ef.JsonDiff(wieghts={"a": 1}), "Did you mean weights=", id="misspelt"),
    ],
)
def test_arguments_that_do_not_fit_are_a_type_error(call, message):
    """The message says which."""
    with pytest.raises(TypeError, match=message):
        call()


def test_declarations_have_defaults():
    """Higher is better, from 0 to 1, without a threshold."""
    made = Mentions("cat")

    assert (made.kind, made.direction, made.score_range, made.threshold, made.version) == (
        *("CODE", "maximize", (0.0, 1.0), None, None),
    )
    assert (dict(made.extras), made.vectorized, made.threads) == ({}, False, None)


def test_a_class_may_declare_its_own():
    """And an instance yet another."""
    made = LLMGrade2Score(threshold=2, version="3")

    assert (made.kind, made.direction, made.score_range, made.threshold, made.version) == (
        *("LLM", "minimize", (1, 5), 2, "3"),
    )
    assert LLMGrade2Score().threshold == 4
    assert made.is_async
    assert not Mentions("cat").is_async


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"name": "a.b"}, "holds a dot, a backtick or a line break", id="name"),
        pytest.param({"name": " "}, "must be text that is not empty", id="blank-name"),
        pytest.param({"direction": "up"}, "direction must be one of", id="direction"),
        pytest.param({"score_range": (1, 0)}, "score_range must be", id="range-backwards"),
        pytest.param({"score_range": (1, 1)}, "score_range must be", id="range-of-one"),
        pytest.param({"score_range": (0, math.nan)}, "score_range must be", id="range-nan"),
        pytest.param({"score_range": (0, 1, 2)}, "score_range must be", id="range-of-three"),
        pytest.param({"score_range": "ab"}, "score_range must be", id="range-text"),
        pytest.param({"score_range": 5}, "score_range must be", id="range-number"),
        pytest.param({"threshold": 1.5}, r"threshold must be a number in \[0.0, 1.0\]", id="over"),
        pytest.param({"threshold": True}, "threshold must be a number", id="threshold-bool"),
        pytest.param({"threshold": "0.5"}, "threshold must be a number", id="threshold-text"),
        pytest.param({"threshold": math.nan}, "threshold must be a number", id="threshold-nan"),
    ],
)
def test_a_declaration_out_of_its_domain_is_refused_when_made(options, message):
    """With what is legal, and naming the evaluator."""
    with pytest.raises(ValueError, match=rf"(?s)^Mentions .*{message}"):
        Mentions("cat", **options)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        pytest.param({"kind": "MODEL"}, "kind must be one of", id="kind"),
        pytest.param({"extras": {"score": float}}, "every evaluator has", id="extras"),
        pytest.param({"threads": 0}, "at least 1", id="no-thread"),
        pytest.param({"threads": True}, "at least 1", id="bool-threads"),
        pytest.param({"threads": 2, "vectorized": True}, "row by row", id="vectorized-threads"),
    ],
)
def test_a_class_declaration_out_of_its_domain_is_refused_when_made(declared, message):
    """At the first instance, not at the first run."""
    made = type("Bad", (Evaluator,), {**declared, "evaluate": lambda self, output: True})

    with pytest.raises(ValueError, match=message):
        made()


def test_a_threshold_may_be_a_bound_of_the_range():
    """Both ends are legal scores."""
    assert Mentions("cat", threshold=0).threshold == 0
    assert Mentions("cat", threshold=5, score_range=(1, 5)).threshold == 5


def test_an_open_range_is_a_range():
    """A length has no highest value."""
    assert Mentions("cat", score_range=(0, math.inf), threshold=100).score_range == (0, math.inf)


def test_a_class_without_evaluate_is_refused():
    """With what to write."""
    nothing = type("Nothing", (Evaluator,), {})

    with pytest.raises(TypeError, match=r"has no method evaluate\(self, \.\.\.\)\. Write one"):
        nothing()


def test_an_evaluate_that_yields_is_refused():
    """It must return its verdict."""

    class Yielding(Evaluator):
        def evaluate(self, output):
            yield True

    with pytest.raises(TypeError, match="must return its verdict, not yield it"):
        Yielding()


@pytest.mark.parametrize("name", ["word", "name", "threshold", "new"])
def test_an_evaluator_is_frozen(name):
    """Settings of one run cannot leak into the next."""
    made = Mentions("cat")

    with pytest.raises(AttributeError, match=f"Mentions is frozen, so '{name}' cannot be set"):
        setattr(made, name, "dog")
    with pytest.raises(AttributeError, match=f"Mentions is frozen, so '{name}' cannot be set"):
        delattr(made, name)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(Mentions("cat"), "Mentions(word='cat')", id="plain"),
        pytest.param(Mentions(word="cat"), "Mentions(word='cat')", id="keyword"),
        pytest.param(
            Mentions("cat", threshold=0.5, name="c"),
            "Mentions(word='cat', name='c', threshold=0.5)",
            id="common",
        ),
        pytest.param(Mentions("cat").named("c"), "Mentions(word='cat', name='c')", id="named"),
        pytest.param(SelfNamed("cat").named("c"), "SelfNamed(word='cat', name='c')", id="renamed"),
        pytest.param(
            Mentions("cat").bind(output="answer.text"),
            "Mentions(word='cat').bind(output='answer.text')",
            id="bound",
        ),
        pytest.param(LLMGrade2Score(), "LLMGrade2Score()", id="no-arguments"),
    ],
)
def test_the_repr_is_the_call_that_makes_it(made, text):
    """And evaluating it gives an equal one."""
    assert repr(made) == text
    assert eval(text) == made  # noqa: S307 - the text is the case


SAME = [
    pytest.param(Mentions("cat"), Mentions(word="cat"), id="position-and-keyword"),
    pytest.param(Child("cat"), Child("cat", times=1), id="default-spelled-out"),
    pytest.param(Mentions("cat").named("x"), Mentions("cat", name="x"), id="named"),
    pytest.param(
        Mentions("cat").bind(output="a"), Mentions("cat").bind(output="a"), id="same-binding"
    ),
]
DIFFERENT = [
    pytest.param(Mentions("cat"), Mentions("dog"), id="argument"),
    pytest.param(Mentions("cat"), Mentions("cat", name="x"), id="name"),
    pytest.param(Mentions("cat"), Mentions("cat", threshold=0.5), id="threshold"),
    pytest.param(Mentions("cat"), Mentions("cat").bind(output="a"), id="binding"),
    pytest.param(Mentions("cat"), Child("cat"), id="class"),
    pytest.param(Mentions("cat"), "Mentions(word='cat')", id="no-evaluator"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_are_evaluators_of_one_class_with_equal_arguments(one, other):
    """However the arguments were passed; equal ones hash alike."""
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_any_other_difference_makes_them_unequal(one, other):
    """Class, arguments, declarations and bindings count."""
    assert one != other


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(Longer(3, 4, unit="words", name="long", threshold=1), id="own-init"),
        pytest.param(LLMGrade2Score(version="9"), id="declared"),
        pytest.param(SelfNamed("cat").named("x").bind(output="a.b", word=upper), id="copied"),
    ],
)
def test_an_evaluator_comes_back_equal_and_frozen_from_a_pickle(made):
    """By class and arguments, in any process that can import the class."""
    back = pickle.loads(pickle.dumps(made))

    assert back == made
    assert (repr(back), back.name, back.threshold) == (repr(made), made.name, made.threshold)
    with pytest.raises(AttributeError, match="is frozen"):
        back.name = "other"


def test_bind_and_named_give_copies():
    """The evaluator itself stays as it is, and bindings add up."""
    made = Mentions("cat")

    copy = made.bind(output="a").named("x").bind(word=upper, output="b")

    assert (dict(made.bindings), made.name) == ({}, "mentions")
    assert (dict(copy.bindings), copy.name) == ({"output": "b", "word": upper}, "x")
    assert copy.word == "cat"


def test_bindings_cannot_be_changed_from_outside():
    """They are a copy each time."""
    made = Mentions("cat").bind(output="a")
    made.bindings["output"] = "b"

    assert dict(made.bindings) == {"output": "a"}


@pytest.mark.parametrize("source", [None, ["a", "b"], {"a": 1}])
def test_a_binding_is_a_column_a_path_or_a_function(source):
    """Anything else is refused at once, with the three."""
    with pytest.raises(TypeError, match=r"^\.bind\(output=.*give a column's name, a path"):
        Mentions("cat").bind(output=source)


@pytest.mark.parametrize("name", ["a.b", "", "a`b", None])
def test_a_copy_cannot_have_a_name_that_breaks_columns(name):
    """The same rule as for `name=`."""
    with pytest.raises(ValueError, match="name"):
        Mentions("cat").named(name)


def test_the_signature_of_a_class_is_that_of_its_arguments():
    """What help() and editors show: its own arguments, then those of every evaluator."""
    shown = {
        cls: list(inspect.signature(cls).parameters) for cls in (Mentions, Longer, ef.JsonDiff)
    }

    common = ["name", "threshold", "direction", "score_range", "version"]
    assert shown[Mentions] == ["word", "words", *common]
    assert shown[Longer] == ["than", "more", "unit", *common]
    assert shown[ef.JsonDiff][:2] == ["weights", "strings"]
    assert sorted(shown[ef.JsonDiff]) == sorted({*shown[ef.JsonDiff], *common})


def test_a_version_is_text():
    """It is kept with the results as it is."""
    with pytest.raises(ValueError, match="version must be text, not 3"):
        Mentions("a", version=3)


def test_who_writes_another_evaluate_says_anew_that_it_only_reads():
    """A subclass of a built-in evaluator that changes its lists must not change the frame's."""

    class Greedy(ef.HitRate):
        def evaluate(self, retrieval_context, context):
            retrieval_context.iloc[0].append("mine")
            return super().evaluate(retrieval_context, context)

    class Careful(Greedy):
        reads_only = True

        def evaluate(self, retrieval_context, context):
            return retrieval_context.map(len) == context.map(len)

    class Named(ef.HitRate):
        pass

    frame = pd.DataFrame({"retrieval_context": [["a"]], "context": [["mine"]]})
    scored = ef.run_experiment(frame, evaluators=[Greedy()], progress=False)

    assert [one.reads_only for one in (ef.HitRate, Greedy, Careful, Named)] == [
        True,
        False,
        True,
        True,
    ]
    assert scored["eval.greedy.score"].tolist() == [1.0]
    assert frame["retrieval_context"].tolist() == [["a"]]


def test_a_subclass_of_a_built_in_evaluator_takes_its_arguments():
    """Those of the `__init__` it inherits, also where a base has annotated fields."""

    class Mine(ef.PrecisionAtK):
        pass

    class Hit(ef.HitRate):
        pass

    assert (Mine(3, name="x").k, Hit().k) == (3, None)
    assert repr(Mine(3)) == "Mine(k=3)"
