"""Halving a sequence by the mean of its pairs, as the Funnel Transformer does (Dai et al. 2020, arXiv 2006.03236)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Shaped


def in_pairs(x: Shaped[Array, "B S *A"]) -> Shaped[Array, "B P 2 *A"]:
    """Positions 2i and 2i + 1 side by side; a last one alone is paired with zeros."""
    x = jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), *((0, 0),) * (x.ndim - 2)))
    return x.reshape(x.shape[0], -1, 2, *x.shape[2:])


def halved(real: Bool[Array, "B S"]) -> Bool[Array, "B P"]:
    """A pair is real where either of its two is.

    >>> halved(jnp.asarray([[True, True, True, False, False]])).tolist()
    [[True, True, False]]
    """
    return jnp.any(in_pairs(real), axis=2)


class PairMean(nnx.Module):
    """[B S D] -> [B P D], P = S / 2 rounded up; owns nothing.

    A mean is over the real ones of a pair, so that how far a row is padded changes nothing; the released code of Narang
    et al. 2021 takes padding into the one pair that straddles a row's end. A pair of padding gives 0.
    """

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(
        self, x: Float[Array, "B S D"], *, real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P D"], dict[str, Any]]:
        """(means, nothing beside them)."""
        there = in_pairs(real).astype(x.dtype)
        weights = there / jnp.maximum(jnp.sum(there, axis=2, keepdims=True), 1)
        return jnp.einsum("BPCD,BPC->BPD", in_pairs(x), weights), {}
