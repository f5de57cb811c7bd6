"""No gate: the branch is not weighted."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.signatures import Given


class NoGate(nnx.Module):
    """Returns its input. It has no parameters."""

    def __init__(self, *, channels: Given[int], rngs: nnx.Rngs):
        del channels, rngs

    def __call__(self, x: Float[Array, "B Y X C"], *, training: bool) -> tuple[Float[Array, "B Y X C"], dict[str, Any]]:
        """Returns (x, {})."""
        del training
        return x, {}
