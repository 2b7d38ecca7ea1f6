"""Fingerprints: equal as long as the same is computed, and different as soon as it is not."""

import asyncio
import collections
import dataclasses
import enum
import functools
import importlib.util
import json
import linecache
import logging
import math
import os
import re
import subprocess
import sys
import threading
import types
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import evalframe
from evalframe.core.fingerprint import Fingerprint, of_cell, of_function, of_values

WHERE = Path(evalframe.__file__).parents[1]

SOURCE = '''\
import enum
import math
import re
from dataclasses import dataclass

LIMIT = 3
WORDS = {"yes", "no", "maybe"}
WEIGHTS = {"short": 0.5, "long": [1, 2]}
PATTERN = re.compile("a+")


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Options:
    width: int = 4


OPTIONS = Options()


class Rule:
    step = 1

    def holds(self, number):
        return number > self.step + deep(number)

    @property
    def doubled(self):
        return self.step * 2


def deep(number):
    return math.sqrt(abs(number))


def helper(number, top=5):
    return number < top


def unused(number):
    return 1


def judge(output, scale=2):
    """Says whether it is right."""
    found = [helper(len(word) * scale) for word in output.split(" ")]
    found.append(Rule().holds(LIMIT) and output in WORDS)
    found.append(PATTERN.search(output) and WEIGHTS["short"] < OPTIONS.width)
    return all(found) and Level.LOW
'''


@pytest.fixture
def load(tmp_path):
    """Text -> the module of it, as a file that is imported."""
    names = []

    def load(text, name="users_code", folder="."):
        path = tmp_path / folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        linecache.checkcache(str(path))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        spec.loader.exec_module(module)
        sys.dont_write_bytecode = before
        return module

    yield load
    for name in names:
        sys.modules.pop(name, None)


def digest(function):
    """The digest alone."""
    return of_function(function).digest


def edited(old, new, text=SOURCE):
    """The source with one edit."""
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("in output.split(", "in output.rsplit(", id="own-code"),
        pytest.param("scale=2", "scale=3", id="default"),
        pytest.param("def judge(output, scale=2)", "def judge(output, *, scale=2)", id="signature"),
        pytest.param('split(" ")', 'split("  ")', id="text-constant"),
        pytest.param("LIMIT = 3", "LIMIT = 4", id="global-number"),
        pytest.param("LIMIT = 3", "LIMIT = 3.0", id="global-of-another-type"),
        pytest.param('"maybe"}', '"perhaps"}', id="global-set"),
        pytest.param("[1, 2]", "[2, 1]", id="order-in-a-global"),
        pytest.param('compile("a+")', 'compile("a*")', id="pattern"),
        pytest.param('compile("a+")', 'compile("a+", re.I)', id="pattern-flags"),
        pytest.param("number < top", "number <= top", id="helper"),
        pytest.param("top=5", "top=6", id="default-of-a-helper"),
        pytest.param("step = 1", "step = 2", id="class-attribute"),
        pytest.param("number > self.step", "number >= self.step", id="method"),
        pytest.param("self.step * 2", "self.step * 3", id="property"),
        pytest.param("class Rule:", "class Rule(Options):", id="base-class"),
        pytest.param("math.sqrt(abs(number))", "math.log(abs(number))", id="helper-of-a-method"),
        pytest.param("LOW = 1", "LOW = 0", id="enum-value"),
        pytest.param("width: int = 4", "width: int = 5", id="dataclass-default"),
        pytest.param("Options()", "Options(5)", id="dataclass-value"),
        pytest.param("import math\n", "import cmath as math\n", id="another-package-of-that-name"),
    ],
)
def test_an_edit_of_what_is_computed_changes_the_digest(load, old, new):
    """Own code, and everything of the user's that is reached from it."""
    assert digest(load(SOURCE).judge) != digest(load(edited(old, new), "other").judge)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    found = [", "    # why\n\n    found = [", id="comment"),
        pytest.param("in output.split(", "in output . split( ", id="spaces"),
        pytest.param('split(" ")', "split(' ')", id="quotes"),
        pytest.param('split(" ")', "split(\n        ' ',\n    )", id="line-breaks"),
        pytest.param("Says whether it is right.", "Or wrong.", id="docstring"),
        pytest.param('    """Says whether it is right."""\n', "", id="no-docstring"),
        pytest.param("LIMIT = 3", "LIMIT = 2 + 1", id="the-same-number"),
        pytest.param('{"yes", "no", "maybe"}', '{"maybe", "no", "yes"}', id="order-in-a-set"),
        pytest.param("    return 1\n", "    return 2\n", id="a-function-that-is-not-called"),
        pytest.param("LIMIT = 3\n", "LIMIT = 3\nOTHER = 5\n", id="a-constant-that-is-not-read"),
        pytest.param("class Rule:\n", 'class Rule:\n    """Holds."""\n\n', id="class-docstring"),
    ],
)
def test_an_edit_of_how_it_is_written_changes_nothing(load, old, new):
    """Comments, formatting, docstrings, and code that is not reached."""
    assert of_function(load(SOURCE).judge) == of_function(load(edited(old, new), "other").judge)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        pytest.param("renamed", ".", id="file-renamed"),
        pytest.param("users_code", "another/checkout", id="another-place"),
    ],
)
def test_the_place_of_the_file_does_not_count(load, name, folder):
    """Neither its name nor its folder."""
    assert of_function(load(SOURCE).judge) == of_function(load(SOURCE, name, folder).judge)


def test_nothing_of_plain_code_is_unread(load):
    """Functions, classes and constants are all seen."""
    assert of_function(load(SOURCE).judge).unread == ()


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import users_code
from evalframe.core.fingerprint import of_function, of_values
print(json.dumps([*of_function(users_code.judge), of_values([{"a": 1}, "b", None])]))
"""


def test_every_process_gives_the_same(load, tmp_path):
    """Whatever its hash seed, its working directory and its optimisation."""
    code = load(SOURCE).judge.__code__.co_filename
    started = []
    for seed, options in (("1", []), ("2", ["-O"]), ("3", ["-X", "no_debug_ranges"])):
        away = tmp_path / f"away{seed}"
        away.mkdir()
        process = subprocess.Popen(
            [sys.executable, *options, "-c", SCRIPT, str(Path(code).parent)],
            env={**os.environ, "PYTHONPATH": str(WHERE), "PYTHONHASHSEED": seed},
            cwd=away,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
    printed = [process.communicate()[0] for process in started]
    found = [json.loads(text) for text in printed]

    here = [*of_function(load(SOURCE).judge), of_values([{"a": 1}, "b", None])]
    assert found == [[here[0], [], here[2]]] * 3


def test_digests_are_those_of_earlier_releases(load):
    """A new release makes nothing stale by computing digests in another way."""
    values = [None, True, 1, 1.5, "a\ud800ß", [1, {"b": (2,)}], Decimal("1.50")]
    text = "LIMIT = {'a': 1.5}\n\ndef judge(output, x=2):\n    return f'{output!r:>{x}}' in LIMIT\n"

    assert of_values(values) == "eb175ca634445aa8c97b4d4dec3e37e6"
    assert of_cell("ab" * 16, values) == "807f81f5e3fab005917205b722fbac31"
    assert digest(load(text).judge) == "31ad9e6652a5abb68fd56c6031766e06"


def test_a_notebook_cell_is_read(monkeypatch):
    """Its source is where IPython puts it, and running the same cell again changes nothing."""

    def run(number, text):
        name = f"<ipython-input-{number}>"
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, name, (len(text), None, lines, name))
        namespace = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), namespace)  # noqa: S102 - what a notebook does
        return namespace["judge"]

    text = "LIMIT = 3\n\ndef judge(output):\n    return len(output) < LIMIT\n"
    first, again = run(1, text), run(2, "\n" + text)
    other = run(3, text.replace("<", ">"))

    assert of_function(first) == of_function(again) == Fingerprint(digest(first), ())
    assert digest(first) != digest(other)


SOURCELESS = """
from evalframe.core.fingerprint import of_function

def judge(output, low=1):
    '''Its docstring.'''
    inner = [word for word in output if word in {"a", "b", "c"}]
    return len(inner) > LIMIT

LIMIT = 1
print(of_function(judge).digest, of_function(judge).unread)
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        pytest.param("", "", True, id="other-hash-seed"),
        pytest.param("low", "\n        low", True, id="formatted"),
        pytest.param("> LIMIT", "< LIMIT", False, id="operator"),
        pytest.param("LIMIT = 1", "LIMIT = 2", False, id="global"),
        pytest.param('"c"', '"d"', False, id="constant"),
        pytest.param("low=1", "low=2", False, id="default"),
        pytest.param("word for word", "word + word for word", False, id="inner-function"),
    ],
)
def test_a_function_without_source_is_told_by_its_byte_code(old, new, same):
    """One that was typed at a prompt, or given to Python by -c, is not taken for another."""

    def said(text, seed):
        done = subprocess.run(
            [sys.executable, "-c", text],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        digest, unread = done.stdout.split(maxsplit=1)
        assert unread == "()\n"
        return digest

    changed = SOURCELESS.replace(old, new, 1) if old else SOURCELESS

    assert (said(SOURCELESS, "1") == said(changed, "2")) == same


def test_a_file_edited_since_its_import_is_not_taken_for_what_runs(load):
    """The old function goes on running; the new text is not its source."""
    old, new = (f"def judge(output):\n    return output {sign} 1\n" for sign in "><")
    module = load(old)
    Path(module.__file__).write_text(new)
    linecache.clearcache()

    assert digest(module.judge) != digest(load(new, "other_code").judge)


def test_lambdas_of_one_line_are_told_apart():
    """Each by its place in the line, also where one holds the other."""
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    outer = lambda x: lambda x: x + 3  # noqa: E731 - both begin in this line
    digests = {digest(function) for function in (first, second, outer, outer(1))}

    assert len(digests) == 4
    assert [of_function(f).unread for f in (first, second, outer, outer(1))] == [()] * 4


def test_the_same_lambda_written_elsewhere_is_the_same():
    """Its line is not part of it."""
    first = lambda x: x + 1  # noqa: E731 - lambdas are under test

    second = lambda x: x + 1  # noqa: E731 - lambdas are under test

    assert of_function(first) == of_function(second)


def test_functions_made_in_a_loop_differ_by_what_they_close_over():
    """By closure, default and partial alike."""

    def closing(number):
        return lambda x: x + number

    def added(x, number):
        return x + number

    for make in (
        closing,
        lambda number: lambda x, n=number: x + n,
        lambda number: functools.partial(added, number=number),
    ):
        assert digest(make(1)) != digest(make(2))
        assert digest(make(1)) == digest(make(1))


def test_recursion_and_mutual_recursion_end(load):
    """What leads back to itself is followed once, and an edit anywhere in the ring counts."""
    text = (
        "def judge(n):\n    return even(n) or judge(n - 1)\n"
        "def even(n):\n    return n == 0 or odd(n - 1)\n"
        "def odd(n):\n    return n != 0 and even(n - 1)\n"
    )

    assert digest(load(text).judge) == digest(load(text, "again").judge)
    assert digest(load(text).judge) != digest(load(text.replace("!=", ">"), "other").judge)


class Holder:
    """A user's class with a method that is given as the function."""

    def __init__(self, word, client=None):
        self.word = word
        self.client = client
        self.asked = 0

    def method(self, output):
        self.asked += 1
        return self.word in output

    def __call__(self, output):
        return self.method(output)


@pytest.mark.parametrize("made", [lambda h: h, lambda h: h.method], ids=["callable", "method"])
def test_an_object_counts_with_its_attributes(made):
    """Those that are plain; what its own methods change goes by its type."""
    used = Holder("a")
    used.method("a")

    assert digest(made(Holder("a"))) == digest(made(used))
    assert digest(made(Holder("a"))) != digest(made(Holder("b")))


def test_decorated_functions_are_followed_to_what_they_wrap():
    """By the user's own decorators and those of a library; the decorator's code counts."""

    def plus(number):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(x):
                return function(x) + number

            return wrapper

        return decorate

    def one(x):
        return x

    def two(x):
        return x * 2

    assert digest(plus(1)(one)) != digest(plus(1)(two))
    assert digest(plus(1)(one)) != digest(plus(2)(one))
    assert digest(functools.cache(one)) != digest(functools.cache(two))
    assert of_function(functools.cache(one)).unread == ()


def test_attributes_of_functions_count_where_they_are_read(load):
    """They are constants under another name."""
    text = (
        "def limited(x):\n    return x\n\nlimited.most = 1\nlimited.other = 1\n\n"
        "def judge(output):\n    return limited(output) < limited.most\n"
    )
    before = of_function(load(text).judge)

    assert before.unread == ()
    assert of_function(load(edited("most = 1", "most = 2", text)).judge) != before
    assert of_function(load(edited("other = 1", "other = 2", text)).judge) == before


def test_functions_inside_those_of_a_package_are_followed():
    """A package's decorator may keep what it wraps in its closure, without a mark."""
    one, other = (
        np.errstate(divide="ignore")(function) for function in (lambda x: x + 1, lambda x: x + 2)
    )
    for made in (one, other):
        del made.__wrapped__

    assert digest(one) != digest(other)


def test_every_branch_of_a_generic_function_is_followed(load):
    """What was registered for a type counts as what it was registered on."""
    text = (
        "import functools\n\n@functools.singledispatch\ndef judge(output):\n    return 0\n\n"
        "@judge.register\ndef _(output: int):\n    return 1\n"
    )
    other = edited("return 1", "return 2", text)

    assert digest(load(text).judge) != digest(load(other, "other").judge)


def test_loggers_and_locks_are_left_out_in_silence():
    """A function computes the same with another one."""
    log, lock, limit = logging.getLogger("a"), threading.Lock(), asyncio.Semaphore(2)

    async def judge(output):
        async with limit:
            log.info("asked")
        with lock:
            return output

    assert of_function(judge).unread == ()


def test_async_functions_are_read_as_others():
    """And differ from sync ones."""

    async def judge(output):
        await asyncio.sleep(0)
        return output

    plain = of_function(judge)

    async def judge(output):
        await asyncio.sleep(1)
        return output

    assert plain.unread == ()
    assert plain != of_function(judge)


def test_what_cannot_be_read_goes_by_its_type_and_is_named():
    """A client or a frame: another one of the type makes nothing stale."""

    def judge_with(client, frame):
        def judge(output):
            return client, frame.shape, output

        return judge

    client = pd.ExcelFile.__new__(pd.ExcelFile)
    first = of_function(judge_with(client, pd.DataFrame({"a": [1]})))
    second = of_function(judge_with(client, pd.DataFrame({"a": [2]})))

    assert first == second
    assert first.unread == ("client: ExcelFile", "frame: DataFrame")
    assert first != of_function(judge_with(object(), pd.DataFrame()))


calls = []
results = {}
FIXED = [1, 2]


def test_what_the_code_itself_changes_is_no_constant():
    """Counters and caches grow while it runs, and nothing is stale for that."""

    def judge(output):
        calls.append(output)
        results[output] = len(FIXED)
        return results[output]

    before = of_function(judge)
    judge("a")

    assert of_function(judge) == before
    assert before.unread == (
        "calls: list that the code changes",
        "results: dict that the code changes",
    )


def test_a_users_module_imported_by_the_call_is_named(load, monkeypatch, tmp_path):
    """It is not imported to be read; whether it has been makes no difference."""
    (tmp_path / "late_code.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    judge = load("def judge(output):\n    import json, late_code\n    return late_code.X\n").judge
    before = of_function(judge)
    judge("a")
    sys.modules.pop("late_code")

    assert before.unread == ("late_code: module",)
    assert of_function(judge) == before


def test_functions_are_reached_through_modules_of_the_users(load):
    """Under the dotted name by which they are read; what is not read does not count."""
    text = "import helpers_code\n\ndef judge(x):\n    return helpers_code.rate(x)\n"
    helper = "def rate(x):\n    return x\n\ndef other(x):\n    return x\n"
    found = []
    for change in (("", ""), ("rate(x):\n    return x", "rate(x):\n    return -x"), ("other", "o")):
        load(helper.replace(*change), "helpers_code")
        found.append(digest(load(text).judge))

    assert found[0] != found[1]
    assert found[0] == found[2]


def test_installed_functions_count_by_name():
    """Not by their code; another function is another one."""
    digests = {
        digest(function)
        for function in (math.sqrt, len, json.dumps, str.upper, str.lower, [].append, "".__len__)
    }

    assert len(digests) == 7
    assert of_function(json.dumps).unread == of_function(math.sqrt).unread == ()


class Hostile:
    """Everything that is asked of it raises."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


def looping():
    """A list that holds itself twice."""
    found = []
    found += [found, found]
    return found


def nested():
    """Deeper than Python's stack."""
    found = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(Hostile(), id="hostile"),
        pytest.param(looping(), id="inside-itself"),
        pytest.param(nested(), id="deep"),
        pytest.param("\ud800", id="lone-surrogate"),
        pytest.param(10**5000, id="huge-number"),
        pytest.param(math.nan, id="nan"),
        pytest.param(np.array([object()], dtype=object), id="objects-in-an-array"),
        pytest.param(np.zeros(2, dtype=[("a", "O")]), id="structured-array"),
        pytest.param(types.SimpleNamespace(a=1), id="namespace"),
        pytest.param(iter([1]), id="iterator"),
        pytest.param(int | None, id="union"),
        pytest.param(list[int], id="alias"),
        pytest.param(type("Odd", (), {"__module__": 3}), id="module-that-is-none"),
        pytest.param(eval("lambda: 1"), id="eval"),  # noqa: S307 - a function without source
    ],
)
def test_a_fingerprint_always_comes_back(value):
    """Whatever a function closes over, and twice the same; nothing of the value is called."""

    def judge(output):
        return value

    first = of_function(judge)

    assert re.fullmatch("[0-9a-f]{32}", first.digest)
    assert of_function(judge) == first


class Point(NamedTuple):
    x: int
    y: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Size:
    width: int


class Reply(BaseModel):
    """What to answer."""

    grade: int = Field(ge=0, le=5)


class LongReply(BaseModel):
    """What to answer at length."""

    grade: int = Field(ge=0, le=5)


CONSTANTS = [
    *(1, 1.0, True, "1", b"1", None, 2, -1, 0.0, -0.0, math.inf, 1j, ..., "", range(3), range(4)),
    *([1], (1,), {1}, frozenset({1}), [], {}, [[]], [[], []], (1, 2)),
    *({"a": 1}, {"a": 1.0}, {1: "a"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    *(
        collections.deque([1]),
        Decimal("1.0"),
        Decimal("1.00"),
        np.float64(1),
        np.float32(1),
        np.int64(1),
    ),
    *(np.array([1]), np.array([1.0]), np.array([[1]]), np.array([2]), pd.Timestamp("2024-01-01")),
    *(Color.RED, Color.BLUE, Size(1), Size(2), Point(1, 2), Reply(grade=1), Reply(grade=2)),
    *(Reply, LongReply, Color, Size, Path("a"), Path("b"), re.compile("a"), re.compile(b"a")),
    *(
        KeyError("a"),
        KeyError("b"),
        ValueError("a"),
        list[int],
        list[str],
        int | str,
        np.add,
        np.subtract,
    ),
    *(functools.partial(len), functools.partial(len, "a")),
]


def test_constants_of_different_values_or_types_are_told_apart():
    """1 is not 1.0 or True, a list no tuple, and the order of keys counts."""

    def closing(value):
        def judge(output):
            return value

        return judge

    digests = [digest(closing(value)) for value in CONSTANTS]

    assert len(set(digests)) == len(CONSTANTS)
    assert digests == [digest(closing(value)) for value in CONSTANTS]
    assert [of_function(closing(value)).unread for value in CONSTANTS] == [()] * len(CONSTANTS)


def test_an_absolute_path_is_not_read():
    """It is another one on each machine."""

    def closing(path):
        return lambda: path

    assert digest(closing(Path("/a"))) == digest(closing(Path("/b")))
    assert of_function(closing(Path("/a"))).unread == ("path: PosixPath",)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2),
        st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, math.inf]),
        st.sampled_from(["", "1", "a", "true", "null", "\ud800", "$tuple"]),
        st.sampled_from([b"", b"1", Decimal(1), Decimal("1.0")]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", "$tuple", "$$tuple"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def written(value):
    """A text that shows type and value at every level."""
    if isinstance(value, dict):
        return f"dict({', '.join(f'{k!r}={written(v)}' for k, v in value.items())})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(written, value))})"
    return f"{type(value).__name__}({value!r})"


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_digests_of_values_are_equal_exactly_where_values_and_types_are(one, other):
    """At every level, with the order of keys; the digest of a cell likewise."""
    same = written(one) == written(other)

    assert (of_values(one) == of_values(other)) == same
    assert (of_cell("a" * 32, one) == of_cell("a" * 32, other)) == same


def test_a_cell_is_told_by_its_code_too():
    """The same row under another evaluator."""
    assert of_cell("a" * 32, [1]) != of_cell("b" * 32, [1])


@pytest.mark.parametrize("label", [0, 1.5, (1, 2), None], ids=str)
def test_columns_of_a_row_may_have_any_labels(label):
    """A dict of them is read with the labels of the frame, and told apart by them."""
    row, other_value, other_label = {label: "a"}, {label: "b"}, {"another": "a"}

    assert len({of_values([each]) for each in (row, other_value, other_label)}) == 3
    assert of_values([row]) == of_values([dict(row)])
    assert of_cell("a" * 32, [row]) != of_cell("a" * 32, [other_value])


def test_a_value_that_is_not_plain_is_refused():
    """Rows hold plain values only; nothing stands for another object in silence."""
    with pytest.raises(TypeError, match="object has no JSON form"):
        of_values([object()])
