"""Registers variants of other packages: kinds that installed distributions add to the registry.

A distribution lists its classes in its pyproject.toml, with the family and the name of each kind:

    [project.entry-points."attention_research.variants"]
    "encoder_attention.mine" = "my_package.attention:MyAttention"
    "causal_attention.mine" = "my_package.attention:MyAttention"

The class is treated like a class of this package: its signature is its schema.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache

from attention_research import registry
from attention_research.config.errors import ConfigError, offer

GROUP = "attention_research.variants"


@cache
def add_variants() -> None:
    """Adds the variants of other packages to the registry, once per process.

    Raises ConfigError with the name of the distribution if a family does not exist, or if a kind exists already with
    another class.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        where = f"the variant {point.name} of the installed package {point.dist.name if point.dist else point.value}"
        family, _, kind = point.name.rpartition(".")
        if family not in registry.FAMILIES:
            raise ConfigError(f"{where}: no family {family!r}; {offer(family, registry.FAMILIES)}")
        kinds = registry.FAMILIES[family]
        if kinds.setdefault(kind, point.value) != point.value:
            raise ConfigError(f"{where}: {kind} is a kind of {family} already ({kinds[kind]}); give it another name")
