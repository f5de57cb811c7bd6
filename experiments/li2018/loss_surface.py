"""The loss around trained parameters, along two random directions (Li et al. 2018, arXiv 1712.09913, section 4).

The surface is f(a, b) = L(p + a d + b e). The directions d and e are Gaussian, and each of their filters is scaled to
the norm of the corresponding filter of p (filter normalization), so that large filters do not make a network look flat.
Biases and gains of normalization layers are not changed, and batch norms keep their running moments. A filter is the
set of weights of one output: a slice of the last axis of a kernel, separately for each layer if layers are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from attention_research.training.optimizers import decayed, stack_of

Arrays = Mapping[str, Array]


def direction(parameters: Arrays, key: Key[Array, ""]) -> dict[str, Array]:
    """Returns a random, filter-normalized direction. It is 0 for parameters other than kernels and tables."""
    found = {}
    for number, (name, moves) in enumerate(sorted(decayed(dict(parameters)).items())):
        p = parameters[name]
        if not moves:
            found[name] = jnp.zeros_like(p)
            continue
        axes = tuple(range(1 if stack_of(name) else 0, p.ndim - 1))
        d = jax.random.normal(jax.random.fold_in(key, number), p.shape, p.dtype)
        norm = lambda x, axes=axes: jnp.sqrt(jnp.sum(jnp.square(x), axis=axes, keepdims=True))
        found[name] = d * norm(p) / norm(d)
    return found


def surface(
    loss: Callable[[Arrays], Float[Array, ""]], parameters: Arrays, along: Arrays, across: Arrays, steps: np.ndarray
) -> np.ndarray:
    """Computes f [b a] on the grid of `steps` in both directions. The caller jits `loss`, once for all points."""
    at = lambda a, b: {name: p + a * along[name] + b * across[name] for name, p in parameters.items()}
    moved = jax.jit(at)
    points = steps.tolist()
    return np.array([[float(loss(moved(a, b))) for a in points] for b in points])


def curvatures(values: np.ndarray, step: float) -> np.ndarray:
    """The eigenvalues [n-2 n-2 2], smaller first, of the Hessian by central differences at the inner points.

    >>> a = np.linspace(-1, 1, 5)
    >>> curvatures(a[None] ** 2 - 3 * a[:, None] ** 2, 0.5)[0, 0].round(6).tolist()
    [-6.0, 2.0]
    """
    inner = values[1:-1, 1:-1]
    aa = (values[1:-1, 2:] - 2 * inner + values[1:-1, :-2]) / step**2
    bb = (values[2:, 1:-1] - 2 * inner + values[:-2, 1:-1]) / step**2
    ab = (values[2:, 2:] - values[2:, :-2] - values[:-2, 2:] + values[:-2, :-2]) / (4 * step**2)
    return np.linalg.eigvalsh(np.stack([np.stack([aa, ab], -1), np.stack([ab, bb], -1)], -1))


def roughness(values: np.ndarray, steps: np.ndarray) -> float:
    """The share of the variance of f on the grid that the best-fitting quadratic does not explain: 0 for a paraboloid.

    >>> a = np.linspace(-1, 1, 5)
    >>> roughness(a[None] ** 2 - 3 * a[:, None] ** 2, a) < 1e-12
    True
    """
    a, b = (axis.ravel() for axis in np.meshgrid(steps, steps))
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b], axis=1)
    left = values.ravel() - terms @ np.linalg.lstsq(terms, values.ravel(), rcond=None)[0]
    return float(left.var() / values.var())


def measure_surface(
    *, workdir: Path, seed: int, examples: int = 256, points: int = 21, half_width: float = 1.0, **_: Any
) -> dict[str, Any]:
    """Measures the training loss of a trained classifier on `examples` training examples over a square of `half_width`.

    Returns the "surface" and its "steps"; "negative", the share of inner points whose smaller curvature is below 0;
    "bends", the mean ratio at inner points of the absolute smaller curvature to the larger absolute curvature;
    "roughness"; and "centre", the loss at p.
    """
    from attention_research.training.evaluation import Trained

    trained = Trained(workdir)
    parameters, statistics = trained.model()
    batches = trained.data.evaluation_batches("train", examples, examples=examples)
    _, batch = next(iter(batches))
    merge, task = trained.trainer.structure.merge, trained.trainer.task
    loss = jax.jit(lambda p: task.loss(merge(p, statistics), batch, None)[0] / task.count(batch))
    along, across = jax.random.split(jax.random.fold_in(jax.random.key(1712), seed))
    steps = np.linspace(-half_width, half_width, points)
    values = surface(loss, parameters, direction(parameters, along), direction(parameters, across), steps)
    bent = curvatures(values, steps[1] - steps[0])
    return {
        "surface": np.round(values, 5).tolist(),
        "steps": steps.tolist(),
        "centre": float(values[points // 2, points // 2]),
        "largest": float(values.max()),
        "negative": float(np.mean(bent[..., 0] < 0)),
        "bends": float(np.mean(np.abs(bent[..., 0]) / np.abs(bent).max(axis=-1))),
        "roughness": roughness(values, steps),
    }
