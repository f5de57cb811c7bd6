"""Applies overrides such as ``("model.num_heads", "4")`` to a config before it is resolved.

The annotation at the path parses a text and checks any other value. A dict replaces a whole section. The path of a
section with the name of a kind is short for setting ``.kind``. Kinds are set before other settings, and outer kinds
before inner ones, because they determine the meaning of the other paths. A dict separates the overrides before it from
those after it: kinds after the dict are not set earlier. Apart from that, overrides are applied in order, and the last
one wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attention_research import registry
from attention_research.config.annotations import Mismatch
from attention_research.config.errors import ConfigError
from attention_research.config.given import Raw
from attention_research.config.resolution import unknown
from attention_research.config.schema import Setting
from attention_research.config.scope import ROOT, Scope
from attention_research.config.values import literal, plain

Override = tuple[str, Any]


def overridden(given: dict[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Sets the overrides in `given`, in place, and returns it.

    >>> overridden({"training": {"steps": 100}}, [("training.steps", "200")])
    {'training': {'steps': 200}}
    """
    run: list[Override] = []
    for path, value in overrides:
        if not isinstance(path, str) or not all(path.split(".")):
            raise ConfigError(f"{path}: expected a path such as model.num_heads")
        path, value = path.removeprefix(f"{ROOT[0]}."), plain(value)
        if isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{")):
            _apply(given, run)
            run = []
            if isinstance(value, str) and _leads_to_section(given, path):
                value = plain(literal(value) or value)
            _set(given, path, value)
        else:
            run.append((path, value))
    _apply(given, run)
    return given


def _apply(given: dict[str, Any], run: list[Override]) -> None:
    """Applies consecutive overrides without dicts: first the kinds, the outermost first, then the other settings."""
    rest = set(range(len(run)))
    for i in sorted(rest, key=lambda i: f".{run[i][0]}".removesuffix(".kind").count(".")):
        path, value = run[i]
        if path.split(".")[-1] == "kind" or (isinstance(value, str) and _leads_to_section(given, path)):
            _set(given, path, value)
            rest.remove(i)
    for i in sorted(rest):
        _set(given, *run[i])


def _leads_to_section(given: dict[str, Any], path: str) -> bool:
    try:
        setting, node, key = _descend(plain(given), path)
    except ConfigError:
        return False
    if setting is None:
        return key != "kind" and isinstance(node, dict)  # one of several named sections
    return setting is not None and setting.section is not None and not setting.many


def _set(given: dict[str, Any], path: str, value: Any) -> None:
    setting, section, key = _descend(given, path)
    if setting is None:  # a kind, or one of several sections
        alone = isinstance(value, str) and (isinstance(section, list) or path.split(".")[-1] != "kind")
        section[key] = {"kind": value} if alone else value
        _descend(plain(given), path)  # raises an error with the full path for an unknown kind
        return
    try:
        parsed: Any = setting.annotation.parse(value) if isinstance(value, str) else setting.annotation.check(value)
    except Mismatch as error:
        raise ConfigError(f"{ROOT[0]}.{path}{error.below}: {error}") from None
    if setting.many:
        section[key] = parsed
        return
    if setting.section is not None and isinstance(value, str) and isinstance(section.get(key), dict) and parsed:
        parsed = {**section[key], **parsed}  # the short form sets only the kind; the other settings must fit it
    section[key] = parsed
    if isinstance(parsed, dict):
        _descend(plain(given), f"{path}.kind")


def _descend(given: dict[str, Any], path: str) -> tuple[Setting | None, Any, Any]:
    """Follows a path and returns (setting, node of `given`, key). Creates missing sections on the way.

    The setting is None for ``kind``, and for one of several sections (``steps.0``, ``evaluations.bleu``).
    """
    scope, node, names, full = Scope.root(given), given, path.split("."), ROOT[0]
    while True:
        name, *names = names
        full = f"{full}.{name}"
        if name == "kind" and not names:
            return None, node, name
        if name not in scope.settings:
            raise unknown(scope, name, full)
        setting = scope.settings[name]
        index: int | str | None = None
        if not names:
            return setting, node, name
        if setting.section is None:
            raise ConfigError(f"{full}: is {setting.annotation.words}, not a section; it has no {'.'.join(names)}")
        if setting.named:
            index, names = names[0], names[1:]
            there = scope.child_raw(name) or {}
            full = f"{full}.{index}"
            node[name] = {key: dict(item.values) for key, item in there.items()}
            if not names:
                return None, node[name], index
            if index not in there and names != ["kind"]:
                raise ConfigError(f"{full}: no such section; {_offered(full, there)}")
            node[name].setdefault(index, {})
            if index not in there:
                return None, node[name][index], "kind"
        elif setting.many:
            items = scope.child_raw(name) or []
            index, names = _index(full, names[0], len(items)), names[1:]
            full = f"{full}.{index}"
            node[name] = [dict(item.values) for item in items]
            if not names:
                return None, node[name], index
        child = scope.child(name, index)
        if child is None:  # an optional section that is None: giving a setting of it creates the section
            family = setting.section.family
            child = Scope(full, family, Raw({"kind": next(iter(registry.FAMILIES[family]))}), scope)
        if index is None and not isinstance(node.get(name), dict):
            node[name] = {} if node.get(name) is None else {"kind": node[name]}
        node = node[name] if index is None else node[name][index]
        scope = child


def _offered(full: str, there: Iterable[str]) -> str:
    names = ", ".join(there)
    return f"{f'there are {names}; ' if names else ''}give its kind first: --{full}.kind=..."


def _index(full: str, text: str, length: int) -> int:
    if not text.isdigit() or int(text) >= length:
        raise ConfigError(f"{full}.{text}: expected the number of an item, below {length}")
    return int(text)
