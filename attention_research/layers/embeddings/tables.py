"""Tables for embeddings and logits, full or factorized, which the factorized and adaptive vocabularies use.

Lan et al. 2020 (ALBERT, arXiv 1909.11942), section 3.1: a table [V D] is factorized as [V R] [R D], with V R + R D
parameters instead of V D. Scales are those of T5: embeddings have unit variance and are not scaled, and a hidden state
is multiplied by D^-0.5 before the product with the table.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import einsum
from attention_research.layers.embeddings.t5 import scaled


class Table(nnx.Module):
    """A table [V D], initialized from N(0, 1).

    >>> table = Table(10, 4, rngs=nnx.Rngs(0))
    >>> x, kernel = table.output(table.embed(jnp.array([3, 7]), "float32"))
    >>> (x @ kernel).shape
    (2, 10)
    """

    def __init__(self, rows: int, width: int, *, rngs: nnx.Rngs):
        self.table = nnx.Param(jax.random.normal(rngs.params(), (rows, width), jnp.float32))

    def embed(self, ids: Int[Array, "*B"], dtype: str) -> Float[Array, "*B D"]:
        """The embeddings table[ids], in the compute dtype."""
        return self.table[...][as_int32("ids", ids)].astype(dtype)

    def output(self, hidden: Float[Array, "*B D"]) -> tuple[Float[Array, "*B D"], Float[Array, "D V"]]:
        """Returns (x, kernel), whose product is the logits hidden D^-0.5 table^T."""
        return scaled(hidden), self.table[...].T


class FactoredTable(nnx.Module):
    """Factors `table` [V R] and `projection_kernel` [R D] of variance R^-0.5, so that their product has variance 1."""

    def __init__(self, rows: int, rank: int, width: int, *, rngs: nnx.Rngs):
        def normal(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.normal(rngs.params(), shape, jnp.float32) * rank**-0.25)

        self.table = normal(rows, rank)
        self.projection_kernel = normal(rank, width)

    def embed(self, ids: Int[Array, "*B"], dtype: str) -> Float[Array, "*B D"]:
        """The embeddings table[ids] projection_kernel, in the compute dtype."""
        narrow, kernel = self.table[...][as_int32("ids", ids)].astype(dtype), self.projection_kernel[...].astype(dtype)
        return einsum("...R,RD->...D", narrow, kernel).astype(dtype)

    def output(self, hidden: Float[Array, "*B D"]) -> tuple[Float[Array, "*B R"], Float[Array, "R V"]]:
        """Returns (x, kernel), whose product is the logits (hidden D^-0.5 projection_kernel^T) table^T."""
        kernel = self.projection_kernel[...].astype(hidden.dtype)
        return einsum("...D,RD->...R", scaled(hidden), kernel).astype(hidden.dtype), self.table[...].T
