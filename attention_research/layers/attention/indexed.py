"""DeepSeek sparse attention (DSA), DeepSeek-AI 2025 (arXiv 2512.02556), section 2.1: softmax(Q K^T / sqrt(H)) V over
the keys that an indexer prefers.

The indexer scores I_ts = sum_h w_th relu(q^I_th k^I_s / sqrt(I)), with q^I, k^I (layer-normalized) and w linear in the
input (`kernels.indexed_attention`). The choice has no gradient, and the input of the indexer is constant: only the
auxiliary loss trains it, the divergence of the softmax of its scores from the attention weights. As in the released
model, the first features of q^I and k^I may be rotated by their positions. There, the features i and i + R/2 of R are a
pair, here 2 i and 2 i + 1, which are other columns of the same projections. The released model has latent attention
around the indexer; this layer has not.

The paper trains in two stages: first the indexer alone, with attention to all keys, and then all parameters, with the
chosen keys. A single training with a small `top_k` leaves out the first stage.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Bool

from attention_research.errors import ConfigError
from attention_research.kernels import rotary
from attention_research.kernels.attention.pairs import visible_pairs
from attention_research.kernels.variants import index_loss, index_scores, top_keys
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where
from attention_research.layers.linear import Linear
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.signatures import NonNegative, NonNegativeFloat, Positive, PositiveFloat


class IndexedAttention(MultiHeadAttention):
    """Scaled dot-product attention to `top_k` keys, for decoders. aux["loss"] holds the loss of the indexer.

    `top_k` is the number of keys of a query; with at least the length, it is plain attention, whose weights the indexer
    learns (the warm-up of the paper). `num_index_heads` and `index_width` are the sizes of the indexer, `index_weight`
    the factor of its loss. `index_rotary_width` features of its queries and keys are rotated (0: none); `base`
    determines their lowest frequency. A cache also holds the keys of the indexer, before the rotation. Raises
    ConfigError if `index_rotary_width` is odd or above `index_width`.
    """

    #: The call takes the mask of `real` (non-padding) tokens (`layers.block`).
    takes_real = True
    cost = ("S*(K*(H + Hv) + index_width)", 2)

    def __init__(
        self,
        *,
        width: Positive,
        top_k: Positive = 2048,
        num_index_heads: Positive = 4,
        index_width: Positive = 64,
        index_weight: NonNegativeFloat = 1.0,
        index_rotary_width: NonNegative = 0,
        base: PositiveFloat = 10000.0,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.top_k, self.num_index_heads, self.index_width = top_k, num_index_heads, index_width
        self.index_weight, self.index_rotary_width, self.base = index_weight, index_rotary_width, base
        if index_rotary_width % 2 or index_rotary_width > index_width:
            raise ConfigError(f"index_rotary_width: expected an even number up to index_width {index_width}, got "
                              f"{index_rotary_width}")  # fmt: skip
        self.index_query = Linear(width, num_index_heads * index_width, use_bias=False, rngs=rngs)
        self.index_key = Linear(width, index_width, use_bias=False, rngs=rngs)
        self.index_norm = LayerNorm(width=index_width, rngs=rngs)
        self.index_share = Linear(width, num_index_heads, use_bias=False, rngs=rngs)

    def key_states(self, x: Array) -> dict[str, Array]:
        """k^I [B S I]."""
        return {**super().key_states(x), "index_key": self.index_norm(self.index_key(lax.stop_gradient(x)))}

    def choice(self, where: Where) -> tuple[Array, Mask]:
        """(the scores [B T S], the chosen keys [B 1 T S])."""
        assert where.x is not None
        x, keys = lax.stop_gradient(where.x), where.states["index_key"]
        queries = self.index_query(x).reshape(*x.shape[:2], self.num_index_heads, self.index_width)
        queries = self._turned(queries, where.query_positions(x.shape[1]))
        keys = self._turned(keys[:, :, None], where.key_positions(keys.shape[1]))[:, :, 0]
        scores = index_scores(queries, keys, self.index_share(x) * self.num_index_heads**-0.5)
        sizes = x.shape[1], keys.shape[1]
        seen = visible_pairs(*sizes, where.mask, is_causal=True, query_offset=where.offset)
        return scores, top_keys(scores, seen, self.top_k)

    def _turned(self, x: Array, places: Array) -> Array:
        """The queries or keys of the indexer [B T N I], with their first features rotated."""
        if not self.index_rotary_width:
            return x
        turned = rotary(x[..., : self.index_rotary_width], places, base=self.base)
        return jnp.concatenate([turned, x[..., self.index_rotary_width :]], axis=-1)

    def visible(self, query: Array, key: Array, where: Where) -> Mask:
        """The chosen keys."""
        return self.choice(where)[1]

    def __call__(
        self,
        x: Array,
        memory: Array | None = None,
        *,
        mask: Mask | None = None,
        real: Bool[Array, "B T"] | None = None,
        **given: Any,
    ) -> Any:
        """Self-attention of x, and the loss of each row: the mean over its tokens, without padding (`real` False)."""
        y, aux = super().__call__(x, memory, mask=mask, **given)
        scores, chosen = self.choice(Where(mask, x=x, states=self.key_states(x)))
        chosen = jnp.broadcast_to(chosen, (x.shape[0], *chosen.shape[1:]))
        if real is not None:
            chosen = chosen & real[:, None, :, None]
        tokens = jnp.maximum(jnp.sum(chosen.any(-1), axis=(1, 2), dtype=jnp.float32), 1)
        loss = jnp.sum(index_loss(scores, aux["attention_weights"], chosen), axis=1) / tokens
        return y, {**aux, "loss": {"indexer": self.index_weight * loss}}
