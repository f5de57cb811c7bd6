"""Reads the schemas of kinds: the signatures of their constructors, parsed from the source without importing it.

A setting is a keyword-only parameter of ``__init__`` with an annotation from `signatures` and a literal as its default.
``rngs`` and parameters annotated as `Given` come from the parent module and are not settings. A class without
``__init__`` has that of its bases, if these are in the same package or in this one.

A class declares its own settings and passes the others on to its base:

    class RelativeAttention(MultiHeadAttention):
        def __init__(self, *, max_distance: NonNegative = 16, rngs: nnx.Rngs, **inherited: Any):
            super().__init__(rngs=rngs, **inherited)

``**inherited`` must have exactly this name and be used only in this call. It stands for the settings of the base's
``__init__``. These settings come first; a setting of the class with the same name replaces that of the base. An
argument that the call gives by name (``use_bias=False``) is fixed by the class. It is not a setting, unless the class
declares it again.

Other forms raise `SchemaError`, which is meant for developers: a dataclass, a decorated ``__init__``, ``*args`` or
other ``**kwargs``, another use of ``**inherited``, two bases with an ``__init__`` each, positional parameters, or a
default that is not a literal.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.config.annotations import Annotation, Mismatch, Named, Optional, Section, Tuple, read
from attention_research.config.errors import SchemaError


class _Required:
    def __repr__(self) -> str:
        return "required"


#: Marks a setting without a default.
REQUIRED = _Required()
NOT_SETTINGS = ("self", "rngs")
#: The name of the parameter ``**inherited``.
INHERITED = "inherited"


@dataclass(frozen=True)
class Setting:
    """A setting: a parameter of the constructor of a kind."""

    name: str
    text: str
    default: Any
    annotation: Annotation

    @cached_property
    def section(self) -> Section | None:
        """The annotation of the child section, or of each child section if there are several; None for a value."""
        inner = self._inner
        inner = inner.items[0] if isinstance(inner, Tuple) and inner.repeated else inner
        inner = inner.item if isinstance(inner, Named) else inner
        return inner if isinstance(inner, Section) else None

    @property
    def family(self) -> str:
        """The family of the child section."""
        assert self.section is not None
        return self.section.family

    @property
    def optional(self) -> bool:
        return isinstance(self.annotation, Optional)

    @cached_property
    def many(self) -> bool:
        """Whether the setting is a tuple of sections or a dict of named sections."""
        return self.section is not None and isinstance(self._inner, Tuple | Named)

    @cached_property
    def named(self) -> bool:
        """Whether the setting is a dict of named sections."""
        return isinstance(self._inner, Named)

    @cached_property
    def _inner(self) -> Annotation:
        return self.annotation.inner if isinstance(self.annotation, Optional) else self.annotation


def settings(family: str, kind: str) -> list[tuple[str, str, Any]]:
    """(name, annotation as text, default or `REQUIRED`) of every setting of a kind, in the order of the signature."""
    return [(setting.name, setting.text, setting.default) for setting in signature(family, kind).values()]


def signature(family: str, kind: str) -> dict[str, Setting]:
    """Name -> setting of a kind. Raises `SchemaError` if the source is missing or cannot be used as a schema."""
    module, name = registry.locate(family, kind)
    path = source(module)
    if path is None:
        raise SchemaError(f"{family} {kind!r}: the module {module} that registry.py names is not there")
    return _signature(module, name, path, os.stat(path).st_mtime_ns)


def source(module: str) -> Path | None:
    """The file of a module, found without importing its packages, because their ``__init__`` may import JAX."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    place = (*(spec.submodule_search_locations or ()), *rest)
    known = _SOURCES.get(place)
    if known is None or not os.path.exists(known):
        known = _SOURCES[place] = _find_source(spec.submodule_search_locations or (), rest)
    return known


#: A cache: (folders of a package, names below it) -> the file. A config looks up the same files many times.
_SOURCES: dict[tuple[str, ...], Path | None] = {}


def _find_source(folders: Iterable[str], rest: list[str]) -> Path | None:
    for folder in folders:
        stem = Path(folder, *rest)
        for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


@cache
def _signature(module: str, name: str, path: Path, stamp: int) -> dict[str, Setting]:
    del stamp  # part of the cache key, so that a changed file is read again
    found = _find_init(module, name)
    if found is None:
        return {}
    where, arguments = f"{module}:{name}", found.function.args
    if found.function.decorator_list or arguments.vararg or (arguments.kwarg and arguments.kwarg.arg != INHERITED):
        raise SchemaError(f"{where}: __init__ with decorators, *args or **kwargs cannot be a schema")
    for argument in (*arguments.posonlyargs, *arguments.args):
        if argument.arg not in NOT_SETTINGS:
            raise SchemaError(f"{where}: the parameter {argument.arg} is positional; settings stand after *")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    own = {a.arg: _setting(where, a, default) for a, default in pairs if not _from_parent(a)}
    if not arguments.kwarg:
        return own
    fixed = _handed_on(where, found.function)
    inherited = {name: setting for name, setting in _of_base(where, found).items() if name not in fixed}
    return {**inherited, **own}


def _handed_on(where: str, function: ast.FunctionDef) -> set[str]:
    """The names of the arguments that ``super().__init__(name=..., **inherited)`` sets."""
    uses = sum(isinstance(node, ast.Name) and node.id == INHERITED for node in ast.walk(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__" and not node.args and uses == 1:
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if given.pop(None, "") == INHERITED:
                return {name for name in given if name is not None}
    raise SchemaError(f"{where}: **{INHERITED} is for one call, super().__init__(name=..., **{INHERITED})")


def _of_base(where: str, init: _Init) -> dict[str, Setting]:
    """The settings of the base whose ``__init__`` is called by this ``__init__``."""
    base = _init_of_bases(init.module, init.node)
    path = source(base.module) if base else None
    if base is None or path is None:
        raise SchemaError(f"{where}: **{INHERITED}, but no base has an __init__ that can be read")
    return _signature(base.module, base.node.name, path, os.stat(path).st_mtime_ns)


def _from_parent(argument: ast.arg) -> bool:
    """Whether the parent module passes this parameter, so that it is not a setting."""
    given = isinstance(argument.annotation, ast.Subscript) and ast.unparse(argument.annotation.value) == "Given"
    return given or argument.arg in NOT_SETTINGS


def _setting(where: str, argument: ast.arg, default: ast.expr | None) -> Setting:
    where = f"{where}: the parameter {argument.arg}"
    if argument.annotation is None:
        raise SchemaError(f"{where} has no annotation")
    try:
        annotation = read(argument.annotation)
    except (Mismatch, SyntaxError, ValueError) as error:
        raise SchemaError(f"{where}: {error}") from None
    text = ast.unparse(argument.annotation)
    if default is None:
        return Setting(argument.arg, text, REQUIRED, annotation)
    try:
        value: Any = annotation.check(ast.literal_eval(default))
    except Mismatch as error:
        raise SchemaError(f"{where}: its default: {error}") from None
    except (ValueError, SyntaxError, TypeError):
        raise SchemaError(f"{where}: the default {ast.unparse(default)} is not a literal") from None
    setting = Setting(argument.arg, text, value, annotation)
    if setting.section is not None and value is not None:
        for child in value.values() if setting.named else value if setting.many else [value]:
            if child.get("kind") not in registry.FAMILIES[setting.family]:
                raise SchemaError(f"{where}: its default {child.get('kind')!r} is not a kind of {setting.family}")
    return setting


@dataclass(frozen=True)
class _Init:
    """An ``__init__`` and its class."""

    module: str
    node: ast.ClassDef
    function: ast.FunctionDef


def _find_init(module: str, name: str) -> _Init | None:
    """The ``__init__`` of a class or of its bases. None if there is none in its package or in this one."""
    path = source(module)
    tree = _tree(path, path.stat().st_mtime_ns) if path else ast.Module([], [])
    node = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if node is None:
        raise SchemaError(f"{module}: no class {name} in it, which registry.py or a subclass names")
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return _Init(module, node, item)
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        raise SchemaError(f"{module}:{name}: a dataclass has no __init__ to read; write it out")
    return _init_of_bases(module, node)


def _init_of_bases(module: str, node: ast.ClassDef) -> _Init | None:
    path = source(module)
    assert path is not None
    tree = _tree(path, path.stat().st_mtime_ns)
    homes = filter(None, (home_of_base(tree, module, base) for base in node.bases))
    found = {id(init.function): init for init in (_find_init(*home) for home in homes) if init is not None}
    if len(found) > 1:
        there = " and ".join(init.node.name for init in found.values())
        raise SchemaError(f"{module}:{node.name}: {there} have an __init__ each; define one in the class itself")
    return next(iter(found.values()), None)


def home_of_base(tree: ast.Module, module: str, base: ast.expr) -> tuple[str, str] | None:
    """("module", "Class") of a base class in the same package or in this one, or None."""
    if not isinstance(base, ast.Name):
        return None
    known = (module.split(".")[0], __name__.split(".")[0])
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == base.id:
            return module, base.id
        if isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            home = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                if (alias.asname or alias.name) == base.id and home.split(".")[0] in known:
                    return home, alias.name
    return None


@cache
def _tree(path: Path, stamp: int) -> ast.Module:
    del stamp
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
