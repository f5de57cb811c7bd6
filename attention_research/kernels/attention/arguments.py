"""The arguments of all implementations of attention: checks, the band of visible keys, and the mask."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.precision import accumulator
from attention_research.kernels.symbolic import symbolic

#: What multiplies the logits: a number, or an array without axes that may be learned. None means 1 / sqrt(H).
Scale = float | int | Float[Array, ""] | None


class Options(NamedTuple):
    """The static arguments.

    Query i attends to keys i - left <= j <= i + right (None: no bound). Logits are multiplied by `scale`. Causal
    attention is the band (None, 0). A static query offset is part of the band, whose sides may then be negative.
    `soft_cap` bounds the logits. With `residual`, the result is (output, log-sum-exp [B T N]).
    """

    scale: float
    left: int | None
    right: int | None
    soft_cap: float | None = None
    residual: bool = False


class Arrays(NamedTuple):
    """The array arguments.

    They are query [B T N H], key [B S K H], value [B S K Hv] or None, 4-D bias and mask, lengths [B], segments [B T]
    and [B S], a bias by distance [N T+S-1], the tables [R H] and [P Hv] of Shaw's relative attention, sinks [N] or [1],
    and query offsets [B] that are not static.
    """

    query: Array
    key: Array
    value: Any  # None for attention_weights, which does not call an implementation
    bias: Array | None = None
    mask: Array | None = None
    query_lengths: Array | None = None
    key_lengths: Array | None = None
    query_segments: Array | None = None
    key_segments: Array | None = None
    distance_bias: Array | None = None
    key_table: Array | None = None
    value_table: Array | None = None
    sink: Array | None = None
    query_offset: Array | None = None


def band(
    is_causal: bool,
    window: int | tuple[int, int] | None,
    query_length: int,
    key_length: int,
    query_offset: int | None = 0,
) -> tuple[int | None, int | None]:
    """The band (left, right) of visible keys. A bound without effect becomes None. `query_offset` None: not static."""
    left, right = (window, window) if isinstance(window, int | np.integer) or window is None else window
    if (left is not None and left < 0) or (right is not None and right < 0):
        raise ValueError(f"local_window_size: expected (left, right) of at least 0, got {window!r}")
    if is_causal:
        right = 0
    if query_offset is None:  # a bound that no position reaches would overflow in the sum with the offset
        left, right = (None if bound is None or bound >= 2**30 else bound for bound in (left, right))
        return left, right
    left, right = None if left is None else left - query_offset, None if right is None else right + query_offset
    if left is not None and not symbolic(query_length) and left >= query_length - 1:
        left = None
    if right is not None and not symbolic(key_length) and right >= key_length - 1:
        right = None
    return left, right


def _expect(name: str, axes: str, array: Array, sizes: tuple[int | None, ...], *, broadcast: bool = False) -> None:
    """Raises ValueError naming the first axis of `array` whose size is not the expected one (None: any size)."""
    if array.ndim != len(sizes):
        raise ValueError(f"{name}: expected {len(sizes)} axes [{axes}], got shape {list(array.shape)}")
    for axis, got, size in zip(axes.split(), array.shape, sizes, strict=True):
        if size is not None and got != size and not (broadcast and got == 1):
            one = "1 or " if broadcast else ""
            raise ValueError(f"{name}: axis {axis} of [{axes}]: expected {one}{size}, got {got} ({list(array.shape)})")


def prepare(
    query: Array,
    key: Array,
    value: Array | None,
    bias: Array | None,
    mask: Array | None,
    scale: Scale,
    is_causal: bool,
    query_seq_lengths: Array | None,
    key_value_seq_lengths: Array | None,
    local_window_size: int | tuple[int, int] | None,
    query_segments: Array | None = None,
    key_segments: Array | None = None,
    distance_bias: Array | None = None,
    *,
    query_offset: int | Array = 0,
    soft_cap: float | int | None = None,
    sink: Array | None = None,
    return_residual: bool = False,
) -> tuple[Arrays, Options]:
    """Checks all shapes and dtypes and returns (arrays, options). Errors name the argument and the axis.

    A scale that is an array multiplies `arrays.query`, and `options.scale` is 1.
    """
    _expect("query", "B T N H", query, (None,) * 4)
    B, T, N, H = query.shape
    _expect("key", "B S K H", key, (B, None, None, H))
    S, K = key.shape[1:3]
    if K == 0 or N % K:
        raise ValueError(f"key: axis K of [B S K H]: expected a divisor of the query's {N} heads, got {K}")
    if H == 0:
        raise ValueError(f"query: axis H of [B T N H]: expected at least 1, got 0 ({list(query.shape)})")
    if value is not None:
        _expect("value", "B S K Hv", value, (B, S, K, None))
    for name, array in (("key", key), ("value", value)):
        if array is not None and array.dtype != query.dtype:
            raise ValueError(f"{name}: expected the query's dtype {query.dtype}, got {array.dtype}")
    if not jnp.issubdtype(query.dtype, jnp.floating):
        raise ValueError(f"query: expected floating point, got {query.dtype}")
    if distance_bias is not None:
        _expect("distance_bias", "N T+S-1", distance_bias, (1 if distance_bias.shape[:1] == (1,) else N, T + S - 1))
    if (query_segments is None) != (key_segments is None):
        raise ValueError("query_segments: expected together with key_segments, got one of them")
    for name, axis, segments, size in (("query", "T", query_segments, T), ("key", "S", key_segments, S)):
        if segments is not None:
            _expect(f"{name}_segments", f"B {axis}", segments, (B, size))
            if not jnp.issubdtype(segments.dtype, jnp.integer):
                raise ValueError(f"{name}_segments: expected integers (0 = padding), got {segments.dtype}")
    for name, array in (("bias", bias), ("mask", mask)):
        if array is not None:
            _expect(name, "B N T S", array, (B, N, T, S), broadcast=True)
    if mask is not None and mask.dtype != jnp.bool_:
        raise ValueError(f"mask: expected bool (True = may attend), got {mask.dtype}; an additive mask is a bias")
    for name, array in (("bias", bias), ("distance_bias", distance_bias)):
        if array is not None and not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name}: expected floating point, got {array.dtype}; a boolean mask is the mask")
    for name, lengths in (("query_seq_lengths", query_seq_lengths), ("key_value_seq_lengths", key_value_seq_lengths)):
        if lengths is not None:
            _expect(name, "B", lengths, (B,))
            if not jnp.issubdtype(lengths.dtype, jnp.integer):
                raise ValueError(f"{name}: expected integers, got {lengths.dtype}")
    query_lengths, key_lengths = (
        None if lengths is None else lengths.astype(jnp.int32) for lengths in (query_seq_lengths, key_value_seq_lengths)
    )
    if isinstance(scale, jax.Array):
        query, scale = scaled_query(query, scale), 1
    scale = float(H**-0.5 if scale is None else scale)
    query_segments, key_segments = (
        None if ids is None else ids.astype(jnp.int32) for ids in (query_segments, key_segments)
    )
    if soft_cap is not None and not soft_cap > 0:
        raise ValueError(f"soft_cap: expected more than 0, got {soft_cap}")
    if sink is not None:
        _expect("sink", "N", sink, (N,), broadcast=True)
        if not jnp.issubdtype(sink.dtype, jnp.floating):
            raise ValueError(f"sink: expected floating point, got {sink.dtype}")
    offsets = None
    if isinstance(query_offset, jax.Array) or symbolic(query_offset) or np.ndim(query_offset) > 0:
        query_offset, offsets = None, _offsets(jnp.asarray(query_offset), B)
    sides = band(is_causal, local_window_size, T, S, None if query_offset is None else operator.index(query_offset))
    arrays = Arrays(
        query, key, value, bias, mask, query_lengths, key_lengths, query_segments, key_segments, distance_bias,
        sink=sink, query_offset=None if sides == (None, None) else offsets,
    )  # fmt: skip
    return arrays, Options(scale, *sides, None if soft_cap is None else float(soft_cap), return_residual)


def _offsets(offset: Array, batch: int) -> Array:
    """Converts offsets [], [1] or [B] to int32 [B]."""
    if offset.ndim:
        _expect("query_offset", "B", offset, (batch,), broadcast=True)
    if not jnp.issubdtype(offset.dtype, jnp.integer):
        raise ValueError(f"query_offset: expected integers, got {offset.dtype}")
    return jnp.broadcast_to(offset.astype(jnp.int32), (batch,))


def scaled_query(query: Array, scale: Array) -> Array:
    """Multiplies the query by a scale that is an array, in at least float32, and rounds to the query's dtype."""
    if scale.ndim or not jnp.issubdtype(scale.dtype, jnp.floating):
        raise ValueError(f"scale: expected a number or a floating array without axes, got {scale.dtype}{scale.shape}")
    dtype = accumulator(query.dtype)
    return (query.astype(dtype) * scale.astype(dtype)).astype(query.dtype)


def empty(arrays: Arrays) -> bool:
    """Whether an axis of query, key or value has size 0."""
    return any(0 in array.shape for array in arrays[:3] if array is not None)


def in_band(rows: Int[Array, "*R"], columns: Int[Array, "*C"], options: Options) -> Bool[Array, "..."] | None:
    """rows - left <= columns <= rows + right, with broadcasting; None if the band has no bounds."""
    visible = None
    if options.right is not None:
        visible = columns <= rows + options.right
    if options.left is not None:
        left = columns >= rows - options.left
        visible = left if visible is None else visible & left
    return visible


def same_segment(query: Int[Array, "..."], key: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Whether query and key are in the same segment, with broadcasting. Segment 0 is padding and matches nothing."""
    return (query == key) & (key != 0)


def visible_keys(arrays: Arrays, options: Options) -> Bool[Array, "#B #N #T #S"] | None:
    """The keys that each query may attend to, from mask, band, lengths and segments; None means all keys."""
    T, S = arrays.query.shape[1], arrays.key.shape[1]
    rows, columns = jnp.arange(T, dtype=jnp.int32)[:, None], jnp.arange(S, dtype=jnp.int32)[None, :]
    terms = [arrays.mask]
    moved = rows[None, None] if arrays.query_offset is None else rows + arrays.query_offset[:, None, None, None]
    terms.append(in_band(moved, columns, options))
    if arrays.query_lengths is not None:
        terms.append(rows < arrays.query_lengths[:, None, None, None])
    if arrays.key_lengths is not None:
        terms.append(columns < arrays.key_lengths[:, None, None, None])
    if arrays.query_segments is not None and arrays.key_segments is not None:
        terms.append(same_segment(arrays.query_segments[:, None, :, None], arrays.key_segments[:, None, None, :]))
    visible = None
    for term in terms:
        if term is not None:
            visible = term if visible is None else visible & term
    return visible


def softmax_or_zero(logits: Float[Array, "*B S"], visible: Bool[Array, "..."] | None = None) -> Float[Array, "*B S"]:
    """Softmax over the visible entries of the last axis, or 0 with gradient 0 if no entry is visible.

    An entry of -inf is not visible.
    """
    if logits.shape[-1] == 0:
        return logits
    return _softmax(logits if visible is None else jnp.where(visible, logits, -jnp.inf))


def exp_below(logits: Float[Array, "..."], largest: Float[Array, "..."]) -> Float[Array, "..."]:
    """exp(logits - largest) for logits of at most `largest`. The result is at most 1, and 1 at the largest logit.

    A compiler may contract the product and the difference in `q k scale - largest` into one operation with one
    rounding, whereas `largest` was rounded twice. At 1e10 the two differ by hundreds, so that all exponentials are 0 or
    one is infinite. The selection between product and difference prevents the contraction. The bound also holds if the
    logits are computed twice.
    """
    logits = jnp.where(largest < jnp.inf, logits, jnp.nan)
    difference = logits - largest
    return jnp.exp(jnp.where(difference > 0, jnp.zeros_like(difference), difference))


def capped(logits: Float[Array, "..."], cap: float | None) -> Float[Array, "..."]:
    """cap tanh(logits / cap), Gemma Team 2024 (arXiv 2408.00118), section 2. With cap None, the logits unchanged."""
    if cap is None:
        return logits
    limit = jnp.asarray(cap, logits.dtype)
    return limit * jnp.tanh(logits / limit)


@jax.custom_jvp
def _softmax(logits: Array) -> Array:
    largest = jnp.max(logits, axis=-1, keepdims=True)
    largest = jnp.where(largest == -jnp.inf, jnp.zeros_like(largest), largest)
    exponentials = exp_below(logits, largest)
    total = jnp.sum(exponentials, axis=-1, keepdims=True)
    return exponentials / jnp.where(total == 0, jnp.ones_like(total), total)


@_softmax.defjvp
def _softmax_derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """dp = p (t - sum(p t)). Only p is kept for the gradient, and the gradient is never NaN."""
    (logits,), (tangent,) = primals, tangents
    weights = _softmax(logits)
    along = weights * tangent
    return weights, along - weights * jnp.sum(along, axis=-1, keepdims=True)
