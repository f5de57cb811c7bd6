"""REINFORCE for hard attention, Xu et al. 2015 (arXiv 1502.03044), section 4.1: (cost - b) d log p(s) - lambda_e dH[s].

The loss to minimize is the cost (whose gradient reaches all parameters except the scores of the choices), plus lambda_r
times `reinforce_surrogate`, minus lambda_e times `attention_entropy`. The paper maximizes log p(y | s), a reward, which
is the negative cost. The released code sets lambda_r to 1/10 and lambda_e to 0.002, and divides the cost by the batch
size, but not the surrogate. Its cost is either the mean over time of the caption's cost or, by default, the cost of
each word without a baseline. The latter is biased, because a choice also affects later words; `cost_to_go` is unbiased.
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
    """(cost - baseline) log_prob, or 0 where the mask is False. Its gradient is the estimate; its value has no meaning.

    Cost and baseline are treated as constants. `cost` is the cost of the sequence, [B 1], or the cost after each
    choice, [B T]. The estimate is unbiased for any baseline that does not depend on the choices. Computed in float32.
    Raises ValueError naming the argument and the axis.

    >>> surrogate = lambda log_prob: reinforce_surrogate(log_prob, jnp.array([[5.0]]), jnp.array(3.0)).sum()
    >>> jax.grad(surrogate)(jnp.array([[-1.0]])).tolist()  # cost minus baseline
    [[2.0]]
    """
    check_shapes(log_prob=(log_prob, "B T"), cost=(cost, "B #T"), baseline=(baseline, ""), mask=(mask, "B T"))
    dtype = accumulator(log_prob.dtype)
    advantage = jax.lax.stop_gradient(cost.astype(dtype) - baseline.astype(dtype))
    surrogate = advantage * log_prob.astype(dtype)
    return surrogate if mask is None else jnp.where(mask, surrogate, jnp.zeros_like(surrogate))


def cost_to_go(cost: Float[Array, "B T"]) -> Float[Array, "B T"]:
    """The sum of the costs of a sequence from each position on, which are the costs that a choice there can affect.

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
    """decay b + (1 - decay) mean(cost), the baseline for the *next* minibatch, so that it is independent of this one.

    The mean is over the non-padding positions of [B T], or over the sequences of [B 1]. If there are none, the baseline
    does not change. It is initialized to 0 and has no gradient.

    >>> moving_average_baseline(jnp.array(1.0), jnp.array([[2.0], [4.0]]), decay=0.5).item()  # half of 1 + 3
    2.0
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
    """The entropy -sum_s alpha_s log alpha_s of alpha = softmax(scores) over the visible keys, in nats, in float32.

    It is 0 if no key is visible. It is computed from the scores, because log alpha overflows if a weight underflows (as
    in the released code).

    >>> print(attention_entropy(jnp.zeros((1, 1, 4))), jnp.log(4.0))  # uniform over 4 positions
    [[1.39]] 1.3862944
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
