"""Small models by config: the same door as every experiment's."""

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build, resolve
from attention_research.layers.structure import abstract

SIZES = {"max_length": 13, "vocabulary_size": 29}


def resolved(**model):
    """The resolved config of a small translation model; `model` entries replace or add to its section."""
    section = {
        "kind": "transformer",
        "width": 12,
        "num_heads": 3,
        "num_layers": 2,
        "feed_forward": {"hidden_width": 17},
    }
    return resolve(
        {
            **SIZES,
            "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
                     "batching": {"boundaries": (13,)}},
            "model": {**section, **model},
            "training": {"steps": 5, "batch_size": 4, "learning_rate": 1.0},
        }
    )  # fmt: skip


def built(**model):
    """(structure, parameters) of a small model; the parameters are NumPy's, so that nothing is compiled for them.

    Gains are near 1, biases not 0: a forgotten one shows.
    """
    constructor = build(resolved(**model).resolved["model"], "model")
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(1)
    value = lambda x: rng.standard_normal(x.shape) * (x.shape[-1] ** -0.5 if x.shape else 1.0)
    return structure, {
        name: jnp.asarray(value(x) + name.endswith("scale"), x.dtype) for name, x in sorted(shapes.items())
    }


@pytest.fixture(scope="session")
def small():
    """built(**model section) -> (structure, parameters)."""
    return built


@pytest.fixture(scope="session")
def small_config():
    """resolved(**model section) -> Config."""
    return resolved
