"""The multihead attention block of Set Transformers, Lee et al. 2019 (arXiv 1810.00825), equations 6 and 7.

    MAB(X, Y) = H + relu(H W_O + b_O),    H = Q + softmax(Q K^T / sqrt(D)) V

This follows the released code: Q, the projection of X, is the residual, the scale has the whole width D, and there is
no output projection before the feed-forward, which has one layer. With `normalize`, a layer norm follows H and the
block, as in the paper; the released models have none by default.
"""

from __future__ import annotations

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.errors import ConfigError
from attention_research.kernels.attention import attention_weights
from attention_research.kernels.masks import padding_mask
from attention_research.kernels.sets import set_attention
from attention_research.layers.linear import Linear
from attention_research.layers.norms.layer_norm import LayerNorm


class SetAttentionBlock(nnx.Module):
    """MAB of equal widths D with `num_heads` heads. Raises ConfigError if the heads do not divide D."""

    def __init__(self, *, width: int, num_heads: int, normalize: bool, rngs: nnx.Rngs):
        if width % num_heads:
            raise ConfigError(f"num_heads: {num_heads} heads do not divide the width {width}")
        self.num_heads = num_heads
        self.query = Linear(width, width, rngs=rngs)
        self.key = Linear(width, width, rngs=rngs)
        self.value = Linear(width, width, rngs=rngs)
        self.output = Linear(width, width, rngs=rngs)
        self.norm = LayerNorm(width=width, rngs=rngs) if normalize else None
        self.norm_2 = LayerNorm(width=width, rngs=rngs) if normalize else None

    def __call__(
        self, x: Float[Array, "B T D"], y: Float[Array, "B S D"], real: Bool[Array, "B S"] | None = None
    ) -> tuple[Float[Array, "B T D"], Float[Array, "B N T S"]]:
        """(MAB(x, y), its attention weights). `real` is True at the elements of y that are not padding."""
        heads = lambda z: z.reshape(*z.shape[:2], self.num_heads, -1)
        query, key, value = heads(self.query(x)), heads(self.key(y)), heads(self.value(y))
        h = set_attention(query, key, value, real).reshape(x.shape)
        mask, scale = None if real is None else padding_mask(real), x.shape[-1] ** -0.5
        h = h if self.norm is None else self.norm(h)
        h = h + jax.nn.relu(self.output(h))
        return h if self.norm_2 is None else self.norm_2(h), attention_weights(query, key, mask=mask, scale=scale)
