"""Frames with results, made by hand: nothing here needs a run."""

import pandas as pd
import pyarrow as pa
import pytest

from evalframe.core import schema
from evalframe.core.run_info import KEY, EvaluatorInfo, RunInfo

DTYPES = {
    kind: pd.StringDtype("pyarrow") if kind == schema.TEXT else pd.ArrowDtype(kind)
    for kind in (schema.TEXT, schema.NUMBER, pa.int64())
}


def typed(values, kind):
    """A result column."""
    return pd.array(list(values), dtype=DTYPES[kind])


@pytest.fixture
def results():
    """Builds a frame: `results(judge=[{"score": 1.0}, {"error": "skipped: x"}])`.

    Every cell is a dict of its fields; absent ones are NA. `infos` maps names to what the
    frame remembers of an evaluator, `tracebacks` errors to tracebacks.
    """

    def build(index=None, infos=None, tracebacks=None, task_errors=None, **evaluators):
        rows = len(next(iter(evaluators.values()))) if evaluators else len(task_errors or ())
        columns = {"output": typed([f"r{row}" for row in range(rows)], schema.TEXT)}
        if task_errors is not None:
            columns[schema.TASK_ERROR] = typed(task_errors, schema.TEXT)
        for name, cells in evaluators.items():
            for field, kind in schema.FIELDS.items():
                values = [cell.get(field) for cell in cells]
                columns[schema.column(name, field)] = typed(values, kind)
        frame = pd.DataFrame(columns, index=pd.RangeIndex(rows) if index is None else index)
        known = {name: EvaluatorInfo() for name in evaluators} | (infos or {})
        frame.attrs[KEY] = RunInfo(evaluators=known, tracebacks=tracebacks or {}).to_json()
        return frame

    return build


@pytest.fixture
def scored(results):
    """As `results`, from scores alone: `scored(a=[0.8, None])`."""

    def build(index=None, infos=None, **evaluators):
        cells = {
            name: [
                {"error": "skipped: none"} if score is None else {"score": score}
                for score in column
            ]
            for name, column in evaluators.items()
        }
        return results(index=index, infos=infos, **cells)

    return build
