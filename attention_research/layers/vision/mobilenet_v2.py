"""MobileNetV2 as features of images, Sandler et al. 2018 (arXiv 1801.04381), table 2, at width multiplier 1.

A 3 x 3 convolution of stride 2 to 32 channels, 17 inverted residuals, and a 1 x 1 convolution to 1,280 channels, each
with a batch norm. Its use is with trained weights: `attention-research import mobilenet_v2` makes a run of those of
torchvision, a classifier of ImageNet, and `training.initial` with `initial_parts` "features" starts another run from
them. Drawn anew, the norms would keep moments of 0 and 1.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, UInt8

from attention_research.layers.freezing import freeze
from attention_research.layers.running_statistics import UPDATES
from attention_research.layers.vision.mobilenet_v2_block import InvertedResidual, NormedConvolution
from attention_research.layers.vision.pixels import scaled

#: (expansion t, channels c, blocks n, stride s of the first), a line of table 2 each.
LINES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
STEM, LAST = 32, 1280
#: Of ImageNet's red, green and blue, from 0 to 1: what torchvision's weights were trained with.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class MobileNetV2(nnx.Module):
    """The last map of side Y / `stride`, rounded up: 32 channels at stride 8, 96 at 16, 1,280 at 32, of images of any
    side and of 1 or 3 channels. What comes after it is not there.

    `frozen` keeps all weights as statistics, which no optimizer sees; otherwise they are fine-tuned. The moments of the
    batch norms stay in both. Raises ValueError for another stride.
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
            raise ValueError(f"stride: expected 8, 16 or 32; got {stride}")
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
        """(the map, {"updates": {}}); training and evaluation are the same. Raises ValueError for other channels."""
        del key
        if image.shape[-1] not in (1, 3):
            raise ValueError(f"channels: MobileNetV2 reads 1 or 3, the images have {image.shape[-1]}")
        colours = jnp.broadcast_to(image, (*image.shape[:-1], 3))
        x = jax.nn.relu6(self.stem(scaled(colours, MEAN, DEVIATION, self.dtype)))
        for block in self.blocks:
            x = block(x)
        return x if self.last is None else jax.nn.relu6(self.last(x)), {UPDATES: {}}
