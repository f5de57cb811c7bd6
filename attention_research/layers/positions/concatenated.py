"""Positions concatenated to the embeddings, Liu et al. 2018 (arXiv 1807.03247), section 3: [x; p] W, p sinusoidal.

[x; p] W = x W_x + p W_p. If the two blocks of W are equal, this is (x + p) W_x, so that addition is a special case.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import sinusoidal_positions
from attention_research.kernels.positions import project_concatenated
from attention_research.layers.linear import glorot_uniform
from attention_research.layers.positions.bounds import expect_rows, rows_at
from attention_research.signatures import Positive


class ConcatenatedPositions(nnx.Module):
    """Projects the concatenation of embeddings and positions with W [2 D, D], without a bias: 2 D^2 parameters.

    Positions [B T] count from 0 and are below `max_length` (`rows_at`).
    """

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        self.width, self.max_length = width, max_length
        self.kernel = nnx.Param(glorot_uniform(rngs.params(), (2 * width, width), jnp.float32))

    def expect_length(self, length: int) -> None:
        """Raises ValueError if texts of `length` tokens are longer than the table."""
        expect_rows("concatenated", self.max_length, length)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        encoding = rows_at("concatenated", sinusoidal_positions(self.max_length, self.width), x, positions)
        return project_concatenated(x, encoding, self.kernel[...])
