"""Hyena, Poli et al. 2023 (arXiv 2302.10866), definition 3.1: z_1 = v, z_(n+1) = x_n (h_n * z_n + d_n z_n).

The value v and the gates x_n are projections of the input, each followed by a short convolution. The long kernels h_n
are functions of the distance alone (section 3.3): h(t) = exp(-delta t) MLP(place(t)), with sines as activations and t
from 0 to 1 over `max_length` positions. The decays delta of the channels are evenly spaced from ln(100) / 1.5 to
ln(100) / 0.3. place(t) holds t and the cosines and sines of (place_width - 1) / 2 frequencies. The defaults are those
of the released class. Its language models have place_width 33 and frequency 14, which make rougher kernels. As in the
released code, order N has N gates and N - 1 long convolutions (the paper counts the short one of the value too), so
that order 2 is

    y = (x_2 (h * (x_1 v) + d (x_1 v))) W_out

The weight of position s at position t is x_2t h(t - s) x_1s in each channel. It depends on the contents of both,
without a dot product. Training does not use the fast Fourier transform of the paper, because the gradient from the
future would not be exactly zero (`kernels.no_dot_product.long_convolution`). A decoding step reads the inputs of the
long convolutions at all earlier positions.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.errors import ConfigError
from attention_research.kernels.no_dot_product import long_convolution, long_convolution_step
from attention_research.layers.attention.state.short_convolution import ShortConvolution, visible_taps
from attention_research.layers.attention.state.state_attention import Places, places
from attention_research.layers.attention.where import Mask, expect_place
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive, PositiveFloat


class ImplicitFilter(nnx.Module):
    """Kernels [T C] from a network with three hidden layers of sines, sin(frequency (W x + b)), as released.

    The layers share the frequencies, which are learned. Weights and biases start from U(-1/sqrt(I), 1/sqrt(I)) for
    layers of I inputs.
    """

    def __init__(
        self, channels: int, max_length: int, *, place_width: int, filter_width: int, frequency: float, rngs: nnx.Rngs
    ):
        self.max_length, self.place_width, self.channels = max_length, place_width, channels
        self.first = self._layer(place_width, filter_width, rngs)
        self.second = self._layer(filter_width, filter_width, rngs)
        self.third = self._layer(filter_width, filter_width, rngs)
        self.last = self._layer(filter_width, channels, rngs, use_bias=False)
        self.frequency = nnx.Param(jnp.full((filter_width,), frequency, jnp.float32))

    @staticmethod
    def _layer(width: int, out: int, rngs: nnx.Rngs, use_bias: bool = True) -> Linear:
        layer, bound = Linear(width, out, use_bias=use_bias, rngs=rngs), width**-0.5
        draw = lambda *shape: nnx.Param(jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound))
        layer.kernel = draw(width, out)
        layer.bias = draw(out) if use_bias else None
        return layer

    def __call__(self, length: int) -> Float[Array, "T C"]:
        """The kernels at the distances 0 to `length` - 1."""
        number = jnp.arange(length, dtype=jnp.float32)[:, None]
        time = number / max(self.max_length - 1, 1)
        bands = (self.place_width - 1) // 2
        angles = 2 * math.pi / self.max_length * number * jnp.linspace(1e-4, bands - 1, bands, dtype=jnp.float32)
        x = jnp.concatenate([time, jnp.cos(angles), jnp.sin(angles)], axis=-1)
        for layer in (self.first, self.second, self.third):
            x = jnp.sin(self.frequency[...] * layer(x))
        decay = jnp.linspace(math.log(100) / 1.5, math.log(100) / 0.3, self.channels, dtype=jnp.float32)
        return jnp.exp(-decay * time) * self.last(x)


class Hyena(nnx.Module):
    """Gated long convolutions, for sequences up to `max_length`. Raises ValueError for longer ones.

    `order` is the number of gates, at least 2. `convolution_width` is the number of taps of the short convolutions.
    `place_width` is the number of features of a distance, odd and at least 3; `filter_width` that of the hidden layers
    of the network that maps them to kernels, and `frequency` the first value of the factors in its sines. Packed
    examples do not see each other.
    """

    cost = ("(order - 1)*S*D + max(convolution_width - 1, 0)*(order + 1)*D", 2)

    def __init__(
        self,
        *,
        width: Positive,
        max_length: Positive,
        order: Positive = 2,
        convolution_width: Positive = 3,
        place_width: Positive = 3,
        filter_width: Positive = 64,
        frequency: PositiveFloat = 1.0,
        rngs: nnx.Rngs,
    ):
        if order < 2:
            raise ConfigError(f"order: expected at least 2, got {order}")
        if place_width < 3 or place_width % 2 == 0:
            raise ConfigError(f"place_width: expected an odd number of at least 3, got {place_width}")
        self.width, self.max_length, self.order = width, max_length, order
        self.projection = Linear(width, (order + 1) * width, rngs=rngs)
        self.convolution = ShortConvolution((order + 1) * width, convolution_width, use_bias=True, rngs=rngs)
        sizes: dict[str, Any] = {"place_width": place_width, "filter_width": filter_width, "frequency": frequency}
        self.filter = ImplicitFilter((order - 1) * width, max_length, **sizes, rngs=rngs)
        self.skip = nnx.Param(jax.random.normal(rngs.params(), (order - 1, width), jnp.float32))
        self.output = Linear(width, width, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        mask: Mask | None = None,
        is_causal: bool = False,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Applies the operator to x. Raises ValueError unless `is_causal`."""
        del shared
        return self._whole(x, mask, is_causal)[0], {}

    def _whole(self, x: Array, mask: Mask | None, is_causal: bool) -> tuple[Array, list[Array], dict[str, Array]]:
        """(y, the inputs of the long convolutions, the last inputs of the short one)."""
        if not is_causal:
            raise ValueError("Hyena is causal: its kernels reach earlier positions only")
        where, past = places(mask, len(x)), []
        visible = None if mask is None or where.reset is None else visible_taps(mask, self.convolution.kernel_width)
        (z, *gates), taps = self._projected(x, self.convolution.start(len(x), x.dtype), where, visible)
        for gate, kernel, skip in zip(gates, self._kernels(x.shape[1]), self.skip[...], strict=False):
            z = gate * z
            past.append(z if where.real is None else jnp.where(where.real[..., None], z, jnp.zeros_like(z)))
            z = long_convolution(past[-1], kernel, skip, reset=where.reset)
        return self.output(gates[-1] * z), past, taps

    def _projected(
        self, x: Array, taps: dict[str, Array], where: Places, visible: Array | None
    ) -> tuple[list[Array], dict[str, Array]]:
        """([v, x_1, ..., x_N], the inputs of the short convolution for the next positions)."""
        convolved, taps = self.convolution(self.projection(x), taps, where.real, visible)
        return jnp.split(convolved, self.order + 1, axis=-1), taps

    def _kernels(self, length: int) -> Float[Array, "P T D"]:
        """The long kernels. A loop over decoding steps computes them once, since they depend on parameters alone."""
        self._within(length)
        return self.filter(length).reshape(length, -1, self.width).swapaxes(0, 1)

    def _within(self, length: int) -> None:
        if length > self.max_length:
            raise ValueError(f"Hyena: {length} positions are more than its max_length {self.max_length}")

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache: the inputs of the long convolutions at `length` positions, and the last of the short one."""
        self._within(length)
        past = jnp.zeros((batch, self.order - 1, length, self.width), dtype)
        return {"past": past, **self.convolution.start(batch, jnp.dtype(dtype))}

    def prefill(
        self,
        x: Float[Array, "B P D"],
        length: int,
        *,
        mask: Mask | None,
        is_causal: bool,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B P D"], dict[str, Array], dict[str, Any]]:
        """Processes the first P of `length` positions in one call. Returns (y, the cache after them, aux)."""
        del shared
        self._within(length)
        y, past, taps = self._whole(x, mask, is_causal)
        rest = [(0, 0), (0, 0), (0, length - x.shape[1]), (0, 0)]
        return y, {"past": jnp.pad(jnp.stack(past, axis=1), rest), **taps}, {}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes position `index`. Returns (y, cache, aux)."""
        del shared
        past, after = cache["past"], []
        expect_place(index, past.shape[2])
        (z, *gates), taps = self._projected(x, {"inputs": cache["inputs"]}, Places(), None)
        for stage, kernel in enumerate(self._kernels(past.shape[2])):
            inputs, z = long_convolution_step(
                past[:, stage], (gates[stage] * z)[:, 0], kernel, index, self.skip[...][stage]
            )
            after.append(inputs)
            z = z[:, None]
        return self.output(gates[-1] * z), {"past": jnp.stack(after, axis=1), **taps}, {}
