"""Filter-normalised directions and surfaces against NumPy, filter by filter and point by point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.li2018.loss_surface import curvatures, direction, roughness, surface

SHAPES = {
    "features.stem.kernel": (3, 3, 2, 5),
    "features.segments.0.convolution_1.kernel": (2, 3, 3, 5, 7),
    "features.norm.scale": (5,),
    "features.segments.0.norm_1.bias": (2, 7),
    "output.kernel": (7, 11),
}


@pytest.fixture(scope="module")
def parameters():
    rng = np.random.default_rng(0)
    return {name: jnp.asarray(rng.normal(size=shape) * 3, jnp.float32) for name, shape in SHAPES.items()}


def filters(name, x):
    """The input weights of each output of each layer."""
    layers = x if "segments" in name else x[None]
    return [layer[..., output].ravel() for layer in layers for output in range(layer.shape[-1])]


@pytest.mark.slow
def test_every_filter_of_a_direction_has_the_norm_of_the_networks(parameters):
    d, e = (direction(parameters, jax.random.key(number)) for number in range(2))
    for name, p in parameters.items():
        if name.endswith("kernel"):
            pairs = zip(filters(name, np.asarray(d[name])), filters(name, np.asarray(p)), strict=True)
            np.testing.assert_allclose(*zip(*((np.linalg.norm(a), np.linalg.norm(b)) for a, b in pairs), strict=True),
                                       rtol=1e-5)  # fmt: skip
            assert abs(np.corrcoef(np.ravel(d[name]), np.ravel(e[name]))[0, 1]) < 0.5
        else:
            assert not np.any(d[name])


def test_a_surface_is_the_loss_at_every_point(parameters):
    """A quadratic loss in float64. Columns vary along the first direction, rows along the second."""
    d, e = (direction(parameters, jax.random.key(number)) for number in range(2))
    loss = jax.jit(lambda p: sum(jnp.sum(jnp.square(x)) for x in p.values()))
    steps = np.linspace(-1, 1, 5)
    found = surface(loss, parameters, d, e, steps)
    exact = lambda a, b: sum(
        np.sum(np.square(np.float64(parameters[n]) + a * np.float64(d[n]) + b * np.float64(e[n]))) for n in SHAPES
    )
    np.testing.assert_allclose(found, [[exact(a, b) for a in steps] for b in steps], rtol=1e-5)
    assert roughness(found, steps) < 1e-9
    assert (curvatures(found, 0.5) > 0).all()


def test_negative_curvature_is_found():
    """cos has negative curvature where its value is positive."""
    steps = np.linspace(-3, 3, 61)
    values = np.cos(steps)[None] + np.cos(steps)[:, None]
    bent = curvatures(values, 0.1)
    inner = values[1:-1, 1:-1]
    assert ((bent[..., 0] < 0) == (np.maximum(np.cos(steps)[None, 1:-1], np.cos(steps)[1:-1, None]) > 1e-9)).all()
    assert inner.shape == bent.shape[:2] and roughness(values, steps) > 0.02
