"""Multi-head latent attention, DeepSeek-AI 2024 (arXiv 2405.04434), equations 9 to 19: keys and values from one latent.

c_j = RMSNorm(x_j W^DKV) [R] gives the keys c W^UK_n and values c W^UV_n of all heads. A key p_j [P], which all heads
share, and a part of each query carry rotary positions. The logits are (q_n k_n + r_n p) / sqrt(H + P). The cache holds
R + P numbers per position. A decoding step uses the absorbed form, which never forms keys and values of the heads.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.errors import ConfigError
from attention_research.kernels import attention_weights, rms_norm, rotary
from attention_research.kernels.variants import absorbed_latent_attention, latent_attention
from attention_research.layers.attention.multi_head import Mask, seen_at, seen_later
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive, PositiveFloat

#: The arrays of a cache.
CACHED = ("latent", "rotated")


class LatentAttention(nnx.Module):
    """Self-attention whose keys and values come from a latent vector of `latent_width` R per position.

    `head_width` H is the width of a head's query and key without positions, `rotary_width` P, an even number, that of
    the part with positions, and `value_head_width` that of the values (None: H). With `query_latent_width`, queries
    come from a normalized latent vector too. `base` sets the lowest frequency of the rotation. There are no biases.
    """

    cost: tuple[str | None, float] = ("S*(latent_width + rotary_width)", 2)

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        latent_width: Positive,
        rotary_width: Positive,
        query_latent_width: Positive | None = None,
        base: PositiveFloat = 10000.0,
        rngs: nnx.Rngs,
    ):
        if rotary_width % 2:
            raise ConfigError(f"rotary_width: expected an even number, got {rotary_width}")
        self.num_heads, self.base = num_heads, base
        self.head_width = width // num_heads if head_width is None else head_width
        self.value_head_width = self.head_width if value_head_width is None else value_head_width
        linear = lambda before, after: Linear(before, after, use_bias=False, rngs=rngs)
        gain = lambda columns: nnx.Param(jnp.ones((columns,), jnp.float32))
        self.query_latent = None if query_latent_width is None else linear(width, query_latent_width)
        self.query_latent_scale = None if query_latent_width is None else gain(query_latent_width)
        before = width if query_latent_width is None else query_latent_width
        self.query = linear(before, num_heads * (self.head_width + rotary_width))
        self.latent, self.latent_scale = linear(width, latent_width), gain(latent_width)
        self.rotated_key = linear(width, rotary_width)
        self.key = linear(latent_width, num_heads * self.head_width)
        self.value = linear(latent_width, num_heads * self.value_head_width)
        self.output = linear(num_heads * self.value_head_width, width)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Self-attention of x."""
        del shared
        y, _, aux = self._attend(x, mask, is_causal)
        return y, aux

    def prefill(
        self, x: Float[Array, "B P D"], length: int, *, mask: Bool[Array, "B 1 #P P"], is_causal: bool,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B P D"], dict[str, Array], dict[str, Any]]:  # fmt: skip
        """Processes the first P positions in one call. Returns (y, the cache for `length` positions, aux).

        A key that `mask` hides from all P positions is hidden from all later positions too.
        """
        del shared
        y, keys, aux = self._attend(x, mask, is_causal)
        rest = [(0, 0), (0, length - x.shape[1]), (0, 0)]
        cache = {name: jnp.pad(array, rest) for name, array in zip(CACHED, keys, strict=True)}
        return y, {**cache, "mask": seen_later(mask, length)}, aux

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache of latent vectors and rotated keys."""
        widths = {"latent": self.latent_scale[...].shape[0], "rotated": self.rotated_key.kernel[...].shape[1]}
        return {name: jnp.zeros((batch, length, width), dtype) for name, width in widths.items()}

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Array], index: Int[Array, ""], *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:  # fmt: skip
        """Decodes position `index` in the absorbed form."""
        del shared
        new = dict(zip(CACHED, self._cached(x, index), strict=True))
        put = jax.lax.dynamic_update_slice_in_dim
        cache = {**cache, **{name: put(cache[name], new[name], index, 1) for name in CACHED}}
        visible = seen_at(index, cache["latent"].shape[1], cache.get("mask"))
        queries, keys = self._queries(x, index), (cache["latent"], cache["rotated"])
        context = absorbed_latent_attention(*queries, *keys, *self._ups(), visible)
        return self._finish(context), cache, {"attention_weights": self._weights(queries, keys, visible, False)}

    def _attend(
        self, x: Array, mask: Mask | None, is_causal: bool
    ) -> tuple[Array, tuple[Array, Array], dict[str, Any]]:
        """(y, the arrays of `CACHED`, aux) of the positions from 0 on."""
        queries, keys = self._queries(x, 0), self._cached(x, 0)
        context = latent_attention(*queries, *keys, *self._ups(), mask, is_causal=is_causal)
        return self._finish(context), keys, {"attention_weights": self._weights(queries, keys, mask, is_causal)}

    def _queries(self, x: Array, first: Any) -> tuple[Array, Array]:
        """(queries [B T N H], rotated queries [B T N P])."""
        if self.query_latent is not None and self.query_latent_scale is not None:
            x = rms_norm(self.query_latent(x), self.query_latent_scale[...])
        both = self.query(x).reshape(*x.shape[:2], self.num_heads, -1)
        places = first + jnp.arange(x.shape[1], dtype=jnp.int32)
        return both[..., : self.head_width], rotary(both[..., self.head_width :], places, base=self.base)

    def _cached(self, x: Array, first: Any) -> tuple[Array, Array]:
        """(latent vectors [B S R], rotated keys [B S P]): what a cache holds."""
        places = first + jnp.arange(x.shape[1], dtype=jnp.int32)
        rotated = rotary(self.rotated_key(x)[:, :, None], places, base=self.base)[:, :, 0]
        return rms_norm(self.latent(x), self.latent_scale[...]), rotated

    def _ups(self) -> tuple[Array, Array]:
        """W^UK [R N H] and W^UV [R N Hv]."""
        of_heads = lambda kernel: kernel[...].reshape(kernel[...].shape[0], self.num_heads, -1)
        return of_heads(self.key.kernel), of_heads(self.value.kernel)

    def _weights(self, queries: Any, keys: Any, mask: Mask | None, is_causal: bool) -> Array:
        latent, rotated = keys
        key = self.key(latent).reshape(*latent.shape[:2], self.num_heads, -1)
        shared = jnp.broadcast_to(rotated[:, :, None], (*key.shape[:3], rotated.shape[-1]))
        whole = jnp.concatenate([key, shared], axis=-1)
        return attention_weights(jnp.concatenate(queries, axis=-1), whole, mask=mask, is_causal=is_causal)

    def _finish(self, context: Float[Array, "B T N Hv"]) -> Float[Array, "B T D"]:
        return self.output(context.reshape(*context.shape[:2], -1))
