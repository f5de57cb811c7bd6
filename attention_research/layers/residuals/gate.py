"""The gated residual of the Universal Transformer of Narang et al. 2021 (arXiv 2102.11972), following their code.

x <- x + (1 - u) y + u c, a gated recurrent unit (Cho et al. 2014, arXiv 1406.1078) of the branch's input x and its
output y, with one layer norm g for all of its inputs:

    u = sigmoid([g(x); g(y)] W_u + b_u)
    r = sigmoid([g(g(x)); g(g(y))] W_r + b_r)
    c = sigmoid([g(r x); g(y)] W_c + b_c)

Two unusual details come from the code (Mesh TensorFlow, `universal_transformer.py`). The inputs of the reset gate are
normalized twice, because the code normalizes the list of the update gate's inputs in place. The activation of the
candidate is a sigmoid, not tanh. In the code, dropout follows the gate; here, the block's steps determine its place.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.linear import Linear
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.signatures import Positive


class GRUGate(nnx.Module):
    """The gated residual: W_u, W_r and W_c [2D D], biases and a norm, 3 (2 D^2 + D) + 2 D parameters per branch."""

    def __init__(self, *, width: Positive, rngs: nnx.Rngs):
        self.norm = LayerNorm(width=width, rngs=rngs)
        self.update = Linear(2 * width, width, rngs=rngs)
        self.reset = Linear(2 * width, width, rngs=rngs)
        self.candidate = Linear(2 * width, width, rngs=rngs)

    def __call__(self, stream: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """stream + (1 - u) y + u c."""
        once = self.norm(stream), self.norm(y)
        twice = self.norm(once[0]), self.norm(once[1])
        update, reset = gate(self.update, *once), gate(self.reset, *twice)
        candidate = gate(self.candidate, self.norm(reset * stream), once[1])
        return stream + (1 - update) * y + update * candidate


def gate(linear: Linear, x: Float[Array, "B T D"], y: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
    """sigmoid([x; y] W + b)."""
    return jax.nn.sigmoid(linear(jnp.concatenate([x, y], axis=-1)))
