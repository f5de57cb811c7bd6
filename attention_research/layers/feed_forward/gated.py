"""Gated linear units, Dauphin et al. 2017 (arXiv 1612.08083), equation 1, as feed-forwards, Shazeer 2020 (arXiv
2002.05202), equation 6: FFN(x) = (act(x W + b) * (x V + c)) W2 + b2.

GLU has the sigmoid, GEGLU gelu (the tanh form), ReGLU relu, SwiGLU swish, and the bilinear layer ("LiGLU") no
activation. Three matrices where the dense layer has two: the papers take F a third smaller for as many parameters.
Shazeer leaves the biases out (`use_bias` False); the runs of Narang et al. 2021 have all three.
"""

from __future__ import annotations

from typing import Any, Literal

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.feed_forward.dense import ACTIVATIONS
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class GatedFeedForward(nnx.Module):
    """[B T D] -> [B T F] -> [B T D]: `gate` has W, b, `hidden` V, c, `output` W2, b2."""

    def __init__(
        self,
        *,
        width: Positive,
        hidden_width: Positive,
        activation: Literal["sigmoid", "gelu", "relu", "swish", "identity"] = "sigmoid",
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        self.activation = activation
        self.gate = Linear(width, hidden_width, use_bias=use_bias, rngs=rngs)
        self.hidden = Linear(width, hidden_width, use_bias=use_bias, rngs=rngs)
        self.output = Linear(hidden_width, width, use_bias=use_bias, rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        gate = self.gate(x)
        if self.activation != "identity":
            gate = ACTIVATIONS[self.activation](gate)
        return self.output(gate * self.hidden(x)), {}
