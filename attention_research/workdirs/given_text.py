"""What `--input` means: standard input, a file, or the text itself.

A name that exists is a file, a pipe such as `<(command)` too. A text without blanks that has a separator, ends as files
do (`SUFFIXES`), or has a suffix and is nearly the name of a file beside it, is a path: where nothing is there, it is
misspelt, and refused. Any other text is read as it is.
"""

from __future__ import annotations

import difflib
import os
import stat
import sys
from pathlib import Path

from attention_research.data.lines import decode_lines, read_lines
from attention_research.errors import ConfigError

#: How the names of files end that could be meant.
SUFFIXES = (
    ".txt", ".text", ".tsv", ".csv", ".json", ".jsonl", ".md", ".log", ".src", ".tgt", ".in", ".tok", ".gz", ".png",
    ".jpg", ".jpeg",
)  # fmt: skip
_AS_TEXT = "; to have it read as text, give it to --input=- on standard input"


def given_lines(value: str) -> list[str]:
    """The lines of what `--input` says. Raises ConfigError, one line, where that cannot be read as text."""
    if value == "-":
        return decode_lines(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
    if not value:
        raise ConfigError("--input= is empty; expected a text, a file, or - for standard input")
    if is_there(value):
        return read_lines(value, f"--input={value}")
    if looks_like_a_path(value):
        raise ConfigError(f"--input={value}: no such file{nearest_file(value)}{_AS_TEXT}")
    try:
        return decode_lines(value.encode(errors="surrogateescape"), "--input")
    except UnicodeEncodeError:
        raise ConfigError("--input: has half of a surrogate pair, which no UTF-8 text has") from None


def is_there(value: str) -> bool:
    """Whether a file or a pipe has this name. Raises ConfigError for a folder."""
    try:
        mode = os.stat(value).st_mode
    except PermissionError:
        raise ConfigError(f"--input={value}: cannot be read: its folder is not yours to look into") from None
    except (OSError, ValueError):  # too long for a name, or with a NUL character: a text
        return False
    if stat.S_ISDIR(mode):
        raise ConfigError(f"--input={value}: this is a folder; give a file, a text, or - for standard input")
    return True


def looks_like_a_path(value: str) -> bool:
    """Whether a text is meant as the name of a file, which may not be there.

    >>> [looks_like_a_path(text) for text in ("data/sentences", "sentences.txt", "either/or, they say")]
    [True, True, False]
    """
    if any(character.isspace() for character in value):
        return False
    if os.sep in value or value.lower().endswith(SUFFIXES):
        return True
    return bool(Path(value).suffix and nearest_file(value))


def nearest_file(value: str) -> str:
    """ "; did you mean X?" for the file beside a missing one whose name is nearest; empty where none is near."""
    path = Path(value)
    try:
        names = sorted(one.name for one in path.parent.iterdir() if one.is_file())
    except (OSError, ValueError):
        return ""
    close = difflib.get_close_matches(path.name, names, 1, 0.6)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
