"""From resolved sections to constructors: here the classes, and with them JAX, are imported."""

from __future__ import annotations

from typing import Any

from attention_research import registry
from attention_research.config import schema
from attention_research.config.annotations import Annotation, Optional, Tuple
from attention_research.config.errors import ConfigError, offer
from attention_research.config.record import Config


def build(section: dict[str, Any], family: str, path: str = "config") -> registry.Constructor:
    """The constructor of a resolved section; child sections are constructors in its settings, lists are tuples.

    Raises `ConfigError` where the section is not one that this code resolved (a saved config of another version).
    """
    kind = section["kind"] if "kind" in section else None
    if kind not in registry.FAMILIES[family]:
        raise ConfigError(f"{path}.kind: no kind {kind!r} of {family}; {offer(str(kind), registry.FAMILIES[family])}")
    settings = schema.signature(family, kind)
    other = [name for name in section if name not in settings and name != "kind"]
    missing = [name for name, setting in settings.items() if name not in section]
    if other or missing:
        what = f"{other[0]}: no such setting of {kind}" if other else f"{missing[0]}: missing; {kind} needs it"
        raise ConfigError(f"{path}.{what}; was the config resolved by another version?")
    built = {name: _built(setting, section[name], f"{path}.{name}") for name, setting in settings.items()}
    return registry.Constructor(registry.lookup(family, kind), built)


def build_experiment(config: Config) -> Any:
    """An `Experiment` whose attributes are the constructors of the sections (``.model(rngs=...)``) and the scalars."""
    return build(config.resolved, "experiment")()


def _built(setting: schema.Setting, value: Any, path: str) -> Any:
    if setting.section is None or value is None:
        return _pythonic(setting.annotation, value)
    if setting.many:
        return tuple(build(item, setting.section.family, f"{path}.{i}") for i, item in enumerate(value))
    return build(value, setting.section.family, path)


def _pythonic(annotation: Annotation, value: Any) -> Any:
    if isinstance(annotation, Optional) and value is not None:
        return _pythonic(annotation.inner, value)
    if isinstance(annotation, Tuple):
        items = annotation.items * len(value) if annotation.repeated else annotation.items
        return tuple(_pythonic(item, element) for item, element in zip(items, value, strict=True))
    return value
