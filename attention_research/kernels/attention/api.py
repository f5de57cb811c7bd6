"""Scaled dot-product attention, Vaswani et al. 2017 (arXiv 1706.03762), equation 1: softmax(Q K^T scale + bias) V.

The public functions are `dot_product_attention`, `attention_weights` and `explain_implementation`.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Integer

from attention_research.kernels.attention import blockwise, library, reference
from attention_research.kernels.attention.arguments import Arrays, Options, Scale, empty, prepare
from attention_research.kernels.attention.refusals import refusal, refuse
from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.opaque import opaque
from attention_research.kernels.platforms import PLATFORMS, home_platform, per_platform
from attention_research.kernels.symbolic import symbolic

IMPLEMENTATIONS = ("reference", "blockwise", "xla", "cudnn", "pallas", "splash")

#: From this number of scores per head (T * S), blocks are faster on a CPU (on 2 cores, `benchmarks/attention.py`).
CPU_SCORES = 384 * 384
#: From this number of bytes of float32 scores, accelerators use blocks (a choice, not a measurement).
DENSE_BYTES = 2**30
#: Platform -> the implementations that are tried in this order, before blockwise and the dense form.
ACCELERATED = {"cuda": ("cudnn", "pallas"), "rocm": ("pallas",), "tpu": ("splash",)}
#: With fewer queries than the side of a tile (as in decoding), tiled kernels mostly compute padding.
FEWEST_QUERIES = 16


def prefers_blocks(arrays: Arrays, platform: str) -> bool:
    """Whether blocks are better than the dense form: in time on a CPU, in memory on an accelerator."""
    (B, T, N, _), S = arrays.query.shape, arrays.key.shape[1]
    if symbolic(B, T, S):
        return False
    return T * S >= CPU_SCORES if platform == "cpu" else 4 * B * N * T * S >= DENSE_BYTES


class Choice(NamedTuple):
    """The chosen implementation and the reason.

    >>> choice = Choice("blockwise", "memory linear in the number of keys")
    >>> choice.implementation
    'blockwise'
    """

    implementation: str
    reason: str


def _choose(implementation: str | None, arrays: Arrays, options: Options, platform: str) -> Choice:
    """Chooses the implementation. Raises ValueError if it is unknown or does not support the arguments."""
    if implementation is not None:
        if implementation not in IMPLEMENTATIONS:
            names = ", ".join(IMPLEMENTATIONS)
            raise ValueError(f"implementation: expected None or one of {names}, got {implementation!r}")
        refuse(implementation, arrays, options, platform)
        return Choice(implementation, "asked for")
    (B, T, N, _), S = arrays.query.shape, arrays.key.shape[1]
    if symbolic(B, T, S):
        return Choice("reference", f"symbolic sizes: {B} rows of {T} x {S} scores")
    if platform == "cpu":
        if prefers_blocks(arrays, platform):
            return Choice("blockwise", f"{T} x {S} scores per head: on a CPU blocks are faster from {CPU_SCORES}")
        return Choice("reference", f"{T} x {S} scores per head: on a CPU dense is faster below {CPU_SCORES}")
    refusals: list[str] = []
    for name in ACCELERATED.get(platform, ()):
        reason = refusal(name, arrays, options, platform)
        if reason is None and name == "cudnn":
            reason = _laid_out(arrays)
        elif reason is None and T < FEWEST_QUERIES:
            reason = f"axis T of query: expected at least {FEWEST_QUERIES}, a tile, got {T}"
        if reason is None:
            return Choice(name, "; ".join([f"{arrays.query.dtype} on {platform}", *refusals]))
        refusals.append(f"not {name}: {reason}")
    size = 4 * B * N * T * S
    why = "; ".join([f"{size / 2**20:.0f} MiB of scores on {platform}", *refusals])
    return Choice("blockwise" if prefers_blocks(arrays, platform) else "reference", why)


class _Attention(NamedTuple):
    """Attention with the implementation that is chosen for the platform of the lowered program."""

    implementation: str | None
    options: Options

    def on(self, platform: str, arrays: Arrays) -> Any:
        chosen = _choose(self.implementation, arrays, self.options, platform).implementation
        if chosen == "reference":
            return reference.attend(arrays, self.options)
        if chosen == "blockwise":
            return blockwise.attend(arrays, self.options)
        if chosen == "xla":
            return library.attend(chosen, arrays, self.options, platform=platform)
        run = functools.partial(library.attend, "cudnn") if chosen == "cudnn" else _accelerator(chosen).attend
        fast = functools.partial(run, options=self.options, platform=platform)
        plain = functools.partial(blockwise.plain, options=self.options)
        return both_modes(opaque(fast, plain), plain)(arrays)

    def by_platform(self, arrays: Arrays) -> bool:
        """Whether the choice for these arguments depends on the platform."""
        if self.implementation is not None:
            return self.implementation in ("pallas", "splash", "cudnn")
        return len({_choose(None, arrays, self.options, name).implementation for name in PLATFORMS}) > 1


def _accelerator(name: str) -> ModuleType:
    """The module of "pallas" or "splash", imported only when needed, because the import of Pallas is slow."""
    return importlib.import_module(f"attention_research.kernels.attention.{name}")


def _laid_out(arrays: Arrays) -> str | None:
    """The argument that cuDNN would need as a dense [T S] array, or None."""
    dense = [name for name in ("bias", "mask", "distance_bias", "query_segments") if getattr(arrays, name) is not None]
    return f"{dense[0]}: would be laid out as [B N T S]" if dense else None


def explain_implementation(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_seq_lengths: Integer[Array, "B"] | None = None,
    key_value_seq_lengths: Integer[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Integer[Array, "B T"] | None = None,
    key_segments: Integer[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
    query_offset: int | Integer[Array, "#B"] | Integer[Array, ""] = 0,
    soft_cap: float | int | None = None,
    sink: Float[Array, "#N"] | None = None,
    return_residual: bool = False,
    implementation: str | None = None,
    platform: str | None = None,
) -> Choice:
    """The (implementation, reason) that `dot_product_attention` chooses for the same arguments, without computation.

    `platform` is the platform that the program is lowered for: "cpu", "cuda", "rocm", "tpu", or None for the home
    platform (`kernels.platforms`). Raises the same errors as `dot_product_attention`.

    >>> x = jnp.ones((1, 3, 2, 4))
    >>> explain_implementation(x, x, x, implementation="reference").implementation
    'reference'
    """
    if platform not in (None, *PLATFORMS):
        raise ValueError(f"platform: expected None or one of {', '.join(PLATFORMS)}, got {platform!r}")
    arrays, options = prepare(
        query, key, value, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
        query_offset=query_offset, soft_cap=soft_cap, sink=sink, return_residual=return_residual,
    )  # fmt: skip
    return _choose(implementation, arrays, options, platform or home_platform())


def dot_product_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_seq_lengths: Integer[Array, "B"] | None = None,
    key_value_seq_lengths: Integer[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Integer[Array, "B T"] | None = None,
    key_segments: Integer[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
    query_offset: int | Integer[Array, "#B"] | Integer[Array, ""] = 0,
    soft_cap: float | int | None = None,
    sink: Float[Array, "#N"] | None = None,
    return_residual: bool = False,
    implementation: str | None = None,
) -> Any:
    """Scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T scale + bias) V [B T N Hv].

    Query head n uses key head n // (N / K). The conventions are those of `jax.nn.dot_product_attention`:

    - `mask` is True where a query may attend. `bias` is added after the scale; a bias of -inf masks a key.
    - `scale` None means 1 / sqrt(H). A scale that is an array without axes multiplies the query and has a gradient.
    - `is_causal` aligns top-left: query i attends to keys 0 to i, also if T differs from S.
    - with `local_window_size` (left, right), query i attends to keys i - left to i + right. The window does not count
      the query's own position: with (0, 0), a query attends only to itself. An int w means (w, w).
    - `distance_bias` [N T+S-1], or [1 T+S-1] for all heads, adds its entry j - i + T - 1 to the logit of query i and
      key j. It is a bias that depends only on the distance (T5, ALiBi), without a [T S] array.
    - with `query_segments` and `key_segments` (packed examples 1, 2, ...), a query attends to the keys of its own
      segment; 0 is padding. Blocks whose keys are all in other segments, or beyond the lengths, are skipped.
    - `query_offset` (an int, or an array [] or [B]) is the position of the first query among the keys: for causality
      and windows, query i is at position i + query_offset. S - T aligns causal attention bottom-right. A decoder with
      a cache passes the number of cached keys. The offset changes neither lengths nor `distance_bias`.
    - `soft_cap` c gives the logits c tanh(Q K^T scale / c), before biases and masks (Gemma 2). `sink` [N] is one
      additional logit per head, with the value 0 (gpt-oss); -inf means no sink.
    - with `return_residual`, the result is (output, log-sum-exp [B T N] of the logits and the sink of each row). The
      log-sum-exp is float32 and has a gradient. It is -inf for a query with no visible key.
    - queries at or after `query_seq_lengths` and keys at or after `key_value_seq_lengths` are padding.

    It differs from `jax.nn.dot_product_attention` as follows: masks of rank 2 raise an error, values may have their own
    width Hv, and a query with no visible key gives 0 with gradient 0, also if there are no keys at all. The softmax is
    computed in float32 (float64 for float64 inputs). All array arguments have gradients, in reverse and forward mode
    and of higher order; the gradient of a broadcast bias is summed.

    `implementation` is "reference" (dense, the specification), "blockwise" (memory linear in S), "xla", "cudnn",
    "pallas" (on a GPU) or "splash" (on a TPU). None chooses according to the platform that the program is lowered for
    (see `explain_implementation`). Raises ValueError naming the argument and the axis, also if an implementation does
    not support an argument.

    >>> import jax
    >>> x = jax.numpy.ones((1, 3, 2, 4))
    >>> dot_product_attention(x, x, x, is_causal=True).shape
    (1, 3, 2, 4)
    """
    arrays, options = prepare(
        query, key, value, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
        query_offset=query_offset, soft_cap=soft_cap, sink=sink, return_residual=return_residual,
    )  # fmt: skip
    attend = _Attention(implementation, options)
    _choose(implementation, arrays, options, home := home_platform())
    if empty(arrays):
        return reference.attend(arrays, options)
    return per_platform(attend.on, arrays) if attend.by_platform(arrays) else attend.on(home, arrays)


def attention_weights(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_seq_lengths: Integer[Array, "B"] | None = None,
    key_value_seq_lengths: Integer[Array, "B"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    query_segments: Integer[Array, "B T"] | None = None,
    key_segments: Integer[Array, "B S"] | None = None,
    distance_bias: Float[Array, "#N L"] | None = None,
    query_offset: int | Integer[Array, "#B"] | Integer[Array, ""] = 0,
    soft_cap: float | int | None = None,
    sink: Float[Array, "#N"] | None = None,
) -> Float[Array, "B N T S"]:
    """The weights softmax(Q K^T scale + bias), dense, in float32 (float64 for float64 inputs).

    Arguments are those of `dot_product_attention`. The row of a query with no visible key is 0. With a sink, a row sums
    to less than 1.

    >>> x = jnp.zeros((1, 3, 1, 2))  # equal scores
    >>> print(attention_weights(x, x, is_causal=True)[0, 0])
    [[1.   0.   0.  ]
     [0.5  0.5  0.  ]
     [0.33 0.33 0.33]]
    """
    arrays, options = prepare(
        query, key, None, bias, mask, scale, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size,
        query_segments, key_segments, distance_bias,
        query_offset=query_offset, soft_cap=soft_cap, sink=sink,
    )  # fmt: skip
    return reference.weights(arrays, options)
