"""Dense, gated and shifted feed-forwards: PyTorch's activations and Hugging Face's gated layer, float64 NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.feed_forward.dense import ACTIVATIONS, DenseFeedForward
from attention_research.layers.feed_forward.gated import GatedFeedForward
from attention_research.layers.feed_forward.shifted import ShiftedFeedForward
from attention_research.layers.structure import split

B, T, D, F = 2, 7, 11, 17
GATES = ("sigmoid", "gelu", "relu", "swish", "identity")


def activated(name, x):
    """The activations in float64, from their papers' equations."""
    sigmoid = 1 / (1 + np.exp(-x))
    return {
        "relu": np.maximum(x, 0),
        "gelu": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "gelu_exact": 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "swish": x * sigmoid,
        "elu": np.where(x > 0, x, np.exp(x) - 1),
        "selu": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
        "sigmoid": sigmoid,
        "softplus": np.log1p(np.exp(x)),
        "identity": x,
    }[name]


def filled(module, seed=0):
    """(structure, random parameters)."""
    structure, parameters, _ = split(module)
    rng = np.random.default_rng(seed)
    return structure, {n: jnp.asarray(rng.standard_normal(x.shape), jnp.float32) for n, x in parameters.items()}


def wide(parameters):
    return {name: np.asarray(x, np.float64) for name, x in parameters.items()}


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dense_is_equation_2(activation, x):
    structure, parameters = filled(DenseFeedForward(width=D, hidden_width=F, activation=activation, rngs=nnx.Rngs(0)))
    w = wide(parameters)
    want = activated(activation, x @ w["hidden.kernel"] + w["hidden.bias"]) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(structure.merge(parameters)(jnp.asarray(x))[0], want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_and_their_derivatives_are_pytorchs(activation, torch):
    functional = torch.nn.functional
    theirs = {"swish": functional.silu, "gelu": lambda x: functional.gelu(x, approximate="tanh"),
              "gelu_exact": functional.gelu}  # fmt: skip
    values = np.linspace(-6, 6, 97)
    tensor = torch.tensor(values, requires_grad=True)
    output = theirs.get(activation, getattr(functional, activation, None))(tensor)
    output.sum().backward()
    ours, derivative = jax.vmap(jax.value_and_grad(ACTIVATIONS[activation]))(jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(ours, output.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(derivative, tensor.grad.numpy(), atol=1e-5)


@pytest.mark.parametrize("activation", GATES)
def test_gated_is_equation_6(activation, x):
    structure, parameters = filled(GatedFeedForward(width=D, hidden_width=F, activation=activation, rngs=nnx.Rngs(0)))
    w = wide(parameters)
    gate = activated(activation, x @ w["gate.kernel"] + w["gate.bias"])
    want = (gate * (x @ w["hidden.kernel"] + w["hidden.bias"])) @ w["output.kernel"] + w["output.bias"]
    np.testing.assert_allclose(structure.merge(parameters)(jnp.asarray(x))[0], want, rtol=1e-5, atol=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "theirs"), [("gelu", "gelu_new"), ("relu", "relu"), ("swish", "silu")])
def test_gated_without_biases_is_t5s(activation, theirs, x, torch):
    """Hugging Face's T5 v1.1 layer with the same weights: outputs and every gradient."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(d_model=D, d_ff=F, dense_act_fn=theirs, dropout_rate=0.0)
    layer = t5.T5DenseGatedActDense(config).double()
    made = GatedFeedForward(width=D, hidden_width=F, activation=activation, use_bias=False, rngs=nnx.Rngs(0))
    structure, parameters = filled(made)
    pairs = {"gate.kernel": layer.wi_0, "hidden.kernel": layer.wi_1, "output.kernel": layer.wo}
    assert parameters.keys() == pairs.keys()
    for name, linear in pairs.items():
        linear.weight.data = torch.tensor(wide(parameters)[name].T)
    direction = np.random.default_rng(2).standard_normal((B, T, D))
    output = layer(torch.tensor(x, dtype=torch.float64))
    (output * torch.tensor(direction)).sum().backward()

    def value(parameters):
        y, _ = structure.merge(parameters)(jnp.asarray(x))
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), y

    gradients, ours = jax.jit(jax.grad(value, has_aux=True))(parameters)
    np.testing.assert_allclose(ours, output.detach().numpy(), rtol=1e-5, atol=5e-5)
    for name, linear in pairs.items():
        np.testing.assert_allclose(gradients[name], linear.weight.grad.numpy().T, rtol=1e-4, atol=2e-4, err_msg=name)


def test_shifted_adds_one_scalar_after_the_activation(x):
    structure, parameters = filled(ShiftedFeedForward(width=D, hidden_width=F, rngs=nnx.Rngs(0)))
    w = wide(parameters)
    want = (np.maximum(x @ w["hidden.kernel"], 0) + w["shift.bias"]) @ w["output.kernel"]
    np.testing.assert_allclose(structure.merge(parameters)(jnp.asarray(x))[0], want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("layer", "settings", "count"),
    [
        (DenseFeedForward, {}, 2 * D * F + F + D),
        (GatedFeedForward, {}, 3 * D * F + 2 * F + D),
        (GatedFeedForward, {"use_bias": False}, 3 * D * F),
        (ShiftedFeedForward, {}, 2 * D * F + 1),
    ],
)
def test_counts_and_the_input_s_dtype(layer, settings, count, x):
    structure, parameters = filled(layer(width=D, hidden_width=F, rngs=nnx.Rngs(0), **settings))
    assert sum(p.size for p in parameters.values()) == count
    low, full = (structure.merge(parameters)(jnp.asarray(x, dtype))[0] for dtype in (jnp.bfloat16, jnp.float32))
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(jnp.float32), full, atol=0.05 * float(jnp.abs(full).max()))
