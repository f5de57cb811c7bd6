"""Runners of trials: kind -> "module:Class". A class is imported only when it is used."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from attention_research.config.errors import ConfigError, offer

RUNNERS = {
    "local": "attention_research.studies.runners.local:LocalExecutor",
    "ray": "attention_research.studies.runners.ray_cluster:RayExecutor",
    "slurm": "attention_research.studies.runners.slurm:SlurmExecutor",
}


def find_executor(kind: str, **settings: Any) -> Any:
    """The executor of a kind, with these settings (None: not given).

    Raises ConfigError for an unknown kind, and for a setting that the kind does not have.
    """
    if kind not in RUNNERS:
        raise ConfigError(f"--runner={kind}: no such runner; {offer(kind, RUNNERS)}")
    module, name = RUNNERS[kind].split(":")
    make = getattr(importlib.import_module(module), name)
    known = [*inspect.signature(make).parameters]
    given = {setting: value for setting, value in settings.items() if value is not None}
    for setting in given:
        if setting not in known:
            raise ConfigError(f"--{setting}: the runner {kind} has no such setting; it has {', '.join(known)}")
    return make(**given)
