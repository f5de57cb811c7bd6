"""Talking-heads attention, Shazeer et al. 2020 (arXiv 2003.02436), section 3: softmax(sum_n logits_n P_nm), then
weights_m = sum_n softmax_n R_nm, then times V.

The heads exchange logits before the softmax and weights after it, by two learned matrices [N N]. The mask is applied
after the first exchange. The weights of a head after the second one need not sum to 1. Two identity matrices give
multi-head attention.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.variants.row_blocks import attend_by_rows


def talking_heads_weights(
    logits: Float[Array, "B N T S"],
    logit_mixing: Float[Array, "N N"],
    weight_mixing: Float[Array, "N N"],
    visible: Bool[Array, "..."] | None = None,
) -> Float[Array, "B N T S"]:
    """The mixed weights of mixed logits. Keys that are not visible have no part in a softmax.

    >>> swapped = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> print(talking_heads_weights(jnp.array([[[[0.0, 9.0]], [[9.0, 0.0]]]]), swapped, jnp.eye(2))[0, :, 0])
    [[1. 0.]
     [0. 1.]]
    """
    mixed = jnp.einsum("BNTS,NM->BMTS", logits, logit_mixing.astype(logits.dtype))
    return jnp.einsum("BNTS,NM->BMTS", softmax_or_zero(mixed, visible), weight_mixing.astype(logits.dtype))


def talking_heads_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    logit_mixing: Float[Array, "N N"],
    weight_mixing: Float[Array, "N N"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """Attention whose heads exchange logits and weights, with memory linear in the keys.

    Column m of a mixing matrix gives what head m takes from each head. `block_size` queries are computed at a time.
    Other arguments are those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0 (in all
    heads, if the mask is the same for all heads). Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 2, 2, 1)), jnp.broadcast_to(jnp.eye(2)[None, :, None], (1, 2, 2, 2))
    >>> sums = jnp.ones((2, 2))  # each head takes the sum of both
    >>> print(talking_heads_attention(x, x, value, jnp.eye(2), sums)[0, 0])
    [[1. 1.]
     [1. 1.]]
    """
    check_shapes(query=(query, "B T N H"), logit_mixing=(logit_mixing, "N N"), weight_mixing=(weight_mixing, "N N"))

    def weigh(logits: Array, visible: Array | None) -> Array:
        return talking_heads_weights(logits, logit_mixing, weight_mixing, visible)

    return attend_by_rows(
        query, key, value, mask, weigh, scale=scale, is_causal=is_causal, local_window_size=None,
        query_offset=query_offset, block_size=block_size,
    )  # fmt: skip
