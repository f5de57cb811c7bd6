"""Which commands a run offers, by what its model can do; the others are refused in one line that says what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_research import registry
from attention_research.errors import ConfigError

#: Commands that any run offers.
EVERY = ("evaluate", "export", "report", "compare", "status")
#: What a model's class has -> (what it does, commands that it offers beside `EVERY`). The first that fits counts.
ABILITIES: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    ("encode", "start", "step"): ("writes a text of a source", ("generate", "analyze")),
    ("start", "step"): ("continues a text", ("generate", "analyze")),
    ("log_probabilities",): ("gives classes", ()),
    ("log_likelihood",): ("fills in hidden tokens", ("analyze",)),
    ("read",): ("gives ratings with rationales", ()),
}
#: Command -> what it needs of a model.
NEEDS = {
    "generate": "a decoder that writes text",
    "analyze": "the likelihood of a text, in whose pass attention is looked at",
}


def ability(config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(what the model of a resolved config does, all commands that it offers)."""
    model = registry.lookup("model", config["model"]["kind"])
    for methods, (does, commands) in ABILITIES.items():
        if all(callable(getattr(model, name, None)) for name in methods):
            return does, (*commands, *EVERY)
    raise ConfigError(f"model.kind={config['model']['kind']}: has none of {', '.join(map(' and '.join, ABILITIES))}")


def check(config: Mapping[str, Any], command: str) -> None:
    """Raises ConfigError where the model of this run lacks what the command needs."""
    if command not in ability(config)[1]:
        raise lacking(config, command, NEEDS[command])


def lacking(config: Mapping[str, Any], command: str, part: str) -> ConfigError:
    """The line that says what the model does, which part it lacks for the command, and which commands fit it."""
    does, commands = ability(config)
    others = ", ".join(one for one in commands if one != command)
    model = config["model"]["kind"]
    return ConfigError(f"{command}: this run's model, {model}, {does} and lacks {part}; what fits it: {others}")
