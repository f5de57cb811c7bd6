"""No shortcut, as in the plain network of He et al. 2015 (arXiv 1512.03385), the baseline of residual learning."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.signatures import Given


class NoShortcut(nnx.Module):
    """Returns y without x. It has no parameters."""

    def __init__(self, *, in_width: Given[int], out_width: Given[int], stride: Given[int], rngs: nnx.Rngs):
        del in_width, out_width, stride, rngs

    def __call__(
        self, x: Float[Array, "B Y X I"], y: Float[Array, "B V U O"], *, training: bool
    ) -> tuple[Float[Array, "B V U O"], dict[str, Any]]:
        """Returns (y, {})."""
        del x, training
        return y, {}
