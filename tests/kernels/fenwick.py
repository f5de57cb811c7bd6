"""Log-linear attention by its definition in float64 NumPy: sums over all positions, with a weight for each level."""

from __future__ import annotations

import numpy as np


def levels(place):
    """The level of each of the positions 0 to `place`: the Fenwick tree cuts off the lowest bit of the end."""
    found, end = np.zeros(place + 1, int), place
    while end:
        size = end & -end
        found[end - size : end] = 1 + np.log2(size)
        end -= size
    return found


def sums_of_levels(given, weights, real, reset):
    """(outputs [T N Hv], the blocks' states after the last position) of one sequence, by sums over all positions."""
    q, k, v, g = (np.asarray(given[name], np.float64) for name in ("query", "key", "value", "log_decay"))
    out, states, seen = np.zeros(v.shape), np.zeros((q.shape[1], weights.shape[2], q.shape[2], v.shape[2])), []
    for t in range(len(q)):
        seen = [] if reset[t] else seen
        now = [*seen, t]
        for n in range(q.shape[1]):
            for level, j in zip(levels(len(seen)), now, strict=True):
                if real[j]:
                    decay = np.exp(sum(g[i, n] for i in now if i > j and real[i]))
                    out[t, n] += weights[t, n, level] * decay * (q[t, n] @ k[j, n]) * v[j, n] * given["scale"]
        seen = now if real[t] else seen
    for n in range(q.shape[1]):
        for level, j in zip(levels(len(seen)), seen, strict=False):  # the next position is the last level
            decay = np.exp(sum(g[i, n] for i in seen if i > j))
            states[n, level - 1] += decay * np.outer(k[j, n], v[j, n])
    return out, states, len(seen)
