"""Sections as they are given, with their full paths, and the merging of a given section over an inherited one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attention_research import registry
from attention_research.config import schema
from attention_research.config.errors import ConfigError, offer, some


@dataclass(frozen=True)
class Raw:
    """A section as it was given: its values, including ``kind``, and the full paths at which they were given."""

    values: dict[str, Any]
    written: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.values["kind"]


def settings_of(family: str, kind: str) -> dict[str, schema.Setting]:
    """The settings of a kind by name; none if its signature cannot be used as a schema."""
    try:
        return schema.signature(family, kind)
    except schema.SchemaError:
        return {}


def first_kind(family: str) -> str:
    """The first kind of a family, which a section without ``kind`` has."""
    return next(iter(registry.FAMILIES[family]))


def of_first_kind(family: str) -> Raw:
    """A section of the first kind of a family, without settings."""
    return Raw({"kind": first_kind(family)})


def check_kind(family: str, kind: Any, path: str) -> None:
    """Raises ConfigError if the family has no such kind. `path` is where the kind was given."""
    kinds = registry.FAMILIES[family]
    if not isinstance(kind, str):
        raise ConfigError(
            f"{path}: expected the name of a kind of {family} ({some(kinds, _listing(family))}); got {kind!r}"
        )
    if kind not in kinds:
        reason = registry.REFUSED.get((family, kind))
        if reason is not None:
            known = some(kinds, _listing(family))
            raise ConfigError(f"{path}: {kind} is not defined here: {reason}; there are {known}")
        raise ConfigError(f"{path}: {no_kind(kind, family)}")


def no_kind(kind: str, family: str) -> str:
    """The message about a kind that a family does not have."""
    return f"no kind {kind!r} of {family}; {offer(kind, registry.FAMILIES[family], command=_listing(family))}"


def _listing(family: str) -> str:
    return f"attention-research list kinds {family}"


def merged(base: Raw, given: dict[str, Any], family: str, where: str) -> Raw:
    """Merges the given values over the inherited section. If the kinds differ, returns the given values alone."""
    written = {key: f"{where}.{key}" for key in given}
    if "kind" in given:
        check_kind(family, given["kind"], f"{where}.kind")
        if given["kind"] != base.kind:
            return Raw(given, written)
    return Raw(_merged_values(base.values, given, family), {**base.written, **written})


def _merged_values(base: dict[str, Any], given: dict[str, Any], family: str) -> dict[str, Any]:
    """The given settings of a section over those of a section of the same kind, and so on for its child sections."""
    settings, result = settings_of(family, base.get("kind", first_kind(family))), dict(base)
    for key, value in given.items():
        setting = settings.get(key)
        if setting is not None and setting.section is not None and not setting.many:
            usual = setting.default if isinstance(setting.default, dict) else {"kind": first_kind(setting.family)}
            old, new = _long(result.get(key)), _long(value)
            if isinstance(old, dict) and isinstance(new, dict):
                kind = old.get("kind", usual["kind"])
                if new.get("kind", kind) == kind:
                    value = _merged_values(old, new, setting.family)
        result[key] = value
    return result


def _long(section: Any) -> Any:
    """The short form of a section, its kind, in the long form."""
    return {"kind": section} if isinstance(section, str) else section


def fitting(there: Any, setting: schema.Setting) -> Raw | list[Raw] | None:
    """An enclosing section for this family: the section itself if its kind exists in the family, else the first
    kind."""
    kinds = registry.FAMILIES[setting.family]
    if there is None:
        return None if setting.optional else of_first_kind(setting.family)
    if setting.many:
        return [raw if raw.kind in kinds else of_first_kind(setting.family) for raw in there]
    return there if there.kind in kinds else of_first_kind(setting.family)
