"""Self-attention with a state of constant size, Katharopoulos et al. 2020 (arXiv 2006.16236): what all variants share.

A head keeps a matrix S [H Hv] instead of the keys and values of all positions (`kernels.state`). The layer is causal:
the state knows earlier positions only. A variant subclasses `StateAttention` and defines `inputs`: the arguments of its
kernel, computed from the layer's input and the projected queries, keys and values. It may override `finish`, which maps
the outputs of the heads to the output of the layer, and these attributes of the class:

    kernel, kernel_step        the kernel and its step, with `options` as further arguments
    key_factor, value_factor   the widths of keys and values, as multiples of the head width
    activated                  a SiLU follows the projections of queries, keys and values
    norm_over                  the outputs are normalized by the RMS of each head, or of all heads together; None: not
    gate_by                    the outputs are multiplied by gate_by(x W), or None

Padding leaves the state as it is. In packed rows, the state begins anew with each example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.state import state_attention, state_step
from attention_research.layers.attention.state.short_convolution import ShortConvolution, visible_taps
from attention_research.layers.attention.where import NOTHING, Mask, Offset, weights_of
from attention_research.layers.linear import Linear
from attention_research.signatures import NonNegative, Positive

#: The arguments of a kernel by name, [B T N ...], and "gate" [B T C], if `finish` needs what `given` computes.
Inputs = dict[str, Array]


class Places(NamedTuple):
    """The real positions, and those where a packed example begins. None: all positions; none of them."""

    real: Bool[Array, "B T"] | None = None
    reset: Bool[Array, "B T"] | None = None


def places(mask: Mask | None, batch: int) -> Places:
    """Reads a padding mask [B 1 1 T] or the mask of packed examples [B 1 T T].

    >>> from attention_research.kernels.masks import segment_mask
    >>> segments = jnp.array([[1, 1, 2, 0]])
    >>> found = places(segment_mask(segments, segments), 1)
    >>> found.real.astype(int).tolist(), found.reset.astype(int).tolist()
    ([[1, 1, 1, 0]], [[1, 0, 1, 0]])
    """
    if mask is None:
        return Places()
    if mask.shape[1] != 1:
        raise ValueError(f"mask: a state expects one mask for all heads, [B 1 1 T] or [B 1 T T], got {mask.shape}")
    T = mask.shape[-1]
    if mask.shape[2] == 1:
        return Places(jnp.broadcast_to(mask[:, 0, 0], (batch, T)))
    mask = jnp.broadcast_to(mask[:, 0], (batch, T, T))
    real, before = (jnp.diagonal(mask, offset, axis1=1, axis2=2) for offset in (0, -1))
    return Places(real, real & ~jnp.pad(before, [(0, 0), (1, 0)]))


def _arguments(given: Inputs) -> Inputs:
    return {name: array for name, array in given.items() if name != "gate"}


class At(NamedTuple):
    """The position of the first row of x in its sequence, the number of the layer in its stack, from 0, and what a
    lower layer hands over."""

    offset: Offset = 0
    depth: Int[Array, ""] | int = 0
    handed: Mapping[str, Array] = NOTHING


class StateAttention(nnx.Module):
    """N heads with keys of width H and values of width Hv, between projections without biases.

    `key_head_width` and `value_head_width` are the widths H and Hv; None means the variant's multiple of the head
    width. `convolution_width` is the number of taps of a causal convolution over each channel of the queries, keys and
    values, which is followed by a SiLU; 0 means none. Calls return (y, aux) with the weights that the mechanism gives
    to the values of earlier positions in ``aux["attention_weights"]`` [B N T T]; they may be negative. Under jit, the
    weights are computed only if the caller uses them.
    """

    cost: tuple[str, float] = ("N*H*Hv + max(convolution_width - 1, 0)*N*(2*H + Hv)", 1)
    kernel: Callable[..., Any] = staticmethod(state_attention)
    kernel_step: Callable[..., Any] = staticmethod(state_step)
    options: Mapping[str, Any] = {}
    key_factor, value_factor = 1.0, 1.0
    activated, convolution_bias = False, False
    norm_over: Literal["head", "all"] | None = "head"
    gate_by: Callable[[Array], Array] | None = None

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        key_head_width: Positive | None = None,
        value_head_width: Positive | None = None,
        convolution_width: NonNegative = 0,
        use_bias: bool = False,
        rngs: nnx.Rngs,
    ):
        each = width // num_heads if head_width is None else head_width
        widths = lambda given, factor: max(1, round(each * factor)) if given is None else given
        self.width, self.num_heads = width, num_heads
        self.head_width = widths(key_head_width, self.key_factor)
        self.value_head_width = widths(value_head_width, self.value_factor)
        keys, values = self.project_widths()
        self.query = Linear(width, keys, use_bias=use_bias, rngs=rngs)
        self.key = Linear(width, keys, use_bias=use_bias, rngs=rngs)
        self.value = Linear(width, values, use_bias=use_bias, rngs=rngs)
        channels = 2 * keys + values
        convolution = partial(ShortConvolution, channels, use_bias=self.convolution_bias)
        self.convolution = convolution(convolution_width, rngs=rngs) if convolution_width else None
        out = num_heads * self.value_head_width
        over = self.value_head_width if self.norm_over == "head" else out
        self.norm_scale = None if self.norm_over is None else nnx.Param(jnp.ones((over,), jnp.float32))
        self.gate = None if self.gate_by is None else Linear(width, out, use_bias=False, rngs=rngs)
        self.output = Linear(out, width, use_bias=use_bias, rngs=rngs)

    def project_widths(self) -> tuple[int, int]:
        """The widths of the projections of queries and keys, and of values, all heads together."""
        return self.num_heads * self.head_width, self.num_heads * self.value_head_width

    def inputs(
        self, x: Float[Array, "B T D"], query: Array, key: Array, value: Array, at: At
    ) -> Inputs:  # fmt: skip
        """The arguments of the kernel."""
        raise NotImplementedError

    def hand_over(self, given: Inputs) -> dict[str, Array]:
        """What the layer hands to the layers above, from the arguments of its kernel. They get it as `At.handed`."""
        del given
        return {}

    def _aux(self, given: Inputs) -> dict[str, dict[str, Array]]:
        handed = self.hand_over(given)
        return {"handed": handed} if handed else {}

    def before(self, batch: int) -> Any:
        """The state before the first position."""
        return jnp.zeros((batch, self.num_heads, self.head_width, self.value_head_width), jnp.float32)

    def finish(self, context: Float[Array, "B T N Hv"], x: Float[Array, "B T D"], given: Inputs) -> Array:
        """Maps the outputs of the heads to the output of the layer. `given` are the arguments of the kernel."""
        del given
        joined = self.normalized(context).reshape(*x.shape[:2], -1)
        return self.output(self.gated(joined, x))

    def normalized(self, context: Float[Array, "B T *N Hv"]) -> Array:
        """The outputs of the heads over their RMS, or over that of all heads together."""
        if self.norm_scale is None:
            return context
        if self.norm_over == "all":
            context = context.reshape(*context.shape[:2], -1)
        return rms_norm(context, self.norm_scale[...])

    def gated(self, joined: Float[Array, "B T C"], x: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
        """The joined heads, multiplied by their gate."""
        return joined if self.gate is None or self.gate_by is None else joined * self.gate_by(self.gate(x))

    def given(
        self, x: Float[Array, "B T D"], taps: dict[str, Array], at: At, mask: Mask | None, where: Places
    ) -> tuple[Inputs, dict[str, Array]]:
        """(the arguments of the kernel, the convolution's inputs for the next positions)."""
        projected = jnp.concatenate([self.query(x), self.key(x), self.value(x)], axis=-1)
        if self.convolution is not None:
            width = self.convolution.kernel_width
            visible = None if mask is None or where.reset is None else visible_taps(mask, width)
            projected, taps = self.convolution(projected, taps, where.real, visible)
        if self.activated or self.convolution is not None:
            projected = jax.nn.silu(projected)
        keys, _ = self.project_widths()
        split = jnp.split(projected, [keys, 2 * keys], axis=-1)
        query, key, value = (self.heads(x, width) for x, width in zip(split, self._widths(), strict=True))
        return self.inputs(x, query, key, value, at), taps

    def _widths(self) -> tuple[int, int, int]:
        return self.head_width, self.head_width, self.value_head_width

    def heads(self, x: Float[Array, "B T C"], width: int) -> Float[Array, "B T N H"]:
        """Splits channels into heads. Channels of fewer heads are repeated for the others."""
        split = x.reshape(*x.shape[:2], -1, width)
        times = self.num_heads // split.shape[2]
        return split if times == 1 else jnp.repeat(split, times, axis=2)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
        depth: Int[Array, ""] | int = 0,
        handed: Mapping[str, Array] = NOTHING,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Causal self-attention. Raises ValueError unless `is_causal`."""
        given, y, _ = self._whole(x, mask, is_causal, At(0, depth, handed))
        where, arguments = places(mask, len(x)), _arguments(given)

        def attend(value: Array) -> Array:
            now = {**arguments, "value": value}
            return self.kernel(**now, mask=where.real, reset=where.reset, **self.options)[0]

        return y, {"attention_weights": weights_of(attend, arguments["query"], y.dtype), **self._aux(given)}

    def _whole(
        self, x: Array, mask: Mask | None, is_causal: bool, at: At
    ) -> tuple[Inputs, Array, dict[str, Any]]:  # fmt: skip
        """(the arguments of the kernel, y, the cache after the last position)."""
        if not is_causal:
            raise ValueError(f"{type(self).__name__} is causal: its state only knows earlier positions")
        where = places(mask, len(x))
        given, taps = self.given(x, self._taps(len(x), x.dtype), at, mask, where)
        context, state = self.kernel(**_arguments(given), mask=where.real, reset=where.reset, **self.options)
        return given, self.finish(context, x, given), {"state": state, **taps}

    def _taps(self, batch: int, dtype: Any) -> dict[str, Array]:
        """The inputs of the convolution before the first position."""
        return {} if self.convolution is None else self.convolution.start(batch, dtype)

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Any]:
        """An empty cache: the state, in float32, and the last inputs of the convolution. Its size is the same for any
        length."""
        del length
        return {"state": self.before(batch), **self._taps(batch, jnp.dtype(dtype))}

    def prefill(
        self,
        x: Float[Array, "B P D"],
        length: int,
        *,
        mask: Mask | None,
        is_causal: bool,
        shared: nnx.Module | None = None,
        depth: Int[Array, ""] | int = 0,
        handed: Mapping[str, Array] = NOTHING,
    ) -> tuple[Float[Array, "B P D"], dict[str, Any], dict[str, Any]]:
        """Processes the first P positions in one call. Returns (y, the cache after them, aux)."""
        del length, shared
        given, y, cache = self._whole(x, mask, is_causal, At(0, depth, handed))
        return y, cache, self._aux(given)

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Any],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
        depth: Int[Array, ""] | int = 0,
        handed: Mapping[str, Array] = NOTHING,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:
        """Decodes position `index`. Returns (y, cache, aux)."""
        del shared
        state, taps = cache["state"], {name: value for name, value in cache.items() if name != "state"}
        given, taps = self.given(x, taps, At(index, depth, handed), None, Places())
        state, context = self.kernel_step(
            state, **{name: a[:, 0] for name, a in _arguments(given).items()}, **self.options
        )
        return self.finish(context[:, None], x, given), {"state": state, **taps}, self._aux(given)
