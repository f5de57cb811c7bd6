"""The identity of a trial: a hash of the settings of its config, without those that resolution fills in.

The hash covers `VERSION` and the resolved config. It leaves out `EXECUTION_LEAVES`, and every setting whose value is
the one that `resolution` would fill in: the default of its constructor's signature, or an inherited value.

The rule for changing a signature: the default of a new setting must mean the old behaviour. Then the identity of
recorded trials does not change. If a default changes, or a kind computes something else with the same settings, old and
new trials would have the same identity. In this case, increase `VERSION` and re-key the records (`studies.rekeying`). A
test knows all defaults and fails if one of them changes without a new version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from attention_research import registry
from attention_research.config import schema
from attention_research.config.annotations import Section
from attention_research.config.scope import FLOWS, ROOT

VERSION = 1
#: Leaves and sections that determine how a trial is run: the placement of arrays, the number of trials in one run, and
#: the files of the run's folder. They are not part of the identity, except for `CHECKPOINTS` where they are averaged.
EXECUTION_LEAVES = (
    "parallel",
    "training.replicas",
    "training.varied",
    "training.log_every",
    "training.checkpoint_every",
    "training.keep",
    "training.keep_best",
    "training.track",
)
CHECKPOINTS = "training.checkpoint_every"
#: The value of a setting that resolution cannot fill in.
_NOTHING: Any = object()


def identity(resolved: dict[str, Any]) -> str:
    """The identity of a resolved config, as 12 hexadecimal digits."""
    rest = json.loads(json.dumps(resolved))  # a copy, five times as fast as deepcopy
    scored = (resolved.get("evaluation", {}), *resolved.get("evaluations", {}).values())
    averaged = any(section.get("average", 1) > 1 for section in scored)
    for path in EXECUTION_LEAVES:
        if averaged and path == CHECKPOINTS:
            continue
        *sections, leaf = path.split(".")
        node = rest
        for name in sections:
            node = node.get(name, {})
        node.pop(leaf, None)
    return digest({"version": VERSION, "config": without_defaults(rest)})


def without_defaults(resolved: dict[str, Any]) -> dict[str, Any]:
    """The settings of a resolved config that resolution would not fill in.

    Resolving them gives the config again, except where an inner section has the default of its signature and an outer
    section of the same kind, from which resolution would inherit, has another value. Different configs keep different
    settings.

    A section keeps its ``kind`` or is left out completely. Kinds and settings that are unknown to this version of the
    code stay unchanged.
    """
    return _Place(ROOT[1], resolved).rest()


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal as JSON. As in the hash, 1 differs from true and from 1.0.

    >>> same(1, 1), same(1, 1.0), same(1, True)
    (True, False, False)
    """
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def digest(value: Any) -> str:
    """12 hexadecimal digits of the SHA-256 of the canonical JSON of a value.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Place:
    """A section (resolved, or the default of a signature) and its enclosing section."""

    def __init__(self, family: str, section: dict[str, Any], above: _Place | None = None):
        self.section, self.above = section, above
        kind = section.get("kind")
        self.settings = schema.signature(family, kind) if kind in registry.FAMILIES[family] else {}
        self._said: dict[str, Any] = {}

    def rest(self) -> dict[str, Any]:
        """The section without the settings that resolution fills in."""
        return {name: self.said(name) for name in self.section if not self._is_default(name)}

    def said(self, name: str) -> Any:
        """The value of a setting. For a section, this is its `rest`."""
        if name not in self._said:
            there = name in self.section
            self._said[name] = self._bare(name, self.section[name]) if there else self._filled_in(name)
        return self._said[name]

    def _is_default(self, name: str) -> bool:
        filled_in = self._filled_in(name)
        return filled_in is not _NOTHING and same(self.said(name), filled_in)

    def _bare(self, name: str, value: Any) -> Any:
        setting = self.settings.get(name)
        if setting is None or setting.section is None:
            return value
        if setting.named and isinstance(value, dict):
            return {key: _Place(setting.family, section, self).rest() for key, section in value.items()}
        return _each(lambda section: _Place(setting.family, section, self).rest(), value)

    def _filled_in(self, name: str) -> Any:
        """The value that `said` would return if the config did not give the setting."""
        setting = self.settings.get(name)
        if setting is None:
            return _NOTHING
        if setting.default is not schema.REQUIRED:
            return self._bare(name, setting.default)
        if setting.section is not None:
            return self._inherited_section(setting, setting.section)
        above = self.above
        while name in FLOWS and above is not None:
            if name in above.settings and above.settings[name].section is None:
                return above.said(name)
            above = above.above
        return _NOTHING

    def _inherited_section(self, setting: schema.Setting, section: Section) -> Any:
        kinds = registry.FAMILIES[section.family]
        first = {"kind": next(iter(kinds))}
        above = self.above
        while above is not None:
            for name in filter(None, (setting.name, section.other)):
                there = above.settings.get(name)
                if there is not None and there.section is not None and there.many == setting.many:
                    said = _each(lambda one: one if one.get("kind") in kinds else first, above.said(name))
                    return first if said is None and not setting.optional else said
            above = above.above
        return _NOTHING if setting.many else None if setting.optional else first


def _each(function: Callable[[dict[str, Any]], Any], value: Any) -> Any:
    """Applies a function to a section, or to each section in a list. The name of a kind is also a section. Other values
    are unchanged."""
    if isinstance(value, list):
        return [_each(function, item) for item in value]
    value = {"kind": value} if isinstance(value, str) else value
    return function(value) if isinstance(value, dict) else value
