"""How much a gradient estimate moves from batch to batch: what choices by chance add to the noise of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp


def measure_noise(*, workdir: Path, seed: int, gradients: int = 24, **_: Any) -> dict[str, float]:
    """Of a trained model, gradients on `gradients` training batches, each with a key of its own: "noise", the sum over
    parameters of their variance over the squared norm of their mean; of one batch with as many keys "noise_keys"."""
    from attention_research.training.evaluation import Trained

    trained = Trained(workdir)
    parameters, statistics = trained.model()
    merge, task, settings = trained.trainer.structure.merge, trained.trainer.task, trained.settings

    def loss(parameters: Any, batch: Any, key: Any) -> Any:
        return task.loss(merge(parameters, statistics), batch, key)[0] / task.count(batch)

    gradient = jax.jit(jax.grad(loss))
    keys = jax.random.split(jax.random.fold_in(jax.random.key(1502), seed), gradients)
    batches = [trained.data.batch_at(seed, step, settings.batch_size) for step in range(gradients)]
    moved = lambda batches: noise(gradient(parameters, batch, key) for batch, key in zip(batches, keys, strict=True))
    return {"noise": moved(batches), "noise_keys": moved(batches[:1] * gradients)}


def noise(gradients: Any) -> float:
    """The trace of the gradients' covariance over the squared norm of their mean.

    >>> float(noise([{"a": jnp.array([1.0, 0.0])}, {"a": jnp.array([1.0, 2.0])}]))
    1.0
    """
    number, total, squares = 0, None, 0.0
    for one in gradients:
        number += 1
        total = one if total is None else jax.tree.map(jnp.add, total, one)
        squares += sum(float(jnp.sum(jnp.square(x))) for x in jax.tree.leaves(one))
    mean = sum(float(jnp.sum(jnp.square(x / number))) for x in jax.tree.leaves(total))
    return (squares - number * mean) / (number - 1) / mean
