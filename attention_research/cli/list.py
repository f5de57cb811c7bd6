"""`list`: the names that other commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from attention_research.cli.arguments import Overrides, Parser, nearest, no_overrides, print_json
from attention_research.config import ConfigError, variants


def options(parser: Parser) -> None:
    parser.add_argument("what", choices=None, nargs="?")
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.what not in LISTS:
        word = arguments.what or "list"
        raise ConfigError(f"{word}: no such list{nearest(word, [*LISTS])}")
    entries = LISTS[arguments.what]()
    if arguments.json:
        return print_json([{"name": name, "title": title} for name, title in entries.items()])
    width = max(map(len, entries), default=0)
    print("\n".join(f"{name:<{width}}  {title}" for name, title in entries.items()))
    return 0


def _studies() -> dict[str, str]:
    from attention_research.studies.study import find_studies

    return dict(find_studies())


def _variants() -> dict[str, str]:
    files = sorted(Path("configs").rglob("*.py"))
    return {f"{file}:{name}": title for file in files for name, title in variants(str(file)).items()}


def _datasets() -> dict[str, str]:
    from attention_research.data.names import dataset_names

    return dict(dataset_names())


LISTS: dict[str, Callable[[], dict[str, str]]] = {"studies": _studies, "variants": _variants, "datasets": _datasets}
