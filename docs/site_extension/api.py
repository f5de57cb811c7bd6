"""Writes the pages of the API: one for each entry of the list in `docs/api.md`, and one for each public module.

The page of a package lists its modules with the first sentence of their docstrings and their public names. The page of
a module has its docstring, then its functions and classes, then its constants. Functions and classes that a package
exports, or that are kinds of a config, come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from .configs import kinds
from .docstrings import first_sentence
from .modules import ROOT, Module, is_exported, modules, short

LISTED = re.compile(
    r"^- \*\*(?P<title>.+)\*\* \(`(?P<package>attention_research\.(?P<name>\w+))`\): (?P<said>.+)$", re.MULTILINE
)
#: The value of a constant is shown if its source is not longer than this.
LONGEST_VALUE = 300


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write(Path(app.srcdir, "docs/api"), pages(Path(app.srcdir, "docs"))))
    app.connect("doctree-read", adopt)
    return {"parallel_read_safe": True}


def adopt(app: Sphinx, doctree: nodes.document) -> None:
    """Makes all nodes of a page part of its document.

    Those of an `eval-rst` block belong to a document of their own, which holds the environment of the whole site: a
    saved page would have a megabyte more.
    """
    for node in doctree.findall():
        node.document = doctree


def write(folder: Path, texts: dict[str, str]) -> None:
    """Writes the pages that have changed, and removes those of modules that are gone."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    for page in folder.glob("*.*.md"):
        if page.stem not in texts:
            page.unlink()


def pages(docs: Path) -> dict[str, str]:
    """Name -> text of all pages of the API."""
    found = {}
    for listed in LISTED.finditer((docs / "api.md").read_text(encoding="utf-8")):
        named = modules(listed["package"])
        if named[0].is_package:
            found[listed["name"]] = package_page(listed["title"], named)
        for one in named:
            if not one.is_package:
                found[short(one.name)] = module_page(one, listed["title"])
    return found


def linked(text: str) -> str:
    """The text of `docs/api.md` with a link to the page of each package."""
    return LISTED.sub(lambda one: one[0].replace(one["title"], f"[{one['title']}](api/{one['name']}.md)", 1), text)


def package_page(title: str, named: tuple[Module, ...]) -> str:
    """A table for each package: its modules, what they do, and where their public names are described.

    Where a package exports names, the modules that define them come first, and other modules in a second table.
    """
    parts = [f"# {title}"]
    for package in (one for one in named if one.is_package):
        inside = [one for one in named if one.name.rpartition(".")[0] == package.name and not one.is_package]
        public = [one for one in inside if one.name in package.handed_on.values()] or inside
        if package is not named[0]:
            parts.append(f"## `{short(package.name)}`")
        parts += [_described(package), _table(public)]
        if len(public) < len(inside):
            parts += ["Modules that other modules use:", _table([one for one in inside if one not in public])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(inside: list[Module]) -> str:
    head = ["| module | what it does | public names |", "| --- | --- | --- |"]
    return "\n".join([*head, *map(_row, inside)]) if inside else ""


def _row(one: Module) -> str:
    names = ", ".join(f"{{py:obj}}`{name} <{one.name}.{name}>`" for name in (*one.functions, *one.classes))
    said = first_sentence(one.docstring).replace("|", "\\|")
    return f"| [`{short(one.name)}`]({short(one.name)}.md) | {said} | {names} |"


def _described(one: Module) -> str:
    return f"```{{eval-rst}}\n.. automodule:: {one.name}\n```"


def module_page(one: Module, title: str) -> str:
    """The page of a module of the package with a title, or of a module that is listed itself."""
    name = short(one.name)
    package = name.split(".")[0]
    source = one.path.relative_to(ROOT)
    within = "" if name == package else f" › [{title}]({package}.md)"
    parts = [
        "" if name == package else "---\norphan: true\n---",
        f"# {title}" if name == package else f"# `{name}`",
        f"[API](../api.md){within} · [view the source](../../{source})",
        _described(one),
        *_objects(one),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _objects(one: Module) -> Iterator[str]:
    named = [*((name, "autofunction") for name in one.functions), *((name, "autoclass") for name in one.classes)]
    text = one.path.read_text(encoding="utf-8")
    place = lambda name: re.search(rf"^(?:async )?(?:def|class) {name}\b", text, re.MULTILINE).start()
    first = lambda name: is_exported(one, name) or bool(kinds(f"{one.name}.{name}"))
    named.sort(key=lambda entry: (not first(entry[0]), place(entry[0])))
    directives = [
        f".. {directive}:: {one.name}.{name}" + ("\n   :members:" if directive == "autoclass" else "")
        for name, directive in named
    ]
    if directives:
        yield "```{eval-rst}\n" + "\n\n".join(directives) + "\n```"
    if one.constants:
        yield "## Constants"
        yield "```{eval-rst}\n" + "\n\n".join(_constant(one, name, text) for name in one.constants) + "\n```"


def _constant(one: Module, name: str, text: str) -> str:
    value = re.search(rf"^{name}\b.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    long = value is not None and len(value[0]) > LONGEST_VALUE
    return f".. autodata:: {one.name}.{name}" + ("\n   :no-value:" if long else "")
