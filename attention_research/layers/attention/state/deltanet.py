"""DeltaNet, Schlag et al. 2021 (arXiv 2102.11174); Yang et al. 2024 (arXiv 2406.06484), section 3.3:
S_t = (I - beta_t k_t^T k_t) S_(t-1) + beta_t k_t^T v_t.

Queries, keys and values are SiLU(conv4(x W)); queries and keys are divided by their norms. beta = sigmoid(x W_beta), or
twice that (Grazzi et al. 2024, arXiv 2411.12537): then I - beta k^T k may have the eigenvalue -1. The heads are
normalized. The convolution matters: without it, the paper's models are much worse.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.state import delta_attention, delta_step
from attention_research.kernels.variants.query_key_l2 import unit_length
from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention
from attention_research.layers.linear import Linear
from attention_research.signatures import NonNegative


def unit(x: Float[Array, "*B H"]) -> Float[Array, "*B H"]:
    """x / sqrt(|x|^2 + 1e-6), in x's dtype.

    >>> print(unit(jnp.array([3.0, 4.0])))
    [0.6 0.8]
    """
    return unit_length(x, 1e-6).astype(x.dtype)


class DeltaNet(StateAttention):
    """The delta rule. With `negative_eigenvalues`, beta is between 0 and 2 instead of 0 and 1.

    `convolution_width` is the number of taps of the convolution; 0 means none.
    """

    kernel, kernel_step = staticmethod(delta_attention), staticmethod(delta_step)
    activated = True

    def __init__(
        self,
        *,
        convolution_width: NonNegative = 4,
        negative_eigenvalues: bool = False,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(convolution_width=convolution_width, rngs=rngs, **inherited)
        self.negative_eigenvalues = negative_eigenvalues
        self.beta = Linear(self.width, self.num_heads, use_bias=False, rngs=rngs)

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Equation 3 with normalized queries and keys."""
        beta = jax.nn.sigmoid(self.beta(x).astype(accumulator(x.dtype)))
        beta = 2 * beta if self.negative_eigenvalues else beta
        return {"query": unit(query), "key": unit(key), "value": value, "beta": beta}
