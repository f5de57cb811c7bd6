"""Small models built from configs, in the same way as those of experiments."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model, resolve
from attention_research.layers.structure import abstract, initializer

SIZES = {"max_length": 13, "vocabulary_size": 29}
SECTION = {"kind": "transformer", "width": 12, "num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 17}}


def constructor(**model):
    """The constructor of a small translation model. `model` entries replace or add to its section."""
    return build_model({**SECTION, **model}, **SIZES)


def resolved(**model):
    """The resolved config of an experiment with this model."""
    return resolve(
        {
            **SIZES,
            "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
                     "batching": {"boundaries": (13,)}},
            "model": {**SECTION, **model},
            "training": {"steps": 5, "batch_size": 4, "learning_rate": 1.0},
        }
    )  # fmt: skip


def with_statistics(**model):
    """(structure, parameters, statistics) of a small model. Statistics are those of a fresh model."""
    make, (structure, parameters) = constructor(**model), built(**model)
    if not abstract(lambda rngs: make(rngs=rngs))[2]:
        return structure, parameters, {}
    return structure, parameters, jax.jit(initializer(lambda rngs: make(rngs=rngs)))(jax.random.key(2))[1]


def built(**model):
    """(structure, parameters) of a small model.

    The parameters are NumPy arrays, so that creating them compiles nothing.

    Gains are near 1 and biases nonzero, so that a missing one is noticed.
    """
    make = constructor(**model)
    structure, shapes, statistics = abstract(lambda rngs: make(rngs=rngs))
    rng = np.random.default_rng(1)
    value = lambda x: rng.standard_normal(x.shape) * (x.shape[-1] ** -0.5 if x.shape else 1.0)
    parameters = {name: jnp.asarray(value(x) + name.endswith("scale"), x.dtype) for name, x in sorted(shapes.items())}
    if not statistics:
        return structure, parameters
    kept = {name: jnp.asarray(value(x), x.dtype) for name, x in sorted(statistics.items())}
    merge = lambda parameters, statistics=kept: structure.merge(parameters, statistics)
    return SimpleNamespace(merge=merge), parameters


@pytest.fixture(scope="session")
def small():
    """built(**model section) -> (structure, parameters)."""
    return built


@pytest.fixture(scope="session")
def small_with_statistics():
    """with_statistics(**model section) -> (structure, parameters, statistics)."""
    return with_statistics


@pytest.fixture(scope="session")
def small_constructor():
    """constructor(**model section)."""
    return constructor


@pytest.fixture(scope="session")
def small_config():
    """resolved(**model section) -> Config."""
    return resolved
