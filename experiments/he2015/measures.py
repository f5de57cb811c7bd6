"""Measurements of He et al. 2015: the error of a trained classifier on every split and during training, and exact
properties of a residual block (equation 1): its output for zero filters, and its Jacobian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attention_research.layers.vision.basic_block import BasicBlock
from attention_research.layers.vision.gates.none import NoGate
from attention_research.layers.vision.shortcuts.identity import IdentityShortcut
from attention_research.layers.vision.shortcuts.none import NoShortcut
from attention_research.signatures import Constructor

SPLITS = ("train", "test")


def measure_errors(*, workdir: Path, seed: int, examples: int = 2000, **_: Any) -> dict[str, Any]:
    """Measures the errors of a trained run.

    "train_error" and "test_error" are the shares of wrong predictions on `examples` of either split, without dropout or
    augmentation. "curve" is a list over logged steps of (step, share of wrong predictions in the batch), and
    "validation_curve" the same for the validation split.
    """
    from attention_research.training.evaluation import Trained
    from attention_research.training.metrics_log import read_metrics

    del seed
    trained = Trained(workdir)
    found: dict[str, Any] = {f"{split}_error": error(trained, split, examples) for split in SPLITS}
    lines = read_metrics(workdir)
    for name, split in (("curve", "train"), ("validation_curve", "validation")):
        found[name] = [[line["step"], 1.0 - line["correct"]] for line in lines if line["split"] == split]
    return found


def error(trained: Any, split: str, examples: int) -> float:
    """The share of `examples` of a split, chosen by a fixed permutation, whose most probable class is wrong."""
    batches = trained.data.evaluation_batches(split, trained.evaluation.batch_size, examples=examples)
    wrong = [
        outputs["predicted"][ids >= 0] != batch["label"][ids >= 0]
        for ids, batch, outputs in trained.outputs(trained.model(), batches)
    ]
    return float(np.concatenate(wrong).mean())


SHORTCUTS = {"identity": IdentityShortcut, "none": NoShortcut}


def measure_identity(*, shortcut: str, width: int = 3, side: int = 4, seed: int, **_: Any) -> dict[str, float]:
    """Measures a block on a feature map of positive numbers in evaluation mode.

    With all filters 0, "zero_difference" is the largest value of `|block(x) - x|`, and "zero_jacobian" the largest
    entry of its Jacobian minus the identity. With random filters, "jacobian_difference" is the largest entry of
    `J - J_branch - I`, where `J_branch` is the Jacobian of the block without its shortcut, at entries where neither the
    ReLU nor the branch is at 0.
    """
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
    """Returns the output of the block for one feature map, or, without the last ReLU, the sum before it."""
    if relu:
        return block(x[None], training=False)[0][0]
    hidden = jax.nn.relu(block.norm_1(block.convolution_1(x[None]), training=False)[0])
    branch = block.norm_2(block.convolution_2(hidden), training=False)[0]
    return block.shortcut(x[None], branch, training=False)[0][0]


def _jacobian(block: BasicBlock, x: jax.Array, relu: bool = True) -> jax.Array:
    """Returns the Jacobian [x x] of the block's output with respect to its input."""
    flat = lambda v: _apply(block, v.reshape(x.shape), relu).reshape(-1)
    return jax.jit(jax.jacrev(flat))(x.reshape(-1))
