"""DeepSeek sparse attention (DSA), DeepSeek-AI 2025 (arXiv 2512.02556), section 2.1: softmax(Q K^T scale) V over the k
keys with the largest I_ts = sum_h w_th relu(q^I_th k^I_s scale^I).

A small indexer, with M heads for queries and one for keys, scores all keys. All heads of attention share its choice.
The choice has no gradient. `index_loss` trains the indexer alone: the divergence of the softmax of its scores from the
attention weights, summed over heads. Ties, which are common where relu gives 0, go to the first key. With k at least
the number of keys it is causal attention. This form computes all logits.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.attention.pairs import pair_logits, weighted_values
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers
from attention_research.kernels.variants.example_blocks import largest_blocks


def index_scores(
    index_query: Float[Array, "B T M I"],
    index_key: Float[Array, "B S I"],
    index_weight: Float[Array, "B T M"],
    *,
    scale: Scale = None,
) -> Float[Array, "B T S"]:
    """sum_h w_th relu(q^I_th k^I_s scale) in float32. `scale` None means 1 / sqrt(I).

    >>> index_scores(jnp.array([[[[1.0], [2.0]]]]), jnp.array([[[-1.0], [3.0]]]), jnp.ones((1, 1, 2)))[0].tolist()
    [[0.0, 9.0]]
    """
    sizes = check_shapes(
        index_query=(index_query, "B T M I"), index_key=(index_key, "B S I"), index_weight=(index_weight, "B T M")
    )
    if index_key.dtype != index_query.dtype:
        raise ValueError(f"index_key: expected the query's dtype {index_query.dtype}, got {index_key.dtype}")
    dtype = accumulator(index_query.dtype)
    scale = sizes["I"] ** -0.5 if scale is None else scale
    products = einsum("BTMI,BSI->BMTS", index_query, index_key) * jnp.asarray(scale, dtype)
    return jnp.einsum("BMTS,BTM->BTS", jax.nn.relu(products), index_weight.astype(dtype))


def top_keys(scores: Float[Array, "B T S"], visible: Bool[Array, "#B #N #T #S"], top_k: int) -> Bool[Array, "B N T S"]:
    """The `top_k` visible keys of each query with the largest scores, as a mask.

    >>> top_keys(jnp.array([[[3.0, 1.0, 2.0]]]), jnp.array([[[[False, True, True]]]]), 1)[0, 0].tolist()
    [[False, False, True]]
    """
    if top_k < 1:
        raise ValueError(f"top_k: expected at least 1, got {top_k}")
    expect_numbers("top_k", S=scores.shape[2])
    return largest_blocks(jnp.where(visible, scores[:, None], -jnp.inf), top_k)


def indexed_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    index_query: Float[Array, "B T M I"],
    index_key: Float[Array, "B S I"],
    index_weight: Float[Array, "B T M"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    top_k: int,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N Hv"]:
    """Causal attention to the `top_k` visible keys that the indexer prefers.

    Query i is at position i + `query_offset` of the keys. Other arguments are those of `dot_product_attention`. A query
    with no visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.ones((1, 3, 1, 1)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> index = jnp.ones((1, 3, 1, 1)), jnp.array([2.0, 3.0, 1.0]).reshape(1, 3, 1), jnp.ones((1, 3, 1))
    >>> print(indexed_attention(x, x, value, *index, top_k=2)[0, :, 0])
    [[1.  0.  0. ]
     [0.5 0.5 0. ]
     [0.5 0.5 0. ]]
    """
    check_shapes(
        query=(query, "B T N H"), key=(key, "B S K H"), index_query=(index_query, "B T M I"),
        index_key=(index_key, "B S I"), index_weight=(index_weight, "B T M"),
    )  # fmt: skip
    logits, visible = pair_logits(
        query, key, mask, value=value, scale=scale, is_causal=True, query_offset=query_offset
    )  # fmt: skip
    scores = index_scores(index_query, index_key, index_weight)
    return weighted_values(softmax_or_zero(logits, visible & top_keys(scores, visible, top_k)), value)


def index_loss(
    scores: Float[Array, "B T S"], weights: Float[Array, "B N T S"], visible: Bool[Array, "#B 1 #T #S"]
) -> Float[Array, "B T"]:
    """KL(p_t || softmax(I_t)) over the visible keys, with p_t the attention weights summed over heads and normalized.

    The weights are constant: the gradient reaches the indexer only. While the indexer is warmed up, `visible` is what
    causal attention sees; with a choice, it is the chosen keys. A query with no visible key has the loss 0.

    >>> loss = index_loss(jnp.zeros((1, 1, 2)), jnp.array([[[[1.0, 0.0]]]]), jnp.ones((1, 1, 1, 2), bool))
    >>> round(float(loss[0, 0]), 4)  # log 2
    0.6931
    """
    sizes = check_shapes(scores=(scores, "B T S"), weights=(weights, "B N T S"), visible=(visible, "#B 1 #T #S"))
    shown = jnp.broadcast_to(visible[:, 0], (sizes["B"], sizes["T"], sizes["S"]))
    target = lax.stop_gradient(jnp.where(shown, weights.sum(1), jnp.zeros_like(scores)))
    total = target.sum(-1, keepdims=True)
    target = target / jnp.where(total > 0, total, jnp.ones_like(total))
    safe = jnp.where(shown, scores, jnp.full_like(scores, -1e30))
    logs = jnp.where(shown, jax.nn.log_softmax(safe, axis=-1), jnp.zeros_like(scores))
    entropy = jnp.sum(target * jnp.log(jnp.where(target > 0, target, jnp.ones_like(target))), axis=-1)
    return entropy - jnp.sum(target * logs, axis=-1)
