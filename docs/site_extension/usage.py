"""Where a function or class stands outside its module: exports, rows of the catalogue, layers, and studies.

Each becomes a field at the end of its description in the API. The links run both ways: the rows of docs/catalogue.md
lead to the API on the site, while on a code host they lead to the sources.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

from sphinx.application import Sphinx

from attention_research import registry

from .configs import example, kinds, tables
from .modules import PACKAGE, ROOT, defined, modules, parsed, short
from .reference import place_of_kind

KERNELS = f"{PACKAGE}.kernels"
#: The number of layers or studies that a field names.
SHOWN = 8
#: The first cell of a row of the catalogue.
ROW = re.compile(r"^\| \[(?P<mechanism>[a-z0-9_]+)\]\([^)]+\) \|", re.MULTILINE)

#: A kind of a config in a cell of the catalogue.
KIND = re.compile(r"`(?P<family>[a-z_]+)\.(?P<kind>[a-z0-9_]+)`")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", add_fields, priority=600)  # after the conversion of Markdown
    return {"parallel_read_safe": True}


def add_fields(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Adds the fields to the description of a function or class."""
    if what in ("function", "class") and (found := fields(name)):
        lines += ["", *(f":{title}: {text}" for title, text in found.items()), ""]


def fields(name: str) -> dict[str, str]:
    """Title -> text, in reStructuredText, for the full name of a function or class."""
    places = {
        "Exported as": [f"``{short(one)}``" for one in exports().get(name, ())],
        "Catalogue": [f"`{one} <../catalogue.html#{one}>`__" for one in mechanisms().get(name, ())],
        "Used by": [f":py:mod:`{short(one)} <{one}>`" for one in users().get(name, ())],
        "Kind in a config": [
            f"`{family}.{kind} <settings_{family}.html#{kind.replace('_', '-')}>`__" for family, kind in kinds(name)
        ],
        "In a config": [f"``{one}``" for one in filter(None, [example(name)])],
        "Studies": [f"`{one} <../../experiments/{_page(one)}>`__" for one in studies_of(name)],
    }
    return {title: _some(found) for title, found in places.items() if found}


def _page(table: str) -> str:
    paper, name, scale = table.split("/")
    return f"{paper}/results/{name}/{scale}/table.html"


def _some(found: list[str]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


@cache
def exports() -> dict[str, list[str]]:
    """Full name -> the packages of the kernels that export it, with its name there."""
    found = defaultdict(list)
    for package in (one for one in modules(KERNELS) if one.is_package):
        for name in package.handed_on:
            if (home := defined(package.name, name)) is not None:
                found[home].append(f"{package.name}.{name}")
    return dict(found)


@cache
def mechanisms() -> dict[str, list[str]]:
    """Full name of a kernel -> its rows in the catalogue."""
    sys.path.insert(0, str(ROOT))
    from tests.catalogue import mechanisms as described

    found = defaultdict(list)
    for one in described():
        kernel = inspect.unwrap(one.function)
        found[f"{kernel.__module__}.{kernel.__qualname__}"].append(one.name)
    return dict(found)


def linked_catalogue(text: str) -> str:
    """The text of docs/catalogue.md with an anchor for each mechanism, and links to its kernel and its kinds."""
    home = {row: name for name, rows in mechanisms().items() for row in rows}
    cell = lambda row: f'| <a id="{row}"></a>{{py:obj}}`{row} <{home[row]}>` |'
    lines = ROW.sub(lambda found: cell(found["mechanism"]) if found["mechanism"] in home else found[0], text).split(
        "\n"
    )
    return "\n".join(KIND.sub(_linked_kind, line) if line.startswith("| <a") else line for line in lines)


def _linked_kind(found: re.Match[str]) -> str:
    """The kind of a config as a link to its settings."""
    if found["kind"] not in registry.FAMILIES.get(found["family"], ()):
        return found[0]
    described = kinds(".".join(registry.locate(found["family"], found["kind"])))
    family, kind = next((one for one in described if one[1] == found["kind"]), described[0])
    return f"[{found[0]}](api/{place_of_kind(kind, family)})"


@cache
def users() -> dict[str, list[str]]:
    """Full name of a kernel -> the modules outside the kernels that import it."""
    found = defaultdict(list)
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(KERNELS):
            for kernel in dict.fromkeys(_kernels(parsed(path))):
                found[kernel].append(name)
    return dict(found)


@cache
def _kernel_modules() -> set[str]:
    return {one.name for one in modules(KERNELS)}


def _kernels(tree: ast.Module) -> Iterator[str]:
    """The full names of the kernels that a module imports, or reads from a package of kernels."""
    packages = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith((KERNELS, PACKAGE)):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in _kernel_modules():
                    packages[alias.asname or alias.name] = full
                elif node.module.startswith(KERNELS) and (home := defined(node.module, alias.name)) is not None:
                    yield home
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            if (home := defined(packages[node.value.id], node.attr)) is not None:
                yield home


def studies_of(name: str) -> list[str]:
    """The recorded tables that use a class; for a kernel, those of the classes in the modules that import it."""
    found = list(tables().get(name, []))
    for user in users().get(name, ()):
        found += [table for one, found_in in tables().items() if one.rpartition(".")[0] == user for table in found_in]
    return sorted(dict.fromkeys(found))
