"""One-line errors for arguments and configs, with a suggestion of the nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attention_research.errors import ConfigError

#: The number of names that fit into a message.
SHOWN = 12


class SchemaError(ConfigError):
    """The signature of a constructor cannot be used as a schema. This is an error in the code, not in the config."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, or None if none is similar enough.

    >>> nearest("num_head", ["num_heads", "num_layers"])
    'num_heads'
    """
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def some(names: Iterable[str], command: str = "") -> str:
    """The names. If they are too many for a message, the first ones, and the `command` that lists all.

    >>> some(["none", "learned"])
    'none, learned'
    """
    names = list(names)
    if len(names) <= SHOWN or not command:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more (`{command}` lists them)"


def offer(name: str, names: Iterable[str], prefix: str = "", command: str = "") -> str:
    """``did you mean ...?`` with the nearest name, or `some` names if none is similar.

    >>> offer("num_head", ["num_heads", "num_layers"])
    'did you mean num_heads?'
    """
    names = list(names)
    close = nearest(name, names)
    if close:
        return f"did you mean {prefix}{close}?"
    return f"there {'is' if len(names) == 1 else 'are'} {some(names, command)}"
