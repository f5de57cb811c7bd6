"""REINFORCE for hard attention, Xu et al. 2015 (arXiv 1502.03044), section 4.1: (cost - b) d log p(s) - lambda_e dH[s].

The whole loss, minimised: cost (whose gradient reaches everything but the choices' scores), plus lambda_r times
`reinforce_surrogate`, minus lambda_e times `attention_entropy`. The paper maximises log p(y | s): a reward, the cost's
negative. The released code fixes lambda_r at 1/10 and lambda_e at 0.002, does not divide the surrogate by the batch
although it divides the cost, and for its cost takes either the caption's mean over time or, by default, each word's own
cost without a baseline; that last is biased, since a choice changes the later words too (`cost_to_go` is not).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def reinforce_surrogate(
    log_prob: Float[Array, "B T"],
    cost: Float[Array, "B #T"],
    baseline: Float[Array, ""],
    mask: Bool[Array, "B T"] | None = None,
) -> Float[Array, "B T"]:
    """(cost - baseline) log_prob, 0 where the mask is False: its gradient is the estimate, its value means nothing.

    Cost and baseline are constants here. `cost` is the sequence's, [B 1], or what came after each choice, [B T]; any
    baseline that does not depend on the choices leaves the estimate unbiased. Float32. Raises ValueError naming the
    argument and the axis.
    """
    check_shapes(log_prob=(log_prob, "B T"), cost=(cost, "B #T"), baseline=(baseline, ""), mask=(mask, "B T"))
    dtype = accumulator(log_prob.dtype)
    advantage = jax.lax.stop_gradient(cost.astype(dtype) - baseline.astype(dtype))
    surrogate = advantage * log_prob.astype(dtype)
    return surrogate if mask is None else jnp.where(mask, surrogate, jnp.zeros_like(surrogate))


def cost_to_go(cost: Float[Array, "B T"]) -> Float[Array, "B T"]:
    """The sum of a sequence's costs from each position on: all that the choice there can have changed.

    >>> cost_to_go(jnp.array([[1.0, 2.0, 4.0]])).tolist()
    [[7.0, 6.0, 4.0]]
    """
    check_shapes(cost=(cost, "B T"))
    return jnp.cumsum(cost.astype(accumulator(cost.dtype))[:, ::-1], axis=1)[:, ::-1]


def moving_average_baseline(
    baseline: Float[Array, ""],
    cost: Float[Array, "B #T"],
    mask: Bool[Array, "B T"] | None = None,
    *,
    decay: float = 0.9,
) -> Float[Array, ""]:
    """decay b + (1 - decay) mean(cost): the baseline of the *next* minibatch, so that it knows nothing of this one.

    The mean is over the real positions of [B T], or over the sequences of [B 1]; without any the baseline stays. Starts
    at 0. Has no gradient.
    """
    sizes = check_shapes(baseline=(baseline, ""), cost=(cost, "B #T"), mask=(mask, "B T"))
    dtype = accumulator(cost.dtype)
    cost, baseline = (jax.lax.stop_gradient(x).astype(dtype) for x in (cost, baseline))
    real = jnp.ones(cost.shape, bool)
    if mask is not None:
        real = mask.any(axis=1, keepdims=True) if cost.shape[1] == 1 != sizes["T"] else mask
    count = jnp.sum(real, dtype=dtype)
    mean = jnp.sum(jnp.where(real, cost, jnp.zeros_like(cost))) / jnp.maximum(count, 1)
    return jnp.where(count > 0, decay * baseline + (1 - decay) * mean, baseline)


def attention_entropy(
    scores: Float[Array, "B T S"], mask: Bool[Array, "#B #T #S"] | None = None
) -> Float[Array, "B T"]:
    """H = -sum_s alpha_s log alpha_s of alpha = softmax(scores) over the visible keys, in nats, float32; 0 for none.

    From the scores and not from alpha, whose logarithm overflows where a weight underflows (the released code's does).
    """
    check_shapes(scores=(scores, "B T S"), mask=(mask, "#B #T #S"))
    scores = scores.astype(accumulator(scores.dtype))
    logits = scores if mask is None else jnp.where(mask, scores, -jnp.inf)
    visible = logits > -jnp.inf
    some = jnp.any(visible, axis=-1)
    largest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True, initial=-jnp.inf))
    zero = jnp.zeros((), scores.dtype)
    shifted = jnp.where(visible, scores - jnp.where(some[..., None], largest, zero), zero)
    total = jnp.sum(jnp.where(visible, jnp.exp(shifted), zero), axis=-1)
    expected = jnp.sum(softmax_or_zero(logits) * shifted, axis=-1)
    return jnp.log(jnp.where(some, total, jnp.ones_like(total))) - expected
