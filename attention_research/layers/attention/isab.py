"""Induced set attention, Lee et al. 2019 (arXiv 1810.00825), equations 9 and 10: MAB(X, MAB(I, X)), I learned [M D].

The M inducing points summarise the set, and each element reads the summary: time and memory are linear in the length.
The block MAB has its own residuals and feed-forward (`layers.sets.attention_block`). The paper's encoder therefore has
``steps=(("self_attention",),)``.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.multi_head import Mask, Where, keys_alone
from attention_research.layers.linear import glorot_uniform
from attention_research.layers.sets.attention_block import SetAttentionBlock
from attention_research.signatures import Positive


class InducedSetAttention(nnx.Module):
    """ISAB: permuting the elements permutes the result.

    `num_points` is M, the number of inducing points. `normalize` adds layer norms to both blocks. aux holds the weights
    [B N T M] of the points.
    """

    cost = (None, 1)

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        num_points: Positive = 16,
        normalize: bool = False,
        rngs: nnx.Rngs,
    ):
        self.points = nnx.Param(glorot_uniform(rngs.params(), (num_points, width), jnp.float32))
        self.summary_attention = SetAttentionBlock(width=width, num_heads=num_heads, normalize=normalize, rngs=rngs)
        self.reading_attention = SetAttentionBlock(width=width, num_heads=num_heads, normalize=normalize, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T D"], *, mask: Mask | None = None, shared: nnx.Module | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Equation 10. Raises ValueError if the mask is not a key mask [B 1 1 S]."""
        del shared
        real = keys_alone(Where(mask), "isab")
        points = jnp.broadcast_to(self.points[...].astype(x.dtype), (x.shape[0], *self.points.shape))
        summary, _ = self.summary_attention(points, x, None if real is None else jnp.broadcast_to(real, x.shape[:2]))
        y, weights = self.reading_attention(x, summary)
        return y, {"attention_weights": weights}
