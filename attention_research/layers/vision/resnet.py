"""Residual networks for small images, He et al. 2015 (arXiv 1512.03385), section 4.2: 6n + 2 layers.

A 3 x 3 convolution is followed by three stages of n blocks, on maps of full, half and quarter side with D, 2D and 4D
channels (16, 32 and 64 in the paper). `shortcut` none gives the plain network with the same layers; `gate` adds
attention to every block. The features are the map of the last stage; the paper pools it and applies a linear layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
from flax import nnx
from jaxtyping import Array, Float, Key, UInt8

from attention_research.errors import ConfigError
from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.vision.basic_block import BasicBlock
from attention_research.layers.vision.convolution import Convolution
from attention_research.layers.vision.pixels import scaled
from attention_research.signatures import Child, Positive


class ResidualNetwork(nnx.Module):
    """A residual network for small images.

    As in the paper, `depth` counts the layers with weights, including the linear layer of the classifier: 20, 32, 44,
    56. All blocks of a stage except the first have equal shapes. They are stored as arrays with a leading axis and run
    in a scan, or in an unrolled loop with `unroll`. Raises ConfigError unless `depth` is 6n + 2.
    """

    def __init__(
        self,
        *,
        channels: Positive,
        width: Positive,
        depth: Positive = 20,
        shortcut: Child["shortcut"] = "identity",
        gate: Child["image_gate"] = "none",
        unroll: bool = False,
        dtype: Literal["float32", "bfloat16"],
        rngs: nnx.Rngs,
    ):
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise ConfigError(f"depth: expected 6n + 2 (8, 14, 20, 26, ...); got {depth}")
        self.dtype, self.unroll, self.repeats = dtype, unroll, blocks - 1

        def block(into: int, out: int, stride: int, rngs: nnx.Rngs) -> BasicBlock:
            return BasicBlock(into, out, stride, shortcut=shortcut, gate=gate, rngs=rngs)

        self.stem = Convolution(channels, width, 3, rngs=rngs)
        self.norm = BatchNorm(width, rngs=rngs)
        widths = [width, width, 2 * width, 4 * width]
        steps = zip(widths[:-1], widths[1:], (1, 2, 2), strict=True)
        self.first = nnx.List([block(into, out, stride, rngs) for into, out, stride in steps])
        stages = widths[1:] if self.repeats else []
        same = [lambda rngs, width=width: block(width, width, 1, rngs) for width in stages]
        self.segments = nnx.List([_stacked(make, self.repeats, rngs) for make in same])
        self.output_width = widths[-1]

    def __call__(
        self, image: UInt8[Array, "B Y X C"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B V U D"], dict[str, Any]]:
        """Returns (the last feature map, {"updates", "gates"}).

        "gates" holds, for each stage, the gates of the first block and of the other blocks [n-1 ...].
        """
        training = key is not None
        x, stem = self.norm(self.stem(scaled(image, dtype=self.dtype)), training=training)
        x, first, others, gates = jax.nn.relu(x), {}, {}, {}
        for number, one in enumerate(self.first):
            x, aux = one(x, training=training)
            first[str(number)] = aux.pop(UPDATES)
            gates[f"stage_{number}"] = {"first": aux}
            if self.repeats:
                x, aux = self._over_blocks(x, self.segments[number], training)
                others[str(number)] = aux.pop(UPDATES)
                gates[f"stage_{number}"]["others"] = aux
        updates = nested(norm=stem, first=nested(**first), segments=nested(**others))
        return x, {UPDATES: updates, "gates": gates}

    def _over_blocks(self, x: Array, blocks: BasicBlock, training: bool) -> tuple[Array, dict[str, Any]]:
        body = lambda x, block: block(x, training=training)
        return jax.lax.scan(body, x, blocks, length=self.repeats, unroll=self.repeats if self.unroll else 1)


def _stacked(make: Callable[[nnx.Rngs], BasicBlock], repeat: int, rngs: nnx.Rngs) -> Any:
    """`repeat` blocks, stored as one block whose arrays have a leading axis."""
    return jax.vmap(lambda key: make(nnx.Rngs(key)))(jax.random.split(rngs.params(), repeat))
