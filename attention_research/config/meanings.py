"""Describes the kinds of a config and their settings: title, type, default and meaning, read from the sources.

The meaning of a setting consists of the sentences of the docstring of its class that name it in backticks. If there are
none, it is taken from `SHARED`, a table of the settings that many kinds share, such as ``width``; else it consists of
the sentences of the docstring of the module, or of a base class. `attention-research list kinds FAMILY` prints these
descriptions, and the site shows them. Nothing is imported: the sources are parsed, as in `config.schema`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from attention_research import registry
from attention_research.config import schema
from attention_research.config.scope import FLOWS
from attention_research.config.shared_settings import SHARED

#: A reference to a docstring of a module or of another class, which only readers of the source have at hand.
_REFERENCE = re.compile(r"\s*\(see (?:the module docstring|`\w+`)[^)]*\)")
#: The end of a sentence. Points inside code, after initials, and after "et al" and "e.g" do not end it.
_END = re.compile(r"(?<!\bal)(?<!\b[A-Z])(?<!\be\.g)(?<!\bi\.e)[.!?](?=\s+[A-Z`{]|$)")
_CODE = re.compile(r"`+[^`]*`+")


@dataclass(frozen=True)
class Description:
    """A setting of a kind: the type in words, the default, what it does, and whether a value is inherited.

    A setting without a default, which is `schema.REQUIRED`, is inherited from an enclosing section if its name is in
    `FLOWS` or if it is a section (`config.scope`).
    """

    name: str
    type: str
    default: Any
    meaning: str
    inherited: bool

    @property
    def required(self) -> bool:
        """Whether a config must give the setting."""
        return self.default is schema.REQUIRED and not self.inherited


def title(family: str, kind: str) -> str:
    """The first line of the docstring of a kind, or of its module if the module has no other public class."""
    module, name = registry.locate(family, kind)
    tree = _tree(module)
    named = _definitions(tree)
    public = [one for one, node in named.items() if isinstance(node, ast.ClassDef) and one[0] != "_"]
    own = ast.get_docstring(named[name]) if name in named and len(public) > 1 else None
    return _REFERENCE.sub("", (own or ast.get_docstring(tree) or "").partition("\n")[0])


def docstring(family: str, kind: str) -> str:
    """The docstrings of the module and of the class of a kind."""
    module, name = registry.locate(family, kind)
    node = _definitions(_tree(module)).get(name)
    own = None if node is None else ast.get_docstring(node)
    return "\n\n".join(filter(None, [ast.get_docstring(_tree(module)), own]))


def describe(family: str, kind: str) -> list[Description]:
    """The settings of a kind, in the order of the signature."""
    texts = list(_docstrings(*registry.locate(family, kind)))
    return [_described(one, texts) for one in schema.signature(family, kind).values()]


def _described(setting: schema.Setting, texts: list[str]) -> Description:
    inherits = setting.default is schema.REQUIRED and (setting.name in FLOWS or setting.section is not None)
    return Description(setting.name, _type(setting), setting.default, _meaning(setting, texts), inherits)


def _type(setting: schema.Setting) -> str:
    """The type in words. A section is described by its family, whose kinds are listed elsewhere."""
    if setting.section is None:
        return setting.annotation.words
    many = "named sections" if setting.named else "sections" if setting.many else "a section"
    return f"{many} of {setting.family}" + (", or none" if setting.optional else "")


def _meaning(setting: schema.Setting, texts: list[str]) -> str:
    own, *others = (_about(setting.name, text) for text in texts)
    return next(filter(None, [own, SHARED.get(setting.name, ""), *others]), "")


def _about(setting: str, text: str) -> str:
    """The sentences that name a setting in code, as in "`rank`" or "`rank=4`", but those that state an error.

    If some of them begin with the setting, only these.
    """
    name = re.compile(rf"`+{setting}(?!\w|\.)")
    named = [one for one in sentences(text) if any(map(name.match, _CODE.findall(one)))]
    return " ".join(
        [one for one in named if name.match(one)] or [one for one in named if not one.startswith("Raises ")]
    )


def sentences(text: str) -> list[str]:
    """The sentences of a docstring, each on one line. Doctests and indented blocks are left out.

    >>> sentences("A layer. `rank` is the number of rows (Wang et al. 2020)\\nof keys. The rest follows.")
    ['A layer.', '`rank` is the number of rows (Wang et al. 2020) of keys.', 'The rest follows.']
    """
    found = []
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        if block.startswith((">>>", "    ")):
            continue
        line = _REFERENCE.sub("", " ".join(block.removeprefix("- ").split()))
        hidden = _CODE.sub(lambda code: "X" * len(code[0]), line)  # points inside code do not end a sentence
        ends = [match.end() for match in _END.finditer(hidden)]
        found += [line[start:end].strip() for start, end in zip([0, *ends], [*ends, len(line)], strict=True)]
    return [sentence for sentence in found if sentence]


def _docstrings(module: str, name: str) -> Iterator[str]:
    """The docstrings of a class and of its module, then those of its base classes."""
    tree = _tree(module)
    node = _definitions(tree).get(name)
    if node is None:
        return
    yield ast.get_docstring(node) or ""
    yield ast.get_docstring(tree) or ""
    for base in node.bases if isinstance(node, ast.ClassDef) else []:
        home = schema.home_of_base(tree, module, base)
        if home is not None:
            yield from _docstrings(*home)


def _definitions(tree: ast.Module) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


@cache
def _tree(module: str) -> ast.Module:
    path = schema.source(module)
    return ast.parse(path.read_text(encoding="utf-8") if path else "")
