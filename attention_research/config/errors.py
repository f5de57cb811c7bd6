"""One-line errors for arguments and configs, with a suggestion of the nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attention_research.errors import ConfigError


class SchemaError(ConfigError):
    """The signature of a constructor cannot be used as a schema. This is an error in the code, not in the config."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, or None if none is similar enough.

    >>> nearest("num_head", ["num_heads", "num_layers"])
    'num_heads'
    """
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def offer(name: str, names: Iterable[str], prefix: str = "") -> str:
    """``did you mean ...?`` with the nearest name, or the list of all names if none is similar.

    >>> offer("num_head", ["num_heads", "num_layers"])
    'did you mean num_heads?'
    """
    names = list(names)
    close = nearest(name, names)
    if close:
        return f"did you mean {prefix}{close}?"
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
