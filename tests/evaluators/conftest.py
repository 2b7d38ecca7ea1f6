"""How built-in evaluators are asked."""

import numpy as np
import pandas as pd
import pytest

import evalframe as ef


def _column(values):
    """A Series as it is; anything else as Python objects, of which pandas infers nothing."""
    if isinstance(values, pd.Series):
        return values
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def _outcome(label, score, error):
    """True or False for a verdict whose label and score agree, else the error."""
    if not pd.isna(error):
        assert pd.isna(label)
        assert pd.isna(score)
        return error
    assert (label, score) in [("True", 1.0), ("False", 0.0)]
    return label == "True"


def _outcomes(columns, evaluator, task=None):
    frame = pd.DataFrame({name: _column(values) for name, values in columns.items()})
    scored = ef.run_experiment(frame, task, evaluators=[evaluator], progress=False)
    parts = scored.evals[evaluator.name][["label", "score", "error"]]
    return [_outcome(*row) for row in parts.to_numpy(dtype=object)]


@pytest.fixture
def judge():
    """Ask an evaluator about columns; per row it gives True, False or the error."""

    def ask(evaluator, output, dataset_output=None):
        given = {"output": output, "dataset_output": dataset_output}
        columns = {name: values for name, values in given.items() if values is not None}
        return _outcomes(columns, evaluator)

    return ask


@pytest.fixture
def judge_task():
    """The same with the outputs made by a task, so that their type is not known beforehand."""

    def ask(evaluator, output, dataset_output=None):
        given = {"input": list(range(len(output))), "dataset_output": dataset_output}
        columns = {name: values for name, values in given.items() if values is not None}
        return _outcomes(columns, evaluator, task=lambda input: output[input])

    return ask
