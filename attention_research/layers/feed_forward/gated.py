"""Feed-forward layers with gated linear units: FFN(x) = (act(x W + b) * (x V + c)) W2 + b2.

Dauphin et al. 2017 (arXiv 1612.08083), equation 1, introduced the unit; Shazeer 2020 (arXiv 2002.05202), equation 6,
uses it as a feed-forward. The activation is the sigmoid in GLU, gelu (the tanh approximation) in GEGLU, relu in ReGLU,
swish in SwiGLU, and the identity in the bilinear layer ("LiGLU"). The layer has three matrices and the dense layer two;
the papers therefore reduce F by a third, for an equal number of parameters. Shazeer has no biases (`use_bias` False);
the runs of Narang et al. 2021 have all three.
"""

from __future__ import annotations

from typing import Any, Literal

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.feed_forward.dense import ACTIVATIONS
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class GatedFeedForward(nnx.Module):
    """A gated feed-forward, [B T D] -> [B T F] -> [B T D].

    `gate` holds W and b, `hidden` V and c, `output` W2 and b2.

    >>> layer = GatedFeedForward(width=8, hidden_width=32, activation="gelu", rngs=nnx.Rngs(0))
    >>> layer(jnp.ones((1, 3, 8)))[0].shape
    (1, 3, 8)
    """

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
