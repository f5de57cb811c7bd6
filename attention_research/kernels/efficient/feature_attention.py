"""Attention whose weights are dot products of features, which linear attention and the Performer share.

    out_i = sum_j w_ij v_j / sum_j w_ij,   w_ij = (phi(q_i) . phi(k_j)) exp(l_j)

Sums over keys are computed first, so that time is linear in the length. l_j is the logarithm of a factor that was
divided out of the features of key j to keep them near 1 (0 without such a factor). Sums are relative to the largest
l_j *so far*, so that later keys do not change the results of earlier queries. All values are float32 (float64 for
float64 inputs).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

#: The l_j of padding keys, below all others, so that its exponential is 0.
LOWEST = -1e30
#: If the weights of a query sum to less than this, the gradient is 0, because the inverse of the sum would overflow.
SMALLEST = 1e-30


class FeatureSums(NamedTuple):
    """The state of causal attention: sum phi(k) v and sum phi(k) over past keys, divided by exp(largest).

    >>> FeatureSums._fields
    ('products', 'features', 'largest')
    """

    products: Float[Array, "B K M Hv"]
    features: Float[Array, "B K M"]
    largest: Float[Array, "B K"]


def no_sums(batch: int, heads: int, features: int, value_width: int, dtype: DTypeLike = jnp.float32) -> FeatureSums:
    """The sums before the first key.

    >>> sums = no_sums(batch=1, heads=2, features=3, value_width=4)
    >>> jax.tree.map(jnp.shape, sums)
    FeatureSums(products=(1, 2, 3, 4), features=(1, 2, 3), largest=(1, 2))
    """
    dtype = accumulator(jnp.dtype(dtype))
    return FeatureSums(
        jnp.zeros((batch, heads, features, value_width), dtype),
        jnp.zeros((batch, heads, features), dtype),
        jnp.full((batch, heads), LOWEST, dtype),
    )


def check_heads(query: Array, key: Array, value: Array, mask: Array | None, is_causal: bool, chunk_size: int) -> None:
    """Raises ValueError naming the argument and the axis. If causal, queries and keys must have equal lengths."""
    S = "T" if is_causal else "S"
    sizes = check_shapes(
        query=(query, "B T N H"), key=(key, f"B {S} K H"), value=(value, f"B {S} K Hv"), mask=(mask, f"B {S}")
    )
    if sizes["N"] % sizes["K"]:
        raise ValueError(
            f"key: axis K of [B S K H]: expected a divisor of the query's {sizes['N']} heads, got {sizes['K']}"
        )
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")


def only_real(x: Float[Array, "B S K H"], mask: Bool[Array, "B S"] | None) -> Float[Array, "B S K H"]:
    """Converts x to the accumulator's dtype and zeroes padding positions."""
    x = x.astype(accumulator(x.dtype))
    return x if mask is None else jnp.where(mask[:, :, None, None], x, jnp.zeros_like(x))


def feature_attention(
    query: Float[Array, "B T N M"],
    key: Float[Array, "B S K M"],
    log_scale: Float[Array, "B S K"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "B S"] | None,
    is_causal: bool,
    chunk_size: int,
) -> Float[Array, "B T N Hv"]:
    """The equation above for non-negative features `query` and `key`, all in the accumulator's dtype.

    Causal attention is computed in chunks: past keys enter as sums, and the keys of the chunk as a [chunk chunk]
    matrix. For the gradient, one state per chunk is kept (T M Hv / chunk_size numbers), and the rest is recomputed. A
    query whose weights are all 0 gives 0.
    """
    B, T, N, M = query.shape
    K, Hv = value.shape[2:]
    if T == 0:
        return jnp.zeros((B, T, N, Hv), value.dtype)
    key, value = only_real(key, mask), only_real(value, mask)
    if mask is not None:
        log_scale = jnp.where(mask[:, :, None], log_scale, jnp.asarray(LOWEST, log_scale.dtype))
    heads = query.reshape(B, T, K, N // K, M)
    sums = no_sums(B, K, M, Hv, value.dtype)
    if not is_causal:
        sums = add_keys(sums, key.swapaxes(1, 2), log_scale.swapaxes(1, 2), value.swapaxes(1, 2))
        products = jnp.einsum("BTKGM,BKMH->BTKGH", heads, sums.products)
        context = divide(products, jnp.einsum("BTKGM,BKM->BTKG", heads, sums.features))
        return context.reshape(B, T, N, Hv)

    expect_numbers("chunk_size", T=T)
    size = min(chunk_size, T)
    chunks = -(-T // size)

    def chunked(x: Array, fill: float = 0.0) -> Array:
        """Pads [B T K ...] at the end and splits it into chunks: [chunks B K ... size ...]."""
        padded = jnp.pad(x, [(0, 0), (0, chunks * size - T)] + [(0, 0)] * (x.ndim - 2), constant_values=fill)
        return jnp.moveaxis(padded.reshape(B, chunks, size, *x.shape[2:]), (1, 2), (0, 3))

    lower = jnp.tril(jnp.ones((size, size), bool))

    def chunk(sums: FeatureSums, arrays: tuple[Array, ...]) -> tuple[FeatureSums, Array]:
        query, key, scale, value = arrays  # [B K t G M], [B K t M], [B K t], [B K t Hv]
        largest = jnp.maximum(lax.cummax(scale, axis=2), sums.largest[:, :, None])  # over the keys up to each query
        relative = jnp.exp(jnp.minimum(scale[:, :, None, :] - largest[:, :, :, None], 0))
        weights = jnp.einsum("BKtGM,BKsM->BKtGs", query, key)
        weights = weights * jnp.where(lower, relative, jnp.zeros_like(relative))[:, :, :, None]
        before = query * jnp.exp(sums.largest[:, :, None] - largest)[..., None, None]
        products = jnp.einsum("BKtGs,BKsH->BKtGH", weights, value) + jnp.einsum(
            "BKtGM,BKMH->BKtGH", before, sums.products
        )
        total = weights.sum(-1) + jnp.einsum("BKtGM,BKM->BKtG", before, sums.features)
        return add_keys(sums, key, scale, value), divide(products, total)

    arrays = chunked(heads), chunked(key), chunked(log_scale, LOWEST), chunked(value)
    _, context = lax.scan(jax.checkpoint(chunk, prevent_cse=False), sums, arrays)
    context = jnp.moveaxis(context, (0, 3), (1, 2))  # [B chunks size K G Hv]
    return context.reshape(B, chunks * size, N, Hv)[:, :T]


def add_keys(
    sums: FeatureSums, key: Float[Array, "B K S M"], log_scale: Float[Array, "B K S"], value: Float[Array, "B K S Hv"]
) -> FeatureSums:
    """Adds keys to the sums."""
    largest = jnp.maximum(jnp.max(log_scale, axis=2, initial=LOWEST), sums.largest)
    key = key * jnp.exp(log_scale - largest[:, :, None])[..., None]
    shrink = jnp.exp(sums.largest - largest)[..., None]
    return FeatureSums(
        sums.products * shrink[..., None] + jnp.einsum("BKSM,BKSH->BKMH", key, value),
        sums.features * shrink + key.sum(2),
        largest,
    )


def feature_step(
    sums: FeatureSums,
    query: Float[Array, "B N M"],
    key: Float[Array, "B K M"],
    log_scale: Float[Array, "B K"],
    value: Float[Array, "B K Hv"],
    mask: Bool[Array, "B"] | None,
) -> tuple[FeatureSums, Float[Array, "B N Hv"]]:
    """Decodes one position of the causal form: adds its key to the sums, then computes the output of its query."""
    (B, N, M), K = query.shape, key.shape[1]
    real = None if mask is None else mask[:, None]
    key, value = only_real(key[:, None], real), only_real(value[:, None], real)
    if real is not None:
        log_scale = jnp.where(real, log_scale, jnp.asarray(LOWEST, log_scale.dtype))
    sums = add_keys(sums, key.swapaxes(1, 2), log_scale[:, :, None], value.swapaxes(1, 2))
    heads = query.reshape(B, K, N // K, M)
    products = jnp.einsum("BKGM,BKMH->BKGH", heads, sums.products)
    context = divide(products, jnp.einsum("BKGM,BKM->BKG", heads, sums.features))
    return sums, context.reshape(B, N, -1)


def divide(products: Float[Array, "*B Hv"], total: Float[Array, "*B"]) -> Float[Array, "*B Hv"]:
    """products / total, or 0 with gradient 0 if the total is 0.

    Both are first divided by the value of the total, as a constant for the gradient, because the gradient of 1 / total
    is 1 / total^2, which overflows if the size of the total is below 1e-19. Below `SMALLEST`, the gradient is 0.
    """
    small = jnp.abs(total) < SMALLEST
    products = jnp.where(small[..., None], lax.stop_gradient(products), products)
    total = jnp.where(small, lax.stop_gradient(total), total)
    total = jnp.where(total != 0, total, jnp.ones_like(total))
    value = lax.stop_gradient(total)
    return (products / value[..., None]) / (total / value)[..., None]
