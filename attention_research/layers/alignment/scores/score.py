"""What the score functions have in common: what depends on the source alone is computed once a sentence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

glorot_uniform = jax.nn.initializers.glorot_uniform()


def weight(rngs: nnx.Rngs, rows: int, columns: int) -> nnx.Param:
    """A matrix [rows columns] by Glorot uniform."""
    return nnx.Param(glorot_uniform(rngs.params(), (rows, columns), jnp.float32))


def vector(rngs: nnx.Rngs, size: int) -> nnx.Param:
    """A vector [size], U(-1/sqrt(size), 1/sqrt(size)): what the hidden layer of a score is multiplied by."""
    bound = size**-0.5
    return nnx.Param(jax.random.uniform(rngs.params(), (size,), jnp.float32, -bound, bound))


class Score(nnx.Module):
    """``score(query, score.prepare(keys))``: how well each query [B T Dq] and each key [B S Dk] fit, [B T S]."""

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """The keys as `__call__` takes them."""
        return keys

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """Scores in float32."""
        raise NotImplementedError
