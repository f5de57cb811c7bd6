"""Every vocabulary's embeddings, logits and likelihoods against float64 NumPy with its own arrays."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.structure import abstract
from attention_research.registry import FAMILIES, lookup
from attention_research.signatures import Constructor

V, D = 13, 6
SIZES = (3, 4, 6)
#: Kinds whose distribution combines several softmaxes, so that it has no single Z.
WITHOUT_Z = {"adaptive_softmax", "mixture_of_softmaxes"}


def in_clusters(a, sizes=SIZES):
    """(the rows of all clusters, hidden -> logits of each): a table of width D, then two factorized ones."""
    parts = [a["clusters.0.table"]]
    parts += [a[f"clusters.{c}.table"] @ a[f"clusters.{c}.projection_kernel"] for c in (1, 2)]
    rows = np.concatenate([part[:size] for part, size in zip(parts, sizes, strict=True)])
    return rows, lambda h: [h / D**0.5 @ part.T for part in parts]


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def by_head_and_tails(logits):
    """log p(w) = log p(w | head), or log p(c | head) + log p(w | c). The head's last classes are the tails."""
    head, *tails = map(log_softmax, logits)
    tails = [head[..., [SIZES[0] + c]] + tail for c, tail in enumerate(tails)]
    return np.concatenate([head[..., : SIZES[0]], *tails], -1)


def mixed(a, h):
    """The logarithm of a mixture of softmaxes over the table."""
    h = h / D**0.5
    share = np.exp(log_softmax(h @ a["mixture_kernel"]))
    softmaxes = np.exp([log_softmax(np.tanh(h @ w) @ a["table"].T) for w in a["context_kernel"]])
    return np.log(np.einsum("...k,k...v->...v", share, softmaxes))


def factors(a):
    return a["factors.table"] @ a["factors.projection_kernel"]


def transformed(a, h):
    """A dense layer, GELU with the error function, and a norm."""
    y = h @ a["transform.kernel"] + a["transform.bias"]
    y = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    return (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6) * a["norm.scale"] + a["norm.bias"]


#: kind -> arrays -> (source embeddings [V D], target embeddings [V D], hidden [.. D] -> logits [.. V]).
SAYS = {
    "shared": lambda a: (a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["table"].T),
    "shared_with_bias": lambda a: (a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["table"].T + a["bias"]),
    "unscaled": lambda a: (a["table"], a["table"], lambda h: h @ a["table"].T + a["bias"]),
    "unscaled_no_bias": lambda a: (a["table"], a["table"], lambda h: h @ a["table"].T),
    "bert": lambda a: (a["table"], a["table"], lambda h: transformed(a, h) @ a["table"].T + a["bias"]),
    "t5": lambda a: (a["table"], a["table"], lambda h: h / D**0.5 @ a["table"].T),
    "separate": lambda a: (
        a["source_table"] * D**0.5, a["target_table"] * D**0.5, lambda h: h @ a["output_kernel"],
    ),
    "untied": lambda a: (
        a["table"] * D**0.5, a["table"] * D**0.5, lambda h: h @ a["output_kernel"] + a["output_bias"],
    ),
    "t5_untied_output": lambda a: (a["table"], a["table"], lambda h: h @ a["output_kernel"]),
    "t5_untied_encoder": lambda a: (a["source_table"], a["table"], lambda h: h / D**0.5 @ a["table"].T),
    "t5_untied": lambda a: (a["source_table"], a["table"], lambda h: h @ a["output_kernel"]),
    "factorized": lambda a: (factors(a), factors(a), lambda h: h @ a["output_kernel"]),
    "factorized_shared": lambda a: (factors(a), factors(a), lambda h: h / D**0.5 @ factors(a).T),
    "adaptive_input": lambda a: (
        in_clusters(a)[0], in_clusters(a)[0], lambda h: np.concatenate(in_clusters(a)[1](h), -1),
    ),
    "adaptive_softmax": lambda a: (
        in_clusters(a)[0], in_clusters(a)[0], lambda h: by_head_and_tails(in_clusters(a)[1](h)),
    ),
    "mixture_of_softmaxes": lambda a: (a["table"], a["table"], lambda h: mixed(a, h)),
}  # fmt: skip
#: Settings of a kind in addition to the vocabulary's size and width.
CLUSTERS = {"cluster_sizes": SIZES, "cluster_widths": (D, 4, 2)}
SETTINGS = {
    "bert": {"norm": Constructor(lookup("norm", "layer_norm"), {"width": D})},
    "factorized": {"rank": 4},
    "factorized_shared": {"rank": 4},
    "adaptive_input": CLUSTERS,
    "adaptive_softmax": CLUSTERS,
    "mixture_of_softmaxes": {"num_softmaxes": 5},
}


@pytest.mark.parametrize("kind", list(FAMILIES["vocabulary"]))
def test_is_its_equations(kind):
    rng = np.random.default_rng(0)
    more = SETTINGS.get(kind, {})
    make = lookup("vocabulary", kind)
    structure, parameters, _ = abstract(
        lambda rngs: make(vocabulary_size=V, width=D, dtype="float32", **more, rngs=rngs)
    )
    arrays = {name: rng.standard_normal(x.shape) for name, x in parameters.items()}
    vocabulary = structure.merge({name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()})
    source, target, logits = SAYS[kind](arrays)

    ids, hidden = rng.integers(0, V, (2, 5)), rng.standard_normal((2, 5, D))

    @jax.jit
    def uses(ids, hidden):
        embedded = vocabulary.source(ids), vocabulary.target(ids)
        log_p = vocabulary.log_probabilities(hidden[:, 2])
        return embedded, vocabulary.logits(hidden), log_p, vocabulary.log_likelihood(hidden, ids)

    embedded, ours, ours_log_p, values = uses(jnp.asarray(ids), jnp.asarray(hidden, jnp.float32))
    np.testing.assert_allclose(embedded[0], source[ids], atol=1e-5)
    np.testing.assert_allclose(embedded[1], target[ids], atol=1e-5)
    want = logits(hidden)
    log_p = want - np.log(np.exp(want).sum(-1, keepdims=True))
    np.testing.assert_allclose(ours, want, atol=1e-4)
    np.testing.assert_allclose(ours_log_p, log_p[:, 2], atol=1e-4)
    of_ids = np.take_along_axis(log_p, ids[..., None], -1)[..., 0]
    np.testing.assert_allclose(values["log_likelihood"], of_ids, atol=1e-4)
    np.testing.assert_allclose(values["smooth_log_likelihood"], log_p.mean(-1), atol=1e-4)
    assert ("log_normalizer" in values) == (kind not in WITHOUT_Z)
    if kind not in WITHOUT_Z:
        np.testing.assert_allclose(values["log_normalizer"], np.log(np.exp(want).sum(-1)), atol=1e-4)


@pytest.mark.parametrize(("kind", "deviation"), [("shared", D**-0.5), ("t5", 1.0)])
def test_the_table_starts_with_the_variance_that_its_scale_expects(kind, deviation):
    make = lookup("vocabulary", kind)
    table = make(vocabulary_size=1009, width=D, dtype="float32", rngs=nnx.Rngs(jax.random.key(1))).table[...]
    np.testing.assert_allclose(np.asarray(table).std(), deviation, rtol=0.05)
