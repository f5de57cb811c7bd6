"""Gumbel-softmax, Jang, Gu & Poole 2017 (arXiv 1611.01144), section 2:
y = softmax((scores + g) / tau), g ~ Gumbel(0, 1).

The same as the Concrete distribution of Maddison, Mnih & Teh (arXiv 1611.00712). The argmax of y is a sample of
softmax(scores) at every temperature tau; y itself tends to it as tau tends to 0. Straight-through (section 2.2): the
value is that one-hot argmax, the gradient is y's, which is biased and of low variance where REINFORCE is the opposite.
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
    """The weights y, or exactly one-hot with y's gradient where `straight_through`; without a key there is no noise.

    The temperature may be an array, to be annealed; it is above 0. Float32. A query that may attend to nothing gives 0.
    Raises ValueError naming the argument and the axis.
    """
    check_shapes(scores=(scores, "B T S"), mask=(mask, "#B #T #S"))
    dtype = accumulator(scores.dtype)
    temperature = jnp.asarray(temperature, dtype)
    check_shapes(temperature=(temperature, ""))
    noisy = scores.astype(dtype)
    if key is not None:
        noisy = noisy + jax.random.gumbel(key, scores.shape, dtype)
    soft = softmax_or_zero(noisy / temperature, mask)
    if not straight_through or scores.shape[-1] == 0:
        return soft
    # From the noisy scores: a low temperature rounds near ones to equal weights.
    if mask is not None:
        noisy = jnp.where(mask, noisy, -jnp.inf)
    choice = jnp.argmax(noisy, axis=-1, keepdims=True)
    one_hot = (jnp.arange(scores.shape[-1], dtype=choice.dtype) == choice) & (noisy > -jnp.inf)
    return one_hot.astype(dtype) + (soft - jax.lax.stop_gradient(soft))  # the bracket is exactly 0


def gumbel_attention(
    key: PRNGKeyArray | None,
    scores: Float[Array, "B T S"],
    values: Float[Array, "B S Dv"],
    mask: Bool[Array, "#B #T #S"] | None = None,
    *,
    temperature: float | int | Float[Array, ""] = 1.0,
    straight_through: bool = True,
) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T S"]]:
    """(context, weights) with the weights of `gumbel_softmax`: hard attention whose scores learn by backpropagation."""
    check_shapes(scores=(scores, "B T S"), values=(values, "B S Dv"), mask=(mask, "#B #T #S"))
    weights = gumbel_softmax(key, scores, mask, temperature=temperature, straight_through=straight_through)
    context = einsum("BTS,BSD->BTD", weights.astype(values.dtype), values)
    return context.astype(values.dtype), weights
