"""The base class of score functions. The part of a score that depends only on the source is computed once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

glorot_uniform = jax.nn.initializers.glorot_uniform()


def weight(rngs: nnx.Rngs, rows: int, columns: int) -> nnx.Param:
    """A matrix [rows columns] with Glorot uniform initialization."""
    return nnx.Param(glorot_uniform(rngs.params(), (rows, columns), jnp.float32))


def vector(rngs: nnx.Rngs, size: int) -> nnx.Param:
    """A vector [size] from U(-1/sqrt(size), 1/sqrt(size)), which multiplies the hidden layer of a score."""
    bound = size**-0.5
    return nnx.Param(jax.random.uniform(rngs.params(), (size,), jnp.float32, -bound, bound))


class Score(nnx.Module):
    """``score(query, score.prepare(keys))`` is the score [B T S] of each query [B T Dq] with each key [B S Dk]."""

    def prepare(self, keys: Float[Array, "B S Dk"]) -> Float[Array, "B S A"]:
        """The keys in the form that `__call__` takes."""
        return keys

    def __call__(self, query: Float[Array, "B T Dq"], prepared: Float[Array, "B S A"]) -> Float[Array, "B T S"]:
        """The scores, in float32."""
        raise NotImplementedError
