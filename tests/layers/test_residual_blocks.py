"""Whole Fixup and ReZero blocks against float64 NumPy: x + s f(x + b), x + alpha f(x), x + alpha f(LN(x))."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.block import Block
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.feed_forward.shifted import ShiftedFeedForward
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.layers.residuals.rezero import ReZero
from attention_research.layers.residuals.scaled import ScaledResidual
from attention_research.layers.structure import split

B, T, S, D, N, F = 2, 5, 7, 9, 3, 17
LAYERS = ("self_attention", "cross_attention", "feed_forward")
#: The parts around each layer, and the block's residual and feed-forward.
BLOCKS = {
    "fixup": (("shift",), ScaledResidual, functools.partial(ShiftedFeedForward, width=D, hidden_width=F)),
    "rezero": ((), ReZero, functools.partial(DenseFeedForward, width=D, hidden_width=F)),
    "rezero_layer_norm": (("norm",), ReZero, functools.partial(DenseFeedForward, width=D, hidden_width=F)),
}


def block(name, rngs=None):
    before, residual, feed_forward = BLOCKS[name]
    attention = functools.partial(StandardAttention, width=D, num_heads=N, head_width=None, use_bias=False)
    children = {
        "self_attention": attention,
        "cross_attention": attention,
        "feed_forward": feed_forward,
        "norm": functools.partial(LayerNorm, width=D, epsilon=1e-6),
        "residual": residual,
    }
    steps = tuple((*before, layer, "dropout", "residual") for layer in LAYERS)
    return Block(steps=steps, children=children, dropout_rate=0.0, rngs=rngs or nnx.Rngs(0))


def attend(w, name, x, memory, causal):
    """Attention row by row and head by head."""
    y, width = np.zeros_like(x), D // N
    for b in range(B):
        q, k, v = x[b] @ w[f"{name}.query.kernel"], memory[b] @ w[f"{name}.key.kernel"], memory[b]
        v = v @ w[f"{name}.value.kernel"]
        heads = []
        for h in range(N):
            own = slice(h * width, (h + 1) * width)
            scores = q[:, own] @ k[:, own].T / np.sqrt(width)
            if causal:
                scores[np.triu_indices(T, 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, own])
        y[b] = np.concatenate(heads, -1) @ w[f"{name}.output.kernel"]
    return y


def oracle(name, w, x, memory):
    """The block's equation, branch by branch."""
    for number, layer in enumerate(LAYERS):
        suffix = "" if number == 0 else f"_{number + 1}"
        y = x
        if name == "fixup":
            y = y + w[f"shift{suffix}.bias"]
        if name == "rezero_layer_norm":
            y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
            y = y * w[f"norm{suffix}.scale"] + w[f"norm{suffix}.bias"]
        if layer != "feed_forward":
            y = attend(w, layer, y, y if layer == "self_attention" else memory, layer == "self_attention")
        elif name == "fixup":
            hidden = np.maximum(y @ w["feed_forward.hidden.kernel"], 0) + w["feed_forward.shift.bias"]
            y = hidden @ w["feed_forward.output.kernel"]
        else:
            hidden = np.maximum(y @ w["feed_forward.hidden.kernel"] + w["feed_forward.hidden.bias"], 0)
            y = hidden @ w["feed_forward.output.kernel"] + w["feed_forward.output.bias"]
        x = x + w[f"residual{suffix}.{'scale' if name == 'fixup' else 'alpha'}"] * y
    return x


@pytest.mark.parametrize("name", BLOCKS)
def test_block_is_its_equation(name):
    """Outputs, and the gradients of all scalars by central differences of the oracle."""
    rng = np.random.default_rng(0)
    x, memory, direction = (rng.standard_normal(shape) for shape in ((B, T, D), (B, S, D), (B, T, D)))
    structure, parameters, _ = split(block(name))
    values = {n: rng.standard_normal(p.shape) * (p.shape[0] ** -0.5 if p.ndim else 0.8) for n, p in parameters.items()}

    def value(parameters):
        inputs = {
            "self_attention": {"is_causal": True},
            "cross_attention": {"memory": jnp.asarray(memory, jnp.float32)},
        }
        y, _ = structure.merge(parameters)(jnp.asarray(x, jnp.float32), inputs)
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), y

    narrow = {n: jnp.asarray(v, jnp.float32) for n, v in values.items()}
    gradients, y = jax.jit(jax.grad(value, has_aux=True))(narrow)
    np.testing.assert_allclose(y, oracle(name, values, x, memory), rtol=1e-4, atol=1e-4)

    scalars = {n for n, v in values.items() if v.ndim == 0} if name == "fixup" else {n for n in values if "alpha" in n}
    # Fixup: b and s of three branches and the bias inside the feed-forward. ReZero: alpha of three branches.
    assert len(scalars) == (7 if name == "fixup" else 3)
    for scalar in scalars:
        at = lambda h: np.sum(direction * oracle(name, {**values, scalar: values[scalar] + h}, x, memory))  # noqa: B023
        want = (at(1e-5) - at(-1e-5)) / 2e-5
        np.testing.assert_allclose(gradients[scalar], want, rtol=2e-3, atol=2e-3, err_msg=scalar)


@pytest.mark.parametrize("name", ["rezero", "rezero_layer_norm"])
def test_rezero_begins_as_the_identity(name):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((B, T, D)), jnp.float32)
    of = block(name)
    y = jax.jit(lambda x: of(x, {"cross_attention": {"memory": x}})[0])(x)
    np.testing.assert_array_equal(y, x)
