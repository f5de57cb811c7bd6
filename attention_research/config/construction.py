"""Builds constructors from resolved sections. This module imports the classes, and with them JAX."""

from __future__ import annotations

from typing import Any

from attention_research import registry
from attention_research.config import entry_points, given, resolution, schema
from attention_research.config.annotations import Annotation, Optional, Tuple
from attention_research.config.errors import ConfigError
from attention_research.config.record import Config
from attention_research.config.values import plain
from attention_research.signatures import Constructor


def build(section: dict[str, Any], family: str, path: str | None = None) -> Constructor:
    """The constructor of a resolved section. Its child sections become constructors, and lists become tuples.

    `path` is the section's path in the config; by default it is that of the section with the name of the family.
    Raises `ConfigError` if the section was resolved by another version of the code, as in an old saved config.
    """
    path = path or ("config" if family == "experiment" else f"config.{family}")
    kind = section["kind"] if "kind" in section else None
    if kind not in registry.FAMILIES[family]:
        raise ConfigError(f"{path}.kind: {given.no_kind(str(kind), family)}")
    settings = schema.signature(family, kind)
    other = [name for name in section if name not in settings and name != "kind"]
    missing = [name for name, setting in settings.items() if name not in section]
    if other or missing:
        what = f"{other[0]}: no such setting of {kind}" if other else f"{missing[0]}: missing; {kind} needs it"
        raise ConfigError(f"{path}.{what}; was the config resolved by another version?")
    built = {name: _built(setting, section[name], f"{path}.{name}") for name, setting in settings.items()}
    return Constructor(registry.lookup(family, kind), built, path)


def build_experiment(config: Config) -> Any:
    """An `Experiment` whose attributes are the constructors of the sections, such as ``.model(rngs=...)``, and the
    scalar settings."""
    return build(config.resolved, "experiment")()


def build_model(
    section: dict[str, Any],
    *,
    max_length: int | None = None,
    vocabulary_size: int | None = None,
    side: int | None = None,
    channels: int | None = None,
) -> Constructor:
    """The constructor of a model from its section alone: the dict of `kind` and settings under `model` in a config.

    Defaults and inherited settings are filled in as in a config. A model that inherits a setting from the root of a
    config needs it as an argument: `max_length` and `vocabulary_size` for text, `side` and `channels` for images. Call
    the constructor with `rngs=nnx.Rngs(...)`, under `jax.jit`. Raises `ConfigError`, one line, if the section is wrong
    or a setting is missing.

    >>> import jax
    >>> from flax import nnx
    >>> section = {"kind": "transformer", "width": 8, "num_heads": 2, "num_layers": 1}
    >>> section["feed_forward"] = {"kind": "dense", "hidden_width": 16}
    >>> make = build_model(section, max_length=16, vocabulary_size=100)
    >>> model = jax.eval_shape(lambda: make(rngs=nnx.Rngs(0)))  # shapes only
    >>> type(model).__name__
    'Transformer'
    """
    entry_points.add_variants()
    root = {"max_length": max_length, "vocabulary_size": vocabulary_size, "side": side, "channels": channels}
    around = {name: value for name, value in root.items() if value is not None}
    return build(resolution.resolved_section(plain(section), "model", around), "model", "model")


def _built(setting: schema.Setting, value: Any, path: str) -> Any:
    if setting.section is None or value is None:
        return _pythonic(setting.annotation, value)
    if setting.named:
        return {name: build(item, setting.section.family, f"{path}.{name}") for name, item in value.items()}
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
