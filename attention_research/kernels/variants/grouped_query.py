"""Grouped-query attention, Ainslie et al. 2023 (arXiv 2305.13245), section 2.2: softmax(Q_n K_g(n)^T scale) V_g(n).

K groups of N/K neighbouring query heads each share one key head and one value head, g(n) = floor(n K / N). One group is
the multi-query attention of Shazeer 2019 (arXiv 1911.02150); N groups are multi-head attention. Section 2.1 converts a
multi-head checkpoint: it replaces the key and value projections of a group by their mean (`pool_heads`) and continues
training. Since projections are linear, pooling the projected keys gives the same result.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def pool_heads(x: Float[Array, "*B N H"], num_groups: int) -> Float[Array, "*B K H"]:
    """The mean of each of `num_groups` groups of neighbouring heads, for keys or for a kernel [D N H].

    Raises ValueError naming the axis.

    >>> pool_heads(jnp.array([[1.0], [3.0], [5.0], [7.0]]), 2)[:, 0].tolist()
    [2.0, 6.0]
    """
    *batch, N, H = x.shape
    if num_groups < 1 or N % num_groups:
        raise ValueError(f"num_groups: expected a divisor of the {N} heads on axis N, got {num_groups}")
    groups = x.astype(accumulator(x.dtype)).reshape(*batch, num_groups, N // num_groups, H)
    return jnp.mean(groups, axis=-2).astype(x.dtype)


def grouped_query_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    num_groups: int | None = None,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` with the K key and value heads pooled to `num_groups` heads.

    With `num_groups` None, there is no pooling: key and value already have one head per group. Raises ValueError naming
    the argument and the axis.

    >>> query, key = jnp.ones((1, 3, 8, 4)), jnp.ones((1, 5, 2, 4))  # 8 query heads share 2 key heads
    >>> grouped_query_attention(query, key, key).shape
    (1, 3, 8, 4)
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), value=(value, "B S K Hv"))
    if num_groups is not None:
        key, value = pool_heads(key, num_groups), pool_heads(value, num_groups)
    return dot_product_attention(
        query, key, value, bias, mask, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        implementation=implementation,
    )  # fmt: skip
