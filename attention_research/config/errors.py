"""The one-line errors of arguments and configs, and the nearest valid name that they offer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attention_research.errors import ConfigError


class SchemaError(ConfigError):
    """A constructor's signature cannot serve as a schema: a mistake in the package, not in the config."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of `names`, or None where none is close."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def offer(name: str, names: Iterable[str], prefix: str = "") -> str:
    """``did you mean ...?``, or the list of what there is."""
    names = list(names)
    close = nearest(name, names)
    if close:
        return f"did you mean {prefix}{close}?"
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
