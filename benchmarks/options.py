"""What both scripts can be asked for."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(description: str | None, *, without_peers: str) -> argparse.ArgumentParser:
    """Make the parser of a script; `without_peers` says what `--no-peers` leaves."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--smoke", action="store_true", help="few rows, no peers, in seconds")
    made.add_argument("--no-peers", action="store_true", help=without_peers)
    made.add_argument("--markdown", action="store_true", help="with date and machine on top")
    made.add_argument(
        "--envs",
        type=Path,
        default=Path.home() / ".cache" / "evalframe-benchmarks",
        help="folder for the peers' virtual environments (default: %(default)s)",
    )
    return made
