"""Hard attention, Xu et al. 2015 (arXiv 1502.03044), section 4.1:
s_t ~ Categorical(softmax(scores_t)), z_t = values[s_t].

The choice has no derivative. The scores are trained with REINFORCE, from the log-probability (`reinforce_surrogate`).
The released code (arctic-captions) samples in training and takes the *expected* value, softmax(scores) values, in
decoding; it also has an argmax, which is not the default. Here, attention samples with a key and takes the argmax
without a key.
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
    """Returns (context, one-hot weights, log-probability of the choice). Each query reads only one value.

    With a key, the choice is a sample. Only the log-probability is differentiable with respect to the scores. Without a
    key, the choice is the argmax (the first of equal scores). Since nothing is sampled, the gradient of the
    log-probability is stopped, and the scores get exactly zero gradient. Weights and log-probabilities are float32. For
    a query with no visible key, all three are 0. Raises ValueError naming the argument and the axis.

    >>> scores, values = jnp.array([[[0.0, 2.0]]]), jnp.array([[[10.0], [20.0]]])
    >>> context, weights, log_prob = hard_attention(None, scores, values)  # without a key: the highest score
    >>> context.item(), weights.tolist(), jnp.exp(log_prob).round(2).tolist()
    (20.0, [[[0.0, 1.0]]], [[0.8799999952316284]])
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
    """log softmax(logits) at the chosen entry, or 0 if no key is visible."""
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
    """`hard_attention` if `sampled`, else soft attention with softmax(scores), which lowers the variance.

    The paper flips a fair coin. The released code flips it once per minibatch, for all steps; therefore the coin
    (`jax.random.bernoulli(key)`) is an argument. Soft attention makes no choice: its log-probability is 0, and its
    scores are trained through the context. (In this case, the released code adds (cost - baseline) / 10 to the gradient
    of every weight, which the derivative of the softmax maps to 0.)

    >>> scores, values = jnp.zeros((1, 1, 2)), jnp.array([[[10.0], [20.0]]])
    >>> context, _, _ = semi_sampled_attention(jax.random.key(0), jnp.array(False), scores, values)
    >>> context.item()  # not sampled: the expectation
    15.0
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
