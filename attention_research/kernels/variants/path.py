"""PaTH attention, Yang et al. 2025 (arXiv 2505.16381), section 3: softmax over j of
q_i (prod_{m=j+1}^{i} (I - beta_m w_m^T w_m)) k_j^T scale, then times V.

Every token between a key and a query transforms the logit by a Householder-like reflection that depends on the token,
in place of a position encoding. w_m has length 1 and beta_m is between 0 and 2; with beta = 0 it is plain attention.
The products of packed examples need no reset, because those of two positions in one example have only tokens in
between. `log_forget` adds the term of `forget_bias` (PaTH-FoX).

The chunked form (section 4) keeps all earlier keys transformed up to the start of a chunk. In a chunk, with rows w,
rows beta w, and the unit lower-triangular T = (I + tril(beta w w^T, -1))^-1, the product of all reflections is
I - w^T T (beta w). In decoding, each token transforms the cached keys (`reflected_keys`), and the rest is plain
attention.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale, prepare, softmax_or_zero
from attention_research.kernels.attention.pairs import visible_pairs, weighted_values
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers
from attention_research.kernels.triangular import unit_lower_inverse
from attention_research.kernels.variants.forgetting import forget_bias


def reflected_keys(
    keys: Float[Array, "B S K H"], direction: Float[Array, "B K H"], beta: Float[Array, "B K"]
) -> Float[Array, "B S K H"]:
    """k_j - beta (k_j w) w for all cached keys: what a new token does to the keys before it.

    >>> reflected_keys(jnp.array([[[[3.0, 4.0]]]]), jnp.array([[[1.0, 0.0]]]), jnp.array([[2.0]]))[0, 0].tolist()
    [[-3.0, 4.0]]
    """
    check_shapes(keys=(keys, "B S K H"), direction=(direction, "B K H"), beta=(beta, "B K"))
    dtype = accumulator(keys.dtype)
    direction, beta = direction.astype(dtype)[:, None], beta.astype(dtype)[:, None, :, None]
    along = jnp.sum(keys.astype(dtype) * direction, axis=-1, keepdims=True)
    return (keys.astype(dtype) - beta * along * direction).astype(keys.dtype)


def path_logits(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    direction: Float[Array, "B T K H"],
    beta: Float[Array, "B T K"],
    *,
    chunk_size: int = 64,
) -> Float[Array, "B N T T"]:
    """q_i (prod_{m=j+1}^{i} (I - beta_m w_m^T w_m)) k_j^T in float32 for j <= i; other entries are arbitrary.

    >>> x, w = jnp.ones((1, 2, 1, 1)), jnp.ones((1, 2, 1, 1))
    >>> path_logits(x, x, w, jnp.full((1, 2, 1), 2.0))[0, 0].tolist()[1]  # the second token reflects the first key
    [-1.0, 1.0]
    """
    (B, T, N, H), K, dtype = query.shape, key.shape[2], accumulator(query.dtype)
    C = min(chunk_size, T)
    count = -(-T // C)

    def chunks(x: Array) -> Array:
        """[B T K ...] -> [count B K C ...], padded with zeros."""
        x = jnp.pad(x.astype(dtype), [(0, 0), (0, count * C - T)] + [(0, 0)] * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(B, count, C, *x.shape[2:]), (1, 3), (0, 2))

    queries, keys, rows = chunks(query.reshape(B, T, K, N // K, H)), chunks(key), chunks(direction)
    scaled = rows * chunks(beta)[..., None]
    strict, below = (jnp.tril(jnp.ones((C, C), dtype), shift) for shift in (-1, 0))

    def step(carried: Array, chunk: tuple[Array, ...]) -> tuple[Array, Array]:
        """One chunk of queries against all keys [B K S H], which are those up to the chunk before."""
        place, q, k, w, b = chunk
        inverse = unit_lower_inverse(strict * jnp.einsum("BKRH,BKSH->BKRS", b, w))
        solved = inverse @ b
        within = inverse @ (strict * jnp.einsum("BKRH,BKSH->BKRS", b, k))
        along = below * jnp.einsum("BKCGH,BKSH->BKGCS", q, w)
        own = jnp.einsum("BKCGH,BKSH->BKGCS", q, k) - jnp.einsum("BKGCR,BKRS->BKGCS", along, within)
        start = jnp.moveaxis(q, 2, 3) - jnp.einsum("BKGCR,BKRH->BKGCH", along, solved)
        logits = jnp.einsum("BKGCH,BKSH->BKGCS", start, carried)
        logits = lax.dynamic_update_slice_in_dim(logits, own, place, axis=4)
        carried = carried - jnp.einsum("BKSR,BKRH->BKSH", jnp.einsum("BKSH,BKRH->BKSR", carried, solved), w)
        end = k - jnp.einsum("BKRS,BKRH->BKSH", within, w)
        return lax.dynamic_update_slice_in_dim(carried, end, place, axis=2), logits

    places = jnp.arange(count, dtype=jnp.int32) * C
    _, logits = lax.scan(step, jnp.zeros((B, K, count * C, H), dtype), (places, queries, keys, rows, scaled))
    return jnp.moveaxis(logits, 0, 3).reshape(B, N, count * C, count * C)[:, :, :T, :T]


def path_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T K H"],
    value: Float[Array, "B T K Hv"],
    direction: Float[Array, "B T K H"],
    beta: Float[Array, "B T K"],
    log_forget: Float[Array, "B T N"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    chunk_size: int = 64,
) -> Float[Array, "B T N Hv"]:
    """Causal self-attention in which the tokens between key and query reflect the key.

    `direction` w has rows of length 1, and `beta` is between 0 and 2. Other arguments are those of
    `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises ValueError naming the argument
    and the axis.

    >>> x, value = jnp.ones((1, 3, 1, 1)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> print(path_attention(x, x, value, x, jnp.full((1, 3, 1), 2.0))[0, 2, 0])  # signs +, -, +
    [0.47 0.06 0.47]
    """
    check_shapes(
        query=(query, "B T N H"), key=(key, "B T K H"), value=(value, "B T K Hv"), direction=(direction, "B T K H"),
        beta=(beta, "B T K"), log_forget=(log_forget, "B T N"),
    )  # fmt: skip
    arrays, options = prepare(query, key, value, None, mask, scale, True, None, None, None)
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    B, T, N, _ = query.shape
    expect_numbers("chunk_size", T=T)
    if 0 in (B, T):
        return jnp.zeros((B, T, N, value.shape[3]), query.dtype)
    logits = path_logits(arrays.query, key, direction, beta, chunk_size=chunk_size)
    logits = logits * jnp.asarray(options.scale, logits.dtype)
    if log_forget is not None:
        logits = logits + forget_bias(log_forget, T)
    return weighted_values(softmax_or_zero(logits, visible_pairs(T, T, mask, is_causal=True)), value)
