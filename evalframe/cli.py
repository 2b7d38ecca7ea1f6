"""The command line: `python -m evalframe`.

demo         runs a small experiment, prints its results and writes them to a file
evaluators   prints the table of built-in evaluators

A mistake of the caller's is one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pandas as pd

from evalframe.analysis.failures import failures
from evalframe.analysis.scores import scores
from evalframe.analysis.summary import summary
from evalframe.core import schema
from evalframe.core.errors import EvalframeError
from evalframe.demo import EVALUATORS, run
from evalframe.evaluators.catalogue import markdown
from evalframe.results.parquet import to_parquet

DEMO_FILE = "evalframe_demo.parquet"

_SUMMARY = ["evaluator", "n", "n_valid", "n_failed", "n_skipped", "mean", "pass_rate", "labels"]
_SKIPPED = f"{schema.SKIPPED}: "
_TEXTS = ["id", "answer", "reference"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: What stands after the program's name; those of the process if not given.

    Returns:
        The exit code.

    Raises:
        SystemExit: As argparse does: after `--help` and `--version`, and where the arguments
            make no sense.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 0
    if given.command == "evaluators":
        print(_encodable(markdown()))
        return 0
    try:
        scored = run()
        to_parquet(scored, given.out)
    except EvalframeError as exc:
        return _mistake(str(exc))
    except OSError as exc:
        return _mistake(f"Cannot write {given.out!r}: {exc.strerror or exc}")
    print(_report(scored, given.out))
    return 0


def _encodable(text: str) -> str:
    """The text with character references, as Markdown has them, for what stdout cannot write."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "xmlcharrefreplace").decode(encoding)


def _mistake(reason: str) -> int:
    print(f"evalframe: error: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evalframe",
        description="Evaluation as columns: a dataframe in, the same dataframe with result columns "
        "out.",
        epilog="Everything else is the Python library: import evalframe as ef; "
        "help(ef.run_experiment).",
    )
    parser.add_argument("--version", action="version", version=f"evalframe {_version()}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="run a small experiment, print its results and write them to a parquet file",
        description="Run three evaluators on ten questions that come with evalframe, print the "
        "results and write them to a parquet file. Takes a second; needs no network.",
    )
    demo.add_argument(
        "--out",
        metavar="PATH",
        default=DEMO_FILE,
        help="the parquet file to write, replaced if it is there (default: ./%(default)s)",
    )
    commands.add_parser(
        "evaluators",
        help="print the table of built-in evaluators",
        description="Print the built-in evaluators as a Markdown table: what each reads, gives and "
        "takes, what it needs installed, and where its formula is from.",
    )
    return parser


def _version() -> str:
    try:
        return metadata.version("evalframe")
    except metadata.PackageNotFoundError:
        return "(not installed: run from its source)"


def _report(scored: pd.DataFrame, out: str) -> str:
    """What the demo prints, at most 100 columns wide, the path aside."""
    kinds = "\n".join(f"{item.name:<12} {kind}" for kind, item in EVALUATORS.items())
    blocks = {
        "Ten questions with an answer and a reference; three evaluators:": kinds,
        "Summary (a failed or skipped cell has no score, and is in no mean):": _table(
            summary(scored)[_SUMMARY]
        ),
        "What failed, and where:": _failed(failures(scored)),
        "What was skipped, and why:": _skipped(scored),
        "The rows, with their scores:": _table(scored[_TEXTS].join(scores(scored)), index=True),
    }
    shown = "".join(f"{title}\n\n{_indented(text)}\n\n" for title, text in blocks.items())
    rows, columns = scored.shape
    return (
        f"{shown}Written: {rows} rows, {columns} columns to {Path(out).expanduser().absolute()}\n"
        f"Read it anywhere:     pandas.read_parquet({out!r})\n"
        f"As the frame it was:  evalframe.read_parquet({out!r})"
    )


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")


def _table(frame: pd.DataFrame, *, index: bool = False) -> str:
    """The whole frame, however wide the terminal is."""
    quoted = dict.fromkeys(set(_TEXTS[1:]).intersection(frame.columns), repr)
    return frame.to_string(index=index, float_format="{:.3f}".format, formatters=quoted)


def _failed(table: pd.DataFrame) -> str:
    parts = zip(table["position"], table["evaluator"], table["traceback"], strict=True)
    blocks = [f"{name}, row {row}:\n{_indented(text.rstrip())}" for row, name, text in parts]
    return "\n".join(blocks)


def _skipped(scored: pd.DataFrame) -> str:
    lines = []
    for item in EVALUATORS.values():
        errors = scored[schema.column(item.name, schema.ERROR)].dropna()
        skipped = errors[[not schema.is_failure(text) for text in errors]]
        lines += [
            f"{item.name}, row {row}: {text.removeprefix(_SKIPPED)}"
            for row, text in skipped.items()
        ]
    return "\n".join(lines)
