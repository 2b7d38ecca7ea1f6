"""`df.evals`: the results of a frame, from the frame itself.

Thin: everything is a function elsewhere that takes the frame, and does the work.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence

import pandas as pd

from evalframe.analysis import explain, failures, scores, summary, usage
from evalframe.core import schema
from evalframe.core.errors import listed
from evalframe.results import parquet


@pd.api.extensions.register_dataframe_accessor("evals")
class EvalsAccessor:
    """The results of a frame that `evalframe.run_experiment` gave back.

    It works from the columns' names, so on every part, join and file of such a frame too.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators=[ef.OneOf(["4", "four"])])
        >>> scored.evals.names
        ['one_of']
        >>> scored.evals["one_of"]["score"].tolist()
        [1.0]
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        """Made by pandas at `df.evals`."""
        self._frame = frame

    @property
    def names(self) -> list[str]:
        """The evaluators whose results are in the frame, in order."""
        return scores.names(self._frame)

    @property
    def scores(self) -> pd.DataFrame:
        """Rows x evaluators: the scores, NA where there is none. See `evalframe.scores`."""
        return scores.scores(self._frame)

    @property
    def passed(self) -> pd.DataFrame:
        """Rows x evaluators: pass or fail, NA without a score or a threshold."""
        return scores.passed(self._frame)

    def __getitem__(self, evaluator: str) -> pd.DataFrame:
        """The columns of one evaluator under short names: label, score, and so on.

        Raises:
            UnknownEvaluatorError: The frame has no results of that name (a KeyError).
        """
        scores.check_name(self._frame, evaluator)
        parsed = {name: schema.parse(name) for name in self._frame.columns}
        short = {name: pair[1] for name, pair in parsed.items() if pair and pair[0] == evaluator}
        return self._frame[list(short)].rename(columns=short)

    def failures(self) -> pd.DataFrame:
        """One row per failed cell or task. See `evalframe.failures`."""
        return failures.failures(self._frame)

    def summary(self) -> pd.DataFrame:
        """One row per evaluator. See `evalframe.summary`."""
        return summary.summary(self._frame)

    def usage(self) -> pd.DataFrame:
        """What models were asked and what it cost. See `evalframe.usage`."""
        return usage.usage(self._frame)

    def explain(self, evaluator: str) -> pd.Series:
        """Where the results of one evaluator come from. See `evalframe.explain`."""
        return explain.explain(self._frame, evaluator)

    def to_parquet(self, path: str | os.PathLike[str], drop: Sequence[Hashable] = ()) -> None:
        """Write the whole frame to a file. See `evalframe.to_parquet`.

        Args:
            path: Where to; its folder must be there.
            drop: Columns that are not written.
        """
        parquet.to_parquet(self._frame, path, drop=drop)

    def __repr__(self) -> str:
        """The evaluators, and what can be asked for."""
        return (
            f"Results of {listed(self.names)} on {len(self._frame)} rows. "
            "See .summary(), .failures(), .scores, .passed, ['name'], .to_parquet(path)."
        )
