"""Scaled dot-product attention, Vaswani et al. 2017 (arXiv 1706.03762), equation 1: softmax(Q K^T scale + bias) V.

The public face of its implementations: dot_product_attention, attention_weights, explain_implementation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import blockwise, library, reference
from attention_research.kernels.attention.arguments import Arrays, Options, prepare

IMPLEMENTATIONS = ("reference", "blockwise", "xla", "cudnn")

#: Scores a head (T * S) from which blocks pay on a CPU: measured on 2 cores, see `benchmarks/attention.py`.
CPU_SCORES = 384 * 384
#: Bytes of float32 scores from which an accelerator is spared the dense form (a choice, not a measurement).
DENSE_BYTES = 2**30


def prefers_blocks(arrays: Arrays) -> bool:
    """Whether blocks beat the dense form here: in time on a CPU, in memory on an accelerator."""
    (B, T, N, _), S = arrays.query.shape, arrays.key.shape[1]
    return T * S >= CPU_SCORES if jax.default_backend() == "cpu" else 4 * B * N * T * S >= DENSE_BYTES


class Choice(NamedTuple):
    """Which implementation runs, and why."""

    implementation: str
    reason: str


def _choose(implementation: str | None, arrays: Arrays, options: Options) -> Choice:
    """Raises ValueError where the implementation is unknown or cannot honour the arguments."""
    if implementation is not None:
        if implementation not in IMPLEMENTATIONS:
            names = ", ".join(IMPLEMENTATIONS)
            raise ValueError(f"implementation: expected None or one of {names}, got {implementation!r}")
        if implementation in ("xla", "cudnn"):
            reason = library.refusal(implementation, arrays, options)
            if reason is not None:
                raise ValueError(f"implementation={implementation!r}: {reason}")
        return Choice(implementation, "asked for")
    (B, T, N, _), S = arrays.query.shape, arrays.key.shape[1]
    backend = jax.default_backend()
    if backend == "cpu":
        if T * S >= CPU_SCORES:
            return Choice("blockwise", f"{T} x {S} scores a head: on a CPU blocks pay from {CPU_SCORES} scores")
        return Choice("reference", f"{T} x {S} scores a head: on a CPU dense is faster below {CPU_SCORES} scores")
    refused = library.refusal("cudnn", arrays, options)
    if refused is None and arrays.bias is None and arrays.mask is None:
        return Choice("cudnn", f"{arrays.query.dtype} on a GPU")
    size = 4 * B * N * T * S
    why = f"{size / 2**20:.0f} MiB of scores on {backend}" + (f"; not cudnn: {refused}" if refused else "")
    return Choice("blockwise" if size >= DENSE_BYTES else "reference", why)


def explain_implementation(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: float | int | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "B"] | None = None,
    key_value_seq_lengths: Int[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Int[Array, "B T"] | None = None,
    key_segments: Int[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
    implementation: str | None = None,
) -> Choice:
    """(implementation, reason) that `dot_product_attention` would use for the same arguments; computes nothing.

    Raises what `dot_product_attention` would raise.
    """
    arrays, options = prepare(
        query, key, value, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
    )  # fmt: skip
    return _choose(implementation, arrays, options)


def dot_product_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: float | int | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "B"] | None = None,
    key_value_seq_lengths: Int[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Int[Array, "B T"] | None = None,
    key_segments: Int[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """softmax(Q K^T scale + bias) V, Vaswani et al. 2017, equation 1; heads n share the key head n // (N / K).

    The conventions, which are those of `jax.nn.dot_product_attention`:

    - `mask` is True where a query may attend; `bias` is added after the scale and its -inf hides a key.
    - `scale` None is 1 / sqrt(H).
    - `is_causal` aligns top-left: query i sees keys 0..i also where T differs from S.
    - `local_window_size` (left, right) shows query i the keys i - left .. i + right: the query's own position is
      not counted, so that (0, 0) is itself alone; an int w is (w, w).
    - `distance_bias` [N T+S-1], or 1 for all heads, adds its entry j - i + T - 1 to the logit of query i and key j: a
      bias that depends on the distance alone (T5, ALiBi) without a [T S] array.
    - with `query_segments` and `key_segments` (packed examples 1, 2, ...) a query sees the keys of its own segment; 0
      is padding. Blocks whose keys all lie in other segments, or beyond the lengths, are skipped.
    - queries at or after `query_seq_lengths` and keys at or after `key_value_seq_lengths` are padding.

    Where it differs: rank-2 masks raise, values may have their own width Hv, and a query that may attend to nothing
    gives 0 with gradient 0. Softmax is float32 (float64 for float64). Every array argument gets its gradient, a
    broadcast bias its sum. `implementation`: "reference" (dense: the specification), "blockwise" (memory linear in
    S), "xla", "cudnn", or None to choose (see `explain_implementation`). Raises ValueError naming the argument and
    the axis, and where an implementation cannot honour an argument.

    >>> x = jax.numpy.ones((1, 3, 2, 4))
    >>> dot_product_attention(x, x, x, is_causal=True).shape
    (1, 3, 2, 4)
    """
    arrays, options = prepare(
        query, key, value, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
    )  # fmt: skip
    chosen = _choose(implementation, arrays, options).implementation
    if chosen == "reference":
        return reference.attend(arrays, options)
    if chosen == "blockwise":
        return blockwise.attend(arrays, options)
    return library.attend(chosen, arrays, options)


def attention_weights(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: float | int | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "B"] | None = None,
    key_value_seq_lengths: Int[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Int[Array, "B T"] | None = None,
    key_segments: Int[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
) -> Float[Array, "B N T S"]:
    """softmax(Q K^T scale + bias), dense, in float32 (float64 for float64); arguments as `dot_product_attention`.

    An empty row is all zeros.
    """
    arrays, options = prepare(
        query, key, None, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
    )  # fmt: skip
    return reference.weights(arrays, options)
