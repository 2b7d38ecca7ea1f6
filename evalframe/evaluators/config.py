"""Evaluators from configuration: dicts, and YAML or JSON files of them.

The form is that of guided-decoding tasks: {"task_type": "auto_evaluation.guided_decoding",
"alias": ..., "configuration": {"model", "prompt", "choices" | "response_format", ...}}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evalframe.core.errors import EvalframeError, listed, nearest
from evalframe.core.optional import optional
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.judge import LLMJudge
from evalframe.llm.model import Model

GUIDED_DECODING = "auto_evaluation.guided_decoding"
TASK_KEYS = ("task_type", "alias", "configuration")

# Key of a configuration -> parameter of LLMJudge.
_PARAMETERS = {
    "system_prompt": "system_prompt",
    "prompt": "prompt",
    "choices": "choices",
    "response_format": "response_format",
    "inference_args": "inference_args",
    "explanation": "explanation",
    "fields": "fields",
    "run_if": "run_if",
    "confidence": "confidence",
    "invalid_retries": "invalid_retries",
    "threshold": "threshold",
    "direction": "direction",
    "score_range": "score_range",
    "version": "version",
}
_MODEL_KEYS = tuple(name for name in Model.__dataclass_fields__ if name != "name")
_DEFAULTS = {
    "explanation": True,
    "confidence": False,
    "invalid_retries": 1,
    "direction": "maximize",
}


class ConfigError(EvalframeError, ValueError):
    """A configuration that cannot be used; names the key.

    Examples:
        >>> import evalframe as ef
        >>> ef.load_experiment({"data": [], "task": []})
        Traceback (most recent call last):
        ...
        evalframe.evaluators.config.ConfigError: The experiment has the unknown key 'task'; ...
    """


def from_config(config: Mapping[str, Any]) -> Evaluator:
    """The evaluator that a task's dict describes.

    Args:
        config: The dict; its `configuration` may also hold `base_url` and the other options
            of `ef.Model`.

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
    _only(config, TASK_KEYS, "a task")
    if kind != GUIDED_DECODING:
        message = f"task_type {kind!r} is not known; known is {GUIDED_DECODING!r}."
        raise ConfigError(message)
    inner = config.get("configuration")
    if not isinstance(inner, Mapping):
        message = f"configuration must be an object, not {inner!r}."
        raise ConfigError(message)
    name = config.get("alias", "auto_evaluation_guided_decoding")
    _only(inner, (*_PARAMETERS, "model", *_MODEL_KEYS), f"the configuration of {name!r}")
    missing = [key for key in ("model", "prompt") if key not in inner]
    if missing:
        message = f"the configuration of {name!r} lacks {listed(missing)}."
        raise ConfigError(message)
    options = {key: inner[key] for key in _MODEL_KEYS if key in inner}
    arguments = {_PARAMETERS[key]: value for key, value in inner.items() if key in _PARAMETERS}
    if isinstance(arguments.get("score_range"), list):
        arguments["score_range"] = tuple(arguments["score_range"])
    try:
        return LLMJudge(name, model=Model(inner["model"], **options), **arguments)
    except (TypeError, ValueError) as exc:
        message = f"the configuration of {name!r}: {exc}"
        raise ConfigError(message) from exc


def to_config(judge: LLMJudge) -> dict[str, Any]:
    """The dict that `from_config` makes the judge of again.

    Raises:
        ConfigError: It holds a function, or was bound to other columns, which no file can.
    """
    if judge.bindings:
        message = f"{judge.name!r} was changed with .bind(), which no configuration can hold."
        raise ConfigError(message)
    _, given, _ = judge._arguments  # noqa: SLF001 - a judge is made of its arguments
    inner: dict[str, Any] = {"model": judge.model.name}
    for name in _MODEL_KEYS:
        value = getattr(judge.model, name)
        if value != Model.__dataclass_fields__[name].default:
            inner[name] = value
    for key, parameter in _PARAMETERS.items():
        value = given.get(parameter)
        if value is None or value == _DEFAULTS.get(key):
            continue
        if isinstance(value, type) and issubclass(value, BaseModel):
            if _has_validators(value):
                message = (
                    f"{key} of {judge.name!r} has validators, which no configuration can hold."
                )
                raise ConfigError(message)
            value = value.model_json_schema()
        elif callable(value):
            message = f"{key} of {judge.name!r} is a function, which no configuration can hold."
            raise ConfigError(message)
        inner[key] = list(value) if isinstance(value, tuple) else value
    return {"task_type": GUIDED_DECODING, "alias": judge.name, "configuration": inner}


def _has_validators(model: type[BaseModel]) -> bool:
    found = model.__pydantic_decorators__
    kinds = (
        found.validators,
        found.field_validators,
        found.model_validators,
        found.root_validators,
    )
    return any(kinds)


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


def _only(config: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    unknown = [key for key in config if key not in known]
    if unknown:
        near = nearest(unknown[0], known)
        hint = f" Did you mean {near!r}?" if near is not None else ""
        message = (
            f"{what} has the unknown key {listed(unknown)}.{hint} It may have {listed(known)}."
        )
        raise ConfigError(message)
