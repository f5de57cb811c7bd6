"""`list`: prints the names that other commands take, the settings of kinds, and the claims with their verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from attention_research import bundled
from attention_research.cli.arguments import Overrides, Parser, json_option, nearest, no_overrides, print_json, say
from attention_research.cli.columns import columns, terminal_width, wrapped
from attention_research.config import ConfigError, packaged_configs, variants
from attention_research.config.errors import nearest as nearest_name
from attention_research.errors import printable


def options(parser: Parser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="studies, variants (of configs), kinds (classes that a config can name), datasets or claims",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="FAMILY[.KIND]",
        help="list kinds: print the settings of one kind, or of every kind of a family",
    )
    json_option(parser)


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    no_overrides(overrides)
    if arguments.what is None:
        raise ConfigError(f"list WHAT is missing: {', '.join(LISTS)} or claims")
    if arguments.what not in (*LISTS, "claims"):
        raise ConfigError(f"{arguments.what}: no such list{nearest(arguments.what, [*LISTS, 'claims'])}")
    if arguments.name is not None:
        if arguments.what != "kinds":
            raise ConfigError(f"list {arguments.what} {arguments.name}: only list kinds takes a name")
        return _settings(arguments.name, as_json=arguments.json)
    if arguments.what == "claims":
        return _claims(as_json=arguments.json)
    if arguments.what == "kinds" and arguments.json:
        return _facts()
    entries = LISTS[arguments.what]()
    if arguments.json:
        return print_json([{"name": name, "title": title} for name, title in entries.items()])
    print(columns(entries))
    return 0


def _claims(*, as_json: bool) -> int:
    """Prints every claim of the lectures with its study and its verdict, read from the recorded tables."""
    from attention_research.studies import claims_page

    root = bundled.folder("experiments").parent
    if as_json:
        return print_json(claims_page.entries(root))
    width, paragraphs = min(WIDTH, terminal_width()), []
    for claim, found in claims_page.judged(root):
        learned = "" if found.status in claims_page.UNJUDGED else f" · learned: {claims_page.in_words(found)}"
        lines = [f"{claim['id']}: {found.status}", claim["claim"], f"study {found.study}{learned}"]
        indents = [("", "    "), ("  ", "  "), ("  ", "      ")]
        paragraphs.append("\n".join(wrapped(line, width, *indent) for line, indent in zip(lines, indents, strict=True)))
    print("\n\n".join(paragraphs))
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
    from attention_research.config.meanings import title

    names = [(family, kind) for family, kinds in _families().items() for kind in kinds]
    return {f"{family}.{kind}": title(family, kind) for family, kind in names}


def _families() -> dict[str, dict[str, str]]:
    """The registry, with the kinds of other packages. A kind that cannot be read is reported and left out."""
    from attention_research import registry
    from attention_research.config.entry_points import ADDED, add_variants
    from attention_research.config.schema import signature

    try:
        add_variants()
    except ConfigError as error:
        say(f"left out: {error}")
    for (family, kind), package in ADDED.items():
        try:
            signature(family, kind)
        except (ConfigError, SyntaxError, ValueError, OSError) as error:
            say(f"left out: {family}.{kind} of the installed package {package}: {printable(str(error))}")
            registry.FAMILIES[family].pop(kind, None)
    return registry.FAMILIES


def _facts() -> int:
    """Prints the facts of every kind, and of every mechanism of the catalogue."""
    from attention_research.config import catalogue

    _families()  # those of other packages too
    return print_json(catalogue.document())


def _settings(name: str, *, as_json: bool) -> int:
    """Prints the settings of the kind FAMILY.KIND, or of each kind of a family."""
    from attention_research.config.catalogue import facts
    from attention_research.config.meanings import describe

    family, kinds = _found(name)
    documents: list[dict[str, Any]] = [
        {
            **facts(family, kind),
            "settings": [
                {
                    "name": one.name,
                    "type": one.type,
                    "required": one.required,
                    "inherited": one.inherited,
                    "default": None if one.required or one.inherited else one.default,
                    "meaning": one.meaning,
                }
                for one in describe(family, kind)
            ],
        }
        for kind in kinds
    ]
    if as_json:
        return print_json(documents)
    width = min(WIDTH, terminal_width())
    print("\n\n".join(_paragraph(one, width) for one in documents))
    if any(one["inherited"] for document in documents for one in document["settings"]):
        print("\ninherited: without a value of its own, the setting has that of the nearest enclosing section")
    return 0


def _found(name: str) -> tuple[str, list[str]]:
    """The family and the kinds that a name means. Raises ConfigError with the nearest name if there are none."""
    families = _families()
    family, _, kind = name.replace("/", ".").partition(".")
    if family not in families:
        of = next((one for one, kinds in families.items() if family in kinds), None)
        if of is not None and not kind:
            raise ConfigError(f"{name}: no such family, but a kind of {of}; did you mean {of}.{name}?")
        raise ConfigError(f"{name}: no such family of kinds{_nearest_of_all(family, families)}")
    if kind and kind not in families[family]:
        raise ConfigError(f"{name}: no such kind of {family}{nearest(kind, list(families[family]))}")
    return family, [kind] if kind else list(families[family])


def _nearest_of_all(name: str, families: dict[str, dict[str, str]]) -> str:
    """ "; did you mean X?" for the nearest family, or FAMILY.KIND for the nearest kind; else a list of all families."""
    places = {kind: f"{family}.{kind}" for family, kinds in reversed(families.items()) for kind in kinds}
    close = nearest_name(name, [*families, *places])
    if close is None:
        return nearest(name, list(families))
    return f"; did you mean {close if close in families else places[close]}?"


def _paragraph(document: dict[str, Any], width: int) -> str:
    """A kind and its settings, in lines of at most `width` characters."""
    lines = [wrapped(f"{document['name']}  {document['title']}", width, "", " " * 4)]
    for one in document["settings"]:
        without = "inherited" if one["inherited"] else "required" if one["required"] else f"default {one['default']!r}"
        about = f"{one['type']}; {without}. {one['meaning']}"
        lines.append(wrapped(about, width, f"  {one['name']}: ", " " * 6))
    return "\n".join(lines if document["settings"] else [*lines, "  no settings"])


#: The largest width of a paragraph, in characters.
WIDTH = 110

LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "studies": _studies,
    "variants": _variants,
    "kinds": _kinds,
    "datasets": _datasets,
}
