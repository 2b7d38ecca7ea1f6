"""One evaluator, or its yardstick, in a process of its own.

python evaluators_worker.py verify <evaluator> <rows>             scores equal the yardstick's?
python evaluators_worker.py time <evaluator> <rows> <ours|loop>   answers the parent, see serving.py
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from contenders import passed_columns, with_results
from evaluators_workload import PAIRS, Pair, frame
from serving import serve

if TYPE_CHECKING:
    import pandas as pd


def ours(pair: Pair, rows: pd.DataFrame) -> pd.DataFrame:
    """Run the evaluator over the columns that it reads."""
    import evalframe as ef  # the yardstick runs without it

    evaluator = pair.make().bind(**pair.reads)
    return ef.run_experiment(rows, evaluators=evaluator, progress=False)


def loop(pair: Pair, rows: pd.DataFrame) -> pa.Array | pd.DataFrame:
    """Run the yardstick over the same columns."""
    found = pair.loop(*(rows[column] for column in pair.reads.values()))
    return with_results(rows, kernel=passed_columns(found)) if pair.kernel else found


def verify(pair: Pair, rows: pd.DataFrame) -> None:
    """Compare all scores.

    Raises:
        AssertionError: They differ.
    """
    found, expected = scores(ours(pair, rows)), scores(loop(pair, rows))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def scores(result: pa.Array | pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The scores of either of them; NaN where there is none."""
    if isinstance(result, pa.Array):
        return np.asarray(result.to_numpy())
    (column,) = (name for name in result.columns if name.endswith(".score"))
    return result[column].to_numpy(dtype=float, na_value=np.nan)


def total(result: pa.Array | pd.DataFrame) -> dict[str, float]:
    """What the scores add up to."""
    return {"score": float(np.nansum(scores(result)))}


def main(what: str, evaluator: str, count: str, *who: str) -> None:
    """Do what the command line says."""
    pair = PAIRS[evaluator]
    rows = frame(int(count))[list(dict.fromkeys(pair.reads.values()))]
    if what == "verify":
        verify(pair, rows)
        return
    run = ours if who == ("ours",) else loop
    serve(lambda: run(pair, rows), total)


if __name__ == "__main__":
    main(*sys.argv[1:])
