"""CBAM's released gates against the same structure in PyTorch, in training and evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.vision.gates.normalized_cbam import NormalizedCBAM
from attention_research.layers.vision.gates.normalized_spatial import NormalizedSpatialGate

B, Y, X, C, SIZE = 3, 5, 7, 6, 3


def images():
    return np.random.default_rng(0).standard_normal((B, Y, X, C)).astype(np.float32)


def released(torch, gate, gain, bias):
    """(maximum, mean) -> convolution without bias -> batch norm -> sigmoid, in the released order of channels."""
    flipped = np.ascontiguousarray(np.asarray(gate.kernel[...])[:, :, ::-1].transpose(3, 2, 0, 1))
    convolution = torch.nn.Conv2d(2, 1, SIZE, padding=SIZE // 2, bias=False)
    norm = torch.nn.BatchNorm2d(1, momentum=0.1)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor(flipped))
        norm.weight.fill_(gain)
        norm.bias.fill_(bias)

    def gates(x):
        x = torch.tensor(np.asarray(x).transpose(0, 3, 1, 2))
        pooled = torch.cat([x.max(dim=1, keepdim=True)[0], x.mean(dim=1, keepdim=True)], dim=1)
        return torch.sigmoid(norm(convolution(pooled)))[:, 0]

    return gates, norm


@pytest.mark.slow
def test_gates_and_moments_are_pytorchs_in_training_and_evaluation(torch):
    gate = NormalizedSpatialGate(size=SIZE, channels=C, rngs=nnx.Rngs(0))
    gate.norm.scale[...], gate.norm.bias[...] = jnp.full((1,), 1.5), jnp.full((1,), -0.25)
    theirs, norm = released(torch, gate, 1.5, -0.25)
    x = images()
    for training in (True, False):
        norm.train(training)
        y, found = gate(jnp.asarray(x), training=training)
        expected = theirs(x).detach().numpy()
        np.testing.assert_allclose(found["pixels"], expected, atol=2e-6)
        np.testing.assert_allclose(y, x * expected[..., None], atol=5e-6)
        if training:
            gate.norm.mean[...], gate.norm.variance[...] = (found["updates"]["norm"][k] for k in ("mean", "variance"))
            np.testing.assert_allclose(gate.norm.mean[...], norm.running_mean, atol=2e-6)
            np.testing.assert_allclose(gate.norm.variance[...], norm.running_var, rtol=2e-6)
        else:
            assert not found["updates"]


@pytest.mark.slow
def test_gates_start_at_a_half_and_can_change():
    gate = NormalizedSpatialGate(size=SIZE, channels=C, rngs=nnx.Rngs(0))
    y, found = gate(jnp.asarray(images()), training=True)
    np.testing.assert_array_equal(found["pixels"], np.full((B, Y, X), 0.5))
    np.testing.assert_allclose(y, images() / 2)

    structure, parameters, statistics = nnx.split(gate, nnx.Param, ...)
    loss = lambda p: nnx.merge(structure, p, statistics)(jnp.asarray(images()), training=True)[0].sum()
    assert np.any(jax.grad(loss)(parameters)["norm"]["scale"][...])


@pytest.mark.slow
def test_channels_come_first(torch):
    cbam = NormalizedCBAM(reduction=2, size=SIZE, channels=C, rngs=nnx.Rngs(0))
    cbam.spatial.norm.scale[...] = jnp.ones((1,))
    x = images()
    y, found = cbam(jnp.asarray(x), training=True)
    reduce, expand = (np.asarray(kernel, np.float64) for kernel in cbam.excitation.kernels())
    logits = sum(np.maximum(pool @ reduce, 0) @ expand for pool in (x.mean((1, 2)), x.max((1, 2))))
    channels = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(found["channels"], channels, atol=2e-6)
    gated = (x * channels[:, None, None]).astype(np.float32)
    expected = released(torch, cbam.spatial, 1.0, 0.0)[0](gated).detach().numpy()
    np.testing.assert_allclose(found["pixels"], expected, atol=5e-6)
    np.testing.assert_allclose(y, gated * expected[..., None], atol=1e-5)
    assert set(found["updates"]) == {"spatial"}
