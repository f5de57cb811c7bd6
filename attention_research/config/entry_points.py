"""Variants of other packages: kinds that an installed distribution names, beside those of the registry.

A distribution says in its pyproject.toml which kind of which family is which class of its own:

    [project.entry-points."attention_research.variants"]
    "encoder_attention.mine" = "my_package.attention:MyAttention"
    "causal_attention.mine" = "my_package.attention:MyAttention"

The class is read and built as one of the package's own is: its signature is its schema.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache

from attention_research import registry
from attention_research.config.errors import ConfigError, offer

GROUP = "attention_research.variants"


@cache
def add_variants() -> None:
    """Enters them into the registry, once a process.

    Raises ConfigError, one line with the distribution's name, for a family that there is not and for a kind that is
    there already with another class.
    """
    for point in importlib.metadata.entry_points(group=GROUP):
        where = f"the variant {point.name} of the installed package {point.dist.name if point.dist else point.value}"
        family, _, kind = point.name.rpartition(".")
        if family not in registry.FAMILIES:
            raise ConfigError(f"{where}: no family {family!r}; {offer(family, registry.FAMILIES)}")
        kinds = registry.FAMILIES[family]
        if kinds.setdefault(kind, point.value) != point.value:
            raise ConfigError(f"{where}: {kind} is a kind of {family} already ({kinds[kind]}); give it another name")
