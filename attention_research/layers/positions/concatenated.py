"""Positions concatenated to the embeddings, Liu et al. 2018 (arXiv 1807.03247), section 3: [x; p] W, p sinusoidal.

[x; p] W = x W_x + p W_p. Where the two blocks of W are the same it is (x + p) W_x: addition is the tied case.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import sinusoidal_positions
from attention_research.kernels.integers import as_int32
from attention_research.kernels.positions import project_concatenated
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Positive


class ConcatenatedPositions(nnx.Module):
    """W [2 D, D], no bias: 2 D^2 parameters; positions [B T] count from 0 and stay below `max_length`."""

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        self.width, self.max_length = width, max_length
        self.kernel = nnx.Param(glorot_uniform(rngs.params(), (2 * width, width), jnp.float32))

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        encoding = sinusoidal_positions(self.max_length, self.width)[as_int32("positions", positions)].astype(x.dtype)
        return project_concatenated(x, encoding, self.kernel[...])
