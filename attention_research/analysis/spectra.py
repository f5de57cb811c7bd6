"""Singular values of attention matrices, Wang et al. 2020 (Linformer, arXiv 2006.04768), section 3.1 and figure 1.

For each layer and head, the figure shows the sum of the k largest singular values relative to the sum of all. If this
curve rises early, a matrix of low rank approximates the attention matrix well.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

#: Fractions of the number of singular values at which the curves of texts of different lengths are compared.
GRID = np.linspace(0.0, 1.0, 65)


def cumulative_spectrum(weights: Float[np.ndarray, "L N T S"]) -> Float[np.ndarray, "L N K"]:
    """The sum of the k largest singular values relative to the sum of all, for k = 1 ... K = min(T, S). 0 for a map of
    zeros."""
    values = np.linalg.svd(np.asarray(weights, np.float64), compute_uv=False)
    total = np.sum(values, axis=2, keepdims=True)
    return np.divide(np.cumsum(values, axis=2), total, out=np.zeros_like(values), where=total > 0)


def mean_spectrum(maps: Iterable[Float[np.ndarray, "L N T S"]]) -> Float[np.ndarray, "L N G"]:
    """The mean curve over examples at `GRID`, the fraction of singular values."""
    curves = []
    for weights in maps:
        found = cumulative_spectrum(weights)
        count = found.shape[2]
        from_zero = np.concatenate([np.zeros((*found.shape[:2], 1)), found], axis=2)
        read = lambda curve, count=count: np.interp(GRID, np.arange(count + 1) / count, curve)
        curves.append(np.apply_along_axis(read, 2, from_zero))
    return np.mean(curves, axis=0)


def rank_for(curve: Float[np.ndarray, "G"], share: float = 0.9) -> float:
    """The fraction of the singular values that is needed to reach the given `share` of their sum.

    >>> round(rank_for(GRID, 0.9), 3)  # equal singular values
    0.9
    """
    return float(np.interp(share, curve, GRID))
