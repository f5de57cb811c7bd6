"""Query-key normalization, Henry et al. 2020 (arXiv 2010.04245): softmax(g (Q / |Q|) (K / |K|)^T) V.

Rows of Q and K are divided by their L2 norms, so that the logits are cosines times a learned gain g, which replaces
1 / sqrt(H). The paper has one g, initialized to log2(L^2 - L), where L is the 97.5th percentile of the lengths. Here g
is [N], one per head, or [1].
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def query_key_l2_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    gain: Float[Array, "#N"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    epsilon: float = 1e-12,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` with the logits gain_n cos(q, k) + bias. Norms are sqrt(sum x^2 + epsilon), in float32.

    Raises ValueError naming the argument and the axis.

    >>> query, value = jnp.array([7.0, 0.0]).reshape(1, 1, 1, 2), jnp.eye(2)[None, :, None]
    >>> key = jnp.array([[100.0, 0.0], [0.0, 1.0]]).reshape(1, 2, 1, 2)
    >>> print(query_key_l2_attention(query, key, value, jnp.array([1.0])))  # softmax(1, 0): lengths do not matter
    [[[[0.73 0.27]]]]
    """
    check_shapes(query=(query, "B T N H"), gain=(gain, "#N"))
    dtype = accumulator(query.dtype)
    query = (unit_length(query, epsilon) * gain.astype(dtype)[:, None]).astype(query.dtype)
    key = unit_length(key, epsilon).astype(key.dtype)
    return dot_product_attention(
        query, key, value, bias, mask, scale=1.0, is_causal=is_causal, local_window_size=local_window_size,
        implementation=implementation,
    )  # fmt: skip


def unit_length(x: Float[Array, "*B H"], epsilon: float = 1e-12) -> Float[Array, "*B H"]:
    """x / sqrt(sum x^2 + epsilon) over the last axis, in float32.

    >>> print(unit_length(jnp.array([3.0, 4.0])))
    [0.6 0.8]
    """
    x = x.astype(accumulator(x.dtype))
    return x * lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + epsilon)
