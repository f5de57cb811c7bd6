"""The class `Config`: a resolved config, which can be saved, printed, hashed and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from attention_research.config import identity, resolution
from attention_research.config.entry_points import add_variants
from attention_research.config.errors import ConfigError
from attention_research.config.overrides import Override, overridden
from attention_research.config.values import plain, spell

_ABSENT = "(absent)"


@dataclass(frozen=True)
class Config:
    """A config as it was ``given`` and as it was ``resolved``, both in JSON form.

    Two configs are equal if their ``resolved`` forms are equal. ``spec`` is the file and the variant of the config.
    """

    given: dict[str, Any] = field(compare=False)
    resolved: dict[str, Any]
    spec: str = field(default="", compare=False)

    @cached_property
    def hash(self) -> str:
        """12 hexadecimal digits of the SHA-256 of the canonical JSON of the resolved config."""
        return identity.digest(self.resolved)

    @cached_property
    def identity(self) -> str:
        """The identity of the trial, which does not depend on how it is run (`config.identity`): 12 digits."""
        return identity.identity(self.resolved)

    def __hash__(self) -> int:
        return int(self.hash, 16)

    def __str__(self) -> str:
        """One line for each leaf, in the form of the command line."""
        return "\n".join(f"{path}={spell(value)}" for path, value in flat(self.resolved).items())

    def override(self, overrides: Iterable[Override]) -> Config:
        """A new config with further overrides, resolved again from ``given``."""
        return resolve(self.given, overrides, spec=self.spec)

    def to_json(self) -> str:
        """The text of ``config.json``."""
        record = {"spec": self.spec, "hash": self.hash, "given": self.given, "resolved": self.resolved}
        return json.dumps(record, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Reads a saved config without resolving it again."""
        add_variants()
        try:
            record = json.loads(text)
            return cls(given=record["given"], resolved=record["resolved"], spec=record["spec"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"config.json: not a saved config ({type(error).__name__}: {error})") from None

    def completed(self) -> Config:
        """A saved config completed by settings that were added to the code later.

        They have their defaults, which mean the old behaviour (`config.identity`). A config with settings that are
        unknown to this version is returned unchanged.
        """
        try:
            return replace(self, resolved=resolution.resolved(plain(self.resolved)))
        except ConfigError:
            return self


def resolve(given: dict[str, Any], overrides: Iterable[Override] = (), *, spec: str = "") -> Config:
    """The config of a nested dict with overrides. Raises `ConfigError` with one line and the full path of the key."""
    add_variants()
    given = overridden(plain(given), overrides)
    return Config(given=given, resolved=resolution.resolved(given), spec=spec)


def difference(old: Config | dict[str, Any], new: Config | dict[str, Any]) -> list[str]:
    """One line ``path: old -> new`` for each leaf that differs, in the order of the old config.

    >>> from attention_research.config.files import load
    >>> old = load("translation/transformer:cpu")
    >>> difference(old, load("translation/transformer:cpu", [("training.batch_size", "7")]))
    ['training.batch_size: 64 -> 7']
    """
    before, after = (flat(c.resolved if isinstance(c, Config) else c) for c in (old, new))
    spelled = lambda leaves, path: spell(leaves[path]) if path in leaves else _ABSENT
    return [
        f"{path}: {spelled(before, path)} -> {spelled(after, path)}"
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or not identity.same(before[path], after[path])
    ]


def changes(old: Config, new: Config) -> list[str]:
    """`difference` without new settings at their defaults.

    A setting that was added after the old config was saved is ignored if it has its default in the new config, because
    this default means the old behaviour (`config.identity`).
    """
    return difference(_with_newer(old.resolved, new.resolved, identity.without_defaults(new.resolved)), new)


def _with_newer(old: Any, new: Any, said: Any) -> Any:
    """The old section, completed by settings of the new section that it lacks and that are not in `said`."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        said = said if isinstance(said, list) else [{}] * len(new)
        return [_with_newer(*items) for items in zip(old, new, said, strict=True)]
    if not (isinstance(old, dict) and isinstance(new, dict) and old.get("kind") == new.get("kind")):
        return old
    newer = {name: value for name, value in new.items() if name not in old and name not in said}
    return {name: _with_newer(old[name], new.get(name), said.get(name, {})) for name in old} | newer


def flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Path -> leaf. The path of an item in a tuple of sections contains its number.

    >>> flat({"model": {"kind": "transformer", "width": 64}, "max_length": 32})
    {'model.kind': 'transformer', 'model.width': 64, 'max_length': 32}
    """
    leaves: dict[str, Any] = {}
    for key, value in section.items():
        path = f"{prefix}{key}"
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        leaves |= flat(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return leaves
