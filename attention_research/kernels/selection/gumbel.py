"""Gumbel-softmax, Jang, Gu & Poole 2017 (arXiv 1611.01144), section 2:
y = softmax((scores + g) / tau), g ~ Gumbel(0, 1).

It is the same as the Concrete distribution of Maddison, Mnih & Teh (arXiv 1611.00712). The argmax of y is a sample from
softmax(scores) at every temperature tau, and y converges to the one-hot argmax as tau goes to 0. With the
straight-through estimator (section 2.2), the value is the one-hot argmax and the gradient is that of y. This gradient
is biased and has a low variance; REINFORCE is unbiased and has a high variance.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def gumbel_softmax(
    key: PRNGKeyArray | None,
    scores: Float[Array, "B T S"],
    mask: Bool[Array, "#B #T #S"] | None = None,
    *,
    temperature: float | int | Float[Array, ""] = 1.0,
    straight_through: bool = True,
) -> Float[Array, "B T S"]:
    """The weights y, or, with `straight_through`, exact one-hot weights with the gradient of y. No key means no noise.

    The temperature is above 0; it may be an array, for annealing. Computed in float32. A query with no visible key
    gives 0. Raises ValueError naming the argument and the axis.

    >>> scores = jnp.array([[[0.0, 1.0, 0.0]]])
    >>> gumbel_softmax(None, scores).tolist()  # without noise: the position with the highest score
    [[[0.0, 1.0, 0.0]]]
    """
    check_shapes(scores=(scores, "B T S"), mask=(mask, "#B #T #S"))
    if not isinstance(temperature, jax.Array) and not temperature > 0:
        raise ValueError(f"temperature: expected more than 0, got {temperature}")
    dtype = accumulator(scores.dtype)
    temperature = jnp.asarray(temperature, dtype)
    check_shapes(temperature=(temperature, ""))
    noisy = scores.astype(dtype)
    if key is not None:
        noisy = noisy + jax.random.gumbel(key, scores.shape, dtype)
    soft = softmax_or_zero(noisy / temperature, mask)
    if not straight_through or scores.shape[-1] == 0:
        return soft
    # The argmax is of the noisy scores, because a low temperature can round near weights to equal ones.
    if mask is not None:
        noisy = jnp.where(mask, noisy, -jnp.inf)
    choice = jnp.argmax(noisy, axis=-1, keepdims=True)
    one_hot = (jnp.arange(scores.shape[-1], dtype=choice.dtype) == choice) & (noisy > -jnp.inf)
    return one_hot.astype(dtype) + (soft - jax.lax.stop_gradient(soft))  # the second term is exactly 0


def gumbel_attention(
    key: PRNGKeyArray | None,
    scores: Float[Array, "B T S"],
    values: Float[Array, "B S Dv"],
    mask: Bool[Array, "#B #T #S"] | None = None,
    *,
    temperature: float | int | Float[Array, ""] = 1.0,
    straight_through: bool = True,
) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T S"]]:
    """Hard attention that is trained by backpropagation. Returns (context, weights of `gumbel_softmax`).

    >>> scores, values = jnp.zeros((1, 1, 3)), jnp.arange(3.0).reshape(1, 3, 1)
    >>> context, weights = gumbel_attention(jax.random.key(0), scores, values)
    >>> weights.sum().item(), weights.max().item()  # one position is chosen
    (1.0, 1.0)
    """
    check_shapes(scores=(scores, "B T S"), values=(values, "B S Dv"), mask=(mask, "#B #T #S"))
    weights = gumbel_softmax(key, scores, mask, temperature=temperature, straight_through=straight_through)
    context = einsum("BTS,BSD->BTD", weights.astype(values.dtype), values)
    return context.astype(values.dtype), weights
