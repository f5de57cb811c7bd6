"""The position-wise feed-forward network, Vaswani et al. 2017, equation 2: FFN(x) = act(x W1 + b1) W2 + b2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.linear import Linear
from attention_research.signatures import Positive

#: "gelu" is the tanh approximation of Hendrycks & Gimpel 2016 (arXiv 1606.08415), equation 2, and "gelu_exact" is
#: x Phi(x). Swish is x sigmoid(x), Ramachandran et al. 2017; ELU is Clevert et al. 2015; SELU is Klambauer et al. 2017;
#: softplus is log(1 + e^x). Feed-forwards with sigmoid and softplus are rows of Narang et al. 2021 (arXiv 2102.11972),
#: Table 1.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "gelu_exact": partial(jax.nn.gelu, approximate=False),
    "swish": jax.nn.swish,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
}


class DenseFeedForward(nnx.Module):
    """A feed-forward network with one hidden layer, [B T D] -> [B T F] -> [B T D]. `hidden_width` is F (d_ff).

    >>> layer = DenseFeedForward(width=8, hidden_width=32, rngs=nnx.Rngs(0))
    >>> layer(jnp.ones((1, 3, 8)))[0].shape
    (1, 3, 8)
    """

    def __init__(
        self,
        *,
        width: Positive,
        hidden_width: Positive,
        activation: Literal["relu", "gelu", "gelu_exact", "swish", "elu", "selu", "sigmoid", "softplus"] = "relu",
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        self.activation = activation
        self.hidden = Linear(width, hidden_width, use_bias=use_bias, rngs=rngs)
        self.output = Linear(hidden_width, width, use_bias=use_bias, rngs=rngs)

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        return self.output(ACTIVATIONS[self.activation](self.hidden(x))), {}
