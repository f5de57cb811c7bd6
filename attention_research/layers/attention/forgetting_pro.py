"""The Pro block of the Forgetting Transformer, Lin et al. 2025 (arXiv 2503.02130), section 3.3:
N(softmax(N(Q) N(K')^T / sqrt(H) + G_i - G_j) V') * sigmoid(x W) before the output projection.

Beside the forget gates, it has four changes of recurrent models. Keys and values are shifted: k'_t = a_t k_{t-1} +
(1 - a_t) k_t with a_t = sigmoid(x_t W_a) for each head, and values in the same way with their own a_t. Queries, shifted
keys and the outputs of heads have a root mean square norm N. A gate multiplies the normalized outputs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool

from attention_research.kernels import rms_norm
from attention_research.layers.attention.forgetting import ForgettingAttention
from attention_research.layers.attention.multi_head import NOWHERE, MultiHeadAttention, Where
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class ForgettingProAttention(ForgettingAttention):
    """Forgetting attention with shifted keys and values, norms and an output gate, for decoders.

    A cache holds keys and values before the shift, and the shares of the shift.
    """

    cost = ("S*(K*(H + Hv) + N + 2*K)", 2)

    def __init__(self, *, width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, query_key_norm="rms", rngs=rngs, **inherited)
        self.key_shift = Linear(width, self.num_key_value_heads, use_bias=False, rngs=rngs)
        self.value_shift = Linear(width, self.num_key_value_heads, use_bias=False, rngs=rngs)
        self.gate = Linear(width, self.num_heads * self.value_head_width, use_bias=False, rngs=rngs)
        self.norm_scale = nnx.Param(jnp.ones((self.value_head_width,), jnp.float32))

    def keys_values(self, x: Array) -> tuple[Array, Array]:
        """Keys and values as projected: the norm of the keys follows the shift."""
        return MultiHeadAttention.keys_values(self, x)

    def key_states(self, x: Array) -> dict[str, Array]:
        """log f [B S N], and the shares of the previous key and value [B S K]."""
        shares = {"key_share": self.key_shift(x), "value_share": self.value_shift(x)}
        return {**super().key_states(x), **jax.tree.map(jax.nn.sigmoid, shares)}

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Shifts keys and values, then normalizes the keys."""
        query, key, value = super().prepare(query, key, value, where)
        follows = _follows(where, key.shape[1])[..., None, None]

        def shifted(x: Array, name: str) -> Array:
            before = jnp.pad(x[:, :-1], [(0, 0), (1, 0), (0, 0), (0, 0)])
            share = where.states[name][..., None]
            return share * jnp.where(follows, before, jnp.zeros_like(before)) + (1 - share) * x

        key, value = shifted(key, "key_share"), shifted(value, "value_share")
        return query, self._normalized(key, self.key_scale), value

    def finish(self, context: Array, where: Where = NOWHERE) -> Array:
        """The norm of each head and the gate, then the output projection."""
        assert where.x is not None
        gate = jax.nn.sigmoid(self.gate(where.x)).reshape(context.shape)
        return super().finish(rms_norm(context, self.norm_scale[...]) * gate, where)


def _follows(where: Where, length: int) -> Bool[Array, "#B S"]:
    """Whether the position before each one belongs to the same example."""
    if where.mask is None:
        return (jnp.arange(length) > 0)[None]
    mask = where.mask[:, 0]
    before = mask[:, 0, :-1] if mask.shape[1] == 1 else jnp.diagonal(mask, -1, axis1=1, axis2=2)
    return jnp.pad(before, [(0, 0), (1, 0)])
