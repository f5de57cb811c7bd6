"""Attention rollout, Abnar & Zuidema 2020 (arXiv 2005.00928), section 3: estimates how the input reaches each layer.

    R_0 = I,  R_l = (W_l + I) / 2  R_{l-1}

W_l is the mean of the attention weights of all heads in layer l, and I accounts for the residual connection. Row i of
R_l estimates how much of each input position is contained in position i after layer l, ignoring value projections and
feed-forward layers.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from attention_research.analysis.head_statistics import has_negative


def rollout(weights: Float[np.ndarray, "L N T T"]) -> Float[np.ndarray, "L T T"]:
    """R_1 to R_L of one sequence. Rows sum to 1: those of (W_l + I) / 2 are divided by their sums, as in the released
    code, because the weights of some mechanisms do not sum to 1. Raises ValueError if the maps are not square, and for
    negative weights, which are no shares.

    >>> uniform = np.full((2, 1, 3, 3), 1 / 3)  # two layers, one head
    >>> print(rollout(uniform)[1], rollout(uniform)[1].sum(axis=-1))
    [[0.5  0.25 0.25]
     [0.25 0.5  0.25]
     [0.25 0.25 0.5 ]] [1. 1. 1.]
    """
    if weights.shape[2] != weights.shape[3]:
        raise ValueError(f"rollout: self-attention is square, got {weights.shape[2]} x {weights.shape[3]}")
    if has_negative(weights):
        raise ValueError("rollout: some weights are negative")
    found, so_far = [], np.eye(weights.shape[2])
    for layer in np.asarray(weights, np.float64).mean(axis=1):
        mixed = layer + np.eye(len(layer))
        so_far = mixed / mixed.sum(axis=-1, keepdims=True) @ so_far
        found.append(so_far)
    return np.stack(found)
