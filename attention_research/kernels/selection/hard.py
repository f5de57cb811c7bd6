"""Hard attention, Xu et al. 2015 (arXiv 1502.03044), section 4.1:
s_t ~ Categorical(softmax(scores_t)), z_t = values[s_t].

The choice has no derivative: its scores learn from the log-probability by REINFORCE (`reinforce_surrogate`). The
released code (arctic-captions) samples while training and takes the *expected* value, softmax(scores) values, when it
decodes; an argmax is there too, unused by default. Here a key samples and no key is the argmax.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def hard_attention(
    key: PRNGKeyArray | None,
    scores: Float[Array, "B T S"],
    values: Float[Array, "B S Dv"],
    mask: Bool[Array, "#B #T #S"] | None = None,
) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T S"], Float[Array, "B T"]]:
    """(context, one-hot weights, log-probability of the choice): one value a query, the others are not read.

    With a key the choice is a sample, and `log_prob` is differentiable in the scores: nothing else here is. Without a
    key it is the argmax (the first of equals); nothing was sampled, so that the gradient of `log_prob` is stopped too
    and the scores get exactly zero. Weights and log-probabilities are float32. A query that may attend to nothing
    gives 0, 0 and 0. Raises ValueError naming the argument and the axis.
    """
    S = check_shapes(scores=(scores, "B T S"), values=(values, "B S Dv"), mask=(mask, "#B #T #S"))["S"]
    if S == 0:
        nothing = jnp.zeros(scores.shape, accumulator(scores.dtype))
        context = jnp.zeros((*scores.shape[:2], values.shape[2]), values.dtype)
        return context, nothing, jnp.sum(nothing, axis=-1)
    logits = scores.astype(accumulator(scores.dtype))
    if mask is not None:
        logits = jnp.where(mask, logits, -jnp.inf)
    fixed = jax.lax.stop_gradient(logits)
    choice = jnp.argmax(fixed, axis=-1) if key is None else jax.random.categorical(key, fixed, axis=-1)
    choice = choice.astype(jnp.int32)[..., None]
    some = jnp.any(fixed > -jnp.inf, axis=-1, keepdims=True)
    chosen = (jnp.arange(S, dtype=jnp.int32) == choice) & some
    context = jnp.where(some, jnp.take_along_axis(values, choice, axis=1, mode="clip"), jnp.zeros((), values.dtype))
    log_prob = _log_probability(fixed if key is None else logits, chosen, some)
    return context, chosen.astype(logits.dtype), log_prob


def _log_probability(logits: Array, chosen: Array, some: Array) -> Array:
    """log softmax(logits) at the chosen entry; 0 where nothing is visible."""
    largest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    logits = logits - jnp.where(some, largest, jnp.zeros_like(largest))
    total = jnp.sum(jnp.exp(logits), axis=-1)
    at = jnp.sum(jnp.where(chosen, logits, jnp.zeros_like(logits)), axis=-1)
    return at - jnp.log(jnp.where(some[..., 0], total, jnp.ones_like(total)))


def semi_sampled_attention(
    key: PRNGKeyArray,
    sampled: Bool[Array, ""],
    scores: Float[Array, "B T S"],
    values: Float[Array, "B S Dv"],
    mask: Bool[Array, "#B #T #S"] | None = None,
) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T S"], Float[Array, "B T"]]:
    """`hard_attention` where `sampled`, else soft attention with softmax(scores) itself: lowers the variance.

    The paper flips a fair coin; the released code flips it once a minibatch, for all its steps, which is why the coin
    (`jax.random.bernoulli(key)`) is an argument. Soft attention chose nothing: its log-probability is 0, and its
    scores learn through the context. (The released code adds (cost - baseline) / 10 to the gradient of every weight
    then, which the softmax's derivative takes to 0.)
    """
    check_shapes(sampled=(sampled, ""), scores=(scores, "B T S"), values=(values, "B S Dv"), mask=(mask, "#B #T #S"))
    context, weights, log_prob = hard_attention(key, scores, values, mask)
    soft = softmax_or_zero(scores.astype(weights.dtype), mask)
    expected = einsum("BTS,BSD->BTD", soft.astype(values.dtype), values).astype(values.dtype)
    return (
        jnp.where(sampled, context, expected),
        jnp.where(sampled, weights, soft),
        jnp.where(sampled, log_prob, jnp.zeros_like(log_prob)),
    )
