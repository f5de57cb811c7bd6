"""A gated linear unit, Dauphin et al. 2017 (arXiv 1612.08083), equation 1: y = (x A + a) * sigmoid(x B + b), D -> D.

Unlike `gated`, it has no output matrix. It is the first layer of the Evolved Transformer's encoder block (So et al.
2019).
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class GatedLinearUnit(nnx.Module):
    """A position-wise gated linear unit, [B T D] -> [B T D]. Parameters: 2 (D^2 + D).

    `linear` holds A and a, `gate` B and b.
    """

    def __init__(self, *, width: Positive, rngs: nnx.Rngs):
        self.linear = Linear(width, width, rngs=rngs)
        self.gate = Linear(width, width, rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        return self.linear(x) * jax.nn.sigmoid(self.gate(x)), {}
