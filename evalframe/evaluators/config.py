"""Evaluators from configuration: dicts, and YAML or JSON files of them.

The form is that of evaluation tasks: {"task_type": ..., "alias": ..., "configuration": {...}}.
What a configuration holds is up to its type: judge_config.py and metric_config.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalframe.core.errors import listed
from evalframe.core.optional import optional
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.config_keys import TASK_KEYS, ConfigError, check_keys
from evalframe.evaluators.judge_config import GUIDED_DECODING, judge_from_config
from evalframe.evaluators.metric_config import METRIC, metric_from_config

_READERS = {GUIDED_DECODING: judge_from_config, METRIC: metric_from_config}


def from_config(config: Mapping[str, Any]) -> Evaluator:
    """The evaluator that a task's dict describes.

    Args:
        config: The dict of a guided-decoding task (its `configuration` may also hold `base_url`
            and the other options of `ef.Model`), or of a metric task.

    Raises:
        ConfigError: A key is unknown, missing, or contradicts another.

    Examples:
        >>> from evalframe.evaluators.config import from_config
        >>> judge = from_config(
        ...     {
        ...         "task_type": "auto_evaluation.guided_decoding",
        ...         "alias": "correctness",
        ...         "configuration": {
        ...             "model": "openai/o3-mini",
        ...             "prompt": "Is {{item.output}} right?",
        ...             "choices": ["Yes", "No"],
        ...         },
        ...     }
        ... )
        >>> judge.name, judge.model
        ('correctness', Model('openai/o3-mini'))
    """
    kind = config.get("task_type")
    check_keys(config, TASK_KEYS, "a task")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        message = f"task_type {kind!r} is not known; known are {listed(_READERS)}."
        raise ConfigError(message)
    return reader(config)


def load_evaluators(path: str | os.PathLike[str]) -> list[Evaluator]:
    """The evaluators of a YAML or JSON file.

    The file holds a list of task dicts, or an object with such a list under "tasks".

    Args:
        path: A `.json`, `.yaml` or `.yml` file.

    Returns:
        One evaluator per task, in order.

    Raises:
        ConfigError: The file cannot be read, or a task in it not be used.
        MissingExtraError: YAML needs the extra `yaml`.

    Examples:
        >>> import json, pathlib
        >>> import evalframe as ef
        >>> task = {"task_type": "auto_evaluation.guided_decoding", "alias": "polite"}
        >>> task["configuration"] = {"model": "openai/gpt-5-mini", "choices": ["yes", "no"]}
        >>> task["configuration"]["prompt"] = "Is this polite? {{ item.output }}"
        >>> _ = pathlib.Path("judges.json").write_text(json.dumps([task]))
        >>> [judge.name for judge in ef.load_evaluators("judges.json")]
        ['polite']
    """
    found = read_config(path)
    tasks = found.get("tasks") if isinstance(found, Mapping) else found
    if not isinstance(tasks, list) or not all(isinstance(task, Mapping) for task in tasks):
        message = f"{str(path)!r} must hold a list of tasks, or an object with 'tasks'."
        raise ConfigError(message)
    return [from_config(task) for task in tasks]


def read_config(path: str | os.PathLike[str]) -> Any:
    """What a YAML or JSON file holds.

    Raises:
        ConfigError: It cannot be read.
    """
    file = Path(path).expanduser()
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"Cannot read {str(path)!r}: {exc}"
        raise ConfigError(message) from None
    try:
        if file.suffix.lower() in (".yaml", ".yml"):
            yaml = optional("yaml", extra="yaml", needed_by="A YAML file")
            return _yaml(yaml, text)
        return json.loads(text, object_pairs_hook=_distinct)
    except Exception as exc:
        if isinstance(exc, ImportError):
            raise
        message = f"Cannot read {str(path)!r}: {exc}"
        raise ConfigError(message) from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two that are not, one would win in silence."""
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        message = f"the key {twice[0]!r} is there twice"
        raise ConfigError(message)
    return dict(pairs)


def _yaml(yaml: Any, text: str) -> Any:
    # mypy: yaml is imported late, and Any.
    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Safe, and of one mind about keys."""

    def mapping(loader: Any, node: Any) -> dict[str, Any]:
        loader.flatten_mapping(node)
        return _distinct(
            [
                (loader.construct_object(k, deep=True), loader.construct_object(v, deep=True))
                for k, v in node.value
            ]
        )

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return yaml.load(text, Loader=Loader)
