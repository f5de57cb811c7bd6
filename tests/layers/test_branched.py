"""The Weighted Transformer's attention against float64 NumPy, head by head, with Hugging Face's relative bias."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.attention.branched import BranchedAttention
from attention_research.layers.attention.branched_t5 import BranchedT5Attention
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.feed_forward.mixture_of_experts import MixtureOfExperts
from attention_research.layers.structure import abstract, split

B, T, S, D, N, H, F = 2, 7, 11, 13, 3, 5, 17
BUCKETS, DISTANCE = 8, 9


def made(kind, feed_forward=None, width=D, num_heads=N, head_width=H, hidden_width=F, **settings):
    feed_forward = feed_forward or functools.partial(DenseFeedForward, width=width, hidden_width=hidden_width)
    settings |= {"width": width, "num_heads": num_heads, "head_width": head_width, "feed_forward": feed_forward}
    return lambda rngs: kind(rngs=rngs, **settings)


def moved(kind, **settings):
    """(a module with random parameters, the same in float64)."""
    structure, shapes, _ = abstract(made(kind, **settings))
    rng = np.random.default_rng(1)
    parameters = {name: 0.5 * rng.standard_normal(x.shape) for name, x in shapes.items()}
    return structure.merge({name: jnp.asarray(x, jnp.float32) for name, x in parameters.items()}), parameters


def by_the_equation(p, x, memory, bias, may):
    """y_t = sum_h alpha_h FFN(kappa_h (sum_s a_hts v_hs) O_h), a = softmax over visible s of q . k + bias."""
    y = np.zeros(x.shape)
    q, k, v = (z @ p[f"{name}.kernel"] for name, z in (("query", x), ("key", memory), ("value", memory)))
    w1, b1, w2, b2 = (
        p[f"branches.feed_forward.{n}"] for n in ("hidden.kernel", "hidden.bias", "output.kernel", "output.bias")
    )
    for b, t, h in np.ndindex(len(x), x.shape[1], N):
        own = slice(h * H, (h + 1) * H)
        seen = np.flatnonzero(may[b, t])
        exponents = np.exp(k[b, seen, own] @ q[b, t, own] + bias[h, t, seen])
        head = exponents / exponents.sum() @ v[b, seen, own] @ p["output.kernel"][own]
        y[b, t] += p["branches.alpha"][h] * (np.maximum(p["branches.kappa"][h] * head @ w1 + b1, 0) @ w2 + b2)
    return y


def their_bias(table, causal, length):
    """[N T T]: the bias of Hugging Face's T5 with this table."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from transformers.models.t5.modeling_t5 import T5Attention as TheirT5

    buckets = TheirT5._relative_position_bucket(
        torch.arange(length)[None] - torch.arange(length)[:, None], bidirectional=not causal,
        num_buckets=BUCKETS, max_distance=DISTANCE,
    )  # fmt: skip
    return np.moveaxis(np.asarray(table, np.float64)[buckets.numpy()], -1, 0)


def inputs(length, seed=0):
    return np.random.default_rng(seed).standard_normal((B, length, D)).astype(np.float32)


def test_branches_over_a_memory_are_the_equation():
    module, p = moved(BranchedAttention)
    x, memory = inputs(T), inputs(S, 1)
    real = np.arange(S) < np.array([S, S - 4])[:, None]
    mask = jnp.asarray(real)[:, None, None, :]
    wanted = by_the_equation(p, x, memory, np.zeros((N, T, S)), np.broadcast_to(real[:, None], (B, T, S)))
    y, aux = jax.jit(lambda x, memory: module(x, memory, mask=mask))(x, memory)
    np.testing.assert_allclose(y, wanted, atol=2e-4)
    assert aux["attention_weights"].shape == (B, N, T, S)
    recalled = jax.jit(lambda x, memory: module.attend_cached(x, module.cache_memory(memory, mask=mask))[0])(x, memory)
    np.testing.assert_allclose(recalled, y, atol=1e-5)


@pytest.mark.parametrize("causal", (False, True), ids=("encoder", "decoder"))
@pytest.mark.parametrize("kind", (BranchedAttention, pytest.param(BranchedT5Attention, marks=pytest.mark.slow)))
def test_branches_of_a_sequence_are_the_equation(kind, causal):
    t5 = {"num_buckets": BUCKETS, "max_distance": DISTANCE} if kind is BranchedT5Attention else {}
    (module, p), x = moved(kind, **t5), inputs(S)
    sizes = {"width": D, "num_heads": N, "rngs": nnx.Rngs(2), **t5}
    shared = kind.owned_by_stack(**sizes) if t5 else None
    bias = their_bias(shared.table[...], causal, S) if t5 else np.zeros((N, S, S))
    may = np.broadcast_to(np.tril(np.ones((S, S), bool)) if causal else True, (B, S, S))
    y = jax.jit(lambda x: module(x, is_causal=causal, shared=shared)[0])(x)
    np.testing.assert_allclose(y, by_the_equation(p, x, x, bias, may), atol=2e-4)


def test_every_parameter_has_a_gradient():
    module, _ = moved(BranchedAttention)
    gradients = jax.jit(jax.grad(lambda module: jnp.sum(jnp.sin(module(jnp.asarray(inputs(T)))[0]))))(module)
    assert all(float(jnp.abs(g).max()) > 1e-4 for g in jax.tree.leaves(gradients))


def test_initial_weights_are_between_0_and_1():
    branches = made(BranchedAttention, num_heads=500)(nnx.Rngs(0)).branches
    for weights in (branches.kappa[...], branches.alpha[...]):
        assert 0 <= float(weights.min()) < 0.02 and 0.98 < float(weights.max()) <= 1
        assert float(weights.mean()) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("kind", (BranchedAttention, BranchedT5Attention))
def test_parameters_of_table_1(kind):
    """4 D^2 + FFN + 2 heads with FFN = 2 D 3072 + 3072 + D: Narang et al. 2021."""
    shapes = abstract(made(kind, width=768, num_heads=12, head_width=64, hidden_width=3072))[1]
    assert sum(math.prod(x.shape) for x in shapes.values()) == 4 * 768**2 + 2 * 768 * 3072 + 3072 + 768 + 24


def test_feed_forwards_with_auxiliary_outputs_are_refused():
    dense = functools.partial(DenseFeedForward, width=D, hidden_width=F)
    experts = functools.partial(MixtureOfExperts, width=D, num_experts=3, expert=dense)
    with pytest.raises(ConfigError, match="feed_forward: branches do not pass on its loss, metrics"):
        jax.eval_shape(lambda x: made(BranchedAttention, experts)(nnx.Rngs(0))(x), jnp.asarray(inputs(T)))


def test_bfloat16_in_bfloat16_out():
    module, _ = moved(BranchedAttention)
    y = jax.eval_shape(lambda x: module(x)[0], jnp.asarray(inputs(T), jnp.bfloat16))
    assert y.dtype == jnp.bfloat16
    assert all(x.dtype == jnp.float32 for x in split(module)[1].values())
