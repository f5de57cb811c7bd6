"""Numbers of parameters and their bytes, in total and for each part of a model."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from attention_research.accounting.memory import size_in_bytes


class ParameterRow(NamedTuple):
    """The parameters whose names start with `prefix`: numbers of arrays, of parameters and of bytes."""

    prefix: str
    arrays: int
    parameters: int
    bytes: int


def count_parameters(parameters: Mapping[str, Any]) -> int:
    """The number of parameters: the total size of these arrays, or of their `jax.ShapeDtypeStruct`.

    Stacked layers all count.
    """
    return sum(_numbers(array) for array in parameters.values())


def by_prefix(parameters: Mapping[str, Any], depth: int = 1) -> list[ParameterRow]:
    """One row for each prefix of `depth` parts of the dotted names, in the order of first appearance.

    >>> import jax
    >>> shapes = {"encoder.norm.scale": jax.ShapeDtypeStruct((7,), "float32")}
    >>> by_prefix(shapes)
    [ParameterRow(prefix='encoder', arrays=1, parameters=7, bytes=28)]
    """
    if depth < 1:
        raise ValueError(f"depth: expected at least 1, got {depth}")
    rows: dict[str, ParameterRow] = {}
    for name, array in parameters.items():
        prefix = ".".join(name.split(".")[:depth])
        _, arrays, numbers, size = rows.get(prefix, ParameterRow(prefix, 0, 0, 0))
        rows[prefix] = ParameterRow(prefix, arrays + 1, numbers + _numbers(array), size + size_in_bytes(array))
    return list(rows.values())


def _numbers(array: Any) -> int:
    count = 1
    for axis in array.shape:
        count *= axis
    return count
