"""The query model: the published model in PyTorch as oracle, the logits of all positions, settings, initialization."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build_model, load
from attention_research.data.associative_recall import drawn
from attention_research.layers.structure import split
from attention_research.tasks.answers import Answers

B, T, V, D, K = 5, 14, 23, 6, 3
BATCH = {
    name: jnp.asarray(array)
    for name, array in drawn(
        np.random.default_rng(1), B, length=T, pairs=K, vocabulary_size=V, power=0.3
    ).items()
}  # fmt: skip


def section(**changes):
    given = load("language_modelling/associative_recall:attention").given["model"]
    return {**given, "width": D, **changes}


def built(model, seed=0):
    """(structure, parameters): normal with deviation 0.4, so that a missing bias is noticed."""
    structure, parameters, _ = split(build_model(model, max_length=T, vocabulary_size=V)(rngs=nnx.Rngs(0)))
    rng = np.random.default_rng(seed)
    return structure, {n: jnp.asarray(0.4 * rng.standard_normal(p.shape), jnp.float32) for n, p in parameters.items()}


@pytest.mark.slow
def test_the_loss_and_its_gradients_are_those_of_the_published_model(torch):
    """Pre-norm blocks whose identity in place of the feed-forward adds a norm, and the mean over all labels of the
    logits of all positions, in PyTorch."""
    structure, parameters = built(section())
    wide = {n: torch.tensor(np.asarray(p, np.float64), requires_grad=True) for n, p in parameters.items()}
    F, block = torch.nn.functional, "network.stack.stack.segments.0"

    def norm(x, name, layer=None):
        get = lambda one: wide[f"{name}.{one}"] if layer is None else wide[f"{name}.{one}"][layer]
        return F.layer_norm(x, (D,), get("scale"), get("bias"), eps=1e-6)

    def attention(x, layer):
        get = lambda name: wide[f"{block}.self_attention.{name}"][layer]
        q, k, v = (x @ get(f"{one}.kernel") + get(f"{one}.bias") for one in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        return y @ get("output.kernel") + get("output.bias")

    ids = torch.tensor(np.asarray(BATCH["source"], np.int64))
    residual = F.embedding(ids, wide["vocabulary.table"]) + wide["network.stack.positions.table"]
    for layer in range(2):
        residual = residual + attention(norm(residual, f"{block}.norm", layer), layer)
        residual = residual + norm(residual, f"{block}.norm_2", layer)
    logits = norm(residual, "network.stack.final_norm") @ wide["vocabulary.table"].T
    labels = torch.full((B, T), -100)
    places, target = (torch.tensor(np.asarray(BATCH[name], np.int64)) for name in ("places", "target"))
    labels.scatter_(1, places, target)
    theirs = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    theirs.backward()
    right = (logits.argmax(-1) == labels)[labels != -100].sum()

    def loss(parameters):
        total, sums = Answers().loss(structure.merge(parameters), BATCH, None)
        return total / Answers().count(BATCH), sums["correct"]

    (ours, correct), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(parameters)
    assert float(ours) == pytest.approx(theirs.item(), rel=1e-5) and int(correct) == right.item()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wide[name].grad.numpy(), atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_answers_at_the_queries_are_those_of_all_positions():
    structure, parameters = built(section(network={"kind": "recurrent", "cell": {"kind": "gru"}}))

    @jax.jit
    def both(parameters):
        model = structure.merge(parameters)
        hidden, _ = model.network(model.vocabulary.source(BATCH["source"]))
        return model.log_likelihood(BATCH)[0], jax.nn.log_softmax(model.vocabulary.logits(hidden))

    values, log_p = both(parameters)
    rows = np.arange(B)[:, None]
    np.testing.assert_allclose(values["log_likelihood"], log_p[rows, BATCH["places"], BATCH["target"]], atol=1e-5)
    np.testing.assert_array_equal(values["predicted"], log_p[rows, BATCH["places"]].argmax(-1))
    assert values["mask"].all()


@pytest.mark.slow
def test_the_initialization_is_the_released_one():
    """N(0, 0.02^2), the projections out of the mixers divided by the root of twice the number of layers."""
    for variant, layers in (("attention", 2), ("mixer", 4)):
        given = load(f"language_modelling/associative_recall:{variant}").given["model"]
        _, parameters, _ = split(build_model(given, max_length=64, vocabulary_size=999)(rngs=nnx.Rngs(0)))
        for name, value in parameters.items():
            if name.endswith(("kernel", "table")):
                wanted = 0.02 / (2 * layers) ** 0.5 if "output" in name else 0.02
                assert float(jnp.std(value)) == pytest.approx(wanted, rel=0.1), name


@pytest.mark.slow
def test_every_setting_matters():
    def text(model):
        structure, parameters = built(model)
        run = lambda parameters, key: structure.merge(parameters).log_likelihood(BATCH, key=key)[0]["log_likelihood"]
        start = lambda: built(model)[1]
        return str(jax.make_jaxpr(run)(parameters, jax.random.key(0))) + str(jax.make_jaxpr(start)())

    first = text(section())
    recurrent = {"kind": "recurrent"}
    for name, value in (
        ("width", 8), ("dropout_rate", 0.5), ("dtype", "bfloat16"), ("vocabulary", "untied"), ("network", recurrent),
    ):  # fmt: skip
        assert text(section(**{name: value})) != first, name
