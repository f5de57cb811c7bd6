"""Singular values of attention matrices, Wang et al. 2020 (Linformer, arXiv 2006.04768), section 3.1 and figure 1.

The figure draws, for each layer and head, the sum of the largest k singular values as a share of the sum of all: where
it rises early, a matrix of low rank says nearly the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

#: Shares of the number of singular values at which the curves of texts of several lengths are read.
GRID = np.linspace(0.0, 1.0, 65)


def cumulative_spectrum(weights: Float[np.ndarray, "L N T S"]) -> Float[np.ndarray, "L N K"]:
    """The sum of the k largest singular values as a share of all, k = 1 ... K = min(T, S); of a map of zeros 0."""
    values = np.linalg.svd(np.asarray(weights, np.float64), compute_uv=False)
    total = np.sum(values, axis=2, keepdims=True)
    return np.divide(np.cumsum(values, axis=2), total, out=np.zeros_like(values), where=total > 0)


def mean_spectrum(maps: Iterable[Float[np.ndarray, "L N T S"]]) -> Float[np.ndarray, "L N G"]:
    """The mean curve over examples at `GRID`, the share of singular values taken."""
    curves = []
    for weights in maps:
        found = cumulative_spectrum(weights)
        count = found.shape[2]
        from_zero = np.concatenate([np.zeros((*found.shape[:2], 1)), found], axis=2)
        read = lambda curve, count=count: np.interp(GRID, np.arange(count + 1) / count, curve)
        curves.append(np.apply_along_axis(read, 2, from_zero))
    return np.mean(curves, axis=0)


def rank_for(curve: Float[np.ndarray, "G"], share: float = 0.9) -> float:
    """Which share of the singular values holds that share of their sum.

    >>> round(rank_for(GRID, 0.9), 3)  # all alike
    0.9
    """
    return float(np.interp(share, curve, GRID))
