"""Cosine scores, Graves, Wayne & Danihelka 2014 (arXiv 1410.5401), equation 6: e_ij = q_i^T k_j / (|q_i| |k_j|).

This is the dot product of the normalized vectors. It is between -1 and 1, so that a softmax over it is flat unless the
scores are sharpened. `temperature` divides the scores; its inverse is the key strength beta of the paper (equation 5).
A learned temperature is tau of Swin Transformer V2, where it is at least 0.01. A zero vector has score 0 and gradient
0.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.directions import direction
from attention_research.kernels.precision import einsum
from attention_research.kernels.scores.arguments import check_scores
from attention_research.kernels.shapes import check_shapes


def cosine_scores(
    query: Float[Array, "B T D"],
    keys: Float[Array, "B S D"],
    temperature: Float[Array, ""] | float | int | None = None,
) -> Float[Array, "B T S"]:
    """The cosine of all queries and keys, divided by `temperature` if it is given, in float32.

    Raises ValueError naming the argument and the axis.

    >>> query, keys = jnp.array([[[1.0, 0.0]]]), jnp.array([[[5.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]])
    >>> print(cosine_scores(query, keys))  # lengths do not matter
    [[[ 1.  0. -1.]]]
    """
    check_scores((query, "B T D"), (keys, "B S D"))
    scores = einsum("BTD,BSD->BTS", direction(query), direction(keys))
    if temperature is None:
        return scores
    temperature = jnp.asarray(temperature, scores.dtype)
    check_shapes(temperature=(temperature, ""))
    return scores / temperature
