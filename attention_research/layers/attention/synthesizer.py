"""Synthesizers, Tay et al. 2020 (arXiv 2005.00743), equation 1: softmax(S(X)) G(X), without dot products of tokens.

The variants share the values G(X), the softmax, the output projection, and a cache that holds only values (there are no
keys). A variant subclasses `Synthesizer` and defines `scores`, the S, for sequences up to `max_length`. Each position
has one score for every position, so that the tables are as long as the longest sequence; a shorter sequence uses their
first columns.

This follows the runs of Narang et al. 2021: there are no biases, and T5's relative bias, which the stack owns, is added
to the scores. They ran 8 heads of width 128 in a model with 12 heads of width 64, because the configuration of these
rows did not override the class's defaults; here these are the settings `num_heads` and `head_width` of the section. In
packed batches, positions count within the row, not within the example.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import synthesizer_attention
from attention_research.kernels.attention.distances import dense
from attention_research.kernels.no_dot_product.synthesizer import synthesizer_weights
from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.multi_head import Mask, Offset, Where, seen_at
from attention_research.layers.attention.t5 import T5Attention, T5Bias
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class Synthesizer(nnx.Module):
    """The base class of Synthesizers, with N heads of width H.

    Calls return (y, aux) with the weights in ``aux["attention_weights"]`` [B N T S].
    """

    cost = ("S*N*H", 2)

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        max_length: Positive,
        num_buckets: Positive = 32,
        max_distance: Positive = 128,
        rngs: nnx.Rngs,
    ):
        del num_buckets, max_distance  # they belong to the table of the stack
        self.num_heads, self.max_length = num_heads, max_length
        self.head_width = width // num_heads if head_width is None else head_width
        self.value = Linear(width, num_heads * self.head_width, use_bias=False, rngs=rngs)
        self.output = Linear(num_heads * self.head_width, width, use_bias=False, rngs=rngs)

    @classmethod
    def owned_by_stack(cls, **settings: Any) -> T5Bias:
        """T5's bias table, one per stack."""
        return T5Attention.owned_by_stack(**settings)

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "#B N T S"]:
        """S(X), the equation of the variant. Row t of x is at position offset + t."""
        raise NotImplementedError

    def attend(
        self, x: Float[Array, "B T D"], value: Float[Array, "B S N H"], where: Where
    ) -> tuple[Float[Array, "B T D"], Float[Array, "B N T S"]]:
        """Returns (y, weights). A decoding step uses the causal buckets of the bias."""
        (B, T, _), S, dtype = x.shape, value.shape[1], accumulator(x.dtype)
        within(S, self.max_length)
        two_sided = not where.is_causal and isinstance(where.offset, int)
        bias = dense(where.shared(T, S, where.offset, bidirectional=two_sided), T)
        scores = self.scores(x, S, where.offset).astype(dtype) + bias.astype(dtype)
        context = synthesizer_attention(scores, value, where.mask, is_causal=where.is_causal)
        weights = synthesizer_weights(scores, where.mask, is_causal=where.is_causal)
        return self.output(context.reshape(B, T, -1)), jnp.broadcast_to(weights, (B, *weights.shape[1:]))

    def __call__(
        self, x: Float[Array, "B T D"], *, mask: Mask | None = None, is_causal: bool = False, shared: T5Bias
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Mixes, for each position, the values of the positions that `mask` allows."""
        y, weights = self.attend(x, self.values(x), Where(mask, is_causal, shared=shared))
        return y, {"attention_weights": weights}

    def values(self, x: Float[Array, "B S D"]) -> Float[Array, "B S N H"]:
        """G(X), split into heads."""
        return self.value(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache of values for `length` positions, in the layout [B N S H] of `multi_head`."""
        return {"value": jnp.zeros((batch, self.num_heads, length, self.head_width), dtype)}

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Array], index: Int[Array, ""], *, shared: T5Bias
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes position `index`: caches its value, and mixes the values of positions 0 to index.

        Returns (y, cache, aux).
        """
        value = self.values(x).swapaxes(1, 2)
        cache = {"value": jax.lax.dynamic_update_slice_in_dim(cache["value"], value, index, 2)}
        visible = seen_at(index, cache["value"].shape[2])
        y, weights = self.attend(x, cache["value"].swapaxes(1, 2), Where(visible, offset=index, shared=shared))
        return y, cache, {"attention_weights": weights}


def within(length: int, max_length: int) -> None:
    """Raises ValueError if a sequence is longer than the tables of a Synthesizer."""
    if length > max_length:
        raise ValueError(f"Synthesizer: {length} positions are more than its max_length {max_length}")
