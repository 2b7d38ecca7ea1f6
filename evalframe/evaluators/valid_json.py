"""Is the output JSON?"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pandas as pd

from evalframe.evaluators.base import Evaluator


class ValidJSON(Evaluator):
    """Whether the text `output` is JSON (RFC 8259): label "True" / "False", score 1.0 / 0.0.

    The explanation says where it breaks. NaN and Infinity are not JSON. An output that is a
    dict or a list already is valid; a null output scores 0.0.

    Examples:
        >>> import evalframe as ef
        >>> rows = [{"output": '{"a": 1}'}, {"output": '{"a": 1'}]
        >>> scored = ef.run_experiment(rows, evaluators=[ef.ValidJSON()])
        >>> scored["eval.valid_json.label"].tolist()
        ['True', 'False']
        >>> scored["eval.valid_json.explanation"][1]
        "Expecting ',' delimiter: line 1 column 8 (char 7)"
    """

    vectorized: ClassVar[bool] = True

    def __init__(self, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        self.name = name or ""
        self.threshold = threshold

    def evaluate(self, output: pd.Series) -> list[Any]:
        """The verdicts of a whole column."""
        return [_verdict(None if value is pd.NA else value) for value in output.tolist()]


def _verdict(value: Any) -> Any:
    if not isinstance(value, str):
        return value is not None
    try:
        # Numbers stay text: their value is not asked for, and could be too long to convert.
        json.loads(value, parse_constant=_refuse, parse_int=str, parse_float=str)
    except RecursionError:
        return False, "nested too deeply to be read"
    except ValueError as exc:
        return False, str(exc)
    return True


def _refuse(constant: str) -> Any:
    message = f"{constant} is not JSON"
    raise ValueError(message)
