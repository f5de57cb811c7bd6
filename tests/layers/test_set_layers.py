"""The layers of Set Transformers against the released modules in PyTorch; permutations, padding, refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError
from attention_research.kernels.masks import padding_mask
from attention_research.layers.structure import abstract
from attention_research.registry import lookup

B, S, D, N, M, K = 2, 7, 12, 3, 5, 2
REAL = np.arange(S) < np.array([[S], [4]])


@functools.cache
def made(family, kind, **settings):
    """(structure, parameters) of a layer, with NumPy's random numbers as parameters."""
    given = {"width": D, "num_points": M} if family == "encoder_attention" else {"input_width": D, "num_seeds": K}
    make = lambda rngs: lookup(family, kind)(**given, num_heads=N, **settings, rngs=rngs)
    structure, shapes, _ = abstract(make)
    rng = np.random.default_rng(1)
    return structure, {
        name: jnp.float32(rng.standard_normal(x.shape) * 0.5 + name.endswith("scale")) for name, x in shapes.items()
    }


def elements(seed=0):
    return jnp.float32(np.random.default_rng(seed).standard_normal((B, S, D)))


def torch_block(torch, p, x, y, real=None):
    """`MAB.forward` of juho-lee/set_transformer, modules.py, with a mask of the elements of y."""
    p = {name: torch.tensor(np.asarray(value, np.float64)) for name, value in p.items()}
    linear = lambda name, z: z @ p[f"{name}.kernel"] + p[f"{name}.bias"]
    heads = lambda z: torch.cat(z.split(D // N, 2), 0)
    q, k, v = linear("query", x), linear("key", y), linear("value", y)
    scores = heads(q).bmm(heads(k).transpose(1, 2)) / np.sqrt(D)
    if real is not None:
        scores = scores.masked_fill(~torch.tensor(np.tile(real, (N, 1)))[:, None], -torch.inf)
    weights = torch.softmax(scores, 2)
    out = torch.cat((heads(q) + weights.bmm(heads(v))).split(len(x), 0), 2)
    norm = lambda name, z: torch.nn.functional.layer_norm(z, (D,), p[f"{name}.scale"], p[f"{name}.bias"], 1e-6)
    out = norm("norm", out) if "norm.scale" in p else out
    out = out + torch.relu(linear("output", out))
    out = norm("norm_2", out) if "norm_2.scale" in p else out
    return out, weights.reshape(N, len(x), *weights.shape[1:]).transpose(0, 1)


def under(p, prefix):
    return {name.removeprefix(f"{prefix}."): value for name, value in p.items() if name.startswith(f"{prefix}.")}


@pytest.mark.parametrize("normalize", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_isab_is_the_released_module(normalize, torch):
    structure, p = made("encoder_attention", "isab", normalize=normalize)
    run = jax.jit(lambda p, x, real: structure.merge(p)(x, mask=padding_mask(real)))
    x = elements()
    y, aux = run(p, x, jnp.asarray(REAL))
    set_ = torch.tensor(np.asarray(x, np.float64))
    points = torch.tensor(np.asarray(p["points"], np.float64)).expand(B, M, D)
    summary, _ = torch_block(torch, under(p, "summary_attention"), points, set_, REAL)
    want, weights = torch_block(torch, under(p, "reading_attention"), set_, summary)
    np.testing.assert_allclose(y, want, atol=2e-5)
    np.testing.assert_allclose(aux["attention_weights"], weights, atol=1e-5)
    order = np.random.default_rng(2).permutation(S)
    moved, _ = run(p, x[:, order], jnp.asarray(REAL[:, order]))
    np.testing.assert_allclose(moved, y[:, order], atol=2e-5)  # equivariance
    other, _ = run(p, jnp.where(REAL[..., None], x, 9.0), jnp.asarray(REAL))
    np.testing.assert_array_equal(np.where(REAL[..., None], other, 0), np.where(REAL[..., None], y, 0))


@pytest.mark.parametrize("normalize", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pma_is_the_released_module(normalize, torch):
    structure, p = made("pooling", "pma", normalize=normalize)
    run = jax.jit(lambda p, x, real: structure.merge(p)(x, {}, real))
    x = elements()
    vector, aux = run(p, x, jnp.asarray(REAL))
    seeds = torch.tensor(np.asarray(p["seeds"], np.float64)).expand(B, K, D)
    want, weights = torch_block(torch, under(p, "attention"), seeds, torch.tensor(np.asarray(x, np.float64)), REAL)
    np.testing.assert_allclose(vector, want.reshape(B, K * D), atol=2e-5)
    np.testing.assert_allclose(aux["weights"], weights.mean((1, 2)), atol=1e-6)
    np.testing.assert_allclose(aux["weights"].sum(1), 1, atol=1e-6)
    order = np.random.default_rng(2).permutation(S)
    moved, _ = run(p, jnp.where(REAL[..., None], x, 9.0)[:, order], jnp.asarray(REAL[:, order]))
    np.testing.assert_allclose(moved, vector, atol=2e-5)  # invariance, and padding does not matter


def test_a_set_without_elements_has_the_vectors_of_the_seeds():
    structure, p = made("pooling", "pma", normalize=False)
    run = lambda p, x: structure.merge(p)(x, {}, jnp.zeros((B, S), bool))
    vector, aux = jax.jit(run)(p, elements())
    seeds = p["seeds"] @ p["attention.query.kernel"] + p["attention.query.bias"]
    seeds = seeds + jax.nn.relu(seeds @ p["attention.output.kernel"] + p["attention.output.bias"])
    np.testing.assert_allclose(vector, np.tile(seeds.reshape(-1), (B, 1)), atol=1e-5)
    assert not aux["weights"].any()
    gradient = jax.jit(jax.grad(lambda x: run(p, x)[0].sum()))(elements())
    assert not gradient.any()


def test_what_cannot_be_is_refused(root):
    from attention_research.config import load

    structure, p = made("encoder_attention", "isab", normalize=False)
    with pytest.raises(ValueError, match=r"isab takes only a key mask \[B 1 1 S\]"):
        structure.merge(p)(elements(), mask=jnp.ones((B, 1, S, S), bool))
    with pytest.raises(ConfigError, match="num_heads: 5 heads do not divide the width 12"):
        lookup("pooling", "pma")(num_heads=5, input_width=D, rngs=nnx.Rngs(0))
    config = load(f"{root}/configs/translation/transformer.py:smoke")
    with pytest.raises(ConfigError, match="cannot be causal"):
        config.override([("model.decoder.self_attention.kind", "isab")])
    with pytest.raises(ConfigError, match="num_heads: 5 heads do not divide"):
        config.override([("model.encoder.self_attention", {"kind": "isab", "num_heads": 5})])
    with pytest.raises(ConfigError, match="isab .* summarises the whole row"):
        config.override([("model.encoder.self_attention.kind", "isab"), ("data.batching", {"kind": "packed"})])
