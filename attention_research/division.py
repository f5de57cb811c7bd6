"""Which numbers of rows and which lengths a mesh splits equally. Imports no JAX, so that checks are fast.

The rule holds for every device along an axis to have an equal share. A config is checked as far as it gives the sizes
of its mesh (`constraints`), and again on the machine, where the number of devices is known (`parallel.execution`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def uneven_rows(rows: int, sizes: Mapping[str, int], parts: int = 1) -> str | None:
    """The message for a batch that mesh axes of these sizes do not split equally, in each of `parts` accumulation
    steps; None if they do. `sizes` has only the axes over which rows are split.

    >>> uneven_rows(6, {"data": 4})
    'expected a multiple of 4, because parallel.mesh.data is 4; got 6; did you mean 4 or 8?'
    """
    axes = {f"parallel.mesh.{axis} is {size}": size for axis, size in sizes.items() if size > 1}
    return _no_multiple(rows, axes, parts)


def uneven_under_pmap(rows: int, devices: int, parts: int = 1) -> str | None:
    """The same for `pmap`, which splits the rows over all devices."""
    return _no_multiple(rows, {f"pmap splits the rows over {devices} devices": devices} if devices > 1 else {}, parts)


def uneven_lengths(lengths: Iterable[int], size: int, of: str = "batches") -> str | None:
    """The message for sequences of these lengths that the mesh axis `sequence` does not split equally; None if it does.

    >>> uneven_lengths([12, 30], 4)
    'expected a divisor of the lengths of batches, 12 and 30; got 4; did you mean 3 or 6?'
    """
    lengths = sorted(set(lengths))
    common = math.gcd(*lengths)
    if common % size == 0:
        return None
    below = next(one for one in range(min(size, common), 0, -1) if common % one == 0)
    above = [one for one in range(size, common + 1) if common % one == 0][:1]
    what = f"the length{'s' if len(lengths) > 1 else ''} of {of}"
    said = " and ".join(filter(None, (", ".join(map(str, lengths[:-1])), str(lengths[-1]))))
    return f"expected a divisor of {what}, {said}; got {size}; did you mean {_either(below, *above)}?"


def _no_multiple(rows: int, shares: Mapping[str, int], parts: int) -> str | None:
    """The message for a number of rows that is not a multiple of all numbers together; None if it is. `shares` are
    reason -> number."""
    reasons = {**shares, **({f"training.accumulation_steps is {parts}": parts} if parts > 1 else {})}
    product = math.prod(reasons.values())
    if rows % product == 0:
        return None
    below = rows // product * product
    near = _either(*([below] if below else []), below + product)
    return f"expected a multiple of {product}, because {' and '.join(reasons)}; got {rows}; did you mean {near}?"


def _either(*numbers: int) -> str:
    return " or ".join(map(str, numbers))
