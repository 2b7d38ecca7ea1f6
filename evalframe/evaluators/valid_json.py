"""Is the output JSON?"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from evalframe.core import schema
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.compared import values

_JSON = (type(None), bool, int, float, str, list, tuple, dict)


class ValidJSON(Evaluator):
    """Whether the text `output` is JSON (RFC 8259): label "True" / "False", score 1.0 / 0.0.

    The explanation says where it breaks. NaN and Infinity are not JSON; a key that comes twice
    is. Nesting beyond Python's recursion limit (about 1,000) is not read, and not valid. An
    output that is not text but a dict, list, number or bool is valid if JSON can express it. A
    null output scores 0.0.

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
    source: ClassVar[str] = "[RFC 8259](https://www.rfc-editor.org/rfc/rfc8259)"

    def __init__(self, *, name: str | None = None, threshold: float | None = None) -> None:
        """See the class."""
        self.name = name or ""
        self.threshold = threshold

    def evaluate(self, output: pd.Series) -> dict[str, pa.Array]:
        """The verdicts of a whole column."""
        found = values(output)
        problems = [None if value is None else _problem(value) for value in found]
        pairs = zip(found, problems, strict=True)
        valid = [value is not None and problem is None for value, problem in pairs]
        return {
            schema.SCORE: pa.array(valid, pa.bool_()),
            schema.EXPLANATION: pa.array(problems, schema.TEXT),
        }


def _problem(value: Any) -> str | None:
    """Why a value is not JSON, None if it is."""
    try:
        if isinstance(value, str):
            _parse(value)
        else:
            _check(value)
    except RecursionError:
        return "nested too deeply to be read"
    except ValueError as exc:
        return str(exc)
    return None


def _parse(text: str) -> None:
    if text.startswith("\ufeff"):
        message = "Unexpected UTF-8 BOM"
        raise json.JSONDecodeError(message, text, 0)
    _DECODER.decode(text)


def _check(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(str(value))
    if not isinstance(value, _JSON):
        _refuse(f"a {type(value).__name__}")
    if isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            _check(part)


def _refuse(constant: str) -> Any:
    message = f"{constant} is not JSON"
    raise ValueError(message)


# One for all: json.loads makes one per call. Numbers stay text: their value is not asked for,
# and could be too long to convert.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
