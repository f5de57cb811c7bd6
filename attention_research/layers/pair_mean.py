"""Halves a sequence by averaging pairs, as in the Funnel Transformer, Dai et al. 2020 (arXiv 2006.03236)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Shaped


def in_pairs(x: Shaped[Array, "B S *A"]) -> Shaped[Array, "B P 2 *A"]:
    """Groups positions 2i and 2i + 1. If the length is odd, the last position is paired with zeros."""
    x = jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), *((0, 0),) * (x.ndim - 2)))
    return x.reshape(x.shape[0], -1, 2, *x.shape[2:])


def halved(real: Bool[Array, "B S"]) -> Bool[Array, "B P"]:
    """The mask of real pairs: a pair is real if at least one of its positions is real.

    >>> halved(jnp.asarray([[True, True, True, False, False]])).tolist()
    [[True, True, False]]
    """
    return jnp.any(in_pairs(real), axis=2)


class PairMean(nnx.Module):
    """The mean of each pair of positions: [B S D] -> [B P D], where P is S / 2 rounded up. It has no parameters.

    The mean is over the real positions of a pair, so that the result does not depend on the amount of padding. The
    released code of Narang et al. 2021 includes padding in the pair at the end of a row. A pair of two padding
    positions gives 0.
    """

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(
        self, x: Float[Array, "B S D"], *, real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P D"], dict[str, Any]]:
        """Returns (means, {})."""
        there = in_pairs(real).astype(x.dtype)
        weights = there / jnp.maximum(jnp.sum(there, axis=2, keepdims=True), 1)
        return jnp.einsum("BPCD,BPC->BPD", in_pairs(x), weights), {}
