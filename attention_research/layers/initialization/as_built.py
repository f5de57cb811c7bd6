"""The default initialization: Glorot uniform matrices, orthogonal recurrent matrices, zero biases."""

from __future__ import annotations

from flax import nnx


class AsBuilt:
    """Keeps the initial values that each module draws for its own parameters."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Returns without a change to the module."""
