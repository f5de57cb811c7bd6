"""The formula of layer norm against common mistakes and against batch norm: means, standard deviations, and dependence
on other samples.

Ba, Kiros & Hinton 2016 (arXiv 1607.06450), equation 3: over the features of one sample,

    y = (x - mu) / sqrt(sigma^2 + epsilon),   mu = (1/D) sum_j x_j,   sigma^2 = (1/D) sum_j (x_j - mu)^2,

and batch norm (Ioffe & Szegedy 2015, arXiv 1502.03167, algorithm 1) the same over the samples of one feature. The
mistakes are a mean without 1/D ("sum"), and epsilon added to the standard deviation under a second root,
sqrt(sigma + epsilon) ("root"). Both give outputs whose scale is not one. All formulas except those with "sum" give mean
0; texts that promise a "unit mean" are wrong only in their wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.kernels import layer_norm


def _formula(x: Float[np.ndarray, "*B D"], *, sums: bool, roots: bool, epsilon: float) -> Float[np.ndarray, "*B D"]:
    """Computes the formula in the dtype of x, with one mistake, both or none."""
    mean = x.sum(axis=-1, keepdims=True) if sums else x.mean(axis=-1, keepdims=True)
    squares = np.square(x - mean).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt((np.sqrt(squares) if roots else squares) + epsilon)


#: Name -> (whether the mean lacks 1/D, whether the root is taken twice).
SLIPS = {"right": (False, False), "sum": (True, False), "root": (False, True), "both": (True, True)}


def formula(name: str, x: Float[np.ndarray, "*B D"], *, epsilon: float = 1e-6) -> Float[np.ndarray, "*B D"]:
    """Computes the formula with the given name in `SLIPS`.

    >>> x = np.array([1.0, 3.0])
    >>> formula("right", 4 * x, epsilon=0.0).tolist(), formula("root", 4 * x, epsilon=0.0).tolist()
    ([-1.0, 1.0], [-2.0, 2.0])
    """
    sums, roots = SLIPS[name]
    return _formula(x, sums=sums, roots=roots, epsilon=epsilon)


def batch_norm(x: Float[Array, "B D"], *, epsilon: float = 1e-6) -> Float[Array, "B D"]:
    """Batch norm as in training, with the statistics of the batch, without gain and bias."""
    centred = x - jnp.mean(x, axis=0)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=0) + epsilon)


def plain_layer_norm(x: Float[Array, "B D"], *, epsilon: float = 1e-6) -> Float[Array, "B D"]:
    """The layer norm of the package with gain one and bias zero."""
    width = x.shape[-1]
    return layer_norm(x, jnp.ones(width), jnp.zeros(width), epsilon=epsilon)


NORMS: dict[str, Callable[..., Array]] = {"layer_norm": plain_layer_norm, "batch_norm": batch_norm}


def measure_formula(
    *, formula_name: str, width: int, samples: int, scales: Sequence[float], seed: int, **_: Any
) -> dict[str, Any]:
    """Applies a formula to random vectors with mean 2 and standard deviation 1, multiplied by each of `scales`.

    "means" (the largest absolute mean of an output) and "deviations" (averaged over outputs) are lists by scale. "mean"
    and "deviation" are those of the last scale. "spread" is the ratio of the largest to the smallest deviation.
    "difference" is the largest difference from the package's layer norm.
    """
    x = np.random.default_rng(seed).standard_normal((samples, width)) + 2
    outputs = [formula(formula_name, scale * x) for scale in scales]
    ours = [np.asarray(plain_layer_norm(jnp.asarray(scale * x, jnp.float32)), np.float64) for scale in scales]
    means = [float(np.abs(y.mean(axis=-1)).max()) for y in outputs]
    deviations = [float(y.std(axis=-1).mean()) for y in outputs]
    return {
        "means": means,
        "deviations": deviations,
        "mean": means[-1],
        "deviation": deviations[-1],
        "spread": max(deviations) / min(deviations),
        "difference": max(float(np.abs(y - z).max()) for y, z in zip(outputs, ours, strict=True)),
    }


def neighbours(norm: Callable[[Array], Array], x: Float[Array, "B D"], others: Float[Array, "B D"]) -> Float[Array, ""]:
    """The relative change of the first sample's output when all other samples are replaced by those of `others`."""
    before, after = norm(x)[0], norm(others.at[0].set(x[0]))[0]
    return jnp.linalg.norm(after - before) / jnp.linalg.norm(before)


def measure_neighbours(
    *, norm: str, width: int, batch_sizes: Sequence[int], draws: int, seed: int, **_: Any
) -> dict[str, Any]:
    """Measures how much a sample's output changes when the other samples of the batch are replaced.

    "changes" is a list by batch size, averaged over draws, and "change" is the largest of them. "across_features" and
    "across_samples" are the largest absolute means of the output along either axis, at the last batch size.
    """

    def of(key: Array, batch: int) -> Array:
        first, second = (jax.random.normal(one, (batch, width)) for one in jax.random.split(key))
        return neighbours(NORMS[norm], first, second)

    keys = jax.random.split(jax.random.key(seed), draws)
    found = [np.asarray(jax.vmap(lambda key, batch=batch: of(key, batch))(keys)) for batch in batch_sizes]
    y = NORMS[norm](2 + jax.random.normal(keys[0], (batch_sizes[-1], width)))
    return {
        "changes": [float(one.mean()) for one in found],
        "change": float(max(one.max() for one in found)),
        "across_features": float(jnp.abs(y.mean(axis=1)).max()),
        "across_samples": float(jnp.abs(y.mean(axis=0)).max()),
    }
