"""`list`: prints the names that other commands take, and the claims with their verdicts."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable
from functools import cache

from attention_research import bundled
from attention_research.cli.arguments import Overrides, Parser, json_option, nearest, no_overrides, print_json
from attention_research.config import ConfigError, packaged_configs, variants


def options(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", metavar="WHAT", help="studies, variants, kinds, datasets or claims")
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.what == "claims":
        return _claims(as_json=arguments.json)
    if arguments.what not in LISTS:
        word = arguments.what or "list"
        raise ConfigError(f"{word}: no such list{nearest(word, [*LISTS, 'claims'])}")
    entries = LISTS[arguments.what]()
    if arguments.json:
        return print_json([{"name": name, "title": title} for name, title in entries.items()])
    width = max(map(len, entries), default=0)
    print("\n".join(f"{name:<{width}}  {title}" for name, title in entries.items()))
    return 0


def _claims(*, as_json: bool) -> int:
    """Prints every claim of the lectures with its verdict, read from the recorded tables."""
    from attention_research.studies import claims_page

    root = bundled.folder("experiments").parent
    if as_json:
        return print_json(claims_page.entries(root))
    lines = [[claim["id"], found.status, claims_page.in_words(found)] for claim, found in claims_page.judged(root)]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    print("\n".join(f"{id:<{widths[0]}}  {status:<{widths[1]}}  {learned}" for id, status, learned in lines))
    return 0


def _studies() -> dict[str, str]:
    from attention_research.studies.loading import find_studies

    return dict(find_studies())


def _variants() -> dict[str, str]:
    return {f"{file}:{name}": title for file in packaged_configs() for name, title in variants(file).items()}


def _datasets() -> dict[str, str]:
    from attention_research.data.names import dataset_names

    return dict(dataset_names())


def _kinds() -> dict[str, str]:
    """Each ``family.kind``, those of other packages too, with the first line about it in its source."""
    from attention_research import registry
    from attention_research.config.entry_points import add_variants

    add_variants()
    names = [(family, kind) for family, kinds in registry.FAMILIES.items() for kind in kinds]
    return {f"{family}.{kind}": _first_line(*registry.locate(family, kind)) for family, kind in names}


def _first_line(module: str, name: str) -> str:
    """Of a class's docstring, or of its module's where the module has no other class."""
    tree = _tree(module)
    named = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    own = named.get(name)
    public = [name for name, node in named.items() if isinstance(node, ast.ClassDef) and name[0] != "_"]
    text = ast.get_docstring(tree) if len(public) < 2 or own is None else ast.get_docstring(own)
    return (text or ast.get_docstring(tree) or "").partition("\n")[0]


@cache
def _tree(module: str) -> ast.Module:
    from attention_research.config.schema import source

    path = source(module)
    return ast.parse(path.read_text(encoding="utf-8") if path else "")


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "studies": _studies,
    "variants": _variants,
    "kinds": _kinds,
    "datasets": _datasets,
}
