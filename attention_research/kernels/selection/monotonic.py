"""Monotonic alignment, Raffel et al. 2017 (arXiv 1704.00784), equations 13 and 14:
q_j = (1 - p_{j-1}) q_{j-1} + previous_j, alpha_j = p_j q_j.

The left-to-right process starts at the stop of the previous output and stops at position j with probability p_j.
alpha_j is the probability that it stops at j, the expected attention for training. A row may sum to less than 1; the
rest is the probability that nothing is chosen. Before the first output, `previous` is one-hot at position 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

SMALLEST = 1e-10  # the lower bound at which the released code clips products and their factors


def monotonic_alignment(
    p_choose: Float[Array, "B S"],
    previous: Float[Array, "B S"],
    *,
    mode: str = "recursive",
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B S"]:
    """alpha of one output step, in float32, from the probabilities p of choosing each position.

    - "recursive" is the recurrence, which is exact for all p in [0, 1]. It is computed with an associative scan of
      depth log2(S) (in the released code, the depth is S).
    - "parallel" is p cumprod(1 - p) cumsum(previous / cumprod(1 - p)) with exclusive products, in log space. Factors
      and divisor are clipped at 1e-10, as in the released code. It is wrong if cumprod(1 - p) falls below this value,
      as it does for long sequences (probability mass is lost silently). It is for comparison with published systems.
    - "hard" is the test-time process: the first position, from the previous one on, with p above 1/2, or zeros if there
      is none, also for all later outputs. `previous` is one-hot or zero. p has no gradient.

    `mask` is True at non-padding positions; the process skips padding. Raises ValueError naming the argument and the
    axis.

    >>> start, p_choose = jnp.array([[1.0, 0.0, 0.0]]), jnp.array([[0.5, 0.5, 0.5]])
    >>> monotonic_alignment(p_choose, start).tolist()  # stop at 0, at 1, at 2; with 1/8, nowhere
    [[0.5, 0.25, 0.125]]
    """
    check_shapes(p_choose=(p_choose, "B S"), previous=(previous, "B S"), mask=(mask, "B S"))
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    dtype = accumulator(jnp.promote_types(p_choose.dtype, previous.dtype))
    p, start = p_choose.astype(dtype), previous.astype(dtype)
    if mask is not None:
        p, start = (jnp.where(mask, x, jnp.zeros_like(x)) for x in (p, start))
    return MODES[mode](p, start) if p.shape[1] else p


def _recursive(p: Array, previous: Array) -> Array:
    expect_numbers("mode='recursive'", S=p.shape[1])

    def then(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return p * jax.lax.associative_scan(then, (_exclusive(1 - p), previous), axis=1)[1]


def _parallel(p: Array, previous: Array) -> Array:
    # The released code also clips at 1 from above. This is not needed, since p >= 0, and it halves the gradient at 1.
    log_product = jnp.cumsum(_exclusive(jnp.log(jnp.maximum(1 - p, SMALLEST))), axis=1)
    product = jnp.exp(log_product)
    return p * product * jnp.cumsum(previous / jnp.maximum(product, SMALLEST), axis=1)


def _hard(p: Array, previous: Array) -> Array:
    candidate = (p > 0.5).astype(p.dtype) * jnp.cumsum(previous, axis=1)
    return candidate * _exclusive_product(1 - candidate)


def _exclusive(x: Array) -> Array:
    """Shifts x by one position, with 0 at the first position, which has no effect on sums and on the recurrence."""
    return jnp.pad(x[:, :-1], ((0, 0), (1, 0)))


def _exclusive_product(x: Array) -> Array:
    return jnp.cumprod(jnp.pad(x[:, :-1], ((0, 0), (1, 0)), constant_values=1), axis=1)


MODES = {"recursive": _recursive, "parallel": _parallel, "hard": _hard}
