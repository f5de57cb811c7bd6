"""Few source words: masks and sums by hand, a changed model against NumPy. Keeping all words changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.experiments.lectures.agreement import few_source_words as few
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.structure import abstract

B, S, T, V = 2, 7, 5, 17
MODELS = {
    "transformer": {"num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 13}},
    "recurrent": {
        "cell": {"kind": "vanilla"}, "decoder": {"kind": "luong", "input_feeding": False},
        "alignment": {"kind": "global", "score": {"kind": "general"}},
    },
}  # fmt: skip


def built(kind):
    """(structure, parameters) of a small model. The parameters are NumPy arrays."""
    section = {"kind": kind, "width": 12, "dropout_rate": 0.0, **MODELS[kind]}
    constructor = build_model(section, max_length=7, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(1)
    return structure, {name: jnp.asarray(0.5 * rng.standard_normal(x.shape), x.dtype) for name, x in shapes.items()}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    source, target = rng.integers(4, V, (B, S)), rng.integers(4, V, (B, T))
    source[1, 5:], target[1, 3:] = 0, 0
    return {"source": jnp.asarray(source, jnp.int32), "target": jnp.asarray(target, jnp.int32)}


def test_the_largest_weights_are_kept_and_ties_go_to_the_first():
    weights = jnp.asarray([[0.1, 0.5, 0.2, 0.2], [0.25, 0.25, 0.25, 0.25]])
    assert few.largest(weights, 2).tolist() == [[False, True, True, False], [True, True, False, False]]
    assert few.largest(weights, 9).all()


def test_masses_are_sums_of_the_largest_and_means_over_layers():
    weights = np.random.default_rng(1).dirichlet(np.ones(S), (3, B, T)).astype(np.float32)
    ranked = -np.sort(-weights, axis=-1)
    wanted = np.stack([ranked[..., :k].sum(-1).mean(0) for k in few.MOST], axis=-1)
    np.testing.assert_allclose(few.masses(jnp.asarray(weights)), wanted, atol=1e-6)


def test_attention_to_few_against_numpy():
    """The keys of a step are chosen by the mean over heads, and all other keys are hidden from all heads."""
    N, H, most = 3, 5, 2
    rng = np.random.default_rng(2)
    query, key, value = (rng.standard_normal((B, size, N, H)) for size in (T, S, S))
    mask = np.ones((B, 1, 1, S), bool)
    mask[1, ..., 4:] = False
    scores = np.where(mask, np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(H), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.zeros((B, T, N, H))
    for b, t in np.ndindex(B, T):
        for s in np.argsort(-weights[b, :, t].mean(0), kind="stable")[:most]:
            wanted[b, t] += weights[b, :, t, s, None] * value[b, s]
    module = object.__new__(few.FewAttention)
    object.__setattr__(module, "most", most)
    given = (jnp.asarray(x, jnp.float32) for x in (query, key, value))
    context, left = few.FewAttention.mix(module, *given, few.Where(jnp.asarray(mask)))
    np.testing.assert_allclose(context, wanted, atol=1e-5)
    assert np.array_equal((np.asarray(left) > 0).sum(-1), np.full((B, N, T), most))


@pytest.mark.parametrize("kind", [pytest.param("transformer", marks=pytest.mark.slow), "recurrent"])
def test_keeping_all_words_changes_nothing_and_keeping_one_gives_weight_one(kind, batch):
    structure, parameters = built(kind)

    @jax.jit
    def priced(parameters):
        merged = lambda: structure.merge(parameters)
        whole, *changed = (
            model.log_likelihood(batch) for model in (merged(), *(few.consulting_few(merged(), k) for k in (S, 1)))
        )
        return [(values["log_likelihood"], few.source_weights(aux)) for values, aux in (whole, *changed)]

    (whole, weights), (same, _), (one, left) = priced(parameters)
    np.testing.assert_allclose(same, whole, atol=1e-5)
    assert np.abs(one - whole)[0].max() > 1e-3
    assert np.all((np.asarray(left) > 0).sum(-1) == 1)
    # The input of the first layer's first step does not depend on what is hidden later, so its weight is the largest.
    np.testing.assert_allclose(left[0, :, 0].max(-1), np.asarray(weights)[0, :, 0].max(-1), atol=1e-5)


def test_models_without_hideable_words_are_refused():
    with pytest.raises(TypeError, match="is not StandardAttention"):
        few._as(few.FewAttention, few.FewAlignment.__new__(few.FewAlignment), 1)
    assert StandardAttention in few.FewAttention.__bases__
