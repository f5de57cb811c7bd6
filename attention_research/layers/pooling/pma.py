"""Pooling by multihead attention, Lee et al. 2019 (arXiv 1810.00825), equation 11: MAB(S, X), seeds S learned [K D].

The released code has no feed-forward on X before the block, which the paper's equation has.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.layers.linear import glorot_uniform
from attention_research.layers.sets.attention_block import SetAttentionBlock
from attention_research.signatures import Given, Positive


class SeedPooling(nnx.Module):
    """The outputs of `num_seeds` seeds, one after the other: [B K*D]. "weights" are the mean over heads and seeds.

    `num_heads` is the number of heads, which must divide the width. `normalize` adds the block's layer norms. A text
    without tokens has the vectors of the seeds alone and weights of 0.
    """

    def __init__(
        self,
        *,
        num_seeds: Positive = 1,
        num_heads: Positive = 1,
        normalize: bool = False,
        input_width: Given[int],
        rngs: nnx.Rngs,
    ):
        self.output_width = num_seeds * input_width
        self.seeds = nnx.Param(glorot_uniform(rngs.params(), (num_seeds, input_width), jnp.float32))
        self.attention = SetAttentionBlock(width=input_width, num_heads=num_heads, normalize=normalize, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B S D"], batch: Mapping[str, Array], real: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B P"], dict[str, Float[Array, "B S"]]]:
        del batch
        seeds = jnp.broadcast_to(self.seeds[...].astype(x.dtype), (x.shape[0], *self.seeds.shape))
        y, weights = self.attention(seeds, x, real)
        return y.reshape(x.shape[0], -1), {"weights": jnp.mean(weights, axis=(1, 2)).astype(jnp.float32)}
