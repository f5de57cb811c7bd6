"""The vocabularies of Narang et al. 2021, Table 1: exact counts, PyTorch's values and gradients, overflowing tails.

test_vocabularies.py compares the values of every vocabulary with float64 NumPy.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError, resolve
from attention_research.layers.embeddings import distributions
from attention_research.layers.structure import abstract
from attention_research.registry import lookup
from tests.tiers import fast_are

V, D, B, T = 23, 12, 3, 11
#: PyTorch's factors have widths D / 2 and D / 4.
CLUSTERS = {"cluster_sizes": (5, 7, 11), "cluster_widths": (D, 6, 3)}
KINDS = {
    "t5_untied_output": {},
    "t5_untied_encoder": {},
    "t5_untied": {},
    "factorized": {"rank": 5},
    "factorized_shared": {"rank": 5},
    "adaptive_input": CLUSTERS,
    "adaptive_softmax": CLUSTERS,
    "mixture_of_softmaxes": {"num_softmaxes": 3},
}


def made(kind, dtype="float32", **settings):
    """(structure, parameters) of a small vocabulary. Parameters are drawn so that logits are of order 1."""
    make = lookup("vocabulary", kind)
    structure, shapes, _ = abstract(lambda rngs: make(vocabulary_size=V, width=D, dtype=dtype, **settings, rngs=rngs))
    rng = np.random.default_rng(0)
    draw = lambda x: jnp.asarray(rng.standard_normal(x.shape) * x.shape[-1] ** -0.25, jnp.float32)
    return structure, {name: draw(x) for name, x in sorted(shapes.items())}


def inputs(seed=1):
    rng = np.random.default_rng(seed)
    hidden = jnp.asarray(2 * rng.standard_normal((B, T, D)), jnp.float32)
    return hidden, jnp.asarray(rng.integers(0, V, (B, T)), jnp.int32)


PUBLISHED = {"vocabulary_size": 32128, "width": 768}
RELEASED = {"cluster_sizes": (2500, 6000, 23500, 128)}
BASELINE = 223_043_328 - 32128 * 768


@pytest.mark.parametrize(
    ("kind", "settings", "count", "model"),
    [
        ("t5", {}, 24_674_304, 223_043_328),
        ("t5_untied_output", {}, 2 * 24_674_304, 247_717_632),
        ("t5_untied_encoder", {}, 2 * 24_674_304, 247_717_632),
        ("t5_untied", {}, 3 * 24_674_304, 272_391_936),
        ("factorized", {}, 32128 * 128 + 128 * 768 + 32128 * 768, 227_254_016),
        ("factorized_shared", {}, 32128 * 128 + 128 * 768, 202_579_712),
        ("adaptive_input", {"cluster_sizes": (2500, 6000, 23628), "cluster_widths": (768, 256, 64)}, 5_213_952,
         203_582_976),
        ("adaptive_softmax", {**RELEASED, "cluster_widths": (768, 256, 64, 768)}, 5_306_368, 203_675_392),
        ("adaptive_softmax", {**RELEASED, "cluster_widths": (768,) * 4}, (32128 + 3) * 768, 223_045_632),
        ("mixture_of_softmaxes", {}, 24_674_304 + 15 * 768 + 15 * 768**2, 231_902_208),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_counts_at_the_published_sizes(kind, settings, count, model):
    make = lookup("vocabulary", kind)
    _, shapes, statistics = abstract(lambda rngs: make(**PUBLISHED, **settings, dtype="float32", rngs=rngs))
    assert not statistics and sum(math.prod(x.shape) for x in shapes.values()) == count == model - BASELINE


def torch_adaptive(torch, parameters, projected):
    """PyTorch's adaptive softmax with these tables. Missing projections are identities."""
    sizes = CLUSTERS["cluster_sizes"]
    torches = torch.nn.AdaptiveLogSoftmaxWithLoss(
        D, V, np.cumsum(sizes)[:-1].tolist(), div_value=2.0 if projected else 1.0, head_bias=False, dtype=torch.float64
    )
    weights = {name: torch.tensor(np.asarray(x), dtype=torch.float64) for name, x in parameters.items()}
    with torch.no_grad():
        torches.head.weight.copy_(weights["clusters.0.table"])
        for c, tail in enumerate(torches.tail, 1):
            tail[0].weight.copy_(weights.get(f"clusters.{c}.projection_kernel", torch.eye(D)))
            tail[1].weight.copy_(weights[f"clusters.{c}.table"])
    return torches


def names_of(torches):
    """Our name -> PyTorch's parameter."""
    found = {"clusters.0.table": torches.head.weight}
    for c, tail in enumerate(torches.tail, 1):
        found |= {f"clusters.{c}.projection_kernel": tail[0].weight, f"clusters.{c}.table": tail[1].weight}
    return found


def with_gradients(structure, parameters, hidden, targets):
    """(likelihoods, gradients of their sum)."""

    def total(p, hidden):
        values = structure.merge(p).log_likelihood(hidden, targets)
        return jnp.sum(values["log_likelihood"]), values

    (_, values), gradients = jax.jit(jax.value_and_grad(total, (0, 1), has_aux=True))(parameters, hidden)
    return values, gradients


@pytest.mark.parametrize(
    "projected", fast_are(["without_projection"], {"projected": True, "without_projection": False})
)
def test_adaptive_softmax_is_pytorchs(projected, torch):
    """Likelihoods, distribution and every gradient. PyTorch's input is hidden D^-0.5."""
    widths = CLUSTERS["cluster_widths"] if projected else (D, D, D)
    structure, parameters = made("adaptive_softmax", **{**CLUSTERS, "cluster_widths": widths})
    torches, (hidden, targets) = torch_adaptive(torch, parameters, projected), inputs()
    x = torch.tensor(np.asarray(hidden), dtype=torch.float64, requires_grad=True)
    rows = x.reshape(-1, D) / D**0.5
    want = torches(rows, torch.tensor(np.asarray(targets)).reshape(-1)).output
    want.sum().backward()

    values, (of_parameters, of_hidden) = with_gradients(structure, parameters, hidden, targets)
    np.testing.assert_allclose(values["log_likelihood"].reshape(-1), want.detach(), atol=2e-5)
    log_p = structure.merge(parameters).log_probabilities(hidden.reshape(-1, D))
    np.testing.assert_allclose(log_p, torches.log_prob(rows).detach(), atol=2e-5)
    np.testing.assert_allclose(of_hidden, x.grad, atol=2e-5)
    theirs = names_of(torches)
    for name, gradient in of_parameters.items():
        np.testing.assert_allclose(gradient, theirs[name].grad, atol=5e-5, err_msg=name)


def crowded():
    """Rows whose tails overflow at a share of 1/4, that is 3 places: 5 + 6 tail positions, 11 of one tail, none."""
    hidden, _ = inputs()
    rng = np.random.default_rng(2)
    rows = [rng.permutation([*rng.integers(5, 12, 5), *rng.integers(12, 23, 6)]), rng.integers(12, 23, T),
            rng.integers(0, 5, T)]  # fmt: skip
    return hidden, jnp.asarray(np.stack(rows), jnp.int32)


def has_place(targets, places):
    """Whether each position has a place in its tail, counted by hand."""
    kept = np.ones(targets.shape, bool)
    for row, ids in enumerate(np.asarray(targets)):
        seen = {1: 0, 2: 0}
        for t, word in enumerate(ids):
            if word >= 5:
                cluster = 1 if word < 12 else 2
                seen[cluster] += 1
                kept[row, t] = seen[cluster] <= places
    return kept


@pytest.mark.slow
def test_a_full_tail_ignores_later_positions(torch):
    """As released: values and gradients are those of log p(c) + [has a place] log p(w | c), up to log n_c."""
    structure, parameters = made("adaptive_softmax", **CLUSTERS, tail_share=0.25)
    torches, (hidden, targets) = torch_adaptive(torch, parameters, True), crowded()
    kept = has_place(targets, math.ceil(0.25 * T))
    assert 0 < kept[0].sum() < T and kept[1].sum() == 3 and kept[2].all()

    x = torch.tensor(np.asarray(hidden), dtype=torch.float64, requires_grad=True)
    rows, ids = x.reshape(-1, D) / D**0.5, np.asarray(targets).reshape(-1)
    head = torch.log_softmax(torches.head(rows), -1)
    classes = torch.tensor(np.where(ids < 5, ids, np.where(ids < 12, 5, 6)))
    want = head.gather(1, classes[:, None])[:, 0]
    for tail, first, end in ((torches.tail[0], 5, 12), (torches.tail[1], 12, 23)):
        inside = (ids >= first) & (ids < end)
        own = torch.tensor(np.where(inside, ids - first, 0))
        log_p = torch.log_softmax(tail(rows), -1).gather(1, own[:, None])[:, 0]
        counts = torch.tensor(inside & kept.reshape(-1))
        without = torch.tensor(inside & ~kept.reshape(-1)) * -math.log(end - first)
        want = want + torch.where(counts, log_p, 0.0) + without
    want.sum().backward()

    values, (of_parameters, of_hidden) = with_gradients(structure, parameters, hidden, targets)
    np.testing.assert_allclose(values["log_likelihood"].reshape(-1), want.detach(), atol=2e-5)
    np.testing.assert_allclose(of_hidden, x.grad, atol=2e-5)
    theirs = names_of(torches)
    for name, gradient in of_parameters.items():
        np.testing.assert_allclose(gradient, theirs[name].grad, atol=5e-5, err_msg=name)
    exact = made("adaptive_softmax", **CLUSTERS)[0].merge(parameters)
    of_all = exact.log_likelihood(hidden, targets)
    np.testing.assert_array_equal(values["smooth_log_likelihood"], of_all["smooth_log_likelihood"])
    differs = np.abs(values["log_likelihood"] - of_all["log_likelihood"]) > 1e-4
    np.testing.assert_array_equal(differs, ~kept)


def test_a_tail_with_room_for_every_target_is_exact():
    """No row has more than 8 positions in one tail, which has ceil(0.7 * 11) places."""
    hidden, targets = inputs()
    ids = np.asarray(targets)
    assert max(((ids >= a) & (ids < b)).sum(1).max() for a, b in ((5, 12), (12, 23))) <= 8
    exact = with_gradients(*made("adaptive_softmax", **CLUSTERS), hidden, targets)
    gathered = with_gradients(*made("adaptive_softmax", **CLUSTERS, tail_share=0.7), hidden, targets)
    for one, other in zip(jax.tree.leaves(exact), jax.tree.leaves(gathered), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_mixture_of_softmaxes_is_pytorchs(torch):
    """Equation 4 in float64, with every gradient by autograd."""
    structure, parameters = made("mixture_of_softmaxes", num_softmaxes=3)
    hidden, targets = inputs()
    p = {name: torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=True) for name, x in parameters.items()}
    x = torch.tensor(np.asarray(hidden), dtype=torch.float64, requires_grad=True)
    h = x.reshape(-1, D) / D**0.5
    share = torch.softmax(h @ p["mixture_kernel"], -1)
    mixture = sum(
        share[:, [k]] * torch.softmax(torch.tanh(h @ p["context_kernel"][k]) @ p["table"].T, -1) for k in range(3)
    )
    want = mixture.log().gather(1, torch.tensor(np.asarray(targets).reshape(-1, 1), dtype=torch.int64))[:, 0]
    want.sum().backward()
    values, (of_parameters, of_hidden) = with_gradients(structure, parameters, hidden, targets)
    np.testing.assert_allclose(values["log_likelihood"].reshape(-1), want.detach(), atol=2e-5)
    np.testing.assert_allclose(of_hidden, x.grad, atol=2e-5)
    for name, gradient in of_parameters.items():
        np.testing.assert_allclose(gradient, p[name].grad, atol=5e-5, err_msg=name)


def test_mixtures_have_a_higher_rank_than_one_softmax():
    """Section 2.1: log-probabilities of one softmax have at most rank D + 1 for any contexts, and of a mixture more."""
    rng = np.random.default_rng(0)
    contexts = jnp.asarray(3 * rng.standard_normal((40, 4)), jnp.float32)

    def rank(kind, **settings):
        make = lambda key: lookup("vocabulary", kind)(
            vocabulary_size=V, width=4, dtype="float32", **settings, rngs=nnx.Rngs(key)
        )
        log_p = jax.jit(lambda key: make(key).log_probabilities(contexts))(jax.random.key(0))
        return np.linalg.matrix_rank(np.asarray(log_p), tol=1e-3)

    assert rank("t5") == 5 and rank("mixture_of_softmaxes", num_softmaxes=3) == V


@pytest.mark.parametrize("kind", KINDS)
def test_distributions_sum_to_one_and_give_the_likelihoods(kind):
    structure, parameters = made(kind, **KINDS[kind])
    hidden, targets = inputs()

    @jax.jit
    def both(parameters):
        vocabulary = structure.merge(parameters)
        return vocabulary.log_probabilities(hidden.reshape(-1, D)), vocabulary.log_likelihood(hidden, targets)

    log_p, values = both(parameters)
    log_p = np.asarray(log_p, np.float64).reshape(B, T, V)
    np.testing.assert_allclose(np.exp(log_p).sum(-1), 1.0, atol=1e-5)
    of_targets = np.take_along_axis(log_p, np.asarray(targets)[..., None], -1)[..., 0]
    np.testing.assert_allclose(values["log_likelihood"], of_targets, atol=2e-5)
    np.testing.assert_allclose(values["smooth_log_likelihood"], log_p.mean(-1), atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_alive(kind):
    """With source and target embeddings and target scores together, each array has a nonzero gradient."""
    structure, parameters = made(kind, **KINDS[kind])
    hidden, targets = inputs()

    def loss(p):
        vocabulary = structure.merge(p)
        read = jnp.sum(jnp.sin(vocabulary.source(targets))) + jnp.sum(jnp.cos(vocabulary.target(targets)))
        return read - jnp.sum(vocabulary.log_likelihood(hidden, targets)["log_likelihood"])

    for name, gradient in jax.jit(jax.grad(loss))(parameters).items():
        assert float(jnp.abs(gradient).max()) > 1e-4, name


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("adaptive_input", "adaptive_softmax")),
        "mixture_of_softmaxes",
    ],
)
def test_chunks_change_nothing(kind):
    """Values and gradients are equal whether or not the chunks divide the length."""
    structure, parameters = made(kind, **KINDS[kind])
    hidden, targets = inputs()

    def run(chunk_size):
        def total(p):
            values = distributions.log_likelihood(structure.merge(p), hidden, targets, chunk_size=chunk_size)
            return sum(jnp.sum(jnp.cos(x)) for x in values.values()), values

        return jax.tree.leaves(jax.jit(jax.value_and_grad(total, has_aux=True))(parameters))

    whole = run(1000)
    for chunk_size in (11, 7):
        for one, other in zip(whole, run(chunk_size), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_computes_in_bfloat16_and_scores_in_float32(kind):
    low, parameters = made(kind, "bfloat16", **KINDS[kind])
    full, _ = made(kind, **KINDS[kind])
    hidden, targets = inputs()
    vocabulary = low.merge(parameters)
    embedded = jax.eval_shape(lambda ids: (vocabulary.source(ids), vocabulary.target(ids)), targets)
    assert embedded[0].dtype == embedded[1].dtype == jnp.bfloat16

    @jax.jit
    def both(p):
        found = low.merge(p).log_likelihood(hidden.astype(jnp.bfloat16), targets)
        return found, full.merge(p).log_likelihood(hidden, targets)

    values, want = both(parameters)
    given = (parameters, hidden.astype(jnp.bfloat16), targets)
    _, (of_parameters, _) = jax.eval_shape(lambda *given: with_gradients(low, *given), *given)
    assert all(gradient.dtype == jnp.float32 for gradient in of_parameters.values())
    for name, value in values.items():
        assert value.dtype == jnp.float32 and float(jnp.abs(value - want[name]).mean()) < 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_start_with_unit_variance_and_so_do_logits(kind):
    """The scales ensure this. A mixture's contexts are not scaled, and an adaptive softmax returns log p."""
    settings = {**KINDS[kind], "vocabulary_size": 1009, "width": 64}
    if "cluster_sizes" in settings:
        settings |= {"cluster_sizes": (101, 307, 601), "cluster_widths": (64, 32, 16)}
    if "rank" in settings:
        settings["rank"] = 32
    make = lookup("vocabulary", kind)

    @jax.jit
    def deviations(key, hidden):
        vocabulary = make(**settings, dtype="float32", rngs=nnx.Rngs(key))
        return [vocabulary.source(jnp.arange(1009)).std(), vocabulary.logits(hidden).std()]

    hidden = jnp.asarray(np.random.default_rng(0).standard_normal((97, 64)), jnp.float32)
    embedding, logits = deviations(jax.random.key(3), hidden)
    np.testing.assert_allclose(embedding, 1.0, rtol=0.1)
    if kind not in ("adaptive_softmax", "mixture_of_softmaxes"):
        np.testing.assert_allclose(logits, 1.0, rtol=0.1)


def config(**vocabulary):
    return resolve(
        {
            "max_length": 13,
            "vocabulary_size": 29,
            "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
                     "batching": {"boundaries": (13,)}},
            "model": {"kind": "transformer", "width": 12, "num_heads": 3, "num_layers": 1,
                      "feed_forward": {"hidden_width": 17}, "vocabulary": vocabulary},
            "training": {"steps": 5, "batch_size": 4, "learning_rate": 1.0},
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cluster_sizes": (5, 7, 11), "cluster_widths": (12, 5, 3)}, "cluster_sizes.*add up to 23.*29 tokens"),
        ({"cluster_sizes": (5, 7, 17), "cluster_widths": (12, 5)}, "cluster_widths.*3 clusters and 2 widths"),
        ({"cluster_sizes": (5, 7, 17), "cluster_widths": (12, 5, 3), "tail_share": 1.5}, "tail_share.*at most 1"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        config(kind="adaptive_softmax", **settings)


@pytest.mark.parametrize("kind", ["adaptive_input", "adaptive_softmax"])
def test_constructors_refuse_them_too(kind):
    make = lambda **settings: lookup("vocabulary", kind)(
        vocabulary_size=V, width=D, dtype="float32", rngs=nnx.Rngs(0), **settings
    )
    with pytest.raises(ValueError, match="cluster_sizes: .*add up to 22; the vocabulary has 23"):
        make(cluster_sizes=(5, 7, 10), cluster_widths=(12, 5, 3))
    with pytest.raises(ValueError, match="cluster_widths: 3 clusters and 2 widths"):
        make(cluster_sizes=(5, 7, 11), cluster_widths=(12, 5))


def test_names_are_those_that_the_sharding_rules_know():
    """Every array is a table or a kernel, so that a sharding rule matches it."""
    for kind, settings in KINDS.items():
        assert all(name.endswith(("table", "kernel")) for name in made(kind, **settings)[1]), kind
