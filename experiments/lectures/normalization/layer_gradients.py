"""The gradient by layer of a language model, before and after training (Xiong et al. 2020, arXiv 2002.04745).

Section 3 of the paper: with post-norm the expected gradient of the last layer's second feed-forward matrix is
O(D sqrt(log D)) for any depth L; with pre-norm it is O(D sqrt(log D / L)). Post-norm therefore needs a warm-up.
Measured here is the Frobenius norm of the gradient of the mean loss of one batch with respect to that matrix of each
layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.analysis.teacher_forced import untrained
from attention_research.training.evaluation import Trained

#: The matrix that the paper studies, stacked over layers.
MATRIX = "feed_forward.output.kernel"


def gradient_norms(
    structure: Any, parameters: Mapping[str, Array], statistics: Mapping[str, Array], batch: Mapping[str, Array]
) -> Float[Array, "L"]:
    """The norms of the gradient of the mean loss per token with respect to `MATRIX` of every layer.

    Raises KeyError if the model has no such matrix.
    """
    (name,) = (name for name in parameters if name.endswith(MATRIX))

    def loss(matrix: Array) -> Array:
        values, _ = structure.merge({**parameters, name: matrix}, statistics).log_likelihood(batch)
        return -jnp.mean(values["log_likelihood"], where=values["mask"])

    return jnp.linalg.norm(jax.grad(loss)(parameters[name]), axis=(1, 2))


def measure_gradients(*, workdir: Path, seed: int, rows: int = 16, **_: Any) -> dict[str, Any]:
    """Measures a trained run on a batch of test text.

    "gradients" and, before training, "start_gradients" are lists by layer. "start_last" is the last layer's norm before
    training, and "start_ratio" is that divided by the first layer's.
    """
    del seed
    trained = Trained(workdir)
    _, batch = next(iter(trained.data.evaluation_batches("test", rows, examples=rows)))
    of = jax.jit(lambda arrays, batch: gradient_norms(trained.trainer.structure, arrays[0], arrays[1], batch))
    start, end = (np.asarray(of(arrays, batch), np.float64) for arrays in (untrained(trained), trained.model()))
    return {
        "start_gradients": start.tolist(),
        "gradients": [float(x) if np.isfinite(x) else None for x in end],
        "start_last": float(start[-1]),
        "start_ratio": float(start[-1] / start[0]) if start[0] > 0 else None,
    }
