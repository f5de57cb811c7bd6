"""Tensor product attention (TPA), Zhang et al. 2025 (arXiv 2501.06425), section 3: softmax(Q K^T / sqrt(H)) V with
q_n = (1 / R) sum_r a_rn b_r, and keys and values of the same form.

The factors a_r of the heads and the features b_r are linear in the input, and queries and keys are rotated
(`kernels.tensor_product_attention`). A cache holds the factors of keys and values, R (N + H) numbers per token.
As in the released code, the output projection starts at 0, and the others have the Xavier start of their kernels in
three dimensions, [D N R] and [D R H].
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.variants import tensor_product_heads
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, seen_at
from attention_research.layers.attention.rotary import expect_even, rotated
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive, PositiveFloat

#: The cached arrays of a token.
CACHED = ("key_factors", "key_features", "value_factors", "value_features")


class TensorProductAttention(MultiHeadAttention):
    """Rotary attention with queries, keys and values of low rank.

    `query_rank` is R for queries, `rank` for keys and for values. `base` determines the lowest frequency. Raises
    ConfigError if `head_width` is odd.
    """

    cost = ("S*rank*(2*N + H + Hv)", 2)

    projected = ()

    def __init__(
        self,
        *,
        width: Positive,
        query_rank: Positive = 6,
        rank: Positive = 2,
        base: PositiveFloat = 10000.0,
        use_bias: bool = True,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(width=width, num_key_value_heads=None, use_bias=use_bias, rngs=rngs, **inherited)
        expect_even(self.head_width, "rotary attention")
        self.base = base

        def low_rank(second: int, third: int) -> Linear:
            linear = Linear(width, second * third, use_bias=use_bias, rngs=rngs)
            linear.kernel = nnx.Param(xavier(rngs, width, second, third))
            return linear

        pair = lambda rank, width_of: (low_rank(self.num_heads, rank), low_rank(rank, width_of))
        self.query_factors, self.query_features = pair(query_rank, self.head_width)
        self.key_factors, self.key_features = pair(rank, self.head_width)
        self.value_factors, self.value_features = pair(rank, self.value_head_width)
        self.output.kernel = nnx.Param(jnp.zeros(self.output.kernel.shape, jnp.float32))

    def factors(self, x: Array, name: str) -> Array:
        """The factors [B T R N] or features [B T R H] of a projection."""
        last = self.num_heads if name.endswith("factors") else self._width(name)
        return getattr(self, name)(x).reshape(*x.shape[:2], -1, last)

    def _width(self, name: str) -> int:
        return self.value_head_width if name.startswith("value") else self.head_width

    def queries(self, x: Array) -> Array:
        """The queries of all heads."""
        return tensor_product_heads(self.factors(x, "query_factors"), self.factors(x, "query_features"))

    def keys_values(self, x: Array) -> tuple[Array, Array]:
        """The keys and values of all heads."""
        return self.products({name: self.factors(x, name) for name in CACHED})

    def products(self, cached: dict[str, Array]) -> tuple[Array, Array]:
        """The keys and values of all heads, from their factors."""
        key, value = (
            tensor_product_heads(cached[f"{name}_factors"], cached[f"{name}_features"]) for name in ("key", "value")
        )
        return key, value

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys. The first query is at position `where.offset`."""
        query, key, value = super().prepare(query, key, value, where)
        return *rotated(query, key, where, self.base), value

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache of factors."""
        x = jnp.zeros((batch, length, self.key_factors.kernel.shape[0]), dtype)
        return {name: jnp.zeros_like(self.factors(x, name)) for name in CACHED}

    def prefill(self, x: Array, length: int, **given: Any) -> tuple[Array, Any, Any]:
        """The first positions, with their factors."""
        y, cache, aux = super().prefill(x, length, **given)
        rest = [(0, 0), (0, length - x.shape[1]), (0, 0), (0, 0)]
        return y, {"mask": cache["mask"], **{name: jnp.pad(self.factors(x, name), rest) for name in CACHED}}, aux

    def step(self, x: Array, cache: dict[str, Array], index: Array, **given: Any) -> tuple[Array, Any, Any]:
        """One position: its factors are cached, and the keys and values of all positions are computed from theirs."""
        new = {name: lax.dynamic_update_slice_in_dim(cache[name], self.factors(x, name), index, 1) for name in CACHED}
        cache = {**cache, **new}
        length = cache[CACHED[0]].shape[1]
        visible = seen_at(index, length, cache.get("mask"))
        where = Where(visible, offset=index, x=x, length=length, **given)
        context, weights = self.mix(self.queries(x), *self.products(cache), where)
        return self.finish(context, where), cache, {"attention_weights": weights}


def xavier(rngs: nnx.Rngs, first: int, second: int, third: int) -> Float[Array, "D C"]:
    """A kernel [first, second * third] with PyTorch's Xavier bound of an array of three dimensions, the last of which
    counts as a field."""
    bound = (6 / ((first + second) * third)) ** 0.5
    return jax.random.uniform(rngs.params(), (first, second * third), jnp.float32, -bound, bound)
