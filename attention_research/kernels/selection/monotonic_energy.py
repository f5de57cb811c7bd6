"""Monotonic energy, Raffel et al. 2017 (arXiv 1704.00784), section 2.4: g v^T / ||v|| tanh(W s + U h + b) + r.

The scale g is initialized to 1 / sqrt(A), and the offset r to a negative value (-1 for text, -4 for speech). With r =
0, each position would initially be chosen with probability 1/2, and attention would not get beyond the first few
positions. Unlike a softmax, a sigmoid depends on scale and offset.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from attention_research.kernels.directions import rescaled
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def monotonic_energy(
    query: Float[Array, "B T Dq"],
    keys: Float[Array, "B S Dk"],
    query_weight: Float[Array, "A Dq"],
    key_weight: Float[Array, "A Dk"],
    bias: Float[Array, "A"],
    v: Float[Array, "A"],
    gain: Float[Array, ""],
    offset: Float[Array, ""],
) -> Float[Array, "B T S"]:
    """The energies of all queries and keys, in float32. At test time, a position with energy above 0 is chosen.

    It is the paper's additive energy with weight normalization of v, a bias and a scalar offset. It takes B T S A
    memory. If v is 0, its direction is 0, with gradient 0. Raises ValueError naming the argument and the axis.

    >>> query, keys, weights = jnp.ones((1, 2, 3)), jnp.ones((1, 5, 4)), (jnp.ones((6, 3)), jnp.ones((6, 4)))
    >>> gain, offset = jnp.array(0.4), jnp.array(-4.0)
    >>> monotonic_energy(query, keys, *weights, jnp.zeros(6), jnp.ones(6), gain, offset).shape
    (1, 2, 5)
    """
    axes = {"query": "B T Dq", "keys": "B S Dk", "query_weight": "A Dq", "key_weight": "A Dk", "bias": "A", "v": "A",
            "gain": "", "offset": ""}  # fmt: skip
    arrays = (query, keys, query_weight, key_weight, bias, v, gain, offset)
    check_shapes(**{name: (array, axes[name]) for name, array in zip(axes, arrays, strict=True)})
    dtype = accumulator(query.dtype)
    bias, v, gain, offset = (x.astype(dtype) for x in (bias, v, gain, offset))
    from_query = einsum("BTD,AD->BTA", query, query_weight.astype(query.dtype))[:, :, None]
    from_keys = einsum("BSD,AD->BSA", keys, key_weight.astype(keys.dtype))[:, None]
    v = rescaled(v)
    square = jnp.sum(jnp.square(v))
    direction = gain * v / jnp.sqrt(jnp.where(square == 0, jnp.ones_like(square), square))
    return einsum("BTSA,A->BTS", jnp.tanh(from_query + from_keys.astype(dtype) + bias), direction) + offset


def choosing_probability(
    energy: Float[Array, "B T S"],
    key: PRNGKeyArray | None = None,
    *,
    deviation: float | int = 1.0,
    mask: Bool[Array, "#B #T #S"] | None = None,
) -> Float[Array, "B T S"]:
    """p = sigmoid(energy + deviation noise), in float32, with noise from N(0, 1). It is 0 where the mask is False.

    The noise makes the model prefer energies far from 0, so that p is nearly binary at test time, as the hard process
    requires (section 2.5). Without a key, as at test time, there is no noise.

    >>> choosing_probability(jnp.array([[[0.0, 0.0]]]), mask=jnp.array([[[True, False]]])).tolist()
    [[[0.5, 0.0]]]
    """
    check_shapes(energy=(energy, "B T S"), mask=(mask, "#B #T #S"))
    energy = energy.astype(accumulator(energy.dtype))
    if key is not None:
        energy = energy + deviation * jax.random.normal(key, energy.shape, energy.dtype)
    p = jax.nn.sigmoid(energy)
    return p if mask is None else jnp.where(mask, p, jnp.zeros_like(p))
