"""What the modules of the package define and import, read from their sources without importing them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "attention_research"


@dataclass(frozen=True)
class Module:
    """A module: its name, docstring, and the names of its public functions, classes and constants, in the order of its
    source. `handed_on` has the public names that a package imports from its own modules: name -> defining module."""

    name: str
    path: Path
    docstring: str
    functions: tuple[str, ...]
    classes: tuple[str, ...]
    constants: tuple[str, ...]
    handed_on: dict[str, str]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def short(name: str) -> str:
    """The name of a module without that of the whole package."""
    return name.removeprefix(f"{PACKAGE}.")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def module(name: str) -> Module:
    """A module by its full name."""
    path = _file(name)
    if path is None:
        raise ValueError(f"no module {name}")
    tree = parsed(path)
    of = lambda *kinds: tuple(node.name for node in tree.body if isinstance(node, kinds) and _public(node.name))
    handed_on = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and path.name == "__init__.py" and (node.module or "").startswith(name)
        for alias in node.names
        if _public(alias.name)
    }
    functions = of(ast.FunctionDef, ast.AsyncFunctionDef)
    return Module(
        name, path, ast.get_docstring(tree) or "", tuple(dict.fromkeys(functions)), of(ast.ClassDef),
        _constants(path, tree), handed_on,
    )  # fmt: skip


def _file(name: str) -> Path | None:
    """The source file of a module."""
    path = ROOT.joinpath(*name.split("."))
    return next((one for one in (path / "__init__.py", path.with_suffix(".py")) if one.exists()), None)


def _public(name: str) -> bool:
    return not name.startswith("_")


def _constants(path: Path, tree: ast.Module) -> tuple[str, ...]:
    """The public names that a module assigns, and explains in a comment `#:`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        explained = lines[node.lineno - 2].lstrip().startswith("#:") or "  #:" in lines[node.lineno - 1]
        for target in targets if isinstance(node, ast.Assign | ast.AnnAssign) and explained else ():
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            found += [one.id for one in names if isinstance(one, ast.Name) and _public(one.id)]
    return tuple(found)


@cache
def modules(package: str) -> tuple[Module, ...]:
    """A package with all its public modules and packages, in alphabetical order; or a single module."""
    top = module(package)
    if not top.is_package:
        return (top,)
    names = []
    for path in sorted(top.path.parent.rglob("*.py")):
        parts = path.relative_to(top.path.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if all(_public(part) for part in parts):
            names.append(".".join((package, *parts)))
    return tuple(module(name) for name in sorted(names))


def defined(namespace: str, name: str) -> str | None:
    """The full name of what a module hands on under a name, or defines itself; None if it does not.

    >>> defined("attention_research.kernels", "attend")
    'attention_research.kernels.scores.attend.attend'
    """
    found = module(namespace)
    if name in found.handed_on:
        return defined(found.handed_on[name], name)
    return f"{namespace}.{name}" if name in (*found.functions, *found.classes, *found.constants) else None


def is_exported(home: Module, name: str) -> bool:
    """Whether a package above a module hands on one of its names."""
    parts = home.name.split(".")
    above = (module(".".join(parts[:count])) for count in range(1, len(parts)))
    return any(
        package.handed_on.get(name) and defined(package.name, name) == f"{home.name}.{name}" for package in above
    )
