"""Splash attention, JAX authors 2023 (jax.experimental.pallas.ops.tpu.splash_attention): softmax(Q K^T scale) V.

This module wraps the TPU kernels of JAX, which skip blocks outside a static mask, with the conventions of
`dot_product_attention`. On other platforms they run interpreted, for tests. Lengths are padded to whole blocks.
Lengths, packed segments, a key mask and the padding are all expressed as segments. For a row without a visible key, the
library returns the mean of the masked values. Here each head gets an attention sink, a logit of -1e30 with the value 0,
which affects only such rows: they become 0 with gradient 0. The scale is multiplied into the query, and the product is
rounded to the query's dtype. The gradient of the library uses the log-sum-exp; its relative error is about 6e-8 times
the largest logit (6 % at 1e6).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as library
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jaxtyping import Array

from attention_research.kernels.attention.arguments import Arrays, Options
from attention_research.kernels.attention.refusals import refuse
from attention_research.kernels.platforms import home_platform

#: Lengths are padded to a multiple of the number of lanes of a TPU register.
LANES = 128
#: The maximum block length (a choice, not a measurement).
LONGEST = 512
#: The logit of the sink: far below all other logits, and far above the library's mask value of -2.4e38.
SINK = -1e30
#: The segments of queries that attend to no key, and of keys that no query attends to.
BLIND, HIDDEN = -1, -2


def attend(arrays: Arrays, options: Options, *, platform: str | None = None) -> Array:
    """The same function as `reference.attend`, [B T N Hv], with memory linear in the lengths.

    Kernels are interpreted if `platform` is not a TPU (None: the home platform). Raises ValueError if `refusals.splash`
    returns a reason.
    """
    platform = platform or home_platform()
    refuse("splash", arrays, options, platform)
    query, key, value = arrays.query, arrays.key, arrays.value
    T, N = query.shape[1:3]
    query = (query.astype(jnp.float32) * options.scale).astype(query.dtype)
    heads = [_padded(array, 1).swapaxes(1, 2) for array in (query, key, value)]
    lengths = heads[0].shape[2], heads[1].shape[2]
    mask = masks.FullMask(lengths)
    if options.left is not None or options.right is not None:
        mask = masks.LocalMask(lengths, (options.left, options.right), offset=0)
    kernel = library.make_splash_mha_single_device(
        masks.MultiHeadMask([mask] * N), block_sizes=_block_sizes(*lengths), interpret=platform != "tpu"
    )
    sinks = jnp.full((N,), SINK, jnp.float32)
    segments = _segments(arrays)
    if segments is None:
        output = jax.vmap(lambda *one: kernel(*one, None, sinks))(*heads)
    else:
        output = jax.vmap(lambda *one: kernel(*one, sinks))(*heads, segments)
    return output.swapaxes(1, 2)[:, :T]


def _padded(array: Array, axis: int, fill: int = 0) -> Array:
    """Pads the axis to a multiple of the number of lanes."""
    widths = [(0, -size % LANES if number == axis else 0) for number, size in enumerate(array.shape)]
    return jnp.pad(array, widths, constant_values=fill)


def _block_sizes(query_length: int, key_length: int) -> library.BlockSizes:
    """The largest block sizes that divide the padded lengths."""
    query, key = (
        max(size for size in range(LANES, LONGEST + 1, LANES) if length % size == 0)
        for length in (query_length, key_length)
    )
    return library.BlockSizes(
        block_q=query, block_kv=key, block_kv_compute=key, block_q_dkv=query, block_kv_dkv=key,
        block_kv_dkv_compute=key, block_q_dq=query, block_kv_dq=key,
    )  # fmt: skip


def _segments(arrays: Arrays) -> library.SegmentIds | None:
    """The segments [B padded T] and [B padded S], or None if only the band masks keys."""
    (B, T), S = arrays.query.shape[:2], arrays.key.shape[1]
    sides = []
    for length, real, given, nothing in (
        (T, arrays.query_lengths, arrays.query_segments, BLIND),
        (S, arrays.key_lengths, arrays.key_segments, HIDDEN),
    ):
        ids = jnp.ones((B, length), jnp.int32) if given is None else jnp.where(given == 0, nothing, given)
        if real is not None:
            ids = jnp.where(jnp.arange(length, dtype=jnp.int32) < real[:, None], ids, nothing)
        if nothing == HIDDEN and arrays.mask is not None:
            ids = jnp.where(arrays.mask[:, 0, 0], ids, nothing)
        sides.append(_padded(ids, 1, nothing))
    given = (arrays.mask, arrays.query_lengths, arrays.key_lengths, arrays.query_segments)
    if S % LANES == 0 and all(x is None for x in given):
        return None
    return library.SegmentIds(*sides)
