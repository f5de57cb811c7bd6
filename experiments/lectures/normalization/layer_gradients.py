"""The gradient by layer of a language model, as it is drawn and after training: Xiong et al. 2020 (arXiv 2002.04745).

Their section 3: with the norm after the residual connection the expected gradient of the last layer's second
feed-forward matrix is O(D sqrt(log D)) whatever the depth L, with the norm before it O(D sqrt(log D / L)), so that the
former wants a warm-up. The norm here is Frobenius's, of the mean loss of one batch in that matrix of each layer.
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

#: The matrix that the paper looks at, stacked over layers.
MATRIX = "feed_forward.output.kernel"


def gradient_norms(
    structure: Any, parameters: Mapping[str, Array], statistics: Mapping[str, Array], batch: Mapping[str, Array]
) -> Float[Array, "L"]:
    """Of the mean loss a token in every layer's `MATRIX`. Raises KeyError if the model has none."""
    (name,) = (name for name in parameters if name.endswith(MATRIX))

    def loss(matrix: Array) -> Array:
        values, _ = structure.merge({**parameters, name: matrix}, statistics).log_likelihood(batch)
        return -jnp.mean(values["log_likelihood"], where=values["mask"])

    return jnp.linalg.norm(jax.grad(loss)(parameters[name]), axis=(1, 2))


def measure_gradients(*, workdir: Path, seed: int, rows: int = 16, **_: Any) -> dict[str, Any]:
    """ "gradients" by layer of a trained run on a batch of test text, and "start_gradients" before training, lists;
    "start_last" and "start_ratio" of the latter: the last layer's norm, and it over the first layer's."""
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
