"""Statistics of each attention head over a sample of a split (after Clark et al. 2019, arXiv 1906.04341).

The statistics of every row of weights with at least two visible positions are "entropy" relative to its maximum,
"distance" |i - j| in tokens, and the weight on the position of the query ("diagonal"), on the position before it
("previous") and on the first position ("first"). Results have shape [L N]. In cross-attention, queries and keys belong
to different sequences, so distance and diagonal only compare their positions.

Some kinds of attention have weights that are negative (differential attention) or do not sum to 1 (sigmoid). Entropy,
distance and the divergence between heads are then those of the shares |w| / sum |w| of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

STATISTICS = ("entropy", "distance", "diagonal", "previous", "first")
#: The largest error of a sum of weights in bfloat16.
_ROUNDING = 0.01
Heads = Float[np.ndarray, "L N"]


def head_statistics(maps: Iterable[Float[np.ndarray, "L N T S"]], *, is_causal: bool = False) -> Mapping[str, Heads]:
    """The mean statistics over all rows of all maps, with equal weight for each row.

    With `is_causal`, row i sees positions 0 to i. Raises ValueError if no row sees at least two positions.
    """
    sums: dict[str, Heads] = {}
    rows = 0
    for weights in maps:
        weights = np.asarray(weights, np.float64)
        length, width = weights.shape[2:]
        query, key = np.arange(length)[:, None], np.arange(width)[None]
        seen = np.minimum(query[:, 0] + 1, width) if is_causal else np.full(length, width)
        several = seen > 1
        if not several.any():
            continue
        parts = shares(weights)
        logs = np.log(np.where(parts > 0, parts, 1.0))
        by_row = {
            "entropy": -(parts * logs).sum(axis=3) / np.log(np.maximum(seen, 2)),
            "distance": (parts * np.abs(query - key)).sum(axis=3),
            "diagonal": _at(weights, query[:, 0]),
            "previous": _at(weights, query[:, 0] - 1),
            "first": weights[..., 0],
        }
        for name, values in by_row.items():
            sums[name] = sums.get(name, 0.0) + values[..., several].sum(axis=2)
        rows += int(several.sum())
    if not rows:
        raise ValueError("head_statistics: no row sees two positions")
    return {name: sums[name] / rows for name in STATISTICS}


def shares(weights: Float[np.ndarray, "L N T S"]) -> Float[np.ndarray, "L N T S"]:
    """The share of each key in the absolute weights of a row. Rows that sum to 1 to a hundredth are not divided by it,
    nor is a row of zeros.

    >>> shares(np.array([[[[0.5, 0.5], [3.0, -1.0]]]])).tolist()
    [[[[0.5, 0.5], [0.75, 0.25]]]]
    """
    sizes = np.abs(weights)
    sums = sizes.sum(axis=3, keepdims=True)
    return np.divide(sizes, sums, out=sizes, where=(np.abs(sums - 1) > _ROUNDING) & (sums > 0))


def has_negative(weights: Float[np.ndarray, "L N T S"]) -> bool:
    """Whether some weights are negative, so that they are no shares of the keys."""
    return bool((weights < 0).any())


def _at(weights: Float[np.ndarray, "L N T S"], places: np.ndarray) -> Float[np.ndarray, "L N T"]:
    """The weight of each row at one position, or 0 if the position does not exist."""
    there = (places >= 0) & (places < weights.shape[3])
    taken = weights[:, :, np.arange(len(places)), np.where(there, places, 0)]
    return np.where(there, taken, 0.0)


def divergence(maps: Iterable[Float[np.ndarray, "L N T S"]]) -> Float[np.ndarray, "L"]:
    """The mean Jensen-Shannon divergence, in bits, between pairs of heads of a layer, over all rows.

    It is 0 for equal heads, and 1 for heads that never attend to the same position.

    >>> maps = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]]])  # [L N T S]: two heads that look at different positions
    >>> divergence([maps]).tolist()
    [1.0]
    """
    total: Any = 0.0
    rows = 0
    for weights in maps:
        weights = shares(np.asarray(weights, np.float64))
        heads = weights.shape[1]
        pairs = [(a, b) for a in range(heads) for b in range(a)]
        if not pairs:
            return np.zeros(weights.shape[0])
        entropy = lambda p: -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1)
        apart = [
            entropy((weights[:, a] + weights[:, b]) / 2) - (entropy(weights[:, a]) + entropy(weights[:, b])) / 2
            for a, b in pairs
        ]
        total = total + np.mean(apart, axis=0).sum(axis=1)
        rows += weights.shape[2]
    return total / rows
