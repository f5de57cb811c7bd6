"""PaTH attention, Yang et al. 2025 (arXiv 2505.16381):
softmax(q_i (prod_{m=j+1}^{i} (I - beta_m w_m^T w_m)) k_j / sqrt(H)), then times V.

Every token between key and query reflects the key along its direction w_m (`kernels.path_attention`), in place of a
position encoding. w is a low-rank projection of the input, a causal convolution of 3 taps over each channel, a SiLU and
a division by the length; beta = 2 sigmoid(x W + b), so that a token can also change signs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array

from attention_research.kernels import dot_product_attention
from attention_research.kernels.variants import forget_bias, path_attention, reflected_keys
from attention_research.kernels.variants.query_key_l2 import unit_length
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where, weights_of
from attention_research.layers.attention.state.short_convolution import ShortConvolution, visible_taps
from attention_research.layers.attention.where import expect_place
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive

TAPS = 3


class PathAttention(MultiHeadAttention):
    """Dot-product attention of queries and keys that are reflected by the tokens between them, for decoders.

    `direction_rank` is the rank of the projection to w. `forgets` adds the forget gates of `forgetting` (PaTH-FoX). A
    cache holds the keys as all tokens so far have reflected them, in float32, and the last inputs of the convolution.
    """

    cost = ("S*K*(H + Hv) + 2*K*H + forgets*S*N", 2)

    def __init__(
        self, *, width: Positive, direction_rank: Positive = 32, forgets: bool = False, rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(width=width, rngs=rngs, **inherited)
        channels = self.num_key_value_heads * self.head_width
        self.direction_down = Linear(width, direction_rank, use_bias=False, rngs=rngs)
        self.direction_up = Linear(direction_rank, channels, use_bias=False, rngs=rngs)
        self.convolution = ShortConvolution(channels, TAPS, rngs=rngs)
        self.beta = Linear(width, self.num_key_value_heads, rngs=rngs)
        self.forget = Linear(width, self.num_heads, rngs=rngs) if forgets else None

    def key_states(self, x: Array) -> dict[str, Array]:
        """log f [B S N] of the forget gates, if there are any."""
        states = super().key_states(x)
        if self.forget is None:
            return states
        return {**states, "log_forget": jax.nn.log_sigmoid(self.forget(x).astype(jnp.float32))}

    def reflections(self, x: Array, taps: dict[str, Array], mask: Mask | None) -> tuple[Array, Array, dict[str, Array]]:
        """(w [B T K H], beta [B T K], the inputs of the convolution for the next positions), in float32."""
        visible = real = None
        if mask is not None and mask.shape[2] > 1:
            visible = visible_taps(mask, TAPS)
        elif mask is not None:
            real = jnp.broadcast_to(mask[:, 0, 0], x.shape[:2])
        w, taps = self.convolution(self.direction_up(self.direction_down(x)), taps, real, visible)
        w = jax.nn.silu(w.astype(jnp.float32)).reshape(*x.shape[:2], self.num_key_value_heads, self.head_width)
        w = unit_length(w, 1e-6)
        return w, 2 * jax.nn.sigmoid(self.beta(x).astype(jnp.float32)), taps

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """(context, weights) of a whole sequence."""
        query, key, value = self.prepare(query, key, value, where)
        assert where.x is not None
        w, beta, _ = self.reflections(where.x, self.convolution.start(len(key), key.dtype), where.mask)

        log_forget = where.states.get("log_forget")

        def attend(value: Array) -> Array:
            return path_attention(query, key, value, w, beta, log_forget, mask=where.mask, scale=self.scale)

        return attend(value), weights_of(attend, key, value.dtype)

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache."""
        cache = super().start(batch, length, dtype)
        return {**cache, "key": cache["key"].astype(jnp.float32), **self.convolution.start(batch, jnp.dtype(dtype))}

    def prefill(self, x: Array, length: int, *, mask: Mask, **given: Any) -> tuple[Array, Any, Any]:
        """The first positions. The cached keys are reflected by all later ones of them."""
        y, cache, aux = super().prefill(x, length, mask=mask, **given)
        w, beta, taps = self.reflections(x, self.convolution.start(len(x), x.dtype), mask)

        def reflect(keys: Array, one: tuple[Array, Array, Array]) -> tuple[Array, None]:
            place, w, beta = one
            earlier = (jnp.arange(keys.shape[1]) < place)[:, None, None]
            return jnp.where(earlier, reflected_keys(keys, w, beta), keys), None

        steps = jnp.arange(x.shape[1]), jnp.moveaxis(w, 1, 0), jnp.moveaxis(beta, 1, 0)
        keys, _ = lax.scan(reflect, cache["key"].swapaxes(1, 2).astype(jnp.float32), steps)
        return y, {**cache, "key": keys.swapaxes(1, 2), **taps}, aux

    def step(self, x: Array, cache: dict[str, Array], index: Array, **given: Any) -> tuple[Array, Any, Any]:
        """One position: its reflection changes the cached keys, its key is added, and its query attends to all."""
        expect_place(index, cache["key"].shape[2])
        w, beta, taps = self.reflections(x, {"inputs": cache["inputs"]}, None)
        key, value = self.keys_values(x)
        keys = reflected_keys(cache["key"].swapaxes(1, 2), w[:, 0], beta[:, 0])
        keys = lax.dynamic_update_slice_in_dim(keys, key.astype(jnp.float32), index, 1)
        values = lax.dynamic_update_slice_in_dim(cache["value"], value.swapaxes(1, 2), index, 2)
        cache = {**cache, **taps, "key": keys.swapaxes(1, 2), "value": values}
        query, bias = self.queries(x).astype(jnp.float32), None
        for name, state in self.key_states(x).items():
            cache[name] = lax.dynamic_update_slice_in_dim(cache[name], state, index, 1)
            bias = forget_bias(cache[name], 1, query_offset=index)

        def attend(value: Array) -> Array:
            return dot_product_attention(
                query, keys, value.astype(jnp.float32), bias, mask=cache.get("mask"), scale=self.scale, is_causal=True,
                query_offset=index,
            ).astype(x.dtype)  # fmt: skip

        weights = weights_of(attend, keys, x.dtype)
        return self.finish(attend(values.swapaxes(1, 2))), cache, {"attention_weights": weights}
