"""Multi-token attention (MTA), Golovneva et al. 2025 (arXiv 2504.00927), section 3: softmax(theta * (Q K^T / sqrt(H)))
V, then mixed over heads.

theta convolves the scores of each head over queries and keys (`kernels.multi_token_attention`), so that several tokens
together find a key. The weights of groups of heads are mixed after the softmax, and may be convolved, too. Then comes
the RMS norm of each head, times the sigmoid of a projection of itself, as in the released code. Kernels and mixtures
start at the identity.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import rms_norm
from attention_research.kernels.variants import multi_token_attention
from attention_research.layers.attention.multi_head import NOWHERE, MultiHeadAttention, Where, weights_of
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class MultiTokenAttention(MultiHeadAttention):
    """Dot-product attention with scores that are convolved over neighbouring queries and keys, for decoders.

    `query_taps` is the number of queries of the kernel, the present one and those before. `key_taps` is the number of
    keys around the key. `head_group` is the number of heads whose weights are mixed; 1 mixes none. `convolve_weights`
    convolves the weights as well, by kernels of the same size. A cache also holds the last queries. Raises ConfigError
    if `head_group` does not divide the number of heads.
    """

    cost = ("S*K*(H + Hv) + (query_taps - 1)*(1 + convolve_weights)*N*H", 2)

    def __init__(
        self,
        *,
        query_taps: Positive = 6,
        key_taps: Positive = 11,
        head_group: Positive = 1,
        convolve_weights: bool = False,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(rngs=rngs, **inherited)
        if self.num_heads % head_group:
            raise ConfigError(f"head_group: expected a divisor of num_heads {self.num_heads}, got {head_group}")
        #: The number of earlier queries that a position reads.
        self.reach = (query_taps - 1) * (2 if convolve_weights else 1)
        kernel = jnp.zeros((self.num_heads, query_taps, key_taps), jnp.float32).at[:, 0, key_taps // 2].set(1)
        self.score_scale = nnx.Param(kernel)
        self.share_scale = nnx.Param(jnp.array(kernel)) if convolve_weights else None
        groups = jnp.broadcast_to(jnp.eye(head_group), (self.num_heads // head_group, head_group, head_group))
        self.weight_scale = None if head_group == 1 else nnx.Param(jnp.array(groups, jnp.float32))
        self.norm_scale = nnx.Param(jnp.ones((self.value_head_width,), jnp.float32))
        self.gate = Linear(self.value_head_width, 1, use_bias=False, rngs=rngs)

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """(context, weights). In a decoding step, the queries before come from the cache."""
        query, key, value = self.prepare(query, key, value, where)
        T, before = query.shape[1], where.own.get("queries")
        query = query if before is None else jnp.concatenate([before, query], axis=1)
        groups = None if self.weight_scale is None else self.weight_scale[...]
        shares = None if self.share_scale is None else self.share_scale[...]

        def attend(value: Array) -> Array:
            return multi_token_attention(
                query, key, value, self.score_scale[...], shares, weight_groups=groups, mask=where.mask,
                scale=self.scale, query_offset=where.offset - (query.shape[1] - T),
            )[:, query.shape[1] - T :]  # fmt: skip

        return attend(value), weights_of(attend, key, value.dtype)

    def finish(self, context: Array, where: Where = NOWHERE) -> Array:
        """The norm and the gate of each head, then the output projection."""
        context = rms_norm(context, self.norm_scale[...])
        return super().finish(context * jax.nn.sigmoid(self.gate(context)), where)

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache, with queries of 0, whose scores have no part."""
        shape = (batch, self.reach, self.num_heads, self.head_width)
        return {**super().start(batch, length, dtype), "queries": jnp.zeros(shape, dtype)}

    def prefill(self, x: Array, length: int, **given: Any) -> tuple[Array, Any, Any]:
        """The first positions, with the last of their queries."""
        y, cache, aux = super().prefill(x, length, **given)
        queries = jnp.pad(self.queries(x), [(0, 0), (self.reach, 0), (0, 0), (0, 0)])
        return y, {**cache, "queries": queries[:, x.shape[1] :]}, aux

    def step(self, x: Array, cache: dict[str, Array], index: Array, **given: Any) -> tuple[Array, Any, Any]:
        """One position, with the queries before it."""
        queries = cache["queries"]
        y, cache, aux = super().step(x, cache, index, own={"queries": queries}, **given)
        last = jnp.concatenate([queries, self.queries(x)], axis=1)[:, 1:]
        return y, {**cache, "queries": last}, aux
