"""Norms of gradients by distance in time, through a recurrence with and without attention.

Through the recurrence alone the gradient at distance k is a product of k Jacobians (Pascanu, Mikolov & Bengio 2013,
equation 5), so its norm decreases or increases about exponentially in k. A readout that also attends to all states adds
a path of one step from every position (Bahdanau, Cho & Bengio 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.kernels import attend, dot_scores
from attention_research.layers.recurrent.scan import run
from attention_research.layers.structure import split

#: Smaller norms have lost precision in float32 and are left out of the fit.
SMALLEST = 1e-30


def with_gain(cell: Any, gain: float) -> Any:
    """Multiplies the recurrent weights of a cell by `gain`. If they are orthogonal, all singular values equal
    `gain`."""
    structure, parameters, _ = split(cell)
    return structure.merge({name: x * gain if name.endswith("state_kernel") else x for name, x in parameters.items()})


def readout(cell: Any, x: Float[Array, "B T I"], *, attention: bool) -> Float[Array, "B D"]:
    """Returns the last state `h_T`, or with attention `h_T + sum_t softmax_t(h_T . h_t / sqrt(D)) h_t`."""
    states, last = run(cell, x, cell.initial(x.shape[0], x.dtype))
    hidden = last["hidden"]
    if not attention:
        return hidden
    scores = dot_scores(hidden[:, None], states) * hidden.shape[-1] ** -0.5
    return hidden + attend(scores, states)[0][:, 0]


def gradient_norms(
    cell: Any, x: Float[Array, "B T I"], direction: Float[Array, "B D"], *, attention: bool = False
) -> Float[Array, "B T"]:
    """At [b, k]: the norm of the gradient of `<readout, direction>` with respect to the input k steps before the
    last."""
    gradient = jax.grad(lambda x: jnp.sum(readout(cell, x, attention=attention) * direction))(x)
    return jnp.linalg.norm(gradient, axis=-1)[:, ::-1]


def summary(norms: np.ndarray) -> Mapping[str, Any]:
    """Summarizes norms [B K] by distance.

    Returns "log_norms" (the mean of log10 over rows), "slope" (of the line through them, in decades per step), "fit"
    (R^2, the share of variance that the line explains) and "log_ratio" (log10 of the farthest to the nearest norm).
    Where a norm is too small or too large for float32, "log_norms" is None and the distance is left out of the line;
    "log_ratio" is then the ratio on the line.

    >>> found = summary(np.array([[8.0, 4.0, 2.0, 1.0]]))
    >>> round(10 ** found["slope"], 6), round(found["fit"], 6), round(10 ** found["log_ratio"], 6)
    (0.5, 1.0, 0.125)
    """
    norms = np.asarray(norms, np.float64)
    good = np.all((norms > SMALLEST) & np.isfinite(norms), axis=0)
    distances = np.flatnonzero(good)
    if len(distances) < 2:
        return {"log_norms": [None] * norms.shape[1], "slope": None, "fit": None, "log_ratio": None}
    logs = np.log10(norms[:, good]).mean(axis=0)
    slope, start = np.polyfit(distances, logs, 1)
    spread = np.sum((logs - logs.mean()) ** 2)
    left = np.sum((logs - start - slope * distances) ** 2)
    ratio = logs[-1] - logs[0] if good[0] and good[-1] else slope * (norms.shape[1] - 1)
    by_distance = dict(zip(distances.tolist(), logs.tolist(), strict=True))
    return {
        "log_norms": [by_distance.get(k) for k in range(norms.shape[1])],
        "slope": float(slope),
        "fit": float(1 - left / spread) if spread > 0 else 0.0,
        "log_ratio": float(ratio),
    }
