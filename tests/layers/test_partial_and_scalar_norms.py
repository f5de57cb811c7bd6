"""Partial RMSNorm and the scalars at the ends of Fixup's stacks, against float64 NumPy and PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.errors import ConfigError
from attention_research.layers.norms.partial_rms_norm import PartialRMSNorm
from attention_research.layers.norms.rms_norm import RMSNorm
from attention_research.layers.norms.scalar_shift import ScalarShift
from attention_research.layers.norms.scalar_shift_scale import ScalarShiftScale
from attention_research.layers.structure import split

D = 41


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_values(module, **values):
    structure, parameters, _ = split(module)
    assert parameters.keys() == values.keys()
    return lambda x, values=values: structure.merge({n: jnp.asarray(v, jnp.float32) for n, v in values.items()})(x)


@pytest.mark.parametrize(("fraction", "channels"), [(0.0675, 3), (0.25, 11), (0.02, 1), (1.0, D)])
def test_partial_rms_norm_is_its_equation(fraction, channels, torch):
    """Outputs, and gradients by PyTorch in float64."""
    x, scale, direction = 3 * normal(5, 7, D), normal(D, seed=1), normal(5, 7, D, seed=2)
    structure, parameters, _ = split(PartialRMSNorm(width=D, fraction=fraction, epsilon=1e-3, rngs=nnx.Rngs(0)))
    assert {n: p.shape for n, p in parameters.items()} == {"scale": (D,)}
    tx, ts = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, scale))
    mean_square = sum(tx[..., i] ** 2 for i in range(channels)) / channels
    want = tx / torch.sqrt(mean_square + 1e-3)[..., None] * ts
    (want * torch.tensor(direction)).sum().backward()

    def value(x, scale):
        y = structure.merge({"scale": scale})(x)
        return jnp.vdot(y, direction), y

    gradients, y = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(jnp.asarray(x), jnp.asarray(scale))
    np.testing.assert_allclose(y, want.detach().numpy(), rtol=2e-5, atol=1e-6)
    for ours, theirs in zip(gradients, (tx.grad, ts.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


def test_52_of_768_channels_as_released():
    assert PartialRMSNorm(width=768, fraction=0.0675, rngs=nnx.Rngs(0)).channels == 52


def test_all_channels_are_the_whole_rms_norm():
    x = jnp.asarray(normal(3, D))
    whole, partial = RMSNorm(width=D, rngs=nnx.Rngs(0)), PartialRMSNorm(width=D, fraction=1.0, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(partial(x), whole(x), rtol=1e-6)


def test_more_channels_than_exist_are_refused():
    with pytest.raises(ConfigError, match="fraction"):
        PartialRMSNorm(width=D, fraction=1.1, rngs=nnx.Rngs(0))


def test_the_ends_of_fixup_s_stacks():
    x = normal(2, 3, D)
    scaled = with_values(ScalarShiftScale(rngs=nnx.Rngs(0)), bias=0.7, scale=-1.3)
    np.testing.assert_allclose(scaled(jnp.asarray(x)), (x.astype(np.float64) + 0.7) * -1.3, rtol=1e-6, atol=1e-6)
    shifted = with_values(ScalarShift(rngs=nnx.Rngs(0)), bias=0.7)
    np.testing.assert_allclose(shifted(jnp.asarray(x)), x.astype(np.float64) + 0.7, rtol=1e-6, atol=1e-6)
    for make in (ScalarShift, ScalarShiftScale):
        np.testing.assert_array_equal(make(rngs=nnx.Rngs(0))(jnp.asarray(x)), x)


@pytest.mark.parametrize("make", [lambda **k: PartialRMSNorm(width=D, **k), ScalarShift, ScalarShiftScale])
def test_bfloat16_stays_bfloat16(make):
    norm, x = make(rngs=nnx.Rngs(0)), jnp.asarray(normal(3, D))
    low = norm(x.astype(jnp.bfloat16))
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(jnp.float32), norm(x), rtol=0.02, atol=0.02)
