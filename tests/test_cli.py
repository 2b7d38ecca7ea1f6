"""`python -m evalframe`, run as a user runs it: in a directory, mostly a process, of its own."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import evalframe
from evalframe.cli import main
from evalframe.evaluators.catalogue import BUILT_IN

README = Path(__file__).parents[1] / "README.md"

WIDTH = 100

IDS = ["g1", "g2", "g3", "m1", "m2", "m3", "w1", "w2", "c1", "c2"]


def evalframe_command(*arguments, cwd, **environment):
    """The finished process; what it prints is text."""
    package = str(Path(evalframe.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "evalframe", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def ended(monkeypatch, capsys, tmp_path):
    """A function: as evalframe_command in `tmp_path`, but in this process, which is quicker."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            code = main(arguments)
        except SystemExit as exc:
            code = exc.code
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return run


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The finished demo and its directory; it was run without arguments."""
    folder = tmp_path_factory.mktemp("demo")
    return evalframe_command("demo", cwd=folder), folder


def section(printed, title):
    """The indented lines of the demo below a title, without the indent."""
    _, _, rest = printed.partition(f"{title}\n\n")
    return [line.removeprefix("  ") for line in rest.partition("\n\n")[0].splitlines()]


def test_demo_succeeds_and_says_nothing_on_stderr(demo):
    """A demo that warns is no demo."""
    process, _ = demo

    assert (process.returncode, process.stderr) == (0, "")


def test_demo_writes_one_file_and_says_where(demo):
    """Without --out the file is in the working directory; nothing else is left there."""
    process, folder = demo
    written = re.search(r"^Written: 10 rows, 20 columns to (.+)$", process.stdout, re.MULTILINE)

    assert [Path(written[1]).resolve()] == [path.resolve() for path in folder.iterdir()]


def test_demo_file_is_opened_by_plain_pandas(demo):
    """A Python that has pandas, and loads nothing of evalframe, reads the scores."""
    _, folder = demo
    code = (
        "import sys, pandas\n"
        "frame = pandas.read_parquet('evalframe_demo.parquet')\n"
        "print(frame['eval.recall.score'].mean(), 'evalframe' in sys.modules)"
    )

    process = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )

    assert process.stdout == "0.75 False\n"


def test_demo_file_is_the_frame_that_was_scored(demo):
    """Ten rows: a wrong answer, a null one, a null reference, and one that raises."""
    _, folder = demo
    scored = evalframe.read_parquet(folder / "evalframe_demo.parquet")

    assert scored["id"].tolist() == IDS
    assert scored["answer"].isna().tolist() == [False] * 5 + [True] + [False] * 4
    assert scored.evals.scores.astype(object).to_dict("list") == {
        "exact_match": [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, None, 1.0, 1.0],
        "recall": [1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, None, 1.0, None],
        "short": [1.0, 1.0, 1.0, 1.0, 0.0, None, 1.0, 0.0, 1.0, 1.0],
    }


def test_demo_prints_the_summary_with_its_failure_and_its_skips(demo):
    """Each evaluator's counts and mean, whole."""
    lines = section(
        demo[0].stdout, "Summary (a failed or skipped cell has no score, and is in no mean):"
    )

    assert [line.split(maxsplit=7) for line in lines] == [
        ["evaluator", "n", "n_valid", "n_failed", "n_skipped", "mean", "pass_rate", "labels"],
        ["exact_match", "10", "9", "0", "1", "0.556", "<NA>", "{'True': 5, 'False': 4}"],
        ["recall", "10", "8", "1", "1", "0.750", "0.750", "{}"],
        ["short", "10", "9", "0", "1", "0.778", "<NA>", "{'True': 7, 'False': 2}"],
    ]


def test_demo_prints_what_failed_and_where(demo):
    """The evaluator, the row, and the line of the traceback that raised."""
    lines = section(demo[0].stdout, "What failed, and where:")

    assert lines[0] == "recall, row 9:"
    assert lines[2].endswith("in recall")
    assert lines[3].strip() == "return len(found) / len(wanted)"
    assert lines[-1].strip() == "ZeroDivisionError: division by zero"


def test_demo_prints_what_was_skipped_and_why(demo):
    """Each skipped cell has its reason."""
    assert section(demo[0].stdout, "What was skipped, and why:") == [
        "exact_match, row 7: no reference",
        "recall, row 7: no reference",
        "short, row 5: returned None",
    ]


def test_demo_prints_every_row(demo):
    """Ten rows under a head, none cut off."""
    rows = section(demo[0].stdout, "The rows, with their scores:")

    assert rows[0].split() == ["id", "answer", "reference", "exact_match", "recall", "short"]
    assert [row.split()[1] for row in rows[1:]] == IDS
    assert [row for row in rows if "..." in row] == []


def test_demo_is_at_most_a_hundred_columns_wide(demo):
    """Lines with a path in them, which may be of any length, do not count."""
    lines = [line for line in demo[0].stdout.splitlines() if str(Path(os.sep)) not in line]

    assert [line for line in lines if len(line) > WIDTH] == []


def test_readme_shows_the_demos_last_lines(demo):
    """Below the README's main command stands what it ends with; `...` stands for the folder."""
    text = README.read_text(encoding="utf-8")
    shown = re.search(r"<!-- command: main -->.*?```text\n(.*?)```", text, re.DOTALL)[1]
    last = "\n".join(demo[0].stdout.splitlines()[-3:]) + "\n"
    pattern = re.escape(shown).replace(re.escape("..."), ".*")

    assert re.fullmatch(pattern, last)


def test_demo_writes_where_it_is_told(tmp_path):
    """--out names the file; the printed lines that read it name it too."""
    (tmp_path / "results").mkdir()

    process = evalframe_command("demo", "--out", "results/first.parquet", cwd=tmp_path)

    assert process.returncode == 0
    assert process.stdout.endswith("evalframe.read_parquet('results/first.parquet')\n")
    assert len(pd.read_parquet(tmp_path / "results" / "first.parquet")) == 10


def test_demo_prints_to_a_terminal_that_knows_only_ascii(tmp_path):
    """No character of the output needs more."""
    process = evalframe_command("demo", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert process.returncode == 0


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        pytest.param("nowhere/a.parquet", "there is no folder .*nowhere", id="no-folder"),
        pytest.param(".", "it is a folder", id="a-folder"),
        pytest.param("a" * 300 + ".parquet", "", id="name-too-long"),
    ],
)
def test_demo_that_cannot_write_says_why_in_one_line(tmp_path, out, reason):
    """A path that cannot be written is the user's to mend: exit code 2 and no traceback."""
    process = evalframe_command("demo", "--out", out, cwd=tmp_path)

    assert (process.returncode, process.stdout) == (2, "")
    assert re.fullmatch(
        rf"evalframe: error: Cannot write '{re.escape(out)}': .*{reason}.*\n", process.stderr
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--help"]], ids=["nothing", "help"])
def test_command_line_without_a_command_shows_help(ended, arguments):
    """Help names the command and the way to the library."""
    process = ended(*arguments)

    assert (process.returncode, process.stderr) == (0, "")
    assert re.search(
        r"^usage: python -m evalframe .*^ +demo +run .*ef\.run_experiment",
        process.stdout,
        re.MULTILINE | re.DOTALL,
    )


def test_evaluators_prints_the_table_of_the_readme(tmp_path):
    """One row for each built-in evaluator, and nothing else."""
    process = evalframe_command("evaluators", cwd=tmp_path, PYTHONIOENCODING="utf-8")
    lines = process.stdout.splitlines()

    assert (process.returncode, process.stderr) == (0, "")
    assert len(lines) == 2 + len(BUILT_IN)
    assert lines[0] == "| evaluator | reads | gives | options | extra | source |"
    assert {line.count("|") for line in lines} == {7}
    assert process.stdout in README.read_text("utf-8")


def test_evaluators_prints_to_a_terminal_that_knows_only_ascii(tmp_path):
    """Letters of the sources' authors are written as Markdown knows them."""
    process = evalframe_command("evaluators", cwd=tmp_path, PYTHONIOENCODING="ascii")

    assert (process.returncode, process.stderr) == (0, "")
    assert html.unescape(process.stdout) in README.read_text("utf-8")
    assert "[Popovi&#263; 2015]" in process.stdout


def test_help_of_the_demo_names_its_default_file(ended):
    """What would be written is known before it is."""
    process = ended("demo", "--help")

    assert process.returncode == 0
    assert "--out PATH" in process.stdout
    assert "./evalframe_demo.parquet" in process.stdout


def test_version_is_one_line(ended):
    """The installed version, or that evalframe runs from its source."""
    process = ended("--version")

    assert process.returncode == 0
    assert re.fullmatch(r"evalframe (\d+\.\d+\.\d+\S*|\(not installed.*\))\n", process.stdout)


@pytest.mark.parametrize("arguments", [["dmo"], ["demo", "--oot", "x"]], ids=["command", "option"])
def test_unknown_argument_is_refused(ended, tmp_path, arguments):
    """What makes no sense runs nothing: exit code 2, and the usage."""
    process = ended(*arguments)

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("usage: python -m evalframe")
    assert list(tmp_path.iterdir()) == []
