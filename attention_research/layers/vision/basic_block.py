"""The block of two 3 x 3 convolutions of He et al. 2015 (arXiv 1512.03385), figure 5, left.

y = relu(x + gate(norm(conv(relu(norm(conv(x))))))). The gate weights the branch before the addition, the position of
squeeze-and-excitation and CBAM in their papers.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.vision.convolution import Convolution
from attention_research.signatures import Constructor


class BasicBlock(nnx.Module):
    """A residual block from `in_width` to `out_width` channels. The first convolution and the shortcut use `stride`."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        stride: int,
        *,
        shortcut: Constructor,
        gate: Constructor,
        rngs: nnx.Rngs,
    ):
        self.convolution_1 = Convolution(in_width, out_width, 3, stride=stride, rngs=rngs)
        self.norm_1 = BatchNorm(out_width, rngs=rngs)
        self.convolution_2 = Convolution(out_width, out_width, 3, rngs=rngs)
        self.norm_2 = BatchNorm(out_width, rngs=rngs)
        self.gate = gate(channels=out_width, rngs=rngs)
        self.shortcut = shortcut(in_width=in_width, out_width=out_width, stride=stride, rngs=rngs)

    def __call__(self, x: Float[Array, "B Y X I"], *, training: bool) -> tuple[Float[Array, "B V U O"], dict[str, Any]]:
        """Returns (y, {"updates": updates of the running moments, and the weights of the gate})."""
        branch, first = self.norm_1(self.convolution_1(x), training=training)
        branch, second = self.norm_2(self.convolution_2(jax.nn.relu(branch)), training=training)
        branch, weights = self.gate(branch, training=training)
        y, third = self.shortcut(x, branch, training=training)
        updates = nested(norm_1=first, norm_2=second, gate=weights.pop(UPDATES, {}), shortcut=third)
        return jax.nn.relu(y), {UPDATES: updates, **weights}
