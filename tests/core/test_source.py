"""Which source is a function's own, and the form of it that formatting does not change."""

import ast
import json
import sys
import textwrap
import types

import numpy as np
import pytest

from evalframe.core.source import is_users, is_users_package, source_of, tokens


def form(text):
    """The normal form of the first statement."""
    return list(tokens(ast.parse(textwrap.dedent(text)).body[0]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("x = 1", "x = 1.0", id="int-float"),
        pytest.param("x = 1", "x = True", id="int-bool"),
        pytest.param("x = 'a'", "x = b'a'", id="text-bytes"),
        pytest.param("x = None", "x = ...", id="none-ellipsis"),
        pytest.param("x = 'x'", "x = x", id="text-name"),
        pytest.param("x = (1,)", "x = [1]", id="tuple-list"),
        pytest.param("x = a - (b - c)", "x = a - b - c", id="parentheses"),
        pytest.param("x = f'{a}'", "x = f'{a!r}'", id="conversion"),
        pytest.param("x = f'{a:1}'", "x = f'{a:2}'", id="format"),
        pytest.param("f(a, b)", "f(a, b=b)", id="keyword"),
        pytest.param("f(*a)", "f(a)", id="star"),
        pytest.param("def f(a, /): pass", "def f(a): pass", id="positional-only"),
        pytest.param("def f(): return", "async def f(): return", id="async"),
        pytest.param("def f(): 1", "def f(): 1; 'one'", id="a-text-that-is-no-docstring"),
        pytest.param(
            "def f():\n  @g\n  def h(): 1", "def f():\n  def h(): 1", id="inner-decorator"
        ),
        pytest.param("if a: b\nelif c: d", "if a: b\nelse: c", id="branches"),
        pytest.param("x = 'ä'", "x = 'a\u0308'", id="unicode-forms"),
    ],
)
def test_different_code_has_different_forms(one, other):
    """Types of constants, structure, and names."""
    assert form(one) != form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("x=1+2", "x = ( 1\n +  2 ) # three", id="spaces"),
        pytest.param("x = 'a' 'b'", 'x = "ab"', id="quotes"),
        pytest.param("x = 0x10", "x = 16", id="digits"),
        pytest.param("def f():\n  '''a'''\n  1", "def f():\n  1", id="docstring"),
        pytest.param("@a\n@b(1)\ndef f(): 1", "def f(): 1", id="own-decorators"),
        pytest.param("x = u'a'", "x = 'a'", id="prefix"),
    ],
)
def test_the_same_code_has_the_same_form(one, other):
    """However it is written."""
    assert form(one) == form(other)


def test_a_long_chain_is_no_deep_one():
    """A sum of ten thousand terms would be too deep for a walk that calls itself."""
    tree = ast.BinOp(ast.Name("x", ast.Load()), ast.Add(), ast.Constant(1))
    for _ in range(10_000):
        tree = ast.BinOp(tree, ast.Add(), ast.Constant(1))

    assert len(list(tokens(tree))) > 10_000


state = {}


def changing(given, items):
    """Changes state in every way, and what is its own."""
    global other  # noqa: PLW0603 - is under test
    other = 1
    own = []
    own.append(given)
    items["a"] = 1
    state["a"]["b"] = 2
    json.cache = 3
    return [state.get(x) for x in own]


class Counting:
    """Counts its calls."""

    def __init__(self):
        self.given = 1
        self.count = 0
        self.seen = []

    def call(self):
        self.count += self.given
        self.seen.append(1)
        self.deep.er = 1


def of(function):
    """Its source."""
    return source_of(function.__code__, function.__globals__)


def test_names_that_a_function_changes_are_told_from_its_own():
    """Arguments and local names are nobody else's; what is only read is not changed."""
    changed = of(changing).changed

    assert {"other", "state", "json"} <= changed
    assert changed.isdisjoint({"given", "items", "own", "x", "self"})


def test_attributes_that_methods_change_are_those_set_after_making():
    """What __init__ sets is what the object is."""
    assert of(Counting.call).changed_attributes() == {"count", "seen", "deep"}
    assert of(Counting.__init__).changed_attributes() == set()


def test_dotted_names_are_found_whole():
    """The longest chain from a name, each once."""
    source = of(lambda x: np.linalg.norm(x) + np.linalg.norm(x.real) + state["a"].b)

    assert sorted(source.paths()) == [("np", "linalg", "norm"), ("state",), ("x",), ("x", "real")]


def importing():
    """Imports when it is called."""
    import json.decoder as d
    from collections import abc

    return d, abc


def test_imports_of_a_call_are_found_by_their_first_names():
    """What is imported inside a function is no global of it."""
    assert of(importing).imported() == ["json", "collections"]


@pytest.mark.parametrize(
    ("module", "users"),
    [
        pytest.param({"__name__": "__main__"}, True, id="script"),
        pytest.param({}, True, id="exec"),
        pytest.param(vars(sys.modules[__name__]), True, id="this-file"),
        pytest.param(vars(json), False, id="standard-library"),
        pytest.param(vars(np), False, id="installed"),
        pytest.param(vars(sys), False, id="built-in"),
        pytest.param(vars(sys.modules["evalframe"]), False, id="evalframe"),
        pytest.param(vars(types.ModuleType("made")), True, id="made-while-running"),
        pytest.param({"__file__": "/project/.venv/lib/site-packages/a.py"}, False, id="venv"),
        pytest.param({"__file__": "/project/a.py"}, True, id="project"),
    ],
)
def test_modules_of_the_users_are_told_from_installed_ones(module, users):
    """By where their file is, wherever the project is."""
    assert is_users(module) == users


def test_packages_are_told_apart_without_importing_them(tmp_path, monkeypatch):
    """By name."""
    (tmp_path / "own_code.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert is_users_package("own_code")
    assert not any(map(is_users_package, ("json", "numpy", "sys", "no_such_package")))
    assert "own_code" not in sys.modules
