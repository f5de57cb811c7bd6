"""Zeroes padding positions, as every branch of Mesh TensorFlow's Transformer does (`sublayer_mask_padding`)."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float


class Padding(nnx.Module):
    """Zeroes x at padding positions. It has no parameters, and without a mask it returns x.

    >>> import jax.numpy as jnp
    >>> x, real = jnp.array([[[1.0], [2.0], [3.0]]]), jnp.array([[True, True, False]])
    >>> Padding(rngs=nnx.Rngs(0))(x, real=real)[0].tolist()
    [[[1.0], [2.0], [0.0]]]
    """

    def __init__(self, *, rngs: nnx.Rngs):
        del rngs

    def __call__(
        self, x: Float[Array, "B T D"], *, real: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (x, {})."""
        return (x if real is None else x * real[..., None].astype(x.dtype)), {}


def real_tokens(mask: Bool[Array, "B #N #T S"] | None) -> dict[str, Bool[Array, "B S"]]:
    """The argument `real` of `Padding`, from a self-attention mask: real tokens are visible to some position."""
    return {} if mask is None else {"real": mask.any(axis=(1, 2))}
