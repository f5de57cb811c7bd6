"""What the recorded studies configure: which table uses a class, and the shortest section that builds it."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from typing import Any

from attention_research import registry
from attention_research.config import FLOWS, REQUIRED, schema
from attention_research.config.sections import sections
from attention_research.studies import records

from .modules import ROOT

#: A recorded section with more characters is not shown.
LONGEST = 160


@cache
def _kinds() -> dict[str, list[tuple[str, str]]]:
    found = defaultdict(list)
    for family, named in registry.FAMILIES.items():
        for kind in named:
            found[".".join(registry.locate(family, kind))].append((family, kind))
    return dict(found)


def kinds(name: str) -> list[tuple[str, str]]:
    """The (family, kind) of a config that build a class, for the first of its families, which explains it."""
    found = _kinds().get(name, [])
    return [one for one in found if one[0] == found[0][0]]


@cache
def _recorded() -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
    """Full name of a class -> the recorded tables that use it; and -> the shortest section that names its kind."""
    tables, shortest = defaultdict(list), {}
    for folder in records.recorded(ROOT / "experiments"):
        table = f"{folder.parents[2].name}/{folder.parent.name}/{folder.name}"
        configs = (trial.get("given") or {} for trial in records.read(folder).values())
        for family, kind, section in (found for config in configs for found in sections(config, "experiment")):
            name = ".".join(registry.locate(family, kind))
            if table not in tables[name]:
                tables[name].append(table)
            if "kind" in section and len(str(section)) < len(str(shortest.get(name, section))) + 1:
                shortest[name] = section
    return dict(tables), shortest


def tables() -> dict[str, list[str]]:
    """Full name of a class -> the recorded tables with a trial whose config names it: "paper/table/scale"."""
    return _recorded()[0]


def example(name: str) -> str | None:
    """A section of a config that builds a class: from a recorded study, else the settings that it needs.

    >>> example("attention_research.layers.norms.rms_norm.RMSNorm")
    '{"kind": "rms_norm"}'
    """
    if not kinds(name):
        return None
    family, kind = kinds(name)[0]
    needed = {
        key: "..."
        for key, setting in schema.signature(family, kind).items()
        if setting.default is REQUIRED and key not in FLOWS and setting.section is None
    }
    section = {"kind": kind, **needed, **_recorded()[1].get(name, {})}
    if len(json.dumps(section)) > LONGEST:
        section = {"kind": kind, **needed}
    return json.dumps(section).replace('"..."', "...")
