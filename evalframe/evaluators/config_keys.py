"""What the tasks of a configuration have in common: their keys, and the error that names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.core.errors import EvalframeError, listed, nearest

TASK_KEYS = ("task_type", "alias", "configuration")


class ConfigError(EvalframeError, ValueError):
    """A configuration that cannot be used; names the key.

    Examples:
        >>> import evalframe as ef
        >>> ef.load_experiment({"data": [], "task": []})
        Traceback (most recent call last):
        ...
        evalframe.evaluators.config_keys.ConfigError: The experiment has the unknown key 'task'; ...
    """


def configuration(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inner part of a task.

    Raises:
        ConfigError: It is no object.
    """
    inner = config.get("configuration")
    if not isinstance(inner, Mapping):
        message = f"configuration must be an object, not {inner!r}."
        raise ConfigError(message)
    return inner


def alias(config: Mapping[str, Any], default: str) -> str:
    """The name of a task's columns.

    Raises:
        ConfigError: It is no text: in YAML, `no` is a bool.
    """
    found = config.get("alias", default)
    if not isinstance(found, str) or not found:
        message = f"alias must be text, not {found!r} (in YAML, quote 'yes' and 'no')."
        raise ConfigError(message)
    return found


def check_keys(config: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """See that every key is known.

    Raises:
        ConfigError: One is not; names it, and what it may have been.
    """
    unknown = [key for key in config if key not in known]
    if unknown:
        near = nearest(unknown[0], known)
        hint = f" Did you mean {near!r}?" if near is not None else ""
        message = (
            f"{what} has the unknown key {listed(unknown)}.{hint} It may have {listed(known)}."
        )
        raise ConfigError(message)
