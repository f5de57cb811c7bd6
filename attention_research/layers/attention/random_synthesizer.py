"""Random Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.2: softmax(R) G(X).

R is a learned table, the same for every example: the attention weights do not depend on the tokens.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.multi_head import Offset
from attention_research.layers.attention.synthesizer import Synthesizer
from attention_research.layers.linear import glorot_uniform


class RandomSynthesizer(Synthesizer):
    """The Random Synthesizer. Parameters: 2 D N H + N max_length^2.

    R [max_length N max_length] is indexed by query position first and initialized with Glorot uniform.
    """

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.score_table = score_table(self.max_length, self.num_heads, rngs)

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "1 N T S"]:
        """Rows offset to offset + T - 1 of R."""
        return rows(self.score_table[...], x.shape[1], key_length, offset)


def score_table(max_length: int, num_heads: int, rngs: nnx.Rngs) -> nnx.Param:
    """A table R [max_length N max_length], initialized with Glorot uniform."""
    return nnx.Param(glorot_uniform(rngs.params(), (max_length, num_heads, max_length), jnp.float32))


def rows(table: Float[Array, "L N L"], query_length: int, key_length: int, offset: Offset) -> Float[Array, "1 N T S"]:
    """The scores of a table for query positions from `offset` on and for the first `key_length` key positions."""
    some = jax.lax.dynamic_slice_in_dim(table, offset, query_length, 0)[..., :key_length]
    return some.swapaxes(0, 1)[None]
