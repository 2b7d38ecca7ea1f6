"""Everything that is shown to a reader runs, and gives what is shown.

Docstrings  Each example starts from nothing: it imports what it uses, and runs in an empty
            directory. `...` in its output stands for anything.

README      The python fences run from top to bottom in one namespace and one empty directory.
            A fence with the language `text` right after a python fence is its output: what
            it printed and then, as in a notebook, the value of a last line that is a bare
            expression. Spaces at line ends do not count; `...` stands for anything. Frames
            are 100 columns wide.

Notebooks   Each runs from top to bottom in an empty directory, and gives again, cell by
            cell, the text that is committed in it. Images and other rich forms do not count,
            only the text beside them.
"""

import ast
import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
from pathlib import Path

import nbclient
import nbformat
import pandas as pd
import pytest

import evalframe

HERE = Path(__file__).parents[1]
README = HERE / "README.md"
NOTEBOOKS = sorted((HERE / "notebooks").glob("*.ipynb"))

LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^<!-- command: (\w+) -->\n```bash\n(.+?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")


def docstring_examples():
    """Every docstring with examples in it, by module and object."""
    found = pkgutil.walk_packages(evalframe.__path__, "evalframe.")
    # Importing __main__ would run the command line.
    names = [module.name for module in found if module.name != "evalframe.__main__"]
    modules = [evalframe, *map(importlib.import_module, names)]
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules for test in finder.find(module) if test.examples]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty working directory, from which the suite's own package is found."""
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join(
        [str(Path(evalframe.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    monkeypatch.setenv("PYTHONPATH", path.rstrip(os.pathsep))
    return tmp_path


@pytest.mark.parametrize("example", docstring_examples(), ids=lambda test: test.name)
@pytest.mark.usefixtures("elsewhere")
def test_docstring_example_gives_what_it_shows(example):
    """An example in a docstring can be pasted into a fresh Python, and is true."""
    report = io.StringIO()
    example.globs = {"__name__": "__main__"}

    result = doctest.DocTestRunner(optionflags=LOOSELY).run(example, out=report.write)

    assert result.failed == 0, report.getvalue()


def fences(text):
    """(language, content, line of the content, text between it and the fence before)."""
    end = 0
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        found.append((match["language"], match["text"], line, text[end : match.start()]))
        end = match.end()
    return found


def run_fence(source, line, filename, namespace):
    """What the fence prints, and the value of its last line, as text."""
    # Blank lines in front, so that a traceback names the line in the file.
    tree = ast.parse("\n" * (line - 1) + source, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, filename, "exec"), namespace)  # noqa: S102 - the README's own text
        if last is not None:
            code = compile(ast.Expression(last.value), filename, "eval")
            value = eval(code, namespace)  # noqa: S307 - the README's own text
            if value is not None:
                printed.write(f"{value!r}\n")
    return printed.getvalue()


def same_text(shown, given):
    """Whether output is as shown, spaces at line ends aside; `...` stands for anything."""
    shown, given = (
        "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
        for text in (shown, given)
    )
    return doctest.OutputChecker().check_output(shown, given, doctest.ELLIPSIS)


def run_page(text, filename):
    """Run all python fences of a page; the fences whose shown output is not what they give."""
    namespace = {"__name__": "__main__"}
    given = None
    wrong = []
    with pd.option_context("display.width", 100, "display.max_columns", 20):
        for language, content, line, before in fences(text):
            if language == "python":
                given = run_fence(content, line, filename, namespace)
                continue
            shows_output = language == "text" and given is not None and not before.strip()
            if shows_output and not same_text(content, given):
                wrong.append(f"{filename}:{line}: shows\n{content}but gives\n{given}")
            given = None
    return wrong


@pytest.mark.filterwarnings("ignore:run_dir='runs/polite'. finished before")
@pytest.mark.usefixtures("elsewhere")
def test_readme_runs_and_gives_what_it_shows():
    """A reader who pastes the README's python into a fresh Python sees its outputs."""
    wrong = run_page(README.read_text(encoding="utf-8"), str(README))

    assert wrong == [], "\n".join(wrong)


def test_readme_has_the_two_commands_that_ci_runs():
    """One bash fence runs the main job and one all tests; CI finds each by its comment."""
    names = [name for name, _ in COMMAND.findall(README.read_text(encoding="utf-8"))]

    assert sorted(names) == ["main", "tests"]


@pytest.mark.parametrize(
    ("page", "count"),
    [
        pytest.param("```python\n1 + 1\n```\n\n```text\n2\n```\n", 0, id="value"),
        pytest.param(
            "```python\nprint(1)\n2\n```\n```text\n1\n2\n```\n", 0, id="printed-and-value"
        ),
        pytest.param("```python\nx = 1\n```\n\n```python\nx\n```\n```text\n1\n```\n", 0, id="kept"),
        pytest.param("```python\n1\n```\nLike this:\n```text\n2\n```\n", 0, id="not-right-after"),
        pytest.param("```python\n'a b c'\n```\n```text\n'a ... c'\n```\n", 0, id="anything"),
        pytest.param("```python\n1 + 1\n```\n```text\n3\n```\n", 1, id="wrong-value"),
        pytest.param("```python\nNone\n```\n```text\nNone\n```\n", 1, id="none-is-silent"),
        pytest.param("```python\n'a  b'\n```\n```text\n'a b'\n```\n", 1, id="spaces-inside-count"),
    ],
)
def test_page_is_wrong_where_it_shows_another_output(page, count):
    """The text fence right after a python fence is held against what that fence gives."""
    assert len(run_page(page, "page.md")) == count


def cell_texts(notebook):
    """(cell, kind, text) of every output; what one stream wrote in pieces is one text."""
    found = []
    for number, cell in enumerate(notebook.cells):
        texts = {}
        for position, output in enumerate(cell.get("outputs", [])):
            if output.output_type == "stream":
                texts.setdefault(output.name, []).append(output.text)
            else:
                plain = output.get("data", {}).get("text/plain", "")
                texts[f"{output.output_type} {position}"] = [plain]
        found += [(number, kind, "".join(pieces)) for kind, pieces in texts.items()]
    return found


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_gives_what_is_committed(path, elsewhere):
    """A committed notebook shows what running it gives."""
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.from_dict(committed)
    client = nbclient.NotebookClient(
        fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(elsewhere)}}
    )

    client.execute()

    assert cell_texts(fresh) == cell_texts(committed)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_shows_no_memory_address(path):
    """What is different on every run is nothing to commit."""
    texts = [text for _, _, text in cell_texts(nbformat.read(path, as_version=4))]

    assert [text for text in texts if ADDRESS.search(text)] == []
