"""Monotonic positions, Wu & Cotterell 2019 (arXiv 1905.06319), 0-MONO: a softmax over positions that are not before
the previous one."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels import latent_monotonic


class MonotonicPositions(nnx.Module):
    """The position of an output is not before that of the previous output."""

    def __call__(
        self, scores: Float[Array, "B S"], previous: Float[Array, "B S"], real: Bool[Array, "B S"]
    ) -> Float[Array, "B S"]:
        """One step of the forward algorithm (`kernels.selection.latent_monotonic`)."""
        return latent_monotonic(scores, previous, mask=real)
