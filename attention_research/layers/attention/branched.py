"""Branched attention of the Weighted Transformer, Ahmed et al. 2017 (arXiv 1711.02132), section 3.

head_h = (softmax(Q_h K_h^T) V_h) O_h and y = sum_h alpha_h FFN(kappa_h head_h). kappa and alpha are learned; after each
update they are normalized to sums of 1 (optimizer "simplex"). The layer has no other feed-forward, so its steps must
not contain one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.multi_head import NOWHERE, Where
from attention_research.layers.attention.unscaled import UnscaledAttention
from attention_research.layers.feed_forward.nested import nested_output
from attention_research.signatures import Child


class Branches(nnx.Module):
    """Computes sum_h alpha_h FFN(kappa_h head_h). All heads share one feed-forward; kappa and alpha are [N].

    kappa and alpha are initialized from U(0, 1), as in the release of Narang et al. 2021 (arXiv 2102.11972). Raises
    ConfigError if the feed-forward returns an aux (`nested_output`).
    """

    def __init__(self, num_heads: int, feed_forward: Callable[..., nnx.Module], *, rngs: nnx.Rngs):
        self.kappa = nnx.Param(jax.random.uniform(rngs.params(), (num_heads,), jnp.float32))
        self.alpha = nnx.Param(jax.random.uniform(rngs.params(), (num_heads,), jnp.float32))
        self.feed_forward = feed_forward(rngs=rngs)

    def __call__(self, context: Float[Array, "B T N Hv"], kernel: Float[Array, "N*Hv D"]) -> Float[Array, "B T D"]:
        """Projects the context of each head with its rows of the output projection, then sums the branches."""
        batch, length, num_heads, _ = context.shape
        by_head = kernel.reshape(num_heads, -1, kernel.shape[-1]).astype(context.dtype)
        heads = jnp.einsum("BTNH,NHD->BTND", context, by_head) * self.kappa[...].astype(context.dtype)[:, None]
        tokens = heads.reshape(batch, length * num_heads, -1)
        answers = nested_output(self.feed_forward, tokens, setting="feed_forward", layer="branches")
        return jnp.einsum("BTND,N->BTD", answers.reshape(heads.shape), self.alpha[...].astype(context.dtype))


class BranchedAttention(UnscaledAttention):
    """Branched attention without the scale 1/sqrt(H) and without biases, as in the release of Narang et al. 2021."""

    def __init__(self, *, feed_forward: Child["feed_forward"], rngs: nnx.Rngs, **inherited: Any):
        super().__init__(value_head_width=None, num_key_value_heads=None, use_bias=False, rngs=rngs, **inherited)
        self.branches = Branches(self.num_heads, feed_forward, rngs=rngs)

    def finish(self, context: Array, where: Where = NOWHERE) -> Float[Array, "B T D"]:
        """Applies the branches instead of one output projection of all heads."""
        return self.branches(context, self.output.kernel[...])
