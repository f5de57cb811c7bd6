"""Factorized dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.3: softmax(H_A(A) * H_B(B)) G(X).

A = F_A(X_i) and B = F_B(X_i) have P and Q numbers, where P Q = S. Any projections can be used; those of the paper are
`dense_synthesizer_scores` with P and Q columns. The tilings H_A and H_B repeat both to length S. The paper does not
define the order. Here key j = p Q + q gets A_p B_q, so that every pair occurs once. Repeating *both* as a whole,
A_(j mod P) B_(j mod Q), would give only the pairs p = q if P = Q. There is no released code of this form.
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
    """scores[..., p Q + q] = left[..., p] right[..., q], in float32.

    They are truncated to the key length, which need not be a product P Q. Raises ValueError naming the argument and the
    axis.

    >>> left, right = jnp.array([1.0, 2.0]).reshape(1, 1, 1, 2), jnp.array([1.0, 10.0]).reshape(1, 1, 1, 2)
    >>> factorized_dense_scores(left, right, key_length=4).ravel().tolist()
    [1.0, 10.0, 2.0, 20.0]
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
    """softmax(factorized_dense_scores) value, with the conventions of `synthesizer_attention`.

    >>> left, right, value = jnp.ones((1, 2, 6, 3)), jnp.ones((1, 2, 6, 2)), jnp.ones((1, 6, 2, 4))
    >>> factorized_dense_synthesizer_attention(left, right, value).shape
    (1, 6, 2, 4)
    """
    check_shapes(
        left=(left, "B N T P"), right=(right, "B N T Q"), value=(value, "B S N Hv"), mask=(mask, "#B #N #T #S")
    )
    return synthesizer_attention(factorized_dense_scores(left, right, value.shape[1]), value, mask, is_causal=is_causal)
