"""Zeros where a row is padded, a step of every branch in Mesh TensorFlow's Transformer (`sublayer_mask_padding`)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float


class Padding(nnx.Module):
    """x where a token is not padding, 0 elsewhere; owns nothing, and changes nothing where it is given no mask."""

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(
        self, x: Float[Array, "B T D"], *, real: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(x, nothing beside it)."""
        return (x if real is None else x * real[..., None].astype(x.dtype)), {}


def real_tokens(mask: Bool[Array, "B #N #T S"] | None) -> dict[str, Bool[Array, "B S"]]:
    """What a self-attention's mask says to `Padding`: a token is not padding where any position may attend to it."""
    return {} if mask is None else {"real": mask.any(axis=(1, 2))}
