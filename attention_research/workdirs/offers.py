"""The commands that a run supports. They depend on its model and data. Other commands raise an error that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attention_research import registry
from attention_research.config.given import no_kind
from attention_research.data.protocol import ReadsText
from attention_research.errors import ConfigError
from attention_research.models.protocol import Classifies, Continues, Generates, MapsSeries, Rates, ScoresTokens

#: Commands that every run supports.
EVERY = ("evaluate", "export", "report", "compare", "status")
#: Protocol of a model's class -> (what it does, commands that it supports besides `EVERY`). The first match counts.
ABILITIES: dict[type, tuple[str, tuple[str, ...]]] = {
    Generates: ("generates a text from a source", ("generate", "analyze")),
    Continues: ("continues a text", ("generate", "analyze")),
    Classifies: ("predicts classes", ()),
    ScoresTokens: ("predicts masked tokens", ("analyze",)),
    Rates: ("predicts ratings and selects rationales", ()),
    MapsSeries: ("maps series of numbers", ()),
}
#: Command -> what it needs from a model.
NEEDS = {
    "generate": "a decoder that generates text",
    "analyze": "the likelihood of a text, which is computed to read the attention weights",
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
    """Raises ConfigError if the model or the data of a resolved config do not support the command."""
    if command not in ability(config)[1]:
        raise lacking(config, command, NEEDS[command])
    if command == "generate" and not takes_input(config):
        kind, others = config["data"]["kind"], _others(config, command)
        raise ConfigError(
            f"generate: this run's data, {kind}, have no text, so that new text cannot be encoded; {others}"
        )


def takes_input(config: Mapping[str, Any]) -> bool:
    """Whether `generate` can encode the user's input: an image for a captioner, else a text."""
    data: Any = registry.lookup("data", config["data"]["kind"])
    return config["task"]["kind"] == "captioning" or issubclass(data, ReadsText)


def lacking(config: Mapping[str, Any], command: str, part: str) -> ConfigError:
    """The error that says what the model does, what the command needs, and which commands the run supports."""
    does, _ = ability(config)
    model = config["model"]["kind"]
    return ConfigError(f"{command}: this run's model, {model}, {does} and lacks {part}; {_others(config, command)}")


def no_analysis(config: Mapping[str, Any], left_out: Mapping[str, Sequence[str]]) -> ConfigError:
    """The error of `analyze` for a run that none of the requested analyses fits. `left_out` has the reasons."""
    names: dict[str, list[str]] = {}
    for name, reasons in left_out.items():
        names.setdefault(" and ".join(reasons), []).append(name)
    said = "; ".join(f"no {', '.join(those)}: {reason}" for reason, those in names.items())
    return ConfigError(f"analyze: {said}; {_others(config, 'analyze')}")


def _others(config: Mapping[str, Any], command: str) -> str:
    """The commands that the run supports, apart from this one."""
    others = [one for one in ability(config)[1] if one != command and (one != "generate" or takes_input(config))]
    return f"commands that fit it: {', '.join(others)}"
