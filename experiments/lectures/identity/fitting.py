"""How well a stack of dense layers learns the identity, with and without shortcuts.

He et al. 2016 (arXiv 1512.03385), section 3.1: "the degradation problem suggests that the solvers might have
difficulties in approximating identity mappings by multiple nonlinear layers"; with a shortcut they may drive the
weights of these layers toward zero. A block of two dense layers is

    F(x) = act(x W1 + b1) W2 + b2,    x [B D], W1 [D 2D], W2 [2D D],

and a stack applies x -> F(x), or x -> x + F(x) with shortcuts, block after block. With 2 D hidden units one block with
ReLU or GELU can represent the identity exactly (relu(x) - relu(-x) = x), and one with tanh to any precision. The study
measures what Adam finds within a budget. The error is the mean squared error on new random vectors, divided by the mean
square of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from attention_research.training.fitting import adam, at_best, descend

ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}
#: The size of the nonlinear part of the near-identity x + NEAR tanh(x A).
NEAR = 0.1
#: Every second one of this many last updates is used to choose the learning rate. The error is the mean over the
#: others.
LAST = 40

Blocks = dict[str, Float[Array, "L _ _"]]


def draw_blocks(key: Key[Array, ""], blocks: int, width: int) -> Blocks:
    """Initializes kernels by Glorot's uniform distribution and biases by zero, stacked along the first axis."""
    glorot = jax.nn.initializers.glorot_uniform(batch_axis=0)
    first, second = jax.random.split(key)
    return {
        "hidden": glorot(first, (blocks, width, 2 * width)),
        "hidden_bias": jnp.zeros((blocks, 1, 2 * width)),
        "output": glorot(second, (blocks, 2 * width, width)),
        "output_bias": jnp.zeros((blocks, 1, width)),
    }


def apply_blocks(weights: Blocks, x: Float[Array, "B D"], activation: str, *, residual: bool) -> Float[Array, "B D"]:
    """Returns the output of the stack."""
    act = ACTIVATIONS[activation]

    def block(x: Array, one: Blocks) -> tuple[Array, None]:
        y = act(x @ one["hidden"] + one["hidden_bias"]) @ one["output"] + one["output_bias"]
        return (x + y if residual else y), None

    return jax.lax.scan(block, x, weights)[0]


def near_identity(matrix: Float[Array, "D D"]) -> Callable[[Array], Array]:
    """Returns the function x -> x + NEAR tanh(x A)."""
    return lambda x: x + NEAR * jnp.tanh(x @ matrix)


def errors(
    key: Key[Array, ""], target: Callable[[Array], Array], *, blocks: int, width: int, activation: str,
    residual: bool, rates: Sequence[float], steps: int, batch_size: int,
) -> Float[np.ndarray, "R steps"]:  # fmt: skip
    """The error before each update of Adam on standard normal vectors, with one row for each learning rate.

    All learning rates use the same initialization and the same vectors.
    """
    draws, start = jax.random.split(key)

    def trained(rate: Array) -> Array:
        def error(weights: Blocks, key: Array) -> Array:
            x = jax.random.normal(key, (batch_size, width))
            wanted = target(x)
            left = apply_blocks(weights, x, activation, residual=residual) - wanted
            return jnp.mean(jnp.square(left)) / jnp.mean(jnp.square(wanted))

        return descend(error, draw_blocks(start, blocks, width), jax.random.split(draws, steps), adam(rate))[1]

    return np.asarray(jax.jit(jax.vmap(trained))(jnp.asarray(rates, jnp.float32)), np.float64)


def best(found: Float[np.ndarray, "R steps"], tolerance: float) -> tuple[float | None, int | None]:
    """Returns (the final error at the best learning rate, the fewest updates after which the error of any learning rate
    is within `tolerance`).

    A number is None if no learning rate ends with a finite error, or if none reaches the tolerance. Each update uses
    new vectors, so the errors that choose the learning rate are independent of those that are reported.

    >>> best(np.array([[1.0, 0.5, 0.2, 0.3], [1.0, 0.1, np.nan, np.nan]]), 0.3)
    (0.4, 1)
    """
    chosen, reported = (found[:, -LAST:][:, first::2].mean(axis=1) for first in (0, 1))
    there = np.flatnonzero((found <= tolerance).any(axis=0))
    last = at_best(np.where(np.isfinite(reported), chosen, np.nan), reported)
    return last, (int(there[0]) if len(there) else None)


def measure_fit(
    *, activation: str, residual: bool, depths: Sequence[int], width: int, rates: Sequence[float], steps: int,
    batch_size: int, tolerance: float, seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Fits both targets at every depth, counted in dense layers (two per block).

    Returns lists by depth: "identity_errors", "near_errors", and the updates to the tolerance "identity_steps" and
    "near_steps" (None: not within the budget). "identity", "near" and "steps" are the values of the deepest stack.
    "near_floor" is the error of the identity function on the near-identity.
    """
    matrix_key, *keys = jax.random.split(jax.random.key(seed), len(depths) + 1)
    matrix = jax.random.normal(matrix_key, (width, width)) * width**-0.5
    settings: dict[str, Any] = {
        "width": width, "activation": activation, "residual": residual, "rates": rates, "steps": steps
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, target in (("identity", lambda x: x), ("near", near_identity(matrix))):
        pairs = [
            best(errors(key, target, blocks=depth // 2, batch_size=batch_size, **settings), tolerance)
            for key, depth in zip(keys, depths, strict=True)
        ]
        found[f"{name}_errors"], found[f"{name}_steps"] = (list(values) for values in zip(*pairs, strict=True))
        found[name] = found[f"{name}_errors"][-1]
    x = jax.random.normal(matrix_key, (4096, width))
    wanted = near_identity(matrix)(x)
    floor = jnp.mean(jnp.square(wanted - x)) / jnp.mean(jnp.square(wanted))
    return {**found, "steps": found["identity_steps"][-1], "near_floor": float(floor)}
