"""What a residual block is where its branch says nothing, and what its Jacobian is made of (He et al. 2015, eq. 1)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attention_research.layers.vision.basic_block import BasicBlock
from attention_research.layers.vision.gates.none import NoGate
from attention_research.layers.vision.shortcuts.identity import IdentityShortcut
from attention_research.layers.vision.shortcuts.none import NoShortcut
from attention_research.registry import Constructor

SHORTCUTS = {"identity": IdentityShortcut, "none": NoShortcut}


def measure_identity(*, shortcut: str, width: int = 3, side: int = 4, seed: int, **_: Any) -> dict[str, float]:
    """Of a block on a map of positive numbers, in evaluation: "zero_difference", the largest of |block(x) - x| with all
    filters 0; "zero_jacobian", the largest entry of its Jacobian less the identity; and, as drawn,
    "jacobian_difference": the largest entry of J - J_branch less the identity, J_branch that of the block without its
    shortcut; where neither ReLU nor branch is at 0."""
    make = lambda kind: BasicBlock(
        width, width, 1, shortcut=Constructor(SHORTCUTS[kind], {}), gate=Constructor(NoGate, {}), rngs=nnx.Rngs(seed)
    )
    x = jnp.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, (side, side, width)), jnp.float32)
    block = make(shortcut)
    silent = jax.tree.map(jnp.zeros_like, block)
    same = jnp.eye(x.size)
    branch, before = _jacobian(make("none"), x, relu=False), _jacobian(block, x, relu=False)
    return {
        "zero_difference": float(jnp.abs(_apply(silent, x) - x).max()),
        "zero_jacobian": float(jnp.abs(_jacobian(silent, x) - same).max()),
        "jacobian_difference": float(jnp.abs(before - branch - same).max()),
    }


def _apply(block: BasicBlock, x: jax.Array, relu: bool = True) -> jax.Array:
    """The block's output for one map; without its last ReLU, the sum before it."""
    if relu:
        return block(x[None], training=False)[0][0]
    hidden = jax.nn.relu(block.norm_1(block.convolution_1(x[None]), training=False)[0])
    branch = block.norm_2(block.convolution_2(hidden), training=False)[0]
    return block.shortcut(x[None], branch, training=False)[0][0]


def _jacobian(block: BasicBlock, x: jax.Array, relu: bool = True) -> jax.Array:
    """[x x] of the block's output by its input."""
    flat = lambda v: _apply(block, v.reshape(x.shape), relu).reshape(-1)
    return jax.jit(jax.jacrev(flat))(x.reshape(-1))
