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
from typing import Any

from attention_research import registry
from attention_research.config.errors import ConfigError, offer
from attention_research.config.sections import sections

GROUP = "attention_research.variants"
#: (family, kind) -> the name and version of the distribution that added the kind, such as "mine 1.0".
ADDED: dict[tuple[str, str], str] = {}


@cache
def add_variants() -> None:
    """Adds the variants of other packages to the registry, once per process.

    Raises ConfigError with the name of the distribution if a family does not exist, if a kind exists already with
    another class, or if the class is not named as "module:Class". The other variants are added nevertheless.
    """
    wrong: ConfigError | None = None
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            _add(point)
        except ConfigError as error:
            wrong = wrong or error
    if wrong is not None:
        raise wrong


def _add(point: importlib.metadata.EntryPoint) -> None:
    where = f"the variant {point.name} of the installed package {point.dist.name if point.dist else point.value}"
    family, _, kind = point.name.rpartition(".")
    if family not in registry.FAMILIES:
        raise ConfigError(f"{where}: no family {family!r}; {offer(family, registry.FAMILIES)}")
    if point.value.count(":") != 1:
        raise ConfigError(f"{where}: expected module:Class; got {point.value!r}")
    kinds = registry.FAMILIES[family]
    if kinds.setdefault(kind, point.value) != point.value:
        raise ConfigError(f"{where}: {kind} is a kind of {family} already ({kinds[kind]}); give it another name")
    if point.dist is not None:
        ADDED[family, kind] = f"{point.dist.name} {point.dist.version}"


def origins(config: dict[str, Any]) -> dict[str, str]:
    """ "family.kind" -> distribution and version, for the kinds of a resolved config that other packages added."""
    add_variants()
    used = [(family, kind) for family, kind, _ in sections(config, "experiment")]
    return {f"{family}.{kind}": ADDED[family, kind] for family, kind in used if (family, kind) in ADDED}


def check_installed(origins: dict[str, str], run: str) -> None:
    """Raises ConfigError if a kind that `origins` recorded for a run is missing, with the name of its package."""
    add_variants()
    for name, package in origins.items():
        family, _, kind = name.rpartition(".")
        if kind not in registry.FAMILIES.get(family, {}):
            distribution, _, version = package.rpartition(" ")
            raise ConfigError(
                f"{run}: the kind {kind} of {family} came from version {version} of the package {distribution}, "
                f"{_installed(distribution)}"
            )


def _installed(distribution: str) -> str:
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return f"which is not installed; install it (pip install {distribution}, or its folder)"
    return f"but version {version}, which is installed, does not have it"
