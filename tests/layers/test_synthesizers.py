"""Synthesizers as in Narang et al. 2021, against their equations in PyTorch in float64; counts as published."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.kernels.masks import padding_mask
from attention_research.layers.attention.t5 import T5Bias
from attention_research.layers.structure import abstract
from attention_research.registry import lookup

B, T, D, N, H, LENGTH, R = 2, 7, 10, 3, 4, 13, 2
BUCKETS, FAR = 8, 5
BASES = ("dense", "random", "factorized", "low_rank")
KINDS = [f"{base}_synthesizer" for base in BASES] + [
    f"{base}_synthesizer_plus{alpha}" for base in ("dense", "random") for alpha in ("", "_alpha")
]
REAL = np.arange(T) < np.array([[T], [5]])


def layer(kind, width=D, heads=N, head_width=H, length=LENGTH, **settings):
    made = lookup("attention", kind)
    sizes = dict(width=width, num_heads=heads, head_width=head_width, max_length=length, **settings)
    return abstract(lambda rngs: made(**sizes, rngs=rngs))[:2]


def filled(kind):
    """(structure, parameters, the stack's bias table), all nonzero."""
    structure, shapes = layer(kind, **({"rank": R} if kind.startswith(("factorized", "low_rank")) else {}))
    rng = np.random.default_rng(0)
    parameters = {name: jnp.asarray(rng.normal(size=x.shape), x.dtype) for name, x in shapes.items()}
    return structure, parameters, jnp.asarray(rng.normal(size=(BUCKETS, N)), jnp.float32)


def bias_of(table):
    bias, _, _ = abstract(lambda rngs: T5Bias(width=D, num_heads=N, num_buckets=BUCKETS, max_distance=FAR, rngs=rngs))
    return bias.merge({"table": table})


def bucket(distance, bidirectional):
    """The released buckets of Raffel et al. 2020 for one distance (key minus query)."""
    count, start = BUCKETS, 0
    if bidirectional:
        count //= 2
        start, distance = (count, distance) if distance > 0 else (0, -distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return start + distance
    far = exact + int(math.log(distance / exact) / math.log(FAR / exact) * (count - exact) + 1e-9)
    return start + min(far, count - 1)


def oracle(kind, p, table, x, is_causal, real):
    """(y, weights) from the equations, in PyTorch."""
    import torch

    heads = lambda name: (x @ p[f"{name}.kernel"]).reshape(B, T, N, H)
    base = next(base for base in BASES if kind.startswith(base))
    if base == "dense":
        synthetic = torch.einsum("binh,hj->bnij", torch.relu(heads("query")), p["score.kernel"][:, :T])
    elif base == "random":
        synthetic = torch.stack([p["score_table"][:T, n, :T] for n in range(N)])[None]
    elif base == "low_rank":
        synthetic = torch.einsum("rni,rnj->nij", p["left_table"][..., :T], p["right_table"][..., :T])[None]
    else:  # the release: both tables over the keys, the same row for all queries
        row = (p["left_table"] * p["right_table"]).sum(0)[:, :T]
        synthetic = row[None, :, None].expand(1, N, T, T)
    scores = synthetic
    if "plus" in kind:
        dot = torch.einsum("binh,bjnh->bnij", heads("query"), heads("key"))
        a = torch.sigmoid(p["alpha"]) if kind.endswith("alpha") else None
        scores = dot + synthetic if a is None else (1 - a) * dot + a * synthetic
    buckets = torch.tensor([[bucket(j - i, not is_causal) for j in range(T)] for i in range(T)])
    scores = scores + table[buckets].permute(2, 0, 1)
    visible = torch.tensor(real)[:, None, None, :].expand(B, 1, T, T)
    visible = visible.tril() if is_causal else visible
    weights = torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)
    context = torch.einsum("bnij,bjnh->binh", weights, heads("value"))
    return context.reshape(B, T, N * H) @ p["output.kernel"], weights


#: Their gradients have a subset of the terms of the others.
SLOW = ("dense_synthesizer_plus", "random_synthesizer_plus", "random_synthesizer", "low_rank_synthesizer")
QUICKLY = [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in KINDS]


@pytest.mark.parametrize("is_causal", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize("kind", QUICKLY)
def test_layers_weights_and_gradients_are_pytorchs(kind, is_causal, torch):
    structure, parameters, table = filled(kind)
    rng = np.random.default_rng(1)
    x, direction = rng.standard_normal((2, B, T, D))

    tensors = {n: torch.tensor(np.asarray(p, np.float64), requires_grad=True) for n, p in parameters.items()}
    tx, tt = (torch.tensor(np.asarray(value, np.float64), requires_grad=True) for value in (x, table))
    theirs, weights = oracle(kind, tensors, tt, tx, is_causal, REAL)
    (theirs * torch.tensor(direction)).sum().backward()

    def value(parameters, x, table):
        mask = padding_mask(jnp.asarray(REAL))
        y, aux = structure.merge(parameters)(x, mask=mask, is_causal=is_causal, shared=bias_of(table))
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), (y, aux["attention_weights"])

    run = jax.jit(jax.grad(value, argnums=(0, 1, 2), has_aux=True))
    gradients, ours = run(parameters, jnp.asarray(x, jnp.float32), table)
    np.testing.assert_allclose(ours[0], theirs.detach().numpy(), atol=5e-5)
    np.testing.assert_allclose(ours[1], weights.detach().numpy(), atol=1e-5)
    for name, tensor in {**tensors, "x": tx, "table": tt}.items():
        got = {**gradients[0], "x": gradients[1], "table": gradients[2]}[name]
        scale = max(1.0, float(tensor.grad.abs().max()))
        np.testing.assert_allclose(got, tensor.grad.numpy(), atol=3e-5 * scale, err_msg=name)
        assert np.abs(got).max() > 1e-4, name


@pytest.mark.parametrize("kind", QUICKLY)
def test_steps_equal_the_causal_form(kind):
    """The cache is shorter than the tables. A pure Synthesizer caches values only."""
    structure, parameters, table = filled(kind)
    module, shared = structure.merge(parameters), bias_of(table)
    x = jax.random.normal(jax.random.key(0), (B, T, D))
    expected, aux = jax.jit(lambda x: module(x, is_causal=True, shared=shared))(x)
    cache, step = module.start(B, 9, x.dtype), jax.jit(lambda *now: module.step(*now, shared=shared))
    assert set(cache) == ({"key", "value"} if "plus" in kind else {"value"})
    for t in range(T):
        y, cache, stepped = step(x[:, t : t + 1], cache, jnp.asarray(t))
        np.testing.assert_allclose(y[:, 0], expected[:, t], atol=3e-5)
        weights = stepped["attention_weights"][:, :, 0]
        np.testing.assert_allclose(weights[..., :T], aux["attention_weights"][:, :, t], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_stays_bfloat16(kind):
    structure, parameters, table = filled(kind)
    module, shared, x = structure.merge(parameters), bias_of(table), jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16)
    for mask in (None, padding_mask(jnp.asarray(REAL))):
        y, _ = jax.eval_shape(lambda x, mask=mask: module(x, mask=mask, shared=shared), x)
        assert y.dtype == jnp.bfloat16
    step = lambda x: module.step(x[:, :1], module.start(B, T, x.dtype), jnp.asarray(0), shared=shared)
    y, cache, _ = jax.eval_shape(step, x)
    assert y.dtype == cache["value"].dtype == jnp.bfloat16


@pytest.mark.parametrize(("kind", "alike"), [("factorized_synthesizer", True), ("low_rank_synthesizer", False)])
def test_the_released_factorized_form_has_one_row_of_scores(kind, alike):
    """Without masks and with a bias of zero, every position attends alike; in the form as published none does."""
    structure, parameters, table = filled(kind)
    y = jax.jit(lambda x: structure.merge(parameters)(x, shared=bias_of(jnp.zeros_like(table)))[0])(
        jax.random.normal(jax.random.key(0), (B, T, D))
    )
    assert (np.ptp(np.asarray(y), axis=1).max() < 1e-5) == alike


@pytest.mark.parametrize("kind", ["dense_synthesizer", "random_synthesizer_plus"])
def test_a_row_without_visible_positions_is_zero(kind):
    structure, parameters, table = filled(kind)
    mask = padding_mask(jnp.asarray(REAL).at[1].set(False))
    run = jax.jit(lambda x: structure.merge(parameters)(x, mask=mask, shared=bias_of(table))[0])
    y = np.asarray(run(jnp.ones((B, T, D))))
    assert (y[1] == 0).all() and (y[0] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_longer_than_the_tables_is_refused(kind):
    structure, parameters, table = filled(kind)
    module, shared = structure.merge(parameters), bias_of(table)
    with pytest.raises(ValueError, match="14 positions are more than its max_length 13"):
        jax.eval_shape(lambda x: module(x, shared=shared), jnp.ones((B, LENGTH + 1, D)))
    with pytest.raises(ValueError, match="14 positions"):
        cache = module.start(B, LENGTH + 1, jnp.float32)
        jax.eval_shape(lambda x: module.step(x, cache, jnp.asarray(0), shared=shared), jnp.ones((B, 1, D)))


#: Kind -> parameters of the model in Narang et al. 2021, rows with relative bias. A layer has 8 heads of width 128.
MODELS = {
    "dense_synthesizer": 224_615_936,
    "dense_synthesizer_plus": 243_490_304,
    "dense_synthesizer_plus_alpha": 243_490_328,
    "factorized_synthesizer": 207_314_432,
    "low_rank_synthesizer": 207_314_432,
    "random_synthesizer": 254_500_352,
    "random_synthesizer_plus": 292_249_088,
    "random_synthesizer_plus_alpha": 292_249_112,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_are_those_of_the_release(kind):
    _, shapes = layer(kind, width=768, heads=8, head_width=128, length=512)
    count = sum(math.prod(x.shape) for x in shapes.values())
    projections = {"dense": 3, "random": 2, "factorized": 2, "low_rank": 2}
    tables = {"dense": 128 * 512, "random": 8 * 512**2, "factorized": 2 * 16 * 8 * 512, "low_rank": 2 * 16 * 8 * 512}
    base = next(base for base in BASES if kind.startswith(base))
    wide = 4 if "plus" in kind else projections[base]
    assert count == wide * 768 * 1024 + tables[base] + kind.endswith("alpha")
    assert 223_043_328 + 24 * (count - 4 * 768**2) - 2 * 32 * (12 - 8) == MODELS[kind]
