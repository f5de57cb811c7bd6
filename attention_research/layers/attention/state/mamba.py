"""Mamba (S6), Gu & Dao 2023 (arXiv 2312.00752), section 3: a state space model whose parameters depend on the input.

    h_t = e^(dt_t A) h_(t-1) + dt_t B_t x_t        y_t = C_t h_t + D x_t

for each of the C channels of x, with a state h of H numbers. x = SiLU(conv4(u W_x)); B_t and C_t [H] are linear in x_t
and shared by all channels; dt_t = softplus(x_t W_down W_up + b) [C]; A [C H] and D [C] are learned. The layer returns
(y SiLU(u W_z)) W_out. In the paper it stands alone in its block, without a feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.precision import accumulator
from attention_research.kernels.state import selective_scan, selective_step
from attention_research.layers.attention.state.short_convolution import ShortConvolution, visible_taps
from attention_research.layers.attention.state.state_attention import Places, places
from attention_research.layers.attention.state.step_size import step_bias
from attention_research.layers.attention.where import Mask
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class Inputs(NamedTuple):
    """The arguments of the kernel that depend on the input."""

    query: Float[Array, "B T H"]
    key: Float[Array, "B T H"]
    value: Float[Array, "B T C"]
    step_size: Float[Array, "B T C"]


class Mamba(nnx.Module):
    """A selective state space model of `expand` * width channels, each with a state of `state_width` numbers.

    `convolution_width` is the number of taps of the convolution, and `step_rank` the rank of the projection of dt
    (None: width / 16, rounded up). A starts from -1 to -`state_width`, D from 1. The layer has no attention weights and
    no heads. Padding leaves the state as it is; packed examples do not see each other.
    """

    cost = ("expand*D*(state_width + convolution_width - 1)", 1)

    def __init__(
        self,
        *,
        width: Positive,
        state_width: Positive = 16,
        expand: Positive = 2,
        convolution_width: Positive = 4,
        step_rank: Positive | None = None,
        rngs: nnx.Rngs,
    ):
        channels, rank = expand * width, -(-width // 16) if step_rank is None else step_rank
        self.channels, self.state_width = channels, state_width
        plain = lambda i, o: Linear(i, o, use_bias=False, rngs=rngs)
        self.value, self.gate = plain(width, channels), plain(width, channels)
        self.convolution = ShortConvolution(channels, convolution_width, use_bias=True, rngs=rngs)
        self.key, self.query = plain(channels, state_width), plain(channels, state_width)
        self.step_down, bound = plain(channels, rank), rank**-0.5
        self.step_kernel = nnx.Param(jax.random.uniform(rngs.params(), (rank, channels), jnp.float32, -bound, bound))
        self.step_bias = nnx.Param(step_bias(channels, rngs))
        rates = jnp.log(jnp.arange(1, state_width + 1, dtype=jnp.float32))
        self.rate_log = nnx.Param(jnp.broadcast_to(rates, (channels, state_width)))
        self.skip = nnx.Param(jnp.ones((channels,), jnp.float32))
        self.output = plain(channels, width)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Applies the model to x. Raises ValueError unless `is_causal`."""
        del shared
        return self._whole(x, mask, is_causal)[0], {}

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Any]:
        """An empty cache: the state in float32, and the last inputs of the convolution. It has one size for any
        length."""
        del length
        state = jnp.zeros((batch, self.channels, self.state_width), jnp.float32)
        return {"state": state, **self.convolution.start(batch, jnp.dtype(dtype))}

    def prefill(
        self,
        x: Float[Array, "B P D"],
        length: int,
        *,
        mask: Mask | None,
        is_causal: bool,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B P D"], dict[str, Any], dict[str, Any]]:
        """Processes the first P positions in one call. Returns (y, the cache after them, aux)."""
        del length, shared
        return *self._whole(x, mask, is_causal), {}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: Mapping[str, Any],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Any], dict[str, Any]]:
        """Decodes a position. Returns (y, cache, aux)."""
        del index, shared
        given, taps = self._given(x, {"inputs": cache["inputs"]}, None, Places())
        now = Inputs(*(array[:, 0] for array in given))
        state, context = selective_step(cache["state"], *now, rate=self._rate(x))
        return self._finish(context[:, None], x, given), {"state": state, **taps}, {}

    def _whole(self, x: Array, mask: Mask | None, is_causal: bool) -> tuple[Array, dict[str, Any]]:
        """(y, the cache after the last position)."""
        if not is_causal:
            raise ValueError("Mamba is causal: its state only knows earlier positions")
        where = places(mask, len(x))
        given, taps = self._given(x, self.convolution.start(len(x), x.dtype), mask, where)
        context, state = selective_scan(*given, rate=self._rate(x), mask=where.real, reset=where.reset)
        return self._finish(context, x, given), {"state": state, **taps}

    def _given(
        self, x: Array, taps: dict[str, Array], mask: Mask | None, where: Places
    ) -> tuple[Inputs, dict[str, Array]]:
        """(its inputs, the convolution's inputs for the next positions). Algorithm 2."""
        visible = None if mask is None or where.reset is None else visible_taps(mask, self.convolution.kernel_width)
        value, taps = self.convolution(self.value(x), taps, where.real, visible)
        value = jax.nn.silu(value)
        wide = accumulator(x.dtype)
        logits = (self.step_down(value) @ self.step_kernel[...].astype(x.dtype)).astype(wide)
        size = jax.nn.softplus(logits + self.step_bias[...].astype(wide))
        return Inputs(self.query(value), self.key(value), value, size), taps

    def _rate(self, x: Array) -> Float[Array, "C H"]:
        """A."""
        return -jnp.exp(self.rate_log[...].astype(accumulator(x.dtype)))

    def _finish(self, context: Float[Array, "B T C"], x: Array, given: Inputs) -> Array:
        """The skip connection D, the gate and the projection."""
        context = context + self.skip[...].astype(x.dtype) * given.value
        return self.output(context * jax.nn.silu(self.gate(x)))
