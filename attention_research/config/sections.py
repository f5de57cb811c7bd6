"""Walks the sections of a config, with the family and the kind of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attention_research import registry
from attention_research.config import schema


def sections(section: Any, family: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(family, kind, section) of a section and of all sections inside it, given or resolved.

    A section without ``kind`` has the first kind of its family, and a name alone is a section of this kind. Unknown
    kinds and settings are left out.

    >>> [(family, kind) for family, kind, _ in sections({"kind": "sgd"}, "optimizer")]
    [('optimizer', 'sgd')]
    """
    if isinstance(section, list):
        for one in section:
            yield from sections(one, family)
    section = {"kind": section} if isinstance(section, str) else section
    if not isinstance(section, dict):
        return
    kind = section.get("kind") or next(iter(registry.FAMILIES[family]))
    if kind not in registry.FAMILIES[family]:
        return
    yield family, kind, section
    settings = schema.signature(family, kind)
    for name, value in section.items():
        setting = settings.get(name)
        if setting is not None and setting.section is not None:
            for one in value.values() if setting.named and isinstance(value, dict) else [value]:
                yield from sections(one, setting.family)
