"""Text metrics from the dict of a metric task.

The form: {"task_type": "metric", "alias": "overlap", "configuration": {"type": "rouge1",
"candidate": "item.output", "reference": "item.truth"}}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from evalframe.core.errors import listed
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.config_keys import ConfigError, alias, check_keys, configuration
from evalframe.evaluators.rouge import Rouge
from evalframe.evaluators.similarity import SemanticSimilarity
from evalframe.evaluators.text import Bleu, TokenF1

METRIC = "metric"

_METRICS: dict[str, Callable[..., Evaluator]] = {
    "bleu": Bleu,
    "rouge1": lambda **options: Rouge("rouge1", **options),
    "rouge2": lambda **options: Rouge("rouge2", **options),
    "rougeL": lambda **options: Rouge("rougeL", **options),
    "f1": TokenF1,
    "cosine_similarity": SemanticSimilarity,
}
_ENDS = ("candidate", "reference")
_OPTIONS = ("threshold", "direction", "version")
_EMBEDDER = "embedder"

# The whole string is a path into the row; text around one would be a template.
_LOCATOR = re.compile(r"item\.(\S+)")


def metric_from_config(config: Mapping[str, Any]) -> Evaluator:
    """The evaluator that a metric task describes, bound to its two columns.

    Args:
        config: The dict; its `configuration` holds `type`, `candidate` and `reference`, and may
            hold `threshold`, `direction`, `version`, and for `cosine_similarity` an `embedder`.

    Raises:
        ConfigError: A key is unknown or missing, the type is not known, or a candidate or
            reference is no "item.<column>".

    Examples:
        >>> from evalframe.evaluators.metric_config import metric_from_config
        >>> task = {"task_type": "metric", "alias": "overlap", "configuration": {"type": "f1"}}
        >>> task["configuration"] |= {"candidate": "item.answer", "reference": "item.truth"}
        >>> metric_from_config(task)
        TokenF1(name='overlap').bind(output='answer', dataset_output='truth')
    """
    inner = configuration(config)
    kind = inner.get("type")
    name = alias(config, str(kind))
    what = f"the configuration of {name!r}"
    if not isinstance(kind, str) or kind not in _METRICS:
        message = f"{what}: type {kind!r} is not known; known are {listed(_METRICS)}."
        raise ConfigError(message)
    own = (_EMBEDDER,) if kind == "cosine_similarity" else ()
    check_keys(inner, ("type", *_ENDS, *_OPTIONS, *own), what)
    candidate, reference = (_column(inner, end, what) for end in _ENDS)
    options = {key: inner[key] for key in (*_OPTIONS, *own) if key in inner}
    try:
        made = _METRICS[kind](name=name, **options)
    except (TypeError, ValueError) as exc:
        message = f"{what}: {exc}"
        raise ConfigError(message) from exc
    return made.bind(output=candidate, dataset_output=reference)


def _column(inner: Mapping[str, Any], end: str, what: str) -> str:
    """The column or path that a locator names."""
    given = inner.get(end)
    found = _LOCATOR.fullmatch(given) if isinstance(given, str) else None
    if found is None or "{" in found[1]:
        message = f"{what}: {end} must name a column, such as 'item.output', not {given!r}."
        raise ConfigError(message)
    return found[1]
