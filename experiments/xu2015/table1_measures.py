"""Further measurements of captioning models: whether the image reaches the words only through attention, and the noise
of gradient estimates over batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import build, resolve
from attention_research.layers.structure import abstract, initializer

SIDE, LENGTH, WORDS = 24, 7, 29


def measure_cut(*, seed: int, **_: Any) -> dict[str, float]:
    """Measures the largest change of a caption's log-probabilities between two random images, for an untrained model.

    "whole" is that of the model, and "cut" that with the output projections of all cross-attentions set to 0.
    """
    config = resolve(
        {
            "kind": "images_and_words", "side": SIDE, "max_length": LENGTH, "vocabulary_size": WORDS,
            "data": {"kind": "captions", "name": "emoji_names/en"},
            "model": {"kind": "transformer_captioner", "width": 16, "num_layers": 2, "num_heads": 2,
                      "feed_forward": {"hidden_width": 32}, "features": {"kind": "cnn", "width": 4},
                      "encoder": {"positions": {"kind": "sinusoidal", "max_length": 36}}},
            "training": {"steps": 1, "batch_size": 1, "learning_rate": 1.0},
        }
    )  # fmt: skip
    make = build(config.resolved["model"], "model")
    structure = abstract(lambda rngs: make(rngs=rngs))[0]
    parameters, statistics = jax.jit(initializer(lambda rngs: make(rngs=rngs)))(jax.random.key(seed))
    random = np.random.default_rng(seed)
    target = jnp.asarray(random.integers(4, WORDS, (1, LENGTH)), jnp.int32)
    pictures = jnp.asarray(random.integers(0, 256, (2, 1, SIDE, SIDE, 3)), jnp.uint8)

    @jax.jit
    def words(parameters: Any, image: Any) -> Any:
        batch = {"image": image, "target": target}
        return structure.merge(parameters, statistics).log_likelihood(batch)[0]["log_likelihood"]

    cut = {name: jnp.zeros_like(x) if ".cross_attention.output." in name else x for name, x in parameters.items()}
    moved = lambda parameters: float(jnp.abs(words(parameters, pictures[0]) - words(parameters, pictures[1])).max())
    return {"whole": moved(parameters), "cut": moved(cut)}


def measure_noise(*, workdir: Path, seed: int, gradients: int = 24, **_: Any) -> dict[str, float]:
    """Measures the noise of gradients of a trained model on `gradients` training batches, each with its own random key.

    "noise" is the sum over parameters of the variance, divided by the squared norm of the mean. "noise_keys" is the
    same for one batch with as many keys.
    """
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
    """The trace of the covariance of gradients divided by the squared norm of their mean.

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
