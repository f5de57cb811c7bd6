"""A trial's identity: a hash of the settings that its config gives, without those that resolution fills in.

The hash covers `VERSION` and the resolved config. It leaves out `EXECUTION_LEAVES`, and every setting whose value is
the one that `resolution` would fill in: the default of its constructor's signature, or an inherited value.

The rule for changing a signature: the default of a new setting must mean the old behaviour. Then no recorded trial
changes its identity. A changed default, or a kind that computes something else under its old settings, would give
old trials and new ones the same identity: raise `VERSION`, and re-key the records (`studies.rekeying`). A test has
all defaults, and fails where one changes under the same version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from attention_research import registry
from attention_research.config import schema
from attention_research.config.annotations import Section
from attention_research.config.resolution import FLOWS, ROOT

VERSION = 1
#: Leaves and sections that say how a trial is run: the placement of arrays, the number of trials in one run, and what
#: is written to the run's folder and when. They are no part of the identity.
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
#: The value of a setting that resolution cannot fill in.
_NOTHING: Any = object()


def identity(resolved: dict[str, Any]) -> str:
    """12 hexadecimal digits."""
    rest = json.loads(json.dumps(resolved))  # a copy, in a fifth of deepcopy's time
    for path in EXECUTION_LEAVES:
        *sections, leaf = path.split(".")
        node = rest
        for name in sections:
            node = node.get(name, {})
        node.pop(leaf, None)
    return digest({"version": VERSION, "config": without_defaults(rest)})


def without_defaults(resolved: dict[str, Any]) -> dict[str, Any]:
    """The part of a resolved config from which resolution gives all of it.

    A section keeps its ``kind``, or is left out.
    Kinds and settings of a saved config that this version of the code does not know stay unchanged.
    """
    return _Place(ROOT[1], resolved).rest()


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal in JSON: 1 and true, 1 and 1.0 differ, as in the hash."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def digest(value: Any) -> str:
    """12 hexadecimal digits of SHA-256 over a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Place:
    """A section, resolved or a signature's default, and what encloses it."""

    def __init__(self, family: str, section: dict[str, Any], above: _Place | None = None):
        self.section, self.above = section, above
        kind = section.get("kind")
        self.settings = schema.signature(family, kind) if kind in registry.FAMILIES[family] else {}
        self._said: dict[str, Any] = {}

    def rest(self) -> dict[str, Any]:
        """The section without the settings that resolution fills in."""
        return {name: self.said(name) for name in self.section if not self._is_default(name)}

    def said(self, name: str) -> Any:
        """A setting's value; of sections, their `rest`."""
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
    """Of a section, or of each in a list; a kind's name alone is a section; anything else stays."""
    if isinstance(value, list):
        return [_each(function, item) for item in value]
    value = {"kind": value} if isinstance(value, str) else value
    return function(value) if isinstance(value, dict) else value
