"""Sinusoidal positions with all sines before all cosines, as in Marian (Junczys-Dowmunt et al. 2018).

PE(p, i) = sin(p / 10000^(2i/D)) and PE(p, ceil(D/2) + i) = cos(p / 10000^(2i/D)). These are the columns of Vaswani et
al. 2017, section 3.5, in a different order. (tensor2tensor also puts sines first, but divides by D/2 - 1.)
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import sinusoidal_positions
from attention_research.layers.positions.bounds import expect_rows, rows_at
from attention_research.signatures import Positive


def sinusoidal_halves(length: int, width: int) -> Float[Array, "length width"]:
    """The table: row p has the sines of position p, then its cosines."""
    interleaved = sinusoidal_positions(length, width)
    return jnp.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=1)


class SinusoidalHalves(nnx.Module):
    """Adds sinusoidal encodings to the embeddings.

    Positions [B T] count from 0 and are below `max_length` (`rows_at`).
    """

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        del rngs
        self.width, self.max_length = width, max_length

    def expect_length(self, length: int) -> None:
        """Raises ValueError if texts of `length` tokens are longer than the table."""
        expect_rows("sinusoidal", self.max_length, length)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        table = sinusoidal_halves(self.max_length, self.width)
        return x + rows_at("sinusoidal", table, x, positions)
