"""Resolves a config: fills in all defaults, inherited settings and inherited sections.

If a setting is not given and has no default, it is inherited from the nearest enclosing section with a setting of this
name. This applies only to the names in `FLOWS`. A child section without a default in the signature is inherited from
the nearest enclosing section of its name, and resolved again in its new place. If the kind of that section does not
exist in the family of the child, the first kind of the family is taken. A section that is given without a ``kind``, or
with the same kind, is merged over the inherited section. A section with another kind replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attention_research import constraints, registry
from attention_research.config import schema
from attention_research.config.annotations import Mismatch
from attention_research.config.errors import ConfigError, offer, some

FLOWS = (
    "width", "num_heads", "num_layers", "head_width", "max_length", "vocabulary_size", "dropout_rate", "dtype", "side",
    "channels",
)  # fmt: skip
ROOT = ("config", "experiment")


@dataclass(frozen=True)
class Raw:
    """A section as it was given: its values, including ``kind``, and the full paths at which they were given."""

    values: dict[str, Any]
    written: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.values["kind"]


class Scope:
    """A section in its place: kind, signature, given values and enclosing section. Resolution fills `values`."""

    def __init__(self, path: str, family: str, raw: Raw, parent: Scope | None = None):
        self.path, self.family, self.raw, self.parent = path, family, raw, parent
        self.kind = raw.kind
        self.settings = schema.signature(family, self.kind)
        self.values: dict[str, Any] = {}
        self._children: dict[str, Any] = {}

    @classmethod
    def root(cls, given: dict[str, Any]) -> Scope:
        """The scope of a whole config."""
        path, family = ROOT
        if not isinstance(given, dict):
            raise ConfigError(f"{path}: expected a dict of sections; got {given!r}")
        raw = Raw({"kind": _first(family), **given})
        _known_kind(family, raw.kind, f"{path}.kind")
        return cls(path, family, raw)

    def where(self, name: str) -> str:
        """The full path at which the user gave a key of this section."""
        return self.raw.written.get(name, f"{self.path}.{name}")

    def child_raw(self, name: str) -> Any:
        """A child section before its resolution, with the given values merged over the inherited ones: a `Raw`, a list
        or dict of them, or None."""
        if name not in self._children:
            self._children[name] = self._said(self.settings[name])
        return self._children[name]

    def child(self, name: str, index: int | str | None = None) -> Scope | None:
        """The scope of a child section, or of one of several child sections by number or name. None if the section is
        None."""
        raw, family = self.child_raw(name), self.settings[name].family
        path = f"{self.path}.{name}"
        if index is not None:
            raw, path = raw[index], f"{path}.{index}"
        return None if raw is None else Scope(path, family, raw, self)

    def _said(self, setting: schema.Setting) -> Raw | list[Raw] | dict[str, Raw] | None:
        family, where = setting.family, self.where(setting.name)
        if setting.name not in self.raw.values:
            return self._inherited(setting)
        try:
            given: Any = setting.annotation.check(self.raw.values[setting.name])
        except Mismatch as error:
            raise ConfigError(f"{where}{error.below}: {error}") from None
        if given is None:
            return None
        if setting.named:
            return {name: _over(_plain(family), item, family, f"{where}.{name}") for name, item in given.items()}
        if setting.many:
            return [_over(_plain(family), item, family, f"{where}.{i}") for i, item in enumerate(given)]
        return _over(self._inherited(setting) or _plain(family), given, family, where)

    def _inherited(self, setting: schema.Setting) -> Any:
        family = setting.family
        if setting.default is None:
            return None
        if setting.default is not schema.REQUIRED and setting.named:
            return {name: Raw(item) for name, item in setting.default.items()}
        if setting.default is not schema.REQUIRED:
            return [Raw(item) for item in setting.default] if setting.many else Raw(setting.default)
        if (found := self._enclosing(setting)) is not None:
            scope, name = found
            return _fitting(scope.child_raw(name), setting)
        if setting.many:
            raise ConfigError(f"{self.path}.{setting.name}: missing; {self.kind} needs it ({setting.annotation.words})")
        return None if setting.optional else _plain(family)

    def above(self, setting: schema.Setting) -> Any:
        """The section of an enclosing scope from which a child section is inherited, whether or not its kind exists in
        the family of the child. None if there is none, or if the child has a default of its own."""
        found = self._enclosing(setting) if setting.default is schema.REQUIRED else None
        return None if found is None else found[0].child_raw(found[1])

    def _enclosing(self, setting: schema.Setting) -> tuple[Scope, str] | None:
        """The nearest enclosing scope with such a section, and the name of the section there."""
        other = setting.section.other if setting.section else None
        scope = self.parent
        while scope is not None:
            for name in filter(None, (setting.name, other)):
                there = scope.settings.get(name)
                if there is not None and there.section is not None and there.many == setting.many:
                    return scope, name
            scope = scope.parent
        return None


class Around(Scope):
    """The enclosing scope of a section that is resolved alone. It has settings to inherit, but no sections."""

    def __init__(self, values: dict[str, Any]):
        self.path, self.parent, self.settings, self.values = "build_model", None, {}, values


def resolved(given: dict[str, Any]) -> dict[str, Any]:
    """The resolved config: every section with its ``kind``, and all values in JSON form in the order of the
    signatures."""
    return _checked(Scope.root(given))


def resolved_section(given: dict[str, Any], family: str, around: dict[str, Any]) -> dict[str, Any]:
    """Resolves one section alone, which messages call by its family. `around` has the settings that it can inherit."""
    if not isinstance(given, dict):
        raise ConfigError(f"{family}: expected a dict of settings; got {given!r}")
    return _checked(Scope(family, family, _over(_plain(family), given, family, family), Around(around)))


def _checked(root: Scope) -> dict[str, Any]:
    sections: list[constraints.Section] = []
    result = _resolve(root, sections)
    for path, message in constraints.broken(sections):
        raise ConfigError(f"{path}: {message}")
    return result


def _resolve(scope: Scope, sections: list[constraints.Section]) -> dict[str, Any]:
    for name in scope.raw.values:
        if name != "kind" and name not in scope.settings:
            raise unknown(scope, name, scope.where(name))
    for name, setting in scope.settings.items():
        if setting.section is None:
            scope.values[name] = _value(scope, setting)
    result: dict[str, Any] = {"kind": scope.kind}
    sections.append(constraints.Section(scope.path, scope.family, scope.kind, result))
    for name, setting in scope.settings.items():
        if setting.section is None:
            result[name] = scope.values[name]
        elif setting.named:
            result[name] = {
                key: _resolve(child, sections)
                for key in scope.child_raw(name) or {}
                if (child := scope.child(name, key)) is not None
            }
        elif setting.many and scope.child_raw(name) is not None:
            children = (scope.child(name, i) for i in range(len(scope.child_raw(name))))
            result[name] = [_resolve(child, sections) for child in children if child is not None]
        else:
            child = scope.child(name)
            result[name] = None if child is None else _resolve(child, sections)
    return result


def _value(scope: Scope, setting: schema.Setting) -> Any:
    name = setting.name
    try:
        if name in scope.raw.values:
            return setting.annotation.check(scope.raw.values[name])
    except Mismatch as error:
        raise ConfigError(f"{scope.where(name)}: {error}") from None
    if setting.default is not schema.REQUIRED:
        return setting.default
    above = scope.parent
    while name in FLOWS and above is not None:
        if name in above.values:
            try:
                return setting.annotation.check(above.values[name])
            except Mismatch as error:
                raise ConfigError(f"{scope.path}.{name}: from {above.path}.{name}: {error}") from None
        above = above.parent
    # For an inherited section, the message names the place where its kind was given.
    home = scope.raw.written.get("kind", f"{scope.path}.kind").removesuffix("kind")
    raise ConfigError(f"{home}{name}: missing; {scope.kind} needs it ({setting.annotation.words})")


def _have(kinds: list[str]) -> str:
    """The first kinds that have a setting, and the verb.

    >>> _have(["linformer"]), _have(["rotary", "xpos"]), _have(["a", "b", "c", "d", "e"])
    ('linformer has', 'rotary, xpos have', 'a, b, c and 2 others have')
    """
    if len(kinds) > 4:
        kinds = [*kinds[:2], f"{kinds[2]} and {len(kinds) - 3} others"]
    return f"{', '.join(kinds)} {'has' if len(kinds) == 1 else 'have'}"


def unknown(scope: Scope, name: str, path: str) -> ConfigError:
    """The error for a key that the kind of the section does not have, with a suggestion."""
    section = path.rpartition(".")[0]
    if not isinstance(name, str):
        return ConfigError(f"{section}: its keys are names; got {name!r}")
    having = [kind for kind in registry.FAMILIES[scope.family] if name in _settings_of(scope.family, kind)]
    if having:
        return ConfigError(f"{path}: no such setting of {scope.kind}; {_have(having)} it")
    top = scope
    while top.parent is not None and not isinstance(top.parent, Around):
        top = top.parent
    elsewhere = sorted((there for there in leaves(top, sections=True) if there.rpartition(".")[2] == name),
                       key=lambda place: place.count("."))  # fmt: skip
    if elsewhere:
        return ConfigError(f"{path}: no such setting; did you mean {elsewhere[0]}?")
    hint = offer(name, [*scope.settings, "kind"], f"{section}.")
    return ConfigError(f"{path}: no such setting; {hint}")


def leaves(scope: Scope, *, sections: bool = False) -> list[str]:
    """The full paths of all settings in a scope and its child sections, its own first. Invalid sections are left
    out. With `sections`, the paths of the sections too."""
    found = [f"{scope.path}.{name}" for name, setting in scope.settings.items() if sections or setting.section is None]
    for name, setting in scope.settings.items():
        if setting.section is not None and not setting.many:
            try:
                child = scope.child(name)
            except ConfigError:
                continue
            found += leaves(child, sections=sections) if child is not None else []
    return found


def _settings_of(family: str, kind: str) -> dict[str, schema.Setting]:
    try:
        return schema.signature(family, kind)
    except schema.SchemaError:
        return {}


def _first(family: str) -> str:
    return next(iter(registry.FAMILIES[family]))


def _plain(family: str) -> Raw:
    return Raw({"kind": _first(family)})


def _known_kind(family: str, kind: Any, path: str) -> None:
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


def _over(base: Raw, given: dict[str, Any], family: str, where: str) -> Raw:
    """Merges the given values over the inherited section. If the kinds differ, returns the given values alone."""
    written = {key: f"{where}.{key}" for key in given}
    if "kind" in given:
        _known_kind(family, given["kind"], f"{where}.kind")
        if given["kind"] != base.kind:
            return Raw(given, written)
    return Raw(_merged(base.values, given, family), {**base.written, **written})


def _merged(base: dict[str, Any], given: dict[str, Any], family: str) -> dict[str, Any]:
    """The given settings of a section over those of a section of the same kind, and so on for its child sections."""
    settings, result = _settings_of(family, base.get("kind", _first(family))), dict(base)
    for key, value in given.items():
        setting = settings.get(key)
        if setting is not None and setting.section is not None and not setting.many:
            usual = setting.default if isinstance(setting.default, dict) else {"kind": _first(setting.family)}
            old, new = _long(result.get(key)), _long(value)
            if isinstance(old, dict) and isinstance(new, dict):
                kind = old.get("kind", usual["kind"])
                if new.get("kind", kind) == kind:
                    value = _merged(old, new, setting.family)
        result[key] = value
    return result


def _long(section: Any) -> Any:
    """The short form of a section, its kind, in the long form."""
    return {"kind": section} if isinstance(section, str) else section


def _fitting(there: Any, setting: schema.Setting) -> Raw | list[Raw] | None:
    """An enclosing section for this family: the section itself if its kind exists in the family, else the first
    kind."""
    kinds = registry.FAMILIES[setting.family]
    if there is None:
        return None if setting.optional else _plain(setting.family)
    if setting.many:
        return [raw if raw.kind in kinds else _plain(setting.family) for raw in there]
    return there if there.kind in kinds else _plain(setting.family)
