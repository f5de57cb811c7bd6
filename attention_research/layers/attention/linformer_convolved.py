"""Linformer with convolved keys and values, Wang et al. 2020 (arXiv 2006.04768), section 4: conv(K) and conv(V).

A cell is a weighted sum of W consecutive positions, with one weight for each feature of a head: two kernels [W H] and
[W Hv], which the heads share. They are initialized to the mean, 1/W.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.efficient import convolved_linformer_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, keys_alone, weights_of
from attention_research.signatures import Positive


class ConvolvedLinformerAttention(MultiHeadAttention):
    """Attention to cells of `cell_width` W positions.

    The weights of positions are those of the equation for values in which all features have the mean kernel weight.
    """

    cost = (None, 2)

    def __init__(self, *, cell_width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        kernel = lambda width: nnx.Param(jnp.full((cell_width, width), 1 / cell_width, jnp.float32))
        self.key_taps, self.value_taps = kernel(self.head_width), kernel(self.value_head_width)

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """The equation. Raises ValueError if the mask is not a key mask."""
        real = keys_alone(where, "Linformer")
        keys, values = self.key_taps[...], self.value_taps[...]

        def attend(value: Array, taps: Array) -> Array:
            return convolved_linformer_attention(query, key, value, keys, taps, mask=real)

        mean = values.mean(axis=1)
        return attend(value, values), weights_of(lambda rows: attend(rows, mean), key, value.dtype)
