"""LLM judges from the dict of a guided-decoding task, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from evalframe.core.errors import listed
from evalframe.evaluators.config_keys import ConfigError, alias, check_keys, configuration
from evalframe.evaluators.judge import LLMJudge
from evalframe.llm.model import Model

GUIDED_DECODING = "auto_evaluation.guided_decoding"

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


def judge_from_config(config: Mapping[str, Any]) -> LLMJudge:
    """The judge that a guided-decoding task describes.

    Args:
        config: The dict; its `configuration` may also hold `base_url` and the other options
            of `ef.Model`.

    Raises:
        ConfigError: A key is unknown, missing, or contradicts another.
    """
    inner = configuration(config)
    name = alias(config, "auto_evaluation_guided_decoding")
    check_keys(inner, (*_PARAMETERS, "model", *_MODEL_KEYS), f"the configuration of {name!r}")
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
    """The dict that `judge_from_config` makes the judge of again.

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
