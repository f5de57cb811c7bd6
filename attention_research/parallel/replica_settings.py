"""Scalar settings that differ between replicas of one program.

A module or a task holds a `Varied` in place of the number. Code that uses the number calls `value`. The vmapped step
opens a `scope` around each replica; within it, `value` returns the replica's own array (a tracer). Outside it, `value`
returns a Python float.

>>> rate = Varied(0.1, "model.dropout_rate")
>>> with scope({"model.dropout_rate": 0.3}):
...     value(rate), value(0.5)
(0.3, 0.5)
>>> value(rate)
0.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_values: ContextVar[Mapping[str, Any] | None] = ContextVar("values of varied settings", default=None)


class Varied(float):
    """A setting that varies: a float with the first replica's number, and the path of the setting in the config."""

    path: str

    def __new__(cls, number: float, path: str) -> Varied:
        one = super().__new__(cls, number)
        one.path = path
        return one

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.path  # for copies and pickles


@contextmanager
def scope(values: Mapping[str, Any]) -> Iterator[None]:
    """Sets the values of one replica, path -> scalar, while it is traced."""
    before = _values.set(values)
    try:
        yield
    finally:
        _values.reset(before)


def value(x: Any) -> Any:
    """The number to compute with: x itself, or for a `Varied` the scope's array. Outside a scope, its own float."""
    if not isinstance(x, Varied):
        return x
    values = _values.get()
    return float(x) if values is None else values[x.path]
