"""Default initialization of the weights of recurrent cells, separately for each gate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.linear import glorot_uniform

orthogonal = jax.nn.initializers.orthogonal()


def input_kernel(input_width: int, width: int, gates: int, rngs: nnx.Rngs) -> nnx.Param:
    """An input kernel [I gates*D], Glorot uniform for each gate."""
    keys = jax.random.split(rngs.params(), gates)
    return nnx.Param(jnp.concatenate([glorot_uniform(key, (input_width, width), jnp.float32) for key in keys], axis=1))


def state_kernel(width: int, gates: int, rngs: nnx.Rngs) -> nnx.Param:
    """A state kernel [D gates*D], an orthogonal matrix for each gate (Saxe et al. 2014)."""
    return nnx.Param(orthogonal_gates(rngs.params(), width, gates))


def orthogonal_gates(key: Key[Array, ""], width: int, gates: int) -> Float[Array, "D G"]:
    """An array [D gates*D] of one orthogonal matrix for each gate."""
    keys = jax.random.split(key, gates)
    return jnp.concatenate([orthogonal(one, (width, width), jnp.float32) for one in keys], axis=1)


def zeros(width: int) -> nnx.Param:
    """A bias [D] of zeros."""
    return nnx.Param(jnp.zeros((width,), jnp.float32))
