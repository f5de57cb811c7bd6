"""Every vocabulary's embeddings, logits and likelihoods against float64 NumPy, from its own arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.structure import split
from attention_research.registry import FAMILIES, lookup

V, D = 13, 6
#: kind -> arrays -> (source embeddings [V D], target embeddings [V D], hidden [.. D] -> logits [.. V]).
SAYS = {
    "shared": lambda a: (a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["table"].T),
    "shared_with_bias": lambda a: (a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["table"].T + a["bias"]),
    "t5": lambda a: (a["table"], a["table"], lambda h: h / D**0.5 @ a["table"].T),
    "separate": lambda a: (
        a["source_table"] * D**0.5, a["target_table"] * D**0.5, lambda h: h @ a["output_kernel"],
    ),
    "untied": lambda a: (
        a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["output_kernel"] + a["output_bias"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(FAMILIES["vocabulary"]))
def test_is_its_equations(kind):
    rng = np.random.default_rng(0)
    make = lookup("vocabulary", kind)(vocabulary_size=V, width=D, dtype="float32", rngs=nnx.Rngs(0))
    structure, parameters, _ = split(make)
    arrays = {name: rng.standard_normal(x.shape) for name, x in parameters.items()}
    vocabulary = structure.merge({name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()})
    source, target, logits = SAYS[kind](arrays)

    ids, hidden = rng.integers(0, V, (2, 5)), rng.standard_normal((2, 5, D))
    np.testing.assert_allclose(vocabulary.source(jnp.asarray(ids)), source[ids], atol=1e-5)
    np.testing.assert_allclose(vocabulary.target(jnp.asarray(ids)), target[ids], atol=1e-5)
    want = logits(hidden)
    log_p = want - np.log(np.exp(want).sum(-1, keepdims=True))
    low = jnp.asarray(hidden, jnp.float32)
    np.testing.assert_allclose(vocabulary.logits(low), want, atol=1e-4)
    np.testing.assert_allclose(vocabulary.log_probabilities(low[:, 2]), log_p[:, 2], atol=1e-4)
    values = vocabulary.log_likelihood(low, jnp.asarray(ids))
    of_ids = np.take_along_axis(log_p, ids[..., None], -1)[..., 0]
    np.testing.assert_allclose(values["log_likelihood"], of_ids, atol=1e-4)
    np.testing.assert_allclose(values["smooth_log_likelihood"], log_p.mean(-1), atol=1e-4)


@pytest.mark.parametrize(("kind", "deviation"), [("shared", D**-0.5), ("t5", 1.0)])
def test_the_table_starts_with_the_variance_that_its_scale_expects(kind, deviation):
    make = lookup("vocabulary", kind)
    table = make(vocabulary_size=1009, width=D, dtype="float32", rngs=nnx.Rngs(jax.random.key(1))).table[...]
    np.testing.assert_allclose(np.asarray(table).std(), deviation, rtol=0.05)
