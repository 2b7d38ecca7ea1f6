"""One evaluator, or its yardstick, in a process of its own.

python evaluators_worker.py verify <evaluator> <rows>             columns equal the yardstick's?
python evaluators_worker.py time <evaluator> <rows> <ours|loop>   answers the parent, see serving.py
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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


def loop(pair: Pair, rows: pd.DataFrame) -> pd.DataFrame | dict[str, pa.Array]:
    """Run the yardstick over the same columns; it gives the columns that it fills."""
    found = pair.loop(*(rows[column] for column in pair.reads.values()))
    if pair.kernel:
        return with_results(rows, kernel=passed_columns(found))
    return found if isinstance(found, dict) else {"score": found}


def verify(pair: Pair, rows: pd.DataFrame) -> None:
    """Compare every column that the yardstick gives.

    Raises:
        AssertionError: They differ.
    """
    found, expected = by_field(ours(pair, rows)), by_field(loop(pair, rows))
    for field, column in expected.items():
        if pa.types.is_floating(column.type):
            scores = (column.to_numpy(), found[field].to_numpy())
            np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-9)
        else:
            assert found[field].to_pylist() == column.to_pylist(), field


def by_field(result: pd.DataFrame | dict[str, pa.Array]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The columns that either of them made, by the last part of their names."""
    if isinstance(result, dict):
        return result
    made = {name: result[name] for name in result.columns if name.startswith("eval.")}
    return {name.rsplit(".", 1)[1]: pa.array(column) for name, column in made.items()}


def total(result: pd.DataFrame | dict[str, pa.Array]) -> dict[str, float]:
    """What the scores add up to."""
    return {"score": float(np.nansum(by_field(result)["score"].to_numpy()))}


def main(what: str, evaluator: str, count: str, *who: str) -> None:
    """Do what the command line says."""
    pair = PAIRS[evaluator]
    rows = frame(int(count), list(dict.fromkeys(pair.reads.values())))
    if what == "verify":
        verify(pair, rows)
        return
    run = ours if who == ("ours",) else loop
    serve(lambda: run(pair, rows), total)


if __name__ == "__main__":
    main(*sys.argv[1:])
