"""What frames of runs that were cut off must hold.

differences   a resumed run's frame beside that of an undisturbed one
Partial       what `.partial` holds beside the whole
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_RUN = "skipped: not run"
_JUDGE = "verdict"


def differences(found: pd.DataFrame, wanted: pd.DataFrame) -> list[str]:
    """Say where two frames differ: in names, types, index, order or any value."""
    try:
        pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    except AssertionError as exc:
        return [f"the frame is another one: {' '.join(str(exc).split())[:300]}"]
    return []


@dataclass(frozen=True)
class Partial:
    """The frame that an exception carried, beside the whole one."""

    frame: pd.DataFrame
    whole: pd.DataFrame

    @property
    def paid(self) -> int:
        """How many results of calls it holds: outputs, and verdicts of the judge."""
        outputs = int(self.frame["output"].notna().sum())
        return outputs + int(self.frame[f"eval.{_JUDGE}.error"].isna().sum())

    def wrong(self) -> list[str]:
        """Say what it holds that the whole does not."""
        if not self.frame.index.equals(self.whole.index):
            return [".partial has other rows"]
        if list(self.frame.columns) != list(self.whole.columns):
            return [".partial has other columns"]
        return [
            f".partial: {int(other.sum())} values of {name} are not those of the whole"
            for name, other in self._others()
            if other.any()
        ]

    def _others(self) -> Iterator[tuple[str, pd.Series[bool]]]:
        for name in self.frame.columns:
            there = pd.Series(data=True, index=self.frame.index)
            if (error := _error_beside(name)) is not None:
                there = ~self.frame[error].eq(_NOT_RUN).fillna(value=False)
            yield name, there & ~_same(self.frame[name], self.whole[name])


def _error_beside(name: str) -> str | None:
    """Give the column that says whether a result column's cells were run; None for others."""
    if name in ("output", "task.error"):
        return "task.error"
    return f"{name.rpartition('.')[0]}.error" if name.startswith("eval.") else None


def _same(ours: pd.Series[bool], its: pd.Series[bool]) -> pd.Series[bool]:
    equal = ours.eq(its).fillna(value=False).astype(bool)
    return equal | (ours.isna() & its.isna())
