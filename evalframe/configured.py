"""load_experiment: a whole run from configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from evalframe.core.errors import listed
from evalframe.evaluators.config import from_config, read_config
from evalframe.evaluators.config_keys import ConfigError
from evalframe.experiment import run_experiment

_KEYS = ("name", "data", "tasks")


def load_experiment(config: Mapping[str, Any] | str | os.PathLike[str]) -> pd.DataFrame:
    """Run what a configuration describes: {"name", "data", "tasks"}.

    Args:
        config: The dict, or a YAML or JSON file of it. `data` is a list of rows, or a path;
            `tasks` is a list of guided-decoding and metric tasks.

    Returns:
        The scored frame, as `run_experiment` gives it.

    Raises:
        ConfigError: A key is unknown, missing, or contradicts another.
        ExperimentError: What it describes cannot run.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, label
        >>> with ChatServer(label("Yes", explanation="It is.")) as server:
        ...     judge = {"model": "local/judge", "base_url": server.base_url}
        ...     judge |= {"prompt": "Right? {{item.output}}", "choices": ["Yes", "No"]}
        ...     task = {"task_type": "auto_evaluation.guided_decoding", "alias": "right"}
        ...     config = {"name": "Example", "data": [{"output": "4"}]}
        ...     config["tasks"] = [{**task, "configuration": judge}]
        ...     scored = ef.load_experiment(config)
        >>> scored["eval.right.label"][0]
        'Yes'
    """
    found = config if isinstance(config, Mapping) else read_config(config)
    if not isinstance(found, Mapping):
        message = f"An experiment is an object with {listed(_KEYS)}, not {type(found).__name__}."
        raise ConfigError(message)
    unknown = [key for key in found if key not in _KEYS]
    missing = [key for key in ("data", "tasks") if key not in found]
    if unknown or missing:
        wrong = f"has the unknown key {listed(unknown)}" if unknown else f"lacks {listed(missing)}"
        message = f"The experiment {wrong}; it may have {listed(_KEYS)}."
        raise ConfigError(message)
    tasks = found["tasks"]
    if not isinstance(tasks, (list, tuple)) or not all(isinstance(t, Mapping) for t in tasks):
        message = "tasks must be a list of guided-decoding or metric tasks."
        raise ConfigError(message)
    evaluators = [from_config(task) for task in tasks]
    return run_experiment(found["data"], evaluators=evaluators, experiment_name=found.get("name"))
