"""A small convolutional network.

It has `num_layers` 3 x 3 convolutions, each with batch normalization and a ReLU. The first keeps the side of the image,
each of the next `halvings` layers halves it and doubles the channels, and the others keep both (the pyramid of LeCun
et al. 1998 with the components of Simonyan & Zisserman 2015 and Ioffe & Szegedy 2015).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Key, UInt8

from attention_research.errors import ConfigError
from attention_research.layers.freezing import freeze
from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.vision.convolution import Convolution
from attention_research.layers.vision.pixels import scaled
from attention_research.signatures import NonNegative, Positive


class ConvolutionalFeatures(nnx.Module):
    """Feature maps of side / 2^halvings with width * 2^halvings channels.

    `frozen` makes all weights constant statistics, which no optimizer updates; they keep their initial values, which
    may come from another run, and the norms use their running moments. Raises ConfigError unless `halvings` is smaller
    than `num_layers`.
    """

    def __init__(
        self,
        *,
        channels: Positive,
        width: Positive,
        num_layers: Positive = 3,
        halvings: NonNegative = 2,
        frozen: bool = False,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        if halvings >= num_layers:
            raise ConfigError(f"halvings: {halvings} halvings need at least {halvings + 1} layers, got {num_layers}")
        self.dtype, self.frozen = dtype, frozen
        widths = [width * 2 ** min(number, halvings) for number in range(num_layers)]
        strides = [2 if 0 < number <= halvings else 1 for number in range(num_layers)]
        before = [channels, *widths[:-1]]
        self.convolutions = nnx.List(
            [Convolution(i, o, 3, stride=s, rngs=rngs) for i, o, s in zip(before, widths, strides, strict=True)]
        )
        self.norms = nnx.List([BatchNorm(width, rngs=rngs) for width in widths])
        self.output_width = widths[-1]
        if frozen:
            freeze(self)

    def __call__(
        self, image: UInt8[Array, "B Y X C"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B V U D"], dict[str, Any]]:
        """Returns (the last feature map, {"updates": updates of the running moments})."""
        x, updates, training = scaled(image, dtype=self.dtype), {}, key is not None and not self.frozen
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x, updates[str(number)] = norm(convolution(x), training=training)
            x = jax.nn.relu(x)
        return x, {UPDATES: nested(norms=nested(**updates))}
