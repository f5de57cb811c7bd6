"""Copy mixture, Allamanis, Peng & Sutton 2016 (arXiv 1602.03001), section 2:
log p(m) = log(lambda sum_{j: c_j = m} kappa_j + (1 - lambda) mu p_vocab(m)).

kappa and lambda come from `convolutional_copy_attention`; with a pointer-generator, they are its weights and 1 - p_gen.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes

#: The log-probability of copying a token that does not occur in the source, in the released code.
NOT_COPYABLE = -1000.0
#: log mu, a penalty for generating the unknown word, so that copying is preferred.
UNKNOWN = -10.0
#: The constant that the released code adds to the copy probability before its logarithm.
FLOOR = 1e-7


def copy_mixture_log_probability(
    copy_probability: Float[Array, "B T"],
    copy_weights: Float[Array, "B T S"],
    copyable: Bool[Array, "B T S"],
    vocabulary_log_probability: Float[Array, "B T"],
    unknown: Bool[Array, "B T"] | None = None,
    *,
    released: bool = False,
) -> Float[Array, "B T"]:
    """log p(m) of one target per step, the sum of copying it from any position that holds it and of generating it.

    `copyable` is True where c_j = m and c_j is not padding. `vocabulary_log_probability` is log p_vocab(m), or -inf if
    m is not in the vocabulary. `unknown` is True where m is generated as the unknown word. In the paper, mu = exp(-10)
    applies if m is unknown and can be copied. With `released`, it applies to every unknown m, 1e-7 is added to the copy
    probability, and its logarithm is -1000 if nothing can be copied. The logarithms of lambda, of 1 - lambda and of the
    sum of kappa are at least that of the smallest normal number, with gradient 0 below it. Without `released`, the
    result is -inf with gradient 0 if m cannot be copied and is not in the vocabulary. Raises ValueError naming the
    axis.

    >>> weights = jnp.array([[[0.6, 0.3, 0.1]]])
    >>> copyable = jnp.array([[[True, False, True]]])  # the target stands at positions 0 and 2
    >>> log_p = copy_mixture_log_probability(jnp.array([[0.5]]), weights, copyable, jnp.log(jnp.array([[0.2]])))
    >>> print(jnp.exp(log_p))  # 0.5 (0.6 + 0.1) + (1 - 0.5) 0.2
    [[0.45]]
    """
    check_shapes(
        copy_weights=(copy_weights, "B T S"), copyable=(copyable, "B T S"), copy_probability=(copy_probability, "B T"),
        vocabulary_log_probability=(vocabulary_log_probability, "B T"), unknown=(unknown, "B T"),
    )  # fmt: skip
    dtype = accumulator(copy_weights.dtype)
    probability = copy_probability.astype(dtype)
    weights = copy_weights.astype(dtype)
    copied = jnp.sum(jnp.where(copyable, weights, jnp.zeros_like(weights)), axis=-1)
    anywhere = jnp.any(copyable, axis=-1)
    copied = copied + jnp.asarray(FLOOR, dtype) if released else copied
    nowhere = jnp.asarray(NOT_COPYABLE if released else -jnp.inf, dtype)
    by_copying = jnp.where(anywhere, _log(probability) + _log(copied), nowhere)
    by_generating = _log(1 - probability) + vocabulary_log_probability.astype(dtype)
    if unknown is not None:
        discouraged = unknown if released else unknown & anywhere
        by_generating = by_generating + jnp.where(discouraged, jnp.asarray(UNKNOWN, dtype), jnp.zeros((), dtype))
    # Where both are -inf, the derivative of logaddexp would be NaN.
    impossible = (by_copying == -jnp.inf) & (by_generating == -jnp.inf)
    first, second = (jnp.where(impossible, jnp.zeros_like(x), x) for x in (by_copying, by_generating))
    return jnp.where(impossible, jnp.full_like(by_copying, -jnp.inf), jnp.logaddexp(first, second))


def _log(x: Array) -> Array:
    return jnp.log(jnp.maximum(x, jnp.asarray(jnp.finfo(x.dtype).tiny, x.dtype)))
