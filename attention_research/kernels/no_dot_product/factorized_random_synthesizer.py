"""Factorized random Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.3: softmax(R1 R2^T) G(X).

In the released Mesh code, both tables are indexed by the *same* axis, and only the rank is contracted: the scores are
sum_r R1[r, n, j] R2[r, n, j], the same for every query position. The row "Synthesizer (factorized)" of Narang et al.
2021 ran this code, as its operation count shows. Here it is `released_factorized_random_scores`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.no_dot_product.synthesizer import synthesizer_attention
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def factorized_random_scores(left: Float[Array, "N T R"], right: Float[Array, "N S R"]) -> Float[Array, "1 N T S"]:
    """R1 R2^T for each head, in float32. Raises ValueError naming the argument and the axis.

    >>> left, right = jnp.ones((2, 5, 3)), jnp.ones((2, 6, 3))
    >>> factorized_random_scores(left, right).shape  # the same for every sequence
    (1, 2, 5, 6)
    """
    check_shapes(left=(left, "N T R"), right=(right, "N S R"))
    return einsum("NTR,NSR->NTS", left, right.astype(left.dtype))[None]


def released_factorized_random_scores(
    left: Float[Array, "N S R"], right: Float[Array, "N S R"], query_length: int
) -> Float[Array, "1 N T S"]:
    """scores[n, i, j] = sum_r left[n, j, r] right[n, j, r], independent of i. Raises ValueError naming the axis.

    >>> released_factorized_random_scores(jnp.ones((2, 6, 3)), jnp.ones((2, 6, 3)), query_length=5).shape
    (1, 2, 5, 6)
    """
    sizes = check_shapes(left=(left, "N S R"), right=(right, "N S R"))
    dtype = accumulator(left.dtype)
    scores = jnp.sum(left.astype(dtype) * right.astype(dtype), axis=-1)
    return jnp.broadcast_to(scores[None, :, None], (1, sizes["N"], query_length, sizes["S"]))


def factorized_random_synthesizer_attention(
    left: Float[Array, "N T R"],
    right: Float[Array, "N S R"],
    value: Float[Array, "B S N Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
    released: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(R1 R2^T) value, with the conventions of `synthesizer_attention`.

    `released` uses the scores of the released code (T = S), which are the same for all query positions. Raises
    ValueError naming the argument and the axis.

    >>> left, value = jnp.zeros((1, 3, 2)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> print(factorized_random_synthesizer_attention(left, left, value, is_causal=True)[0, :, 0])
    [[1.   0.   0.  ]
     [0.5  0.5  0.  ]
     [0.33 0.33 0.33]]
    """
    sizes = check_shapes(left=(left, "N T R"), right=(right, "N S R"), value=(value, "B S N Hv"))
    if released:
        scores = released_factorized_random_scores(left, right, sizes["T"])
    else:
        scores = factorized_random_scores(left, right)
    return synthesizer_attention(scores, value, mask, is_causal=is_causal)
