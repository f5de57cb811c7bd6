"""The commands that a run supports, which depend on its model. Other commands raise an error that says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention_research import registry
from attention_research.config.resolution import no_kind
from attention_research.errors import ConfigError
from attention_research.models.protocol import Classifies, Continues, Generates, MapsSeries, Rates, ScoresTokens

#: Commands that every run supports.
EVERY = ("evaluate", "export", "report", "compare", "status")
#: Protocol of a model's class -> (what it does, commands that it supports besides `EVERY`). The first match counts.
ABILITIES: dict[type, tuple[str, tuple[str, ...]]] = {
    Generates: ("writes a text of a source", ("generate", "analyze")),
    Continues: ("continues a text", ("generate", "analyze")),
    Classifies: ("gives classes", ()),
    ScoresTokens: ("fills in hidden tokens", ("analyze",)),
    Rates: ("gives ratings with rationales", ()),
    MapsSeries: ("maps series of numbers", ()),
}
#: Command -> what it needs from a model.
NEEDS = {
    "generate": "a decoder that writes text",
    "analyze": "the likelihood of a text, in whose pass attention is looked at",
}


def ability(config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(what the model of a resolved config does, all commands that it supports). Raises ConfigError for a kind of model
    that this version lacks."""
    kind = config["model"]["kind"]
    if kind not in registry.FAMILIES["model"]:
        raise ConfigError(f"config.model.kind: {no_kind(str(kind), 'model')}")
    model: Any = registry.lookup("model", kind)
    for protocol, (does, commands) in ABILITIES.items():
        if issubclass(model, protocol):
            return does, (*commands, *EVERY)
    what = ", ".join(protocol.__name__ for protocol in ABILITIES)
    raise ConfigError(f"model.kind={kind}: is none of {what} (attention_research.models.protocol)")


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
