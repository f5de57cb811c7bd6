"""Linformer, Wang et al. 2020, equation 7: softmax(Q (E K)^T / sqrt(H)) (F V), with E and F of shape [R S] and R < S.

The sharing of projections (section 4.2) is one of: `none` (E and F for each head and layer), `headwise` (E and F for
each layer), `key_value` (E = F, one for each layer), `layerwise` (one E for all layers, heads, keys and values, owned
by the stack).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, dot_product_attention, linformer_attention
from attention_research.kernels.efficient import compress
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where, keys_alone
from attention_research.signatures import Positive


def projection_matrix(shape: tuple[int, ...], rngs: nnx.Rngs) -> nnx.Param:
    """A matrix [.. R S] from N(0, 1/R), the Johnson-Lindenstrauss scaling of the paper's theorem 1."""
    return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * shape[-2] ** -0.5)


class LayerwiseProjection(nnx.Module):
    """The projection E that all layers of a stack share."""

    def __init__(self, *, rank: int, max_length: int, rngs: nnx.Rngs):
        self.matrix = projection_matrix((rank, max_length), rngs)


class LinformerAttention(MultiHeadAttention):
    """Attention to projected keys and values, for sequences up to `max_length`.

    A shorter sequence uses the first columns of the projections, as if it were padded.

    `rank` is R, the number of projected positions. `sharing` says which parts of the model share a projection.

    >>> make = dict(width=8, num_heads=2, head_width=None, max_length=16, rngs=nnx.Rngs(0))
    >>> y, collected = LinformerAttention(rank=4, **make)(jnp.ones((1, 16, 8)))
    >>> y.shape, collected["attention_weights"].shape  # 16 queries, 4 projected keys
    ((1, 16, 8), (1, 2, 16, 4))
    """

    cost = (None, 1)

    def __init__(
        self,
        *,
        max_length: Positive,
        rank: Positive,
        sharing: Literal["none", "headwise", "key_value", "layerwise"] = "headwise",
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(rngs=rngs, **inherited)
        shape = (self.num_key_value_heads, rank, max_length) if sharing == "none" else (rank, max_length)
        self.key_projection = None if sharing == "layerwise" else projection_matrix(shape, rngs)
        self.value_projection = projection_matrix(shape, rngs) if sharing in ("none", "headwise") else None

    @classmethod
    def owned_by_stack(
        cls, *, sharing: str, rank: int, max_length: int, rngs: nnx.Rngs, **_: Any
    ) -> LayerwiseProjection | None:
        """The layerwise projection if `sharing` is "layerwise", else None."""
        return LayerwiseProjection(rank=rank, max_length=max_length, rngs=rngs) if sharing == "layerwise" else None

    def projections(self, length: int, shared: Any, dtype: Any) -> tuple[Array, Array]:
        """Returns (E, F) for keys of this length."""
        keys = shared.matrix if self.key_projection is None else self.key_projection
        values = keys if self.value_projection is None else self.value_projection
        if length > keys[...].shape[-1]:
            raise ValueError(f"Linformer: expected at most max_length {keys[...].shape[-1]} keys, got {length}")
        return keys[..., :length].astype(dtype), values[..., :length].astype(dtype)

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Float[Array, "B N T R"]]:
        """Equation 7, with weights over the R projected positions. Raises ValueError if the mask is not a key mask."""
        real = keys_alone(where, "Linformer")
        keys, values = self.projections(key.shape[1], where.shared, query.dtype)
        context = linformer_attention(query, key, value, keys, values, mask=real)
        return context, attention_weights(query, compress(without_padding(key, real), keys))

    def cache_memory(
        self, memory: Float[Array, "B S D"], *, mask: Mask | None, shared: nnx.Module | None = None
    ) -> dict[str, Array]:
        """The R projected keys and values, [B N R H]. The memory itself is not cached."""
        key, value = self.keys_values(memory)
        keys, values = self.projections(key.shape[1], shared, memory.dtype)
        real = keys_alone(Where(mask), "Linformer")
        key, value = without_padding(key, real), without_padding(value, real)
        return {"key": compress(key, keys).swapaxes(1, 2), "value": compress(value, values).swapaxes(1, 2)}

    def attend_cached(
        self, x: Float[Array, "B T D"], cache: dict[str, Array], *, shared: nnx.Module | None = None, **given: Any
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Standard attention over the projected positions."""
        del shared, given
        query, key, value = self.queries(x), cache["key"].swapaxes(1, 2), cache["value"].swapaxes(1, 2)
        context = dot_product_attention(query, key, value)
        return self.finish(context, Where(x=x)), {"attention_weights": attention_weights(query, key)}


def without_padding(x: Float[Array, "B S N H"], real: Array | None) -> Float[Array, "B S N H"]:
    """Zeroes padding positions of x, so that they do not contribute to a projection."""
    return x if real is None else jnp.where(real[:, :, None, None], x, jnp.zeros_like(x))
