"""Layer norm without gain and bias, or without bias, or with detached statistics, against PyTorch in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.norms.detach_norm import DetachNorm
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.layers.norms.layer_norm_no_bias import LayerNormNoBias
from attention_research.layers.norms.layer_norm_simple import SimpleLayerNorm
from attention_research.layers.structure import split

D, EPSILON = 41, 1e-3
KINDS = {"detach_norm": DetachNorm, "layer_norm_simple": SimpleLayerNorm, "layer_norm_no_bias": LayerNormNoBias}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_torch(torch, x, *, detached):
    mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True, unbiased=False)
    if detached:
        mean, variance = mean.detach(), variance.detach()
    return (x - mean) / torch.sqrt(variance + EPSILON)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients_are_pytorchs(kind, torch):
    x, direction = 2 + 3 * normal(5, 7, D), normal(5, 7, D, seed=1)
    structure, parameters, _ = split(KINDS[kind](width=D, epsilon=EPSILON, rngs=nnx.Rngs(0)))
    values = {name: normal(*array.shape, seed=2 + len(name)) for name, array in parameters.items()}
    given = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in values.items()}
    tx = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    want = in_torch(torch, tx, detached=kind == "detach_norm")
    want = want * given.get("scale", 1.0) + given.get("bias", 0.0)
    (want * torch.tensor(direction)).sum().backward()

    def value(x, parameters):
        y = structure.merge(parameters)(x)
        return jnp.vdot(y, direction), y

    arrays = {name: jnp.asarray(array) for name, array in values.items()}
    (x_gradient, gradients), y = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(jnp.asarray(x), arrays)
    np.testing.assert_allclose(y, want.detach().numpy(), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(x_gradient, tx.grad.numpy(), rtol=1e-4, atol=1e-4 * float(tx.grad.abs().max()))
    for name, ours in gradients.items():
        theirs = given[name].grad.numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


def test_only_layer_norms_own_gradient_has_no_mean_and_nothing_along_its_output():
    """With a gain of one. The gradient of the detached norm keeps both components."""
    x, cotangent = jnp.asarray(2 + 3 * normal(3, D)), jnp.asarray(normal(3, D, seed=1) + 0.5)
    found = {}
    for make in (LayerNorm, DetachNorm, SimpleLayerNorm):
        norm = make(width=D, rngs=nnx.Rngs(0))
        y, pull = jax.vjp(norm, x)
        (gradient,) = pull(cotangent)
        found[make] = np.abs(gradient.mean(axis=-1)).max(), np.abs((gradient * y).mean(axis=-1)).max()
        np.testing.assert_allclose(y, LayerNorm(width=D, rngs=nnx.Rngs(0))(x), atol=1e-5)
    assert max(found[LayerNorm]) < 1e-5 and max(found[SimpleLayerNorm]) < 1e-5
    assert min(found[DetachNorm]) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_stays_bfloat16(kind):
    norm, x = KINDS[kind](width=D, rngs=nnx.Rngs(0)), jnp.asarray(normal(3, D))
    low = norm(x.astype(jnp.bfloat16))
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(jnp.float32), norm(x), rtol=0.02, atol=0.02)


def test_the_parameters_of_each():
    names = {make: set(split(make(width=D, rngs=nnx.Rngs(0)))[1]) for make in KINDS.values()}
    assert names == {DetachNorm: {"scale", "bias"}, SimpleLayerNorm: set(), LayerNormNoBias: {"scale"}}
