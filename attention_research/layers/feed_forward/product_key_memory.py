"""A product-key memory layer, Lample et al. 2019 (arXiv 1907.05242), section 3, which replaces a feed-forward.

y = sum_i w_i v_i over the values v_i of the keys with the highest scores for a query, where w is the softmax of the
scores. The set of keys is a Cartesian product of sub-keys (`kernels.product_keys`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels import product_key_search
from attention_research.layers.linear import Linear, glorot_uniform
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.parallel.rules import ROWS, SEQUENCE
from attention_research.parallel.scope import constrained, over_axes
from attention_research.signatures import Positive


class ProductKeyMemory(nnx.Module):
    """A product-key memory, [B T D] -> [B T D], of `num_keys`^2 values of width D.

    Each token has `num_heads` queries of width `key_width`, and each head reads `knn` values. This follows Mesh
    TensorFlow's release, which Narang et al. 2021 (arXiv 2102.11972) ran with the default sizes. The two halves of a
    query are layer-normalized separately, with one gain and bias for all halves; the paper uses batch normalization.
    Values are initialized from N(0, 1) and sub-keys with Glorot uniform. The heads share the values, and their outputs
    are summed without a projection. Values are read by a gather, not by a product with one-hot rows.

    On a mesh, each device searches and reads for its own tokens. Without this constraint, the partitioner would gather
    all tokens for the search.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_keys: Positive = 512,
        key_width: Positive = 128,
        num_heads: Positive = 4,
        knn: Positive = 32,
        rngs: nnx.Rngs,
    ):
        if key_width % 2:
            raise ConfigError(f"key_width: expected an even number, got {key_width}")
        if knn > num_keys:
            raise ConfigError(f"knn: expected at most num_keys, {num_keys}, got {knn}")
        self.num_heads, self.knn = num_heads, knn
        half = key_width // 2
        self.query = Linear(width, num_heads * key_width, rngs=rngs)
        self.norm = LayerNorm(width=half, rngs=rngs)
        self.keys = nnx.Param(glorot_uniform(rngs.params(), (num_heads, 2, num_keys, half), jnp.float32))
        self.table = nnx.Param(jax.random.normal(rngs.params(), (num_keys**2, width), jnp.float32))

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        def read(query: Array, keys: Array, table: Array) -> Array:
            scores, indices = product_key_search(query, keys, knn=self.knn)
            weights = jax.nn.softmax(scores, axis=-1).astype(query.dtype)
            return jnp.einsum("BTNK,BTNKD->BTD", weights, table[indices].astype(query.dtype))

        query = self.norm(self.query(x).reshape(*x.shape[:2], self.num_heads, 2, -1))
        tokens, whole = PartitionSpec(ROWS, SEQUENCE), PartitionSpec()
        y = over_axes(read, tokens, whole, whole)(query, self.keys[...], self.table[...])
        return constrained(y, ROWS, SEQUENCE, None), {}
