"""Markdown tables, whose notes stand as footnotes below them.

| row      | loss | notes |
| -------- | ---: | ----- |
| standard |  1.0 | a     |
| bigram   |  2.0 | a, b  |

- a: one of three trials not run
- b: floor
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import count, takewhile
from string import ascii_lowercase

#: The title of the column that becomes footnotes. A cell holds several notes, separated by "; " (see `cell`).
NOTES = "notes"
_SEPARATOR = "; "
_FOOTNOTE = re.compile(r"^- (?P<letter>[a-z]{1,2}): (?P<note>.+)$", re.MULTILINE)


def markdown_table(lines: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> str:
    """A Markdown table, padded so that it is readable as plain text. `left` are the columns aligned to the left.

    >>> print(markdown_table([["row", "BLEU"], ["scaled", "21.4"], ["unscaled", "9.9"]]), end="")
    | row      | BLEU |
    | -------- | ---: |
    | scaled   | 21.4 |
    | unscaled |  9.9 |
    """
    lines = [[text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(lines[0]))]

    def line(texts: Sequence[str]) -> str:
        padded = (t.ljust(w) if i in left else t.rjust(w) for i, (t, w) in enumerate(zip(texts, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    rule = "|".join(f" {'-' * w} " if i in left else f" {'-' * (w - 1)}: " for i, w in enumerate(widths))
    return "\n".join([line(lines[0]), f"|{rule}|", *(line(texts) for texts in lines[1:])]) + "\n"


def cell(notes: Iterable[str]) -> str:
    """The cell with these notes. A note's own semicolons become commas, so that it stays one footnote.

    >>> cell(["not run", "", "published in Table 1 (in part; rounded)"])
    'not run; published in Table 1 (in part, rounded)'
    """
    return _SEPARATOR.join(note.replace(_SEPARATOR, ", ") for note in notes if note)


def lettered(lines: Sequence[Sequence[str]]) -> tuple[list[list[str]], dict[str, str]]:
    """The table with a letter in place of each note, and the note of each letter.

    >>> lettered([["row", "notes"], ["one", "floor"], ["two", "not run; floor"]])
    ([['row', 'notes'], ['one', 'a'], ['two', 'b, a']], {'a': 'floor', 'b': 'not run'})
    """
    if NOTES not in lines[0]:
        return [list(line) for line in lines], {}
    column = list(lines[0]).index(NOTES)
    notes = dict.fromkeys(note for line in lines[1:] for note in line[column].split(_SEPARATOR) if note)
    letters = dict(zip(notes, _letters(), strict=False))
    short = lambda text: ", ".join(letters[note] for note in text.split(_SEPARATOR) if note)
    body = [[short(text) if i == column else text for i, text in enumerate(line)] for line in lines[1:]]
    return [list(lines[0]), *body], {letter: note for note, letter in letters.items()}


def _letters() -> Iterable[str]:
    """a, b, ... z, aa, ab, ..."""
    for number in count():
        first, last = divmod(number, len(ascii_lowercase))
        yield (ascii_lowercase[first - 1] if first else "") + ascii_lowercase[last]


def markdown(lines: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> str:
    """The table as Markdown, with its notes as footnotes below it. `left` are the columns aligned to the left, and the
    notes are one more."""
    short, notes = lettered(lines)
    left = (*left, *(i for i, title in enumerate(short[0]) if title == NOTES))
    below = "".join(f"- {letter}: {' '.join(note.split())}\n" for letter, note in notes.items())
    return markdown_table(short, left=left) + (f"\n{below}" if below else "")


def parse(text: str) -> list[list[str]]:
    """The cells of the first table of a text that `markdown` wrote, with the notes in place of their letters."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("| ")), len(lines))
    table = [line for line in takewhile(lambda line: line.startswith("|"), lines[start:])]
    split = lambda line: [cell.strip().replace("\\|", "|") for cell in line[2:-2].split(" | ")]
    cells = [split(line) for line in table if not re.match(r"\| -", line)]
    rest = "\n".join(lines[start + len(table) :])
    notes = {one["letter"]: one["note"] for one in _FOOTNOTE.finditer(rest.partition("\n#")[0])}
    if not cells or NOTES not in cells[0]:
        return cells
    column = cells[0].index(NOTES)
    for line in cells[1:]:
        line[column] = _SEPARATOR.join(notes.get(letter, letter) for letter in line[column].split(", ") if letter)
    return cells


def end_of_table(text: str) -> int:
    """Where the first table of a text that `markdown` wrote ends, with its footnotes."""
    end = text.index("\n\n", text.index("\n|")) + 1
    found = re.match(r"\n(- [a-z]{1,2}: .+\n)+", text[end:])
    return end + (found.end() if found else 0)
