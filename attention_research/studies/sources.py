"""Hashes the sources that a measuring function runs: the definitions that it reaches, and the modules that they import.

Of a study file and its siblings, only the definitions that the function uses count, so that the name of a row or a
verdict is not part of the measurement. Of the package, whole modules count; of an ``__init__.py`` only the imported
names.

Kinds are looked up by name at run time, so imports do not show them. If a module or the measurement builds objects from
a config, each word in its code that is the name of a kind adds the module of this kind. A default kind of a child in a
signature always does. The sources are read, not imported (`source_facts`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from attention_research import bundled, registry
from attention_research.studies.source_facts import (
    always_counts,
    bound,
    facts_of,
    is_builder,
    module_facts,
    names_in,
    parsed,
)

PACKAGE = Path(registry.__file__).resolve().parent
#: Subpackages that plan, tabulate and draw measurements, but take no part in them.
ABOVE = ("cli", "workdirs", "studies")
#: Subpackages that the hashes of a trained trial's programs and data already cover.
OF_TRAINING = (
    "training", "tasks", "decoding", "data", "models", "layers", "parallel", "config", "registry", "signatures",
    "experiment",
)  # fmt: skip
#: A module of `training` that measurements use to train small models. No trial trains with it.
OF_MEASURING = "training.fitting"


class Sources:
    """The present sources. Each function's sources are hashed once."""

    def __init__(self) -> None:
        self.measured, self.scoring = functools.cache(_measured), functools.cache(_scoring)

    def of(self, where: str, settings: Any = None, *, trained: bool = False) -> str:
        """A hash (12 hex digits) of the sources that a function of `measure` runs. Imports nothing.

        `where` is the function's `references.reference`, and `settings` are the arguments of its call. If the trial is
        `trained`, the subpackages of `OF_TRAINING` are left out.
        """
        kinds = frozenset(word for word in _words(settings) if any(word in one for one in registry.FAMILIES.values()))
        return self.measured(where, kinds, trained)

    def of_scoring(self, where: str, *, whole: bool = False) -> str:
        """A hash (12 hex digits) of the sources of an evaluation, "module:Class", and of the `tasks` that it imports.

        With `whole` the methods of `BESIDE` count too, for a trial that has their numbers.
        """
        return self.scoring(where, whole)


def _scoring(where: str, whole: bool) -> str:
    reach = _Reach([path.stem for path in PACKAGE.iterdir() if path.stem != "tasks"], whole=whole)
    reach.module(_origin(where.partition(":")[0]))
    return _digest(reach)


def _measured(where: str, words: frozenset[str], trained: bool) -> str:
    home, name = where.rsplit(":", 1)
    file = Path(home).resolve() if home.endswith(".py") else _origin(home)
    reach = _Reach((*ABOVE, *OF_TRAINING) if trained else ABOVE)
    if bundled.is_of_package(file):
        reach.module(file)
    else:
        reach.definitions(file, {name.split(".")[0]})
    reach.kinds(words)
    return _digest(reach)


def _digest(reach: _Reach) -> str:
    return hashlib.sha256("\0".join(sorted(reach.texts)).encode()).hexdigest()[:12]


def _origin(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None, module
    return Path(found.origin).resolve()


class _Reach:
    """Collects the texts of reached sources. The subpackages `left_out` are not followed. `whole` keeps `BESIDE`."""

    def __init__(self, left_out: Collection[str], *, whole: bool = False):
        self.left_out, self.whole = left_out, whole
        self.texts: set[str] = set()
        self.words: set[str] = set()
        self.builds = False
        self.modules: set[Path] = set()
        self.done: set[tuple[str, frozenset[str]]] = set()
        self.named: dict[Path, set[str]] = {}

    def definitions(self, path: Path, names: Collection[str]) -> None:
        """Adds the top-level statements of a study file that bind these names, and all that they use in the file."""
        seen, todo = self.named.setdefault(path, set()), set(names)
        while todo := todo - seen:
            seen |= todo
            found = [node for node in parsed(path).body if always_counts(node) or not todo.isdisjoint(bound(node))]
            todo = set()
            for node in found:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self.imports(node, path, wanted=seen)
                else:
                    facts = facts_of(node)
                    self.texts.add(facts.text)
                    self.words |= facts.words
                    self.builds |= facts.builds
                    for one in facts.imports:
                        self.imports(one, path)
                    todo |= facts.names

    def module(self, path: Path) -> None:
        """Adds a whole module of the package, and its imports."""
        if path in self.modules:
            return
        self.modules.add(path)
        facts = module_facts(path, self.whole)
        self.texts.add(facts.text)
        for one in facts.imports:
            self.imports(one, path)
        for family, kind in facts.children:
            self._kind(registry.FAMILIES.get(family, {}).get(kind))
        if facts.builds:
            self.kinds(facts.words)

    def kinds(self, words: Collection[str]) -> None:
        """Adds the modules of the kinds among these words, and among the measurement's words if it builds objects."""
        named = {*words, *(self.words if self.builds else ())}
        for kinds in registry.FAMILIES.values():
            for word in kinds.keys() & named:
                self._kind(kinds[word])

    def _kind(self, where: str | None) -> None:
        if where is not None and "registry" not in self.left_out:
            self._absolute(where.partition(":")[0], ())

    def imports(self, node: ast.Import | ast.ImportFrom, path: Path, wanted: Collection[str] | None = None) -> None:
        """Adds the targets of an import statement. Of siblings of a study file only the imported names count."""
        self.builds |= path not in self.modules and is_builder(node)
        names = [alias.name for alias in node.names if wanted is None or (alias.asname or alias.name) in wanted]
        if isinstance(node, ast.Import):
            for alias in node.names:
                if wanted is None or (alias.asname or alias.name.split(".")[0]) in wanted:
                    self._absolute(alias.name, ())
        elif node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in names:  # names in a module, or modules of a folder
                whole = [base.parent / f"{base.name}.py"] if node.module else []
                self._relative((*whole, base / f"{name}.py"), name)
        else:
            self._absolute(node.module or "", names)

    def _relative(self, files: Iterable[Path], name: str) -> None:
        for file in files:
            if not file.is_file():
                continue
            if bundled.is_of_package(file):
                self._absolute(".".join((PACKAGE.name, *file.with_suffix("").relative_to(PACKAGE).parts)), ())
            else:
                whole = names_in(file) if file.stem == name else {name}
                self.definitions(file, whole)
            return

    def _packaged(self, parts: Sequence[str], names: Collection[str]) -> None:
        """Adds definitions of a packaged study or config that is imported by its absolute name; without names all."""
        base = bundled.folder(parts[0]).joinpath(*parts[1:])
        file = base.parent / f"{base.name}.py"
        for name in names or (names_in(file) if file.is_file() else ()):
            self._relative((file, base / f"{name}.py"), name)

    def _absolute(self, module: str, names: Collection[str]) -> None:
        first, *parts = module.split(".")
        if first == PACKAGE.name and parts[:1] and parts[0] in bundled.FOLDERS:
            self._packaged(parts, names)
            return
        wish = (module, frozenset(names))
        left_out = bool(parts) and parts[0] in self.left_out and ".".join(parts) != OF_MEASURING
        if first != PACKAGE.name or left_out or wish in self.done:
            return
        self.done.add(wish)
        inner = {name for name in names if _file(PACKAGE.joinpath(*parts, name))}
        for name in inner if parts else inner.difference(self.left_out):
            self._absolute(f"{module}.{name}", ())
        file = _file(PACKAGE.joinpath(*parts)) if parts else None
        wanted = set(names) - inner
        if file is not None and "__getattr__" in names_in(file):  # it re-exports names of its packages
            for package in file.parent.glob("*/__init__.py"):
                if found := (wanted - names_in(file)) & names_in(package):
                    self._absolute(f"{module}.{package.parent.name}", found)
                    wanted -= found
                    inner |= found
        if file is None or (inner and not wanted):
            return
        if file.name == "__init__.py" and wanted and wanted <= names_in(file):
            self.definitions(file, wanted)  # it re-exports names
        else:
            self.module(file)


def _file(path: Path) -> Path | None:
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _words(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(_words, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(_words, value))
    return {value} if isinstance(value, str) else set()
