"""Measures of the saturation of a softmax: variance of logits, entropy, largest weight, and norm of the Jacobian.

Vaswani et al. 2017, section 3.2.1: the dot product of two vectors of H independent numbers of variance 1 has variance
H, and a softmax of large logits "has extremely small gradients". The Jacobian of a row p of weights with respect to its
logits is diag(p) - p p^T.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Bool, Float

#: Smaller weights are replaced by this value, about the smallest normal number of float32.
SMALLEST = 1e-38


def saturation(weights: Float[np.ndarray, "R S"], seen: Bool[np.ndarray, "R S"] | None = None) -> dict[str, float]:
    """Means over the rows with at least two visible keys.

    "logit_variance" is the variance of log p over the keys, which equals that of the logits. "entropy" is divided by
    its maximum, the log of the number of visible keys. "largest" is the largest weight. "jacobian" is the Frobenius
    norm of `diag(p) - p p^T`.

    >>> {name: round(value, 6) for name, value in saturation(np.full((1, 4), 0.25)).items()}
    {'logit_variance': 0.0, 'entropy': 1.0, 'largest': 0.25, 'jacobian': 0.433013}
    """
    weights = np.asarray(weights, np.float64)
    seen = np.ones(weights.shape, bool) if seen is None else np.asarray(seen)
    several = seen.sum(axis=1) > 1
    p, seen = np.where(seen, weights, 0.0)[several], seen[several]
    count = seen.sum(axis=1)
    logs = np.where(seen, np.log(np.maximum(p, SMALLEST)), 0.0)
    mean = logs.sum(axis=1) / count
    squares, cubes = (p**2).sum(axis=1), (p**3).sum(axis=1)
    rows = {
        "logit_variance": np.where(seen, (logs - mean[:, None]) ** 2, 0.0).sum(axis=1) / count,
        "entropy": -(p * logs).sum(axis=1) / np.log(count),
        "largest": p.max(axis=1),
        "jacobian": np.sqrt(np.maximum(squares - 2 * cubes + squares**2, 0.0)),
    }
    return {name: float(values.mean()) for name, values in rows.items()}


def of_maps(maps: Iterable[Float[np.ndarray, "T S"]]) -> Mapping[str, float]:
    """Computes `saturation` over maps of several shapes together; every row counts once."""
    parts = [(saturation(one), len(one)) for one in maps if one.shape[1] > 1]
    total = sum(rows for _, rows in parts)
    return {name: sum(found[name] * rows for found, rows in parts) / total for name in parts[0][0]}
