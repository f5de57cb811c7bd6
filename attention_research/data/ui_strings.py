"""Interface strings from one registry package: reading, cleaning, filtering, splitting.

Home Assistant (Apache-2.0) has, for each of its 1,155 components, a JSON tree of English strings and the same tree in
other languages. Leaves under the same keys are translations of each other.

    "Triggers when one or more media players turn off."
    "Se déclenche lorsqu'un ou plusieurs lecteurs multimédias s'éteignent."

Spaces and line breaks become one space; placeholders (`{host}`) and Markdown are kept. A pair is kept if both sides
have text, are different (an equal pair is a name or was not translated), have the same placeholders and at most 60
words, and neither has more than three times as many characters as the other.

Components repeat each other, so duplicates are removed: of the pairs whose English or foreign text is equal up to case,
digits and the names of placeholders, the first is kept, with the components in alphabetical order. The split is by
component: MD5 of its name modulo 20 is 0 for test, 1 for validation. No component and no text is in two splits.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attention_research.data.registry_package import Package

PACKAGE = Package(
    "homeassistant",
    "2026.11.0",
    "7ca5fbde9dea879ac7723949fc84347aac5182e6309c357b2e4973fd391b00f7",
    size=67_607_712,
)
MAX_WORDS = 60
MAX_RATIO = 3.0

_FILE = re.compile(r"homeassistant/components/(?P<component>[^/]+)/translations/(?P<language>\w+)\.json")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")

#: Keys from the root of a component's tree to a string.
Keys = tuple[str, ...]
#: component, keys, text in the foreign language, English text
Pair = tuple[str, Keys, str, str]


def keep(first: str, second: str) -> bool:
    """Whether two texts are a usable pair (see the module docstring)."""
    shorter, longer = sorted((len(first), len(second)))
    words = max(len(first.split()), len(second.split()))
    same_holes = sorted(_PLACEHOLDER.findall(first)) == sorted(_PLACEHOLDER.findall(second))
    return first != second and 0 < shorter and longer <= MAX_RATIO * shorter and words <= MAX_WORDS and same_holes


def outline(text: str) -> str:
    """A normal form of a text; two texts with the same outline count as equal.

    >>> outline("Button {first} of 12") == outline("button {name} of 7")
    True
    """
    return re.sub(r"\d+", "0", _PLACEHOLDER.sub("{}", text)).casefold()


def leaves(tree: dict[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """(keys, text) of every string of a tree, with single spaces instead of spaces and line breaks."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, key))
        elif isinstance(value, str):
            yield (*above, key), " ".join(value.split())


def distinct(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs in which neither side has the outline of a side of an earlier kept pair."""
    seen: tuple[set[str], set[str]] = set(), set()
    for pair in pairs:
        outlines = outline(pair[2]), outline(pair[3])
        if not any(text in there for text, there in zip(outlines, seen, strict=True)):
            for text, there in zip(outlines, seen, strict=True):
                there.add(text)
            yield pair


def read_pairs(archive: Path, language: str) -> Iterator[Pair]:
    """Every distinct kept pair, with the components in alphabetical order."""
    yield from distinct(pair for pair in _aligned(archive, language) if keep(*pair[2:]))


def _aligned(archive: Path, language: str) -> Iterator[Pair]:
    with zipfile.ZipFile(archive) as zipped:
        forms = filter(None, map(_FILE.fullmatch, zipped.namelist()))
        files = {(form["component"], form["language"]): form[0] for form in forms}
        for component in sorted(component for component, there in files if there == language):
            if (component, "en") in files:
                foreign, english = (
                    dict(leaves(json.loads(zipped.read(files[component, one])))) for one in (language, "en")
                )
                yield from ((component, keys, foreign[keys], english[keys]) for keys in english if keys in foreign)
