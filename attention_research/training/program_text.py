"""The StableHLO of a traced function as canonical text, independent of names and source locations.

The same computation gives the same text in every process and folder, and with every choice of names. Another operation,
constant, shape or order of operations gives another text. The text depends on the version of JAX.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import jax

_SYMBOL = re.compile(r'@(?:"[^"]*"|[\w.$-]+)')
#: Attributes to remove: names of results and scopes, the number of devices, the buffers that may be reused.
_NOISE = re.compile(
    r"(?:jax\.result_info|mhlo\.num_partitions|mhlo\.num_replicas|tf\.aliasing_output|jax\.buffer_donor|mhlo\.frontend_attributes)"
    r' = (?:"(?:[^"\\]|\\.)*"|true|false|\d+(?: : i\d+)?|\{[^{}]*\})(?:, )?'
)
_EMPTY = re.compile(r"(?: attributes)? \{\}(?= \{|[,)]|$)", re.MULTILINE)
_FUNCTION = re.compile(r'^module (@(?:"[^"]*"|[\w.$-]+))|func\.func (?:public |private )?(@(?:"[^"]*"|[\w.$-]+))')


def program_text(function: Callable[..., Any], *shapes: Any) -> str:
    """The canonical text of a function for arguments of these shapes (`jax.ShapeDtypeStruct`).

    Nothing is allocated or compiled.

    >>> x = jax.ShapeDtypeStruct((3,), "float32")
    >>> program_text(lambda a: a * 2, x) == program_text(lambda b: b * 2, x) != program_text(lambda a: a * 3, x)
    True
    """
    return canonical(jax.jit(function).trace(*shapes).lower().as_text())


def canonical(text: str) -> str:
    """The text with its functions numbered in their order of appearance, and without the attributes of `_NOISE`."""
    names: dict[str, str] = {}
    for line in text.splitlines():
        found = _FUNCTION.search(line.strip() if line.startswith("module") else line)
        if found:
            name = found[1] or found[2]
            names.setdefault(name, f"@f{len(names)}")
    text = _SYMBOL.sub(lambda found: names.get(found[0], found[0]), text)
    return _EMPTY.sub("", _NOISE.sub("", text))


def digest(*texts: str) -> str:
    """A hash of some texts, as 12 hex digits."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
