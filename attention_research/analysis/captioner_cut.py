"""Whether a picture reaches the words of a Transformer captioner by its attention over encoder outputs alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import build, resolve
from attention_research.layers.structure import abstract, initializer

SIDE, LENGTH, WORDS = 24, 7, 29


def measure_cut(*, seed: int, **_: Any) -> dict[str, float]:
    """The largest change of a caption's log-probabilities from one random picture to another, of a model as drawn:
    "whole", and "cut", with the output projections of every cross-attention 0."""
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
