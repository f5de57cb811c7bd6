"""Reads `--input`, which is standard input, a file, or the text itself.

The value is a file if one has this name; a pipe such as `<(command)` is one too. The value also counts as a path if it
has no blanks and either contains a path separator, ends in one of `SUFFIXES`, or has a suffix and nearly the name of an
existing file. A path without a file raises an error. Any other value is the text itself, also if a folder has this
name.
"""

from __future__ import annotations

import difflib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from attention_research.data.lines import decode_lines, read_lines
from attention_research.errors import ConfigError

#: Suffixes of file names: a value with one of them counts as a path.
SUFFIXES = (
    ".txt", ".text", ".tsv", ".csv", ".json", ".jsonl", ".md", ".log", ".src", ".tgt", ".in", ".tok", ".gz", ".png",
    ".jpg", ".jpeg",
)  # fmt: skip
_AS_TEXT = "; to have it read as text, give it to --input=- on standard input"


def given_lines(value: str, report: Callable[[str], None] = lambda line: None) -> list[str]:
    """The lines of the input that `value` names. Raises ConfigError if it cannot be read as text."""
    if value == "-":
        return decode_lines(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
    if not value:
        raise ConfigError("--input= is empty; expected a text, a file, or - for standard input")
    if is_word(value) and os.path.isdir(value):
        report(f"--input={value}: read as text; a folder has this name, too")
    elif is_there(value):
        return read_lines(value, f"--input={value}")
    if looks_like_a_path(value):
        raise ConfigError(f"--input={value}: no such file{nearest_file(value)}{_AS_TEXT}")
    try:
        return decode_lines(value.encode(errors="surrogateescape"), "--input")
    except UnicodeEncodeError:
        raise ConfigError("--input: has half of a surrogate pair, which no UTF-8 text has") from None


def is_there(value: str) -> bool:
    """Whether a file or a pipe has this name. Raises ConfigError for a folder, or without permission to look."""
    try:
        mode = os.stat(value).st_mode
    except PermissionError:
        raise ConfigError(f"--input={value}: cannot be read: its folder is not yours to look into") from None
    except (OSError, ValueError):  # no such file; or too long for a name, or with a NUL character: then it is a text
        return False
    if stat.S_ISDIR(mode):
        raise ConfigError(f"--input={value}: this is a folder; give a file, a text, or - for standard input")
    return True


def is_word(value: str) -> bool:
    """Whether a value is a word, which is not a path even if a folder has this name.

    >>> [is_word(text) for text in ("runs", "runs/", ".", "a.txt")]
    [True, False, False, False]
    """
    return value.isalnum()


def looks_like_a_path(value: str) -> bool:
    """Whether a value counts as a path, by its form.

    >>> [looks_like_a_path(text) for text in ("data/sentences", "sentences.txt", "either/or, they say")]
    [True, True, False]
    """
    if any(character.isspace() for character in value):
        return False
    if os.sep in value or value.lower().endswith(SUFFIXES):
        return True
    return bool(Path(value).suffix and nearest_file(value))


def nearest_file(value: str) -> str:
    """ "; did you mean X?" for the file in the same folder with the nearest name; empty if no name is near."""
    path = Path(value)
    try:
        names = sorted(one.name for one in path.parent.iterdir() if one.is_file())
    except (OSError, ValueError):
        return ""
    close = difflib.get_close_matches(path.name, names, 1, 0.6)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
