"""The commands that a run supports, which depend on its model. Other commands raise an error that says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_research import registry
from attention_research.errors import ConfigError

#: Commands that every run supports.
EVERY = ("evaluate", "export", "report", "compare", "status")
#: Methods of a model's class -> (what it does, commands that it supports besides `EVERY`). The first match counts.
ABILITIES: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    ("encode", "start", "step"): ("writes a text of a source", ("generate", "analyze")),
    ("start", "step"): ("continues a text", ("generate", "analyze")),
    ("log_probabilities",): ("gives classes", ()),
    ("log_likelihood",): ("fills in hidden tokens", ("analyze",)),
    ("read",): ("gives ratings with rationales", ()),
}
#: Command -> what it needs from a model.
NEEDS = {
    "generate": "a decoder that writes text",
    "analyze": "the likelihood of a text, in whose pass attention is looked at",
}


def ability(config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(what the model of a resolved config does, all commands that it supports)."""
    model = registry.lookup("model", config["model"]["kind"])
    for methods, (does, commands) in ABILITIES.items():
        if all(callable(getattr(model, name, None)) for name in methods):
            return does, (*commands, *EVERY)
    raise ConfigError(f"model.kind={config['model']['kind']}: has none of {', '.join(map(' and '.join, ABILITIES))}")


def check(config: Mapping[str, Any], command: str) -> None:
    """Raises ConfigError if the model of a resolved config does not support the command."""
    if command not in ability(config)[1]:
        raise lacking(config, command, NEEDS[command])


def lacking(config: Mapping[str, Any], command: str, part: str) -> ConfigError:
    """The error that says what the model does, what the command needs, and which commands the model supports."""
    does, commands = ability(config)
    others = ", ".join(one for one in commands if one != command)
    model = config["model"]["kind"]
    return ConfigError(f"{command}: this run's model, {model}, {does} and lacks {part}; what fits it: {others}")
