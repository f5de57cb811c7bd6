"""Where trials run: kind -> "module:Class", looked up when asked for."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from attention_research.errors import ConfigError

RUNNERS = {
    "local": "attention_research.studies.runners.local:LocalCrew",
    "ray": "attention_research.studies.runners.ray_cluster:RayCrew",
    "slurm": "attention_research.studies.runners.slurm:SlurmCrew",
}


def find_crew(kind: str, **settings: Any) -> Any:
    """The crew of that kind, with the settings that were given (None: not given).

    Raises ConfigError for an unknown kind, naming those there are, and for a setting that the kind has not.
    """
    if kind not in RUNNERS:
        raise ConfigError(f"runner {kind!r}: no such runner here; there are: {', '.join(RUNNERS)}")
    module, name = RUNNERS[kind].split(":")
    make = getattr(importlib.import_module(module), name)
    known = [*inspect.signature(make).parameters]
    given = {setting: value for setting, value in settings.items() if value is not None}
    for setting in given:
        if setting not in known:
            raise ConfigError(f"--{setting}: the runner {kind} has no such setting; it has {', '.join(known)}")
    return make(**given)
