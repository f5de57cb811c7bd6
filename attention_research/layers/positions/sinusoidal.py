"""Sinusoidal positions, Vaswani et al. 2017, section 3.5: PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import sinusoidal_positions
from attention_research.layers.positions.bounds import expect_rows, rows_at
from attention_research.signatures import Positive


class SinusoidalPositions(nnx.Module):
    """Adds sinusoidal encodings to the embeddings.

    Positions [B T] count from 0 and are below `max_length` (`rows_at`).

    >>> layer = SinusoidalPositions(width=4, max_length=16, rngs=nnx.Rngs(0))
    >>> print(layer(jnp.zeros((1, 2, 4)), jnp.arange(2)[None]))
    [[[0.   1.   0.   1.  ]
      [0.84 0.54 0.01 1.  ]]]
    """

    def __init__(self, *, width: Positive, max_length: Positive, rngs: nnx.Rngs):
        del rngs
        self.width, self.max_length = width, max_length

    def expect_length(self, length: int) -> None:
        """Raises ValueError if texts of `length` tokens are longer than the table."""
        expect_rows("sinusoidal", self.max_length, length)

    def __call__(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        return x + rows_at("sinusoidal", sinusoidal_positions(self.max_length, self.width), x, positions)
