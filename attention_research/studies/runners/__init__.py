"""Where trials run: kind -> "module:Class", looked up when asked for."""

from __future__ import annotations

import importlib
from typing import Any

from attention_research.errors import ConfigError

RUNNERS = {"local": "attention_research.studies.runners.local:LocalRunner"}


def runner(kind: str, **settings: Any) -> Any:
    """The runner of that kind; an unknown one is a `ConfigError` that names those there are."""
    if kind not in RUNNERS:
        raise ConfigError(f"runner {kind!r}: no such runner here; there are: {', '.join(RUNNERS)}")
    module, name = RUNNERS[kind].split(":")
    return getattr(importlib.import_module(module), name)(**settings)
