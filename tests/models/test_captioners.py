"""Captioners: Show, Attend and Tell against PyTorch, stepping against whole texts, and the influence of the picture."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.kernels.selection import attention_entropy
from attention_research.layers.running_statistics import flat_updates
from attention_research.layers.structure import abstract, initializer
from attention_research.tasks.captioning import Captioning, doubly_stochastic

torch = pytest.importorskip("torch")
F = torch.nn.functional

CELLS, WIDTH, EMBEDDING, WORDS, LENGTH = 6, 7, 5, 13, 4
FEATURES = {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}
KINDS = {
    "soft": {"alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 11}}},
    "hard": {"alignment": {"kind": "hard", "score": {"kind": "additive", "attention_width": 11}}},
    "sca": {"alignment": {"kind": "sca", "attention_width": 11}},
    "one_vector": {"alignment": {"kind": "last_state"}},
    "first_word": {"decoder": {"kind": "fixed_vector", "start": {"kind": "projected"}}},
    "transformer": {
        "kind": "transformer_captioner", "width": 12, "num_layers": 2, "num_heads": 3, "dropout_rate": 0.0,
        "feed_forward": {"hidden_width": 17}, "encoder": {"positions": {"kind": "sinusoidal", "max_length": 9}},
    },
}  # fmt: skip
#: Captioners that differ little from the others are in the slow tests.
QUICK = [pytest.param(one, marks=[pytest.mark.slow] if one != "hard" else []) for one in KINDS]


@functools.cache
def model(kind, dtype="float32"):
    """(structure, parameters, statistics) of a small captioner. No array is 0 or 1."""
    recurrent = {"kind": "recurrent_captioner", "width": WIDTH, "embedding_width": EMBEDDING}
    section = KINDS[kind] if kind == "transformer" else {**recurrent, **KINDS[kind]}
    section = {**section, "features": FEATURES}
    constructor = build_model(section, side=5, channels=3, max_length=LENGTH, vocabulary_size=WORDS)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    start = initializer(lambda rngs: constructor(rngs=rngs))
    statistics = jax.jit(lambda key: start(key)[1])(jax.random.key(0))
    rng = np.random.default_rng(1)
    value = lambda x: (
        rng.normal(size=x.shape) * (x.shape[-2] ** -0.5 if x.ndim > 1 else 0.3) + 0.3 * rng.random(x.shape)
    )
    return structure, {name: jnp.asarray(value(x), x.dtype) for name, x in sorted(shapes.items())}, statistics


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    target = rng.integers(4, WORDS, (3, LENGTH)).astype(np.int32)
    target[1, 2:] = 0
    return {"image": jnp.asarray(rng.integers(0, 256, (3, 5, 5, 3)), jnp.uint8), "target": jnp.asarray(target)}


def torch_soft(arrays, cells, words):
    """Xu et al. 2015, section 3.1.2, one word after the other: (log p [B T V], alpha [B T S])."""
    w = {name: torch.tensor(np.asarray(x)) for name, x in arrays.items()}
    linear = lambda x, name: x @ w[f"decoder.{name}.kernel"] + w.get(f"decoder.{name}.bias", 0)
    mean = cells.mean(1)
    state = {name: torch.tanh(linear(mean, f"start_state.linear.0.{i}")) for i, name in enumerate(("hidden", "cell"))}
    embedded = w["vocabulary.table"][torch.tensor(words)]
    log_p, alphas = [], []
    score = lambda name: w[f"decoder.alignment.score.{name}"]
    for x in embedded.unbind(1):
        hidden = torch.tanh((state["hidden"] @ score("query_weight").T)[:, None] + cells @ score("key_weight").T)
        alpha = torch.softmax(hidden @ score("v"), 1)
        z = torch.sigmoid(linear(state["hidden"], "gate")) * (alpha[..., None] * cells).sum(1)
        state = lstm(w, torch.cat([x, z], 1), state)
        deep = x + linear(state["hidden"], "from_state") + linear(z, "from_context")
        log_p.append(torch.log_softmax(deep @ w["vocabulary.output_kernel"] + w["vocabulary.output_bias"], 1))
        alphas.append(alpha)
    return torch.stack(log_p, 1), torch.stack(alphas, 1)


def lstm(w, x, state):
    """Gates in the order i, f, g, o."""
    get = lambda name: w[f"decoder.layers.cells.0.{name}"]
    i, f, g, o = (x @ get("input_kernel") + state["hidden"] @ get("state_kernel") + get("bias")).chunk(4, 1)
    cell = torch.sigmoid(f) * state["cell"] + torch.sigmoid(i) * torch.tanh(g)
    return {"hidden": torch.sigmoid(o) * torch.tanh(cell), "cell": cell}


@pytest.mark.slow
def test_show_attend_and_tell_is_pytorchs(batch):
    """Words and attention weights of soft attention, on the feature map that our network computes."""
    structure, parameters, statistics = model("soft")

    def run(batch):
        captioner = structure.merge(parameters, statistics)
        values, aux = captioner.log_likelihood(batch)
        return values, aux["decoder"]["alignment"], captioner.encode({"image": batch["image"]})["hidden"]

    values, alignment, cells = jax.jit(run)(batch)
    words = np.concatenate([np.ones((3, 1), np.int32), np.asarray(batch["target"])[:, :-1]], axis=1)  # BOS is 1
    log_p, alpha = torch_soft(parameters, torch.tensor(np.asarray(cells)), words)
    expected = log_p.gather(2, torch.tensor(np.asarray(batch["target"])).long()[..., None])[..., 0].numpy()
    real = np.asarray(batch["target"]) != 0
    np.testing.assert_allclose(np.asarray(values["log_likelihood"])[real], expected[real], atol=1e-5)
    np.testing.assert_allclose(alignment, alpha.numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUICK)
def test_word_by_word_is_the_whole_text(kind, batch):
    structure, parameters, statistics = model(kind)

    def run(batch):
        captioner = structure.merge(parameters, statistics)
        values, _ = captioner.log_likelihood(batch)
        cache = captioner.start(captioner.encode({"image": batch["image"]}), LENGTH)

        def step(carry, target):
            cache, log_p, _ = captioner.step(*carry)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], axis=1)[:, 0]

        _, found = jax.lax.scan(step, (cache, jnp.ones(3, jnp.int32)), batch["target"].T)
        return values["log_likelihood"], found.T

    whole, stepped = jax.jit(run)(batch)
    real = np.asarray(batch["target"]) != 0
    np.testing.assert_allclose(np.asarray(stepped)[real], np.asarray(whole)[real], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUICK)
def test_every_parameter_learns_and_every_statistic_is_replaced(kind, batch):
    structure, parameters, statistics = model(kind)
    task = Captioning(doubly_stochastic=1.0)

    def loss(parameters, key):
        total, sums = task.loss(structure.merge(parameters, statistics), batch, key)
        return total, sums

    gradients, sums = jax.jit(jax.grad(loss, has_aux=True))(parameters, jax.random.key(3))
    # A batch norm removes a constant before it, and a constant added to the scores of all places has no effect.
    assert not [name for name, gradient in gradients.items() if not np.any(gradient)]
    assert set(sums["updates"]) == structure.running


@pytest.mark.slow
def test_a_picture_affects_words_by_cross_attention_only(batch):
    """If the output of every cross-attention is removed, no word depends on the picture."""
    structure, parameters, statistics = model("transformer")

    def words(image, parameters):
        x = structure.merge(parameters, statistics)
        memory = x.encode({"image": batch["image"]})
        memory["hidden"] = memory["hidden"] + image
        cache = x.start(memory, LENGTH)
        return x.step(cache, jnp.ones(3, jnp.int32))[1]

    step = 0.1 * jnp.ones((3, 9, 12)) * jnp.arange(12.0)
    run = jax.jit(words)
    change = lambda parameters: run(step, parameters) - run(jnp.zeros_like(step), parameters)
    cut = {name: jnp.zeros_like(x) if "cross_attention" in name and "output" in name else x
           for name, x in parameters.items()}  # fmt: skip
    assert sum(not np.any(x) for x in cut.values()) > 0
    assert np.abs(change(parameters)).max() > 1e-3 and np.abs(change(cut)).max() == 0


@pytest.mark.slow
def test_hard_attention_uses_the_reinforce_gradient(batch):
    """The gradient of the scores at sampled places is lambda_r (cost - b) d log p(s) - lambda_e dH.

    If a coin flip says so, the expected context is used instead. The baseline moves towards the cost.
    """
    structure, parameters, statistics = model("hard")
    statistics = {name: x + 0.7 if name.endswith("baseline") else x for name, x in statistics.items()}
    name = "decoder.alignment.score.v"

    def aux_of(v, key):
        return structure.merge({**parameters, name: v}, statistics).log_likelihood(batch, key=key)

    def total(v, key):
        return Captioning(reinforce=0.5, entropy=0.25).loss(
            structure.merge({**parameters, name: v}, statistics), batch, key
        )[0]

    def by_hand(v, key):
        values, aux = aux_of(v, key)
        decoder, mask = aux["decoder"], values["mask"]
        cost = jax.lax.stop_gradient(aux["judged"]["cost"])
        nll = -jnp.sum(values["log_likelihood"], where=mask)  # gradient through the expected contexts
        chosen = jnp.sum((cost - 0.7) * decoder["log_probability"], where=mask)
        return nll + 0.5 * chosen - 0.25 * jnp.sum(decoder["entropy"], where=mask), (values, aux)

    of_the_loss, wanted = jax.jit(jax.grad(total)), jax.jit(jax.grad(by_hand, has_aux=True))

    for seed in range(3):
        key = jax.random.key(seed)
        gradient, (values, aux) = wanted(parameters[name], key)
        np.testing.assert_allclose(of_the_loss(parameters[name], key), gradient, rtol=1e-4, atol=1e-6)
        one_hot = np.isin(np.asarray(aux["decoder"]["alignment"]), (0.0, 1.0)).all(axis=(1, 2))
        drawn = np.any(np.asarray(aux["decoder"]["log_probability"]) != 0, axis=1)
        assert (one_hot == drawn).all()
        log_p, mask = np.asarray(values["log_likelihood"]), np.asarray(values["mask"])
        cost = -np.sum(log_p, axis=1, where=mask) / np.sum(mask, axis=1)
        np.testing.assert_allclose(aux["judged"]["cost"][:, 0], cost, rtol=1e-5)
        moved = flat_updates(aux["updates"])["decoder.alignment.baseline"]
        assert float(moved) == pytest.approx(0.9 * 0.7 + 0.1 * cost.mean(), rel=1e-5)


def test_the_doubly_stochastic_penalty_is_its_equation():
    alpha = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3)).astype(np.float32)
    mask = np.array([[True, True, False], [True, True, True]])
    expected = sum((1 - alpha[row][mask[row]].sum(0)) @ (1 - alpha[row][mask[row]].sum(0)) for row in range(2))
    assert float(jax.jit(doubly_stochastic)(alpha, mask)) == pytest.approx(expected, rel=1e-5)
    assert jax.jit(attention_entropy)(jnp.zeros((1, 1, 4)))[0, 0] == pytest.approx(np.log(4))
