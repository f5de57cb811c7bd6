"""The Evolved Transformer's layers against PyTorch in float64: convolutions, layer norms, gradients; their counts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.kernels.masks import padding_mask, segment_mask
from attention_research.layers.convolution.evolved_decoder import EvolvedDecoderConvolution
from attention_research.layers.convolution.evolved_encoder import EvolvedEncoderConvolution
from attention_research.layers.convolution.separable import SeparableConvolution
from attention_research.layers.feed_forward.gated_linear_unit import GatedLinearUnit
from attention_research.layers.structure import abstract, split

B, T, D = 2, 13, 7
HALF = 3
SEGMENTS = jnp.asarray([[1] * 5 + [2] * 4 + [0] * 4, [1] * 3 + [2] * 10], jnp.int32)
REAL = jnp.arange(T) < jnp.asarray([[9], [13]])
MASKS = {"none": None, "padding": padding_mask(REAL), "packed": segment_mask(SEGMENTS, SEGMENTS)}
#: Windows shorter than a row, with different lengths. An even one extends further to the left.
KINDS = {
    "gated_linear_unit": functools.partial(GatedLinearUnit, width=D),
    "encoder": functools.partial(EvolvedEncoderConvolution, width=D, kernel_width=5),
    "encoder_even": functools.partial(EvolvedEncoderConvolution, width=D, right_kernel_width=2, kernel_width=4),
    "decoder": functools.partial(EvolvedDecoderConvolution, width=D, left_kernel_width=5, right_kernel_width=4,
                                 kernel_width=3),
}  # fmt: skip
MASKED = [(kind, mask) for kind in KINDS for mask in MASKS if kind != "gated_linear_unit" or mask == "none"]


def layer(kind):
    """(structure, parameters) with nonzero parameters, so that a missing one is noticed."""
    structure, shapes, _ = abstract(lambda rngs: KINDS[kind](rngs=rngs))
    rng = np.random.default_rng(0)
    return structure, {name: jnp.asarray(rng.normal(size=x.shape) * 0.7, x.dtype) for name, x in shapes.items()}


def oracle(kind, p, x, visible):
    """The docstrings' equations with PyTorch's operations. `visible` [B T T] consists of whole segments."""
    import torch
    from torch.nn import functional

    def convolution(y, kernel, left, groups=1):
        """PyTorch's convolution for each segment separately, with kernel [O I W]."""
        out = torch.zeros(*y.shape[:2], len(kernel), dtype=y.dtype)
        for b in range(B):
            rows = {tuple(row) for row in visible[b]}
            for row in rows:  # positions of a segment see the same positions
                places = [j for j in range(T) if row[j]]
                if not places:
                    continue
                padded = functional.pad(y[b, places].T[None], (left, kernel.shape[2] - 1 - left))
                out = out.index_put(
                    (torch.tensor([b] * len(places)), torch.tensor(places)),
                    functional.conv1d(padded, kernel, groups=groups)[0].T,
                )
        return out

    def separable(y, name, causal):
        kernel = p[f"{name}.kernel"]
        left = kernel.shape[1] - 1 if causal else kernel.shape[1] // 2
        depthwise = convolution(y, kernel[:, None], left, groups=len(kernel)) + p[f"{name}.bias"]
        return depthwise @ p[f"{name}.pointwise.kernel"] + p[f"{name}.pointwise.bias"]

    beside = lambda y, width: functional.pad(y, (0, width - y.shape[-1]))
    norm = lambda y: functional.layer_norm(y, y.shape[-1:], p["norm.scale"], p["norm.bias"], 1e-6)
    if kind == "gated_linear_unit":
        linear = lambda name: x @ p[f"{name}.kernel"] + p[f"{name}.bias"]
        return functional.glu(torch.cat([linear("linear"), linear("gate")], -1), -1)
    if kind == "decoder":
        left, right = (separable(x, name, True) for name in ("left", "right"))
        assert right.shape[-1] == HALF and left.shape[-1] == 2 * D
        return separable(norm(functional.relu(left) + beside(right, 2 * D)), "separable", True)
    kernel = p["right_kernel"].permute(2, 1, 0)
    right = functional.relu(convolution(x, kernel, kernel.shape[2] // 2))
    hidden = norm(functional.relu(x @ p["left.kernel"]) + beside(right, 4 * D))
    return beside(separable(hidden, "separable", False), D)


#: Packed rows cover these cases too.
SLOW = (("decoder", "none"), ("decoder", "padding"), ("decoder", "packed"), ("encoder_even", "packed"))


@pytest.mark.parametrize(
    ("kind", "mask"),
    [pytest.param(*case, id="-".join(case), marks=[pytest.mark.slow] * (case in SLOW)) for case in MASKED],
)
def test_layers_and_their_gradients_are_pytorchs(kind, mask, torch):
    """Compares real positions only. Outputs at padding positions are not specified."""
    structure, parameters = layer(kind)
    x, direction = np.random.default_rng(1).standard_normal((2, B, T, D))
    visible = np.ones((B, T, T), bool) if MASKS[mask] is None else np.broadcast_to(MASKS[mask][:, 0], (B, T, T))
    real = np.diagonal(visible, axis1=1, axis2=2)[..., None]
    direction = direction * real

    tensors = {n: torch.tensor(np.asarray(p, np.float64), requires_grad=True) for n, p in parameters.items()}
    tx = torch.tensor(x, requires_grad=True)
    theirs = oracle(kind, tensors, tx, visible)
    (theirs * torch.tensor(direction)).sum().backward()

    def value(parameters, x):
        given = {} if kind == "gated_linear_unit" else {"mask": MASKS[mask]}
        y, aux = structure.merge(parameters)(x, **given)
        assert aux == {}
        return jnp.sum(y * jnp.asarray(direction, jnp.float32)), y

    run = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))
    gradients, ours = run(parameters, jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(np.asarray(ours) * real, theirs.detach().numpy() * real, atol=5e-5)
    np.testing.assert_allclose(gradients[1], tx.grad.numpy(), atol=2e-4)
    assert not np.asarray(gradients[1])[~real[..., 0]].any()
    for name, tensor in tensors.items():
        scale = max(1.0, float(tensor.grad.abs().max()))
        np.testing.assert_allclose(gradients[0][name], tensor.grad.numpy(), atol=5e-5 * scale, err_msg=name)
        assert np.abs(gradients[0][name]).max() > 1e-4, name


@pytest.mark.parametrize("taps", [pytest.param(1, marks=pytest.mark.slow), 5, pytest.param(17, marks=pytest.mark.slow)])
def test_steps_equal_the_causal_form(taps):
    """The caches hold each convolution's last W - 1 inputs, which are zeros at first, whatever the sequence length."""
    make = lambda rngs: EvolvedDecoderConvolution(
        width=D, left_kernel_width=taps, right_kernel_width=3, kernel_width=taps, rngs=rngs
    )
    structure, shapes, _ = abstract(make)
    rng = np.random.default_rng(0)
    module = structure.merge({n: jnp.asarray(rng.normal(size=x.shape) * 0.7, x.dtype) for n, x in shapes.items()})
    x = jax.random.normal(jax.random.key(0), (B, T, D))
    expected, _ = jax.jit(lambda x: module(x))(x)
    cache, step = module.start(B, 97, x.dtype), jax.jit(module.step)
    reach = {"left": (B, taps - 1, D), "right": (B, 2, D), "separable": (B, taps - 1, 2 * D)}
    assert jax.tree.map(jnp.shape, cache) == reach
    for t in range(T):
        y, cache, aux = step(x[:, t : t + 1], cache, jnp.asarray(t))
        assert aux == {}
        np.testing.assert_allclose(y[:, 0], expected[:, t], atol=1e-5)


def test_bfloat16_stays_bfloat16():
    x = jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16)
    for kind, mask in MASKED:
        structure, parameters = layer(kind)
        given = {} if kind == "gated_linear_unit" else {"mask": MASKS[mask]}
        y, _ = jax.eval_shape(lambda x, s=structure, p=parameters, given=given: s.merge(p)(x, **given), x)
        assert y.dtype == jnp.bfloat16, (kind, mask)
    structure, parameters = layer("decoder")
    module = structure.merge(parameters)
    y, cache, _ = jax.eval_shape(lambda x: module.step(x[:, :1], module.start(B, T, x.dtype), jnp.asarray(0)), x)
    assert {leaf.dtype for leaf in jax.tree.leaves((y, cache))} == {jnp.dtype(jnp.bfloat16)}


#: Layer -> its number of parameters at width 768, by the formulas of `tests/studies/narang2021_counts.py`.
COUNTS = {
    "gated_linear_unit": (GatedLinearUnit, 2 * (768**2 + 768)),
    "encoder": (
        EvolvedEncoderConvolution,
        768 * 3072 + 3 * 768 * 384 + 2 * 3072 + (9 + 1) * 3072 + 3072 * 384 + 384,
    ),
    "decoder": (
        EvolvedDecoderConvolution,
        (11 + 1) * 768 + 769 * 1536 + (7 + 1) * 768 + 769 * 384 + 2 * 1536 + (7 + 1) * 1536 + 1537 * 768,
    ),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_the_counts_are_those_of_the_release(kind):
    make, count = COUNTS[kind]
    assert sum(x.size for x in abstract(lambda rngs: make(width=768, rngs=rngs))[1].values()) == count


def test_only_products_are_counted_as_matrix_products():
    """A count of matrix products includes 1 x 1 and pointwise convolutions, but not 3 x 1 and depthwise ones."""
    products, convolutions = {}, {}
    for kind in ("encoder", "decoder"):
        structure, parameters = layer(kind)
        for mask in MASKS.values():
            jaxpr = jax.make_jaxpr(lambda p, x, s=structure, mask=mask: s.merge(p)(x, mask=mask)[0])
            text = str(jaxpr(parameters, jnp.ones((B, T, D))))
            products.setdefault(kind, set()).add(text.count("dot_general["))
            convolutions.setdefault(kind, set()).add(text.count("conv_general_dilated["))
    assert products == {"encoder": {2}, "decoder": {3}} and convolutions == {"encoder": {1}, "decoder": {0}}


def test_filters_start_at_the_releases_scale():
    """Depthwise: variance 1/W times 0.774 for the truncation at two deviations.

    Dense: Glorot's U(-a, a) with taps times channels as fans, a^2 = 6 / (3D + 3D/2).
    """
    _, parameters, _ = split(SeparableConvolution(601, 3, 9, rngs=nnx.Rngs(0)))
    assert np.asarray(parameters["kernel"]).var() == pytest.approx(0.774 / 9, rel=0.1)
    _, parameters, _ = split(EvolvedEncoderConvolution(width=64, rngs=nnx.Rngs(0)))
    kernel, limit = np.asarray(parameters["right_kernel"]), np.sqrt(6 / (3 * 64 + 3 * 32))
    assert 0.99 * limit < np.abs(kernel).max() < limit and kernel.var() == pytest.approx(limit**2 / 3, rel=0.05)
