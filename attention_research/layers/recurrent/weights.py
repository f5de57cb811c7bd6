"""Default initialization of the weights of recurrent cells, separately for each gate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.linear import glorot_uniform

orthogonal = jax.nn.initializers.orthogonal()


def input_kernel(input_width: int, width: int, gates: int, rngs: nnx.Rngs) -> nnx.Param:
    """An input kernel [I gates*D], Glorot uniform for each gate.

    >>> input_kernel(3, 4, gates=2, rngs=nnx.Rngs(0)).shape
    (3, 8)
    """
    keys = jax.random.split(rngs.params(), gates)
    return nnx.Param(jnp.concatenate([glorot_uniform(key, (input_width, width), jnp.float32) for key in keys], axis=1))


def state_kernel(width: int, gates: int, rngs: nnx.Rngs) -> nnx.Param:
    """A state kernel [D gates*D], an orthogonal matrix for each gate (Saxe et al. 2014).

    >>> kernel = state_kernel(4, gates=2, rngs=nnx.Rngs(0))[...][:, :4]  # of the first gate
    >>> print(abs((kernel @ kernel.T)))
    [[1. 0. 0. 0.]
     [0. 1. 0. 0.]
     [0. 0. 1. 0.]
     [0. 0. 0. 1.]]
    """
    return nnx.Param(orthogonal_gates(rngs.params(), width, gates))


def orthogonal_gates(key: Key[Array, ""], width: int, gates: int) -> Float[Array, "D G"]:
    """An array [D gates*D] of one orthogonal matrix for each gate.

    >>> orthogonal_gates(jax.random.key(0), 4, gates=3).shape
    (4, 12)
    """
    keys = jax.random.split(key, gates)
    return jnp.concatenate([orthogonal(one, (width, width), jnp.float32) for one in keys], axis=1)


def zeros(width: int) -> nnx.Param:
    """A bias [D] of zeros.

    >>> zeros(3)[...].tolist()
    [0.0, 0.0, 0.0]
    """
    return nnx.Param(jnp.zeros((width,), jnp.float32))
