"""Independent positions, Wu, Shapiro & Cotterell 2018 (arXiv 1808.10024), 0-HARD: p(a_i = j) = softmax_j(e_ij)."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero


class IndependentPositions(nnx.Module):
    """The position of an output does not depend on that of the previous output."""

    def __call__(
        self, scores: Float[Array, "B S"], previous: Float[Array, "B S"], real: Bool[Array, "B S"]
    ) -> Float[Array, "B S"]:
        """The softmax of the scores over non-padding positions."""
        del previous
        return softmax_or_zero(scores.astype(jnp.float32), real)
