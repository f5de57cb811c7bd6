"""MobileNetV2 as an image feature extractor, Sandler et al. 2018 (arXiv 1801.04381), table 2, with width multiplier 1.

It has a 3 x 3 convolution of stride 2 to 32 channels, 17 inverted residuals, and a 1 x 1 convolution to 1,280 channels,
each with a batch norm. It is meant for pretrained weights: `attention-research import mobilenet_v2` makes a run from
torchvision's ImageNet classifier, and `training.initial` with `initial_parts` "features" initializes another run from
it. With random initialization, the norms would keep the moments 0 and 1.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, UInt8

from attention_research.errors import ConfigError
from attention_research.layers.freezing import freeze
from attention_research.layers.running_statistics import UPDATES
from attention_research.layers.vision.mobilenet_v2_block import InvertedResidual, NormedConvolution
from attention_research.layers.vision.pixels import scaled

#: The lines of table 2: (expansion t, channels c, blocks n, stride s of the first block).
LINES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
STEM, LAST = 32, 1280
#: Mean and standard deviation of ImageNet's red, green and blue, from 0 to 1, which torchvision's weights expect.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class MobileNetV2(nnx.Module):
    """The last feature map of side Y / `stride`, rounded up, of images of any side with 1 or 3 channels.

    The map has 32 channels at stride 8, 96 at stride 16, and 1,280 at stride 32. Later layers are not part of the
    module. `frozen` makes all weights constant statistics, which no optimizer updates; otherwise they are fine-tuned.
    The moments of the batch norms are constant in both cases. Raises ConfigError for other strides.
    """

    def __init__(
        self,
        *,
        stride: int = 16,
        frozen: bool = True,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        if stride not in (8, 16, 32):
            raise ConfigError(f"stride: expected 8, 16 or 32; got {stride}")
        self.dtype = dtype
        self.stem = NormedConvolution(3, STEM, 3, stride=2, rngs=rngs)
        width, reached, blocks = STEM, 2, []
        for expansion, channels, repeats, first in LINES:
            reached *= first
            if reached > stride:
                break
            for number in range(repeats):
                one = first if number == 0 else 1
                blocks.append(InvertedResidual(width, channels, expansion=expansion, stride=one, rngs=rngs))
                width = channels
        self.blocks = nnx.List(blocks)
        self.last = NormedConvolution(width, LAST, rngs=rngs) if stride == 32 else None
        self.output_width = width if self.last is None else LAST
        if frozen:
            freeze(self)

    def __call__(
        self, image: UInt8[Array, "B Y X C"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B V U D"], dict[str, Any]]:
        """Returns (the feature map, {"updates": {}}), the same in training and evaluation.

        Raises ValueError unless images have 1 or 3 channels.
        """
        del key
        if image.shape[-1] not in (1, 3):
            raise ValueError(f"channels: MobileNetV2 expects images with 1 or 3 channels, got {image.shape[-1]}")
        colours = jnp.broadcast_to(image, (*image.shape[:-1], 3))
        x = jax.nn.relu6(self.stem(scaled(colours, MEAN, DEVIATION, self.dtype)))
        for block in self.blocks:
            x = block(x)
        return x if self.last is None else jax.nn.relu6(self.last(x)), {UPDATES: {}}
