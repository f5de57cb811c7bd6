"""Monotonic alignment, Raffel et al. 2017 (arXiv 1704.00784), equations 13 and 14:
q_j = (1 - p_{j-1}) q_{j-1} + previous_j, alpha_j = p_j q_j.

alpha_j is the probability that the left-to-right process, which starts where the previous output stopped and stops at
position j with probability p_j, stops at j: attention in expectation, to train with. A row may sum to less than 1: with
the rest, nothing is chosen. Before the first output `previous` is one-hot at position 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

SMALLEST = 1e-10  # what the released code clips products and their factors at


def monotonic_alignment(
    p_choose: Float[Array, "B S"],
    previous: Float[Array, "B S"],
    *,
    mode: str = "recursive",
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B S"]:
    """alpha of one output step from the probabilities p of choosing each position; float32.

    "recursive": the recurrence, exact for all p in [0, 1]; solved by an associative scan, log2(S) steps deep (the
    released code's is S steps deep).
    "parallel": p cumprod(1 - p) cumsum(previous / cumprod(1 - p)), the product exclusive, in log space, factors and
    divisor clipped at 1e-10 as in the released code: wrong where cumprod(1 - p) falls below that, which long sequences
    do (mass is lost, silently). Kept for comparison with published systems.
    "hard": the test-time process: the first position from the previous one on with p above 1/2; zeros where there is
    none, and from then on. `previous` is one-hot or zero. No gradient reaches p.

    `mask` is True at real positions; others are never chosen and pass the process on. Raises ValueError naming the
    argument and the axis.
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
    # Not clipped at 1 from above, as the released code does: p is at least 0, and a clip halves the gradient at 1.
    log_product = jnp.cumsum(_exclusive(jnp.log(jnp.maximum(1 - p, SMALLEST))), axis=1)
    product = jnp.exp(log_product)
    return p * product * jnp.cumsum(previous / jnp.maximum(product, SMALLEST), axis=1)


def _hard(p: Array, previous: Array) -> Array:
    candidate = (p > 0.5).astype(p.dtype) * jnp.cumsum(previous, axis=1)
    return candidate * _exclusive_product(1 - candidate)


def _exclusive(x: Array) -> Array:
    """x one position later, 0 first: neither a sum nor the recurrence takes anything from there."""
    return jnp.pad(x[:, :-1], ((0, 0), (1, 0)))


def _exclusive_product(x: Array) -> Array:
    return jnp.cumprod(jnp.pad(x[:, :-1], ((0, 0), (1, 0)), constant_values=1), axis=1)


MODES = {"recursive": _recursive, "parallel": _parallel, "hard": _hard}
