"""The progress bar: the only place that knows tqdm.

A bar never ends a run: where it cannot be drawn there is none.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


class Progress:
    """Counts cells on stderr or in a notebook; silent where neither is there."""

    def __init__(self, total: int, name: str, *, enabled: bool) -> None:
        """Draw an empty bar.

        Args:
            total: Cells to come, task calls included.
            name: What stands before the bar.
            enabled: False: never print anything.
        """
        self.shown = enabled and total > 0 and (in_notebook() or _is_terminal())
        self._bar: Any = None
        if self.shown:
            try:
                self._bar = _bar_class()(total=total, desc=name, unit="cell", dynamic_ncols=True)
            except Exception:  # noqa: BLE001 - see the module: never end a run for a bar
                self._bar = None

    def add(self, count: int) -> None:
        """Count finished cells."""
        if self._bar is not None and count:
            try:
                self._bar.update(count)
            except Exception:  # noqa: BLE001 - see the module
                self._bar = None

    def close(self, closing_lines: list[str]) -> None:
        """End the bar; below it, where one was shown, say these lines."""
        if self._bar is not None:
            try:
                self._bar.close()
            except Exception:  # noqa: BLE001 - see the module
                self._bar = None
        if self.shown:
            for line in closing_lines:
                sys.stderr.write(line + "\n")


def in_notebook() -> bool:
    """Whether the process is a notebook kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _is_terminal() -> bool:
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):
        return False


def _bar_class() -> Any:
    # tqdm.auto warns and then fails without ipywidgets; a text bar works everywhere.
    if in_notebook() and importlib.util.find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as notebook_bar

        return notebook_bar
    from tqdm.std import tqdm as text_bar

    return text_bar
