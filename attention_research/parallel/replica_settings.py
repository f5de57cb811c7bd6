"""Scalar settings that differ between replicas: numbers to Python, arrays to the program in which all replicas run.

A `Varied` stands in a module or a task where the number would stand. Who uses the number asks `value` for it: within a
`scope`, which the vmapped step opens around one replica, that is the replica's own array, a tracer.

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
    """The first replica's number, equal to it and hashed as it is, with the path of its setting in the config."""

    path: str

    def __new__(cls, number: float, path: str) -> Varied:
        one = super().__new__(cls, number)
        one.path = path
        return one

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.path  # what a copy is made from


@contextmanager
def scope(values: Mapping[str, Any]) -> Iterator[None]:
    """While a replica is traced: path -> its scalar."""
    before = _values.set(values)
    try:
        yield
    finally:
        _values.reset(before)


def value(x: Any) -> Any:
    """The number to compute with: x itself, or of a `Varied` the scope's array; outside of a scope its own float."""
    if not isinstance(x, Varied):
        return x
    values = _values.get()
    return float(x) if values is None else values[x.path]
