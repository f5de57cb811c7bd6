"""Pages of the site that are generated from the code and the records.

- `docs/api/commands.md` comes from the parsers of the command line.
- `docs/api/settings.md` lists the families of the registry. Each family has a page, `docs/api/settings_<family>.md`,
  with its kinds: the docstring of the class, and a table of its settings with type, default and meaning.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from attention_research import registry
from attention_research.cli.program import COMMANDS, whole_parser
from attention_research.config import meanings

from .docstrings import as_rst

PAGE = "settings_{}"


def write_reference(folder: Path) -> None:
    """Writes the pages into a folder, as far as they have changed."""
    folder.mkdir(exist_ok=True)
    for name, text in {"commands": commands(), **settings()}.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def commands() -> str:
    """Every command with its arguments and options."""
    (found,) = (one for one in whole_parser()._actions if isinstance(one, argparse._SubParsersAction))
    parts = [
        "# Commands",
        "`attention-research help COMMAND` prints the same. `--config.a.b=VALUE` sets any [setting](settings.md) of "
        "the config. The exit status is 0 for success, 1 for an error while running, and 2 for a mistake in the "
        "arguments or the config.",
    ]
    for name, parser in found.choices.items():
        lines = ["| argument | meaning |", "| --- | --- |"]
        for action in parser._actions:
            lines.append(f"| {_spelled(action)} | {_words(action.help or '')} |")
        parts += [f"## `{name}`", f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _spelled(action: argparse.Action) -> str:
    """An argument as a user types it."""
    shown = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None:
        shown = "|".join(map(str, action.choices))
    value = " ".join(shown) if isinstance(shown, tuple) else str(shown)
    words = action.option_strings or [value]
    takes_value = bool(action.option_strings) and action.nargs != 0
    return ", ".join(f"`{_cell(f'{word}={value}' if takes_value else word)}`" for word in words)


def _words(text: str) -> str:
    """A help text with its options as code, in which two hyphens remain two hyphens."""
    return re.sub(r"(?<![\w`-])--[\w.]+(=[\w.|]+)?(?<!\.)", r"`\g<0>`", _cell(text))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%").replace("\n", " ")


def settings() -> dict[str, str]:
    """The name of each page of settings -> its text."""
    pages, index = {}, ["| family | kinds |", "| --- | --- |"]
    home: dict[tuple[str, str], str] = {}
    for family, kinds in registry.FAMILIES.items():
        for kind in kinds:
            home.setdefault(registry.locate(family, kind), family)
        names = ", ".join(_link_of_kind(kind, home[registry.locate(family, kind)]) for kind in kinds)
        index.append(f"| [{family}]({PAGE.format(family)}.md) | {names} |")
        pages[PAGE.format(family)] = _family(family, home)
    contents = (f"{family} <{PAGE.format(family)}>" for family in registry.FAMILIES)
    parts = [
        "# Settings",
        "A config consists of sections. Each section belongs to a family and names a `kind`. Its other entries are the "
        'keyword arguments of the class that the kind names. A setting whose default is "inherited" has the value of '
        "the nearest enclosing section with this setting. `attention-research list kinds FAMILY` prints the same.",
        "\n".join(index),
        "\n".join(["```{toctree}", ":hidden:", "", *contents, "```"]),
    ]
    return {"settings": "\n\n".join(parts) + "\n", **pages}


def _family(family: str, home: dict[tuple[str, str], str]) -> str:
    parts = [f"# {family}: kinds and settings"]
    shared = []
    for kind in registry.FAMILIES[family]:
        module, name = place = registry.locate(family, kind)
        if home[place] != family:
            shared.append(f"- {_link_of_kind(kind, home[place])}, of the family {home[place]}")
            continue
        parts += [f"## {kind}", f"`{module}.{name}`", _docstring(family, kind)]
        lines = ["| setting | type | default | what it does |", "| --- | --- | --- | --- |"]
        for one in meanings.describe(family, kind):
            default = "inherited" if one.inherited else "required" if one.required else f"`{_cell(repr(one.default))}`"
            lines.append(f"| `{one.name}` | {_type(one.type)} | {default} | {_cell(one.meaning)} |")
        parts.append("\n".join(lines) if len(lines) > 2 else "No settings.")
    if shared:
        parts += ["## Kinds of other families", "\n".join(shared)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _link_of_kind(kind: str, family: str) -> str:
    """The name of a kind as a link to its description on the page of a family."""
    return f"[`{kind}`]({place_of_kind(kind, family)})"


def place_of_kind(kind: str, family: str) -> str:
    """The address of the description of a kind, from docs/api."""
    return f"{PAGE.format(family)}.md#{kind.replace('_', '-')}"


def _type(words: str) -> str:
    """A type, in which the family of a section is a link to its page."""
    return re.sub(r"(?<=of )\w+", lambda family: _linked(family[0]), _cell(words))


def _linked(word: str) -> str:
    return f"[{word}]({PAGE.format(word)}.md)" if word in registry.FAMILIES else word


def _docstring(family: str, kind: str) -> str:
    """The docstrings of a kind as a block of reStructuredText."""
    lines = meanings.docstring(family, kind).splitlines()
    as_rst(lines)
    text = "\n".join(lines).strip()
    return f"````{{eval-rst}}\n{text}\n````" if text else ""
