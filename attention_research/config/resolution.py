"""Resolves a config: fills in all defaults, inherited settings and inherited sections.

If a setting is not given and has no default, it is inherited from the nearest enclosing section with a setting of this
name. This applies only to the names in `FLOWS`. A child section without a default in the signature is inherited from
the nearest enclosing section of its name, and resolved again in its new place. If the kind of that section does not
exist in the family of the child, the first kind of the family is taken. A section that is given without a ``kind``, or
with the same kind, is merged over the inherited section. A section with another kind replaces it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from attention_research import constraints, registry
from attention_research.config import schema
from attention_research.config.annotations import Mismatch
from attention_research.config.errors import ConfigError, offer
from attention_research.config.given import merged, of_first_kind, settings_of
from attention_research.config.scope import FLOWS, Around, Scope, leaves


def resolved(given: dict[str, Any]) -> dict[str, Any]:
    """The resolved config: every section with its ``kind``, and all values in JSON form in the order of the
    signatures."""
    return _checked(Scope.root(given))


def resolved_section(given: dict[str, Any], family: str, around: dict[str, Any]) -> dict[str, Any]:
    """Resolves one section alone, which messages call by its family. `around` has the settings that it can inherit."""
    if not isinstance(given, dict):
        raise ConfigError(f"{family}: expected a dict of settings; got {given!r}")
    return _checked(Scope(family, family, merged(of_first_kind(family), given, family, family), Around(around)))


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
    made = partial(_made, result, scope)
    sections.append(constraints.Section(scope.path, scope.family, scope.kind, result, made))
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


def _made(section: dict[str, Any], scope: Scope) -> Any:
    """The object of a resolved section that needs no other arguments. None if its settings are wrong in themselves."""
    from attention_research.config.construction import build

    try:
        return build(section, scope.family, scope.path)()
    except ConfigError:
        return None


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
    having = [kind for kind in registry.FAMILIES[scope.family] if name in settings_of(scope.family, kind)]
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
