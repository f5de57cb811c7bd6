"""Fixup initialization, Zhang, Dauphin & Ma 2019 (arXiv 1901.09321), section 3.

It scales residual branches so that the total change of the network's output in an update does not depend on the number
of branches. In a branch of m matrices, the last matrix is initialized to 0. The others have He initialization times
L^(-1/(2m-2)), where L is the number of all branches; their variance is 2 / fan_in times L^(-1/(m-1)). This follows Mesh
TensorFlow (in Narang et al. 2021, L = 60):

* feed-forwards (m = 2): W1 has variance 2 / (L fan_in), W2 is 0;
* self-attention (m = 4): queries, keys and values have variance 2 / (L^(1/3) fan_in), the output projection is 0;
* cross-attention, including its output projection, is initialized as without Fixup, because the released class does not
  override it.

Values are drawn from normal distributions truncated at two standard deviations and rescaled to the given variance. The
attention layers scale their logits themselves.
"""

from __future__ import annotations

import math
import re

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.layers.initialization.mesh_tensorflow import start, truncated_normal
from attention_research.layers.initialization.redraw import redraw
from attention_research.layers.stack import Stack

#: The standard deviation of N(0, 1) truncated to [-2, 2].
CUT_OFF = 0.87962566103423978
#: The kernels that are initialized to 0, and the kernels that are scaled, with m of their branch.
ZERO = re.compile(r"(self_attention|feed_forward)(_\d+)?(\.experts)?\.output\.kernel$")
SCALED = {
    re.compile(r"feed_forward(_\d+)?(\.experts)?\.hidden\.kernel$"): 2,
    re.compile(r"self_attention(_\d+)?\.(query|key|value)\.kernel$"): 4,
}


class Fixup:
    """Fixup initialization. Parameters that Fixup does not cover are initialized as in `mesh_tensorflow_scaled`.

    The biases and scales of the branches keep their initial values 0 and 1. Raises ConfigError for a module without
    residual branches.
    """

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the parameters of the module."""
        branches = residual_branches(module)
        if branches == 0:
            raise ConfigError("initialization.kind: fixup expects a model with residual branches; this model has none")

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
    """The number of residual branches in all layers of all stacks: 60 for 12 layers of two and 12 layers of three."""
    stacks = [child for _, child in nnx.iter_modules(module) if isinstance(child, Stack)]
    joined = lambda block: sum(any(kind == "residual" for kind, _ in branch) for branch in block.branches)
    segments = [pair for stack in stacks for pair in zip(stack.segments, stack.repeats, strict=True)]
    return sum(repeat * joined(block) for block, repeat in segments)
