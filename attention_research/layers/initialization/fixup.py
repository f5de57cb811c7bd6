"""Fixup, Zhang, Dauphin & Ma 2019 (arXiv 1901.09321), section 3: residual branches that together move the output of a
network as much as one of them would.

In a branch of m matrices the last starts at 0 and the others by He, scaled by L^(-1/(2m-2)), L being the number of all
branches: as a variance, 2 / fan_in times L^(-1/(m-1)). As Mesh TensorFlow has it (in Narang et al. 2021, L = 60):

* feed-forwards (m = 2): W1 has variance 2 / (L fan_in), W2 is 0;
* self-attention (m = 4): queries, keys and values have 2 / (L^(1/3) fan_in), the output projection is 0;
* cross-attention starts as it would without Fixup, its output projection too: the released class does not override it.

Normals cut off at two standard deviations, which is then corrected. Attention scales its logits itself.
"""

from __future__ import annotations

import math
import re

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.mesh_tensorflow import start, truncated_normal
from attention_research.layers.initialization.redraw import redraw
from attention_research.layers.stack import Stack

#: The standard deviation of N(0, 1) cut off at -2 and 2.
CUT_OFF = 0.87962566103423978
#: The kernels of a branch that start at 0 and those that are scaled, with the branch's m.
ZERO = re.compile(r"(self_attention|feed_forward)(_\d+)?\.output\.kernel$")
SCALED = {
    re.compile(r"feed_forward(_\d+)?\.hidden\.kernel$"): 2,
    re.compile(r"self_attention(_\d+)?\.(query|key|value)\.kernel$"): 4,
}


class Fixup:
    """The rest as in `mesh_tensorflow_scaled`; biases and scales of the branches start at 0 and 1 by themselves.

    Raises ValueError for a module without residual branches.
    """

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Draws the parameters of the module anew."""
        branches = residual_branches(module)
        if branches == 0:
            raise ValueError("initialization: fixup is for stacks with residual branches, and here are none")

        def draw(name: str, value: Array, key: Array) -> Array:
            if ZERO.search(name):
                return jnp.zeros_like(value)
            for pattern, matrices in SCALED.items():
                if pattern.search(name):
                    variance = 2 / value.shape[-2] * branches ** (-1 / (matrices - 1))
                    return truncated_normal(key, value, math.sqrt(variance) / CUT_OFF)
            return start(module, name, value, key, dense_variance=1.0, query_scaled=False)

        redraw(module, draw, rngs)


def residual_branches(module: nnx.Module) -> int:
    """How many branches join the streams of all stacks, layer by layer: 60 for 12 layers of two and 12 of three."""
    stacks = [child for _, child in nnx.iter_modules(module) if isinstance(child, Stack)]
    joined = lambda block: sum(any(kind == "residual" for kind, _ in branch) for branch in block.branches)
    segments = [pair for stack in stacks for pair in zip(stack.segments, stack.repeats, strict=True)]
    return sum(repeat * joined(block) for block, repeat in segments)
