"""A section in its place: the settings and sections that it is given, and those that it inherits."""

from __future__ import annotations

from typing import Any

from attention_research.config import schema
from attention_research.config.annotations import Mismatch
from attention_research.config.errors import ConfigError
from attention_research.config.given import Raw, check_kind, first_kind, fitting, merged, of_first_kind

#: The names of the settings that are inherited from an enclosing section.
FLOWS = (
    "width", "num_heads", "num_layers", "head_width", "max_length", "vocabulary_size", "dropout_rate", "dtype", "side",
    "channels",
)  # fmt: skip
ROOT = ("config", "experiment")


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
        raw = Raw({"kind": first_kind(family), **given})
        check_kind(family, raw.kind, f"{path}.kind")
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
            return {
                name: merged(of_first_kind(family), item, family, f"{where}.{name}") for name, item in given.items()
            }
        if setting.many:
            return [merged(of_first_kind(family), item, family, f"{where}.{i}") for i, item in enumerate(given)]
        return merged(self._inherited(setting) or of_first_kind(family), given, family, where)

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
            return fitting(scope.child_raw(name), setting)
        if setting.many:
            raise ConfigError(f"{self.path}.{setting.name}: missing; {self.kind} needs it ({setting.annotation.words})")
        return None if setting.optional else of_first_kind(family)

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
