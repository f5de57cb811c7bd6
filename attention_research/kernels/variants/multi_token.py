"""Multi-token attention (MTA), Golovneva et al. 2025 (arXiv 2504.00927), section 3: softmax(theta * (Q K^T scale)) V
with (theta * l)_ij = sum_{x,y} theta_xy l_{i-x,j-y}.

A convolution over queries and keys lets neighbouring logits of a head support each other, so that a key can be found by
several tokens. Logits of keys after their query are 0 in the convolution and masked after it. The kernel of a head has
the present query and the Q - 1 queries before it, and C keys around the key. The weights can be convolved in the same
way after the softmax, and groups of heads can be mixed before and after it. Logits of another example have no part: a
logit counts only if the query of the result may attend to its key, too.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.attention.pairs import pair_logits, weighted_values
from attention_research.kernels.shapes import check_shapes


def convolved_pairs(
    pairs: Float[Array, "B N T S"], kernel: Float[Array, "N Q C"], visible: Bool[Array, "#B #N T S"]
) -> Float[Array, "B N T S"]:
    """sum over x < Q and y < C of kernel[n, x, y] pairs[i - x, j - y + C // 2], of visible pairs; 0 if not visible.

    >>> pairs, visible = jnp.arange(4.0).reshape(1, 1, 2, 2), jnp.tril(jnp.ones((1, 1, 2, 2), bool))
    >>> convolved_pairs(pairs, jnp.array([[[0.0], [1.0]]]), visible)[0, 0].tolist()  # the query before
    [[0.0, 0.0], [0.0, 0.0]]
    >>> convolved_pairs(pairs, jnp.array([[[1.0, 0.0]]]), visible)[0, 0].tolist()  # the key after
    [[0.0, 0.0], [3.0, 0.0]]
    """
    N, Q, C = kernel.shape
    T, S = pairs.shape[2:]
    zeros = jnp.zeros_like(pairs)
    pairs = jnp.where(visible, pairs, zeros)
    before, after = C - 1 - C // 2, C // 2
    total = zeros
    for x in range(Q):
        moved = jnp.pad(pairs, [(0, 0), (0, 0), (x, 0), (0, 0)])[:, :, :T]
        moved = jnp.pad(jnp.where(visible, moved, zeros), [(0, 0)] * 3 + [(before, after)])
        for y in range(C):
            tap = kernel[:, x, y].astype(pairs.dtype)[:, None, None]
            total = total + tap * moved[..., C - 1 - y : C - 1 - y + S]
    return jnp.where(visible, total, zeros)


def _mixed(pairs: Array, groups: Array | None) -> Array:
    """Mixes the heads within groups: groups [G M M], column m is what head m of the group takes from each."""
    if groups is None:
        return pairs
    B, N, T, S = pairs.shape
    grouped = pairs.reshape(B, *groups.shape[:2], T, S)
    return jnp.einsum("BGMTS,GMP->BGPTS", grouped, groups.astype(pairs.dtype)).reshape(pairs.shape)


def multi_token_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    logit_kernel: Float[Array, "N Q C"],
    weight_kernel: Float[Array, "N P W"] | None = None,
    logit_groups: Float[Array, "G M M"] | None = None,
    weight_groups: Float[Array, "E J J"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N Hv"]:
    """Causal attention whose logits, and optionally weights, are convolved over queries and keys and mixed over heads.

    Kernels that are 1 at the present query and the middle key (index C // 2) and 0 elsewhere give plain attention.
    Groups of M heads are mixed after the convolution of the logits and before that of the weights. For a decoding step
    pass the last Q queries (Q + P - 1 with `weight_kernel`) and take the last row; `query_offset` is the position of
    the first of them, negative near the start. Other arguments are those of `dot_product_attention`. A query with no
    visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 2, 1, 1)), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(multi_token_attention(x, x, value, jnp.ones((1, 2, 3)))[0, :, 0])
    [[1.  0. ]
     [0.5 0.5]]
    """
    sizes = check_shapes(
        query=(query, "B T N H"), logit_kernel=(logit_kernel, "N Q C"), weight_kernel=(weight_kernel, "N P W"),
        logit_groups=(logit_groups, "G M M"), weight_groups=(weight_groups, "E J J"),
    )  # fmt: skip
    for name, groups in (("logit_groups", logit_groups), ("weight_groups", weight_groups)):
        if groups is not None and groups.shape[0] * groups.shape[1] != sizes["N"]:
            raise ValueError(f"{name}: expected groups of {sizes['N']} heads in all, axis N, got {list(groups.shape)}")
    logits, visible = pair_logits(
        query, key, mask, value=value, scale=scale, is_causal=True, query_offset=query_offset
    )  # fmt: skip
    logits = _mixed(convolved_pairs(logits, logit_kernel, visible), logit_groups)
    weights = _mixed(softmax_or_zero(logits, visible), weight_groups)
    if weight_kernel is not None:
        weights = convolved_pairs(weights, weight_kernel, visible)
    return weighted_values(weights, value)
