"""Parses lists of values of a setting, ``PATH=v1,v2``, for `sweep --over` (all combinations) and `training.varied`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attention_research.config.errors import ConfigError

_PAIRS = {"(": ")", "[": "]", "{": "}"}


def parse_over(text: str) -> tuple[str, list[str]]:
    """Parses ``PATH=v1,v2`` to (path, values). Commas inside brackets or quotes belong to a value.

    >>> parse_over("model.betas=(0.9,0.98),(0.9,0.999)")
    ('model.betas', ['(0.9,0.98)', '(0.9,0.999)'])
    """
    path, values = _list(text, f"--over {text}")
    if len(set(values)) < len(values):
        raise ConfigError(f"--over {text}: a value of {path} is given twice")
    return path, values


def parse_varied(texts: Iterable[str]) -> dict[str, list[str]]:
    """Path -> values of `training.varied`. Values may repeat.

    An item without ``=`` continues the previous list, so that the command line does not need quotes:

    >>> parse_varied("training.learning_rate=1,3,3,model.dropout_rate=0,0,0.1".split(","))
    {'training.learning_rate': ['1', '3', '3'], 'model.dropout_rate': ['0', '0', '0.1']}
    """
    whole: list[str] = []
    for text in texts:
        whole.append(text if "=" in text or not whole else f"{whole.pop()},{text}")
    lists: dict[str, list[str]] = {}
    for text in whole:
        path, values = _list(text, f"config.training.varied: {text}")
        if path in lists:
            raise ConfigError(f"config.training.varied: {path} is given twice")
        lists[path] = values
    return lists


def _list(text: str, said: str) -> tuple[str, list[str]]:
    path, equals, rest = text.partition("=")
    path = path.strip().removeprefix("config.")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", path):
        raise ConfigError(f"{said}: expected PATH=VALUE,VALUE, such as model.num_heads=1,4,8")
    values = [value.strip() for value in _split(rest, said)]
    if not all(values):
        raise ConfigError(f"{said}: {path} has an empty value")
    return path, values


def _split(text: str, said: str) -> list[str]:
    """Splits a text at the commas outside brackets and quotes."""
    parts, closing, quote = [""], [], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            closing.append(_PAIRS[character])
        elif character in _PAIRS.values():
            if not closing or closing.pop() != character:
                raise ConfigError(f"{said}: {character!r} has no opening bracket")
        if character == "," and not closing and not quote:
            parts.append("")
        else:
            parts[-1] += character
    if closing or quote:
        raise ConfigError(f"{said}: {closing[-1] if closing else quote!r} is missing")
    return parts
