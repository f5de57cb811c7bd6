"""A resolved config: what is saved, printed, hashed and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from attention_research.config import identity, resolution
from attention_research.config.annotations import plain, spell
from attention_research.config.entry_points import add_variants
from attention_research.config.errors import ConfigError
from attention_research.config.overrides import Override, overridden

_ABSENT = "(absent)"


@dataclass(frozen=True)
class Config:
    """``given`` (what was said) and ``resolved`` (what it means), both of JSON's dicts, lists and scalars.

    Two configs are equal when they resolve to the same; ``spec`` is the file and variant that it came from.
    """

    given: dict[str, Any] = field(compare=False)
    resolved: dict[str, Any]
    spec: str = field(default="", compare=False)

    @cached_property
    def hash(self) -> str:
        """12 hexadecimal digits of SHA-256 over the resolved config's canonical JSON."""
        return identity.digest(self.resolved)

    @cached_property
    def identity(self) -> str:
        """12 digits of what a trial is, however it is run (`config.identity`)."""
        return identity.identity(self.resolved)

    def __hash__(self) -> int:
        return int(self.hash, 16)

    def __str__(self) -> str:
        """One line a leaf, as it would be set on the command line."""
        return "\n".join(f"{path}={spell(value)}" for path, value in flat(self.resolved).items())

    def override(self, overrides: Iterable[Override]) -> Config:
        """This config with more overrides, resolved anew from what was given."""
        return resolve(self.given, overrides, spec=self.spec)

    def to_json(self) -> str:
        """The text of ``config.json``."""
        record = {"spec": self.spec, "hash": self.hash, "given": self.given, "resolved": self.resolved}
        return json.dumps(record, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The config that was saved, as it was: nothing is resolved again."""
        add_variants()
        try:
            record = json.loads(text)
            return cls(given=record["given"], resolved=record["resolved"], spec=record["spec"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"config.json: not a saved config ({type(error).__name__}: {error})") from None

    def completed(self) -> Config:
        """A saved config with the settings that were added later, at their defaults, which mean the old behaviour
        (`config.identity`). A config with settings that this version does not know is returned unchanged."""
        try:
            return replace(self, resolved=resolution.resolved(plain(self.resolved)))
        except ConfigError:
            return self


def resolve(given: dict[str, Any], overrides: Iterable[Override] = (), *, spec: str = "") -> Config:
    """The config of a nested dict with overrides set. Raises `ConfigError`, one line with the key's full path."""
    add_variants()
    given = overridden(plain(given), overrides)
    return Config(given=given, resolved=resolution.resolved(given), spec=spec)


def difference(old: Config | dict[str, Any], new: Config | dict[str, Any]) -> list[str]:
    """``path: old -> new``, a line a leaf that differs, in the old one's order."""
    before, after = (flat(c.resolved if isinstance(c, Config) else c) for c in (old, new))
    spelled = lambda leaves, path: spell(leaves[path]) if path in leaves else _ABSENT
    return [
        f"{path}: {spelled(before, path)} -> {spelled(after, path)}"
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or not identity.same(before[path], after[path])
    ]


def changes(old: Config, new: Config) -> list[str]:
    """`difference`, less the settings that came after the old config was saved and have their default in the new one:
    that default means what was done before (`config.identity`)."""
    return difference(_with_newer(old.resolved, new.resolved, identity.without_defaults(new.resolved)), new)


def _with_newer(old: Any, new: Any, said: Any) -> Any:
    """The old section with the settings of the new one that it lacks and that were not `said`."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        said = said if isinstance(said, list) else [{}] * len(new)
        return [_with_newer(*items) for items in zip(old, new, said, strict=True)]
    if not (isinstance(old, dict) and isinstance(new, dict) and old.get("kind") == new.get("kind")):
        return old
    newer = {name: value for name, value in new.items() if name not in old and name not in said}
    return {name: _with_newer(old[name], new.get(name), said.get(name, {})) for name in old} | newer


def flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Path -> leaf; items of a tuple of sections under their number."""
    leaves: dict[str, Any] = {}
    for key, value in section.items():
        path = f"{prefix}{key}"
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        leaves |= flat(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return leaves
