"""Lists of names and descriptions that fit into a terminal. In a pipe or a file, each entry is one line."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping

#: The width where the output is not a terminal and COLUMNS is not set.
_UNLIMITED = 1_000_000
#: Descriptions that have less room than this beside the names are printed below them.
_LEAST = 40


def terminal_width() -> int:
    """The width of the terminal, or of COLUMNS; very large where the output is not a terminal."""
    return shutil.get_terminal_size((_UNLIMITED, 24)).columns


def columns(entries: Mapping[str, str], width: int | None = None) -> str:
    """Name and description of each entry, in lines of at most `width` characters (default: that of the terminal).

    >>> print(columns({"adam": "an optimizer", "sgd": "another one"}))
    adam  an optimizer
    sgd   another one
    """
    width, names = width or terminal_width(), max(map(len, entries), default=0)
    beside = width - names - 2 >= _LEAST
    lines = []
    for name, text in entries.items():
        indent = " " * (names + 2 if beside else 4)
        lines += [] if beside else [name]
        lines.append(wrapped(text, width, f"{name:<{names}}  " if beside else indent, indent))
    return "\n".join(lines)


def wrapped(text: str, width: int, start: str = "", indent: str = "") -> str:
    """The text in lines of at most `width` characters: the first after `start`, the others after `indent`."""
    wrapper = textwrap.TextWrapper(
        width, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return wrapper.fill(text) or start.rstrip()
