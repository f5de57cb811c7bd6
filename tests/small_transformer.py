"""Small models with known parameters."""

import jax.numpy as jnp
import numpy as np

from attention_research.config import build_model
from attention_research.layers.structure import abstract


def small_transformer(**model):
    """Returns (structure, (parameters, statistics)) of a small model. `model` replaces or adds entries of its section.

    The parameters are NumPy arrays, so that creating them compiles nothing.
    """
    section = {
        "kind": "transformer",
        "width": 12,
        "num_heads": 3,
        "num_layers": 2,
        "feed_forward": {"hidden_width": 17},
    }
    constructor = build_model({**section, **model}, max_length=13, vocabulary_size=29)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(1)
    value = lambda x: rng.standard_normal(x.shape) * x.shape[-1] ** -0.5
    parameters = {name: jnp.asarray(value(x) + name.endswith("scale"), x.dtype) for name, x in sorted(shapes.items())}
    return structure, (parameters, {})
