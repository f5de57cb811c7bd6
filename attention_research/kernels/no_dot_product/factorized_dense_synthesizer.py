"""Factorized dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.3: softmax(H_A(A) * H_B(B)) G(X).

A = F_A(X_i) and B = F_B(X_i) are P and Q numbers, P Q = S (any projections; `dense_synthesizer_scores` with P and
with Q columns are the paper's); the tilings H_A and H_B lengthen both to S. The paper does not say how they tile.
Here key j = p Q + q gets A_p B_q, so that every pair is met once; to repeat *both* whole, A_(j mod P) B_(j mod Q),
would give equal factors (P = Q) only the pairs p = q. No released code has this form.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.no_dot_product.synthesizer import synthesizer_attention
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers


def factorized_dense_scores(
    left: Float[Array, "B N T P"], right: Float[Array, "B N T Q"], key_length: int
) -> Float[Array, "B N T S"]:
    """scores[..., p Q + q] = left[..., p] right[..., q], cut to the key length (a prime has no factors); in float32.

    Raises ValueError naming the argument and the axis.
    """
    sizes = check_shapes(left=(left, "B N T P"), right=(right, "B N T Q"))
    expect_numbers("key_length", S=key_length)
    if sizes["P"] * sizes["Q"] < key_length:
        raise ValueError(
            f"left, right: axes P = {sizes['P']} and Q = {sizes['Q']}: expected a product of at least the "
            f"{key_length} keys"
        )
    dtype = accumulator(left.dtype)
    pairs = left.astype(dtype)[..., :, None] * right.astype(dtype)[..., None, :]
    return pairs.reshape(*left.shape[:-1], sizes["P"] * sizes["Q"])[..., :key_length]


def factorized_dense_synthesizer_attention(
    left: Float[Array, "B N T P"],
    right: Float[Array, "B N T Q"],
    value: Float[Array, "B S N Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(factorized_dense_scores) value, under the conventions of `synthesizer_attention`."""
    check_shapes(
        left=(left, "B N T P"), right=(right, "B N T Q"), value=(value, "B S N Hv"), mask=(mask, "#B #N #T #S")
    )
    return synthesizer_attention(factorized_dense_scores(left, right, value.shape[1]), value, mask, is_causal=is_causal)
